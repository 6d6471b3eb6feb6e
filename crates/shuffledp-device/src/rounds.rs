//! The checks of a whole round before the value is touched: docs/protocol.md, "Submit".

use crate::bounds::{attained_delta, local_epsilon};
use crate::documents::{Frame, MAX_DOCUMENT_BYTES, frame};
use crate::errors::{Code, Outcome, foreign, malformed, refuse};
use crate::geometry::{Geometry, Mix, suite_named};
use crate::json::{Value, parse};
use crate::log::{Checkpoint, Entry, check_logged};
use crate::mechanisms::Mechanism;
use crate::mixing::{MixTerms, check_keys};
use crate::policy::Policy;
use crate::schema::{from_hex, list, object, text};
use crate::sealing::{Ephemeral, seal};

/// Relative difference that is forgiven: twice the tolerance to which the accountant searches ε.
const SLACK: f64 = 2e-6;

/// The parties of a deployment, under the pinned root key.
pub struct Roster {
    value: Value,
}

/// A party of the roster.
#[derive(Clone, Debug)]
pub struct Party {
    pub name: String,
    pub identity_key: String,
}

impl Roster {
    /// Verifies a roster; whether it is current is for `require_current`.
    pub fn verify(document: &str, root_key: &str) -> Outcome<Self> {
        Ok(Self { value: Frame::parse(document)?.verify("roster", "root", root_key)? })
    }

    pub fn deployment(&self) -> &str {
        self.value.text_at("deployment")
    }

    /// The public log's witnesses and rules; None where rounds are not logged.
    pub fn log(&self) -> Option<&Value> {
        self.value.get("log")
    }

