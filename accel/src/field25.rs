//! GF(2^255 - 19) in ten limbs of 26 and 25 bits in turn, for multipliers of 32 bits (Bernstein 2006, "Curve25519").
//!
//! Bounds, with E for even limbs and O for odd ones. A summand has E < 2^26 + 2^20 and O < 2^25 + 2^17: a carried value.
//! A factor is below three times that: a + b, or a + 2p - b. Then 19 E < 2^32 and 38 O < 2^32, what the multiplier
//! reads, and a column is at most 9 x 2^52 (1 + 19 x 6.5) < 2^63.

use crate::field::{Field, Mask};
use crate::lanes::{Lanes, Mul32};
use crate::words;
use core::marker::PhantomData;

/// The field over lanes with 32-bit multiplication.
pub struct Field25<L, const N: usize>(PhantomData<L>);

/// Limbs of a carried value.
#[derive(Clone, Copy)]
pub struct Summand<L>([L; 10]);

/// Limbs of at most three carried values.
#[derive(Clone, Copy)]
pub struct Factor<L>([L; 10]);

const EVEN: u64 = (1 << 26) - 1;
const ODD: u64 = (1 << 25) - 1;

/// Carries limb I into the next.
#[inline(always)]
fn carry<L: Mul32<N>, const N: usize, const I: usize>(limbs: &mut [L; 10]) {
    let (bits, mask) = if I.is_multiple_of(2) { (26, EVEN) } else { (25, ODD) };
    let over = limbs[I].shr(bits);
    limbs[I] = limbs[I].and(L::splat(mask));
    if I < 9 {
        limbs[I + 1] = limbs[I + 1].add(over);
    } else {
        // 2^255 = 19; by shifts, as what is carried may exceed 32 bits.
        limbs[0] = limbs[0].add(over.shl(4).add(over.shl(1)).add(over));
    }
}

/// A carried value from limbs below 2^63: two chains at a time, so that neither waits.
#[inline(always)]
fn carried<L: Mul32<N>, const N: usize>(mut limbs: [L; 10]) -> [L; 10] {
    carry::<L, N, 0>(&mut limbs);
    carry::<L, N, 4>(&mut limbs);
    carry::<L, N, 1>(&mut limbs);
    carry::<L, N, 5>(&mut limbs);
    carry::<L, N, 2>(&mut limbs);
    carry::<L, N, 6>(&mut limbs);
    carry::<L, N, 3>(&mut limbs);
    carry::<L, N, 7>(&mut limbs);
    carry::<L, N, 4>(&mut limbs);
    carry::<L, N, 8>(&mut limbs);
    carry::<L, N, 9>(&mut limbs);
    carry::<L, N, 0>(&mut limbs);
    limbs
}

/// Adds row I of a product: limb I of `a` times all limbs of `b`; `b19` is 19 b.
#[inline(always)]
fn row<L: Mul32<N>, const N: usize, const I: usize>(columns: &mut [L; 10], a: &[L; 10], b: &[L; 10], b19: &[L; 10]) {
    let once = a[I];
    // Two odd limbs meet half a bit too low: 2 x 25.5 = 51, but 26 + 26 = 52.
    let twice = once.add(once);
    for j in 0..10 {
        let own = if I % 2 == 1 && j % 2 == 1 { twice } else { once };
        let other = if I + j < 10 { b[j] } else { b19[j] };
        columns[(I + j) % 10] = columns[(I + j) % 10].add(own.mul32(other));
    }
}

/// Adds the products of limb I of `a` with itself and with the limbs above.
#[inline(always)]
fn square_row<L: Mul32<N>, const N: usize, const I: usize>(
    columns: &mut [L; 10],
    a: &[L; 10],
    a2: &[L; 10],
    a19: &[L; 10],
    a38: &[L; 10],
) {
    for j in I..10 {
        let own = if j == I { a[I] } else { a2[I] };
        let odd = I % 2 == 1 && j % 2 == 1;
        let other = match (I + j < 10, odd) {
            (true, false) => a[j],
            (true, true) => a2[j],
            (false, false) => a19[j],
            (false, true) => a38[j],
        };
        columns[(I + j) % 10] = columns[(I + j) % 10].add(own.mul32(other));
    }
}

