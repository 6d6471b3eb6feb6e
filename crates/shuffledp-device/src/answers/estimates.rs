//! From the symbols of a board to an unbiased estimate with an interval, one for each mechanism.

use crate::answers::intervals::{
    Added, binomial_interval, count_intervals, half_width, mean_of_tail, rounded_sum_interval,
};
use crate::answers::nodes::{NodeNoise, blocks_of, conditional_noise, mirror, weighted_half_width};
use crate::answers::trees::BinTree;
use crate::bounds::noise::{bounded_laplace, chernoff, law_of_sum};
use crate::bounds::windows::Chance;
use crate::errors::{Code, Outcome, refuse};
use crate::mechanisms::{Columns, Mechanism};
use crate::ratio::Ratio;

/// Messages that count, divided by the messages of a user; not always whole where some are lost.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    pub remaining: u64,
    pub messages: u64,
}

impl Reports {
    /// So many for each report, rounded down.
    fn times(self, number: u64) -> u64 {
        (u128::from(self.remaining) * u128::from(number) / u128::from(self.messages)) as u64
    }

    fn floor(self) -> u64 {
        self.times(1)
    }

    fn value(self) -> f64 {
        self.remaining as f64 / self.messages as f64
    }
}

/// An estimate with its errors and intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub quantity: &'static str,
    pub values: Vec<f64>,
    pub standard_errors: Vec<f64>,
    pub lows: Vec<f64>,
    pub highs: Vec<f64>,
    /// Of a sum: the mean of the values, and its standard error.
    pub mean: Option<(f64, f64)>,
}

/// What a board and its headers give: the symbols that count, their reports, and what is lost.
pub struct Counting<'a> {
    pub symbols: &'a [u64],
    pub reports: Reports,
    /// Nodes that added dummies.
    pub nodes: u64,
    /// Messages of users that do not count.
    pub lost: u64,
}

impl Mechanism {
    /// Values that an estimate has.
    pub fn answers(&self) -> u64 {
        match self {
            Mechanism::NodeColumns { columns: Columns { sizes, group: None, .. }, .. } => sizes.iter().sum(),
            _ if self.is_histogram() => self.domain(),
            _ => 1,
        }
    }

    /// Whether the answer needs every message.
    pub fn needs_all(&self) -> bool {
        matches!(self, Mechanism::Split { .. })
    }
}

