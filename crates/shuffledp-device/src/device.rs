//! A device's part in a round, from documents as they travel to the bytes that are sent.
//!
//! Callers bring the network, the disk and the clock. docs/how-to/any-language.md says in what
//! order they call.

use base64ct::{Base64, Encoding};
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::TAG_BYTES;
use crate::board::{Layout, MOST_TILES};
use crate::claims::{check_receipt, make_claim};
use crate::documents::{Frame, frame, quote};
use crate::errors::{Code, Outcome, malformed, refuse};
use crate::json::{Value, parse};
use crate::log::{Entry, check_result_logged, read_remembered};
use crate::mixing::{MixTerms, claim_messages};
use crate::policy::Policy;
use crate::randomness::{Integers, system_random};
use crate::results::{CheckedResult, Submitted, check_result};
use crate::rounds::{CheckedRound, Roster, Terms, verify_round};
use crate::schema::{Check, list, object, or_null, text, to_hex, whole};
use crate::sealing::{Ephemeral, seal, seal_envelope};
use crate::wording::symbol_names;

/// Longest request: an announcement, a roster and a proof, each escaped in JSON.
pub const MOST_REQUEST_BYTES: usize = 16 << 20;

/// Most symbols whose words are shown.
const MOST_SHOWN: u128 = 1000;

/// What a device is asked with: the fields of a request, all checked.
pub struct Request {
    value: Value,
    roster: Roster,
    policy: Policy,
}

impl Request {
    /// Parses a request and verifies its roster under the root key.
    pub fn parse(request: &str) -> Outcome<Self> {
        if request.len() > MOST_REQUEST_BYTES {
            return malformed("a request is too long");
        }
        let value = parse(request)?;
        let any: Check = &|_| Ok(());
        let optional: Check = &|value| or_null(value, &text);
        object(
            &value,
            &[
                ("roster", &text),
                ("root_key", &text),
                ("announcement", &text),
                ("policy", any),
                ("population", &text),
                ("now", &whole),
            ],
            &[("round_id", optional), ("remembered", optional), ("credential", optional)],
        )?;
        let roster = Roster::verify(value.text_at("roster"), value.text_at("root_key"))?;
        let policy = Policy::parse(value.at("policy"))?;
        Ok(Self { value, roster, policy })
    }

    /// Checks the round in every way that a device can.
    pub fn check(&self) -> Outcome<CheckedRound> {
        let proof = self.value.at("remembered").text();
        let remembered = proof.map(|text| read_remembered(text, &self.roster)).transpose()?.flatten();
        let terms = Terms {
            roster: &self.roster,
            policy: &self.policy,
            population: self.value.text_at("population"),
            now: self.value.whole_at("now"),
            round_id: self.value.at("round_id").text(),
            remembered: remembered.as_ref(),
        };
        verify_round(self.value.text_at("announcement"), &terms)
    }

    /// The credential that was enrolled for this key.
    fn credential(&self, key: &SigningKey) -> Outcome<Frame> {
        let Some(document) = self.value.at("credential").text() else {
            return refuse(Code::Usage, "the request has no credential");
        };
        let frame = Frame::parse(document)?;
        let population = self.value.text_at("population");
        let content = frame.verify("credential", population, &self.roster.enrolment_key(population)?)?;
        let public_key = to_hex(key.verifying_key().as_bytes());
        if content.text_at("public_key") != public_key || content.text_at("population") != population {
            return refuse(Code::Usage, "the credential is for another key or population");
        }
        Ok(frame)
    }
}

/// What people should be shown before they answer, JSON.
pub fn describe(checked: &CheckedRound) -> String {
    let certificate = &checked.certificate;
    let written = |value: &Value| value.number().map_or_else(|| "null".into(), |number| format!("{number:?}"));
    let wording = certificate.get("wording");
    let question = wording.map_or_else(|| "null".into(), |wording| quote(wording.text_at("text")));
    let names = wording.and_then(|wording| symbol_names(wording, MOST_SHOWN)).unwrap_or_default();
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let log = checked.log.as_ref().map_or_else(|| "null".into(), |log| quote(&log.text));
    let response_name = checked.mechanism.response_name().map_or_else(|| "null".into(), |name| quote(&name));
    format!(
        "{{\"round_id\":{},\"mechanism\":{},\"values\":{},\"messages\":{},\"question\":{question},\"symbols\":[{}],\
         \"epsilon\":{},\"delta\":{},\"epsilon_corrupted\":{},\"adjacency\":{},\"closes_at\":{},\"entry\":{},\
         \"certificate_digest\":{},\"response_name\":{response_name},\"log\":{log}}}",
        quote(&checked.round_id),
        quote(certificate.at("mechanism").text_at("mechanism")),
        checked.mechanism.domain(),
        checked.geometry.messages_per_user,
        quoted.join(","),
        written(certificate.at("epsilon").at("certified")),
        written(certificate.at("delta")),
        written(certificate.at("corrupted").at("epsilon")),
        quote(certificate.text_at("adjacency")),
        checked.closes_at,
        quote(&checked.entry.name),
        quote(&checked.certificate_digest),
    )
}

