//! Mechanisms: their parameters, and exact sampling of a user's answer.

use zeroize::Zeroizing;

use crate::errors::{Code, Outcome, malformed, refuse};
use crate::json::Value;
use crate::randomness::Integers;
use crate::ratio::Ratio;
use crate::schema::bounded;

const MOST: i128 = (1 << 31) - 1;
/// Combinations of cells are whole numbers of 53 bits, which every program has.
const MOST_COMBINATIONS: i128 = (1 << 53) - 1;
const ONE: Ratio = Ratio { n: 1, d: 1 };
/// Most steps that drawing one answer may take on average.
const MAX_STEPS: u128 = 1 << 22;
/// Most draws that a node's dummies may take on average.
const MAX_TRIES: f64 = 67_108_864.0;

/// A mechanism with its parameters, as a certificate names it.
#[derive(Clone, Debug, PartialEq)]
pub enum Mechanism {
    Krr { symbols: u64, blanket: Ratio },
    Hadamard { symbols: u64, blanket: Ratio },
    Dummies { symbols: u64, slots: u64, fill: Ratio, blanket: Option<Ratio> },
    Rappor { symbols: u64, fake: Ratio, when_zero: Ratio, when_one: Ratio, question: u64 },
    Laplace { max_value: u64, rate: Ratio },
    OneBit { max_value: u64, randomise: Ratio },
    Quantised { max_value: u64, bits: u64, randomise: Ratio },
    Unary { max_value: u64, randomise: Ratio },
    Geometric { max_value: u64, rate: Ratio, padding: u64 },
    Shared { max_value: u64, rate: Ratio, shares: u64, padding: u64 },
    Split { max_value: u64, rate: Ratio, shares: u64, modulus: u64, pieces: u64 },
    NodeHistogram { symbols: u64, rate: Ratio, mean: u64, dummies: u64, blanket: Option<Ratio> },
    NodeSum { max_value: u64, digits: NodeDigits },
    NodeColumns { symbols: u64, columns: Columns, rate: Ratio, mean: u64 },
}

/// Digits of a sum among the dummies of nodes, the lowest first (docs/accounting.md, N5).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDigits {
    pub weights: Vec<u64>,
    /// Largest value of each digit.
    pub caps: Vec<u64>,
    /// Mean number of a node's ones of each digit.
    pub means: Vec<u64>,
    /// ε of a node's noise in each digit.
    pub rates: Vec<f64>,
}

impl NodeDigits {
    /// The digits of a value.
    pub fn of(&self, value: u64) -> Zeroizing<Vec<u64>> {
        let mut rest = value;
        let mut digits = Zeroizing::new(vec![0; self.weights.len()]);
        for at in (0..digits.len()).rev() {
            digits[at] = (rest / self.weights[at]).min(self.caps[at]);
            rest -= digits[at] * self.weights[at];
        }
        digits
    }
}

/// Histograms that a user sends one message each to: several questions, or groups of bins and bins
/// (docs/accounting.md, N9 and N10).
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Cells of each column.
    pub sizes: Vec<u64>,
    /// A node's dummies in each column.
    pub dummies: Vec<u64>,
    /// Bins of a group; None for columns of different questions.
    pub group: Option<u64>,
}

impl Columns {
    fn of(value: &Value, sizes: Vec<u64>, mean: u64, group: Option<u64>) -> Outcome<Self> {
        let largest = sizes.iter().max().copied().unwrap_or_default();
        let spare = bounded(value, "spare", 0, i128::from(largest * mean))?;
        let dummies: Vec<u64> = sizes.iter().map(|size| size * mean + spare.min(size * mean)).collect();
        if dummies.iter().sum::<u64>() > MOST as u64 {
            return malformed("more dummies than any node adds");
        }
        Ok(Self { sizes, dummies, group })
    }

