//! Batches over one path: the crate's door, without Python.

use crate::batches::GROUP;
use crate::comb::Table;
use crate::ladder::clamped;
use crate::paths::{Path, available};
use crate::sealed::{self, OVERHEAD};
use crate::signatures::negated;
use crate::words::{Bytes, told};
use curve25519_dalek::scalar::Scalar;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

/// u of the base point.
const BASE: Bytes = {
    let mut u = [0; 32];
    u[0] = 9;
    u
};

/// The base point's encoding (RFC 8032).
const ENCODED_BASE: Bytes = {
    let mut y = [0x66; 32];
    y[0] = 0x58;
    y
};

/// Signatures of one key before it is worth a table.
const SIGNATURES_BEFORE_TABLE: usize = 64;

/// Seals to one key before it is worth a table.
const SEALS_BEFORE_TABLE: usize = 64;

/// Secrets that are overwritten when they are no longer needed.
pub type Secrets = Zeroizing<Vec<Bytes>>;

/// One path that this processor has, with the table of the base point.
pub struct Engine {
    path: &'static Path,
    base: OnceLock<Table>,
    encoded_base: OnceLock<Table>,
}

/// What a batch of sealed boxes gave: plaintexts of those that open, and the indices of those that do not.
pub struct Opened {
    pub plain: Vec<u8>,
    pub closed: Vec<usize>,
}

/// A key to which many boxes are sealed, with its table once that pays.
pub struct Recipient {
    public: Bytes,
    sealed: AtomicUsize,
    table: OnceLock<Option<Table>>,
}

/// A signature (R, S), and the hash of nonce, key and text.
pub struct Signature {
    pub r: Bytes,
    pub s: Bytes,
    pub challenge: [u8; 64],
}

/// A key under which many signatures are checked, with its table once that pays.
pub struct Signer {
    public: Bytes,
    checked: AtomicUsize,
    table: OnceLock<Option<Table>>,
}

impl Signer {
    pub fn new(public: Bytes) -> Self {
        Self { public, checked: AtomicUsize::new(0), table: OnceLock::new() }
    }

    /// Whether there is a table.
    pub fn has_table(&self) -> bool {
        matches!(self.table.get(), Some(Some(_)))
    }
}

impl Recipient {
    pub fn new(public: Bytes) -> Self {
        Self { public, sealed: AtomicUsize::new(0), table: OnceLock::new() }
    }

    /// Whether there is a table; a key outside the prime-order group has none and takes the ladder.
    pub fn has_table(&self) -> bool {
        matches!(self.table.get(), Some(Some(_)))
    }
}

impl Engine {
    /// The path of that name, or `None` if this processor does not have it.
    pub fn named(name: &str) -> Option<Self> {
        available().find(|path| path.name == name).map(|path| Self {
            path,
            base: OnceLock::new(),
            encoded_base: OnceLock::new(),
        })
    }