/// The unbiased estimate of a mechanism, with a 95% interval.
pub fn estimate(mechanism: &Mechanism, counting: &Counting) -> Outcome<Estimate> {
    let Counting { symbols, reports, nodes, .. } = *counting;
    match mechanism {
        Mechanism::Krr { symbols: size, blanket } => {
            let (high, low) = response(*size, *blanket);
            histogram(&tally(symbols, *size), reports.floor(), high, low, &Added::nothing())
        }
        Mechanism::Hadamard { symbols: size, blanket } => {
            let half = blanket.half();
            let inside = hadamard_counts(symbols, *size, mechanism.alphabet());
            let high = Chance::new(half.complement().value(), half.value());
            histogram(&inside, reports.floor(), high, Chance::new(0.5, 0.5), &Added::nothing())
        }
        Mechanism::Dummies { symbols: size, slots, fill, blanket } => {
            let trials = reports.times(*slots);
            let rate = share(*fill, *size);
            let counts = tally(symbols, *size);
            let added = Added::bits(trials as f64, rate);
            match blanket {
                None => {
                    let (least, most) = binomial_interval(trials, rate);
                    let noise = NodeNoise { mean: added.mean, deviation: added.deviation, least, most };
                    Ok(among_dummies(&counts, reports.value(), &noise))
                }
                Some(blanket) => {
                    let (high, low) = response(*size, *blanket);
                    histogram(&counts, reports.floor(), high, low, &added)
                }
            }
        }
        Mechanism::Rappor { symbols: size, fake, when_zero, when_one, .. } => {
            let ones = |at: u64| symbols.iter().filter(|report| *report >> at & 1 == 1).count() as f64;
            let counts: Vec<f64> = (0..*size).map(ones).collect();
            let (zero, one) = (when_zero.value(), when_one.value());
            let step = (one - zero) * fake.value() / 2.0;
            let (low, high) = (zero + step, one - step);
            let (low, high) = (Chance::new(low, 1.0 - low), Chance::new(high, 1.0 - high));
            histogram(&counts, reports.floor(), high, low, &Added::nothing())
        }
        Mechanism::OneBit { max_value, randomise } => one_bit(count_ones(symbols), reports, *max_value, *randomise),
        Mechanism::Quantised { max_value, bits, randomise } => {
            quantised_sum(count_ones(symbols), reports, *max_value, *bits, *randomise)
        }
        Mechanism::Unary { max_value, randomise } => sum_of_bits(count_ones(symbols), reports, *max_value, *randomise),
        Mechanism::Geometric { max_value, rate, padding } => {
            let rate = rate.value();
            let beyond = clamping_bound(rate, *padding);
            let bias = beyond * (-rate * *max_value as f64).exp_m1() / (-2.0 * rate).exp_m1();
            Ok(padded_sum(count_ones(symbols), reports, *padding, (*max_value, 1, rate), bias))
        }
        Mechanism::Shared { max_value, rate, shares, padding } => {
            let rate = rate.value();
            let bias = match shares {
                1 => clamping_bound(rate, *padding) * (-rate * *max_value as f64).exp_m1() / (-2.0 * rate).exp_m1(),
                _ => clamping_bound(rate, *padding) / (-rate).exp_m1().powi(2) / *shares as f64,
            };
            Ok(padded_sum(count_ones(symbols), reports, *padding, (*max_value, *shares, rate), bias))
        }
        Mechanism::Split { max_value, rate, shares, modulus, .. } => {
            split(symbols, reports, (*max_value, *shares, rate.value()), *modulus)
        }
        Mechanism::Laplace { max_value, rate } => Ok(local_laplace(symbols, reports, *max_value, rate.value())),
        Mechanism::NodeHistogram { symbols: size, rate, mean, dummies, blanket } => {
            let laws = [(1.0, conditional_noise(rate.value(), *mean, *size, *dummies)?)];
            let noise = NodeNoise::of(&laws, nodes)?;
            let counts = less(&tally(symbols, *size), nodes * mean);
            let Some(blanket) = blanket else { return Ok(among_dummies(&counts, reports.value(), &noise)) };
            let (high, low) = response(*size, *blanket);
            let added = Added {
                mean: noise.mean,
                deviation: noise.deviation,
                forward: blocks_of(&laws, nodes, noise.deviation)?,
                backward: blocks_of(&mirror(&laws), nodes, noise.deviation)?,
                ..Added::nothing()
            };
            histogram(&counts, reports.floor(), high, low, &added)
        }
        Mechanism::NodeSum { max_value, digits } => {
            let counts = tally(symbols, mechanism.alphabet());
            let parts = digits.weights.iter().zip(&digits.means).enumerate();
            let parts = parts.map(|(at, (weight, mean))| *weight as f64 * (counts[2 * at + 1] - (nodes * mean) as f64));
            let total: f64 = parts.sum();
            let laws = digits.weights.iter().zip(digits.rates.iter().zip(&digits.means));
            let laws: Vec<(f64, Vec<f64>)> =
                laws.map(|(weight, (rate, mean))| (*weight as f64, bounded_laplace(*rate, *mean))).collect();
            let noise = NodeNoise::of(&laws, nodes)?;
            let ends = (total - noise.most, total - noise.least);
            Ok(sum(total, noise.deviation, ends, reports, *max_value))
        }
        Mechanism::NodeColumns { columns, rate, mean, .. } => {
            let counts = tally(symbols, mechanism.alphabet());
            let mut start = 0;
            let column = |size: &u64| {
                let column = less(&counts[start..start + *size as usize], nodes * mean);
                start += *size as usize + 1;
                column
            };
            let observed: Vec<Vec<f64>> = columns.sizes.iter().map(column).collect();
            match columns.group {
                None => several_columns(&observed, counting, columns, rate.value(), *mean),
                Some(width) => tree(&observed, counting, columns, (rate.value(), *mean), width),
            }
        }
    }
}

