//! Noise of nodes in counts: the law of a sum over nodes and digits, and of weighted sums.

use std::f64::consts::PI;

use crate::answers::intervals::TAIL;
use crate::bounds::noise::{bounded_laplace, law_of_sum};
use crate::bounds::windows::{power_above, transform};
use crate::errors::{Code, Outcome, refuse};

const WIDEST_SUM: usize = 1 << 23;
const PERIOD: f64 = 24.0;
const SMOOTHING: f64 = 0.0125;
/// What is left out at each end of a noise in blocks.
const RARE: f64 = 1e-9;
const NEGLIGIBLE: f64 = 1e-11;

/// Noises of one node that are added: a weight, and the law on -reach..reach.
pub type Laws = [(f64, Vec<f64>)];

/// Law of one cell's noise under the condition that all of a node's dummies have room.
pub fn conditional_noise(rate: f64, mean: u64, cells: u64, dummies: u64) -> Outcome<Vec<f64>> {
    let others = law_of_sum(rate, mean, cells - 1)?;
    let spare = dummies as i64 - (cells * mean) as i64 + mean as i64;
    let law = bounded_laplace(rate, mean);
    let weights: Vec<f64> = law.iter().enumerate().map(|(at, mass)| mass * others.at_most(spare - at as i64)).collect();
    let all: f64 = weights.iter().sum();
    Ok(weights.iter().map(|weight| weight / all).collect())
}

/// Smallest value and probabilities of the sum over nodes and noises, in steps, each rounded up.
fn law_of_nodes(laws: &Laws, nodes: u64, step: f64) -> Outcome<(f64, Vec<f64>)> {
    let mut parts = Vec::new();
    for (weight, law) in laws {
        let reach = (law.len() / 2) as f64;
        let rounded: Vec<f64> = (0..law.len()).map(|at| (weight * (at as f64 - reach) / step).ceil()).collect();
        let mut masses = vec![0.0; (rounded[law.len() - 1] - rounded[0]) as usize + 1];
        rounded.iter().zip(law).for_each(|(value, mass)| masses[(value - rounded[0]) as usize] += mass);
        parts.push((rounded[0], masses));
    }
    let reach: usize = parts.iter().map(|(_, masses)| masses.len() - 1).sum();
    let size = 1 + nodes as usize * reach;
    let points = power_above(size as f64);
    if points > WIDEST_SUM {
        return refuse(Code::Unsupported, "noise of nodes that is too wide to compute with");
    }
    let (mut re, mut im) = (vec![1.0; points], vec![0.0; points]);
    for (_, masses) in &parts {
        let (mut part_re, mut part_im) = (masses.clone(), vec![0.0; points]);
        part_re.resize(points, 0.0);
        transform(&mut part_re, &mut part_im);
        for _ in 0..nodes {
            for at in 0..points {
                let (x, y) = (re[at], im[at]);
                re[at] = x * part_re[at] - y * part_im[at];
                im[at] = x * part_im[at] + y * part_re[at];
            }
        }
    }
    im.iter_mut().for_each(|y| *y = -*y); // conjugate: the inverse
    transform(&mut re, &mut im);
    re.truncate(size);
    let first = nodes as f64 * parts.iter().map(|(first, _)| first).sum::<f64>();
    Ok((first, re.iter().map(|mass| mass / points as f64).collect()))
}

/// Deviation of the noise of all nodes, and what it is below and above with probability 2.5% each.
pub struct NodeNoise {
    pub mean: f64,
    pub deviation: f64,
    pub least: f64,
    pub most: f64,
}

impl NodeNoise {
    pub fn of(laws: &Laws, nodes: u64) -> Outcome<Self> {
        let (mut mean, mut variance) = (0.0, 0.0);
        for (weight, law) in laws {
            let reach = (law.len() / 2) as f64;
            let values = || law.iter().enumerate().map(|(at, mass)| (at as f64 - reach, mass));
            let centre: f64 = values().map(|(value, mass)| mass * value).sum();
            mean += weight * centre;
            variance += weight.powi(2) * values().map(|(value, mass)| mass * (value - centre).powi(2)).sum::<f64>();
        }
        let deviation = (nodes as f64 * variance).sqrt();
        let step = (deviation / 1000.0).floor().max(1.0);
        let last_likely = |laws: &Laws| -> Outcome<f64> {
            let (first, masses) = law_of_nodes(laws, nodes, step)?;
            let mut beyond = 1.0;
            let likely = masses.iter().position(|mass| {
                beyond -= mass;
                beyond <= TAIL
            });
            Ok((first + likely.unwrap_or(masses.len() - 1) as f64) * step)
        };
        let (least, most) = (-last_likely(&mirror(laws))?, last_likely(laws)?);
        Ok(Self { mean: nodes as f64 * mean, deviation, least, most })
    }
}

