//! GF(2^255 - 19) in five limbs of 51 bits, for multipliers of 52 bits (Gueron and Krasnov 2016; Nath and Sarkar 2020).

use crate::field::{Field, Mask};
use crate::lanes::{Lanes, Madd52};
use crate::words::{self, BITS, MASK};
use core::marker::PhantomData;

/// The field over lanes with 52-bit multiplication.
pub struct Field51<L, const N: usize>(PhantomData<L>);

/// Limbs below 2^61: products, and values loaded.
#[derive(Clone, Copy)]
pub struct Summand<L>([L; 5]);

/// Limbs below 2^51 + 2^16, so that the multiplier, which reads 52 bits, sees all of them.
#[derive(Clone, Copy)]
pub struct Factor<L>([L; 5]);

/// Carries every limb once, all at the same time; limbs below 2^62 in.
#[inline(always)]
fn carried<L: Madd52<N>, const N: usize>(x: [L; 5]) -> Factor<L> {
    let mask = L::splat(MASK);
    // The highest carry, below 2^11, returns to the lowest limb times 19.
    let mut limbs = [x[0].and(mask).madd52lo(x[4].shr(BITS), L::splat(19)); 5];
    for i in 1..5 {
        limbs[i] = x[i].and(mask).add(x[i - 1].shr(BITS));
    }
    Factor(limbs)
}

/// Folds ten columns into five: 2^255 = 19. Columns below 2^56 in, limbs below 2^61 out.
#[inline(always)]
fn folded<L: Lanes<N>, const N: usize>(columns: [L; 10]) -> [L; 5] {
    let mut limbs = [columns[0]; 5];
    for k in 0..5 {
        let high = columns[k + 5];
        let times19 = high.shl(4).add(high.shl(1)).add(high);
        limbs[k] = columns[k].add(times19);
    }
    limbs
}

/// Limbs of a times b, for factors.
#[inline(always)]
pub fn product<L: Madd52<N>, const N: usize>(a: &[L; 5], b: &[L; 5]) -> [L; 5] {
    let mut columns = [L::splat(0); 10];
    // High halves first: they weigh 2^52 where a limb weighs 2^51, so they count twice.
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j + 1] = columns[i + j + 1].madd52hi(a[i], b[j]);
        }
    }
    for column in &mut columns[1..] {
        *column = column.shl(1);
    }
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j] = columns[i + j].madd52lo(a[i], b[j]);
        }
    }
    folded(columns)
}

/// Limbs of a^2, for a factor.
#[inline(always)]
pub fn square<L: Madd52<N>, const N: usize>(a: &[L; 5]) -> [L; 5] {
    let mut columns = [L::splat(0); 10];
    // A mixed product counts twice, and so does a high half: four times, twice, or once.
    for i in 0..5 {
        for j in i + 1..5 {
            columns[i + j + 1] = columns[i + j + 1].madd52hi(a[i], a[j]);
        }
    }
    for column in &mut columns[2..9] {
        *column = column.shl(1);
    }
    for i in 0..5 {
        columns[2 * i + 1] = columns[2 * i + 1].madd52hi(a[i], a[i]);
        for j in i + 1..5 {
            columns[i + j] = columns[i + j].madd52lo(a[i], a[j]);
        }
    }
    for column in &mut columns[1..] {
        *column = column.shl(1);
    }
    for i in 0..5 {
        columns[2 * i] = columns[2 * i].madd52lo(a[i], a[i]);
    }
    folded(columns)
}

impl<L: Madd52<N>, const N: usize> Field<N> for Field51<L, N> {
    type L = L;
    type Summand = Summand<L>;
    type Factor = Factor<L>;

    #[inline(always)]
    fn from_words(words: [L; 5]) -> Summand<L> {
        Summand(words)
    }
    #[inline(always)]
    fn to_words(x: Summand<L>) -> [L; 5] {
        words::canonical(x.0)
    }
    #[inline(always)]
    fn factor(x: Summand<L>) -> Factor<L> {
        carried(x.0)
    }
    #[inline(always)]
    fn add(a: Summand<L>, b: Summand<L>) -> Factor<L> {
        let mut sum = a.0;
        for i in 0..5 {
            sum[i] = a.0[i].add(b.0[i]);
        }
        carried(sum)
    }
    #[inline(always)]
    fn sub(a: Summand<L>, b: Summand<L>) -> Factor<L> {
        // a + 2^10 p - b: the limbs of 2^10 p are above those of any summand.
        let mut difference = a.0;
        for i in 0..5 {
            let bias = if i == 0 { (MASK - 18) << 10 } else { MASK << 10 };
            difference[i] = a.0[i].add(L::splat(bias)).sub(b.0[i]);
        }
        carried(difference)
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
        let k = L::splat(k);
        let (mut high, mut sum) = ([L::splat(0); 5], a.0);
        for i in 0..5 {
            high[i] = L::splat(0).madd52hi(b.0[i], k);
            sum[i] = sum[i].madd52lo(b.0[i], k);
        }
        sum[0] = sum[0].madd52lo(high[4], L::splat(38)); // 2 x 19
        for i in 1..5 {
            sum[i] = sum[i].add(high[i - 1].shl(1));
        }
        carried(sum)
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
fn chosen<L: Lanes<N>, const N: usize>(mask: L::Mask, no: [L; 5], yes: [L; 5]) -> [L; 5] {
    let mut limbs = no;
    for i in 0..5 {
        limbs[i] = L::select(mask, no[i], yes[i]);
    }
    limbs
}
