//! Lengths of a round: docs/protocol.md, "Onions".

use crate::TAG_BYTES;
use crate::errors::{Code, Outcome, malformed, refuse};
use crate::mechanisms::Mechanism;

/// A suite's name, the bytes that a layer adds, and those of a public key.
pub struct Suite {
    pub name: &'static str,
    pub overhead: u64,
    pub public_key: usize,
    pub kem: u16,
}

/// All suites; "sealed-box" for its lengths only.
pub const SUITES: [Suite; 3] = [
    Suite { name: "sealed-box", overhead: 48, public_key: 32, kem: 0 },
    Suite { name: "hpke", overhead: 48, public_key: 32, kem: 0x0020 },
    Suite { name: "hpke-mlkem768-x25519", overhead: 1136, public_key: 1216, kem: 0x647a },
];

/// The suite of this name.
pub fn suite_named(name: &str) -> Outcome<&'static Suite> {
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.map_or_else(|| refuse(Code::Config, "unknown suite"), Ok)
}

/// The geometry of a round of plain mixing.
pub struct Geometry {
    pub suite: &'static Suite,
    pub hops: u64,
    pub messages_per_user: u64,
    pub symbol_bytes: u64,
    pub dummies_per_node: u64,
}

impl Geometry {
    /// What a mechanism, a suite and a number of nodes need.
    pub fn of(mechanism: &Mechanism, suite: &str, hops: u64) -> Outcome<Self> {
        mechanism.check_steps()?;
        let bits = 64 - (mechanism.alphabet() - 1).leading_zeros();
        Self {
            suite: suite_named(suite)?,
            hops,
            messages_per_user: mechanism.messages(),
            symbol_bytes: u64::from(bits.div_ceil(8).max(1)),
            dummies_per_node: mechanism.dummies(),
        }
        .checked()
    }

    /// Refuses what no round has.
    pub fn checked(self) -> Outcome<Self> {
        let possible = (2..=16).contains(&self.hops)
            && (1..=1_000_000).contains(&self.messages_per_user)
            && (1..=4).contains(&self.symbol_bytes)
            && self.dummies_per_node <= 10_000_000;
        if possible { Ok(self) } else { malformed("an impossible geometry") }
    }

    /// Bytes of a message without layers.
    pub fn plain_bytes(&self) -> u64 {
        self.symbol_bytes + TAG_BYTES as u64
    }

    /// Bytes of a record as the node at this position gets it; hops + 1 is the analyst.
    pub fn record_bytes(&self, position: u64) -> u64 {
        self.plain_bytes() + (self.hops + 1 - position) * self.suite.overhead
    }

    /// Bytes of a submission's envelope.
    pub fn envelope_bytes(&self) -> u64 {
        self.messages_per_user * self.record_bytes(2) + self.suite.overhead
    }
}
