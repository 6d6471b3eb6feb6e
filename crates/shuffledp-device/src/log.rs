//! The public log: docs/log.md, "What devices check".

use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};

use crate::documents::quote;
use crate::errors::{Code, Outcome, malformed, refuse};
use crate::json::Value;
use crate::rounds::Roster;
use crate::schema::{from_hex, to_hex};
use crate::signatures::check_signature;

/// A hash of a Merkle tree (RFC 6962).
pub type Hash = [u8; 32];

const MOST_NOTE: usize = 1 << 16;
const MOST_PROOF: usize = 1 << 17;
const MOST_WINDOW: u64 = 1024;
const MOST_ENTRY: usize = 65_535;

/// What an entry of the log is about.
pub struct Entry<'a> {
    pub event: &'a str,
    pub population: &'a str,
    pub round_id: &'a str,
    /// Documents that the entry has in full.
    pub documents: &'a [&'a str],
    /// Digest of a document that it has by its digest only.
    pub digest: Option<&'a str>,
}

impl Entry<'_> {
    fn to_text(&self) -> String {
        let documents: Vec<String> = self.documents.iter().map(|document| quote(document)).collect();
        let digest = self.digest.map_or_else(String::new, |digest| format!(",\"digest\":{}", quote(digest)));
        format!(
            "{{\"event\":{},\"population\":{},\"round_id\":{},\"documents\":[{}]{digest}}}",
            quote(self.event),
            quote(self.population),
            quote(self.round_id),
            documents.join(","),
        )
    }
}

/// A state of the log that enough witnesses signed.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    origin: String,
    pub size: u64,
    root: Hash,
    window: Window,
    /// The witnesses that signed it.
    pub witnesses: Vec<String>,
    /// The proof as it came, which the device keeps for the next round.
    pub text: String,
}

fn unlogged<T>(what: &str) -> Outcome<T> {
    refuse(Code::LogProof, format!("{what}; do not take part"))
}

/// SHA-256 of all parts in a row.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut state = Sha256::new();
    for part in parts {
        state.update(part);
    }
    state.finalize().into()
}

/// The hash of a node of a tree.
pub(crate) fn node_hash(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
}

fn from_base64(text: &str) -> Outcome<Vec<u8>> {
    match Base64::decode_vec(text) {
        Ok(bytes) if Base64::encode_string(&bytes) == text => Ok(bytes),
        _ => malformed("not base64 in its one spelling"),
    }
}

fn hash_of(text: &str) -> Outcome<Hash> {
    from_base64(text)?.try_into().or_else(|_| malformed("a hash does not have 32 bytes"))
}

/// A number of entries, in its one spelling, of at most 19 digits.
fn count_of(text: &str) -> Outcome<u64> {
    let digits = (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits && (text == "0" || !text.starts_with('0')) => Ok(number),
        _ => malformed("not a number of entries of a log"),
    }
}

/// Whether this can be the name of a key or a log: 1 to 255 characters, no white space, no plus.
fn is_name(text: &str) -> bool {
    let inner = |character: char| !character.is_whitespace() && character != '+';
    (1..=255).contains(&text.chars().count()) && text.chars().all(inner)
}

/// A signed note (C2SP signed-note); nothing in it is believed.
struct Note {
    text: String,
    signatures: Vec<(String, Vec<u8>)>,
}

impl Note {
    fn parse(text: &str) -> Outcome<Self> {
        let Some(end) = text.rfind("\n\n") else { return malformed("not a signed note") };
        let controls = text.bytes().any(|byte| byte < 0x20 && byte != b'\n');
        if text.len() > MOST_NOTE || controls || end + 2 >= text.len() || !text.ends_with('\n') {
            return malformed("not a signed note");
        }
        let lines: Vec<&str> = text[end + 2..text.len() - 1].split('\n').collect();
        if lines.len() > 100 {
            return malformed("not a signed note");
        }
        let signatures = lines.iter().map(|line| signature_of(line)).collect::<Outcome<_>>()?;
        Ok(Self { text: text[..end + 1].into(), signatures })
    }

