//! Batches of X25519 and of libsodium's sealed boxes, several at a time in the lanes of one core; and in ristretto255.
//!
//! `words`, `field25`, `field51`: arithmetic modulo 2^255 - 19. `ladder`, `comb`: multiplication of any point, and of one
//! that is used again. `lanes` is what they need of a processor. `signatures`: the equation of Ed25519
//! for many. `ristretto`, `ed25519`, `signing`: loops over a library's group, its equation of a signature, signatures.
//! docs/adr/0012-accelerator.md says what is trusted here.

// Loops over lanes and limbs name places on several arrays at once.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod batches;
mod comb;
pub mod ed25519;
mod emulation;
pub mod engine;
mod field;
mod field25;
mod field51;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod ladder;
mod lanes;
#[cfg(feature = "memcheck")]
pub mod memcheck;
pub mod paths;
#[cfg(feature = "python")]
mod python;
pub mod ristretto;
mod salsa;
mod sealed;
mod signatures;
pub mod signing;
mod words;
