//! Boards and their tiles: docs/tiles.md, and docs/protocol.md, "Board".

use std::collections::HashMap;

use crate::errors::{Code, Outcome, malformed, refuse};
use crate::group::WIDTH;
use crate::log::{Hash, is_included, node_hash, sha256};
use crate::mixing::PROOF_BYTES;

/// Most bytes of messages that a tile has on average.
const MEAN_TILE_BYTES: u64 = 40_000;

/// Longest tile with its proof that a device reads.
pub const MOST_TILE_BYTES: usize = 50_000;

/// Most tiles of a board, a power of two.
pub const MOST_TILES: u64 = 1 << 24;

const HASH_BYTES: usize = 32;

/// Where a plain message has its symbol, and the tag by which its sender recognises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub width: usize,
    tag: (usize, usize),
    symbol: (usize, usize),
}

impl Layout {
    /// Of `symbol || tag`.
    pub fn plain(symbol_bytes: usize) -> Self {
        let width = symbol_bytes + crate::TAG_BYTES;
        Self { width, tag: (symbol_bytes, width), symbol: (0, symbol_bytes) }
    }

    /// Of `key || symbol || proof` in verified rounds.
    pub fn verified(symbol_bytes: usize) -> Self {
        let symbol = (WIDTH, WIDTH + symbol_bytes);
        Self { width: symbol.1 + PROOF_BYTES, tag: (0, WIDTH), symbol }
    }

    /// Of messages of this length; None if no round has such messages.
    pub fn of_length(width: usize) -> Option<Self> {
        (1..=4).flat_map(|bytes| [Self::plain(bytes), Self::verified(bytes)]).find(|layout| layout.width == width)
    }

    fn tag<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        &message[self.tag.0..self.tag.1]
    }

    /// The symbol of a message.
    pub fn symbol(&self, message: &[u8]) -> u64 {
        message[self.symbol.0..self.symbol.1].iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    /// Position in a tile: messages are ordered by tags, those of one tag by all their bytes.
    fn order<'a>(&self, message: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (self.tag(message), message)
    }

    /// The tile of a board with 2^bits tiles that a message belongs to.
    pub fn tile_of(&self, message: &[u8], bits: u32) -> u64 {
        let prefix = self.tag(message)[..4].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        prefix >> (32 - bits)
    }

    /// Leading bits of a tag that select its tile, on a board with so many messages.
    ///
    /// They follow from the signed number: smaller tiles would give away more of a request.
    pub fn tile_bits(&self, messages: u64) -> u32 {
        let tiles = messages.saturating_mul(self.width as u64).div_ceil(MEAN_TILE_BYTES).max(1);
        tiles.min(MOST_TILES).next_power_of_two().ilog2()
    }

    /// How many of a user's messages are among these once and unchanged, under tags of their own.
    pub fn count_intact(&self, rows: &[&[u8]], mine: &[&[u8]]) -> usize {
        let mut by_tag: HashMap<&[u8], (usize, u64)> = mine.iter().map(|message| (self.tag(message), (0, 0))).collect();
        for row in rows {
            if let Some(entry) = by_tag.get_mut(self.tag(row)) {
                *entry = (entry.0 + 1, self.symbol(row));
            }
        }
        mine.iter().filter(|message| by_tag.get(self.tag(message)) == Some(&(1, self.symbol(message)))).count()
    }

    /// The symbols of the messages that count on a board, and how many do not.
    pub fn count(&self, board: &[u8], alphabet: u64) -> Counted {
        let mut rows: Vec<&[u8]> = board.chunks_exact(self.width).collect();
        rows.sort_unstable_by_key(|row| self.tag(row));
        let mut counted = Counted { symbols: Vec::with_capacity(rows.len()), outside: 0, repeated: 0 };
        for run in rows.chunk_by(|row, next| self.tag(row) == self.tag(next)) {
            for symbol in run.iter().map(|row| self.symbol(row)) {
                if symbol >= alphabet {
                    counted.outside += 1;
                } else if run.len() > 1 {
                    counted.repeated += 1;
                } else {
                    counted.symbols.push(symbol);
                }
            }
        }
        counted
    }

    /// The root of the tree over all tiles of a board.
    pub fn tiles_root(&self, board: &[u8]) -> Hash {
        let mut rows: Vec<&[u8]> = board.chunks_exact(self.width).collect();
        rows.sort_unstable_by_key(|row| self.order(row));
        let bits = self.tile_bits(rows.len() as u64);
        let mut rest = &rows[..];
        let mut level: Vec<Hash> = Vec::with_capacity(1 << bits);
        for index in 0..1 << bits {
            let (tile, later) = rest.split_at(rest.partition_point(|row| self.tile_of(row, bits) <= index));
            level.push(sha256(&[&[0], &tile.concat()]));
            rest = later;
        }
        while level.len() > 1 {
            level = level.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
        }
        level[0]
    }

    /// The number of these messages that belong into a tile; checks that the tile is the one that the
    /// analyst signed, and that they are in it once and unchanged.
    pub fn check_tile(&self, stated: &StatedTiles, index: u64, tile: &[u8], mine: &[&[u8]]) -> Outcome<usize> {
        let Some(root) = stated.root else {
            return malformed("the result lists no tiles; check with the whole board");
        };
        let bits = self.tile_bits(stated.messages);
        let bad = |what: &str| refuse(Code::BadBatch, format!("tile {index} {what}"));
        if tile.len() > MOST_TILE_BYTES {
            return bad("is longer than a device reads; check with the whole board");
        }
        let parts = tile.split_at_checked(HASH_BYTES * bits as usize);
        let Some((proof, messages)) = parts.filter(|(_, messages)| messages.len().is_multiple_of(self.width)) else {
            return bad("does not consist of a proof and whole messages");
        };
        let hashes: Vec<Hash> =
            proof.chunks_exact(HASH_BYTES).map(|hash| hash.try_into().unwrap_or_default()).collect();
        if !is_included(sha256(&[&[0], messages]), index, 1 << bits, &root, &hashes) {
            return bad("is not the one that the analyst signed; fetch it again");
        }
        let rows: Vec<&[u8]> = messages.chunks_exact(self.width).collect();
        let in_order = rows.is_sorted_by_key(|row| self.order(row));
        if !in_order || rows.iter().any(|row| self.tile_of(row, bits) != index) {
            return bad("has messages of another tile, or has them in another order");
        }
        let belonging: Vec<&[u8]> =
            mine.iter().copied().filter(|message| self.tile_of(message, bits) == index).collect();
        let intact = self.count_intact(&rows, &belonging);
        if intact < belonging.len() {
            let missing = belonging.len() - intact;
            let what = format!("{missing} of {} messages are not on the board unchanged", belonging.len());
            return refuse(Code::ReceiptMissing, format!("{what}; keep the receipt: it is evidence"));
        }
        Ok(intact)
    }
}

/// What a board has: the symbols that count, and how many messages do not.
pub struct Counted {
    pub symbols: Vec<u64>,
    /// Messages with a symbol outside the alphabet.
    pub outside: u64,
    /// Other messages whose tag occurs more than once.
    pub repeated: u64,
}

/// What a signed result states about the tiles of its board.
pub struct StatedTiles {
    pub messages: u64,
    /// Root of the tree over all tiles; None in results of earlier versions.
    pub root: Option<Hash>,
}