    /// The symbols of a value: its cell of each column, behind those of the columns before.
    fn symbols_of(&self, value: u64) -> Zeroizing<Vec<u64>> {
        let mut symbols = Zeroizing::new(vec![0; self.sizes.len()]);
        let mut rest = value;
        for (at, size) in self.sizes.iter().enumerate().rev() {
            let start: u64 = self.sizes[..at].iter().map(|size| size + 1).sum();
            symbols[at] = start + rest % size;
            rest /= self.group.unwrap_or(*size);
        }
        symbols
    }
}

use Mechanism::{
    Dummies, Geometric, Hadamard, Krr, Laplace, NodeColumns, NodeHistogram, NodeSum, OneBit, Quantised, Rappor, Shared,
    Split, Unary,
};

fn fields(value: &Value, names: &[&str]) -> Outcome<()> {
    let Value::Object(given) = value else { return malformed("expected a mechanism") };
    let known = |name: &String| name == "mechanism" || names.contains(&name.as_str());
    match given.iter().find(|(name, _)| !known(name)) {
        Some(_) => malformed("a mechanism has an unknown field"),
        None => Ok(()),
    }
}

impl Mechanism {
    /// From its form in documents.
    pub fn parse(value: &Value) -> Outcome<Self> {
        let Some(kind) = value.get("mechanism").and_then(Value::text) else {
            return malformed("expected a mechanism");
        };
        let number = |name, low, high| bounded(value, name, low, high);
        let share = |name| Ratio::parse(value.get(name), true);
        let rate = |name| Ratio::parse(value.get(name), false);
        Ok(match kind {
            "krr-histogram" => {
                fields(value, &["symbols", "blanket"])?;
                Krr { symbols: number("symbols", 2, MOST)?, blanket: share("blanket")? }
            }
            "hadamard-histogram" => {
                fields(value, &["symbols", "blanket"])?;
                Hadamard { symbols: number("symbols", 2, (1 << 20) - 1)?, blanket: share("blanket")? }
            }
            "dummy-histogram" => {
                fields(value, &["symbols", "slots", "fill", "blanket"])?;
                let (symbols, slots) = (number("symbols", 2, MOST - 1)?, number("slots", 1, 9999)?);
                Dummies { symbols, slots, fill: share("fill")?, blanket: blanket_of(value)? }
            }
            "rappor-histogram" => {
                fields(value, &["symbols", "fake", "when_zero", "when_one", "question"])?;
                let question = if value.get("question").is_some() { number("question", 0, MOST)? } else { 0 };
                let (fake, when_zero) = (share("fake")?, share("when_zero")?);
                let (symbols, when_one) = (number("symbols", 2, 31)?, share("when_one")?);
                if when_one.below(when_zero) || !when_one.below(ONE) {
                    return malformed("need when_zero <= when_one < 1");
                }
                Rappor { symbols, fake, when_zero, when_one, question }
            }
            "one-bit-mean" => {
                fields(value, &["max_value", "randomise"])?;
                OneBit { max_value: number("max_value", 1, MOST)?, randomise: share("randomise")? }
            }
            "quantised-rr" => {
                fields(value, &["max_value", "bits", "randomise"])?;
                let (max_value, bits) = (number("max_value", 1, MOST)?, number("bits", 1, MOST)?);
                if bits > max_value {
                    return malformed("more bits than units");
                }
                Quantised { max_value, bits, randomise: share("randomise")? }
            }
            "rr-shuffle" => {
                fields(value, &["max_value", "randomise"])?;
                Unary { max_value: number("max_value", 1, MOST)?, randomise: share("randomise")? }
            }
            "geo-shuffle" => {
                fields(value, &["max_value", "epsilon_geo", "padding"])?;
                let (max_value, padding) = (number("max_value", 1, MOST)?, number("padding", 0, MOST)?);
                Geometric { max_value, rate: rate("epsilon_geo")?, padding }
            }
            "sgdl-shuffle" => {
                fields(value, &["max_value", "noise_epsilon", "shares", "padding"])?;
                let (max_value, padding) = (number("max_value", 1, MOST)?, number("padding", 0, MOST)?);
                let (rate, shares) = (rate("noise_epsilon")?, number("shares", 1, MOST)?);
                Shared { max_value, rate, shares, padding }
            }
            "split-mix" => {
                fields(value, &["max_value", "noise_epsilon", "shares", "modulus", "pieces"])?;
                let (max_value, shares) = (number("max_value", 1, MOST)?, number("shares", 1, MOST)?);
                let (modulus, pieces) = (number("modulus", 1, 1 << 31)?, number("pieces", 2, 100_000)?);
                if modulus < max_value + 1 {
                    return malformed("the modulus is below the largest value");
                }
                Split { max_value, rate: rate("noise_epsilon")?, shares, modulus, pieces }
            }
            "node-histogram" => {
                fields(value, &["symbols", "noise_epsilon", "mean", "dummies", "blanket"])?;
                let rate = rate("noise_epsilon")?;
                let (symbols, mean) = (number("symbols", 2, MOST)?, number("mean", 1, 1 << 14)?);
                let dummies = number("dummies", 1, MOST)?;
                if dummies < symbols * mean || dummies > 2 * symbols * mean {
                    return malformed("an impossible number of dummies");
                }
                NodeHistogram { symbols, rate, mean, dummies, blanket: blanket_of(value)? }
            }
            "node-sum" => {
                fields(value, &["max_value", "noise_epsilon", "base", "mean"])?;
                let rate = rate("noise_epsilon")?;
                let (max_value, base) = (number("max_value", 1, MOST)?, number("base", 2, MOST)?);
                node_sum(max_value, rate, base, number("mean", 1, 1 << 22)?)?
            }
            "node-columns" => {
                fields(value, &["symbols", "columns", "noise_epsilon", "mean", "spare"])?;
                let (symbols, mean) = (number("symbols", 2, MOST_COMBINATIONS)?, number("mean", 1, 1 << 14)?);
                let sizes = column_sizes(value.get("columns"), symbols)?;
                let columns = Columns::of(value, sizes, mean, None)?;
                NodeColumns { symbols, columns, rate: rate("noise_epsilon")?, mean }
            }
            "node-tree" => {
                fields(value, &["symbols", "width", "noise_epsilon", "mean", "spare"])?;
                let (symbols, mean) = (number("symbols", 2, 1 << 12)?, number("mean", 1, 1 << 14)?);
                let width = number("width", 1, i128::from(symbols) - 1)?;
                let sizes = if width == 1 { vec![symbols] } else { vec![symbols.div_ceil(width), symbols] };
                let columns = Columns::of(value, sizes, mean, Some(width))?;
                NodeColumns { symbols, columns, rate: rate("noise_epsilon")?, mean }
            }
            "local-laplace" => {
                fields(value, &["max_value", "epsilon_geo"])?;
                Laplace { max_value: number("max_value", 1, MOST)?, rate: rate("epsilon_geo")? }
            }
            "bloom-rappor" => return refuse(Code::Unsupported, "Bloom filters"),
            _ => return malformed("an unknown mechanism"),
        })
    }