    fn require_current(&self, now: i128) -> Outcome<()> {
        if self.value.whole_at("serial") < 1 {
            return refuse(Code::StaleRoster, "the roster has no serial number");
        }
        if now >= self.value.whole_at("expires_at") {
            return refuse(Code::StaleRoster, "the roster has expired: get the present one");
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Outcome<&Value> {
        let party = self.value.at("parties").list().iter().find(|party| party.text_at("name") == name);
        party.map_or_else(|| foreign("the roster has no such party"), Ok)
    }

    /// The party of this name.
    pub fn party(&self, name: &str) -> Outcome<Party> {
        self.entry(name).map(party_of)
    }

    /// The key by which the credentials of a population are signed.
    pub fn enrolment_key(&self, population: &str) -> Outcome<String> {
        let all = self.value.at("populations").list();
        let entry = all.iter().find(|entry| entry.text_at("name") == population);
        let key = entry.map(|entry| entry.text_at("enrolment_key").to_owned());
        key.map_or_else(|| foreign("the roster has no such population"), Ok)
    }

    /// The only party of a role.
    pub fn only(&self, role: &str) -> Outcome<Party> {
        let mut all = self.value.at("parties").list().iter().filter(|party| party.text_at("role") == role);
        match (all.next(), all.next()) {
            (Some(party), None) => Ok(party_of(party)),
            _ => foreign(format!("the roster does not have exactly one {role}")),
        }
    }
}

fn party_of(value: &Value) -> Party {
    Party { name: value.text_at("name").into(), identity_key: value.text_at("identity_key").into() }
}

impl Party {
    /// The content of a document that this party signed.
    pub fn verify(&self, frame: &Frame, label: &str) -> Outcome<Value> {
        frame.verify(label, &self.name, &self.identity_key)
    }
}

/// What a device is asked with, and by which rules it answers.
pub struct Terms<'a> {
    pub roster: &'a Roster,
    pub policy: &'a Policy,
    /// The population of the user's credential.
    pub population: &'a str,
    /// Milliseconds since 1970 (UTC).
    pub now: i128,
    /// The round that was asked for; None accepts any.
    pub round_id: Option<&'a str>,
    /// The public log as this device saw it last.
    pub remembered: Option<&'a Checkpoint>,
}

/// A round that passed every check, with all that taking part in it needs.
pub struct CheckedRound {
    pub deployment: String,
    pub round_id: String,
    pub mechanism: Mechanism,
    pub geometry: Geometry,
    /// Of a verified round, with the checked keys of its nodes.
    pub mixing: Option<MixTerms>,
    pub public_keys: Vec<Vec<u8>>,
    /// The node that takes submissions.
    pub entry: Party,
    pub certificate: Value,
    pub certificate_digest: String,
    pub manifest_digest: String,
    /// Milliseconds since 1970 (UTC).
    pub closes_at: i128,
    /// The public log with this round in it; None where it was not required.
    pub log: Option<Checkpoint>,
}

/// Checks an announcement in every way that a device can, in the order of the numbered steps.
pub fn verify_round(announcement: &str, terms: &Terms) -> Outcome<CheckedRound> {
    let roster = terms.roster;
    roster.require_current(terms.now)?; // 1
    let announced = parse_announcement(announcement)?;
    let manifest_frame = Frame::of(announced.at("manifest"));
    let manifest = roster.only("analyst")?.verify(&manifest_frame, "manifest")?;
    same("deployment", manifest.text_at("deployment"), roster.deployment())?;
    let round_id = manifest.text_at("round_id");
    if round_id.len() != 32 || from_hex(round_id).is_none() {
        return malformed("a round id is 32 digits of lower-case hex");
    }
    if let Some(expected) = terms.round_id {
        same("round", round_id, expected)?;
    }
    let certificate = check_certificate(&manifest, roster, terms.population)?; // 2
    let certificate_digest = Frame::of(manifest.at("certificate")).digest();
    let route = check_route(&manifest, &certificate, roster)?; // 3
    let keys = check_round_keys(&manifest, &route, &certificate_digest)?;
    let manifest_digest = manifest_frame.digest();
    check_countersignatures(&announced, &manifest, &manifest_digest, &route)?; // 4
    let mechanism = Mechanism::parse(certificate.at("mechanism"))?;
    let mix = Mix::of(certificate.get("mix"));
    let geometry = check_geometry(&manifest, &mechanism, route.len() as u64, mix)?; // 5
    if keys.iter().any(|key| Mix::of(key.get("mixing")) != mix) {
        return refuse(Code::RoundKey, "a round key is for another mixing; do not take part"); // 3
    }
    let mixing = match mix {
        Mix::Plain => None,
        Mix::Verified => {
            let enrolment_key = roster.enrolment_key(certificate.text_at("population"))?;
            Some(check_keys(&manifest_digest, &certificate_digest, &keys, &enrolment_key)?) // 3
        }
    };
    if terms.now >= certificate.whole_at("expires_at") {
        return refuse(Code::ExpiredDocument, "the certificate has expired"); // 2
    }
    if !(manifest.whole_at("opens_at")..manifest.whole_at("closes_at")).contains(&terms.now) {
        return refuse(Code::SubmissionClosed, "the round is not open now"); // 6
    }
    check_claims(&certificate, &mechanism)?; // 7
    let corrupt: Vec<&str> =
        keys.iter().filter(|key| *key.at("corrupt") == Value::Bool(true)).map(|key| key.text_at("node")).collect();
    let operators: Vec<&str> = route.iter().map(|party| party.text_at("operator")).collect();
    terms.policy.check(&certificate, &mechanism, &geometry, &operators, &corrupt)?; // 8
    let log = if roster.log().is_some() && terms.policy.requires_log() {
        Some(check_log(&announced, &manifest, terms)?) // 9
    } else {
        None
    };
    Ok(CheckedRound {
        deployment: roster.deployment().into(),
        round_id: round_id.into(),
        mechanism,
        geometry,
        mixing,
        public_keys: keys.iter().map(|key| from_hex(key.text_at("public_key")).unwrap_or_default()).collect(),
        entry: party_of(route[0]),
        certificate_digest,
        manifest_digest,
        closes_at: manifest.whole_at("closes_at"),
        log,
        certificate,
    })
}

fn parse_announcement(data: &str) -> Outcome<Value> {
    if data.len() > MAX_DOCUMENT_BYTES {
        return malformed("an announcement is too long");
    }
    let value = parse(data)?;
    let frames = |value: &Value| list(value, &frame);
    object(&value, &[("manifest", &frame), ("countersignatures", &frames)], &[("log", &text)])?;
    Ok(value)
}

fn same(what: &str, actual: &str, expected: &str) -> Outcome<()> {
    if actual == expected { Ok(()) } else { foreign(format!("a document is for another {what} than {expected}")) }
}

fn check_certificate(manifest: &Value, roster: &Roster, population: &str) -> Outcome<Value> {
    let signed = Frame::of(manifest.at("certificate"));
    let certificate = roster.only("accountant")?.verify(&signed, "certificate")?;
    same("deployment", certificate.text_at("deployment"), roster.deployment())?;
    same("round", certificate.text_at("round_id"), manifest.text_at("round_id"))?;
    same("population", certificate.text_at("population"), population)?;
    // A final certificate may state a smaller ε, for a crowd that has not come yet.
    same("stage", certificate.text_at("stage"), "plan")?;
    if *certificate.at("holds") != Value::Bool(true) {
        return malformed("the certificate says that its guarantee does not hold; do not take part");
    }
    if manifest.whole_at("min_reports") < certificate.whole_at("users") {
        return malformed("the round would go on with fewer reports than it is certified for");
    }
    Ok(certificate)
}

fn check_route<'a>(manifest: &Value, certificate: &Value, roster: &'a Roster) -> Outcome<Vec<&'a Value>> {
    let signers = manifest.at("route").list().iter().map(|key| key.text_at("signer"));
    let route: Vec<&Value> = signers.map(|name| roster.entry(name)).collect::<Outcome<_>>()?;
    if route.iter().any(|party| party.text_at("role") != "node") {
        return refuse(Code::RoundKey, "a party on the route is not a node; do not take part");
    }
    let names: Vec<&str> = route.iter().map(|party| party.text_at("name")).collect();
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        return refuse(Code::RoundKey, "a node occurs twice on the route; do not take part");
    }
    let certified: Vec<&str> = certificate.at("route").list().iter().filter_map(Value::text).collect();
    if names != certified || names.is_empty() {
        return refuse(Code::RoundKey, "the route is not the certified one; do not take part");
    }
    Ok(route)
}