/// How often each of the first symbols occurs.
fn tally(symbols: &[u64], size: u64) -> Vec<f64> {
    let mut counts = vec![0.0; size as usize];
    for symbol in symbols {
        if let Some(count) = counts.get_mut(*symbol as usize) {
            *count += 1.0;
        }
    }
    counts
}

fn count_ones(symbols: &[u64]) -> u64 {
    symbols.iter().filter(|symbol| **symbol == 1).count() as u64
}

fn less(counts: &[f64], dummies: u64) -> Vec<f64> {
    counts.iter().map(|count| count - dummies as f64).collect()
}

/// A probability divided by a number of symbols.
fn share(whole: Ratio, symbols: u64) -> Chance {
    let part = Ratio::new(whole.n, whole.d * u128::from(symbols));
    Chance::new(part.value(), part.complement().value())
}

/// Probabilities of the true symbol and of any other in k-ary randomised response.
fn response(symbols: u64, blanket: Ratio) -> (Chance, Chance) {
    let low = share(blanket, symbols);
    let others = low.one * (symbols - 1) as f64;
    (Chance::new(blanket.complement().value() + low.one, others), low)
}

fn pure_noise<T>() -> Outcome<T> {
    refuse(Code::Usage, "every message is pure noise")
}

/// How many reports agree with each symbol's row of the Hadamard matrix.
fn hadamard_counts(symbols: &[u64], size: u64, order: u64) -> Vec<f64> {
    let mut signed = tally(symbols, order);
    let mut step = 1;
    while step < signed.len() {
        for at in (0..signed.len()).filter(|at| at & step == 0) {
            (signed[at], signed[at + step]) = (signed[at] + signed[at + step], signed[at] - signed[at + step]);
        }
        step *= 2;
    }
    let all = symbols.len() as f64;
    signed[1..=size as usize].iter().map(|value| (value + all) / 2.0).collect()
}

fn histogram(counts: &[f64], users: u64, p: Chance, q: Chance, added: &Added) -> Outcome<Estimate> {
    let n = users as f64;
    let slope = p.one - q.one;
    if slope <= 0.0 {
        return pure_noise();
    }
    let values: Vec<f64> = counts.iter().map(|count| (count - added.mean - n * q.one) / slope).collect();
    let error = |value: &f64| {
        let held = value.clamp(0.0, n);
        let variance = held * p.one * p.zero + (n - held) * q.one * q.zero + added.deviation.powi(2);
        variance.sqrt() / slope
    };
    let standard_errors = values.iter().map(error).collect();
    let (lows, highs) = count_intervals(counts, users, p, q, added);
    Ok(Estimate { quantity: "histogram", values, standard_errors, lows, highs, mean: None })
}

/// A histogram among dummies.
fn among_dummies(counts: &[f64], reports: f64, noise: &NodeNoise) -> Estimate {
    let ends = |noise: f64| counts.iter().map(|count| (count - noise).clamp(0.0, reports)).collect();
    Estimate {
        quantity: "histogram",
        values: counts.iter().map(|count| count - noise.mean).collect(),
        standard_errors: vec![noise.deviation; counts.len()],
        lows: ends(noise.most),
        highs: ends(noise.least),
        mean: None,
    }
}

fn sum(value: f64, error: f64, (low, high): (f64, f64), reports: Reports, max_value: u64) -> Estimate {
    let n = reports.value();
    let clip = |end: f64| vec![end.clamp(0.0, n * max_value as f64)];
    Estimate {
        quantity: "sum",
        values: vec![value],
        standard_errors: vec![error],
        lows: clip(low),
        highs: clip(high),
        mean: Some((value / n, error / n)),
    }
}

/// ones - bits * flip, rounded once.
fn excess_ones(ones: u64, bits: u64, flip: Ratio) -> f64 {
    let exact = i128::from(ones) * flip.d as i128 - i128::from(bits) * flip.n as i128;
    exact as f64 / flip.d as f64
}