    /// Refuses noise whose draw takes too many steps on average: docs/protocol.md, "Work".
    pub fn check_steps(&self) -> Outcome<()> {
        match self {
            Shared { rate, .. } | Split { rate, .. } if 2 * rate.d > MAX_STEPS * rate.n => malformed(
                "drawing an answer would take too many steps: ask for a larger epsilon, or count in larger units",
            ),
            _ if self.tries() > MAX_TRIES => malformed(
                "drawing a node's dummies would take too many draws: ask for a larger epsilon, or more dummies",
            ),
            _ => Ok(()),
        }
    }

    /// Mean number of draws of a node's dummies, rounded up.
    fn tries(&self) -> f64 {
        let each = |rate: f64, mean: u64| 2.0 * (1.0 + 1.0 / (rate * (mean + 1) as f64));
        match self {
            NodeHistogram { symbols, rate, mean, .. } => *symbols as f64 * each(rate.value(), *mean),
            NodeColumns { columns, rate, mean, .. } => {
                columns.sizes.iter().sum::<u64>() as f64 * each(rate.value(), *mean)
            }
            NodeSum { digits, .. } => {
                digits.rates.iter().zip(&digits.means).map(|(rate, mean)| each(*rate, *mean)).sum()
            }
            _ => 0.0,
        }
    }

