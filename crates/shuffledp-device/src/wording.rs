//! Questions in words: docs/protocol.md, "Wording".

use unicode_normalization::is_nfc;

use crate::errors::{Outcome, malformed};
use crate::json::Value;
use crate::mechanisms::Mechanism;
use crate::schema::{expected, from_hex, list, object, text};

const MOST_NAMED: usize = 1024;
const MOST_BYTES: usize = 16_384;
/// Most cells of all columns of an open list.
const MOST_HASHED: i128 = 32_768;

/// Decimals are kept as whole numbers of 10^-9.
const UNIT: i128 = 1_000_000_000;

/// Control characters, invisible ones, those that turn the direction, and all spaces but U+0020.
fn is_refused(character: char) -> bool {
    matches!(u32::from(character),
        0..=0x1f | 0x7f..=0xa0 | 0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x1680 | 0x17b4..=0x17b5 | 0x180e
        | 0x2000..=0x200b | 0x200e..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x2800 | 0x3000 | 0x3164
        | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe00ff
        | 0xe01f0..=0xe0fff)
}

/// Without joiners and variation selectors, which in most places no one sees.
fn seen(text: &str) -> String {
    let unseen = |character: char| {
        matches!(u32::from(character),
            0x180b..=0x180d | 0x180f | 0x200c..=0x200d | 0xfe00..=0xfe0f | 0xe0100..=0xe01ef)
    };
    text.chars().filter(|character| !unseen(*character)).collect()
}

fn look_alike(texts: &[&str]) -> bool {
    let all: Vec<String> = texts.iter().map(|text| seen(text)).collect();
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    different.len() < all.len()
}

fn plain(value: &Value, least: usize, most: usize) -> Outcome<()> {
    let Some(text) = value.text() else { return expected("text") };
    let valid = (least..=most).contains(&text.chars().count())
        && !text.chars().any(is_refused)
        && (text.is_empty() || !text.split(' ').any(str::is_empty) && !seen(text).is_empty())
        && is_nfc(text);
    if valid { Ok(()) } else { expected(&format!("plain text of {least} to {most} characters")) }
}

/// A decimal in its one spelling, in units of 10^-9.
fn decimal(text: &str) -> Outcome<i128> {
    let read = || {
        let size = text.strip_prefix('-').unwrap_or(text);
        let (whole, part) = size.split_once('.').unwrap_or((size, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = (1..=15).contains(&whole.len())
            && digits(whole)
            && (whole == "0" || !whole.starts_with('0'))
            && part.len() <= 9
            && digits(part)
            && (part.is_empty() != size.contains('.'))
            && !part.ends_with('0')
            && text != "-0";
        let number = format!("{whole}{part:0<9}").parse::<i128>().ok().filter(|_| canonical)?;
        Some(if text.starts_with('-') { -number } else { number })
    };
    read().map_or_else(|| expected("a decimal such as 12.5"), Ok)
}

fn spell(number: i128) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.abs() / UNIT, number.abs() % UNIT);
    let fraction = format!(".{part:09}");
    format!("{sign}{whole}{}", fraction.trim_end_matches('0').trim_end_matches('.'))
}

fn texts<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    value.at(name).list().iter().filter_map(Value::text).collect()
}

fn name(value: &Value) -> Outcome<()> {
    plain(value, 1, 100)
}

fn unit(value: &Value) -> Outcome<()> {
    plain(value, 0, 32)
}

fn check_names(value: &Value, least: usize) -> Outcome<()> {
    object(value, &[("kind", &text), ("names", &|names| list(names, &name))], &[])?;
    let names = texts(value, "names");
    if names.len() < least || look_alike(&names) { expected("different names") } else { Ok(()) }
}

fn check_symbols(value: &Value) -> Outcome<()> {
    match value.text_at("kind") {
        "names" => check_names(value, 2),
        "ranges" => {
            object(value, &[("kind", &text), ("edges", &|edges| list(edges, &text))], &[])?;
            let edges = texts(value, "edges");
            let start = usize::from(edges.first() == Some(&"-inf"));
            let end = edges.len() - usize::from(edges.last() == Some(&"inf"));
            let inner: Vec<i128> =
                edges.get(start..end).unwrap_or_default().iter().map(|edge| decimal(edge)).collect::<Outcome<_>>()?;
            let ascend = inner.windows(2).all(|pair| pair[0] < pair[1]);
            if edges.len() < 3 || inner.is_empty() || !ascend { expected("3 or more ascending edges") } else { Ok(()) }
        }
        "scale" => {
            let number =
                |value: &Value| text(value).and_then(|()| decimal(value.text().unwrap_or_default()).map(|_| ()));
            let size = |value: &Value| match value.whole() {
                Some(2..=0x7fff_ffff) => Ok(()),
                _ => expected("a whole number from 2"),
            };
            object(value, &[("kind", &text), ("start", &number), ("step", &number), ("size", &size)], &[])?;
            if decimal(value.text_at("step"))? > 0 { Ok(()) } else { expected("a step above 0") }
        }
        "hashes" => check_hashes(value),
        "magnitudes" => check_magnitudes(value),
        _ => expected("names, ranges, a scale, hashes or magnitudes"),
    }
}

