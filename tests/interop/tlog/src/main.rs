//! Reads a log's folder with other people's code: `tlog-verifier FOLDER KEY`.
//!
//! The signature of the checkpoint, the tiles, an inclusion proof for each entry of the bundles, and
//! a consistency proof from each earlier size are checked; the number of entries is printed.

use std::{env, error::Error, fs, path::PathBuf};

use signed_note::{Note, StandardVerifier, VerifierList};
use tlog_tiles::{
    check_record, check_tree, prove_record, prove_tree, record_hash, tree_hash, Checkpoint, Tile,
    TileHashReader, TileReader,
};

struct Folder(PathBuf);

impl Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, tlog_tiles::tlog::Error> {
        // The crate's paths name the height of tiles, which is always 8 in the files of a log.
        let path = path.replacen("tile/8/data/", "tile/entries/", 1);
        let path = path.replacen("tile/8/", "tile/", 1);
        Ok(fs::read(self.0.join(path)).expect("a file of the log"))
    }
}

impl TileReader for Folder {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, tlog_tiles::tlog::Error> {
        tiles.iter().map(|tile| self.read(&tile.path())).collect()
    }

    fn save_tiles(&self, _tiles: &[Tile], _data: &[Vec<u8>]) {}
}

/// Entries of the bundles, each behind its length in two bytes.
fn entries(folder: &Folder, size: u64) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut entries = Vec::new();
    for index in 0..size.div_ceil(256) {
        let width = (size - 256 * index).min(256) as u32;
        let data = folder.read(&Tile::new(8, 0, index, width, true).path())?;
        let mut rest = &data[..];
        while rest.len() >= 2 {
            let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            entries.push(rest[2..2 + length].to_vec());
            rest = &rest[2 + length..];
        }
    }
    Ok(entries)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let folder = Folder(PathBuf::from(&arguments[1]));
    let note = Note::from_bytes(&fs::read(folder.0.join("checkpoint"))?)?;
    let verifier = StandardVerifier::new(&arguments[2])?;
    note.verify(&VerifierList::new(vec![Box::new(verifier)]))?;
    let checkpoint = Checkpoint::from_bytes(note.text()).map_err(|_| "not a checkpoint")?;
    let (size, root) = (checkpoint.size(), *checkpoint.hash());
    let hashes = TileHashReader::new(size, root, &folder);
    assert!(tree_hash(size, &hashes)? == root, "the tiles have another root");
    let entries = entries(&folder, size)?;
    assert!(entries.len() as u64 == size, "the bundles have another number of entries");
    for (number, entry) in (0..size).zip(&entries) {
        let proof = prove_record(size, number, &hashes)?;
        check_record(&proof, size, root, number, record_hash(entry))?;
    }
    for old in 1..=size {
        let proof = prove_tree(size, old, &hashes)?;
        check_tree(&proof, size, root, old, tree_hash(old, &hashes)?)?;
    }
    println!("{size}");
    Ok(())
}
