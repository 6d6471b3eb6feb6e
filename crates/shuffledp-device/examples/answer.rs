//! Answers test vectors, one case on each line: docs/reference/vectors.md.
//!
//!     python tests/vectors/vector_runner.py target/release/examples/answer

use std::io::{BufRead, Write, stdin, stdout};

use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use shuffledp_device::board::{Layout, StatedTiles};
use shuffledp_device::bounds::{attained_delta, local_epsilon};
use shuffledp_device::claims::{check_receipt, make_claim};
use shuffledp_device::documents::{Frame, quote};
use shuffledp_device::errors::{Code, Outcome, refuse};
use shuffledp_device::geometry::{Geometry, Mix, suite_named};
use shuffledp_device::group::{Element, decode_scalar};
use shuffledp_device::json::{Value, parse};
use shuffledp_device::log::read_remembered;
use shuffledp_device::mechanisms::Mechanism;
use shuffledp_device::mixing::{MixTerms, claim_messages};
use shuffledp_device::policy::Policy;
use shuffledp_device::randomness::Integers;
use shuffledp_device::results::{Submitted, check_board, check_result};
use shuffledp_device::rounds::{Party, Roster, Terms, verify_round};
use shuffledp_device::schema::{from_hex, to_hex};
use shuffledp_device::sealing::{Ephemeral, seal, seal_envelope};
use shuffledp_device::signatures::check_signature;
use shuffledp_device::wording::{check_wording, symbol_names};

fn main() {
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let case = parse(&line.expect("lines are UTF-8")).expect("cases are JSON");
        writeln!(out, "{}", answer_text(&case)).expect("the answer is read");
    }
}

/// The answer to one case, JSON.
pub fn answer_text(case: &Value) -> String {
    match answer(case) {
        Ok(fields) => format!("{{\"ok\": {{{fields}}}}}"),
        Err(refusal) if refusal.code == Code::Unsupported => {
            format!("{{\"unsupported\": {}}}", quote(&refusal.message))
        }
        Err(refusal) => format!("{{\"error\": \"{}\"}}", refusal.code.name()),
    }
}

