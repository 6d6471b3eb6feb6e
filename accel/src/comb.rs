//! Many scalars times one point that is used again: a comb over a table of its multiples, on the Edwards curve.
//!
//! -x^2 + y^2 = 1 + d x^2 y^2 in extended coordinates (Hisil, Wong, Carter, Dawson 2008), whose addition is complete:
//! one formula for every pair of points. Everything is scaled by one half, which a projective point does not feel, so
//! that no value is doubled.

use crate::field::{self, Field, Fraction};
use crate::ladder::ladder;
use crate::lanes::Lanes;
use crate::words::{self, Bytes};

/// -121665/121666.
const D: [u64; 5] = [929955233495203, 466365720129213, 1662059464998953, 2033849074728123, 1442794654840575];
/// A square root of -1.
const ROOT: [u64; 5] = [1718705420411056, 234908883556509, 2233514472574048, 2117202627021982, 765476049583133];
/// 1/2.
const HALF: [u64; 5] = [2251799813685239, 2251799813685247, 2251799813685247, 2251799813685247, 1125899906842623];
/// Order of the base point's group, little endian: 2^252 + 27742317777372353535851937790883648493.
const ORDER: Bytes = [
    237, 211, 245, 92, 26, 99, 18, 88, 214, 156, 247, 162, 222, 249, 222, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 16,
];

/// Digits of a scalar, base 16, each from -8 to 8.
pub const DIGITS: usize = 64;
/// Multiples of a power of 16 that the table keeps.
pub const MULTIPLES: usize = 8;

/// A point (X/Z, Y/Z) with T = XY/Z.
pub struct Point<F: Field<N>, const N: usize> {
    pub x: F::Summand,
    pub y: F::Summand,
    pub z: F::Summand,
    pub t: F::Summand,
}

impl<F: Field<N>, const N: usize> Clone for Point<F, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Field<N>, const N: usize> Copy for Point<F, N> {}

/// The second operand of an addition: (y + x)/2, (y - x)/2, d x y; times z where it is not affine.
pub struct Addend<F: Field<N>, const N: usize> {
    pub plus: F::Summand,
    pub minus: F::Summand,
    pub product: F::Factor,
}

#[inline(always)]
pub fn neutral<F: Field<N>, const N: usize>() -> Point<F, N> {
    let (zero, one) = (field::small::<F, N>(0), field::small::<F, N>(1));
    Point { x: zero, y: one, z: one, t: zero }
}

/// p + q, where `z` is the product of both Z.
#[inline(always)]
pub fn sum<F: Field<N>, const N: usize>(p: Point<F, N>, q: Addend<F, N>, z: F::Summand) -> Point<F, N> {
    let a = F::mul(F::sub(p.y, p.x), F::factor(q.minus));
    let b = F::mul(F::add(p.y, p.x), F::factor(q.plus));
    let c = F::mul(F::factor(p.t), q.product);
    let (e, f, g, h) = (F::sub(b, a), F::sub(z, c), F::add(z, c), F::add(b, a));
    Point { x: F::mul(e, f), y: F::mul(g, h), t: F::mul(e, h), z: F::mul(f, g) }
}

pub fn add<F: Field<N>, const N: usize>(p: Point<F, N>, q: Point<F, N>) -> Point<F, N> {
    let [plus, minus, product] = operand(q);
    sum(p, Addend { plus, minus, product: F::factor(product) }, field::times::<F, N>(p.z, q.z))
}

/// What an addition takes of its second operand: (y + x)/2, (y - x)/2, d t.
#[inline(always)]
pub fn operand<F: Field<N>, const N: usize>(q: Point<F, N>) -> [F::Summand; 3] {
    let half = F::factor(field::constant::<F, N>(HALF));
    let product = field::times::<F, N>(q.t, field::constant::<F, N>(D));
    [F::mul(F::add(q.y, q.x), half), F::mul(F::sub(q.y, q.x), half), product]
}

/// Whether the mask is true in the first lane: for public values, which are the same in all lanes.
#[inline(always)]
pub fn first<F: Field<N>, const N: usize>(mask: field::Mask<F, N>) -> bool {
    F::L::select(mask, F::L::splat(0), F::L::splat(1)).to_array()[0] == 1
}

