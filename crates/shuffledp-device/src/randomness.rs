//! Uniform integers from the operating system's randomness, exactly; docs/reference/vectors.md,
//! "Coins".

use zeroize::Zeroizing;

/// Fills a block with the operating system's randomness.
///
/// Without it nothing can be done in private: a process that has none ends here.
pub fn system_random(block: &mut [u8]) {
    getrandom::fill(block).expect("the operating system gives random bytes");
}

const BLOCK: usize = 4096;

/// Integers from a source of random bytes, which is read in blocks; what was read is erased.
pub struct Integers<Source: FnMut(&mut [u8])> {
    source: Source,
    block: Zeroizing<Vec<u8>>,
    used: usize,
}

impl<Source: FnMut(&mut [u8])> Integers<Source> {
    pub fn new(source: Source) -> Self {
        Self { source, block: Zeroizing::new(Vec::new()), used: 0 }
    }

    /// A uniform number below `bound`, which is at least 1, by rejection.
    pub fn below(&mut self, bound: u128) -> u128 {
        let bits = 128 - (bound - 1).leading_zeros() as usize;
        if bits == 0 {
            return 0;
        }
        let width = bits.div_ceil(8);
        loop {
            if self.used + width > self.block.len() {
                self.block = Zeroizing::new(vec![0; BLOCK.max(width)]);
                (self.source)(&mut self.block);
                self.used = 0;
            }
            let drawn = &self.block[self.used..self.used + width];
            let value = drawn.iter().fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
            self.used += width;
            let value = value >> (8 * width - bits);
            if value < bound {
                return value;
            }
        }
    }
}
