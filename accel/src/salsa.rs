//! XSalsa20's key streams (Bernstein 2011, "Extending the Salsa20 nonce") of 2N boxes at a time.
//!
//! A lane of 64 bits holds a word of two boxes: of number `lane` in its low half, of number N + `lane` in its high half.

use crate::lanes::Lanes;
use crate::words::Bytes;
use zeroize::Zeroize;

pub type Nonce = [u8; 24];

/// Bytes of a block.
pub const BLOCK: usize = 64;

/// "expand 32-byte k", on the diagonal of every state.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Places of the diagonal, of a key, and of what a block is for: nonce and counter, or the input of HSalsa20.
const DIAGONAL: [usize; 4] = [0, 5, 10, 15];
const KEY: [usize; 8] = [1, 2, 3, 4, 11, 12, 13, 14];
const INPUT: [usize; 4] = [6, 7, 8, 9];

/// Columns, then rows.
const QUARTERS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [5, 9, 13, 1],
    [10, 14, 2, 6],
    [15, 3, 7, 11],
    [0, 1, 2, 3],
    [5, 6, 7, 4],
    [10, 11, 8, 9],
    [15, 12, 13, 14],
];

/// Twenty rounds, without the addition at their end.
#[inline(always)]
fn rounds<L: Lanes<N>, const N: usize>(state: &[L; 16]) -> [L; 16] {
    let mut s = *state;
    for _ in 0..10 {
        for [a, b, c, d] in QUARTERS {
            s[b] = s[b].xor(s[a].add32(s[d]).rotated32::<7>());
            s[c] = s[c].xor(s[b].add32(s[a]).rotated32::<9>());
            s[d] = s[d].xor(s[c].add32(s[b]).rotated32::<13>());
            s[a] = s[a].xor(s[d].add32(s[c]).rotated32::<18>());
        }
    }
    s
}

/// The same word in both halves of every lane.
#[inline(always)]
fn both<L: Lanes<N>, const N: usize>(word: u32) -> L {
    L::splat(u64::from(word) << 32 | u64::from(word))
}

/// Word number `word` of each box's bytes; zero for boxes to spare.
#[inline(always)]
fn loaded<L: Lanes<N>, const N: usize, const SIZE: usize>(boxes: &[[u8; SIZE]], word: usize) -> L {
    let mut lanes = [0; N];
    for (number, bytes) in boxes.iter().enumerate() {
        let [a, b, c, d] = [bytes[4 * word], bytes[4 * word + 1], bytes[4 * word + 2], bytes[4 * word + 3]];
        lanes[number % N] |= u64::from(u32::from_le_bytes([a, b, c, d])) << (32 * (number / N));
    }
    let loaded = L::from_array(lanes);
    lanes.zeroize();
    loaded
}

/// HSalsa20 of the key and the input in `state`, as the key of the state that is returned; its input is zero.
#[inline(always)]
fn hashed<L: Lanes<N>, const N: usize>(state: &[L; 16]) -> [L; 16] {
    let mixed = rounds(state);
    let mut next = *state;
    for place in 0..4 {
        next[KEY[place]] = mixed[DIAGONAL[place]];
        next[KEY[place + 4]] = mixed[INPUT[place]];
        next[INPUT[place]] = L::splat(0);
    }
    next
}

/// The key streams of as many boxes, 2N at most, one after another in `out`: a whole number of blocks each.
///
/// A box's key is HSalsa20(shared, 0), as `crypto_box_beforenm` of libsodium makes it; `shared` is what X25519 gave.
#[inline(always)]
pub fn streams<L: Lanes<N>, const N: usize>(shared: &[Bytes], nonces: &[Nonce], out: &mut [u8]) {
    assert!(!shared.is_empty() && shared.len() <= 2 * N && shared.len() == nonces.len());
    let size = out.len() / shared.len();
    assert!(size.is_multiple_of(BLOCK) && size * shared.len() == out.len());
    let mut state = [L::splat(0); 16];
    for place in 0..4 {
        state[DIAGONAL[place]] = both(CONSTANTS[place]);
    }
    for place in 0..8 {
        state[KEY[place]] = loaded(shared, place);
    }
    state = hashed(&state);
    for place in 0..4 {
        state[INPUT[place]] = loaded(nonces, place);
    }
    state = hashed(&state);
    state[INPUT[0]] = loaded(nonces, 4);
    state[INPUT[1]] = loaded(nonces, 5);
    for block in 0..size / BLOCK {
        state[INPUT[2]] = both(block as u32);
        state[INPUT[3]] = both((block as u64 >> 32) as u32);
        let mixed = rounds(&state);
        let mut words = [[0; N]; 16];
        for place in 0..16 {
            words[place] = mixed[place].add32(state[place]).to_array();
        }
        for number in 0..shared.len() {
            let bytes = &mut out[number * size + block * BLOCK..][..BLOCK];
            for place in 0..16 {
                let word = (words[place][number % N] >> (32 * (number / N))) as u32;
                bytes[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
            }
        }
        words.as_flattened_mut().zeroize();
    }
}

#[cfg(test)]
mod tests {
    use crate::paths::available;
    use salsa20::XSalsa20;
    use salsa20::cipher::{KeyIvInit, StreamCipher};
    use salsa20::{cipher::consts::U10, hsalsa};

    #[test]
    fn streams_are_those_of_another_implementation_for_every_count_and_length() {
        for path in available() {
            for count in 1..=2 * path.lanes {
                let blocks = 1 + count % 3;
                let keys: Vec<[u8; 32]> =
                    (0..count).map(|box_| core::array::from_fn(|i| (7 * i + 31 * box_ + 1) as u8)).collect();
                let nonces: Vec<[u8; 24]> =
                    (0..count).map(|box_| core::array::from_fn(|i| (3 * i + 101 * box_) as u8)).collect();
                let mut given = vec![0xa5; count * blocks * 64];
                // SAFETY: only paths that this processor has.
                unsafe { (path.streams)(&keys, &nonces, &mut given) };
                for (number, stream) in given.chunks_exact(blocks * 64).enumerate() {
                    let mut wanted = vec![0; blocks * 64];
                    let key = hsalsa::<U10>(&keys[number].into(), &[0; 16].into());
                    XSalsa20::new(&key, &nonces[number].into()).apply_keystream(&mut wanted);
                    assert!(stream == wanted, "{}, {number} of {count}", path.name);
                }
            }
        }
    }
}