    /// Values that may be asked for: 0 to domain - 1.
    pub fn domain(&self) -> u64 {
        match self {
            Krr { symbols, .. }
            | Hadamard { symbols, .. }
            | Dummies { symbols, .. }
            | Rappor { symbols, .. }
            | NodeHistogram { symbols, .. }
            | NodeColumns { symbols, .. } => *symbols,
            OneBit { max_value, .. }
            | Laplace { max_value, .. }
            | Quantised { max_value, .. }
            | Unary { max_value, .. }
            | Geometric { max_value, .. }
            | Shared { max_value, .. }
            | Split { max_value, .. }
            | NodeSum { max_value, .. } => max_value + 1,
        }
    }

    /// Different symbols of a message.
    pub fn alphabet(&self) -> u64 {
        match self {
            Krr { symbols, .. } => *symbols,
            Hadamard { symbols, .. } => order_of(*symbols),
            Dummies { symbols, .. } | NodeHistogram { symbols, .. } => symbols + 1,
            Rappor { symbols, .. } => 1 << symbols,
            Split { modulus, .. } => *modulus,
            Laplace { max_value, .. } => max_value + 1,
            NodeSum { digits, .. } => 2 * digits.weights.len() as u64,
            NodeColumns { columns, .. } => columns.sizes.iter().map(|size| size + 1).sum(),
            OneBit { .. } | Quantised { .. } | Unary { .. } | Geometric { .. } | Shared { .. } => 2,
        }
    }

    /// Messages of one user.
    pub fn messages(&self) -> u64 {
        match self {
            Krr { .. } | Hadamard { .. } | Rappor { .. } | OneBit { .. } | Laplace { .. } | NodeHistogram { .. } => 1,
            Dummies { slots, .. } => 1 + slots,
            Quantised { bits, .. } => *bits,
            Unary { max_value, .. } => *max_value,
            Geometric { max_value, padding, .. } | Shared { max_value, padding, .. } => max_value + 2 * padding,
            Split { pieces, .. } => *pieces,
            NodeSum { digits, .. } => digits.caps.iter().sum(),
            NodeColumns { columns, .. } => columns.sizes.len() as u64,
        }
    }

    /// Messages that every node adds.
    pub fn dummies(&self) -> u64 {
        match self {
            NodeHistogram { dummies, .. } => *dummies,
            NodeSum { digits, .. } => 2 * digits.means.iter().sum::<u64>(),
            NodeColumns { columns, .. } => columns.dummies.iter().sum(),
            _ => 0,
        }
    }

    /// The value, if this mechanism asks for such a one; the message does not name it.
    pub fn check_value(&self, value: &Value) -> Outcome<u64> {
        match value.whole() {
            Some(number) if number >= 0 && number < i128::from(self.domain()) => Ok(number as u64),
            _ => refuse(Code::Usage, format!("the value must be a whole number from 0 to {}", self.domain() - 1)),
        }
    }

