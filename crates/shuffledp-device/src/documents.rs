//! Signed documents: docs/protocol.md, "Signed documents". Verify first, parse after.

use sha2::{Digest, Sha256};

use crate::PROTOCOL;
use crate::errors::{Code, Outcome, foreign, malformed, refuse};
use crate::json::{Value, parse};
use crate::mechanisms::Mechanism;
use crate::schema::{
    Check, among, bounded, expected, flag, from_hex, key32, list, number, object, or_null, text, to_hex, whole,
};
use crate::signatures::check_signature;
use crate::wording::{check_wording, fits};

/// Longest document, bytes.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// A signed document as it travels; nothing in it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub label: String,
    pub signer: String,
    pub body: String,
    pub signature: String,
}

impl Frame {
    /// The frame of a document.
    pub fn parse(document: &str) -> Outcome<Self> {
        if document.len() > MAX_DOCUMENT_BYTES {
            return malformed("a document is too long");
        }
        let value = parse(document)?;
        frame(&value)?;
        Ok(Self::of(&value))
    }

    /// Of a value that a schema checked to be a frame.
    pub fn of(value: &Value) -> Self {
        let field = |name| value.text_at(name).to_owned();
        Self { label: field("label"), signer: field("signer"), body: field("body"), signature: field("signature") }
    }

    /// As it travels.
    pub fn to_text(&self) -> String {
        let fields = [("label", &self.label), ("signer", &self.signer), ("body", &self.body)];
        let shown: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{}", quote(value))).collect();
        format!("{{{},\"signature\":{}}}", shown.join(","), quote(&self.signature))
    }

    /// SHA-256 of the document as it travels, hex.
    pub fn digest(&self) -> String {
        to_hex(&Sha256::digest(self.to_text()))
    }

    /// The content: steps 1 to 4.
    pub fn verify(&self, label: &str, signer: &str, key: &str) -> Outcome<Value> {
        if self.label != label {
            return foreign(format!("expected a {label}"));
        }
        if self.signer != signer {
            return foreign(format!("expected a {label} of {signer}"));
        }
        let signature = from_hex(&self.signature).unwrap_or_default();
        let key = from_hex(key).unwrap_or_default();
        if check_signature(&key, &signature, &signed_bytes(label, &self.body)).is_err() {
            let reason = "it was altered, or signed by another key";
            return refuse(Code::Signature, format!("the {label} has no valid signature of {signer}: {reason}"));
        }
        let value = parse(&self.body)?;
        check_document(label, &value)?;
        Ok(value)
    }
}

/// What a signature of a document is over.
pub fn signed_bytes(label: &str, body: &str) -> Vec<u8> {
    format!("{PROTOCOL}/{label}\0{body}").into_bytes()
}

/// A JSON text, escaped as the other implementations escape it.
pub fn quote(text: &str) -> String {
    let mut made = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => made.push_str("\\\""),
            '\\' => made.push_str("\\\\"),
            '\u{8}' => made.push_str("\\b"),
            '\u{c}' => made.push_str("\\f"),
            '\n' => made.push_str("\\n"),
            '\r' => made.push_str("\\r"),
            '\t' => made.push_str("\\t"),
            low if low < ' ' => made.push_str(&format!("\\u{:04x}", u32::from(low))),
            other => made.push(other),
        }
    }
    made.push('"');
    made
}

/// Checks that a value is the frame of a signed document.
pub fn frame(value: &Value) -> Outcome<()> {
    object(value, &[("label", &text), ("signer", &text), ("body", &text), ("signature", &text)], &[])
}

fn text_or_null(value: &Value) -> Outcome<()> {
    or_null(value, &text)
}

fn number_or_null(value: &Value) -> Outcome<()> {
    or_null(value, &number)
}

fn frame_or_null(value: &Value) -> Outcome<()> {
    or_null(value, &frame)
}

fn texts(value: &Value) -> Outcome<()> {
    list(value, &text)
}

fn frames(value: &Value) -> Outcome<()> {
    list(value, &frame)
}

fn numbers(value: &Value) -> Outcome<()> {
    list(value, &number)
}

fn verified(value: &Value) -> Outcome<()> {
    among(value, &["verified"])
}

fn document(value: &Value, required: &[(&str, Check)], optional: &[(&str, Check)]) -> Outcome<()> {
    let version = |field: &Value| if field.whole() == Some(1) { Ok(()) } else { expected("version 1") };
    let mut all: Vec<(&str, Check)> = vec![("version", &version)];
    all.extend(optional);
    object(value, required, &all)
}

