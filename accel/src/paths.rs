//! Every way to compute, by name, and which of them this processor has.

use crate::batches;
use crate::comb::Table;
use crate::emulation::Emulated;
use crate::field::Field;
use crate::field25::Field25;
use crate::field51::Field51;
use crate::salsa::{self, Nonce};
use crate::signatures;
use crate::words::Bytes;

/// One way to compute. Calls are unsafe: the processor must have what the path needs, which `Path::runs_here` says.
pub struct Path {
    /// Its name in configuration and messages.
    pub name: &'static str,
    /// Multiplications at a time.
    pub lanes: usize,
    /// Whether it is faster than the library; emulations are for tests.
    pub fast: bool,
    pub(crate) runs_here: fn() -> bool,
    pub(crate) ladders: unsafe fn(&[Bytes], &[Bytes], &mut [Bytes]),
    pub(crate) combs: unsafe fn(&Table, &[Bytes], &mut [Bytes]),
    pub(crate) table: unsafe fn(&Bytes) -> Option<Table>,
    pub(crate) streams: unsafe fn(&[Bytes], &[Nonce], &mut [u8]),
    pub(crate) encoded_table: unsafe fn(&Bytes) -> Option<Table>,
    pub(crate) sums_by_keys: unsafe fn(&Table, &[Bytes], &[Bytes], &[Bytes], &mut [Bytes], &mut [bool]),
    pub(crate) sums_by_table: unsafe fn(&Table, &Table, &[Bytes], &[Bytes], &mut [Bytes]),
}

/// The functions of a path, each compiled with the instructions it names; all that they call is inlined into them.
macro_rules! compiled {
    ($module:ident, $lanes:literal, $field:ty $(, $features:literal)?) => {
        mod $module {
            use super::*;
            $(#[target_feature(enable = $features)])?
            pub fn ladders(scalars: &[Bytes], points: &[Bytes], out: &mut [Bytes]) {
                batches::ladders::<$field, $lanes>(scalars, points, out);
            }
            $(#[target_feature(enable = $features)])?
            pub fn combs(table: &Table, scalars: &[Bytes], out: &mut [Bytes]) {
                batches::combs::<$field, $lanes>(table, scalars, out);
            }
            $(#[target_feature(enable = $features)])?
            pub fn table(u: &Bytes) -> Option<Table> {
                Table::of::<$field, $lanes>(u)
            }
            $(#[target_feature(enable = $features)])?
            pub fn streams(shared: &[Bytes], nonces: &[Nonce], out: &mut [u8]) {
                salsa::streams::<<$field as Field<$lanes>>::L, $lanes>(shared, nonces, out);
            }
            $(#[target_feature(enable = $features)])?
            pub fn encoded_table(encoded: &Bytes) -> Option<Table> {
                signatures::table::<$field, $lanes>(encoded)
            }
            $(#[target_feature(enable = $features)])?
            pub fn sums_by_keys(
                base: &Table,
                keys: &[Bytes],
                s: &[Bytes],
                h: &[Bytes],
                out: &mut [Bytes],
                found: &mut [bool],
            ) {
                batches::sums_by_keys::<$field, $lanes>(base, keys, s, h, out, found);
            }
            $(#[target_feature(enable = $features)])?
            pub fn sums_by_table(base: &Table, key: &Table, s: &[Bytes], h: &[Bytes], out: &mut [Bytes]) {
                batches::sums_by_table::<$field, $lanes>(base, key, s, h, out);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(ifma, 8, Field51<crate::ifma::Ifma, 8>, "avx512f,avx512ifma");
#[cfg(target_arch = "x86_64")]
compiled!(avx2, 4, Field25<crate::avx2::Avx2, 4>, "avx2");
compiled!(emulated_ifma, 8, Field51<Emulated<8>, 8>);
compiled!(emulated_avx2, 4, Field25<Emulated<4>, 4>);

/// All paths, fastest first.
pub static PATHS: &[Path] = &[
    #[cfg(target_arch = "x86_64")]
    Path {
        name: "ifma",
        lanes: 8,
        fast: true,
        runs_here: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma"),
        ladders: ifma::ladders,
        combs: ifma::combs,
        table: ifma::table,
        streams: ifma::streams,
        encoded_table: ifma::encoded_table,
        sums_by_keys: ifma::sums_by_keys,
        sums_by_table: ifma::sums_by_table,
    },
    #[cfg(target_arch = "x86_64")]
    Path {
        name: "avx2",
        lanes: 4,
        fast: true,
        runs_here: || is_x86_feature_detected!("avx2"),
        ladders: avx2::ladders,
        combs: avx2::combs,
        table: avx2::table,
        streams: avx2::streams,
        encoded_table: avx2::encoded_table,
        sums_by_keys: avx2::sums_by_keys,
        sums_by_table: avx2::sums_by_table,
    },
    Path {
        name: "emulated-ifma",
        lanes: 8,
        fast: false,
        runs_here: || true,
        ladders: emulated_ifma::ladders,
        combs: emulated_ifma::combs,
        table: emulated_ifma::table,
        streams: emulated_ifma::streams,
        encoded_table: emulated_ifma::encoded_table,
        sums_by_keys: emulated_ifma::sums_by_keys,
        sums_by_table: emulated_ifma::sums_by_table,
    },
    Path {
        name: "emulated-avx2",
        lanes: 4,
        fast: false,
        runs_here: || true,
        ladders: emulated_avx2::ladders,
        combs: emulated_avx2::combs,
        table: emulated_avx2::table,
        streams: emulated_avx2::streams,
        encoded_table: emulated_avx2::encoded_table,
        sums_by_keys: emulated_avx2::sums_by_keys,
        sums_by_table: emulated_avx2::sums_by_table,
    },
];

/// Paths that this processor can take, fastest first.
pub fn available() -> impl Iterator<Item = &'static Path> {
    PATHS.iter().filter(|path| (path.runs_here)())
}