fn check_round_keys(manifest: &Value, route: &[&Value], certified: &str) -> Outcome<Vec<Value>> {
    let frames = manifest.at("route").list().iter().map(Frame::of);
    let numbered = route.iter().zip(frames).enumerate();
    numbered.map(|(at, (party, frame))| check_round_key(manifest, party, &frame, at + 1, certified)).collect()
}

fn check_round_key(manifest: &Value, party: &Value, frame: &Frame, position: usize, certified: &str) -> Outcome<Value> {
    let bad = |what: &str| refuse(Code::RoundKey, format!("the round key of {} {what}", party.text_at("name")));
    let key = party_of(party).verify(frame, "round-key")?;
    same("deployment", key.text_at("deployment"), manifest.text_at("deployment"))?;
    let round_id = manifest.text_at("round_id");
    same("round", key.text_at("round_id"), round_id)?;
    let suite = key.text_at("suite");
    let fits = key.text_at("node") == party.text_at("name")
        && key.whole_at("position") == position as i128
        && suite == manifest.at("geometry").text_at("suite");
    if !fits {
        return bad("is for another node, position or suite");
    }
    if key.text_at("certificate_digest") != certified {
        return bad("was made for another certificate");
    }
    // A key of small order, or of another length, fails here and not in the middle of sealing.
    let Some(bytes) = from_hex(key.text_at("public_key")) else { return bad("is not lower-case hex") };
    let Ok(suite) = suite_named(suite) else { return bad("is of an unknown suite") };
    if bytes.len() != suite.public_key {
        return bad("has another length");
    }
    let tried = Ephemeral::fresh(suite, &bytes)
        .and_then(|ephemeral| seal(suite, &bytes, round_id, position as u64, &[], &ephemeral));
    if tried.is_err() {
        return bad("is one that nothing can be sealed to");
    }
    Ok(key)
}

