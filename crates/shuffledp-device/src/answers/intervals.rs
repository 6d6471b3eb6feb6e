//! Intervals from counted bits: the exact laws of the counts, inverted.
//!
//! A true value is outside an interval only if the observed count, or a more extreme one, has a
//! probability of at most 2.5%.

use std::collections::{BTreeSet, HashMap};
use std::f64::consts::TAU;

use crate::bounds::noise::{chernoff, noise_table};
use crate::bounds::windows::Chance;
use crate::ratio::Ratio;

/// A tail of at most this is small: 2.5%, less an allowance for the error of `lower_tail`.
pub const TAIL: f64 = 0.025 - 1e-6;

/// Points of the upper half circle that are summed.
const NODES: u32 = 32;

/// A smaller standard deviation is taken for this one: then all points of the circle are summed.
const LEAST_DEVIATION: f64 = 3.75;

/// Of the normal law at 1 - 0.025 + 1e-5, rounded up.
const QUANTILE: f64 = 1.960_135_2;

/// Independent bits that are 1 with the same probability: how many, and the probability.
pub type Bits = (f64, Chance);

/// P(C <= ones), where C is the number of ones; 1 from the mean on. Wrong by at most 1e-7.
pub fn lower_tail(ones: f64, bits: &[Bits]) -> f64 {
    let mean: f64 = bits.iter().map(|(count, chance)| count * chance.one).sum();
    let variance: f64 = bits.iter().map(|(count, chance)| count * chance.one * chance.zero).sum();
    if ones >= mean {
        return 1.0;
    }
    let deviation = variance.sqrt().max(LEAST_DEVIATION);
    let points = (2.0 * f64::from(NODES) * deviation / LEAST_DEVIATION).ceil();
    let real = -1.5 / deviation;
    let swapped: f64 = bits.iter().filter(|(_, chance)| chance.one > 0.5).map(|(count, _)| count).sum();
    let left = ones - swapped;
    let mut total = 0.0;
    for node in 0..=NODES {
        let angle = TAU * f64::from(node) / points;
        let (mut re, mut im) = (0.0, 0.0);
        for (count, chance) in bits {
            // By the rarer outcome: the other one shifts the law.
            let (rare, sign) = if chance.one > 0.5 { (chance.zero, -1.0) } else { (chance.one, 1.0) };
            let (x, y) = expm1(sign * real, sign * angle);
            let (x, y) = (rare * x, rare * y);
            re += count * 0.5 * (2.0 * x + x * x + y * y).ln_1p();
            im += count * y.atan2(1.0 + x);
        }
        let (size, turn) = ((re - real * left).exp(), im - angle * left);
        let (c, d) = expm1(real, angle);
        let term = -size * (turn.cos() * c + turn.sin() * d) / (c * c + d * d);
        let is_end = node == 0 || (node == NODES && points == 2.0 * f64::from(NODES));
        total += if is_end { term } else { 2.0 * term };
    }
    (total / points).clamp(0.0, 1.0)
}

/// e^z - 1 of a complex number, with all digits where it is small.
fn expm1(real: f64, angle: f64) -> (f64, f64) {
    let (sine, cosine) = angle.sin_cos();
    (real.exp_m1() * cosine - 2.0 * (angle / 2.0).sin().powi(2), real.exp() * sine)
}

/// The largest number from 0 to `top` for which a condition holds, by bisection; 0 if there is none.
pub fn find_largest(top: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, top);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Noise in each count besides the reports.
pub struct Added {
    /// Bits that are 1 with the probability `rate`.
    pub slots: f64,
    pub rate: Chance,
    pub mean: f64,
    pub deviation: f64,
    /// Values of a noise and their probabilities; `backward` of the negative noise.
    pub forward: Vec<(f64, f64)>,
    pub backward: Vec<(f64, f64)>,
}

impl Added {
    pub fn nothing() -> Self {
        Self::bits(0.0, Chance::new(0.0, 1.0))
    }

