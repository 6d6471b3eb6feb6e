//! One report of k-RR behind dummies: docs/accounting.md, N8 for those of nodes and K16 for those of users.

use std::f64::consts::LN_2;

use crate::bounds::noise::{bounded_laplace, law_of_sum, ln_gamma};
use crate::bounds::windows::{Chance, LARGEST_EPSILON, convolve, near_mean};
use crate::errors::Outcome;
use crate::ratio::Ratio;

/// Relative error allowed for every probability.
const MARGIN: f64 = 1e-9;

/// Probability allowed for what lies outside the windows.
const OUTSIDE: f64 = 1e-14;

/// Most cells of a table; beyond them nothing is computed.
const MOST_CELLS: f64 = 2_097_152.0;

/// Numbers of other messages, and the probability that each is uniform.
type Groups = [(f64, Ratio); 2];

fn law_of(trials: f64, chance: f64) -> (f64, Vec<f64>) {
    if chance <= 0.0 { (0.0, vec![1.0]) } else { near_mean(trials, Chance::new(chance, 1.0 - chance)) }
}

/// A user's report before and after a change from a to b, behind the dummies of one honest node.
pub struct OneReport {
    pub rate: f64,
    pub mean: u64,
    pub symbols: u64,
    pub dummies: u64,
    pub blanket: f64,
}

/// Counts of a symbol: from which number of dummies to which, and p(z - 1)/p(z) there.
struct Region {
    first: usize,
    last: usize,
    ratio: f64,
}

impl OneReport {
    /// δ at a total ε >= 0, never above the truth; 0 where none is computed.
    pub fn attained_delta(&self, epsilon: f64) -> Outcome<f64> {
        let (mean, others) = (self.mean as usize, (self.symbols - 2) as f64);
        let law = bounded_laplace(self.rate, self.mean);
        let rows = (others + 1.0).min(18.0 * (others * law[0]).sqrt() + 80.0);
        let cells = rows * (others + 1.0).min(9.0 * others.sqrt() + 80.0);
        let pairs = (2.0 * self.mean as f64 + 1.0).powi(2);
        if self.rate > 300.0 || cells > MOST_CELLS || pairs > MOST_CELLS || epsilon > LARGEST_EPSILON {
            return Ok(0.0);
        }
        let falls = (-self.rate).exp();
        let spare = self.dummies as i64 - (self.symbols * self.mean) as i64;
        let in_pair = law_of_sum(self.rate, self.mean, self.symbols - 2)?;
        // The report itself is not one of the dummies that must have room.
        let room: Vec<f64> = (0..=4 * mean)
            .map(|at| (in_pair.at_most(spare + 1 + 2 * mean as i64 - at as i64) - in_pair.error).clamp(0.0, 1.0))
            .collect();
        let high = Region { first: mean + 1, last: 2 * mean, ratio: 1.0 / falls };
        let low = Region { first: 1, last: mean, ratio: falls };
        let low_end = Region { first: 0, last: 0, ratio: 0.0 };
        let sums = self.other_symbols(falls, law[0], law[mean + 1..].iter().sum());
        let (share, other) = (1.0 - self.blanket, self.blanket / self.symbols as f64);
        let rest = law_of_sum(self.rate, self.mean, self.symbols - 1)?;
        let full = law[0] * (rest.at_most(spare - self.mean as i64) - rest.error).max(0.0);
        let mut delta = (share + other - epsilon.exp() * other).max(0.0) * full;
        for (old, new) in [(&high, &low), (&high, &low_end), (&low, &low_end)] {
            let mut least = 0.0;
            for a in old.first..=old.last {
                for b in new.first..=new.last {
                    least += law[a] * law[b] * room[a + b];
                }
            }
            let gain = share * (old.ratio - epsilon.exp() * new.ratio);
            let beside = epsilon.exp_m1() * other;
            let terms = sums.iter().map(|(sum, mass)| mass * (gain - beside * (old.ratio + new.ratio + sum)).max(0.0));
            delta += least * (terms.sum::<f64>() - OUTSIDE * old.ratio).max(0.0);
        }
        let every = law_of_sum(self.rate, self.mean, self.symbols)?;
        let likely = (every.at_most(spare) + every.error).min(1.0);
        Ok((delta * (1.0 - 4.0 * MARGIN) / likely).min(1.0))
    }

