//! JSON, strictly: no field twice, whole numbers apart from others and of 64 bits, no half of a
//! surrogate pair, bounded depth.

use crate::errors::{Outcome, malformed};

const MOST_DEPTH: usize = 32;
const MOST_DIGITS: usize = 20;

/// A JSON value; a whole number is one that was written without point and exponent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Whole(i128),
    Real(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// A field of an object; None in anything else.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Value::Object(fields) = self else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// A field of an object; null where there is none.
    pub fn at(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }

    /// A field that a schema checked to be text; empty where it is missing.
    pub fn text_at(&self, name: &str) -> &str {
        self.at(name).text().unwrap_or_default()
    }

    /// A field that a schema checked to be a whole number; 0 where it is missing.
    pub fn whole_at(&self, name: &str) -> i128 {
        self.at(name).whole().unwrap_or_default()
    }

    /// The text, or none.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// The number as a float, or none.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Whole(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// The entries of a list; none of anything else.
    pub fn list(&self) -> &[Value] {
        if let Value::List(entries) = self { entries } else { &[] }
    }

    /// The whole number, or none.
    pub fn whole(&self) -> Option<i128> {
        if let Value::Whole(number) = self { Some(*number) } else { None }
    }
}

/// Parses the whole text.
pub fn parse(text: &str) -> Outcome<Value> {
    let mut parser = Parser { bytes: text.as_bytes(), text, at: 0 };
    let value = parser.value(0)?;
    parser.skip();
    if parser.at < text.len() {
        return parser.wrong("more behind the value");
    }
    Ok(value)
}

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn wrong<T>(&self, what: &str) -> Outcome<T> {
        malformed(format!("not valid JSON: {what} at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Outcome<Value> {
        self.skip();
        if depth > MOST_DEPTH {
            return self.wrong("too deep");
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            _ => {
                for (word, meaning) in
                    [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
                {
                    if self.bytes[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(meaning);
                    }
                }
                self.number()
            }
        }
    }

    fn object(&mut self, depth: usize) -> Outcome<Value> {
        self.at += 1;
        let mut fields: Vec<(String, Value)> = Vec::new();
        self.skip();
        if self.take(b'}') {
            return Ok(Value::Object(fields));
        }
        loop {
            self.skip();
            let name = self.string()?;
            if fields.iter().any(|(field, _)| *field == name) {
                return self.wrong("a field twice");
            }
            self.skip();
            if !self.take(b':') {
                return self.wrong("expected :");
            }
            fields.push((name, self.value(depth + 1)?));
            self.skip();
            if self.take(b'}') {
                return Ok(Value::Object(fields));
            }
            if !self.take(b',') {
                return self.wrong("expected , or }");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Outcome<Value> {
        self.at += 1;
        let mut entries = Vec::new();
        self.skip();
        if self.take(b']') {
            return Ok(Value::List(entries));
        }
        loop {
            entries.push(self.value(depth + 1)?);
            self.skip();
            if self.take(b']') {
                return Ok(Value::List(entries));
            }
            if !self.take(b',') {
                return self.wrong("expected , or ]");
            }
        }
    }

    fn string(&mut self) -> Outcome<String> {
        if !self.take(b'"') {
            return self.wrong("expected text");
        }
        let mut made = String::new();
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(byte) if byte != b'"' && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            made.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(made);
                }
                Some(b'\\') => {
                    self.at += 1;
                    made.push(self.escaped()?);
                }
                _ => return self.wrong("unfinished text"),
            }
        }
    }

    fn escaped(&mut self) -> Outcome<char> {
        let Some(byte) = self.peek() else { return self.wrong("unfinished text") };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.wrong("an unknown escape"),
        })
    }

    fn unicode(&mut self) -> Outcome<char> {
        let first = self.four_digits()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if !(self.take(b'\\') && self.take(b'u')) {
                return self.wrong("half of a surrogate pair");
            }
            let second = self.four_digits()?;
            if !(0xdc00..0xe000).contains(&second) {
                return self.wrong("half of a surrogate pair");
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).map_or_else(|| self.wrong("half of a surrogate pair"), Ok)
    }

    fn four_digits(&mut self) -> Outcome<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).unwrap_or_default();
        if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return self.wrong("not four hex digits");
        }
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16).unwrap_or_default();
        }
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Outcome<Value> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            self.at = start;
            return self.wrong("expected a value");
        }
        let end = self.at;
        if self.take(b'.') && self.digits() == 0 {
            return self.wrong("expected digits");
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.wrong("expected digits");
            }
        }
        let written = &self.text[start..self.at];
        if self.at > end {
            return match written.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Value::Real(value)),
                _ => self.wrong("a number out of range"),
            };
        }
        if written == "-0" {
            return self.wrong("a second spelling of 0");
        }
        match written.parse::<i128>() {
            Ok(value) if written.len() <= MOST_DIGITS && (-(1 << 63)..1 << 64).contains(&value) => {
                Ok(Value::Whole(value))
            }
            _ => self.wrong("more than 64 bits"),
        }
    }
}
