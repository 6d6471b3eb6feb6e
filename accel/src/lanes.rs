//! What the arithmetic needs of a processor: N numbers of 64 bits side by side, and one of two multiplications.
//!
//! Every operation acts on each lane alone and takes the same time for all values. The algorithms are written once over
//! these traits. `emulation` implements them on arrays, so that every machine runs and tests the same algorithm;
//! `avx2` and `ifma` give each operation as the instruction that has its name.

/// N lanes of 64 bits. Sums, differences and shifts wrap, as in the processor.
pub trait Lanes<const N: usize>: Copy {
    /// One truth value a lane.
    type Mask: Copy;

    fn from_array(values: [u64; N]) -> Self;
    fn to_array(self) -> [u64; N];
    /// The same value in every lane.
    fn splat(value: u64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Sums of the low and of the high 32 bits, each wrapped by itself.
    fn add32(self, other: Self) -> Self;
    /// Both halves of 32 bits rotated towards the high end by 1 to 31 bits.
    fn rotated32<const BITS: i32>(self) -> Self;
    /// Shift towards the high end by 0 to 63 bits, the same for all lanes.
    fn shl(self, bits: i32) -> Self;
    /// Shift towards the low end by 0 to 63 bits; zeros come in.
    fn shr(self, bits: i32) -> Self;
    /// Which lanes are equal.
    fn eq(self, other: Self) -> Self::Mask;
    /// `yes` where the mask is true, `no` elsewhere.
    fn select(mask: Self::Mask, no: Self, yes: Self) -> Self;
    /// row[places[lane]] in each lane, for places below 8; the whole row is read, whatever they are.
    #[inline(always)]
    fn pick(row: &[u64; 8], places: Self) -> Self {
        let mut taken = Self::splat(row[0]);
        for place in 1..8 {
            taken = Self::select(places.eq(Self::splat(place as u64)), taken, Self::splat(row[place]));
        }
        taken
    }
}

/// Products of two numbers below 2^32.
pub trait Mul32<const N: usize>: Lanes<N> {
    /// Low 32 bits of each lane times low 32 bits of the other: 64 bits.
    fn mul32(self, other: Self) -> Self;
    /// `field25::product` as a function of its own, compiled for these lanes.
    fn product(a: &[Self; 10], b: &[Self; 10]) -> [Self; 10];
    /// `field25::square`, likewise.
    fn square(a: &[Self; 10]) -> [Self; 10];
}

/// Products of two numbers below 2^52, half at a time, added to `self`.
pub trait Madd52<const N: usize>: Lanes<N> {
    /// `self` + low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn madd52lo(self, a: Self, b: Self) -> Self;
    /// `self` + high 52 bits of that product of 104 bits.
    fn madd52hi(self, a: Self, b: Self) -> Self;
    /// `field51::product` as a function of its own, compiled for these lanes.
    fn product(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5];
    /// `field51::square`, likewise.
    fn square(a: &[Self; 5]) -> [Self; 5];
}

#[cfg(test)]
mod tests {
    //! Each instruction against its emulation, lane by lane, where the processor has it.

    use super::*;
    use crate::emulation::Emulated;

    const CASES: [u64; 12] = [
        0,
        1,
        19,
        (1 << 26) - 1,
        (1 << 32) - 1,
        1 << 32,
        (1 << 51) - 1,
        (1 << 52) - 1,
        1 << 52,
        0x0123_4567_89ab_cdef,
        1 << 63,
        u64::MAX,
    ];

    /// Calls `check` with all pairs of cases in each lane, beside other values in the other lanes.
    fn pairs<const N: usize>(mut check: impl FnMut([u64; N], [u64; N])) {
        for first in 0..CASES.len() {
            for second in 0..CASES.len() {
                check(
                    core::array::from_fn(|lane| CASES[(first + lane) % CASES.len()]),
                    core::array::from_fn(|lane| CASES[(second + 5 * lane) % CASES.len()]),
                );
            }
        }
    }

    fn selected<L: Lanes<N>, const N: usize>(a: [u64; N], b: [u64; N], equal_to: [u64; N]) -> [u64; N] {
        let (a, b) = (L::from_array(a), L::from_array(b));
        L::select(b.eq(L::from_array(equal_to)), a, b).to_array()
    }

    fn same<L: Lanes<N>, const N: usize>() {
        pairs(|a, b| {
            type E<const N: usize> = Emulated<N>;
            let (x, y) = (L::from_array(a), L::from_array(b));
            let (u, v) = (E::from_array(a), E::from_array(b));
            assert_eq!(x.add(y).to_array(), u.add(v).to_array());
            assert_eq!(x.sub(y).to_array(), u.sub(v).to_array());
            assert_eq!(x.and(y).to_array(), u.and(v).to_array());
            assert_eq!(x.or(y).to_array(), u.or(v).to_array());
            assert_eq!(x.xor(y).to_array(), u.xor(v).to_array());
            assert_eq!(x.add32(y).to_array(), u.add32(v).to_array());
            assert_eq!(x.rotated32::<7>().to_array(), u.rotated32::<7>().to_array());
            assert_eq!(x.rotated32::<9>().to_array(), u.rotated32::<9>().to_array());
            assert_eq!(x.rotated32::<13>().to_array(), u.rotated32::<13>().to_array());
            assert_eq!(x.rotated32::<18>().to_array(), u.rotated32::<18>().to_array());
            let row = core::array::from_fn(|place| a[place % N] ^ (place as u64) << 40);
            let places = core::array::from_fn(|lane| (b[lane] ^ a[0]) & 7);
            assert_eq!(L::pick(&row, L::from_array(places)).to_array(), places.map(|place| row[place as usize]));
            assert_eq!(E::pick(&row, E::from_array(places)).to_array(), places.map(|place| row[place as usize]));
            assert_eq!(L::splat(a[0]).to_array(), E::<N>::splat(a[0]).to_array());
            for bits in [0, 1, 4, 25, 26, 51, 63] {
                assert_eq!(x.shl(bits).to_array(), u.shl(bits).to_array());
                assert_eq!(x.shr(bits).to_array(), u.shr(bits).to_array());
            }
            let mixed = core::array::from_fn(|lane| if lane % 3 == 0 { b[lane] } else { !b[lane] });
            assert_eq!(selected::<L, N>(a, b, mixed), selected::<E<N>, N>(a, b, mixed));
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx2_does_what_its_emulation_does() {
        use crate::avx2::Avx2;
        if !is_x86_feature_detected!("avx2") {
            eprintln!("NOT RUN: no AVX2 here");
            return;
        }
        same::<Avx2, 4>();
        pairs(|a, b| {
            let wanted = Emulated::from_array(a).mul32(Emulated::from_array(b)).to_array();
            assert_eq!(Avx2::from_array(a).mul32(Avx2::from_array(b)).to_array(), wanted);
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn ifma_does_what_its_emulation_does() {
        use crate::ifma::Ifma;
        if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512ifma") {
            eprintln!("NOT RUN: no AVX-512-IFMA here");
            return;
        }
        same::<Ifma, 8>();
        pairs(|a, b| {
            let start = core::array::from_fn(|lane| a[lane] ^ b[lane].rotate_left(7));
            let (x, y, z) = (Ifma::from_array(start), Ifma::from_array(a), Ifma::from_array(b));
            let (u, v, w) = (Emulated::from_array(start), Emulated::from_array(a), Emulated::from_array(b));
            assert_eq!(x.madd52lo(y, z).to_array(), u.madd52lo(v, w).to_array());
            assert_eq!(x.madd52hi(y, z).to_array(), u.madd52hi(v, w).to_array());
        });
    }
}
