//! A user's own policy: docs/protocol.md, "Submit", step 8.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

use crate::bounds::local_epsilon;
use crate::errors::{Code, Outcome, refuse};
use crate::geometry::Geometry;
use crate::json::Value;
use crate::mechanisms::Mechanism;

const LIMITS: [&str; 18] = [
    "epsilon",
    "delta",
    "epsilon_corrupted",
    "distance",
    "nodes",
    "operators",
    "suites",
    "mixes",
    "messages",
    "allow_corrupt",
    "min_colluding",
    "min_colluding_share",
    "require_crowd_free",
    "require_log",
    "questions",
    "refuse_questions",
    "fields",
    "refuse_fields",
];

/// The most that a round may ask for, however well it is signed; every ε is a total, in nats.
pub struct Policy {
    limits: Value,
    epsilon: f64,
    delta: f64,
    epsilon_corrupted: f64,
}

impl Policy {
    /// From the names of the Python client's `[policy]`; ε, δ and ε_L have no default.
    pub fn parse(value: &Value) -> Outcome<Self> {
        let wrong = || refuse(Code::Config, "the policy has an unknown or impossible limit");
        let Value::Object(fields) = value else { return wrong() };
        if fields.iter().any(|(name, _)| !LIMITS.contains(&name.as_str())) {
            return wrong();
        }
        let limits =
            [value.at("epsilon").number(), value.at("delta").number(), corrupted(value.at("epsilon_corrupted"))];
        let [Some(epsilon), Some(delta), Some(epsilon_corrupted)] = limits else { return wrong() };
        let policy = Self { limits: value.clone(), epsilon, delta, epsilon_corrupted };
        let share = policy.real("min_colluding_share");
        let numbers = ["distance", "nodes", "operators", "messages", "min_colluding"];
        let valid = epsilon > 0.0
            && epsilon.is_finite()
            && (0.0..1.0).contains(&delta)
            && epsilon_corrupted >= 0.0
            && (0.0..1.0).contains(&share)
            && numbers
                .iter()
                .all(|name| policy.limit(name).is_none_or(|number| number.whole().is_some_and(|n| n >= 0)))
            && policy.limit("distance").is_none_or(|distance| distance.whole() != Some(0))
            && ["allow_corrupt", "require_crowd_free", "require_log"]
                .iter()
                .all(|name| policy.limit(name).is_none_or(|flag| matches!(flag, Value::Bool(_))))
            && ["suites", "mixes", "questions", "refuse_questions", "fields", "refuse_fields"]
                .iter()
                .all(|name| policy.limit(name).is_none_or(is_texts));
        if valid { Ok(policy) } else { wrong() }
    }

    fn limit(&self, name: &str) -> Option<&Value> {
        self.limits.get(name).filter(|value| **value != Value::Null)
    }

    fn real(&self, name: &str) -> f64 {
        self.limit(name).map_or(0.0, |value| value.number().unwrap_or(f64::NAN))
    }

    fn whole(&self, name: &str, otherwise: i128) -> i128 {
        self.limit(name).and_then(Value::whole).unwrap_or(otherwise)
    }

    fn flag(&self, name: &str, otherwise: bool) -> bool {
        match self.limit(name) {
            Some(Value::Bool(flag)) => *flag,
            _ => otherwise,
        }
    }

    /// Whether the list is given and does not have the word.
    fn excludes(&self, name: &str, word: &str) -> bool {
        self.limit(name).is_some_and(|list| !list.list().iter().any(|entry| entry.text() == Some(word)))
    }

    fn refuses(&self, name: &str, word: &str) -> bool {
        self.limit(name).is_some() && !self.excludes(name, word)
    }

    /// Whether rounds must be in the public log where the roster names witnesses.
    pub fn requires_log(&self) -> bool {
        self.flag("require_log", true)
    }

    /// Checks a verified round.
    pub fn check(
        &self,
        certificate: &Value,
        mechanism: &Mechanism,
        geometry: &Geometry,
        operators: &[&str],
        corrupt: &[&str],
    ) -> Outcome<()> {
        let distance = self.protected_distance(certificate, mechanism)?;
        self.check_privacy(certificate, mechanism, distance)?;
        let different: BTreeSet<String> = operators.iter().map(|operator| normalise(operator)).collect();
        at_least("mix nodes", operators.len() as i128, self.whole("nodes", 2))?;
        at_least("different operators", different.len() as i128, self.whole("operators", 2))?;
        if self.excludes("suites", geometry.suite.name) {
            return no(&format!("it seals with {}", geometry.suite.name));
        }
        if self.excludes("mixes", geometry.mix.name()) {
            return no(&format!("its mixing is {}", geometry.mix.name()));
        }
        at_most("number of messages", geometry.messages_per_user as f64, self.whole("messages", 100_000) as f64)?;
        if !corrupt.is_empty() && !self.flag("allow_corrupt", false) {
            return no(&format!("{} declared itself corrupt", corrupt.join(", ")));
        }
        self.check_crowd(certificate, mechanism)?;
        self.check_question(certificate.get("wording"))
    }