/// Checks a document's content by the schema of its label.
pub(crate) fn check_document(label: &str, value: &Value) -> Outcome<()> {
    match label {
        "roster" => roster(value),
        "credential" => document(
            value,
            &[("population", &text), ("public_key", &key32)],
            &[("expires_at", &|field| or_null(field, &whole))],
        ),
        "certificate" => certificate(value),
        "round-key" => round_key(value),
        "manifest" => document(
            value,
            &[
                ("deployment", &text),
                ("round_id", &text),
                ("certificate", &frame),
                ("route", &frames),
                ("geometry", &geometry),
                ("min_reports", &whole),
                ("max_reports", &whole),
                ("opens_at", &whole),
                ("closes_at", &whole),
            ],
            &[],
        ),
        "countersignature" => document(value, &[("round_id", &text), ("node", &text), ("manifest_digest", &text)], &[]),
        "submission" => document(value, &[("round_id", &text), ("credential", &text), ("envelope_digest", &text)], &[]),
        "receipt" => document(value, &[("round_id", &text), ("credential", &text), ("submission_digest", &text)], &[]),
        "batch" => document(
            value,
            &[("round_id", &text), ("position", &whole), ("users", &whole), ("records", &whole), ("digest", &text)],
            &[("dropped", &whole), ("history", &whole)],
        ),
        "discard" => document(value, &[("round_id", &text), ("node", &text), ("forwarded", &flag)], &[]),
        "result" => result(value),
        _ => refuse(Code::Unsupported, "a document of another kind"),
    }
}

fn roster(value: &Value) -> Outcome<()> {
    let party: Check = &|value| {
        object(
            value,
            &[("name", &text), ("role", &text), ("operator", &text), ("address", &text), ("identity_key", &key32)],
            &[],
        )
    };
    let population: Check = &|value| object(value, &[("name", &text), ("enrolment_key", &key32)], &[]);
    document(
        value,
        &[
            ("deployment", &text),
            ("parties", &|value| list(value, party)),
            ("populations", &|value| list(value, population)),
            ("tls_authority", &text),
        ],
        &[("serial", &whole), ("issued_at", &whole), ("expires_at", &whole), ("broker", &text_or_null), ("log", &log)],
    )?;
    let deployment = value.get("deployment").and_then(Value::text).unwrap_or_default();
    check_names(&[deployment])?;
    let parties = texts_of(value.get("parties"), "name");
    check_names(&parties)?;
    check_names(&texts_of(value.get("populations"), "name"))?;
    let shared = ["client", "operator", "viewer", "gateway"];
    if parties.iter().any(|name| shared.contains(&name.to_lowercase().as_str())) {
        return malformed("a party has the name of a TLS certificate");
    }
    let mut keys = texts_of(value.get("parties"), "identity_key");
    keys.extend(texts_of(value.get("log").and_then(|log| log.get("witnesses")), "public_key"));
    if has_twice(&keys) { malformed("two parties or witnesses have one key") } else { Ok(()) }
}

fn log(value: &Value) -> Outcome<()> {
    let witness: Check = &|value| {
        object(value, &[("name", &text), ("operator", &text), ("address", &text), ("public_key", &key32)], &[])
    };
    let ended: Check = &|value| {
        object(value, &[("size", &whole), ("root", &key32)], &[("public_key", &|key| or_null(key, &key32))])?;
        bounded(value, "size", 0, i128::from(u64::MAX)).map(|_| ())
    };
    object(
        value,
        &[("witnesses", &|value| list(value, witness)), ("threshold", &whole)],
        &[("ended", &|value| list(value, ended))],
    )?;
    let names = texts_of(value.get("witnesses"), "name");
    check_names(&names)?;
    if names.len() > 16 {
        return malformed("more than 16 witnesses");
    }
    bounded(value, "threshold", 1, names.len() as i128).map(|_| ())
}

/// The texts of one field in a list of objects.
fn texts_of<'a>(list: Option<&'a Value>, name: &str) -> Vec<&'a str> {
    let Some(Value::List(entries)) = list else { return Vec::new() };
    entries.iter().filter_map(|entry| entry.get(name)?.text()).collect()
}

fn has_twice<Name: PartialEq>(names: &[Name]) -> bool {
    names.iter().enumerate().any(|(at, name)| names[..at].contains(name))
}

