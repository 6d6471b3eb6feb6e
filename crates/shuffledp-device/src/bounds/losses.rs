//! Privacy losses behind the dummies of one honest node: docs/accounting.md, N3 and N5.

use crate::bounds::noise::{bounded_laplace, law_of_sum};
use crate::errors::Outcome;

/// Relative error allowed for every probability and loss.
const MARGIN: f64 = 1e-10;

/// Most losses that are kept; half of them, the largest, exactly.
const MOST_LOSSES: usize = 4096;

/// Most pairs of losses that are added at a time.
const MOST_PAIRS: usize = 1 << 22;

/// Lower bounds of losses, falling, and of their probabilities.
pub struct Losses {
    finite: Vec<(f64, f64)>,
    /// Probability of outcomes that the other dataset never has.
    infinite: f64,
}

impl Losses {
    fn new(losses: impl Iterator<Item = (f64, f64)>, infinite: f64) -> Self {
        let finite = losses.map(|(loss, mass)| (loss - 1e-14 * loss.abs(), mass)).collect();
        Self { finite, infinite }
    }

    /// δ at a total ε, never above the truth.
    pub fn attained_delta(&self, epsilon: f64) -> f64 {
        let terms = self.finite.iter().map(|(loss, mass)| mass * -(epsilon - loss).min(0.0).exp_m1());
        (terms.sum::<f64>() * (1.0 - MARGIN) + self.infinite).min(1.0)
    }

    /// Losses of two independent outcomes: each is added to each.
    pub fn combine(&self, other: &Self) -> Self {
        let most = (MOST_PAIRS / other.finite.len()).max(2);
        let some = shorten(self.finite.clone(), most);
        let more = shorten(other.finite.clone(), (MOST_PAIRS / some.len()).max(2));
        let pairs =
            some.iter().flat_map(|(loss, mass)| more.iter().map(move |(added, share)| (loss + added, mass * share)));
        let mut all: Vec<(f64, f64)> = pairs.collect();
        all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let infinite = self.infinite + other.infinite * (1.0 - self.infinite);
        Self { finite: shorten(all, MOST_LOSSES), infinite: infinite * (1.0 - MARGIN) }
    }
}

/// At most `most` losses: neighbours among the small half count as the least of them.
fn shorten(losses: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    if losses.len() <= most {
        return losses;
    }
    let half = most / 2;
    let mark = |at: usize| half + at * (losses.len() - half) / half;
    let mut shorter = losses[..half].to_vec();
    for group in 0..half {
        let some = &losses[mark(group)..mark(group + 1)];
        let mass: f64 = some.iter().map(|(_, mass)| mass).sum();
        shorter.push((some[some.len() - 1].0, mass * (1.0 - MARGIN)));
    }
    shorter
}

/// Losses of a change of one value from one cell to another, seen in all counts (N3).
pub fn histogram_losses(rate: f64, mean: u64, symbols: u64, dummies: u64) -> Outcome<Losses> {
    let law = bounded_laplace(rate, mean);
    let others = law_of_sum(rate, mean, symbols - 2)?;
    let (middle, last) = (mean as usize, 2 * mean as usize);
    let spare = dummies as i64 - (symbols * mean) as i64;
    let masses = |sign: f64| {
        let room: Vec<f64> = (0..=2 * last)
            .map(|at| others.at_most(spare + last as i64 - at as i64) + sign * others.error)
            .map(|likely| likely.clamp(0.0, 1.0))
            .collect();
        let (mut opposite, mut alike) = (0.0, 0.0);
        for (at, likely) in room.iter().enumerate() {
            let size = at.abs_diff(last);
            let scale = likely * law[middle].powi(2) * (-rate * size as f64).exp();
            let pairs = middle.saturating_sub(size) as f64;
            opposite += scale * (-2.0 * rate * pairs).exp_m1() / (-2.0 * rate).exp_m1();
            alike += scale * size.min(last - size.min(last)) as f64;
        }
        let seen = |at: usize| room[last + at] + if at < last { room[at] } else { 0.0 };
        let ends: f64 = law.iter().enumerate().map(|(at, mass)| mass * seen(at)).sum();
        (opposite, alike, law[0] * ends)
    };
    let decay = (-2.0 * rate).exp();
    let (opposite, alike, infinite) = masses(1.0);
    let likely = ((opposite * (1.0 + decay) + alike + infinite) * (1.0 + MARGIN)).min(1.0);
    let (opposite, alike, infinite) = masses(-1.0);
    let share = (1.0 - MARGIN) / likely;
    let finite = [(2.0 * rate, opposite), (0.0, alike), (-2.0 * rate, decay * opposite)];
    Ok(Losses::new(finite.into_iter().map(|(loss, mass)| (loss, mass * share)), infinite * share))
}

/// Losses of a count of ones that a change moves by `distance`, from 1 to the mean (N5).
pub fn shift_losses(rate: f64, mean: u64, distance: u64) -> Losses {
    let sum = |first: u64, last: u64| {
        let terms = last as f64 - first as f64 + 1.0;
        (-rate * first as f64).exp() * (-rate * terms).exp_m1() / (-rate).exp_m1()
    };
    let middle = 1.0 / (1.0 + 2.0 * sum(1, mean));
    let mass = |at: u64| match at {
        0 => sum(0, mean - distance),
        at if at == distance => sum(distance, mean),
        at => (-rate * at as f64).exp(),
    };
    let losses = (0..=distance).map(|at| {
        let loss = rate * (distance as f64 - 2.0 * at as f64);
        (loss, middle * mass(at) * (1.0 - MARGIN))
    });
    Losses::new(losses, middle * sum(mean - distance + 1, mean) * (1.0 - MARGIN))
}
