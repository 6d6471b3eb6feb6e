//! The δ that two neighbouring datasets of a mechanism attain.

use crate::bounds::blankets::{OneReport, among_others, between_two};
use crate::bounds::losses::{histogram_losses, shift_losses};
use crate::bounds::noise::{TABLE_TAIL, chernoff, noise_table};
use crate::bounds::windows::{
    Chance, LARGEST_EPSILON, MOST_POINTS, ROUNDING, convolve, deviation_of, excess, near_mean, power_above, reach_of,
    transform, window_of,
};
use crate::errors::Outcome;
use crate::mechanisms::{Mechanism, NodeDigits};
use crate::ratio::Ratio;

const MOST_BITS: u64 = 1024;
const OUTSIDE: f64 = 1e-15;
const TABULATION_ERROR: f64 = 1e-9;

/// The total δ that a change by `distance` attains at a total ε >= 0, never above the truth; None
/// where the mechanism has no such bound. `honest` is at least 1.
pub fn attained_delta(mechanism: &Mechanism, honest: u64, distance: u64, epsilon: f64) -> Outcome<Option<f64>> {
    let users = honest as f64;
    Ok(Some(match mechanism {
        Mechanism::Krr { symbols, blanket } => {
            let size = *symbols as f64;
            let share = blanket.value() / size;
            let true_share = blanket.complement().value();
            let low = Chance::new(share, 1.0 - share);
            let high = Chance::new(true_share + share, share * (size - 1.0));
            bit_counts(users - 1.0, low, 1, high, low, epsilon)
        }
        Mechanism::Hadamard { blanket, .. } => {
            let quarter = blanket.value() / 4.0;
            let low = Chance::new(quarter, 1.0 - quarter);
            bit_counts(users - 1.0, low, 1, Chance::new(0.5 - quarter, 0.5 + quarter), low, epsilon)
        }
        Mechanism::Rappor { fake, when_zero, when_one, .. } => {
            let (zero, one) = (when_zero.value(), when_one.value());
            let step = (one - zero) * fake.value() / 2.0;
            let (p, q) = (zero + step, one - step);
            let (low, high) = (p * (1.0 - q), q * (1.0 - p));
            let low = Chance::new(low, 1.0 - low);
            bit_counts(users - 1.0, low, 1, Chance::new(high, 1.0 - high), low, epsilon)
        }
        Mechanism::OneBit { max_value, randomise } => {
            let flip = randomise.value() / 2.0;
            let more = randomise.complement().value() * distance as f64 / *max_value as f64;
            let (low, high) = (Chance::new(flip, 1.0 - flip), Chance::new(flip + more, 1.0 - flip - more));
            bit_counts(users - 1.0, low, 1, high, low, epsilon)
        }
        Mechanism::Quantised { max_value, bits, randomise } => {
            let (steps, rest) = (distance * bits / max_value, distance * bits % max_value);
            if rest == 0 {
                return Ok(Some(unary_counts(*bits, *randomise, users, steps, epsilon)));
            }
            if steps > 0 {
                return Ok(None);
            }
            let flip = randomise.value() / 2.0;
            let more = randomise.complement().value() * rest as f64 / *max_value as f64;
            let (low, high) = (Chance::new(flip, 1.0 - flip), Chance::new(flip + more, 1.0 - flip - more));
            bit_counts(users * *bits as f64 - 1.0, low, 1, high, low, epsilon)
        }
        Mechanism::Unary { max_value, randomise } => unary_counts(*max_value, *randomise, users, distance, epsilon),
        Mechanism::Laplace { max_value, rate } => {
            let rate = rate.value();
            let share = |distance: u64| (-rate * distance as f64).exp() / (1.0 + (-rate).exp());
            let others = share(*max_value);
            if others == 0.0 {
                return Ok(None);
            }
            let (high, low) = (Chance::new(1.0 - share(1), share(1)), share(distance));
            let others = Chance::new(others, 1.0 - others);
            bit_counts(users - 1.0, others, 1, high, Chance::new(low, 1.0 - low), epsilon)
        }
        Mechanism::Dummies { symbols, slots, fill, blanket: Some(blanket) } => {
            let (slots, others) = (users * *slots as f64, users - 1.0);
            let groups = [(slots, *fill), (others, *blanket)];
            if *symbols == 2 {
                between_two(blanket.value(), groups, epsilon)
            } else {
                among_others(*symbols, blanket.value(), groups, epsilon)
            }
        }
        Mechanism::Dummies { symbols, slots, fill, blanket: None } => {
            let rate = fill.value() / *symbols as f64;
            let rest = (*symbols as f64 - fill.value()) / *symbols as f64;
            dummy_counts(users * *slots as f64, Chance::new(rate, rest), epsilon)
        }
        Mechanism::Geometric { max_value, rate, padding } => {
            let messages = max_value + 2 * padding;
            if messages as f64 >= MOST_POINTS {
                return Ok(None);
            }
            let law = |value| clamped_law(rate.value(), messages, value + padding);
            report_sum(users, &law(0), &law(distance), epsilon)
        }
        Mechanism::Shared { rate, shares, padding, .. } => {
            let (rate, shares) = (rate.value(), *shares as f64);
            let clamped = 2.0 * (users / shares).ceil() * (-rate * (*padding as f64 + 1.0)).exp();
            shifted_noise(users / shares, rate, distance, clamped.min(1.0), f64::INFINITY, epsilon)
        }
        Mechanism::Split { rate, shares, modulus, .. } => {
            shifted_noise(users / *shares as f64, rate.value(), distance, 0.0, *modulus as f64, epsilon)
        }
        Mechanism::NodeHistogram { symbols, rate, mean, dummies, blanket: Some(blanket) } => {
            let (rate, blanket) = (rate.value(), blanket.value());
            OneReport { rate, mean: *mean, symbols: *symbols, dummies: *dummies, blanket }.attained_delta(epsilon)?
        }
        Mechanism::NodeHistogram { symbols, rate, mean, dummies, blanket: None } => {
            histogram_losses(rate.value(), *mean, *symbols, *dummies)?.attained_delta(epsilon)
        }
        Mechanism::NodeColumns { columns, rate, mean, .. } => {
            let sizes = columns.sizes.iter().zip(&columns.dummies);
            let parts = sizes.map(|(size, dummies)| histogram_losses(rate.value(), *mean, *size, *dummies));
            let joined = parts.collect::<Outcome<Vec<_>>>()?.into_iter().reduce(|all, part| all.combine(&part));
            joined.map_or(0.0, |losses| losses.attained_delta(epsilon))
        }
        Mechanism::NodeSum { max_value, digits } => digit_losses(*max_value, digits, distance, epsilon),
    }))
}

