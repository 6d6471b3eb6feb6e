//! The checks of a result and its board: docs/protocol.md, "Close" and "Board".

use sha2::{Digest, Sha256};

use crate::answers::{Counting, Estimate, Reports, estimate};
use crate::board::{Layout, StatedTiles};
use crate::documents::Frame;
use crate::errors::{Code, Outcome, foreign, malformed, refuse};
use crate::geometry::Mix;
use crate::json::Value;
use crate::mechanisms::Mechanism;
use crate::rounds::{Party, Roster};
use crate::schema::{from_hex, to_hex};

/// Longest batch header as it travels.
const MOST_HEADER_BYTES: usize = 4096;

/// Largest relative difference of two machines' floating point.
const ROUNDING: f64 = 1e-9;

/// What a submission's result is checked against.
pub struct Submitted<'a> {
    pub round_id: &'a str,
    /// Of the plan's certificate.
    pub certificate_digest: &'a str,
    pub layout: Layout,
}

/// A verified result of a round that completed.
pub struct CheckedResult {
    pub result: Value,
    /// The certificate of what was mixed.
    pub certificate: Value,
    mechanism: Mechanism,
    layout: Layout,
}

fn evidence<T>(what: impl Into<String>) -> Outcome<T> {
    refuse(Code::FalseResult, format!("{}; keep the result: it is evidence", what.into()))
}

