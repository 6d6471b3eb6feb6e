//! Noise of users, a difference of two negative binomials, and noise of nodes, bounded Laplace.

use std::f64::consts::PI;

use crate::bounds::windows::{LARGEST_EPSILON, power_above, transform};
use crate::errors::{Code, Outcome, refuse};

const MAX_WINDOW: f64 = 4_194_304.0;
const WIDEST_SUM: usize = 1 << 23;
const TILTS: u32 = 400;

/// Mass outside a table of noise.
pub const TABLE_TAIL: f64 = 1e-12;

/// ln Γ(x) for x > 0, by Stirling's series above 15.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < 15.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let square = 1.0 / (shifted * shifted);
    let tail = 1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0);
    let series = (1.0 / 12.0 - square * tail) / shifted;
    (shifted - 0.5) * shifted.ln() - shifted + 0.5 * (2.0 * PI).ln() + series - product.ln()
}

/// A whole number h with P(|Y| > h) <= tail.
pub fn chernoff(shape: f64, rate: f64, tail: f64) -> f64 {
    let epsilon = rate.min(LARGEST_EPSILON);
    let mut least = f64::INFINITY;
    for step in 0..TILTS {
        let theta = epsilon * 1e-9 * 0.999e9_f64.powf(f64::from(step) / f64::from(TILTS - 1));
        let root = (-epsilon / 2.0).exp() * (theta / 2.0).sinh();
        let inner = 1.0 - 4.0 * root.powi(2) / (-epsilon).exp_m1().powi(2);
        if inner > 0.0 {
            least = least.min(((2.0 / tail).ln() - shape * inner.ln()) / theta);
        }
    }
    least.ceil()
}

/// P(Y = 0), P(Y = 1), ..; None where the window would be too large.
pub fn noise_table(shape: f64, rate: f64) -> Option<Vec<f64>> {
    let reach = chernoff(shape, rate, TABLE_TAIL);
    if 2.0 * reach + 2.0 > MAX_WINDOW {
        return None;
    }
    let size = power_above(2.0 * reach + 1.0);
    let wave = |at: usize| (PI * at as f64 / size as f64).sin().powi(2);
    let swing = 4.0 * (-rate).exp() / (-rate).exp_m1().powi(2);
    let mut re: Vec<f64> = (0..size).map(|at| (-shape * (swing * wave(at)).ln_1p()).exp() / size as f64).collect();
    let mut im = vec![0.0; size];
    transform(&mut re, &mut im); // real and symmetric, so that this is its own inverse
    re.truncate(size / 2);
    Some(re.iter().map(|mass| mass.max(0.0)).collect())
}

/// Law of one node's noise on -reach..reach.
pub fn bounded_laplace(rate: f64, reach: u64) -> Vec<f64> {
    let weights: Vec<f64> = (0..=2 * reach).map(|at| (-rate * at.abs_diff(reach) as f64).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / all).collect()
}

/// Distribution function of a sum of independent bounded noises.
pub struct SumLaw {
    first: i64,
    cumulative: Vec<f64>,
    /// Largest error of a computed probability.
    pub error: f64,
}

impl SumLaw {
    /// Computed P(S <= sum).
    pub fn at_most(&self, sum: i64) -> f64 {
        let at = sum - self.first;
        if at < 0 { 0.0 } else { self.cumulative[(at as usize).min(self.cumulative.len() - 1)] }
    }
}

/// The law of the sum of `terms` independent bounded noises.
pub fn law_of_sum(rate: f64, reach: u64, terms: u64) -> Outcome<SumLaw> {
    if terms == 0 {
        return Ok(SumLaw { first: 0, cumulative: vec![1.0], error: 0.0 });
    }
    let law = bounded_laplace(rate, reach);
    let number = terms as f64;
    let squares = law.iter().enumerate().map(|(at, mass)| mass * (at as f64 - reach as f64).powi(2));
    let variance = number * squares.sum::<f64>();
    let linear = 12.5 * reach as f64;
    let half = (linear + (linear.powi(2) + 75.0 * variance).sqrt()).ceil() + reach as f64;
    let points = power_above((2.0 * half).min(2.0 * reach as f64 * number));
    if points > WIDEST_SUM {
        return refuse(Code::Unsupported, "noise of nodes that is too wide to compute with");
    }
    let (mut re, mut im) = (vec![0.0; points], vec![0.0; points]);
    for (at, mass) in law.iter().enumerate() {
        re[(at + points - reach as usize) % points] += mass;
    }
    transform(&mut re, &mut im); // symmetric, so that its transform is real, and its own inverse
    re.iter_mut().for_each(|value| *value = value.powf(number));
    im.fill(0.0);
    let size: f64 = re.iter().map(|value| value.abs()).sum();
    let points_f = points as f64;
    let rounding = 2_f64.powi(-49) * points_f.log2() * (number + 1.0) * size;
    let error = rounding + 1e-15 + 1e-14 * number + points_f * 2_f64.powi(-53);
    transform(&mut re, &mut im);
    let mut below = 0.0;
    let shifted = (0..points).map(|at| re[(at + points / 2) % points] / points_f);
    let cumulative = shifted
        .map(|mass| {
            below += mass;
            f64::clamp(below, 0.0, 1.0)
        })
        .collect();
    Ok(SumLaw { first: -((points / 2) as i64), cumulative, error })
}
