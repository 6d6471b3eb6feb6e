//! X25519 of N scalars and N points at a time: the ladder of RFC 7748, section 5.

use crate::field::{self, Field, Fraction};
use crate::lanes::Lanes;
use crate::words::Bytes;

/// The scalar that X25519 multiplies by: a multiple of 8 with bit 254 set (RFC 7748, section 5).
pub fn clamped(scalar: &Bytes) -> Bytes {
    let mut result = *scalar;
    result[0] &= 248;
    result[31] = result[31] & 127 | 64;
    result
}

/// (A - 2) / 4 of the curve v^2 = u^3 + A u^2 + u.
const A24: u64 = 121_665;

/// u of scalars[lane] times the point with u = points[lane], as a fraction; denominator 0 is the neutral element.
///
/// Scalars below 2^255, used as they are given: `clamped` is the caller's.
#[inline(always)]
pub fn ladder<F: Field<N>, const N: usize>(scalars: &[Bytes; N], points: &[Bytes; N]) -> Fraction<F, N> {
    let u = field::load::<F, N>(points);
    let u_factor = F::factor(u);
    let (zero, one) = (field::small::<F, N>(0), field::small::<F, N>(1));
    let (mut x2, mut z2, mut x3, mut z3) = (one, zero, u, one);
    let mut last = [0; N];
    for bit in (0..255).rev() {
        let mut bits = [0; N];
        let mut change = [0; N];
        for lane in 0..N {
            bits[lane] = u64::from(scalars[lane][bit / 8] >> (bit % 8) & 1);
            change[lane] = bits[lane] ^ last[lane];
        }
        let mask = F::L::from_array(change).eq(F::L::splat(1));
        // Only ever skipped to show that the test of timing, examples/timing.rs, would notice.
        if !cfg!(feature = "planted-leak") || change != [0; N] {
            field::swap::<F, N>(mask, &mut x2, &mut x3);
            field::swap::<F, N>(mask, &mut z2, &mut z3);
        }
        last = bits;
        // Names as in the RFC.
        let (a, b) = (F::add(x2, z2), F::sub(x2, z2));
        let (c, d) = (F::add(x3, z3), F::sub(x3, z3));
        let (da, cb) = (F::mul(d, a), F::mul(c, b));
        let (aa, bb) = (F::square(a), F::square(b));
        x3 = F::square(F::add(da, cb));
        z3 = F::mul(u_factor, F::factor(F::square(F::sub(da, cb))));
        let e = F::sub(aa, bb);
        x2 = F::mul(F::factor(aa), F::factor(bb));
        z2 = F::mul(e, F::add_scaled(aa, e, A24));
    }
    let mask = F::L::from_array(last).eq(F::L::splat(1));
    field::swap::<F, N>(mask, &mut x2, &mut x3);
    field::swap::<F, N>(mask, &mut z2, &mut z3);
    (x2, z2)
}