/// A point of the prime-order group with this u, or none if there is none.
#[inline(always)]
fn lifted<F: Field<N>, const N: usize>(u: &Bytes) -> Option<Point<F, N>> {
    let one = field::small::<F, N>(1);
    let given = field::load::<F, N>(&[*u; N]);
    let (above, below) = (F::add(given, one), F::sub(given, one));
    // y = (u - 1)/(u + 1), and 1/(u + 1) through 1 * (u + 1).
    let divisor = F::mul(above, F::factor(one));
    if first::<F, N>(field::is_zero::<F, N>(divisor)) || first::<F, N>(field::is_zero::<F, N>(given)) {
        return None; // order 4 (on the twist), and order 2
    }
    let y = F::mul(below, F::factor(field::invert::<F, N>(divisor)));
    let (x, on_curve) = x_of::<F, N>(y);
    if !first::<F, N>(on_curve) {
        return None; // no root: u is on the twist
    }
    let (_, denominator) = ladder::<F, N>(&[ORDER; N], &[*u; N]);
    let point = Point { x, y, z: one, t: field::times::<F, N>(x, y) };
    if first::<F, N>(field::is_zero::<F, N>(denominator)) { Some(point) } else { None }
}

/// An x for this y, and where there is one.
#[inline(always)]
pub fn x_of<F: Field<N>, const N: usize>(y: F::Summand) -> (F::Summand, field::Mask<F, N>) {
    let one = field::small::<F, N>(1);
    // x^2 = n / v with n = y^2 - 1, v = d y^2 + 1 (RFC 8032, section 5.1.3).
    let yy = field::squared::<F, N>(y);
    let n = F::mul(F::sub(yy, one), F::factor(one));
    let v = F::add(field::times::<F, N>(yy, field::constant::<F, N>(D)), one);
    let v3 = F::mul(F::factor(F::square(v)), v);
    let v7 = F::mul(F::factor(field::squared::<F, N>(v3)), v);
    let root = field::power_p58::<F, N>(field::times::<F, N>(n, v7));
    let candidate = field::times::<F, N>(field::times::<F, N>(n, v3), root);
    let other = field::times::<F, N>(candidate, field::constant::<F, N>(ROOT));
    let x = F::select(is_root::<F, N>(candidate, n, v), other, candidate);
    (x, is_root::<F, N>(x, n, v))
}

/// Where v x^2 = n.
#[inline(always)]
fn is_root<F: Field<N>, const N: usize>(x: F::Summand, n: F::Summand, v: F::Factor) -> field::Mask<F, N> {
    let difference = F::sub(F::mul(v, F::factor(field::squared::<F, N>(x))), n);
    let one = F::factor(field::small::<F, N>(1));
    field::is_zero::<F, N>(F::mul(difference, one))
}

/// The words of (y + x)/2, (y - x)/2 and d x y of eight points, the same word of all side by side.
type Row = [[[u64; MULTIPLES]; 5]; 3];

/// Rows of the affine points j 16^i P, i = 0..63, j = 1..8: 61 KB.
///
/// The same for every path, and of public points only.
pub struct Table(Vec<Row>);

impl Table {
    /// The table of the point with this u; `None` if it is not in the prime-order group.
    #[inline(always)]
    pub fn of<F: Field<N>, const N: usize>(u: &Bytes) -> Option<Self> {
        Some(Self::of_point(lifted::<F, N>(u)?))
    }

    /// The table of any point, the same in all lanes.
    #[inline(always)]
    pub fn of_point<F: Field<N>, const N: usize>(point: Point<F, N>) -> Self {
        let mut power = point;
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for _ in 0..DIGITS {
            let mut multiple = neutral::<F, N>();
            for _ in 0..MULTIPLES {
                multiple = add(multiple, power);
                xs.push((multiple.x, multiple.z));
                ys.push((multiple.y, multiple.z));
            }
            power = add(multiple, multiple); // 8 + 8 = 16
        }
        let mut x = vec![[[0; 32]; N]; xs.len()];
        let mut y = x.clone();
        field::divide_all::<F, N>(&mut xs, &mut x);
        field::divide_all::<F, N>(&mut ys, &mut y);
        let mut rows = vec![[[[0; MULTIPLES]; 5]; 3]; DIGITS];
        for place in 0..x.len() {
            let entry = Self::entry::<F, N>(&x[place], &y[place]);
            for (part, words) in entry.iter().enumerate() {
                for (word, value) in words.iter().enumerate() {
                    rows[place / MULTIPLES][part][word][place % MULTIPLES] = *value;
                }
            }
        }
        Self(rows)
    }