/// Limbs of a times b, for factors.
#[inline(always)]
pub fn product<L: Mul32<N>, const N: usize>(a: &[L; 10], b: &[L; 10]) -> [L; 10] {
    let mut b19 = *b;
    for j in 1..10 {
        b19[j] = b[j].mul32(L::splat(19));
    }
    let mut columns = [L::splat(0); 10];
    row::<L, N, 0>(&mut columns, a, b, &b19);
    row::<L, N, 1>(&mut columns, a, b, &b19);
    row::<L, N, 2>(&mut columns, a, b, &b19);
    row::<L, N, 3>(&mut columns, a, b, &b19);
    row::<L, N, 4>(&mut columns, a, b, &b19);
    row::<L, N, 5>(&mut columns, a, b, &b19);
    row::<L, N, 6>(&mut columns, a, b, &b19);
    row::<L, N, 7>(&mut columns, a, b, &b19);
    row::<L, N, 8>(&mut columns, a, b, &b19);
    row::<L, N, 9>(&mut columns, a, b, &b19);
    carried(columns)
}

/// Limbs of a^2, for a factor.
#[inline(always)]
pub fn square<L: Mul32<N>, const N: usize>(a: &[L; 10]) -> [L; 10] {
    let zero = [L::splat(0); 10];
    let (mut a2, mut a19, mut a38) = (zero, zero, zero);
    for i in 0..10 {
        a2[i] = a[i].add(a[i]);
    }
    // Of two limbs whose product is folded the higher one takes the 19: limb 5 and up, odd by odd twice that.
    for j in 6..10 {
        a19[j] = a[j].mul32(L::splat(19));
    }
    for j in [5, 7, 9] {
        a38[j] = a2[j].mul32(L::splat(19));
    }
    let mut columns = [L::splat(0); 10];
    square_row::<L, N, 0>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 1>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 2>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 3>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 4>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 5>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 6>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 7>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 8>(&mut columns, a, &a2, &a19, &a38);
    square_row::<L, N, 9>(&mut columns, a, &a2, &a19, &a38);
    carried(columns)
}

impl<L: Mul32<N>, const N: usize> Field<N> for Field25<L, N> {
    type L = L;
    type Summand = Summand<L>;
    type Factor = Factor<L>;

    #[inline(always)]
    fn from_words(words: [L; 5]) -> Summand<L> {
        let mut limbs = [words[0]; 10];
        for i in 0..5 {
            limbs[2 * i] = words[i].and(L::splat(EVEN));
            limbs[2 * i + 1] = words[i].shr(26);
        }
        Summand(limbs)
    }
    #[inline(always)]
    fn to_words(x: Summand<L>) -> [L; 5] {
        let mut words = [x.0[0]; 5];
        for i in 0..5 {
            words[i] = x.0[2 * i].add(x.0[2 * i + 1].shl(26));
        }
        words::canonical(words)
    }
    #[inline(always)]
    fn factor(x: Summand<L>) -> Factor<L> {
        Factor(x.0)
    }
    #[inline(always)]
    fn add(a: Summand<L>, b: Summand<L>) -> Factor<L> {
        let mut sum = a.0;
        for i in 0..10 {
            sum[i] = a.0[i].add(b.0[i]);
        }
        Factor(sum)
    }
    #[inline(always)]
    fn sub(a: Summand<L>, b: Summand<L>) -> Factor<L> {
        let mut difference = a.0;
        for i in 0..10 {
            // 2p: its limbs are above those of any summand.
            let bias = 2 * if i == 0 {
                EVEN - 18
            } else if i % 2 == 0 {
                EVEN
            } else {
                ODD
            };
            difference[i] = a.0[i].add(L::splat(bias)).sub(b.0[i]);
        }
        Factor(difference)
    }
    #[inline(always)]
    fn mul(a: Factor<L>, b: Factor<L>) -> Summand<L> {
        Summand(L::product(&a.0, &b.0))
    }
    #[inline(always)]
    fn square(a: Factor<L>) -> Summand<L> {
        Summand(L::square(&a.0))
    }
    #[inline(always)]
    fn add_scaled(a: Summand<L>, b: Factor<L>, k: u64) -> Factor<L> {
        let mut sum = a.0;
        for i in 0..10 {
            sum[i] = a.0[i].add(b.0[i].mul32(L::splat(k)));
        }
        Factor(carried(sum))
    }
    #[inline(always)]
    fn select(mask: Mask<Self, N>, no: Summand<L>, yes: Summand<L>) -> Summand<L> {
        Summand(chosen(mask, no.0, yes.0))
    }
    #[inline(always)]
    fn select_factor(mask: Mask<Self, N>, no: Factor<L>, yes: Factor<L>) -> Factor<L> {
        Factor(chosen(mask, no.0, yes.0))
    }
}

#[inline(always)]
fn chosen<L: Lanes<N>, const N: usize>(mask: L::Mask, no: [L; 10], yes: [L; 10]) -> [L; 10] {
    let mut limbs = no;
    for i in 0..10 {
        limbs[i] = L::select(mask, no[i], yes[i]);
    }
    limbs
}