    fn protected_distance(&self, certificate: &Value, mechanism: &Mechanism) -> Outcome<u64> {
        let full = mechanism.domain() as i128 - 1;
        let distance = self.whole("distance", full).min(full);
        let covered = certificate.whole_at("max_distance");
        if distance > covered {
            return no(&format!("it protects changes of up to {covered} units, not {distance}"));
        }
        Ok(distance as u64)
    }

    fn check_privacy(&self, certificate: &Value, mechanism: &Mechanism, distance: u64) -> Outcome<()> {
        let factor = if certificate.text_at("adjacency") == "metric" { distance as f64 } else { 1.0 };
        // No number means no finite bound, which every limit must refuse.
        let total = |value: &Value| value.number().map_or(f64::INFINITY, |epsilon| epsilon * factor);
        let number = |value: &Value| value.number().unwrap_or(f64::NAN);
        at_most("ε", total(certificate.at("epsilon").at("certified")), self.epsilon)?;
        at_most("δ", number(certificate.at("delta")), self.delta)?;
        if self.epsilon_corrupted.is_infinite() {
            return Ok(());
        }
        let corrupted = certificate.at("corrupted");
        at_most("ε with every node corrupt", total(corrupted.at("epsilon")), self.epsilon_corrupted)?;
        at_most("δ with every node corrupt", number(corrupted.at("delta")), self.delta)?;
        let computed = local_epsilon(mechanism, distance);
        at_most("ε with every node corrupt, computed here,", computed, self.epsilon_corrupted)
    }

    fn check_crowd(&self, certificate: &Value, mechanism: &Mechanism) -> Outcome<()> {
        if !mechanism.needs_crowd() {
            return Ok(());
        }
        if self.flag("require_crowd_free", false) {
            return no("its guarantee rests on other people's reports");
        }
        let users = certificate.whole_at("users");
        let margin = users - certificate.whole_at("honest");
        at_least("colluding users to spare", margin, self.whole("min_colluding", 0))?;
        if (margin as f64 / users.max(1) as f64) < self.real("min_colluding_share") {
            return no(&format!("it allows for {margin} colluding users of {users}"));
        }
        Ok(())
    }

    fn check_question(&self, wording: Option<&Value>) -> Outcome<()> {
        let limits = ["questions", "refuse_questions", "fields", "refuse_fields"];
        let limited = |name: &&str| {
            let value = self.limit(name);
            value.is_some_and(|list| !name.starts_with("refuse") || !list.list().is_empty())
        };
        if !limits.iter().any(limited) {
            return Ok(());
        }
        let Some(wording) = wording else { return no("it has no question in words") };
        let question = wording.text_at("id");
        if self.excludes("questions", question) || self.refuses("refuse_questions", question) {
            return no(&format!("its question is {question}"));
        }
        for axis in wording.at("axes").list().iter().chain(wording.at("where").list()) {
            let field = axis.text_at("field");
            if self.excludes("fields", field) || self.refuses("refuse_fields", field) {
                return no(&format!("it asks for {field}"));
            }
        }
        Ok(())
    }
}

/// A number, or "inf", which accepts any.
fn corrupted(value: &Value) -> Option<f64> {
    if value.text() == Some("inf") { Some(f64::INFINITY) } else { value.number() }
}

fn is_texts(value: &Value) -> bool {
    matches!(value, Value::List(entries) if entries.iter().all(|entry| entry.text().is_some()))
}

/// An operator's name without differences of case, white space and Unicode form.
fn normalise(operator: &str) -> String {
    // Lower case of upper case: as near to case folding as the standard library comes.
    let folded = operator.nfkc().collect::<String>().to_uppercase().to_lowercase();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn no<T>(what: &str) -> Outcome<T> {
    refuse(Code::ClientPolicy, format!("your policy does not allow this round: {what}"))
}

fn at_most(what: &str, value: f64, limit: f64) -> Outcome<()> {
    // Written so that a value that is no number is refused.
    if 0.0 <= value && value <= limit {
        return Ok(());
    }
    no(&format!("the {what} is {value}, at most {limit} is allowed"))
}

fn at_least(what: &str, value: i128, limit: i128) -> Outcome<()> {
    if value >= limit { Ok(()) } else { no(&format!("it has {value} {what}, at least {limit} are required")) }
}