fn check_countersignatures(announced: &Value, manifest: &Value, digest: &str, route: &[&Value]) -> Outcome<()> {
    let mut missing: Vec<&Value> = route.to_vec();
    // All nodes sign one manifest, so that no user can be given a round of its own.
    for frame in announced.at("countersignatures").list().iter().map(Frame::of) {
        let Some(at) = missing.iter().position(|party| party.text_at("name") == frame.signer) else {
            return foreign("a party countersigned twice or is not on the route");
        };
        let party = party_of(missing.remove(at));
        let signed = party.verify(&frame, "countersignature")?;
        same("round", signed.text_at("round_id"), manifest.text_at("round_id"))?;
        same("node", signed.text_at("node"), &party.name)?;
        same("manifest", signed.text_at("manifest_digest"), digest)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    refuse(Code::Signature, "not countersigned by every node: do not take part before it is")
}

fn check_geometry(manifest: &Value, mechanism: &Mechanism, hops: u64, mix: Mix) -> Outcome<Geometry> {
    let given = manifest.at("geometry");
    let expected = match Geometry::of(mechanism, given.text_at("suite"), hops, mix) {
        Ok(geometry) => geometry,
        Err(cause) => return malformed(format!("no client can take part in this round: {}", cause.message)),
    };
    let numbers = [
        ("hops", expected.hops),
        ("messages_per_user", expected.messages_per_user),
        ("symbol_bytes", expected.symbol_bytes),
        ("dummies_per_node", expected.dummies_per_node),
    ];
    let equal = numbers.iter().all(|(name, number)| given.whole_at(name) == i128::from(*number));
    if equal && Mix::of(given.get("mix")) == mix {
        return Ok(expected);
    }
    malformed("the manifest's lengths are not those of the certified mechanism")
}

/// Refuses numbers that the certificate's own mechanism refutes (step 7).
fn check_claims(certificate: &Value, mechanism: &Mechanism) -> Outcome<()> {
    let (users, honest) = (certificate.whole_at("users"), certificate.whole_at("honest"));
    if !(1..=users).contains(&honest) {
        return malformed("an impossible number of honest users");
    }
    let most = certificate.whole_at("max_distance");
    if !(1..i128::from(mechanism.domain())).contains(&most) {
        return malformed("the certificate covers impossible changes");
    }
    let lie = |what: String| {
        let advice = "do not take part, and keep the announcement, which is evidence";
        refuse(Code::FalseCertificate, format!("the certificate claims {what} with its mechanism: {advice}"))
    };
    let (honest, most) = (honest as u64, most as u64);
    let metric = certificate.text_at("adjacency") == "metric";
    let corrupted = certificate.at("corrupted");
    let at_delta = corrupted.at("delta").number().is_some_and(|delta| delta > 0.0);
    if let (Some(claimed), false) = (corrupted.at("epsilon").number(), at_delta) {
        let computed = local_epsilon(mechanism, if metric { 1 } else { most });
        if computed.is_finite() && claimed.is_nan() | (claimed < computed * (1.0 - SLACK)) {
            return lie(format!("ε_L {claimed}"));
        }
    }
    let Some(claimed) = certificate.at("epsilon").at("certified").number() else { return Ok(()) };
    let delta = certificate.at("delta").number().unwrap_or_default();
    // Under metric adjacency the worst distance may lie anywhere; a few are tried.
    let mut tried = if metric { vec![1, (most / 4).max(1), (most / 2).max(1), most] } else { vec![most] };
    tried.dedup();
    for distance in tried {
        let total = claimed * (1.0 + SLACK) * if metric { distance as f64 } else { 1.0 };
        let attained = attained_delta(mechanism, honest, distance, total)?.unwrap_or_default();
        if attained > delta * (1.0 + SLACK) {
            return lie(format!("ε {claimed} at δ {delta}"));
        }
    }
    Ok(())
}

fn check_log(announced: &Value, manifest: &Value, terms: &Terms) -> Outcome<Checkpoint> {
    let Some(proof) = announced.get("log").and_then(Value::text) else {
        return refuse(Code::LogProof, "the round comes without a proof that it is in the public log");
    };
    let document = Frame::of(manifest.at("certificate")).to_text();
    let entry = Entry {
        event: "reserved",
        population: terms.population,
        round_id: manifest.text_at("round_id"),
        documents: &[&document],
        digest: None,
    };
    check_logged(proof, terms.roster, &entry, terms.remembered)
}
