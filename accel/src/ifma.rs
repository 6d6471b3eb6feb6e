//! Eight lanes in an AVX-512 register, with the multiplications of AVX-512-IFMA.
//!
//! Safety: as in `avx2`; `engine` has seen AVX-512 F and IFMA at run time.

use crate::field51;
use crate::lanes::{Lanes, Madd52};
use core::arch::x86_64::*;
use core::mem::transmute;

/// Eight lanes of 64 bits.
#[derive(Clone, Copy)]
pub struct Ifma(__m512i);

impl Lanes<8> for Ifma {
    /// One bit a lane.
    type Mask = __mmask8;

    #[inline(always)]
    fn from_array(values: [u64; 8]) -> Self {
        // SAFETY: both are 64 bytes, and every bit pattern is a value of either.
        Self(unsafe { transmute::<[u64; 8], __m512i>(values) })
    }
    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        // SAFETY: as above.
        unsafe { transmute::<__m512i, [u64; 8]>(self.0) }
    }
    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(unsafe { _mm512_set1_epi64(value as i64) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        Self(unsafe { _mm512_add_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn rotated32<const BITS: i32>(self) -> Self {
        Self(unsafe { _mm512_rol_epi32::<BITS>(self.0) })
    }
    #[inline(always)]
    fn shl(self, bits: i32) -> Self {
        Self(unsafe { _mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits)) })
    }
    #[inline(always)]
    fn shr(self, bits: i32) -> Self {
        Self(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits)) })
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Self::Mask {
        unsafe { _mm512_cmpeq_epi64_mask(self.0, other.0) }
    }
    #[inline(always)]
    fn select(mask: Self::Mask, no: Self, yes: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_epi64(mask, no.0, yes.0) })
    }
    #[inline(always)]
    fn pick(row: &[u64; 8], places: Self) -> Self {
        // A permutation within registers: its time depends on neither operand.
        Self(unsafe { _mm512_permutexvar_epi64(places.0, Self::from_array(*row).0) })
    }
}

impl Madd52<8> for Ifma {
    #[inline(always)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm512_madd52lo_epu64(self.0, a.0, b.0) })
    }
    #[inline(always)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm512_madd52hi_epu64(self.0, a.0, b.0) })
    }
    #[inline(always)]
    fn product(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        unsafe { product(a, b) }
    }
    #[inline(always)]
    fn square(a: &[Self; 5]) -> [Self; 5] {
        unsafe { square(a) }
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn product(a: &[Ifma; 5], b: &[Ifma; 5]) -> [Ifma; 5] {
    field51::product(a, b)
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn square(a: &[Ifma; 5]) -> [Ifma; 5] {
    field51::square(a)
}
