//! The equation of Ed25519 for N signatures at a time, each by itself: [S]B - [h]A, encoded.
//!
//! All of it is public, and times may depend on it. Nothing is added up over signatures, so the valid ones are those of
//! `ed25519::holds`: docs/adr/0009-one-set-of-signatures.md.

use crate::comb::{self, Addend, DIGITS, MULTIPLES, Point, Table};
use crate::field::{self, Field};
use crate::lanes::Lanes;
use crate::words::Bytes;

/// The encoding of -A, where A is the point that these bytes encode.
pub fn negated(encoded: &Bytes) -> Bytes {
    let mut result = *encoded;
    result[31] ^= 0x80;
    result
}

/// The points that these bytes encode (RFC 8032, section 5.1.3), and in which lanes there is one.
///
/// A y of p and above is reduced, and x = 0 has either sign: callers have refused both.
#[inline(always)]
fn decoded<F: Field<N>, const N: usize>(encoded: &[Bytes; N]) -> (Point<F, N>, field::Mask<F, N>) {
    let (zero, one) = (field::small::<F, N>(0), field::small::<F, N>(1));
    let y = field::load::<F, N>(encoded);
    let (x, found) = comb::x_of::<F, N>(y);
    let odd = F::to_words(x)[0].and(F::L::splat(1));
    let mut signs = [0; N];
    for lane in 0..N {
        signs[lane] = u64::from(encoded[lane][31] >> 7);
    }
    let other = F::mul(F::sub(zero, x), F::factor(one));
    let x = F::select(odd.eq(F::L::from_array(signs)), other, x);
    (Point { x, y, z: one, t: field::times::<F, N>(x, y) }, found)
}

/// The table of the point that these bytes encode, which may be of any order; `None` if there is none.
#[inline(always)]
pub fn table<F: Field<N>, const N: usize>(encoded: &Bytes) -> Option<Table> {
    let (point, found) = decoded::<F, N>(&[*encoded; N]);
    if comb::first::<F, N>(found) { Some(Table::of_point(point)) } else { None }
}

/// 2p (Hisil, Wong, Carter, Dawson 2008, all times two); T only if it is wanted.
#[inline(always)]
fn doubled<F: Field<N>, const N: usize>(p: Point<F, N>, with_t: bool) -> Point<F, N> {
    let sum = F::square(F::add(p.y, p.x)); // x^2 + y^2 + 2xy
    let difference = F::square(F::sub(p.y, p.x));
    let squares = F::mul(F::sub(p.x, p.y), F::add(p.x, p.y)); // x^2 - y^2
    let zz = F::square(F::add(p.z, p.z)); // 4 z^2
    let (e, h) = (F::sub(difference, sum), F::add(difference, sum));
    let (f, g) = (F::add_scaled(zz, F::factor(squares), 2), F::add(squares, squares));
    let t = if with_t { F::mul(e, h) } else { p.t };
    Point { x: F::mul(e, f), y: F::mul(g, h), z: F::mul(f, g), t }
}

/// scalars[lane] times points[lane], for scalars below 2^255.
#[inline(always)]
fn multiple<F: Field<N>, const N: usize>(point: Point<F, N>, scalars: &[Bytes; N]) -> Point<F, N> {
    let zero = field::small::<F, N>(0);
    let mut operands = [(comb::operand(point), point.z); MULTIPLES];
    let mut power = point;
    for operand in &mut operands[1..] {
        power = comb::add(power, point);
        *operand = (comb::operand(power), power.z);
    }
    let none = (comb::operand(comb::neutral::<F, N>()), comb::neutral::<F, N>().z);
    let mut carry = [0; N];
    let mut digits = [comb::digit::<F, N>(scalars, 0, &mut carry); DIGITS];
    for place in 1..DIGITS {
        digits[place] = comb::digit::<F, N>(scalars, place, &mut carry);
    }
    let mut result = comb::neutral::<F, N>();
    for (size, negative) in digits.into_iter().rev() {
        result = doubled(doubled(doubled(doubled(result, false), false), false), true);
        let ([mut plus, mut minus, mut product], mut z) = none;
        for (place, (own, own_z)) in operands.iter().enumerate() {
            let here = size.eq(F::L::splat(place as u64 + 1));
            plus = F::select(here, plus, own[0]);
            minus = F::select(here, minus, own[1]);
            product = F::select(here, product, own[2]);
            z = F::select(here, z, *own_z);
        }
        let addend = Addend {
            plus: F::select(negative, plus, minus),
            minus: F::select(negative, minus, plus),
            product: F::select_factor(negative, F::factor(product), F::sub(zero, product)),
        };
        result = comb::sum(result, addend, field::times::<F, N>(result.z, z));
    }
    result
}

/// [s]B + [h]P for the points P of these encodings, and in which lanes there is one.
#[inline(always)]
pub fn by_keys<F: Field<N>, const N: usize>(
    base: &Table,
    keys: &[Bytes; N],
    s: &[Bytes; N],
    h: &[Bytes; N],
) -> (Point<F, N>, field::Mask<F, N>) {
    let (point, found) = decoded::<F, N>(keys);
    (comb::add(multiple(point, h), base.multiple::<F, N>(s)), found)
}

/// [s]B + [h]P for the point P of a table.
#[inline(always)]
pub fn by_table<F: Field<N>, const N: usize>(base: &Table, key: &Table, s: &[Bytes; N], h: &[Bytes; N]) -> Point<F, N> {
    comb::add(key.multiple::<F, N>(h), base.multiple::<F, N>(s))
}