fn answer(case: &Value) -> Outcome<String> {
    let input = case.get("input").expect("a case has an input");
    let text = |name: &str| input.get(name).and_then(Value::text).expect("a field of the case");
    let bytes = |name: &str| from_hex(text(name)).expect("bytes are hex");
    let number = |name: &str| input.get(name).and_then(Value::whole).expect("a number of the case") as u64;
    let mechanism = || Mechanism::parse(input.get("mechanism").expect("a case has a mechanism"));
    match case.get("kind").and_then(Value::text).expect("a case has a kind") {
        "signature" => check_signature(&bytes("key"), &bytes("signature"), &bytes("message")).map(|()| String::new()),
        "document" => {
            let frame = Frame::parse(text("document"))?;
            frame.verify(text("label"), text("signer"), text("key"))?;
            Ok(format!("\"digest\": \"{}\"", frame.digest()))
        }
        "integers" => {
            let mut integers = coins(&bytes("coins"));
            let Some(Value::List(bounds)) = input.get("bounds") else { panic!("a case has bounds") };
            let draws = bounds.iter().map(|bound| {
                let bound = bound.text().and_then(|bound| bound.parse().ok()).expect("bounds are numbers");
                format!("\"{}\"", integers.below(bound))
            });
            Ok(format!("\"draws\": [{}]", join(draws)))
        }
        "sample" => {
            let mechanism = mechanism()?;
            let value = mechanism.check_value(input.get("value").expect("a case has a value"))?;
            let mut integers = coins(&bytes("coins"));
            let answer = mechanism.sample(value, &mut integers);
            let symbols = join(mechanism.encode(answer, &mut integers).iter().map(u64::to_string));
            Ok(format!("\"answer\": {answer}, \"symbols\": [{symbols}], \"next\": {}", integers.below(1 << 32)))
        }
        "geometry" => {
            let mechanism = mechanism()?;
            let geometry = Geometry::of(&mechanism, text("suite"), number("hops"), Mix::of(input.get("mix")))?;
            let records = join((2..=geometry.hops + 1).map(|position| geometry.record_bytes(position).to_string()));
            Ok(format!(
                "\"geometry\": {}, \"domain\": {}, \"alphabet\": {}, \"plain_bytes\": {}, \"record_bytes\": [{records}], \
                 \"envelope_bytes\": {}",
                written(&geometry),
                mechanism.domain(),
                mechanism.alphabet(),
                geometry.plain_bytes(),
                geometry.envelope_bytes(),
            ))
        }
        "numbers" => {
            let (mechanism, distance) = (mechanism()?, number("distance"));
            let epsilon = real(input.get("epsilon"));
            let attained = attained_delta(&mechanism, number("honest"), distance, epsilon)?;
            let written = |number: f64| if number.is_finite() { format!("{number:e}") } else { "null".into() };
            Ok(format!(
                "\"local_epsilon\": {}, \"attained_delta\": {}",
                written(local_epsilon(&mechanism, distance)),
                attained.map_or_else(|| "null".into(), written),
            ))
        }
        "round" => round(input),
        "wording" if input.get("records").is_none() => {
            let wording = parse(text("wording"))?;
            check_wording(&wording)?;
            let names = symbol_names(&wording, 2000).unwrap_or_default();
            Ok(format!("\"names\": [{}]", join(names.iter().map(|name| quote(name)))))
        }
        "seal" => {
            let suite = suite_named(text("suite"))?;
            let ephemeral = ephemeral(&bytes("ephemeral"), input.get("encapsulation"));
            let plaintext = bytes("plaintext");
            let sealed =
                seal(suite, &bytes("public_key"), text("round_id"), number("position"), &plaintext, &ephemeral)?;
            Ok(format!("\"sealed\": \"{}\"", to_hex(&sealed)))
        }
        "claim" => {
            let key: [u8; 32] = bytes("private_key").try_into().expect("32 bytes");
            let claim = make_claim(&SigningKey::from_bytes(&key), text("round_id"), &bytes("envelope"));
            Ok(format!("\"claim\": {}", quote(&claim.to_text())))
        }
        "receipt" => {
            let receipt = Frame::parse(text("receipt"))?;
            let entry = Party { name: text("entry").into(), identity_key: text("key").into() };
            let digest = to_hex(&Sha256::digest(bytes("envelope")));
            check_receipt(&receipt, &entry, text("round_id"), text("credential"), &digest)?;
            Ok(String::new())
        }
        "envelope" => envelope(input),
        "tile" => tile(input),
        "result" => result(input),
        "element" => {
            let element = Element::decode(&bytes("element"))?;
            let multiple = |scalar: &Vec<u8>| Ok(to_hex(&element.multiply(&decode_scalar(scalar)?)?));
            let multiples = all_bytes(input.get("scalars")).iter().map(multiple).collect::<Outcome<Vec<_>>>()?;
            Ok(format!("\"multiples\": [{}]", join(multiples.iter().map(|encoded| quote(encoded)))))
        }
        "verified-claim" => verified_claim(input),
        kind => refuse(Code::Unsupported, format!("cases of kind {kind}")),
    }
}