/// Whether two values are the same, whatever the order of their fields.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let paired = |(name, value): &(String, Value)| other.get(name).is_some_and(|found| same(value, found));
            fields.len() == others.len() && fields.iter().all(paired)
        }
        (Value::List(some), Value::List(others)) => {
            some.len() == others.len() && some.iter().zip(others).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

/// Verifies the signed result of a submission's round, in the steps of docs/protocol.md, "Close".
pub fn check_result(submitted: &Submitted, roster: &Roster, signed: &Frame) -> Outcome<CheckedResult> {
    let result = roster.only("analyst")?.verify(signed, "result")?; // 1
    let round_id = submitted.round_id;
    let is_of_round =
        |value: &Value| value.text_at("deployment") == roster.deployment() && value.text_at("round_id") == round_id;
    if !is_of_round(&result) {
        return foreign("the result is of another round");
    }
    check_completed(&result)?; // 2
    let certificate_of = |name| match result.at(name) {
        Value::Null => malformed("the result lacks a certificate"),
        value => Ok(Frame::of(value)),
    };
    let (planned, settled) = (certificate_of("plan_certificate")?, certificate_of("final_certificate")?);
    if planned.digest() != submitted.certificate_digest {
        return foreign("the result's plan certificate is not the one that you submitted under"); // 3
    }
    let accountant = roster.only("accountant")?;
    let plan = accountant.verify(&planned, "certificate")?;
    let certificate = accountant.verify(&settled, "certificate")?; // 4
    let losses = [
        ("users", result.whole_at("accepted")),
        ("dropped", result.whole_at("dropped")),
        ("invalid", result.whole_at("outside_alphabet") + result.whole_at("repeated_tags")),
    ];
    let fits = losses.iter().all(|(name, number)| certificate.whole_at(name) == *number);
    if !is_of_round(&certificate) || certificate.text_at("stage") != "final" || !fits {
        return foreign("the final certificate is for another round, crowd or loss than the result");
    }
    let mechanism = Mechanism::parse(plan.at("mechanism"))?;
    let is_same = Mechanism::parse(certificate.at("mechanism"))? == mechanism;
    if !is_same || !same(certificate.at("wording"), plan.at("wording")) {
        return foreign("the final certificate is for another question than the plan");
    }
    let nodes = plan.at("route").list().len() as i128;
    let sent = result.whole_at("accepted") * i128::from(mechanism.messages()) + nodes * i128::from(mechanism.dummies());
    if result.whole_at("messages") != sent - result.whole_at("dropped") {
        return malformed("the result counts another number of messages; keep the receipt: it is evidence"); // 5
    }
    let names = plan.at("route").list().iter().filter_map(Value::text);
    let route = names.map(|name| roster.party(name)).collect::<Outcome<Vec<Party>>>()?;
    check_headers(&result, Mix::of(plan.get("mix")), &mechanism, &route)?; // 6
    Ok(CheckedResult { result, certificate, mechanism, layout: submitted.layout })
}

/// Refuses a failed round by the kind of failure that the analyst names, if there is one.
fn check_completed(result: &Value) -> Outcome<()> {
    if result.at("error") == &Value::Null && result.at("board_digest").text().is_some() {
        return Ok(());
    }
    let code = match result.text_at("error") {
        "CountMismatchError" => Code::CountMismatch,
        "LostMessagesError" => Code::LostMessages,
        "TooFewReportsError" => Code::TooFewReports,
        "UnansweredError" => Code::Unanswered,
        _ => Code::RoundFailed,
    };
    let reason = result.at("reason").text().unwrap_or(result.text_at("outcome"));
    let shown: String = reason.chars().take(2000).collect();
    refuse(code, format!("the round ended without a result: {shown}"))
}

fn check_headers(result: &Value, mix: Mix, mechanism: &Mechanism, route: &[Party]) -> Outcome<()> {
    let headers: Vec<Frame> = result.at("headers").list().iter().map(Frame::of).collect();
    if headers.len() != route.len() {
        return malformed("the result lacks a node's batch header");
    }
    if let Some(absent) = route.iter().find(|party| headers.iter().all(|header| header.signer != party.name)) {
        return evidence(format!("no header of {}", absent.name));
    }
    if headers.iter().zip(route).any(|(header, party)| header.signer != party.name) {
        return foreign("batch headers in another order than the route");
    }
    let accepted = result.whole_at("accepted");
    // In a verified round nodes leave out users whose messages do not open, and drop nothing else.
    let (mut dropped, mut users) = (0, if mix == Mix::Verified { i128::MAX } else { accepted });
    let mut delivered = String::new();
    for (at, (party, frame)) in route.iter().zip(&headers).enumerate() {
        let header = party.verify(frame, "batch")?;
        let digest = header.text_at("digest");
        if frame.to_text().len() > MOST_HEADER_BYTES || from_hex(digest).is_none_or(|digest| digest.len() != 32) {
            return malformed("a batch header is too long, or holds no SHA-256");
        }
        let is_of_place =
            header.text_at("round_id") == result.text_at("round_id") && header.whole_at("position") == at as i128 + 2;
        if !is_of_place {
            return foreign(format!("the batch header of {} is for another round or position", party.name));
        }
        let nodes = if mix == Mix::Verified { route.len() } else { at + 1 };
        let (relayed, lost) = (header.whole_at("users"), header.whole_at("dropped"));
        let sent = relayed * i128::from(mechanism.messages()) + nodes as i128 * i128::from(mechanism.dummies());
        if header.whole_at("records") != sent - lost {
            return evidence(format!("{} relayed another number of records", party.name));
        }
        if !(accepted..=users).contains(&relayed) {
            return evidence(format!("{} relayed another number of reports", party.name));
        }
        if mix == Mix::Verified && lost != 0 {
            return evidence(format!("{} dropped messages of a verified round", party.name));
        }
        if lost < dropped {
            return evidence(format!("{} signed for fewer dropped messages than its predecessor", party.name));
        }
        (dropped, users) = (lost, relayed);
        delivered = digest.into();
    }
    if dropped != result.whole_at("dropped") {
        return evidence("the nodes signed for another number of dropped messages");
    }
    if mix == Mix::Plain && delivered != result.text_at("board_digest") {
        return evidence("analyst and last node signed for different boards");
    }
    Ok(())
}

impl CheckedResult {
    /// What the result states about tiles.
    pub fn tiles(&self) -> Outcome<StatedTiles> {
        let Ok(messages) = u64::try_from(self.result.whole_at("messages")) else {
            return malformed("the result has an impossible number of messages");
        };
        let root = self.result.at("tiles_root").text().and_then(from_hex).and_then(|root| root.try_into().ok());
        Ok(StatedTiles { messages, root })
    }

    /// How many of these messages are on the board once and unchanged; checks that the board is the
    /// result's.
    pub fn count_on_board(&self, board: &[u8], mine: &[&[u8]]) -> Outcome<usize> {
        if self.tiles()?.messages.checked_mul(self.layout.width as u64) != Some(board.len() as u64) {
            return refuse(Code::BadBatch, "the board has another length than the result states");
        }
        if self.result.text_at("board_digest") != to_hex(&Sha256::digest(board)) {
            return refuse(Code::BadBatch, "the board is not the one that the analyst signed; fetch it again");
        }
        let rows: Vec<&[u8]> = board.chunks_exact(self.layout.width).collect();
        Ok(self.layout.count_intact(&rows, mine))
    }

    /// Checks that the answer and the tiles of the result are what its board gives.
    pub fn check_answer(&self, board: &[u8]) -> Outcome<()> {
        let published = self.result.at("estimate");
        if *published == Value::Null {
            return evidence("the result gives no answer");
        }
        let stated = |name| u64::try_from(self.result.whole_at(name)).unwrap_or(u64::MAX);
        let counted = self.layout.count(board, self.mechanism.alphabet());
        if (counted.outside, counted.repeated) != (stated("outside_alphabet"), stated("repeated_tags")) {
            return evidence("the result leaves out other messages than the board has");
        }
        let lost = stated("dropped").saturating_add(counted.outside + counted.repeated);
        if lost > 0 && self.mechanism.needs_all() {
            return refuse(Code::LostMessages, "the mechanism needs every message, and some are lost");
        }
        let messages = self.mechanism.messages();
        let remaining = stated("accepted").checked_mul(messages).and_then(|sent| sent.checked_sub(lost)).unwrap_or(0);
        let nodes = self.certificate.at("route").list().len() as u64;
        let expected = remaining.saturating_add(nodes * self.mechanism.dummies());
        if remaining == 0 || counted.symbols.len() as u64 != expected {
            return refuse(Code::CountMismatch, "the board has another number of messages than were accepted");
        }
        // Before anything is computed: a mechanism may name more symbols than any result has.
        if published.at("values").list().len() as u64 != self.mechanism.answers() {
            return evidence("the published answer has another number of values");
        }
        let reports = Reports { remaining, messages };
        let counting = Counting { symbols: &counted.symbols, reports, nodes, lost };
        check_estimate(published, &estimate(&self.mechanism, &counting)?)?;
        if self.tiles()?.root.is_some_and(|root| root != self.layout.tiles_root(board)) {
            return evidence("the signed tiles are not those of the board");
        }
        Ok(())
    }
}

fn check_estimate(published: &Value, computed: &Estimate) -> Outcome<()> {
    if published.text_at("quantity") != computed.quantity {
        return evidence("the published quantity is not what the round asked for");
    }
    let (mean, error) = computed.mean.unzip();
    let one = |number: Option<f64>| number.into_iter().collect::<Vec<f64>>();
    let compared = [
        ("values", 0.0, &computed.values),
        ("standard_errors", 0.0, &computed.standard_errors),
        ("mean", 0.0, &one(mean)),
        ("mean_standard_error", 0.0, &one(error)),
        // Rounding at a tail's limit may move an end by a whole number.
        ("lows", 1.0, &computed.lows),
        ("highs", 1.0, &computed.highs),
    ];
    for (name, slack, expected) in compared {
        let stated: Vec<f64> = match published.at(name) {
            Value::List(numbers) => numbers.iter().filter_map(Value::number).collect(),
            value => one(value.number()),
        };
        // False for what is not a number.
        let is_close = |(one, other): (&f64, &f64)| (one - other).abs() <= slack + ROUNDING * other.abs().max(1.0);
        if stated.len() != expected.len() || !stated.iter().zip(expected).all(is_close) {
            return evidence(format!("the published {name} are not what the board gives"));
        }
    }
    Ok(())
}

/// Checks that every message of a submission is on the board once and unchanged, and that the board
/// gives the answer and the tiles of the result.
pub fn check_board(checked: &CheckedResult, board: &[u8], mine: &[&[u8]]) -> Outcome<()> {
    let missing = mine.len() - checked.count_on_board(board, mine)?;
    if missing > 0 {
        let what = format!("{missing} of {} messages are not on the board unchanged", mine.len());
        return refuse(Code::ReceiptMissing, format!("{what}; keep the receipt: it is evidence"));
    }
    checked.check_answer(board)
}
