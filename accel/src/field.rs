//! GF(2^255 - 19), N elements side by side: what ladder and comb need, over any way to multiply.

use crate::lanes::Lanes;
use crate::words;

/// Arithmetic modulo p = 2^255 - 19 in N lanes; the same instructions for all values.
///
/// Two types keep apart how far a number is reduced: a *summand*, as products and loaded values are, may be added or
/// subtracted once; the result is a *factor* and may only be multiplied. So no bound can be broken unseen.
pub trait Field<const N: usize> {
    /// The lanes below.
    type L: Lanes<N>;
    /// Reduced far enough to be added to or subtracted from another.
    type Summand: Copy;
    /// Reduced far enough to be multiplied.
    type Factor: Copy;

    /// The element with these five words of at most 51 bits.
    fn from_words(words: [Self::L; 5]) -> Self::Summand;
    /// Its representative below p, in five words of 51 bits.
    fn to_words(x: Self::Summand) -> [Self::L; 5];
    fn factor(x: Self::Summand) -> Self::Factor;
    fn add(a: Self::Summand, b: Self::Summand) -> Self::Factor;
    fn sub(a: Self::Summand, b: Self::Summand) -> Self::Factor;
    fn mul(a: Self::Factor, b: Self::Factor) -> Self::Summand;
    fn square(a: Self::Factor) -> Self::Summand;
    /// a + k b for k below 2^17.
    fn add_scaled(a: Self::Summand, b: Self::Factor, k: u64) -> Self::Factor;
    /// `yes` where the mask is true, `no` elsewhere.
    fn select(mask: Mask<Self, N>, no: Self::Summand, yes: Self::Summand) -> Self::Summand;
    /// The same for factors.
    fn select_factor(mask: Mask<Self, N>, no: Self::Factor, yes: Self::Factor) -> Self::Factor;
}

/// A truth value for each lane of field `F`.
pub type Mask<F, const N: usize> = <<F as Field<N>>::L as Lanes<N>>::Mask;

/// The same constant in every lane.
#[inline(always)]
pub fn constant<F: Field<N>, const N: usize>(words: [u64; 5]) -> F::Summand {
    let mut lanes = [F::L::splat(0); 5];
    for place in 0..5 {
        lanes[place] = F::L::splat(words[place]);
    }
    F::from_words(lanes)
}

/// A small constant in every lane.
#[inline(always)]
pub fn small<F: Field<N>, const N: usize>(value: u64) -> F::Summand {
    constant::<F, N>([value, 0, 0, 0, 0])
}

/// One element a lane from little-endian bytes, highest bit ignored, values of p and above reduced.
#[inline(always)]
pub fn load<F: Field<N>, const N: usize>(elements: &[words::Bytes; N]) -> F::Summand {
    F::from_words(words::load(elements))
}

/// Bytes of the representative below p, a lane each.
#[inline(always)]
pub fn store<F: Field<N>, const N: usize>(x: F::Summand, elements: &mut [words::Bytes; N]) {
    words::store(F::to_words(x), elements);
}

/// Exchanges `a` and `b` where the mask is true.
#[inline(always)]
pub fn swap<F: Field<N>, const N: usize>(mask: Mask<F, N>, a: &mut F::Summand, b: &mut F::Summand) {
    let (x, y) = (*a, *b);
    *a = F::select(mask, x, y);
    *b = F::select(mask, y, x);
}

/// The product of two summands.
#[inline(always)]
pub fn times<F: Field<N>, const N: usize>(a: F::Summand, b: F::Summand) -> F::Summand {
    F::mul(F::factor(a), F::factor(b))
}

/// a^2.
#[inline(always)]
pub fn squared<F: Field<N>, const N: usize>(a: F::Summand) -> F::Summand {
    F::square(F::factor(a))
}

/// Which lanes hold zero.
#[inline(always)]
pub fn is_zero<F: Field<N>, const N: usize>(x: F::Summand) -> Mask<F, N> {
    let words = F::to_words(x);
    let mut all = words[0];
    for word in &words[1..] {
        all = all.or(*word);
    }
    all.eq(F::L::splat(0))
}