/// Of an open list: docs/protocol.md, "Open lists".
fn check_hashes(value: &Value) -> Outcome<()> {
    let small = |low, high| {
        move |value: &Value| match value.whole() {
            Some(number) if (low..=high).contains(&number) => Ok(()),
            _ => expected("a small whole number"),
        }
    };
    let (columns, bits) = (small(1, 4), small(4, 15));
    object(value, &[("kind", &text), ("salt", &text), ("columns", &columns), ("bits", &bits)], &[])?;
    let salt = from_hex(value.text_at("salt"));
    if salt.is_none_or(|salt| salt.len() != 16) {
        return expected("a salt of 32 lower-case hex digits");
    }
    if value.whole_at("columns") << value.whole_at("bits") <= MOST_HASHED { Ok(()) } else { expected("fewer cells") }
}

/// Of numbers that are added up: docs/protocol.md, "Magnitudes".
fn check_magnitudes(value: &Value) -> Outcome<()> {
    let small = |value: &Value| match value.whole() {
        Some(1..=2561) => Ok(()),
        _ => expected("a small whole number"),
    };
    object(value, &[("kind", &text), ("step", &text), ("parts", &small), ("size", &small)], &[])?;
    if decimal(value.text_at("step"))? <= 0 {
        return expected("a step above 0");
    }
    let (parts, size) = (value.whole_at("parts"), value.whole_at("size"));
    if parts > 64 || size <= 2 * parts || size > 40 * parts + 1 {
        return expected("magnitudes with 2 to 40 doublings");
    }
    decimal(&spell(magnitude_of(value, size - 1))).map(|_| ())
}

/// The number that a symbol of magnitudes stands for, in units of 10^-9.
fn magnitude_of(symbols: &Value, symbol: i128) -> i128 {
    let (parts, step) = (symbols.whole_at("parts"), decimal(symbols.text_at("step")).unwrap_or_default());
    let (doublings, part) = (symbol / parts, symbol % parts);
    let multiple = if doublings == 0 { part } else { (parts + part) << (doublings - 1) };
    multiple * step
}

fn check_condition(value: &Value) -> Outcome<()> {
    match value.text_at("kind") {
        "among" => check_names(value, 1),
        "range" => {
            object(value, &[("kind", &text), ("low", &text), ("high", &text)], &[])?;
            let end = |name: &str, open: &str| match value.text_at(name) {
                written if written == open => Ok(None),
                written => decimal(written).map(Some),
            };
            match (end("low", "-inf")?, end("high", "inf")?) {
                (None, None) => expected("a range with an end"),
                (Some(low), Some(high)) if low >= high => expected("a range from low to high"),
                _ => Ok(()),
            }
        }
        _ => expected("names or a range"),
    }
}

/// All texts of an axis's symbols, or of a condition.
fn words(symbols: &Value) -> Vec<&str> {
    let mut all = texts(symbols, "names");
    all.extend(texts(symbols, "edges"));
    all.extend(["start", "step", "low", "high", "salt"].iter().filter_map(|name| symbols.at(name).text()));
    all
}

/// Checks the form of a question in words.
pub fn check_wording(value: &Value) -> Outcome<()> {
    let id = |value: &Value| {
        let bytes = value.text().unwrap_or_default().as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let inner = |byte: &u8| plain(byte) || b"._-".contains(byte);
        let valid = (1..=64).contains(&bytes.len()) && plain(&bytes[0]) && bytes.iter().all(inner);
        if valid { Ok(()) } else { expected("an identifier of a question") }
    };
    let axis = |value: &Value| object(value, &[("field", &name), ("unit", &unit), ("symbols", &check_symbols)], &[]);
    let condition =
        |value: &Value| object(value, &[("field", &name), ("unit", &unit), ("holds", &check_condition)], &[]);
    object(
        value,
        &[("id", &id), ("text", &|text| plain(text, 1, 300)), ("axes", &|axes| list(axes, &axis))],
        &[("where", &|value| list(value, &condition)), ("others", &|text| plain(text, 0, 100))],
    )?;
    check_together(value)
}