fn round(input: &Value) -> Outcome<String> {
    let roster = Roster::verify(input.text_at("roster"), input.text_at("root_key"))?;
    let policy = Policy::parse(input.at("policy"))?;
    let kept = input.at("remembered").text().map(|text| read_remembered(text, &roster)).transpose()?.flatten();
    let terms = Terms {
        roster: &roster,
        policy: &policy,
        population: input.text_at("population"),
        now: input.whole_at("now"),
        round_id: input.at("round_id").text(),
        remembered: kept.as_ref(),
    };
    let checked = verify_round(input.text_at("announcement"), &terms)?;
    let log = checked.log.map_or_else(String::new, |log| {
        let witnesses = join(log.witnesses.iter().map(|name| quote(name)));
        format!("\"log\": {{\"size\": {}, \"witnesses\": [{witnesses}]}}, ", log.size)
    });
    Ok(format!(
        "{log}\"round_id\": {}, \"mechanism\": {}, \"entry\": {}, \"certificate_digest\": {}, \"geometry\": {}",
        quote(&checked.round_id),
        quote(checked.certificate.at("mechanism").text_at("mechanism")),
        quote(&checked.entry.name),
        quote(&checked.certificate_digest),
        written(&checked.geometry),
    ))
}

fn result(input: &Value) -> Outcome<String> {
    let roster = Roster::verify(input.text_at("roster"), input.text_at("root_key"))?;
    let (kept, board) = (input.at("submission"), from_hex(input.text_at("board")).expect("bytes are hex"));
    let messages = all_bytes(kept.get("messages"));
    let submitted = Submitted {
        round_id: kept.text_at("round_id"),
        certificate_digest: kept.text_at("certificate_digest"),
        layout: geometry_of(kept.at("geometry")).layout(),
    };
    let mine: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let signed = Frame::parse(input.text_at("result"))?;
    let checked = check_result(&submitted, &roster, &signed)?;
    check_board(&checked, &board, &mine)?;
    let epsilon = checked.certificate.at("epsilon").at("certified").number();
    let epsilon = epsilon.map_or_else(|| "null".into(), |epsilon| format!("{epsilon:e}"));
    Ok(format!("\"accepted\": {}, \"epsilon\": {epsilon}", checked.result.whole_at("accepted")))
}

fn tile(input: &Value) -> Outcome<String> {
    let mine = all_bytes(input.get("messages"));
    let mine: Vec<&[u8]> = mine.iter().map(Vec::as_slice).collect();
    let stated = StatedTiles {
        messages: input.whole_at("count") as u64,
        root: input.at("tiles_root").text().and_then(from_hex).map(|root| root.try_into().expect("32 bytes")),
    };
    let tile = from_hex(input.text_at("tile")).expect("bytes are hex");
    let layout = Layout::plain(input.at("geometry").whole_at("symbol_bytes") as usize);
    let count = layout.check_tile(&stated, input.whole_at("index") as u64, &tile, &mine)?;
    Ok(format!("\"found\": {count}"))
}

fn verified_claim(input: &Value) -> Outcome<String> {
    let bytes = |name: &str| from_hex(input.text_at(name)).expect("bytes are hex");
    let elements = |name: &str| -> Outcome<Vec<Element>> {
        all_bytes(input.get(name)).iter().map(|encoded| Element::decode(encoded)).collect()
    };
    let terms = MixTerms {
        manifest: bytes("manifest_digest").try_into().expect("32 bytes"),
        last: elements("blinding")?.pop().expect("a route has nodes"),
        openers: elements("opening")?,
    };
    let width = input.whole_at("symbol_bytes") as usize;
    let packed = |symbol: &Value| {
        let symbol = symbol.whole().expect("symbols are numbers") as u64;
        symbol.to_be_bytes()[8 - width..].to_vec().into()
    };
    let symbols: Vec<_> = input.at("symbols").list().iter().map(packed).collect();
    let credential = Frame::parse(input.text_at("credential"))?;
    let key = SigningKey::from_bytes(&bytes("private_key").try_into().expect("32 bytes"));
    let mut stream = bytes("random").into_iter();
    let random = |block: &mut [u8]| block.fill_with(|| stream.next().expect("enough random bytes"));
    let prepared = claim_messages(&terms, &symbols, &credential, &key, random)?;
    let messages = join(prepared.messages.iter().map(|message| quote(&to_hex(message))));
    Ok(format!(
        "\"claim\": \"{}\", \"submission\": \"{}\", \"messages\": [{messages}]",
        to_hex(&prepared.claim),
        to_hex(&prepared.submission),
    ))
}