    /// Checks the signature of a key; `message` makes what it signs of the bytes before it.
    fn check(
        &self,
        name: &str,
        key: &[u8],
        algorithm: u8,
        before: usize,
        message: impl Fn(&[u8]) -> Outcome<String>,
    ) -> Outcome<()> {
        let id = sha256(&[name.as_bytes(), b"\n", &[algorithm], key]);
        let by_key = |(signer, blob): &&(String, Vec<u8>)| signer == name && blob[..4] == id[..4];
        match self.signatures.iter().find(by_key) {
            Some((_, blob)) if blob.len() == 68 + before => {
                let text = message(&blob[4..4 + before])?;
                check_signature(key, &blob[4 + before..], text.as_bytes())
            }
            _ => refuse(Code::Signature, format!("the log's checkpoint is not signed by {name}")),
        }
    }

    fn has_cosigned(&self, witness: &Value) -> Outcome<bool> {
        let key = from_hex(witness.text_at("public_key")).unwrap_or_default();
        let message = |time: &[u8]| {
            let seconds = time.iter().fold(0, |all: u64, byte| all << 8 | u64::from(*byte));
            if seconds >> 63 == 1 {
                return refuse(Code::Signature, "a time out of range");
            }
            Ok(format!("cosignature/v1\ntime {seconds}\n{}", self.text))
        };
        match self.check(witness.text_at("name"), &key, 4, 8, message) {
            Ok(()) => Ok(true),
            Err(refusal) if refusal.code == Code::Signature => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }
}

fn signature_of(line: &str) -> Outcome<(String, Vec<u8>)> {
    let parts = line.strip_prefix("\u{2014} ").and_then(|rest| rest.split_once(' '));
    let Some((name, encoded)) = parts.filter(|(name, _)| is_name(name)) else {
        return malformed("not a signature of a note");
    };
    let blob = from_base64(encoded)?;
    if blob.len() > 4 { Ok((name.into(), blob)) } else { malformed("a note's signature is too short") }
}

/// A proof of inclusion (C2SP tlog-proof); nothing in it is believed.
struct Proof {
    index: u64,
    hashes: Vec<Hash>,
    extra: Vec<u8>,
    note: Note,
}

impl Proof {
    fn parse(text: &str) -> Outcome<Self> {
        let wrong = || malformed("not a proof of the public log");
        let Some((head, note)) = text.split_once("\n\n") else { return wrong() };
        if text.len() > MOST_PROOF {
            return wrong();
        }
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some("c2sp.org/tlog-proof@v1") {
            return wrong();
        }
        let mut extra = Vec::new();
        if let Some(encoded) = lines.peek().and_then(|line| line.strip_prefix("extra ")) {
            extra = from_base64(encoded)?;
            if extra.is_empty() {
                return wrong();
            }
            lines.next();
        }
        let Some(index) = lines.next().and_then(|line| line.strip_prefix("index ")) else { return wrong() };
        let hashes: Vec<&str> = lines.collect();
        if hashes.len() > 63 {
            return wrong();
        }
        Ok(Self {
            index: count_of(index)?,
            hashes: hashes.iter().map(|hash| hash_of(hash)).collect::<Outcome<_>>()?,
            extra,
            note: Note::parse(note)?,
        })
    }

