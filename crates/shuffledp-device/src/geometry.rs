//! Lengths of a round: docs/protocol.md, "Onions".

use crate::board::Layout;
use crate::errors::{Code, Outcome, malformed, refuse};
use crate::json::Value;
use crate::mechanisms::Mechanism;

/// The KEM of the suite against later computers.
pub const HYBRID: u16 = 0x647a;

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
    Suite { name: "hpke-mlkem768-x25519", overhead: 1136, public_key: 1216, kem: HYBRID },
];

/// The suite of this name.
pub fn suite_named(name: &str) -> Outcome<&'static Suite> {
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.map_or_else(|| refuse(Code::Config, "unknown suite"), Ok)
}

/// How the nodes mix: plainly, or with publicly verifiable proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    Plain,
    Verified,
}

impl Mix {
    /// Of a field that a schema checked: "verified", or absent.
    pub fn of(field: Option<&Value>) -> Self {
        if field.is_some() { Mix::Verified } else { Mix::Plain }
    }

    /// As policies name it.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Plain => "plain",
            Mix::Verified => "verified",
        }
    }
}

/// Bytes of the seed of the salts in a verified submission, and of a field of a claim.
const FIELD_BYTES: u64 = 32;
/// Bytes of a proof or a signature.
const PROOF_BYTES: u64 = 64;
/// Bytes that a box of a verified round adds.
const BOX_BYTES: u64 = 16;
/// Bytes of a credential's expiry in a claim.
const EXPIRY_BYTES: u64 = 8;

/// What all lengths of a round follow from.
pub struct Geometry {
    pub suite: &'static Suite,
    pub hops: u64,
    pub messages_per_user: u64,
    pub symbol_bytes: u64,
    pub dummies_per_node: u64,
    pub mix: Mix,
}

impl Geometry {
    /// What a mechanism, a suite, a number of nodes and their mixing need.
    pub fn of(mechanism: &Mechanism, suite: &str, hops: u64, mix: Mix) -> Outcome<Self> {
        mechanism.check_steps()?;
        let bits = 64 - (mechanism.alphabet() - 1).leading_zeros();
        Self {
            suite: suite_named(suite)?,
            hops,
            messages_per_user: mechanism.messages(),
            symbol_bytes: u64::from(bits.div_ceil(8).max(1)),
            dummies_per_node: mechanism.dummies(),
            mix,
        }
        .checked()
    }

    /// Refuses what no round has.
    pub fn checked(self) -> Outcome<Self> {
        let possible = (2..=16).contains(&self.hops)
            && (1..=1_000_000).contains(&self.messages_per_user)
            && (1..=4).contains(&self.symbol_bytes)
            && self.dummies_per_node <= 10_000_000;
        if !possible {
            return malformed("an impossible geometry");
        }
        if self.mix == Mix::Verified && self.suite.kem == HYBRID {
            return malformed("claims stay public: verified mixing has no suite against later computers");
        }
        Ok(self)
    }

    /// Where messages without layers have their symbols and tags.
    pub fn layout(&self) -> Layout {
        match self.mix {
            Mix::Plain => Layout::plain(self.symbol_bytes as usize),
            Mix::Verified => Layout::verified(self.symbol_bytes as usize),
        }
    }

    /// Bytes of a message without layers.
    pub fn plain_bytes(&self) -> u64 {
        self.layout().width as u64
    }

    /// Bytes of a record as the node at this position gets it; hops + 1 is the analyst.
    pub fn record_bytes(&self, position: u64) -> u64 {
        let layers = match self.mix {
            Mix::Plain => (self.hops + 1 - position) * self.suite.overhead,
            // The entry node takes no layer off, and behind the last one the analyst's is left.
            Mix::Verified => (self.hops + 2 - position) * BOX_BYTES,
        };
        self.plain_bytes() + layers
    }

    /// Bytes of a submission: its envelope, behind a claim in a verified round.
    pub fn envelope_bytes(&self) -> u64 {
        let records = self.messages_per_user * self.record_bytes(2) + self.suite.overhead;
        match self.mix {
            Mix::Plain => records,
            Mix::Verified => {
                let claimed = (2 + self.messages_per_user) * FIELD_BYTES + 2 * PROOF_BYTES;
                EXPIRY_BYTES + PROOF_BYTES + claimed + FIELD_BYTES + records
            }
        }
    }
}