    #[inline(always)]
    fn entry<F: Field<N>, const N: usize>(x: &[Bytes; N], y: &[Bytes; N]) -> [[u64; 5]; 3] {
        let half = F::factor(field::constant::<F, N>(HALF));
        let (x, y) = (field::load::<F, N>(x), field::load::<F, N>(y));
        let product = field::times::<F, N>(field::times::<F, N>(x, y), field::constant::<F, N>(D));
        let mut entry = [[0; 5]; 3];
        for (part, value) in entry.iter_mut().zip([F::mul(F::add(y, x), half), F::mul(F::sub(y, x), half), product]) {
            let mut bytes = [[0; 32]; N];
            field::store::<F, N>(value, &mut bytes);
            *part = words::split(&bytes[0]);
        }
        entry
    }

    /// u of scalars[lane] times the table's point, as a fraction. Scalars are clamped.
    ///
    /// Reads the whole table for every digit: which entry is taken shows neither in time nor in addresses.
    #[inline(always)]
    pub fn multiply<F: Field<N>, const N: usize>(&self, scalars: &[Bytes; N]) -> Fraction<F, N> {
        let result = self.multiple::<F, N>(scalars);
        // u = (1 + y)/(1 - y); times one, as a fraction is of summands.
        let one = F::factor(field::small::<F, N>(1));
        (F::mul(F::add(result.z, result.y), one), F::mul(F::sub(result.z, result.y), one))
    }

    /// scalars[lane] times the table's point. Scalars are below 2^255, and reads are as in `multiply`.
    #[inline(always)]
    pub fn multiple<F: Field<N>, const N: usize>(&self, scalars: &[Bytes; N]) -> Point<F, N> {
        let zero = field::small::<F, N>(0);
        let mut result = neutral::<F, N>();
        let mut carry = [0u64; N];
        for (place, row) in self.0.iter().enumerate() {
            let (size, negative) = digit::<F, N>(scalars, place, &mut carry);
            let [plus, minus, product] = chosen::<F, N>(row, size);
            let negated = F::sub(zero, product);
            let addend = Addend {
                plus: F::select(negative, plus, minus),
                minus: F::select(negative, minus, plus),
                product: F::select_factor(negative, F::factor(product), negated),
            };
            result = sum(result, addend, result.z);
        }
        result
    }
}

/// Size and sign of a digit in each lane. A half-byte with carry of 9 or more becomes itself less 16, and carries; the
/// last one of a scalar below 2^255 is at most 8.
#[inline(always)]
pub fn digit<F: Field<N>, const N: usize>(
    scalars: &[Bytes; N],
    place: usize,
    carry: &mut [u64; N],
) -> (F::L, field::Mask<F, N>) {
    let (mut size, mut sign) = ([0; N], [0; N]);
    for lane in 0..N {
        let half = u64::from(scalars[lane][place / 2] >> (4 * (place % 2)) & 15) + carry[lane];
        let over = (half + 7) >> 4;
        sign[lane] = over;
        size[lane] = (half ^ over.wrapping_neg()).wrapping_add(over).wrapping_add(over << 4); // half, or 16 - half
        carry[lane] = over;
    }
    (F::L::from_array(size), F::L::from_array(sign).eq(F::L::splat(1)))
}

/// The entry number `size` of a row in each lane; the neutral element for 0.
#[inline(always)]
fn chosen<F: Field<N>, const N: usize>(row: &Row, size: F::L) -> [F::Summand; 3] {
    let none = size.eq(F::L::splat(0));
    let place = size.sub(F::L::splat(1)).and(F::L::splat(MULTIPLES as u64 - 1));
    let neutral = [HALF, HALF, [0; 5]];
    let mut taken = [[F::L::splat(0); 5]; 3];
    for part in 0..3 {
        for word in 0..5 {
            let own = F::L::pick(&row[part][word], place);
            taken[part][word] = F::L::select(none, own, F::L::splat(neutral[part][word]));
        }
    }
    [F::from_words(taken[0]), F::from_words(taken[1]), F::from_words(taken[2])]
}