    pub fn bits(slots: f64, rate: Chance) -> Self {
        let (mean, deviation) = (slots * rate.one, (slots * rate.one * rate.zero).sqrt());
        Self { slots, rate, mean, deviation, forward: vec![(0.0, 1.0)], backward: vec![(0.0, 1.0)] }
    }
}

/// 95% intervals for x, from counts with the law Bin(x, p) + Bin(n - x, q) + added noise.
pub fn count_intervals(counts: &[f64], users: u64, p: Chance, q: Chance, added: &Added) -> (Vec<f64>, Vec<f64>) {
    let n = users as f64;
    let turned = |chance: Chance| Chance::new(chance.zero, chance.one);
    let spread = (n * (p.one * p.zero).min(q.one * q.zero)).sqrt();
    let step = if counts.len() > 1000 { (0.01 * spread).floor().max(1.0) } else { 1.0 };
    let down = counts.iter().map(|count| n + added.slots - (count / step).floor() * step);
    let up = counts.iter().map(|count| (count / step).ceil() * step);
    let low_ends =
        largest_counts(down, users, (turned(q), turned(p)), (added.slots, turned(added.rate)), &added.backward);
    let highs = largest_counts(up, users, (p, q), (added.slots, added.rate), &added.forward);
    (low_ends.into_iter().map(|end| n - end).collect(), highs)
}

/// The largest x at which a count of at most each has probability above 2.5%.
fn largest_counts(
    counts: impl Iterator<Item = f64>,
    users: u64,
    (high, low): (Chance, Chance),
    slots: Bits,
    noise: &[(f64, f64)],
) -> Vec<f64> {
    let mut computed = HashMap::new();
    let end_of = |count: f64| {
        let holds = |x: u64| {
            let laws = [(x as f64, high), ((users - x) as f64, low), slots];
            noise.iter().map(|(value, mass)| mass * lower_tail(count - value, &laws)).sum::<f64>() > TAIL
        };
        find_largest(users, holds) as f64
    };
    counts.map(|count| *computed.entry(count.to_bits()).or_insert_with(|| end_of(count))).collect()
}

/// Numbers between which Bin(trials, chance) lies with probability 95% or more.
pub fn binomial_interval(trials: u64, chance: Chance) -> (f64, f64) {
    let fewest = |chance: Chance| {
        let rare = |x: u64| x == 0 || lower_tail(x as f64 - 1.0, &[(trials as f64, chance)]) <= TAIL;
        find_largest(trials, rare) as f64
    };
    (fewest(chance), trials as f64 - fewest(Chance::new(chance.zero, chance.one)))
}

/// Edges of the blocks of `composition_laws`, as shares of the rounded bits.
fn offsets() -> impl Iterator<Item = f64> {
    let near = (0..20).map(|at| f64::from(at) * 0.002);
    near.chain((0..14).map(|at| 0.04 * 25_f64.powf(f64::from(at) / 13.0)))
}

/// A number of bits that values add up to: a whole number and a rest below 1.
#[derive(Clone, Copy)]
struct Steps {
    whole: u64,
    rest: f64,
}

/// Laws of the number of ones of values that add up to `steps` bits, one of which has the largest tail.
fn composition_laws(steps: Steps, bits: u64, users: u64, flip: f64, slope: f64) -> Vec<[Bits; 5]> {
    let n = users as f64;
    let some = u64::from(steps.rest > 0.0);
    let least = steps.whole.saturating_sub(bits - users) as f64;
    let most = steps.whole.min(users - some) as f64;
    let middle = (n / 2.0 - steps.rest).round().max(least).min(most);
    let mut edges: BTreeSet<u64> = BTreeSet::from([least as u64, most as u64]);
    for offset in offsets().map(|offset| (offset * n).floor()) {
        edges.extend([middle - offset, middle + offset].map(|edge| edge.max(least).min(most) as u64));
    }
    let edges: Vec<u64> = edges.into_iter().collect();
    let law = |at: usize| {
        let low = edges[at] as f64;
        let high = edges.get(at + 1).map_or(most, |next| (next - 1) as f64);
        let (more, less) = (n - high - some as f64, low);
        let (chance_more, chance_less) = ((high + steps.rest) / n, (low + steps.rest) / n);
        let between = 2.0 * (high - low) + some as f64;
        let left = high + steps.rest - more * chance_more - less * chance_less;
        let share = if between > 0.0 { (left / between).clamp(0.0, 1.0) } else { 0.0 };
        let whole = steps.whole as f64;
        let groups = [
            (whole - high, 1.0),
            (more, chance_more),
            (between, share),
            (less, chance_less),
            (bits as f64 - n - whole + low, 0.0),
        ];
        groups.map(|(count, chance)| (count, Chance::new(flip + slope * chance, flip + slope * (1.0 - chance))))
    };
    (0..edges.len()).map(law).collect()
}