    /// A user's answer: the value, randomised by the certified law, exactly.
    pub fn sample<S: FnMut(&mut [u8])>(&self, value: u64, coins: &mut Integers<S>) -> u64 {
        match self {
            Krr { symbols, blanket } => respond(value, *symbols, *blanket, coins),
            Dummies { symbols, blanket: Some(blanket), .. } | NodeHistogram { symbols, blanket: Some(blanket), .. } => {
                respond(value, *symbols, *blanket, coins)
            }
            Hadamard { symbols, blanket } => {
                let order = order_of(*symbols);
                if coin(*blanket, coins) {
                    return draw(order, coins);
                }
                let row = value + 1;
                let bit = row.trailing_zeros();
                let free = draw(order / 2, coins);
                let found = (free >> bit << (bit + 1)) | (free & ((1 << bit) - 1));
                found | (u64::from((found & row).count_ones() & 1) << bit)
            }
            Dummies { .. } | NodeHistogram { .. } | NodeSum { .. } | NodeColumns { .. } => value,
            Rappor { .. } => {
                let response = self.draw_response(value, coins);
                self.report(response, coins)
            }
            Laplace { max_value, rate } => {
                let noisy = i128::from(value) + discrete_laplace(*rate, coins);
                noisy.clamp(0, i128::from(*max_value)) as u64
            }
            OneBit { max_value, randomise } => {
                if coin(*randomise, coins) {
                    return draw(2, coins);
                }
                u64::from(draw(*max_value, coins) < value)
            }
            Quantised { max_value, bits, randomise } => {
                let steps = value * bits / max_value;
                let more = draw(*max_value, coins) < value * bits % max_value;
                flip(steps + u64::from(more), *bits, *randomise, coins)
            }
            Unary { max_value, randomise } => flip(value, *max_value, *randomise, coins),
            Geometric { rate, padding, .. } => self.clamp(i128::from(value + padding) + discrete_laplace(*rate, coins)),
            Shared { rate, shares, padding, .. } => {
                self.clamp(i128::from(value + padding) + shared_noise(*rate, *shares, coins))
            }
            Split { rate, shares, modulus, .. } => {
                let noisy = i128::from(value) + shared_noise(*rate, *shares, coins);
                noisy.rem_euclid(i128::from(*modulus)) as u64
            }
        }
    }

    /// The name under which a device keeps its response for all rounds of one question; None for
    /// mechanisms that randomise the value anew in every round.
    pub fn response_name(&self) -> Option<String> {
        let Rappor { symbols, fake, question, .. } = self else { return None };
        Some(format!("rappor-histogram question={question} symbols={symbols} fake={}/{}", fake.n, fake.d))
    }

    /// The response that a device keeps, drawn once for all rounds of one question.
    pub fn draw_response<S: FnMut(&mut [u8])>(&self, value: u64, coins: &mut Integers<S>) -> u64 {
        let Rappor { symbols, fake, .. } = self else { return value };
        let chance = |symbol| if symbol == value { fake.half().complement() } else { fake.half() };
        bits(*symbols, coins, chance)
    }

    /// This round's answer of the response that is kept.
    pub fn report<S: FnMut(&mut [u8])>(&self, response: u64, coins: &mut Integers<S>) -> u64 {
        let Rappor { symbols, when_zero, when_one, .. } = self else { return response };
        bits(*symbols, coins, |symbol| if response >> symbol & 1 == 1 { *when_one } else { *when_zero })
    }

    /// Whether the guarantee rests on the reports of other people.
    pub fn needs_crowd(&self) -> bool {
        !matches!(self, NodeHistogram { .. } | NodeSum { .. } | NodeColumns { .. })
    }

    /// Whether the answer is a histogram, not a sum.
    pub fn is_histogram(&self) -> bool {
        matches!(
            self,
            Krr { .. } | Hadamard { .. } | Dummies { .. } | Rappor { .. } | NodeHistogram { .. } | NodeColumns { .. }
        )
    }

    fn clamp(&self, noisy: i128) -> u64 {
        noisy.clamp(0, i128::from(self.messages())) as u64
    }

