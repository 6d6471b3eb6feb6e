//! Field elements as five words of 51 bits, the form in which both fields load, store and keep tables.

use crate::lanes::Lanes;

/// A value of 32 bytes: a scalar, or a u-coordinate, little endian.
pub type Bytes = [u8; 32];

/// A byte of which everybody may learn whether it is zero; the compiler does not see where it comes from.
pub fn told(byte: u8) -> u8 {
    #[cfg(feature = "memcheck")]
    crate::memcheck::shown(core::slice::from_ref(&byte));
    core::hint::black_box(byte)
}

/// Bits of a word.
pub const BITS: i32 = 51;

/// The largest word.
pub const MASK: u64 = (1 << BITS) - 1;

/// Five words of a u-coordinate; the highest bit of the bytes is ignored (RFC 7748, section 5).
pub fn split(bytes: &Bytes) -> [u64; 5] {
    let mut quarter = [0u64; 4];
    for (word, part) in quarter.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    [
        quarter[0] & MASK,
        (quarter[0] >> 51 | quarter[1] << 13) & MASK,
        (quarter[1] >> 38 | quarter[2] << 26) & MASK,
        (quarter[2] >> 25 | quarter[3] << 39) & MASK,
        (quarter[3] >> 12) & MASK,
    ]
}

/// The bytes of five words below 2^51.
pub fn join(words: [u64; 5]) -> Bytes {
    let quarter = [
        words[0] | words[1] << 51,
        words[1] >> 13 | words[2] << 38,
        words[2] >> 26 | words[3] << 25,
        words[3] >> 39 | words[4] << 12,
    ];
    let mut bytes = [0; 32];
    for (part, word) in bytes.chunks_exact_mut(8).zip(quarter) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// One element a lane.
#[inline(always)]
pub fn load<L: Lanes<N>, const N: usize>(elements: &[Bytes; N]) -> [L; 5] {
    let mut words = [[0; N]; 5];
    for lane in 0..N {
        let own = split(&elements[lane]);
        for place in 0..5 {
            words[place][lane] = own[place];
        }
    }
    let mut lanes = [L::splat(0); 5];
    for place in 0..5 {
        lanes[place] = L::from_array(words[place]);
    }
    lanes
}

/// The bytes of each lane's element; words must be below 2^51.
#[inline(always)]
pub fn store<L: Lanes<N>, const N: usize>(lanes: [L; 5], elements: &mut [Bytes; N]) {
    let mut words = [[0; N]; 5];
    for place in 0..5 {
        words[place] = lanes[place].to_array();
    }
    for lane in 0..N {
        elements[lane] = join([words[0][lane], words[1][lane], words[2][lane], words[3][lane], words[4][lane]]);
    }
}

#[inline(always)]
fn times19<L: Lanes<N>, const N: usize>(x: L) -> L {
    x.shl(4).add(x.shl(1)).add(x)
}

/// Carries once around: words below 2^63 in; out all below 2^51 but the lowest, which may be above by 19 x 2^13.
#[inline(always)]
fn around<L: Lanes<N>, const N: usize>(words: &mut [L; 5]) {
    let mask = L::splat(MASK);
    for place in 0..4 {
        words[place + 1] = words[place + 1].add(words[place].shr(BITS));
        words[place] = words[place].and(mask);
    }
    words[0] = words[0].add(times19(words[4].shr(BITS)));
    words[4] = words[4].and(mask);
}

/// The representative below p = 2^255 - 19, its words below 2^51. Words below 2^62 in.
#[inline(always)]
pub fn canonical<L: Lanes<N>, const N: usize>(mut words: [L; 5]) -> [L; 5] {
    // After the first time around the value is below 2^255 + 2^18. If it carries again, what stays is small: so after
    // the second time every word is below 2^51 and the value below 2^255 < 2p.
    around(&mut words);
    around(&mut words);
    // q = 1 if the value is p or more, that is, if adding 19 reaches 2^255.
    let mut q = words[0].add(L::splat(19)).shr(BITS);
    for place in 1..5 {
        q = words[place].add(q).shr(BITS);
    }
    words[0] = words[0].add(times19(q));
    let mask = L::splat(MASK);
    for place in 0..4 {
        words[place + 1] = words[place + 1].add(words[place].shr(BITS));
        words[place] = words[place].and(mask);
    }
    words[4] = words[4].and(mask); // drops 2^255 where q = 1
    words
}
