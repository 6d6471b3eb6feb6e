//! Batches in ristretto255. All arithmetic is `curve25519-dalek`'s: nothing here is ours but the loops.
//!
//! Secrets are factors of `Elements::times` and `Base::times` alone, whose time does not depend on them. They and what
//! comes out are overwritten when they are dropped; what the library kept on the way, to encode a batch, is not.

use curve25519_dalek::ristretto::{
    CompressedRistretto, RistrettoBasepointTable, RistrettoPoint, VartimeRistrettoPrecomputation,
};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, VartimeMultiscalarMul, VartimePrecomputedMultiscalarMul};
use std::iter::successors;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

pub use crate::engine::Secrets;
pub use crate::words::Bytes;

/// The number that these bytes encode, or `None` if it is not below the group's order.
pub fn scalar(bytes: &Bytes) -> Option<Scalar> {
    Scalar::from_canonical_bytes(*bytes).into()
}

/// The element that these bytes encode, or `None` for another encoding and for the identity.
pub fn element(bytes: &Bytes) -> Option<RistrettoPoint> {
    CompressedRistretto(*bytes).decompress().filter(|point| *point != RistrettoPoint::identity())
}

/// Elements that are decoded once.
pub struct Elements(Vec<RistrettoPoint>);

impl Elements {
    /// The elements, or the place of the first one that is none.
    pub fn new(encoded: &[Bytes]) -> Result<Self, usize> {
        encoded.iter().enumerate().map(|(place, bytes)| element(bytes).ok_or(place)).collect::<Result<_, _>>().map(Self)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every element times a secret factor.
    pub fn times(&self, factor: &Scalar) -> Secrets {
        // All are encoded with one inversion, which gives twice what it is given.
        let half = Zeroizing::new(factor.div_by_2());
        doubled(&Zeroizing::new(self.0.iter().map(|point| point * *half).collect::<Vec<_>>())).into()
    }

    /// The sum.
    pub fn total(&self) -> Bytes {
        self.0.iter().sum::<RistrettoPoint>().compress().0
    }

    /// The sum of c^j times the j-th element, counted from `first` + 1. For public numbers: the time depends on them.
    pub fn powers(&self, c: &Scalar, first: u64) -> Bytes {
        let start = (0..first).fold(*c, |power, _| power * c);
        let weights: Vec<_> = successors(Some(start), |power| Some(power * c)).take(self.0.len()).collect();
        RistrettoPoint::vartime_multiscalar_mul(&weights, &self.0).compress().0
    }

    /// z_j times the base less c_j times the j-th element. For public numbers: the time depends on them.
    pub fn commitments(&self, base: &RistrettoPoint, c: &[Scalar], z: &[Scalar]) -> Vec<Bytes> {
        let table = VartimeRistrettoPrecomputation::new([base]);
        let half = |z: &Scalar| z.div_by_2();
        let terms = self.0.iter().zip(c).zip(z);
        let one = |((point, c), z)| table.vartime_mixed_multiscalar_mul([half(z)], [-half(c)], [point]);
        doubled(&terms.map(one).collect::<Vec<_>>())
    }
}

/// An element that many secrets are multiplied with, with its table once that pays.
pub struct Base {
    point: RistrettoPoint,
    multiplied: AtomicUsize,
    table: OnceLock<RistrettoBasepointTable>,
}

/// A table costs what a hundred multiplications gain by it.
const MULTIPLES_BEFORE_TABLE: usize = 128;

impl Base {
    pub fn new(point: RistrettoPoint) -> Self {
        Self { point, multiplied: AtomicUsize::new(0), table: OnceLock::new() }
    }

    pub fn has_table(&self) -> bool {
        self.table.get().is_some()
    }

    /// The base times each secret factor.
    pub fn times(&self, factors: &[Scalar]) -> Secrets {
        let halves: Zeroizing<Vec<_>> = Zeroizing::new(factors.iter().map(Scalar::div_by_2).collect());
        let before = self.multiplied.fetch_add(factors.len(), Ordering::Relaxed);
        let found = if before.saturating_add(factors.len()) >= MULTIPLES_BEFORE_TABLE {
            let table = self.table.get_or_init(|| RistrettoBasepointTable::create(&self.point));
            halves.iter().map(|half| table * half).collect::<Vec<_>>()
        } else {
            halves.iter().map(|half| self.point * half).collect()
        };
        doubled(&Zeroizing::new(found)).into()
    }
}

fn doubled(halves: &[RistrettoPoint]) -> Vec<Bytes> {
    RistrettoPoint::double_and_compress_batch(halves).into_iter().map(|encoded| encoded.0).collect()
}