/// An answer: what is sent, and what its sender keeps.
pub struct Answer {
    /// Body of the submission, JSON; it is the same bytes whenever it is sent again.
    pub submission: String,
    /// A line of JSON about the submission, and behind it the messages; they are the user's secret.
    pub record: Zeroizing<Vec<u8>>,
    /// The response for all rounds of this question, if the mechanism keeps one; secret as well.
    pub response: Option<Zeroizing<u64>>,
}

/// Checks the round, then randomises, seals and signs a value.
///
/// Call it once for each round and user, and store `submission` and `record` before anything is sent:
/// a second answer to one round would spend the user's privacy twice.
///
/// `response` is the one that an earlier answer to this question gave, if any.
pub fn answer(request: &Request, key: &[u8; 32], value: u64, response: Option<u64>) -> Outcome<Answer> {
    let checked = request.check()?;
    let signing = SigningKey::from_bytes(key);
    let credential = request.credential(&signing)?;
    let mechanism = &checked.mechanism;
    let value = mechanism.check_value(&Value::Whole(i128::from(value)))?;
    let mut integers = Integers::new(system_random);
    let response = if mechanism.response_name().is_some() {
        match response {
            Some(drawn) if drawn >> mechanism.domain() > 0 => {
                return refuse(Code::Usage, "no response of this question");
            }
            Some(drawn) => Some(Zeroizing::new(drawn)),
            None => Some(Zeroizing::new(mechanism.draw_response(value, &mut integers))),
        }
    } else {
        None
    };
    let randomised = Zeroizing::new(match &response {
        Some(drawn) => mechanism.report(**drawn, &mut integers),
        None => mechanism.sample(value, &mut integers),
    });
    let symbols = symbols_of(&checked, *randomised, &mut integers);
    let (envelope, packed) = match &checked.mixing {
        None => seal_tagged(&checked, symbols)?,
        Some(terms) => claim_and_seal(&checked, terms, &symbols, &credential, &signing)?,
    };
    let claim = make_claim(&signing, &checked.round_id, &envelope);
    let submission = format!(
        "{{\"credential\":{},\"claim\":{},\"envelope\":\"{}\"}}",
        credential.to_text(),
        claim.to_text(),
        Base64::encode_string(&envelope),
    );
    let facts = Facts {
        population: request.value.text_at("population").into(),
        round_id: checked.round_id.clone(),
        entry: checked.entry.name.clone(),
        credential: claim.signer,
        envelope_digest: to_hex(&Sha256::digest(&envelope)),
        certificate_digest: checked.certificate_digest.clone(),
        manifest_digest: checked.manifest_digest.clone(),
        log: checked.log.as_ref().map(|log| log.text.clone()),
        message_bytes: checked.geometry.plain_bytes(),
        draw: integers.below(MOST_TILES.into()) as u64,
    };
    let head = facts.to_text();
    let mut record = Zeroizing::new(Vec::with_capacity(head.len() + 1 + packed.len()));
    record.extend_from_slice(head.as_bytes());
    record.push(b'\n');
    record.extend_from_slice(&packed);
    Ok(Answer { submission, record, response })
}

/// The symbols of an answer, as their bytes.
fn symbols_of(
    checked: &CheckedRound,
    answer: u64,
    integers: &mut Integers<impl FnMut(&mut [u8])>,
) -> Vec<Zeroizing<Vec<u8>>> {
    let symbols = checked.mechanism.encode(answer, integers);
    let width = checked.geometry.symbol_bytes as usize;
    symbols.iter().map(|symbol| Zeroizing::new(symbol.to_be_bytes()[8 - width..].to_vec())).collect()
}

/// In one piece of memory, so that no copy is left of a part that grew.
fn pack(messages: &[Zeroizing<Vec<u8>>]) -> Zeroizing<Vec<u8>> {
    let mut packed = Zeroizing::new(Vec::with_capacity(messages.iter().map(|message| message.len()).sum()));
    messages.iter().for_each(|message| packed.extend_from_slice(message));
    packed
}