    /// The symbols of an answer's messages, in the order in which they are sealed; erased after use.
    pub fn encode<S: FnMut(&mut [u8])>(&self, answer: u64, coins: &mut Integers<S>) -> Zeroizing<Vec<u64>> {
        // Never longer: a vector that moves as it grows leaves its symbols behind.
        let mut sent = Zeroizing::new(Vec::with_capacity(self.messages() as usize));
        match self {
            Krr { .. } | Hadamard { .. } | Rappor { .. } | Laplace { .. } | NodeHistogram { .. } => sent.push(answer),
            Dummies { symbols, slots, fill, .. } => {
                sent.push(answer);
                for _ in 0..*slots {
                    let filled = coin(*fill, coins);
                    sent.push(if filled { draw(*symbols, coins) } else { *symbols });
                }
                let place = draw(slots + 1, coins) as usize;
                sent.swap(0, place);
            }
            OneBit { .. } | Quantised { .. } | Unary { .. } | Geometric { .. } | Shared { .. } => {
                sent.extend((0..self.messages()).map(|at| u64::from(at < answer)));
            }
            Split { modulus, pieces, .. } => {
                sent.extend((1..*pieces).map(|_| draw(*modulus, coins)));
                let drawn = sent.iter().fold(0, |total, piece| (total + piece) % modulus);
                sent.push((answer + modulus - drawn) % modulus);
            }
            NodeSum { digits, .. } => {
                let values = digits.of(answer);
                for (number, (digit, cap)) in values.iter().zip(&digits.caps).enumerate().rev() {
                    let zero = 2 * number as u64;
                    sent.extend((0..*cap).map(|at| zero + u64::from(at < *digit)));
                }
            }
            NodeColumns { columns, .. } => sent.extend_from_slice(&columns.symbols_of(answer)),
        }
        sent
    }
}

/// The probability that a uniform value is sent instead; none where it is 0, and 1 is refused.
fn blanket_of(value: &Value) -> Outcome<Option<Ratio>> {
    match value.get("blanket") {
        None => Ok(None),
        Some(written) if written.text() == Some("0/1") => Ok(None),
        written => match Ratio::parse(written, true)? {
            ONE => malformed("a blanket of 1 would leave nothing of a value"),
            blanket => Ok(Some(blanket)),
        },
    }
}

/// k-ary randomised response.
fn respond<S: FnMut(&mut [u8])>(value: u64, symbols: u64, blanket: Ratio, coins: &mut Integers<S>) -> u64 {
    if coin(blanket, coins) { draw(symbols, coins) } else { value }
}

fn column_sizes(value: Option<&Value>, symbols: u64) -> Outcome<Vec<u64>> {
    let Some(Value::List(entries)) = value else { return malformed("expected columns") };
    let size = |entry: &Value| entry.whole().filter(|size| (2..=MOST).contains(size)).map(|size| size as u64);
    let sizes: Option<Vec<u64>> = entries.iter().map(size).collect();
    let product = |sizes: &Vec<u64>| sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    match sizes {
        Some(sizes) if (1..=16).contains(&sizes.len()) && product(&sizes) == Some(symbols) => Ok(sizes),
        _ => malformed("expected 1 to 16 columns whose product is the number of symbols"),
    }
}

fn node_sum(max_value: u64, rate: Ratio, base: u64, mean: u64) -> Outcome<Mechanism> {
    let mut weights = vec![1];
    while weights[weights.len() - 1] * base <= max_value {
        weights.push(weights[weights.len() - 1] * base);
    }
    let top = weights[weights.len() - 1];
    let last = weights.len() - 1;
    let caps: Vec<u64> = (0..=last).map(|at| if at < last { base - 1 } else { max_value / top }).collect();
    let share = |at: usize| cube_root((u128::from(weights[at]) * u128::from(caps[at])).pow(2));
    // Rates are share / cap, but for a factor that all have: μ of the others is as many nats.
    let means: Vec<u128> = (0..=last)
        .map(|at| {
            let above = u128::from(mean) * share(last) * u128::from(caps[at]);
            above.div_ceil(u128::from(caps[last]) * share(at))
        })
        .collect();
    let fits = |at: usize| means[at] >= u128::from(caps[at]) && means[at] <= 1 << 22;
    if base > max_value + 1 || !(0..=last).all(fits) {
        return malformed("impossible digits");
    }
    let means = means.iter().map(|mean| *mean as u64).collect();
    let all: f64 = (0..=last).map(|at| share(at) as f64).sum();
    let rates = (0..=last).map(|at| rate.value() * share(at) as f64 / (all * caps[at] as f64)).collect();
    Ok(NodeSum { max_value, digits: NodeDigits { weights, caps, means, rates } })
}