fn check_names(names: &[&str]) -> Outcome<()> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let valid = |name: &&str| {
        let bytes = name.as_bytes();
        (1..=64).contains(&bytes.len()) && bytes[0].is_ascii_alphanumeric() && bytes.iter().copied().all(inner)
    };
    if !names.iter().all(valid) {
        return malformed("not a valid name");
    }
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    if has_twice(&lower) { malformed("a name occurs twice") } else { Ok(()) }
}

fn certificate(value: &Value) -> Outcome<()> {
    let mechanism: Check = &|value| Mechanism::parse(value).map(|_| ());
    let epsilon: Check = &|value| {
        object(
            value,
            &[("certified", &number_or_null), ("attained", &number_or_null)],
            &[("published", &number_or_null)],
        )
    };
    let corrupted: Check = &|value| object(value, &[("epsilon", &number_or_null), ("delta", &number)], &[]);
    let ledger: Check = &|value| {
        object(
            value,
            &[("entry", &whole), ("spent", &number_or_null), ("delta", &number), ("limit", &number)],
            &[
                ("composition", &|value| among(value, &["adaptive", "fixed"])),
                ("if_fixed", &number_or_null),
                ("reconciled", &whole),
            ],
        )
    };
    document(
        value,
        &[
            ("deployment", &text),
            ("round_id", &text),
            ("stage", &text),
            ("population", &text),
            ("mechanism", mechanism),
            ("users", &whole),
            ("honest", &whole),
            ("route", &texts),
            ("adjacency", &|value| among(value, &["standard", "metric"])),
            ("max_distance", &whole),
            ("delta", &number),
            ("epsilon", epsilon),
            ("corrupted", corrupted),
            ("standard_error", &number),
            ("assumptions", &texts),
            ("basis", &texts),
            ("holds", &flag),
            ("ledger", ledger),
            ("issued_at", &whole),
            ("expires_at", &whole),
        ],
        &[("dropped", &whole), ("invalid", &whole), ("mix", &verified), ("wording", &check_wording)],
    )?;
    match value.get("wording") {
        Some(wording) => fits(wording, &Mechanism::parse(value.at("mechanism"))?),
        None => Ok(()),
    }
}

fn round_key(value: &Value) -> Outcome<()> {
    let mixing: Check = &|value| {
        object(
            value,
            &[("blinding", &text), ("blinding_proof", &text)],
            &[
                ("opening", &text),
                ("opening_proof", &text),
                ("enrolment_key", &text),
                ("withdrawals", &whole),
                ("withdrawals_digest", &text),
            ],
        )
    };
    document(
        value,
        &[
            ("deployment", &text),
            ("round_id", &text),
            ("node", &text),
            ("position", &whole),
            ("suite", &text),
            ("public_key", &text),
            ("certificate_digest", &text),
        ],
        &[("corrupt", &flag), ("mixing", mixing)],
    )
}

fn geometry(value: &Value) -> Outcome<()> {
    object(
        value,
        &[("suite", &text), ("hops", &whole), ("messages_per_user", &whole), ("symbol_bytes", &whole)],
        &[("mix", &verified), ("dummies_per_node", &whole)],
    )?;
    bounded(value, "hops", 2, 16)?;
    bounded(value, "messages_per_user", 1, 1_000_000)?;
    bounded(value, "symbol_bytes", 1, 4)?;
    if value.get("dummies_per_node").is_some() {
        bounded(value, "dummies_per_node", 0, 10_000_000)?;
    }
    Ok(())
}

fn result(value: &Value) -> Outcome<()> {
    let estimate: Check = &|value| {
        object(
            value,
            &[
                ("quantity", &text),
                ("values", &numbers),
                ("standard_errors", &numbers),
                ("lows", &numbers),
                ("highs", &numbers),
            ],
            &[("mean", &number_or_null), ("mean_standard_error", &number_or_null)],
        )
    };
    let history: Check = &|value| object(value, &[("digest", &text), ("length", &whole)], &[]);
    document(
        value,
        &[("deployment", &text), ("round_id", &text), ("outcome", &text)],
        &[
            ("reason", &text_or_null),
            ("error", &text_or_null),
            ("accepted", &whole),
            ("messages", &whole),
            ("board_digest", &text_or_null),
            ("estimate", &|value| or_null(value, estimate)),
            ("plan_certificate", &frame_or_null),
            ("final_certificate", &frame_or_null),
            ("dropped", &whole),
            ("outside_alphabet", &whole),
            ("repeated_tags", &whole),
            ("headers", &frames),
            ("history", history),
            ("tiles_root", &key32),
            ("manifest_digest", &key32),
        ],
    )
}