/// The envelope of symbols with fresh tags, and the messages as they will be on the board.
fn seal_tagged(checked: &CheckedRound, symbols: Vec<Zeroizing<Vec<u8>>>) -> Outcome<(Vec<u8>, Zeroizing<Vec<u8>>)> {
    let message = |symbol: &Zeroizing<Vec<u8>>| {
        let mut message = Zeroizing::new(vec![0; symbol.len() + TAG_BYTES]);
        message[..symbol.len()].copy_from_slice(symbol);
        system_random(&mut message[symbol.len()..]);
        message
    };
    let messages: Vec<Zeroizing<Vec<u8>>> = symbols.iter().map(message).collect();
    let packed = pack(&messages);
    let mut layers = layer_keys(checked);
    let next = || layers.next().unwrap_or_else(|| refuse(Code::Usage, "more layers than hops"));
    let envelope = seal_envelope(&checked.geometry, &checked.round_id, &checked.public_keys, messages, next)?;
    Ok((envelope, packed))
}

/// In a verified round: the claim and behind it what only the entry node opens, and the messages as
/// they will be on the board.
fn claim_and_seal(
    checked: &CheckedRound,
    terms: &MixTerms,
    symbols: &[Zeroizing<Vec<u8>>],
    credential: &Frame,
    key: &SigningKey,
) -> Outcome<(Vec<u8>, Zeroizing<Vec<u8>>)> {
    let prepared = claim_messages(terms, symbols, credential, key, system_random)?;
    let (suite, entry) = (checked.geometry.suite, &checked.public_keys[0]);
    let ephemeral = Ephemeral::fresh(suite, entry)?;
    let envelope = seal(suite, entry, &checked.round_id, 1, &prepared.submission, &ephemeral)?;
    Ok(([prepared.claim, envelope].concat(), pack(&prepared.messages)))
}

/// Fresh secrets for every layer, in the order in which `seal_envelope` uses them.
fn layer_keys(checked: &CheckedRound) -> impl Iterator<Item = Outcome<Ephemeral>> + '_ {
    let (suite, keys) = (checked.geometry.suite, &checked.public_keys);
    let messages = checked.geometry.messages_per_user as usize;
    let inner = keys[1..].iter().rev().flat_map(move |key| std::iter::repeat_n(key, messages));
    inner.chain(&keys[..1]).map(move |key| Ephemeral::fresh(suite, key))
}

/// The public facts of a submission that its sender keeps.
struct Facts {
    population: String,
    round_id: String,
    entry: String,
    credential: String,
    envelope_digest: String,
    /// The public log as it was shown with the round.
    log: Option<String>,
    /// Of the certificate and the manifest that were shown to this device.
    certificate_digest: String,
    manifest_digest: String,
    message_bytes: u64,
    /// A uniform number below `MOST_TILES`, which names the tile to fetch after the round.
    draw: u64,
}

impl Facts {
    fn to_text(&self) -> String {
        format!(
            "{{\"population\":{},\"round_id\":{},\"entry\":{},\"credential\":{},\"envelope_digest\":{},\
             \"certificate_digest\":{},\"manifest_digest\":{},\"log\":{},\"message_bytes\":{},\"draw\":{}}}",
            quote(&self.population),
            quote(&self.round_id),
            quote(&self.entry),
            quote(&self.credential),
            quote(&self.envelope_digest),
            quote(&self.certificate_digest),
            quote(&self.manifest_digest),
            self.log.as_deref().map_or_else(|| "null".into(), quote),
            self.message_bytes,
            self.draw,
        )
    }

    /// The facts in front of the messages, and the messages.
    fn split(record: &[u8]) -> Outcome<(Value, &[u8])> {
        let end = record.iter().position(|byte| *byte == b'\n');
        let parts = end.and_then(|end| Some((std::str::from_utf8(&record[..end]).ok()?, &record[end + 1..])));
        let Some((head, messages)) = parts else { return malformed("not what a sender keeps") };
        let value = parse(head)?;
        object(
            &value,
            &[
                ("population", &text),
                ("round_id", &text),
                ("entry", &text),
                ("credential", &text),
                ("envelope_digest", &text),
                ("certificate_digest", &text),
                ("manifest_digest", &text),
                ("log", &|value| or_null(value, &text)),
                ("message_bytes", &whole),
                ("draw", &whole),
            ],
            &[],
        )?;
        Ok((value, messages))
    }
}

