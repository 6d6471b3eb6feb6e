//! What sealing and opening a box take, part by part, in nanoseconds of the fastest path of this processor (or of the one
//! named in the first argument): the least of many turns, since other work of the machine only ever adds.
//!
//! `cargo run --release --example profile`

use blake2::digest::consts::U24;
use blake2::{Blake2b, Digest};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use shuffledp_accel::engine::{Engine, Recipient};
use shuffledp_accel::paths::available;
use std::hint::black_box;
use std::time::Instant;

const BOXES: usize = 1024;
const WIDTH: usize = 65;
const TURNS: usize = 60;

/// Nanoseconds a box.
fn least(mut work: impl FnMut()) -> f64 {
    let turn = |_| {
        let began = Instant::now();
        work();
        began.elapsed().as_nanos() as f64 / BOXES as f64
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min)
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| available().next().expect("an emulation").name.into());
    let engine = Engine::named(&path).expect("a path of this processor");
    let secrets: Vec<[u8; 32]> =
        (0..BOXES).map(|i| core::array::from_fn(|j| (i * 37 + j * 101 + i / 256) as u8)).collect();
    let public = engine.public_keys(&secrets[..1])[0];
    let (to, plain) = (Recipient::new(public), vec![7; BOXES * WIDTH]);
    let sealed = engine.seal(&to, &secrets, &plain, WIDTH).expect("a good key");
    assert!(to.has_table());

    let first = least(|| drop(black_box(engine.public_keys(&secrets))));
    let second = least(|| drop(black_box(engine.agreed(&to, &secrets))));
    let seal = least(|| drop(black_box(engine.seal(&to, &secrets, &plain, WIDTH))));
    let ladder = least(|| drop(black_box(engine.x25519(&secrets, &secrets))));
    let open = least(|| drop(black_box(engine.open(&secrets[0], &sealed, WIDTH + 48))));
    let nonce = least(|| {
        for secret in &secrets {
            black_box(Blake2b::<U24>::new().chain_update(secret).chain_update(public).finalize());
        }
    });
    let tag = least(|| {
        for (secret, body) in secrets.iter().zip(plain.chunks_exact(WIDTH)) {
            black_box(Poly1305::new(secret.into()).compute_unpadded(body));
        }
    });
    println!("{path}, {BOXES} boxes of {WIDTH} bytes, ns a box");
    println!("  seal {seal:.0}: ephemeral key (comb) {first:.0}, shared point (comb) {second:.0}, BLAKE2b {nonce:.0},");
    println!("    Poly1305 {tag:.0}, key streams and copies {:.0}", seal - first - second - nonce - tag);
    println!("  open {open:.0}: shared point (ladder) {ladder:.0}, all else {:.0}", open - ladder);
}