/// A device starts from the messages, so the runner's cases name them in a field of their own.
fn envelope(input: &Value) -> Outcome<String> {
    let Some(Value::List(messages)) = input.get("messages") else {
        return refuse(Code::Unsupported, "devices open no envelopes");
    };
    let geometry = geometry_of(input.at("geometry"));
    let keys = all_bytes(input.get("public_keys"));
    let mut ephemerals = all_bytes(input.get("ephemerals")).into_iter();
    let round_id = input.get("round_id").and_then(Value::text).expect("a case has a round");
    let plain = all_bytes(Some(&Value::List(messages.clone()))).into_iter().map(Into::into).collect();
    let next = || Ok(ephemeral(&ephemerals.next().expect("enough ephemeral keys"), None));
    let sealed = seal_envelope(&geometry, round_id, &keys, plain, next)?;
    Ok(format!("\"envelope\": \"{}\"", to_hex(&sealed)))
}

/// A geometry as cases have it.
fn geometry_of(shape: &Value) -> Geometry {
    let part = |name: &str| shape.whole_at(name) as u64;
    Geometry {
        suite: suite_named(shape.text_at("suite")).expect("a geometry has a suite"),
        hops: part("hops"),
        messages_per_user: part("messages_per_user"),
        symbol_bytes: part("symbol_bytes"),
        dummies_per_node: part("dummies_per_node"),
        mix: Mix::of(shape.get("mix")),
    }
}

fn written(geometry: &Geometry) -> String {
    let dummies = match geometry.dummies_per_node {
        0 => String::new(),
        number => format!(", \"dummies_per_node\": {number}"),
    };
    let mix = match geometry.mix {
        Mix::Plain => "",
        Mix::Verified => ", \"mix\": \"verified\"",
    };
    format!(
        "{{\"suite\": \"{}\", \"hops\": {}, \"messages_per_user\": {}, \"symbol_bytes\": {}{mix}{dummies}}}",
        geometry.suite.name, geometry.hops, geometry.messages_per_user, geometry.symbol_bytes,
    )
}

/// The bytes of each entry of a list; none of anything else.
fn all_bytes(value: Option<&Value>) -> Vec<Vec<u8>> {
    let Some(Value::List(entries)) = value else { return Vec::new() };
    entries.iter().map(|entry| entry.text().and_then(from_hex).expect("bytes are hex")).collect()
}

fn real(value: Option<&Value>) -> f64 {
    value.and_then(Value::number).expect("a number of the case")
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn ephemeral(key: &[u8], encapsulation: Option<&Value>) -> Ephemeral {
    let thirty_two = |bytes: &[u8]| -> [u8; 32] { bytes.try_into().expect("32 bytes") };
    let part = |given: &Value, name: &str| given.get(name).and_then(Value::text).and_then(from_hex).expect("hex");
    Ephemeral {
        key: thirty_two(key).into(),
        encapsulation: encapsulation
            .map(|given| (part(given, "ciphertext"), thirty_two(&part(given, "secret")).into())),
    }
}

/// The stream of coins: SHA-256(seed || counter), in a row.
fn coins(seed: &[u8]) -> Integers<impl FnMut(&mut [u8]) + use<>> {
    let seed = seed.to_vec();
    let (mut counter, mut waiting): (u64, Vec<u8>) = (0, Vec::new());
    Integers::new(move |block: &mut [u8]| {
        while waiting.len() < block.len() {
            waiting.extend(Sha256::digest([&seed[..], &counter.to_be_bytes()].concat()));
            counter += 1;
        }
        let rest = waiting.split_off(block.len());
        block.copy_from_slice(&waiting);
        waiting = rest;
    })
}