/// The largest whole number, at least 1, whose cube is at most this.
fn cube_root(number: u128) -> u128 {
    let (mut low, mut high): (u128, u128) = (1, 1 << 32);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle.pow(3) <= number { low = middle } else { high = middle - 1 }
    }
    low
}

fn order_of(symbols: u64) -> u64 {
    1 << (64 - symbols.leading_zeros())
}

fn draw<S: FnMut(&mut [u8])>(bound: u64, coins: &mut Integers<S>) -> u64 {
    coins.below(u128::from(bound)) as u64
}

fn coin<S: FnMut(&mut [u8])>(chance: Ratio, coins: &mut Integers<S>) -> bool {
    coins.below(chance.d) < chance.n
}

fn bits<S: FnMut(&mut [u8])>(count: u64, coins: &mut Integers<S>, chance: impl Fn(u64) -> Ratio) -> u64 {
    (0..count).fold(0, |found, at| found | u64::from(coin(chance(at), coins)) << at)
}

/// Each of k bits is flipped with half the probability that it is randomised; the first are ones.
fn flip<S: FnMut(&mut [u8])>(ones: u64, k: u64, randomise: Ratio, coins: &mut Integers<S>) -> u64 {
    let mut flips = |trials: u64| (0..trials).filter(|_| coin(randomise.half(), coins)).count() as u64;
    let lost = flips(ones);
    ones - lost + flips(k - ones)
}

/// Bernoulli(exp(-n/d)) for n/d from 0 to 1.
fn unit_exp<S: FnMut(&mut [u8])>(n: u128, d: u128, coins: &mut Integers<S>) -> bool {
    let mut trial = 1;
    while coins.below(d * trial) < n {
        trial += 1;
    }
    trial % 2 == 1
}

/// Canonne, Kamath, Steinke 2020.
fn geometric<S: FnMut(&mut [u8])>(rate: Ratio, coins: &mut Integers<S>) -> u128 {
    let low = loop {
        let low = coins.below(rate.d);
        if unit_exp(low, rate.d, coins) {
            break low;
        }
    };
    let mut high = 0;
    while unit_exp(1, 1, coins) {
        high += 1;
    }
    (low + rate.d * high) / rate.n
}

fn discrete_laplace<S: FnMut(&mut [u8])>(rate: Ratio, coins: &mut Integers<S>) -> i128 {
    loop {
        let magnitude = geometric(rate, coins) as i128;
        let negative = coins.below(2) == 1;
        if magnitude > 0 || !negative {
            return if negative { -magnitude } else { magnitude };
        }
    }
}

/// A Pólya urn thins a geometric.
fn geometric_share<S: FnMut(&mut [u8])>(rate: Ratio, shares: u64, coins: &mut Integers<S>) -> i128 {
    let parts = u128::from(shares);
    let mut white = 0;
    for drawn in 0..geometric(rate, coins) {
        if coins.below(parts * (1 + drawn)) < 1 + parts * white {
            white += 1;
        }
    }
    white as i128
}

fn shared_noise<S: FnMut(&mut [u8])>(rate: Ratio, shares: u64, coins: &mut Integers<S>) -> i128 {
    let added = geometric_share(rate, shares, coins);
    added - geometric_share(rate, shares, coins)
}
