//! Four lanes in an AVX2 register.
//!
//! Safety: a value of this type exists only where `engine` has seen AVX2 at run time; each function is one instruction
//! (or a fixed few) without memory access of its own. All are inlined into functions that enable the feature.

use crate::field25;
use crate::lanes::{Lanes, Mul32};
use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::transmute;

/// Four lanes of 64 bits.
#[derive(Clone, Copy)]
pub struct Avx2(__m256i);

impl Lanes<4> for Avx2 {
    /// All ones or all zeros in each lane.
    type Mask = __m256i;

    #[inline(always)]
    fn from_array(values: [u64; 4]) -> Self {
        // SAFETY: both are 32 bytes, and every bit pattern is a value of either.
        Self(unsafe { transmute::<[u64; 4], __m256i>(values) })
    }
    #[inline(always)]
    fn to_array(self) -> [u64; 4] {
        // SAFETY: as above.
        unsafe { transmute::<__m256i, [u64; 4]>(self.0) }
    }
    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(unsafe { _mm256_set1_epi64x(value as i64) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(unsafe { _mm256_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn rotated32<const BITS: i32>(self) -> Self {
        Self(unsafe {
            let (up, down) = (_mm_cvtsi32_si128(BITS), _mm_cvtsi32_si128(32 - BITS));
            _mm256_or_si256(_mm256_sll_epi32(self.0, up), _mm256_srl_epi32(self.0, down))
        })
    }
    #[inline(always)]
    fn shl(self, bits: i32) -> Self {
        Self(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(bits)) })
    }
    #[inline(always)]
    fn shr(self, bits: i32) -> Self {
        Self(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(bits)) })
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self::Mask {
        unsafe { _mm256_cmpeq_epi64(self.0, other.0) }
    }
    #[inline(always)]
    fn select(mask: Self::Mask, no: Self, yes: Self) -> Self {
        Self(unsafe { _mm256_blendv_epi8(no.0, yes.0, mask) })
    }
}

impl Mul32<4> for Avx2 {
    #[inline(always)]
    fn mul32(self, other: Self) -> Self {
        Self(unsafe { _mm256_mul_epu32(self.0, other.0) })
    }
    #[inline(always)]
    fn product(a: &[Self; 10], b: &[Self; 10]) -> [Self; 10] {
        unsafe { black_box(product as Binary)(a, b) }
    }
    #[inline(always)]
    fn square(a: &[Self; 10]) -> [Self; 10] {
        unsafe { black_box(square as Unary)(a) }
    }
}

// Calls that the compiler cannot see through: where it inlines ten of them into a step of the ladder, registers are spilled
// all the time (25.7 us a multiplication instead of 22.2).
type Binary = unsafe fn(&[Avx2; 10], &[Avx2; 10]) -> [Avx2; 10];
type Unary = unsafe fn(&[Avx2; 10]) -> [Avx2; 10];

#[target_feature(enable = "avx2")]
fn product(a: &[Avx2; 10], b: &[Avx2; 10]) -> [Avx2; 10] {
    field25::product(a, b)
}

#[target_feature(enable = "avx2")]
fn square(a: &[Avx2; 10]) -> [Avx2; 10] {
    field25::square(a)
}
