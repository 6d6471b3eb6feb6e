//! Any number of multiplications from N at a time. Generic; `paths` gives each its processor.

use crate::comb::{Point, Table};
use crate::field::{self, Field, Fraction};
use crate::ladder::ladder;
use crate::lanes::Lanes;
use crate::signatures;
use crate::words::Bytes;
use zeroize::Zeroize;

/// Multiplications that share one inversion, and so the largest working set: some hundred KB.
pub const GROUP: usize = 512;

// No closures here: they would be compiled without the instructions of the function that they stand in.

/// The places of the values of a group; lanes to spare repeat its first.
#[inline(always)]
fn members<const N: usize>(group: usize, count: usize) -> [usize; N] {
    let mut places = [group * N; N];
    for lane in 0..N {
        if group * N + lane < count {
            places[lane] = group * N + lane;
        }
    }
    places
}

/// The values at these places.
#[inline(always)]
fn gather<const N: usize>(values: &[Bytes], members: &[usize; N]) -> [Bytes; N] {
    let mut lanes = [[0; 32]; N];
    for lane in 0..N {
        lanes[lane] = values[members[lane]];
    }
    lanes
}

/// Divides and stores; what the spare lanes hold is dropped.
#[inline(always)]
fn finish<F: Field<N>, const N: usize>(mut fractions: Vec<Fraction<F, N>>, out: &mut [Bytes]) {
    let mut results = vec![[[0; 32]; N]; fractions.len()];
    field::divide_all::<F, N>(&mut fractions, &mut results);
    out.copy_from_slice(&results.as_flattened()[..out.len()]);
    results.as_flattened_mut().as_flattened_mut().zeroize();
}

/// u of scalars[i] times the point with u = points[i]; 0 for the neutral element. At most `GROUP`.
#[inline(always)]
pub fn ladders<F: Field<N>, const N: usize>(scalars: &[Bytes], points: &[Bytes], out: &mut [Bytes]) {
    let mut fractions = Vec::with_capacity(points.len().div_ceil(N));
    for group in 0..points.len().div_ceil(N) {
        let places = members(group, points.len());
        let mut own: [Bytes; N] = gather(scalars, &places);
        fractions.push(ladder::<F, N>(&own, &gather(points, &places)));
        own.as_flattened_mut().zeroize();
    }
    finish::<F, N>(fractions, out);
}

/// u of scalars[i] times the table's point, for clamped scalars. At most `GROUP`.
#[inline(always)]
pub fn combs<F: Field<N>, const N: usize>(table: &Table, scalars: &[Bytes], out: &mut [Bytes]) {
    let mut fractions = Vec::with_capacity(scalars.len().div_ceil(N));
    for group in 0..scalars.len().div_ceil(N) {
        let mut own: [Bytes; N] = gather(scalars, &members(group, scalars.len()));
        fractions.push(table.multiply::<F, N>(&own));
        own.as_flattened_mut().zeroize();
    }
    finish::<F, N>(fractions, out);
}

/// Encodings (RFC 8032) of [s[i]]B + [h[i]]P for the points P of keys[i], and which keys encode a point. At most `GROUP`.
#[inline(always)]
pub fn sums_by_keys<F: Field<N>, const N: usize>(
    base: &Table,
    keys: &[Bytes],
    s: &[Bytes],
    h: &[Bytes],
    out: &mut [Bytes],
    found: &mut [bool],
) {
    let mut fractions = Vec::with_capacity(2 * s.len().div_ceil(N));
    for group in 0..s.len().div_ceil(N) {
        let places: [usize; N] = members(group, s.len());
        let (sum, lanes) = signatures::by_keys::<F, N>(
            base,
            &gather(keys, &places),
            &gather(s, &places),
            &gather(h, &places),
        );
        let lanes = F::L::select(lanes, F::L::splat(0), F::L::splat(1)).to_array();
        for lane in 0..N {
            found[places[lane]] = lanes[lane] == 1; // a lane to spare says of the first what the first says
        }
        push_affine::<F, N>(&mut fractions, sum);
    }
    encode::<F, N>(fractions, out);
}

/// The same for one point P, whose table is `key`.
#[inline(always)]
pub fn sums_by_table<F: Field<N>, const N: usize>(
    base: &Table,
    key: &Table,
    s: &[Bytes],
    h: &[Bytes],
    out: &mut [Bytes],
) {
    let mut fractions = Vec::with_capacity(2 * s.len().div_ceil(N));
    for group in 0..s.len().div_ceil(N) {
        let places: [usize; N] = members(group, s.len());
        let sum = signatures::by_table::<F, N>(base, key, &gather(s, &places), &gather(h, &places));
        push_affine::<F, N>(&mut fractions, sum);
    }
    encode::<F, N>(fractions, out);
}

#[inline(always)]
fn push_affine<F: Field<N>, const N: usize>(fractions: &mut Vec<Fraction<F, N>>, point: Point<F, N>) {
    fractions.push((point.x, point.z));
    fractions.push((point.y, point.z));
}

/// Encodes points of which `push_affine` was given all lanes.
#[inline(always)]
fn encode<F: Field<N>, const N: usize>(mut fractions: Vec<Fraction<F, N>>, out: &mut [Bytes]) {
    let mut affine = vec![[[0; 32]; N]; fractions.len()];
    field::divide_all::<F, N>(&mut fractions, &mut affine);
    for (place, encoded) in out.iter_mut().enumerate() {
        let (x, y) = (affine[2 * (place / N)][place % N], affine[2 * (place / N) + 1][place % N]);
        *encoded = y;
        encoded[31] |= x[0] << 7;
    }
}