fn sum_of_bits(ones: u64, reports: Reports, max_value: u64, randomise: Ratio) -> Outcome<Estimate> {
    let (flip, slope) = (randomise.half(), randomise.complement());
    if slope.n == 0 {
        return pure_noise();
    }
    let bits = reports.times(max_value);
    let value = excess_ones(ones, bits, flip) / slope.value();
    let (low, high) = (flip.value(), flip.complement().value());
    let counts = [ones as f64];
    let (lows, highs) =
        count_intervals(&counts, bits, Chance::new(high, low), Chance::new(low, high), &Added::nothing());
    let error = (bits as f64 * low * high).sqrt() / slope.value();
    Ok(sum(value, error, (lows[0], highs[0]), reports, max_value))
}

fn one_bit(ones: u64, reports: Reports, max_value: u64, randomise: Ratio) -> Outcome<Estimate> {
    let (flip, kept) = (randomise.half(), randomise.complement());
    if kept.n == 0 {
        return pure_noise();
    }
    let users = reports.floor();
    let n = users as f64;
    let slope = kept.value() / max_value as f64;
    let chance = (ones as f64 / n).clamp(flip.value(), 1.0 - flip.value());
    let ends = rounded_sum_interval(ones, users, users, Ratio::new(max_value.into(), 1), flip);
    let value = excess_ones(ones, users, flip) / slope;
    Ok(sum(value, (n * chance * (1.0 - chance)).sqrt() / slope, ends, reports, max_value))
}

fn quantised_sum(ones: u64, reports: Reports, max_value: u64, bits: u64, randomise: Ratio) -> Outcome<Estimate> {
    let (flip, slope) = (randomise.half(), randomise.complement());
    let unit = Ratio::new(max_value.into(), bits.into());
    if unit.n == 1 && unit.d == 1 {
        return sum_of_bits(ones, reports, max_value, randomise);
    }
    if slope.n == 0 {
        return pure_noise();
    }
    // Largest variance of rounding a value to whole bits.
    let parts = unit.n as f64;
    let rounding = (parts / 2.0).floor() * ((parts + 1.0) / 2.0).floor() / parts.powi(2);
    let total = reports.times(bits);
    let flipped = total as f64 * flip.value() * (1.0 - flip.value());
    let deviation = (flipped + reports.value() * slope.value().powi(2) * rounding).sqrt();
    let ends = rounded_sum_interval(ones, total, reports.remaining.div_ceil(reports.messages), unit, flip);
    let scale = unit.value() / slope.value();
    Ok(sum(excess_ones(ones, total, flip) * scale, deviation * scale, ends, reports, max_value))
}

/// Upper bound of the probability that noise leaves its padding on one side.
fn clamping_bound(rate: f64, padding: u64) -> f64 {
    (-rate * (padding + 1) as f64).exp() * (1.0 + 1e-12)
}

/// A sum of users' noisy values; of largest value, shares of the noise, and rate.
fn sum_with_noise(total: f64, reports: Reports, (max_value, shares, rate): (u64, u64, f64), bias: f64) -> Estimate {
    let shape = reports.value() / shares as f64;
    let error = (2.0 * shape * (-rate).exp()).sqrt() / -(-rate).exp_m1();
    let width = half_width(shape, rate) + bias;
    sum(total, error.hypot(bias), (total - width, total + width), reports, max_value)
}

fn padded_sum(ones: u64, reports: Reports, padding: u64, noise: (u64, u64, f64), bias: f64) -> Estimate {
    let total = excess_ones(ones, reports.remaining, Ratio::new(padding.into(), reports.messages.into()));
    sum_with_noise(total, reports, noise, reports.value() * bias)
}

fn split(symbols: &[u64], reports: Reports, noise: (u64, u64, f64), modulus: u64) -> Outcome<Estimate> {
    let (max_value, shares, rate) = noise;
    let largest = (reports.floor() * max_value) as f64;
    let shape = reports.floor() as f64 / shares as f64;
    if largest + 1.0 + 2.0 * chernoff(shape, rate, 2_f64.powi(-40)) > modulus as f64 {
        return refuse(Code::Usage, "the modulus is too small for so many users");
    }
    let residue = symbols.iter().fold(0, |total, piece| (total + piece) % modulus);
    let below = (modulus - 1 - reports.floor() * max_value) / 2;
    let total = ((residue + below) % modulus) as f64 - below as f64;
    Ok(sum_with_noise(total, reports, noise, 0.0))
}