fn check_together(value: &Value) -> Outcome<()> {
    let (axes, conditions, others) = (value.at("axes").list(), value.at("where").list(), value.text_at("others"));
    let fields = |parts: &[Value]| look_alike(&parts.iter().map(|part| part.text_at("field")).collect::<Vec<_>>());
    if !(1..=4).contains(&axes.len()) || fields(axes) {
        return expected("1 to 4 different fields");
    }
    let kinds = axes.iter().map(|axis| axis.at("symbols").text_at("kind"));
    let number_of = |sought: &str| kinds.clone().filter(|kind| *kind == sought).count();
    if number_of("hashes") > 0 && (axes.len() > 1 || !others.is_empty()) {
        return expected("an open list alone, without others");
    }
    if number_of("magnitudes") > 1 {
        return expected("at most one field to add up");
    }
    if conditions.len() > 4 || fields(conditions) {
        return expected("at most 4 conditions on different fields");
    }
    if !conditions.is_empty() && others.is_empty() {
        return expected("a name for the others");
    }
    let taken = |axis: &Value| words(axis.at("symbols")).iter().any(|word| seen(word) == seen(others));
    if !others.is_empty() && axes.iter().any(taken) {
        return expected("another name for the others");
    }
    let conditions_words = conditions.iter().map(|condition| words(condition.at("holds")));
    let named = axes.iter().filter(|axis| !["scale", "hashes"].contains(&axis.at("symbols").text_at("kind")));
    let sizes: usize = named.map(|axis| axis_size(axis.at("symbols")) as usize).sum();
    let count: usize = sizes + conditions_words.clone().map(|words| words.len()).sum::<usize>();
    let mut all = vec![value.text_at("id"), value.text_at("text"), others];
    all.extend(axes.iter().flat_map(|axis| words(axis.at("symbols"))));
    all.extend(conditions_words.flatten());
    all.extend(axes.iter().chain(conditions).flat_map(|part| [part.text_at("field"), part.text_at("unit")]));
    let bytes: usize = all.iter().map(|word| word.len()).sum();
    if count > MOST_NAMED || bytes > MOST_BYTES { expected("fewer words") } else { Ok(()) }
}

fn axis_size(symbols: &Value) -> u64 {
    match symbols.text_at("kind") {
        "names" => symbols.at("names").list().len() as u64,
        "ranges" => symbols.at("edges").list().len() as u64 - 1,
        "hashes" => 1 << (symbols.whole_at("columns") * symbols.whole_at("bits")),
        _ => symbols.whole_at("size") as u64,
    }
}

/// Number of symbols; at most 2^124 with four scales.
fn size_of(wording: &Value) -> u128 {
    let cells: u128 = wording.at("axes").list().iter().map(|axis| u128::from(axis_size(axis.at("symbols")))).product();
    cells + u128::from(!wording.text_at("others").is_empty())
}

/// Checks that the words are for this mechanism's values.
pub fn fits(wording: &Value, mechanism: &Mechanism) -> Outcome<()> {
    let axes = wording.at("axes").list();
    if !mechanism.is_histogram() && !wording.text_at("others").is_empty() {
        return malformed("a sum has no place for others");
    }
    if size_of(wording) != u128::from(mechanism.domain()) {
        return malformed("the question's words are for another number of symbols");
    }
    let scale = axes.len() == 1 && axes[0].at("symbols").text_at("kind") == "scale";
    if mechanism.is_histogram() || scale { Ok(()) } else { malformed("a sum needs a scale") }
}

fn symbol_name(axis: &Value, at: u64) -> String {
    let symbols = axis.at("symbols");
    let name = match symbols.text_at("kind") {
        "names" => texts(symbols, "names")[at as usize].to_owned(),
        "ranges" => {
            let edges = texts(symbols, "edges");
            match (edges[at as usize], edges[at as usize + 1]) {
                ("-inf", high) => format!("below {high}"),
                (low, "inf") => format!("{low} or more"),
                (low, high) => format!("{low}–{high}"),
            }
        }
        "hashes" => {
            let digits = (symbols.whole_at("columns") * symbols.whole_at("bits")) as usize;
            format!("text with hash {at:0width$x}", width = digits.div_ceil(4))
        }
        "magnitudes" => format!("about {}", spell(magnitude_of(symbols, i128::from(at)))),
        _ => {
            let part = |name| decimal(symbols.text_at(name)).unwrap_or_default();
            spell(part("start") + i128::from(at) * part("step"))
        }
    };
    format!("{name} {}", axis.text_at("unit")).trim_end().to_owned()
}

/// The words of each of at most `most` symbols, with units; None where there are more.
pub fn symbol_names(wording: &Value, most: u128) -> Option<Vec<String>> {
    if size_of(wording) > most {
        return None;
    }
    let mut cells = vec![String::new()];
    for axis in wording.at("axes").list() {
        let all = (0..axis_size(axis.at("symbols"))).map(|at| symbol_name(axis, at)).collect::<Vec<_>>();
        let join =
            |first: &String, name: &String| if first.is_empty() { name.clone() } else { format!("{first}, {name}") };
        cells = cells.iter().flat_map(|first| all.iter().map(move |name| join(first, name))).collect();
    }
    let others = wording.text_at("others");
    if !others.is_empty() {
        cells.push(others.into());
    }
    Some(cells)
}
