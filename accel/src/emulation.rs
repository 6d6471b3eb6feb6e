//! Lanes as plain arrays: the meaning of every operation, on any processor. Slow; for tests and Miri.
//!
//! No operation is inlined: hundreds of copies of each loop would take most of the time of a build.

use crate::field25;
use crate::field51;
use crate::lanes::{Lanes, Madd52, Mul32};

/// N lanes in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulated<const N: usize>([u64; N]);

impl<const N: usize> Emulated<N> {
    #[inline]
    fn each(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let mut result = self.0;
        for lane in 0..N {
            result[lane] = operation(self.0[lane], other.0[lane]);
        }
        Self(result)
    }
}

impl<const N: usize> Lanes<N> for Emulated<N> {
    /// All ones or all zeros in each lane.
    type Mask = [u64; N];

    #[inline(never)]
    fn from_array(values: [u64; N]) -> Self {
        Self(values)
    }
    #[inline(never)]
    fn to_array(self) -> [u64; N] {
        self.0
    }
    #[inline(never)]
    fn splat(value: u64) -> Self {
        Self([value; N])
    }
    #[inline(never)]
    fn add(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }
    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.each(other, u64::wrapping_sub)
    }
    #[inline(never)]
    fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }
    #[inline(never)]
    fn or(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }
    #[inline(never)]
    fn xor(self, other: Self) -> Self {
        self.each(other, |a, b| a ^ b)
    }
    #[inline(never)]
    fn add32(self, other: Self) -> Self {
        self.each(other, |a, b| u64::from((a as u32).wrapping_add(b as u32)) | (a >> 32).wrapping_add(b >> 32) << 32)
    }
    #[inline(never)]
    fn rotated32<const BITS: i32>(self) -> Self {
        self.each(self, |a, _| {
            let [low, high] = [a as u32, (a >> 32) as u32].map(|half| u64::from(half.rotate_left(BITS as u32)));
            low | high << 32
        })
    }
    #[inline(never)]
    fn shl(self, bits: i32) -> Self {
        self.each(self, |a, _| a << bits)
    }
    #[inline(never)]
    fn shr(self, bits: i32) -> Self {
        self.each(self, |a, _| a >> bits)
    }
    #[inline(never)]
    fn eq(self, other: Self) -> Self::Mask {
        // Without a comparison, which a compiler may turn into a branch.
        self.each(other, |a, b| {
            let differ = a ^ b;
            ((differ | differ.wrapping_neg()) >> 63).wrapping_sub(1)
        })
        .0
    }
    #[inline(never)]
    fn select(mask: Self::Mask, no: Self, yes: Self) -> Self {
        let taken = Self(mask).and(yes);
        taken.or(Self(mask).each(no, |m, n| !m & n))
    }
}

impl<const N: usize> Mul32<N> for Emulated<N> {
    #[inline(never)]
    fn mul32(self, other: Self) -> Self {
        const LOW: u64 = (1 << 32) - 1;
        self.each(other, |a, b| (a & LOW) * (b & LOW))
    }
    #[inline(never)]
    fn product(a: &[Self; 10], b: &[Self; 10]) -> [Self; 10] {
        field25::product(a, b)
    }
    #[inline(never)]
    fn square(a: &[Self; 10]) -> [Self; 10] {
        field25::square(a)
    }
}

fn product52(a: u64, b: u64) -> u128 {
    const LOW: u64 = (1 << 52) - 1;
    u128::from(a & LOW) * u128::from(b & LOW)
}

impl<const N: usize> Madd52<N> for Emulated<N> {
    #[inline(never)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        self.add(a.each(b, |a, b| (product52(a, b) & ((1 << 52) - 1)) as u64))
    }
    #[inline(never)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        self.add(a.each(b, |a, b| (product52(a, b) >> 52) as u64))
    }
    #[inline(never)]
    fn product(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        field51::product(a, b)
    }
    #[inline(never)]
    fn square(a: &[Self; 5]) -> [Self; 5] {
        field51::square(a)
    }
}