    /// S of the other symbols, by how many are at the lower end and how many above the middle.
    fn other_symbols(&self, falls: f64, low_end: f64, high: f64) -> Vec<(f64, f64)> {
        let symbols = (self.symbols - 2) as f64;
        let (first, ends) = law_of(symbols, low_end);
        let mut sums = Vec::new();
        for (step, likely) in ends.iter().enumerate().filter(|(_, mass)| **mass >= 1e-18) {
            let left = symbols - first - step as f64;
            let (fewest, rises) = law_of(left, high / (1.0 - low_end));
            sums.extend(rises.iter().enumerate().map(|(at, mass)| {
                let rising = fewest + at as f64;
                (rising / falls + (left - rising) * falls, likely * mass)
            }));
        }
        sums
    }
}

fn is_small(symbols: u64, groups: &Groups) -> bool {
    let mean: f64 = groups.iter().map(|(number, fill)| 2.0 * number * fill.value() / symbols as f64).sum();
    let rows = 18.0 * mean.sqrt() + 160.0;
    rows * (18.0 * (mean + rows).sqrt() + 80.0) <= MOST_CELLS
}

/// δ that is attained at ε if all other honest users hold a third symbol.
pub fn among_others(symbols: u64, blanket: f64, groups: Groups, epsilon: f64) -> f64 {
    if !is_small(symbols, &groups) || epsilon > LARGEST_EPSILON {
        return 0.0;
    }
    let (mut fewest, mut law) = (0.0, vec![1.0]);
    for (number, fill) in groups {
        let (start, masses) = law_of(number, 2.0 * fill.value() / symbols as f64);
        fewest += start;
        law = convolve(&law, &masses);
    }
    let first = fewest as usize;
    let (chance, growth) = (blanket / symbols as f64, epsilon.exp());
    let factorials: Vec<f64> = (0..=first + law.len()).map(|number| ln_gamma(number as f64 + 1.0)).collect();
    let reach = (4.5 * ((first + law.len()) as f64).sqrt()).ceil() as usize + 40;
    let mut delta = 0.0;
    for (at, likely) in law.iter().enumerate() {
        let total = first + 1 + at;
        let weight = 2.0 * likely / total as f64;
        let absent = if weight > 0.0 { law.get(at + 1).unwrap_or(&0.0) / weight } else { 0.0 };
        let beside = (chance * total as f64 + (blanket - 2.0 * chance) * absent * (1.0 + MARGIN)) * (1.0 + MARGIN);
        let lowest = (total / 2).saturating_sub(reach);
        for u in lowest..=total.min(lowest + 2 * reach + 1) {
            let gain = (1.0 - blanket) * (u as f64 - growth * (total - u) as f64) - epsilon.exp_m1() * beside;
            if gain > 0.0 {
                let log = factorials[total] - factorials[u] - factorials[total - u] - total as f64 * LN_2;
                delta += gain * weight * log.exp();
            }
        }
    }
    (delta * (1.0 - 4.0 * MARGIN) - growth * OUTSIDE).max(0.0)
}

/// δ that is attained at ε with two symbols, if all other honest users hold the second.
pub fn between_two(blanket: f64, groups: Groups, epsilon: f64) -> f64 {
    if !is_small(2, &groups) || epsilon > LARGEST_EPSILON {
        return 0.0;
    }
    let [(slots, fill), (others, chance)] = groups;
    let (_, law) = law_of(others, chance.value() / 2.0);
    let low = blanket / 2.0;
    let before = convolve(&law, &[low, 1.0 - low]);
    let after = convolve(&law, &[1.0 - low, low]);
    let growth = epsilon.exp();
    let pairs = before.iter().zip(&after);
    let difference: Vec<f64> = pairs.map(|(p, q)| p * (1.0 - MARGIN) - growth * q * (1.0 + MARGIN)).collect();
    let (fewest, masses) = law_of(slots, fill.value());
    let (_, halves) = law_of(fewest, 0.5);
    let mut mixed = convolve(&halves, &difference);
    let mut total = 0.0;
    for mass in masses {
        total += mass * mixed.iter().map(|each| each.max(0.0)).sum::<f64>();
        // One more fair coin.
        mixed.push(0.0);
        for at in (0..mixed.len()).rev() {
            let below = if at > 0 { mixed[at - 1] } else { 0.0 };
            mixed[at] = (mixed[at] + below) / 2.0;
        }
    }
    (total * (1.0 - 2.0 * MARGIN) - growth * OUTSIDE).max(0.0)
}
