//! Binomial laws on windows around their means, Fourier transforms, and sums of positive parts.

use std::f64::consts::TAU;

/// Most points of a window, or of one side of a table of noise.
pub const MOST_POINTS: f64 = 262_144.0;

/// Relative error allowed for a computed probability.
pub const ROUNDING: f64 = 1e-9;

/// Beyond this ε nothing is computed: e^ε overflows soon after.
pub const LARGEST_EPSILON: f64 = 700.0;

/// A probability, and 1 less it, each with all its digits.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    pub one: f64,
    pub zero: f64,
}

impl Chance {
    pub fn new(one: f64, zero: f64) -> Self {
        Self { one, zero }
    }
}

pub fn deviation_of(trials: f64, chance: Chance) -> f64 {
    (trials * chance.one * chance.zero).sqrt()
}

/// Points of a window on each side of its mean.
pub fn reach_of(deviation: f64) -> f64 {
    (9.0 * deviation).ceil() + 40.0
}

/// Probabilities of `first` to `last` successes, from the ratios of neighbours; of sum 1.
pub fn window_of(trials: f64, chance: Chance, first: f64, last: f64) -> Vec<f64> {
    let odds = (chance.one / chance.zero).ln();
    let mut logs = vec![0.0];
    let mut successes = first;
    while successes < last {
        let step = ((trials - successes) / (successes + 1.0)).ln() + odds;
        logs.push(logs[logs.len() - 1] + step);
        successes += 1.0;
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / all).collect()
}

/// The first point of the window around the mean, and its probabilities.
pub fn near_mean(trials: f64, chance: Chance) -> (f64, Vec<f64>) {
    if chance.zero <= 0.0 {
        return (trials, vec![1.0]);
    }
    let reach = reach_of(deviation_of(trials, chance));
    let mean = (trials * chance.one).floor();
    let first = (mean - reach).max(0.0);
    (first, window_of(trials, chance, first, (mean + reach).min(trials)))
}

pub fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut joined = vec![0.0; a.len() + b.len() - 1];
    for (shift, weight) in b.iter().enumerate() {
        for (at, mass) in a.iter().enumerate() {
            joined[at + shift] += mass * weight;
        }
    }
    joined
}

/// Σ (P - e^ε Q)_+, rounded down, less `error` in the probability of an event.
pub fn excess(before: &[f64], after: &[f64], epsilon: f64, error: f64) -> f64 {
    let growth = epsilon.exp();
    let terms = before.iter().zip(after);
    let total: f64 = terms.map(|(p, q)| (p * (1.0 - ROUNDING) - growth * (1.0 + ROUNDING) * q).max(0.0)).sum();
    (total - (1.0 + growth) * error).clamp(0.0, 1.0)
}

/// The smallest power of two above this.
pub fn power_above(number: f64) -> usize {
    let whole = number as u64;
    1 << (64 - whole.leading_zeros())
}

/// The discrete Fourier transform in place, of a power of two points.
pub fn transform(re: &mut [f64], im: &mut [f64]) {
    let size = re.len();
    let mut mirror = 0;
    for at in 1..size {
        let mut bit = size >> 1;
        while mirror & bit != 0 {
            mirror ^= bit;
            bit >>= 1;
        }
        mirror ^= bit;
        if at < mirror {
            re.swap(at, mirror);
            im.swap(at, mirror);
        }
    }
    let turns: Vec<(f64, f64)> = (0..size / 2)
        .map(|at| (TAU * at as f64 / size as f64).sin_cos())
        .map(|(sine, cosine)| (cosine, -sine))
        .collect();
    let mut half = 1;
    while half < size {
        let stride = size / (2 * half);
        for start in (0..size).step_by(2 * half) {
            for at in 0..half {
                let (c, s) = turns[at * stride];
                let (a, b) = (start + at, start + at + half);
                let (x, y) = (re[b] * c - im[b] * s, re[b] * s + im[b] * c);
                (re[b], im[b]) = (re[a] - x, im[a] - y);
                (re[a], im[a]) = (re[a] + x, im[a] + y);
            }
        }
        half *= 2;
    }
}