fn local_laplace(symbols: &[u64], reports: Reports, max_value: u64, rate: f64) -> Estimate {
    let count = |end: u64| symbols.iter().filter(|report| **report == end).count() as f64;
    let (lowest, highest) = (count(0), count(max_value));
    let beyond = (-rate).exp() / -(-rate).exp_m1();
    let value = symbols.iter().sum::<u64>() as f64 + (highest - lowest) * beyond;
    let error = ((2.0 * reports.value() - lowest - highest) * beyond / -(-rate).exp_m1()).sqrt();
    let width = mean_of_tail(reports.value(), rate);
    sum(value, error, (value - width, value + width), reports, max_value)
}

fn several_columns(
    observed: &[Vec<f64>],
    counting: &Counting,
    columns: &Columns,
    rate: f64,
    mean: u64,
) -> Outcome<Estimate> {
    let lost = counting.lost as f64;
    let mut joined = Estimate {
        quantity: "histogram",
        values: Vec::new(),
        standard_errors: Vec::new(),
        lows: Vec::new(),
        highs: Vec::new(),
        mean: None,
    };
    for (counts, (size, dummies)) in observed.iter().zip(columns.sizes.iter().zip(&columns.dummies)) {
        let noise = NodeNoise::of(&[(1.0, conditional_noise(rate, mean, *size, *dummies)?)], counting.nodes)?;
        // A lost message may have been of any column: every count may lack it.
        let noise = NodeNoise { least: noise.least - lost, ..noise };
        let column = among_dummies(counts, counting.reports.value() + lost, &noise);
        joined.values.extend(column.values);
        joined.standard_errors.extend(column.standard_errors);
        joined.lows.extend(column.lows);
        joined.highs.extend(column.highs);
    }
    Ok(joined)
}

fn tree(
    observed: &[Vec<f64>],
    counting: &Counting,
    columns: &Columns,
    (rate, mean): (f64, u64),
    width: u64,
) -> Outcome<Estimate> {
    let bins = observed[observed.len() - 1].len();
    let tree = BinTree::new(bins as u64, width);
    let (reports, nodes) = (counting.reports.value(), counting.nodes as f64);
    let values = tree.consistent(observed, reports);
    // A first draw without room is no draw: this makes no event more likely than by this factor.
    let mut room = 1.0;
    for (size, dummies) in columns.sizes.iter().zip(&columns.dummies) {
        let law = law_of_sum(rate, mean, *size)?;
        room *= (law.at_most((dummies - size * mean) as i64) - law.error).max(0.0);
    }
    let missed = 0.05 * f64::powf(room, nodes);
    let law = bounded_laplace(rate, mean);
    let squares = law.iter().enumerate().map(|(at, mass)| mass * (at as f64 - mean as f64).powi(2));
    let each = squares.sum::<f64>().sqrt();
    let error_of = |bin: usize| {
        let kinds = tree.weights_of(bin);
        let spread = kinds.iter().map(|(weight, number)| weight.powi(2) * number).sum::<f64>().sqrt();
        let deviation = spread * nodes.sqrt() * each;
        let scaled: Vec<(f64, f64)> =
            kinds.iter().map(|(weight, number)| (weight / deviation, number * nodes)).collect();
        (deviation, weighted_half_width(rate, mean, &scaled, missed) * deviation + counting.lost as f64)
    };
    let errors = [error_of(0), error_of(bins - 1)];
    let error = |bin: usize| errors[usize::from(tree.is_narrow(bin))];
    let ends = |sign: f64| -> Vec<f64> {
        values.iter().enumerate().map(|(bin, value)| (value + sign * error(bin).1).clamp(0.0, reports)).collect()
    };
    Ok(Estimate {
        quantity: "histogram",
        standard_errors: (0..bins).map(|bin| error(bin).0).collect(),
        lows: ends(-1.0),
        highs: ends(1.0),
        values,
        mean: None,
    })
}
