//! The project's test vectors: what this crate answers, it answers as the Python code does.

use std::fs::read_to_string;

use shuffledp_device::json::{Value, parse};

#[allow(dead_code)] // main
#[path = "../examples/answer.rs"]
mod program;

/// Files, and how many of their cases this crate answers at least.
const ANSWERED: [(&str, usize); 15] = [
    ("signatures", 32),
    ("documents", 81),
    ("rounds", 149),
    ("logs", 117),
    ("questions", 155),
    ("integers", 4),
    ("samplers", 514),
    ("geometries", 125),
    ("numbers", 405),
    ("layers", 9),
    ("claims", 1),
    ("receipts", 7),
    ("tiles", 21),
    ("results", 87),
    ("verified", 181),
];

fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let file = parse(&read_to_string(path).expect("the vectors are in the repository")).expect("they are JSON");
    match file.get("cases") {
        Some(Value::List(cases)) => cases.clone(),
        _ => panic!("a file of vectors has cases"),
    }
}

/// Whether answers are the same; numbers that are not whole may differ by a relative 1e-6.
fn agree(answer: &Value, expected: &Value) -> bool {
    match (answer, expected) {
        (Value::Object(fields), Value::Object(others)) => {
            let same = |(name, value): &(String, Value)| expected.get(name).is_some_and(|other| agree(value, other));
            fields.len() == others.len() && fields.iter().all(same)
        }
        (Value::List(some), Value::List(others)) => {
            some.len() == others.len() && some.iter().zip(others).all(|(one, other)| agree(one, other))
        }
        (Value::Real(number), _) | (_, Value::Real(number)) => {
            let (Some(first), Some(second)) = (answer.number(), expected.number()) else { return false };
            (first - second).abs() <= 1e-6 * number.abs().max(1e-300)
        }
        _ => answer == expected,
    }
}

fn written(answer: &str) -> Value {
    parse(answer).expect("answers are JSON")
}

#[test]
fn every_case_is_answered_as_it_says() {
    for (name, expected) in ANSWERED {
        let mut answered = 0;
        for case in cases(name) {
            let answer = written(&program::answer_text(&case));
            if answer.get("unsupported").is_none() {
                answered += 1;
                let expected = case.get("expect").expect("a case has an answer");
                assert!(agree(&answer, expected), "{name}: {:?}: {answer:?}, not {expected:?}", case.get("name"));
            }
        }
        assert!(answered >= expected, "{name}: {answered} answered");
    }
}

#[test]
fn envelopes_are_sealed_as_the_vectors_have_them() {
    let mut sealed = 0;
    for case in cases("envelopes") {
        let Some(messages) = case.get("expect").and_then(|expect| expect.get("ok")?.get("messages")) else { continue };
        let Some(Value::Object(input)) = case.get("input") else { panic!("a case has an input") };
        let mut fields = input.clone();
        fields.push(("messages".into(), messages.clone()));
        let asked = Value::Object(vec![
            ("kind".into(), Value::Text("envelope".into())),
            ("input".into(), Value::Object(fields)),
        ]);
        let answer = written(&program::answer_text(&asked));
        if answer.get("unsupported").is_none() {
            sealed += 1;
            let made = answer.get("ok").and_then(|ok| ok.get("envelope"));
            assert_eq!(made, case.get("input").and_then(|input| input.get("envelope")));
        }
    }
    assert_eq!(sealed, 3);
}