    pub fn path(&self) -> &'static Path {
        self.path
    }

    /// X25519 (RFC 7748) of secrets[i] and points[i]; zeros where the point has low order.
    pub fn x25519(&self, secrets: &[Bytes], points: &[Bytes]) -> Secrets {
        assert_eq!(secrets.len(), points.len());
        let clamped: Secrets = secrets.iter().map(clamped).collect::<Vec<_>>().into();
        let mut out: Secrets = vec![[0; 32]; points.len()].into();
        for ((scalars, points), out) in clamped.chunks(GROUP).zip(points.chunks(GROUP)).zip(out.chunks_mut(GROUP)) {
            // SAFETY: an engine exists only for a path that this processor has.
            unsafe { (self.path.ladders)(scalars, points, out) };
        }
        out
    }

    /// Public keys of these secrets.
    pub fn public_keys(&self, secrets: &[Bytes]) -> Vec<Bytes> {
        let base = self.base.get_or_init(|| self.table(&BASE).expect("the base point has prime order"));
        self.combs(base, secrets).to_vec()
    }

    /// X25519 of each secret and the recipient's key; zeros if that has low order.
    pub fn agreed(&self, recipient: &Recipient, secrets: &[Bytes]) -> Secrets {
        let before = recipient.sealed.fetch_add(secrets.len(), Ordering::Relaxed);
        if before + secrets.len() >= SEALS_BEFORE_TABLE
            && let Some(table) = recipient.table.get_or_init(|| self.table(&recipient.public))
        {
            return self.combs(table, secrets);
        }
        self.x25519(secrets, &vec![recipient.public; secrets.len()])
    }

    /// Opens boxes of `width` bytes, one after another in `packed`, that were sealed to the key of `secret`.
    ///
    /// `width` is at least `OVERHEAD`, and `packed` a whole number of boxes.
    pub fn open(&self, secret: &Bytes, packed: &[u8], width: usize) -> Opened {
        assert!(width >= OVERHEAD && packed.len().is_multiple_of(width));
        let public = self.public_keys(&[*secret])[0];
        let scalars: Secrets = vec![*secret; GROUP].into();
        let mut plain = Vec::with_capacity(packed.len() / width * (width - OVERHEAD));
        let mut closed = Vec::new();
        for (number, group) in packed.chunks(GROUP * width).enumerate() {
            let points: Vec<Bytes> = group.chunks_exact(width).map(ephemeral).collect();
            let shared = self.x25519(&scalars[..points.len()], &points);
            let records: Vec<&[u8]> = group.chunks_exact(width).collect();
            self.streams(&shared, &points, &public, width - OVERHEAD, |place, stream| {
                if is_zero(&shared[place]) || !sealed::open(stream, records[place], &mut plain) {
                    closed.push(number * GROUP + place);
                }
            });
        }
        Opened { plain, closed }
    }

    /// Seals plaintexts of `width` bytes, one after another in `packed`, each under its own ephemeral secret.
    ///
    /// `None` if the recipient's key has low order: whoever sees the box could open it.
    pub fn seal(&self, to: &Recipient, ephemerals: &[Bytes], packed: &[u8], width: usize) -> Option<Vec<u8>> {
        assert_eq!(packed.len(), ephemerals.len() * width);
        let mut out = vec![0; ephemerals.len() * (width + OVERHEAD)];
        let shown = self.public_keys(ephemerals);
        let shared = self.agreed(to, ephemerals);
        if shared.iter().any(is_zero) {
            return None;
        }
        self.streams(&shared, &shown, &to.public, width, |place, stream| {
            let record = &mut out[place * (width + OVERHEAD)..][..width + OVERHEAD];
            sealed::seal(stream, &shown[place], &packed[place * width..][..width], record);
        });
        Some(out)
    }

    /// Whether [S]B - [h]A, encoded, is R byte by byte, for each signature under its own key A: as `ed25519::holds`.
    ///
    /// No key or nonce is refused for its order or for a second spelling: the caller does that.
    pub fn hold(&self, keys: &[Bytes], signatures: &[Signature]) -> Vec<bool> {
        assert_eq!(keys.len(), signatures.len());
        let base = self.encoded_base();
        let mut holding = Vec::with_capacity(signatures.len());
        for (keys, signatures) in keys.chunks(GROUP).zip(signatures.chunks(GROUP)) {
            let keys: Vec<_> = keys.iter().map(negated).collect();
            let (s, h) = scalars(signatures);
            let (mut sums, mut found) = (vec![[0; 32]; keys.len()], vec![false; keys.len()]);
            // SAFETY: as in `x25519`.
            unsafe { (self.path.sums_by_keys)(base, &keys, &s, &h, &mut sums, &mut found) };
            holding.extend(signatures.iter().zip(&sums).zip(found).map(|((one, sum), found)| found && agrees(one, sum)));
        }
        holding
    }

    /// The same for signatures under one key.
    pub fn hold_under(&self, signer: &Signer, signatures: &[Signature]) -> Vec<bool> {
        let before = signer.checked.fetch_add(signatures.len(), Ordering::Relaxed);
        if before + signatures.len() < SIGNATURES_BEFORE_TABLE {
            return self.hold(&vec![signer.public; signatures.len()], signatures);
        }
        // SAFETY: as in `x25519`.
        let Some(table) = signer.table.get_or_init(|| unsafe { (self.path.encoded_table)(&negated(&signer.public)) })
        else {
            return vec![false; signatures.len()];
        };
        let base = self.encoded_base();
        let mut holding = Vec::with_capacity(signatures.len());
        for signatures in signatures.chunks(GROUP) {
            let (s, h) = scalars(signatures);
            let mut sums = vec![[0; 32]; s.len()];
            // SAFETY: as in `x25519`.
            unsafe { (self.path.sums_by_table)(base, table, &s, &h, &mut sums) };
            holding.extend(signatures.iter().zip(&sums).map(|(one, sum)| agrees(one, sum)));
        }
        holding
    }

    fn encoded_base(&self) -> &Table {
        // SAFETY: as in `x25519`.
        self.encoded_base.get_or_init(|| unsafe { (self.path.encoded_table)(&ENCODED_BASE) }.expect("a point"))
    }

    /// Calls `each` with the place and the stream of every box with texts of this width, in order.
    fn streams(
        &self,
        shared: &[Bytes],
        ephemerals: &[Bytes],
        public: &Bytes,
        width: usize,
        mut each: impl FnMut(usize, &[u8]),
    ) {
        let (at_once, size) = (2 * self.path.lanes, sealed::stream_bytes(width));
        let mut streams = Zeroizing::new(vec![0; at_once * size]);
        for (group, (shared, ephemerals)) in shared.chunks(at_once).zip(ephemerals.chunks(at_once)).enumerate() {
            let nonces: Vec<_> = ephemerals.iter().map(|ephemeral| sealed::nonce(ephemeral, public)).collect();
            let own = &mut streams[..shared.len() * size];
            // SAFETY: as in `x25519`.
            unsafe { (self.path.streams)(shared, &nonces, own) };
            for (place, stream) in own.chunks_exact(size).enumerate() {
                each(group * at_once + place, stream);
            }
        }
    }

    fn table(&self, u: &Bytes) -> Option<Table> {
        // SAFETY: as in `x25519`.
        unsafe { (self.path.table)(u) }
    }

    fn combs(&self, table: &Table, secrets: &[Bytes]) -> Secrets {
        let clamped: Secrets = secrets.iter().map(clamped).collect::<Vec<_>>().into();
        let mut out: Secrets = vec![[0; 32]; secrets.len()].into();
        for (scalars, out) in clamped.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
            // SAFETY: as in `x25519`.
            unsafe { (self.path.combs)(table, scalars, out) };
        }
        out
    }
}

fn ephemeral(record: &[u8]) -> Bytes {
    record[..32].try_into().expect("a record is longer than a key")
}

fn is_zero(point: &Bytes) -> bool {
    told(point.iter().fold(0, |all, byte| all | byte)) == 0
}

/// S of each signature where it is below the group's order, and its hash modulo that.
fn scalars(signatures: &[Signature]) -> (Vec<Bytes>, Vec<Bytes>) {
    let s = signatures.iter().map(|one| if is_canonical(&one.s) { one.s } else { [0; 32] }).collect();
    let h = signatures.iter().map(|one| Scalar::from_bytes_mod_order_wide(&one.challenge).to_bytes()).collect();
    (s, h)
}

fn is_canonical(s: &Bytes) -> bool {
    Scalar::from_canonical_bytes(*s).is_some().into()
}

fn agrees(signature: &Signature, sum: &Bytes) -> bool {
    is_canonical(&signature.s) && signature.r == *sum
}