/// Interval for a sum of values in unary code, each rounded at random to a whole number of bits, which
/// stand for `unit` units and were flipped with the probability `flip`.
pub fn rounded_sum_interval(ones: u64, bits: u64, users: u64, unit: Ratio, flip: Ratio) -> (f64, f64) {
    let most = u128::from(bits) * unit.n;
    let top = most.div_ceil(unit.d) as u64;
    let slope = 1.0 - 2.0 * flip.value();
    let end = |count: u64| {
        find_largest(top, |total| {
            let (part, whole) = (u128::from(total) * unit.d % unit.n, u128::from(total) * unit.d / unit.n);
            let steps = if whole >= u128::from(bits) {
                Steps { whole: bits, rest: 0.0 }
            } else {
                Steps { whole: whole as u64, rest: part as f64 / unit.n as f64 }
            };
            let expected = bits as f64 * flip.value() + slope * (steps.whole as f64 + steps.rest);
            if expected < count as f64 + 2.0 {
                return true;
            }
            let laws = composition_laws(steps, bits, users, flip.value(), slope);
            laws.iter().any(|law| lower_tail(count as f64, law) > TAIL)
        })
    };
    let high = (end(ones) as f64).min((most / unit.d) as f64);
    ((top as f64 - end(bits - ones) as f64).max(0.0), high)
}

/// h with P(|Y| <= h) >= 95% of the noise of users.
pub fn half_width(shape: f64, rate: f64) -> f64 {
    if let Some(table) = noise_table(shape, rate) {
        let (mut inside, mut h) = (table[0], 0);
        while inside < 0.95 + 1e-9 && h + 1 < table.len() {
            h += 1;
            inside += 2.0 * table[h];
        }
        return h as f64;
    }
    let ratio = (-rate).exp();
    if is_skewed(shape, ratio) {
        return chernoff(shape, rate, 0.05);
    }
    (QUANTILE * (2.0 * shape * ratio).sqrt() / -(-rate).exp_m1() + 0.5).ceil()
}

fn is_skewed(shape: f64, ratio: f64) -> bool {
    (1.0 + 4.0 * ratio + ratio.powi(2)) / (2.0 * shape * ratio) >= 1e-3
}

/// The mean of the largest 2.5% of the noise of so many users.
pub fn mean_of_tail(shape: f64, rate: f64) -> f64 {
    const FINE: f64 = 1e-9;
    if let Some(table) = noise_table(shape, rate) {
        // P(Y > c) from the far end on; what is left out is below 1e-9.
        let mut above = vec![0.0; table.len()];
        for at in (0..table.len() - 1).rev() {
            above[at] = above[at + 1] + table[at + 1];
        }
        let cut = above.iter().position(|chance| chance + FINE <= 0.025).unwrap_or(above.len() - 1);
        return cut as f64 + above[cut..].iter().map(|chance| chance + FINE).sum::<f64>() / 0.025;
    }
    let ratio = (-rate).exp();
    if is_skewed(shape, ratio) {
        return chernoff(shape, rate, 0.05);
    }
    (2.337_802_8 + 1e-3) * ((2.0 * shape * ratio).sqrt() / -(-rate).exp_m1())
}
