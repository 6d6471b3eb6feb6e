//! Does the time of a multiplication depend on its scalars? Welch's t-test of a fixed scalar against random ones
//! (Reparaz, Balasch, Verbauwhede 2017, "dude, is my code constant time?"), on the fastest path of this processor.
//!
//! `cargo run --release --example timing`; with `--features planted-leak` the ladder leaks, and this must say so.
//! It cannot prove anything: it finds what is large enough to be seen in so many measurements on this machine.

use shuffledp_accel::engine::{Engine, Recipient};
use shuffledp_accel::paths::available;
use std::process::ExitCode;
use std::time::Instant;

const SAMPLES: usize = 40_000;
/// The literature's: above 4.5 a difference is likely, above 10 it is there.
const LIMIT: f64 = 10.0;
/// The slowest part of the measurements is left out: interrupts, and other work of the machine.
const KEPT: f64 = 0.8;

struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn bytes(&mut self) -> [u8; 32] {
        core::array::from_fn(|_| self.word() as u8)
    }
}

fn mean_and_variance(times: &[f64]) -> (f64, f64) {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    (mean, times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (times.len() - 1) as f64)
}

/// t of the times of `work` with scalars of zeros (class 0) and with random ones (class 1), in random order.
fn t_value(lanes: usize, mut work: impl FnMut(&[[u8; 32]])) -> f64 {
    let mut noise = Noise(7);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        let class = (noise.word() & 1) as usize;
        let random: Vec<_> = (0..lanes).map(|_| noise.bytes()).collect();
        let scalars: Vec<_> = random.into_iter().map(|own| own.map(|byte| byte * class as u8)).collect();
        let began = Instant::now();
        work(&scalars);
        times[class].push(began.elapsed().as_nanos() as f64);
    }
    let mut all = times.concat();
    all.sort_by(f64::total_cmp);
    let limit = all[(all.len() as f64 * KEPT) as usize];
    let [(a, va, na), (b, vb, nb)] = times.map(|class| {
        let kept: Vec<_> = class.into_iter().filter(|time| *time <= limit).collect();
        let (mean, variance) = mean_and_variance(&kept);
        (mean, variance, kept.len() as f64)
    });
    println!("  zeros {a:.0} ns ({na:.0} kept), random {b:.0} ns ({nb:.0} kept)");
    (a - b) / (va / na + vb / nb).sqrt()
}

fn main() -> ExitCode {
    let path = available().next().expect("an emulation at least");
    let engine = Engine::named(path.name).expect("available");
    let lanes = path.lanes;
    let public = engine.public_keys(&[[3; 32]])[0];
    let points = vec![public; lanes];
    println!("{}, {SAMPLES} measurements each", path.name);
    let ladder = t_value(lanes, |scalars| drop(engine.x25519(scalars, &points)));
    println!("ladder: t = {ladder:.1}");
    let recipient = Recipient::new(public);
    engine.agreed(&recipient, &vec![[5; 32]; 100]);
    let comb = t_value(lanes, |scalars| drop(engine.agreed(&recipient, scalars)));
    println!("comb: t = {comb:.1}");
    let leaks = ladder.abs() > LIMIT || comb.abs() > LIMIT;
    println!("{}", if leaks { "time depends on the scalars" } else { "no dependence seen" });
    if leaks { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
