//! ε_L of one user's report where every node is corrupt, in closed form and rounded up.

use crate::bounds::noise::ln_gamma;
use crate::mechanisms::Mechanism;
use crate::ratio::Ratio;

/// Outward margin for a few roundings of a float each.
const UP: f64 = 1.0 + 1.0 / (1_u64 << 50) as f64;

/// Smallest ε of shared noise, nats per unit, whose law is summed.
const LEAST_RATE: f64 = 5e-5;

/// ln((2-p)/p) of a bit that is replaced by a fair coin with probability p.
fn log_odds(randomise: Ratio) -> f64 {
    (2.0 * randomise.complement().value() / randomise.value()).ln_1p() * UP
}

/// ln(1 + k (1-γ)/γ) of k-RR.
fn response(symbols: u64, blanket: Ratio) -> f64 {
    (blanket.complement().value() * symbols as f64 / blanket.value()).ln_1p() * UP
}

/// ln(1 + s (e^ε - 1)): a report that depends on the value with probability s only.
fn dilute(epsilon: f64, share: f64) -> f64 {
    if epsilon > 700.0 {
        return if share > 0.0 { (share + (-epsilon).exp()).ln() + epsilon * UP } else { 0.0 };
    }
    (share * epsilon.exp_m1()).ln_1p() * UP
}

/// ln P(N=0)/P(N=d) of one share of a discrete Laplace noise.
fn noisy_report(rate: f64, shares: u64, distance: u64) -> f64 {
    let d = distance as f64;
    if shares == 1 {
        return rate * d * UP;
    }
    if rate < LEAST_RATE {
        return f64::INFINITY;
    }
    let share = 1.0 / shares as f64;
    let decay = (-2.0 * rate).exp();
    let first = ln_gamma(share + d) - ln_gamma(share) - ln_gamma(d + 1.0);
    let (mut near, mut far, mut power): (f64, f64, f64) = (1.0, 1.0, 1.0);
    let (mut at_zero, mut at_distance) = (1.0, 1.0);
    for step in 0..=(40.0 / (2.0 * rate)).ceil() as u64 {
        let i = step as f64;
        near *= (share + i) / (i + 1.0);
        far *= (share + d + i) / (d + i + 1.0);
        power *= decay;
        at_zero += near * near * power;
        at_distance += near * far * power;
    }
    at_zero += near * near * power / -(-2.0 * rate).exp_m1();
    (d * rate + (at_zero / at_distance).ln() - first + 1e-10 + 1e-15 * ln_gamma(d + 2.0)) * UP
}

/// Total ε_L, in nats, of a change of the value by `distance`; infinite where nothing is left.
pub fn local_epsilon(mechanism: &Mechanism, distance: u64) -> f64 {
    let d = distance as f64;
    match mechanism {
        Mechanism::Krr { symbols, blanket } => response(*symbols, *blanket),
        Mechanism::Hadamard { blanket, .. } => log_odds(*blanket),
        Mechanism::Rappor { fake, .. } => 2.0 * log_odds(*fake),
        Mechanism::OneBit { max_value, randomise } => {
            let slope = randomise.complement().value() / *max_value as f64;
            (2.0 * d * slope / randomise.value()).ln_1p() * UP
        }
        Mechanism::Quantised { max_value, bits, randomise } => {
            let each = log_odds(*randomise);
            let (steps, rest) = (distance * bits / max_value, distance * bits % max_value);
            steps as f64 * each + dilute(each, rest as f64 / *max_value as f64)
        }
        Mechanism::Unary { randomise, .. } => d * log_odds(*randomise),
        Mechanism::Geometric { rate, .. } | Mechanism::Laplace { rate, .. } => noisy_report(rate.value(), 1, distance),
        Mechanism::Dummies { symbols, blanket: Some(blanket), .. }
        | Mechanism::NodeHistogram { symbols, blanket: Some(blanket), .. } => response(*symbols, *blanket),
        Mechanism::Shared { rate, shares, .. } | Mechanism::Split { rate, shares, .. } => {
            noisy_report(rate.value(), *shares, distance)
        }
        Mechanism::Dummies { .. }
        | Mechanism::NodeHistogram { .. }
        | Mechanism::NodeSum { .. }
        | Mechanism::NodeColumns { .. } => f64::INFINITY,
    }
}