/// The laws of the negative noises.
pub fn mirror(laws: &Laws) -> Vec<(f64, Vec<f64>)> {
    laws.iter().map(|(weight, law)| (*weight, law.iter().rev().copied().collect())).collect()
}

/// Values of a noise, rounded down to few, and their probabilities.
pub fn blocks_of(laws: &Laws, nodes: u64, deviation: f64) -> Outcome<Vec<(f64, f64)>> {
    let (first, masses) = law_of_nodes(laws, nodes, 1.0)?;
    let step = (deviation / 8.0).floor().max(1.0);
    let mut blocks: Vec<(f64, f64)> = Vec::new();
    for (at, mass) in masses.iter().enumerate() {
        let value = ((first + at as f64) / step).floor() * step;
        match blocks.last_mut().filter(|(last, _)| *last == value) {
            Some((_, sum)) => *sum += mass,
            None => blocks.push((value, *mass)),
        }
    }
    let mut kept = blocks[count_rare(blocks.iter())..].to_vec();
    kept.truncate(kept.len() - count_rare(blocks.iter().rev()));
    let missing = 1.0 - kept.iter().map(|(_, mass)| mass).sum::<f64>();
    kept[0].1 += missing.max(0.0);
    Ok(kept)
}

/// How many blocks from one end have hardly any probability together.
fn count_rare<'a>(blocks: impl Iterator<Item = &'a (f64, f64)>) -> usize {
    let mut below = 0.0;
    let is_rare = |(_, mass): &&(f64, f64)| {
        below += mass;
        below <= RARE
    };
    blocks.take_while(is_rare).count()
}

/// E cos(angle Z) of one noise of a node.
fn noise_transform(rate: f64, mean: f64, angle: f64) -> f64 {
    let decay = (-rate).exp();
    let last = decay.powf(mean + 1.0);
    let ends = decay * (mean * angle).cos() - ((mean + 1.0) * angle).cos();
    let waves = decay * angle.cos() - decay.powi(2) + last * ends;
    let masses = decay * (-rate * mean).exp_m1() / (-rate).exp_m1();
    (1.0 + 2.0 * waves / (1.0 - 2.0 * decay * angle.cos() + decay.powi(2))) / (1.0 + 2.0 * masses)
}

/// w with P(|sum of weight times noise| > w) <= missed, in standard deviations of the sum; `kinds` are
/// weights in this unit, and how many noises have each.
pub fn weighted_half_width(rate: f64, mean: u64, kinds: &[(f64, f64)], missed: f64) -> f64 {
    let mut ordered = kinds.to_vec();
    ordered.sort_by(|(a, some), (b, more)| (b * b * more).total_cmp(&(a * a * some)));
    let term = |at: u32| {
        let frequency = 2.0 * PI * f64::from(at) / PERIOD;
        let mut term = (-(SMOOTHING * frequency).powi(2) / 2.0).exp();
        for (weight, number) in &ordered {
            if term.abs() > NEGLIGIBLE {
                term *= noise_transform(rate, mean as f64, weight * frequency).powf(*number);
            }
        }
        if term.abs() > NEGLIGIBLE { term } else { 0.0 }
    };
    let terms: Vec<f64> = (1..=2048).map(term).collect();
    let within = |reach: f64| {
        let waves = terms.iter().zip(1_u32..).map(|(term, at)| {
            let at = f64::from(at);
            term * (2.0 * PI * at * reach / PERIOD).sin() / at
        });
        2.0 * reach / PERIOD + 2.0 / PI * waves.sum::<f64>()
    };
    let reach = |step: u32| 0.5 + f64::from(step) * 0.01;
    let step = (0..549).find(|step| within(reach(*step)) >= 1.0 - missed + 1e-4).unwrap_or(549);
    reach(step) + 4.0 * SMOOTHING
}