fn bit_counts(others: f64, chance: Chance, bits: u64, high: Chance, low: Chance, epsilon: f64) -> f64 {
    if epsilon > LARGEST_EPSILON || 2.0 * reach_of(deviation_of(others, chance)) >= MOST_POINTS {
        return 0.0;
    }
    let (_, base) = near_mean(others, chance);
    let changed = bits as f64;
    let before = convolve(&base, &window_of(changed, high, 0.0, changed));
    let after = convolve(&base, &window_of(changed, low, 0.0, changed));
    excess(&before, &after, epsilon, OUTSIDE)
}

fn unary_counts(bits: u64, randomise: Ratio, users: f64, distance: u64, epsilon: f64) -> f64 {
    let changed = distance.min(MOST_BITS);
    let flip = randomise.value() / 2.0;
    let (low, high) = (Chance::new(flip, 1.0 - flip), Chance::new(1.0 - flip, flip));
    bit_counts(users * bits as f64 - changed as f64, low, changed, high, low, epsilon)
}

/// 𝔼[(a - e^ε b)_+] over one more slot, by the mean of a (K15).
fn dummy_counts(slots: f64, rate: Chance, epsilon: f64) -> f64 {
    let trials = slots + 1.0;
    if epsilon > LARGEST_EPSILON || deviation_of(trials, rate) > 100.0 {
        return 0.0;
    }
    let growth = epsilon.exp() * (1.0 + ROUNDING);
    // Of two symbols that fill every slot, the rest is 1/2 exactly: all others are of the second.
    let others = Chance::new(rate.one / rate.zero, (rate.zero - rate.one) / rate.zero);
    let (first, outer) = near_mean(trials, rate);
    let mut total = 0.0;
    for (at, mass) in outer.iter().enumerate() {
        let a = first + at as f64;
        let (fewest, inner) = near_mean(trials - a, others);
        let terms = inner.iter().enumerate();
        let mean: f64 = terms.map(|(step, share)| share * (a - growth * (fewest + step as f64)).max(0.0)).sum();
        total += mass * mean;
    }
    (total * (1.0 - 4.0 * ROUNDING) / (trials * rate.one)).clamp(0.0, 1.0)
}