/// Checks the entry node's receipt for what was sent, under a roster and its root key.
pub fn check_answer_receipt(roster: &str, root_key: &str, record: &[u8], receipt: &str) -> Outcome<()> {
    let roster = Roster::verify(roster, root_key)?;
    let (facts, _) = Facts::split(record)?;
    let entry = roster.party(facts.text_at("entry"))?;
    let receipt = Frame::parse(receipt)?;
    let digest = facts.text_at("envelope_digest");
    check_receipt(&receipt, &entry, facts.text_at("round_id"), facts.text_at("credential"), digest)
}

/// What a sender kept, with the verified result of its round.
struct Settled<'a> {
    facts: Value,
    messages: Vec<&'a [u8]>,
    layout: Layout,
    checked: CheckedResult,
}

impl<'a> Settled<'a> {
    /// Checks a result as the gateway gave it: the signed result, and the proof that it is in the public log.
    fn check(roster: &str, root_key: &str, record: &'a [u8], result: &str) -> Outcome<Self> {
        let roster = Roster::verify(roster, root_key)?;
        let (facts, messages) = Facts::split(record)?;
        let size = usize::try_from(facts.whole_at("message_bytes")).ok();
        let Some(layout) = size.and_then(Layout::of_length) else { return malformed("messages of another length") };
        let body = parse(result)?;
        let discards: Check = &|value| list(value, &frame);
        object(&body, &[("result", &frame)], &[("discards", discards), ("log", &text)])?;
        let signed = Frame::of(body.at("result"));
        let round_id = facts.text_at("round_id");
        let submitted = Submitted { round_id, certificate_digest: facts.text_at("certificate_digest"), layout };
        let checked = check_result(&submitted, &roster, &signed)?;
        if roster.log().is_some() {
            let Some(proof) = body.at("log").text() else {
                let reason = "the result comes without a proof that it is in the public log; ask again";
                return refuse(Code::LogProof, reason);
            };
            let (population, digest) = (facts.text_at("population"), signed.digest());
            let entry = Entry { event: "published", population, round_id, documents: &[], digest: Some(&digest) };
            let remembered = facts.at("log").text().map(|text| read_remembered(text, &roster)).transpose()?.flatten();
            check_result_logged(proof, &roster, &entry, remembered.as_ref())?;
        }
        match checked.result.at("manifest_digest").text() {
            Some(named) if named != facts.text_at("manifest_digest") => {
                let reason = "the result is of another manifest than the one shown here; keep both";
                return refuse(Code::FalseResult, reason);
            }
            None if roster.log().is_some() => return malformed("the result does not name its manifest"),
            _ => {}
        }
        let messages = messages.chunks_exact(layout.width).collect();
        Ok(Self { facts, messages, layout, checked })
    }

    /// The tile that this record's draw names.
    fn drawn_tile(&self) -> Outcome<u64> {
        let draw = self.facts.whole_at("draw") as u64;
        Ok(draw % (1 << self.layout.tile_bits(self.checked.tiles()?.messages)))
    }
}

/// How many of the sender's messages are on the board of a result, once and unchanged.
///
/// `result` is the gateway's answer: the signed result, and the proof that it is in the public log.
///
/// If all are there it also checks that answer and tiles are what the board gives.
pub fn find_messages(roster: &str, root_key: &str, record: &[u8], result: &str, board: &[u8]) -> Outcome<u64> {
    let settled = Settled::check(roster, root_key, record, result)?;
    let intact = settled.checked.count_on_board(board, &settled.messages)?;
    if intact == settled.messages.len() {
        settled.checked.check_answer(board)?;
    }
    Ok(intact as u64)
}

/// The tile to fetch instead of the board; it was drawn at random with the answer, so that the request
/// reveals nothing (docs/tiles.md, "sample").
pub fn sample_tile(roster: &str, root_key: &str, record: &[u8], result: &str) -> Outcome<u64> {
    Settled::check(roster, root_key, record, result)?.drawn_tile()
}

/// How many of the sender's messages belong into the tile of `sample_tile`; checks the tile, and that
/// they are there.
pub fn find_in_tile(roster: &str, root_key: &str, record: &[u8], result: &str, tile: &[u8]) -> Outcome<u64> {
    let settled = Settled::check(roster, root_key, record, result)?;
    let index = settled.drawn_tile()?;
    let count = settled.layout.check_tile(&settled.checked.tiles()?, index, tile, &settled.messages)?;
    Ok(count as u64)
}