    /// The checkpoint under the log's key, with its window.
    fn checkpoint(&self, name: &str, key: &[u8]) -> Outcome<(String, u64, Hash)> {
        self.note.check(name, key, 1, 0, |_| Ok(self.note.text.clone()))?;
        let lines: Vec<&str> = self.note.text.trim_end_matches('\n').split('\n').collect();
        match lines.as_slice() {
            [origin, size, root] if is_name(origin) && self.note.text.matches('\n').count() == 3 => {
                Ok(((*origin).into(), count_of(size)?, hash_of(root)?))
            }
            _ => malformed("not a checkpoint of a log"),
        }
    }
}

/// What lies beside a checkpoint: roots of the subtrees before it, and the hashes of later entries.
#[derive(Clone, Debug)]
struct Window {
    base: u64,
    peaks: Vec<(u32, Hash)>,
    later: Vec<Hash>,
}

impl Window {
    fn parse(extra: &[u8], size: u64) -> Outcome<Self> {
        let wrong = || malformed("not the window of a log of this size");
        let Some((first, packed)) = extra.split_at_checked(8) else { return wrong() };
        let base = first.iter().fold(0, |all: u64, byte| all << 8 | u64::from(*byte));
        let levels: Vec<u32> = (0..64).rev().filter(|level| base >> level & 1 == 1).collect();
        let Some(most) = size.checked_sub(base).filter(|most| *most <= MOST_WINDOW) else { return wrong() };
        if packed.len() != 32 * (levels.len() + most as usize) {
            return wrong();
        }
        let mut hashes = packed.chunks_exact(32).map(|chunk| -> Hash { chunk.try_into().unwrap_or_default() });
        let peaks = levels.into_iter().zip(hashes.by_ref()).collect();
        Ok(Self { base, peaks, later: hashes.collect() })
    }