/// a^(2^times).
#[inline(always)]
fn squarings<F: Field<N>, const N: usize>(a: F::Summand, times: usize) -> F::Summand {
    let mut result = a;
    for _ in 0..times {
        result = squared::<F, N>(result);
    }
    result
}

/// (a^(2^250 - 1), a^11), from which inverse and square root follow (Bernstein 2006, "Curve25519").
#[inline(always)]
fn power_250<F: Field<N>, const N: usize>(a: F::Summand) -> (F::Summand, F::Summand) {
    let a2 = squared::<F, N>(a);
    let a9 = times::<F, N>(squarings::<F, N>(a2, 2), a);
    let a11 = times::<F, N>(a9, a2);
    let mut ones = times::<F, N>(squared::<F, N>(a11), a9); // a^(2^5 - 1)
    let five = ones;
    ones = times::<F, N>(squarings::<F, N>(ones, 5), five); // 2^10 - 1
    let ten = ones;
    ones = times::<F, N>(squarings::<F, N>(ones, 10), ten); // 2^20 - 1
    ones = times::<F, N>(squarings::<F, N>(ones, 20), ones); // 2^40 - 1
    ones = times::<F, N>(squarings::<F, N>(ones, 10), ten); // 2^50 - 1
    let fifty = ones;
    ones = times::<F, N>(squarings::<F, N>(ones, 50), ones); // 2^100 - 1
    ones = times::<F, N>(squarings::<F, N>(ones, 100), ones); // 2^200 - 1
    (times::<F, N>(squarings::<F, N>(ones, 50), fifty), a11)
}

/// 1/a, and 0 for 0: a^(p - 2), p - 2 = 2^255 - 21.
#[inline(always)]
pub fn invert<F: Field<N>, const N: usize>(a: F::Summand) -> F::Summand {
    let (power, a11) = power_250::<F, N>(a);
    times::<F, N>(squarings::<F, N>(power, 5), a11)
}

/// a^((p - 5) / 8), (p - 5) / 8 = 2^252 - 3.
#[inline(always)]
pub fn power_p58<F: Field<N>, const N: usize>(a: F::Summand) -> F::Summand {
    let (power, _) = power_250::<F, N>(a);
    times::<F, N>(squarings::<F, N>(power, 2), a)
}

/// A numerator and a denominator in every lane.
pub type Fraction<F, const N: usize> = (<F as Field<N>>::Summand, <F as Field<N>>::Summand);

/// Values of all fractions with one inversion (Montgomery 1987), lane by lane; 0 where the denominator is 0.
#[inline(always)]
pub fn divide_all<F: Field<N>, const N: usize>(fractions: &mut [Fraction<F, N>], out: &mut [[words::Bytes; N]]) {
    let (zero, one) = (small::<F, N>(0), small::<F, N>(1));
    let mut products = Vec::with_capacity(fractions.len());
    let mut running = one;
    for (numerator, denominator) in fractions.iter_mut() {
        let none = is_zero::<F, N>(*denominator);
        *numerator = F::select(none, *numerator, zero);
        *denominator = F::select(none, *denominator, one);
        products.push(running);
        running = times::<F, N>(running, *denominator);
    }
    let mut inverse = invert::<F, N>(running);
    for place in (0..fractions.len()).rev() {
        let (numerator, denominator) = fractions[place];
        let own = times::<F, N>(inverse, products[place]);
        store::<F, N>(times::<F, N>(numerator, own), &mut out[place]);
        inverse = times::<F, N>(inverse, denominator);
    }
    erase(&mut products, zero);
    erase(fractions, (zero, zero));
}

/// Overwrites values that tell something of secret points, in a way that no compiler leaves out.
fn erase<T: Copy>(values: &mut [T], with: T) {
    // Only ever done to show that AddressSanitizer would notice.
    #[cfg(feature = "planted-overrun")]
    unsafe {
        values.as_mut_ptr().add(values.len()).write_volatile(with);
    }
    for value in values {
        // SAFETY: a reference is a valid place to write.
        unsafe { core::ptr::write_volatile(value, with) };
    }
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