fn shifted_noise(shape: f64, rate: f64, distance: u64, altered: f64, room: f64, epsilon: f64) -> f64 {
    if epsilon > LARGEST_EPSILON || chernoff(shape, rate, TABLE_TAIL) > MOST_POINTS {
        return 0.0;
    }
    let Some(table) = noise_table(shape, rate) else { return 0.0 };
    if 2.0 * table.len() as f64 + distance as f64 > room {
        return 0.0;
    }
    let law: Vec<f64> = table[1..].iter().rev().chain(&table).copied().collect();
    let from = (distance as usize).min(law.len());
    let mut moved = law[from..].to_vec();
    moved.resize(law.len(), 0.0);
    excess(&law, &moved, epsilon, altered + TABULATION_ERROR)
}

/// Law of the ones of a report with discrete Laplace noise, clamped to 0..messages.
fn clamped_law(rate: f64, messages: u64, center: u64) -> Vec<f64> {
    let mass = |ones: u64| {
        let tail = (-rate * ones.abs_diff(center) as f64).exp() / (1.0 + (-rate).exp());
        if ones > 0 && ones < messages { tail * -(-rate).exp_m1() } else { tail }
    };
    (0..=messages).map(mass).collect()
}

/// A sum of independent reports, one of which changes its law.
fn report_sum(users: f64, before: &[f64], after: &[f64], epsilon: f64) -> f64 {
    let moment =
        |of: &dyn Fn(f64) -> f64| -> f64 { before.iter().enumerate().map(|(at, mass)| mass * of(at as f64)).sum() };
    let mean = moment(&|ones| ones);
    let variance = moment(&|ones| (ones - mean).powi(2));
    let points = (before.len() as f64).max(24.0 * (users * variance).sqrt());
    if epsilon > LARGEST_EPSILON || points > MOST_POINTS {
        return 0.0;
    }
    let size = power_above(points.ceil());
    let spectrum = |law: &[f64]| {
        let mut re = law.to_vec();
        re.resize(size, 0.0);
        let mut im = vec![0.0; size];
        transform(&mut re, &mut im);
        (re, im)
    };
    let changed = spectrum(before);
    let others: Vec<(f64, f64)> = changed
        .0
        .iter()
        .zip(&changed.1)
        .map(|(x, y)| {
            let length = x.hypot(*y).powf(users - 1.0);
            let (sine, cosine) = (y.atan2(*x) * (users - 1.0)).sin_cos();
            (length * cosine, length * sine)
        })
        .collect();
    let magnitude: f64 = others[..=size / 2].iter().map(|(x, y)| x.hypot(*y)).sum();
    let together = |(re, im): &(Vec<f64>, Vec<f64>)| {
        let (mut real, mut imaginary) = (vec![0.0; size], vec![0.0; size]);
        for (at, (x, y)) in others.iter().enumerate() {
            real[at] = (x * re[at] - y * im[at]) / size as f64;
            imaginary[at] = -(x * im[at] + y * re[at]) / size as f64; // conjugate: the inverse
        }
        transform(&mut real, &mut imaginary);
        real
    };
    let error = 2_f64.powi(-49) * (size as f64).log2() * users * 2.0 * magnitude;
    excess(&together(&changed), &together(&spectrum(after)), epsilon, error)
}

fn digit_losses(max_value: u64, digits: &NodeDigits, distance: u64, epsilon: f64) -> f64 {
    let steps = if digits.weights.len() == 1 {
        vec![distance]
    } else if distance == max_value {
        digits.caps.clone()
    } else {
        digits.of(distance).to_vec()
    };
    let parts = steps.iter().enumerate().filter(|(_, step)| **step > 0);
    let losses = parts.map(|(at, step)| shift_losses(digits.rates[at], digits.means[at], *step));
    let joined = losses.reduce(|all, part| all.combine(&part));
    joined.map_or(0.0, |losses| losses.attained_delta(epsilon))
}