    /// The root of the log's first `size` entries (RFC 6962), from the base to the window's end.
    fn root_of(&self, size: u64) -> Hash {
        let mut peaks = self.peaks.clone();
        for leaf in &self.later[..(size - self.base) as usize] {
            let (mut level, mut above) = (0, *leaf);
            while let Some((_, before)) = peaks.pop_if(|(height, _)| *height == level) {
                above = node_hash(&before, &above);
                level += 1;
            }
            peaks.push((level, above));
        }
        let joined = peaks.into_iter().map(|(_, root)| root).rev().reduce(|after, before| node_hash(&before, &after));
        joined.unwrap_or_else(|| sha256(&[]))
    }
}

/// Whether these hashes lead from a leaf to the root of a tree of so many leaves (RFC 9162, 2.1.3.2).
pub(crate) fn is_included(leaf: Hash, index: u64, size: u64, root: &Hash, hashes: &[Hash]) -> bool {
    if index >= size {
        return false;
    }
    let (mut node, mut last, mut computed) = (index, size - 1, leaf);
    for sibling in hashes {
        if last == 0 {
            return false;
        }
        let right = node % 2 == 1 || node == last;
        computed = if right { node_hash(sibling, &computed) } else { node_hash(&computed, sibling) };
        while right && node > 0 && node % 2 == 0 {
            (node, last) = (node >> 1, last >> 1);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && computed == *root
}

/// The name of the deployment's log number `number`.
fn name_of(roster: &Roster, number: usize) -> String {
    let first = format!("shuffledp-ledger/{}", roster.deployment());
    if number == 0 { first } else { format!("{first}/{}", number + 1) }
}

fn key_of(roster: &Roster, log: &Value, number: usize) -> Outcome<Vec<u8>> {
    let ended = log.at("ended").list().get(number).and_then(|ended| ended.at("public_key").text());
    let key = ended.map_or_else(|| roster.only("accountant").map(|party| party.identity_key), |key| Ok(key.into()))?;
    Ok(from_hex(&key).unwrap_or_default())
}

/// What a kept proof shows of the present log; None if that is another one, which has ended.
pub fn read_remembered(text: &str, roster: &Roster) -> Outcome<Option<Checkpoint>> {
    let Some(log) = roster.log() else { return Ok(None) };
    let proof = Proof::parse(text)?;
    let ended = log.at("ended").list();
    let before = ended_number(&proof, roster, ended);
    let number = before.unwrap_or(ended.len());
    let (origin, size, root) = proof.checkpoint(&name_of(roster, number), &key_of(roster, log, number)?)?;
    let Some(at) = before else {
        let window = Window::parse(&proof.extra, size)?;
        return Ok(Some(Checkpoint { origin, size, root, window, witnesses: Vec::new(), text: text.into() }));
    };
    check_ended(size, &root, &ended[at])?;
    Ok(None)
}

/// The number of the ended log that a proof is of, if it is one.
fn ended_number(proof: &Proof, roster: &Roster, ended: &[Value]) -> Option<usize> {
    (0..ended.len()).find(|number| proof.note.text.starts_with(&format!("{}\n", name_of(roster, *number))))
}

fn check_ended(size: u64, root: &Hash, ended: &Value) -> Outcome<()> {
    let end = i128::from(size).cmp(&ended.whole_at("size"));
    if end.is_gt() || end.is_eq() && to_hex(root) != ended.text_at("root") {
        return unlogged("the roster says that an earlier public log ended otherwise than it was shown to this device");
    }
    Ok(())
}

/// Checks that a result is in a public log of the deployment, which may have ended since, and that it
/// does not contradict what this device was shown before.
pub fn check_result_logged(text: &str, roster: &Roster, entry: &Entry, remembered: Option<&Checkpoint>) -> Outcome<()> {
    let Some(log) = roster.log() else { return Ok(()) };
    let proof = Proof::parse(text)?;
    let ended = log.at("ended").list();
    let before = ended_number(&proof, roster, ended);
    let shown = check_proof(proof, text, roster, before.unwrap_or(ended.len()), entry)?;
    match before {
        Some(at) => check_ended(shown.size, &shown.root, &ended[at]),
        None => check_same_history(&shown, remembered),
    }
}

/// Checks that an entry is in the present log, that enough witnesses signed it, and that it does not
/// contradict what this device was shown before.
pub fn check_logged(
    text: &str,
    roster: &Roster,
    entry: &Entry,
    remembered: Option<&Checkpoint>,
) -> Outcome<Checkpoint> {
    let number = roster.log().map_or(0, |log| log.at("ended").list().len());
    let shown = check_proof(Proof::parse(text)?, text, roster, number, entry)?;
    check_same_history(&shown, remembered)?;
    Ok(shown)
}

/// Checks that an entry is in one of the deployment's logs, and that enough witnesses signed it.
fn check_proof(proof: Proof, text: &str, roster: &Roster, number: usize, entry: &Entry) -> Outcome<Checkpoint> {
    let Some(log) = roster.log() else { return unlogged("the roster names no witnesses") };
    let name = name_of(roster, number);
    let (origin, size, root) = proof.checkpoint(&name, &key_of(roster, log, number)?)?;
    if origin != name {
        return unlogged("the checkpoint is of another log");
    }
    let mut witnesses = Vec::new();
    for witness in log.at("witnesses").list() {
        if proof.note.has_cosigned(witness)? {
            witnesses.push(witness.text_at("name").to_owned());
        }
    }
    let needed = log.whole_at("threshold");
    if (witnesses.len() as i128) < needed {
        return unlogged(&format!("{} of the log's witnesses signed it, {needed} are needed", witnesses.len()));
    }
    let window = Window::parse(&proof.extra, size)?;
    if window.root_of(size) != root {
        return unlogged("the window is not of the log");
    }
    let data = entry.to_text();
    if data.len() > MOST_ENTRY {
        return unlogged("no log holds an entry of this length");
    }
    if !is_included(sha256(&[&[0], data.as_bytes()]), proof.index, size, &root, &proof.hashes) {
        return unlogged("the proof does not show that the round is in the public log");
    }
    Ok(Checkpoint { origin, size, root, window, witnesses, text: text.into() })
}

fn check_same_history(shown: &Checkpoint, remembered: Option<&Checkpoint>) -> Outcome<()> {
    let Some(before) = remembered.filter(|before| before.origin == shown.origin) else { return Ok(()) };
    let (newer, older) = if shown.size < before.size { (before, shown) } else { (shown, before) };
    if older.size >= newer.window.base && newer.window.root_of(older.size) != older.root {
        return unlogged("the public log and the one that this device was shown before are two histories");
    }
    Ok(())
}
