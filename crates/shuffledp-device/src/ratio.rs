//! Rationals in lowest terms, of parameters of mechanisms.

use crate::errors::Outcome;
use crate::json::Value;
use crate::schema::expected;

/// n/d in lowest terms, both at most 2^63 where a document has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    pub n: u128,
    pub d: u128,
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Ratio {
    pub fn new(n: u128, d: u128) -> Self {
        let common = gcd(n, d);
        Self { n: n / common, d: d / common }
    }

    /// As a float, within three roundings.
    pub fn value(self) -> f64 {
        self.n as f64 / self.d as f64
    }

    /// Half of it.
    pub fn half(self) -> Self {
        Self::new(self.n, 2 * self.d)
    }

    /// 1 less it, which is at most 1.
    pub fn complement(self) -> Self {
        Self::new(self.d - self.n, self.d)
    }

    pub fn below(self, other: Self) -> bool {
        self.n * other.d < other.n * self.d
    }

    /// A rational above 0 in its one spelling, such as "1/3"; at most 1 if `share`.
    pub fn parse(value: Option<&Value>, share: bool) -> Outcome<Self> {
        let read = || {
            let (n, d) = value?.text()?.split_once('/')?;
            let plain = |part: &str| {
                let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                let canonical = digits && part.len() <= 31 && (part == "0" || !part.starts_with('0'));
                if canonical { part.parse::<u128>().ok() } else { None }
            };
            let (n, d) = (plain(n)?, plain(d)?);
            let limit = 1 << 63;
            let valid = n >= 1 && d >= 1 && n <= limit && d <= limit && gcd(n, d) == 1;
            (valid && (!share || n <= d)).then_some(Self { n, d })
        };
        read().map_or_else(|| expected("a rational above 0 such as 1/3"), Ok)
    }
}
