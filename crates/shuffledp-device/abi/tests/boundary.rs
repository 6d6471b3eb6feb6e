//! What C callers can get wrong is an error of theirs, and the header has every function.

use std::fs::read_to_string;
use std::ptr::null;
use std::slice::from_raw_parts;

use shuffledp::{
    shuffledp_answer, shuffledp_check_receipt, shuffledp_check_round, shuffledp_find_in_tile, shuffledp_find_messages,
    shuffledp_free, shuffledp_part, shuffledp_result, shuffledp_sample_tile, shuffledp_status,
};

/// Status and first part of a result, which is freed.
fn taken(result: *mut shuffledp_result) -> (i32, String) {
    let mut length = 0;
    // SAFETY: the result is fresh, and the part is copied before it is freed.
    unsafe {
        let data = shuffledp_part(result, 0, &mut length);
        let text =
            if data.is_null() { String::new() } else { String::from_utf8_lossy(from_raw_parts(data, length)).into() };
        let status = shuffledp_status(result);
        shuffledp_free(result);
        (status, text)
    }
}

fn refused(result: *mut shuffledp_result, code: &str) {
    let (status, problem) = taken(result);
    assert_eq!(status, 1);
    assert!(problem.starts_with(&format!("{{\"code\":\"{code}\",")), "{problem}");
}

#[test]
fn null_pointers_and_other_bytes_are_refused() {
    // SAFETY: null pointers, or arrays with their lengths.
    unsafe {
        refused(shuffledp_check_round(null(), 0), "MalformedDocumentError");
        refused(shuffledp_check_round(null(), 5), "UsageError");
        refused(shuffledp_check_round([0xff; 3].as_ptr(), 3), "MalformedDocumentError");
        refused(shuffledp_check_round(b"{}".as_ptr(), 2), "MalformedDocumentError");
        refused(shuffledp_answer(b"{}".as_ptr(), 2, null(), 0, 1, -1), "MalformedDocumentError");
        refused(shuffledp_check_receipt(null(), 0, null(), 0, null(), 0, null(), 0), "MalformedDocumentError");
        refused(shuffledp_find_messages(null(), 0, null(), 0, null(), 0, null(), 0, null(), 1), "UsageError");
        refused(shuffledp_sample_tile(null(), 0, null(), 0, null(), 0, null(), 1), "UsageError");
        refused(shuffledp_find_in_tile(null(), 0, null(), 0, null(), 0, null(), 0, null(), 1), "UsageError");
    }
}

#[test]
fn no_byte_behind_a_length_that_is_too_long_is_read() {
    let short = [b' '; 8];
    // SAFETY: the length is refused before a byte is read.
    unsafe {
        refused(shuffledp_check_round(short.as_ptr(), usize::MAX), "MalformedDocumentError");
    }
}

#[test]
fn null_results_and_missing_parts_are_harmless() {
    // SAFETY: null results are allowed.
    unsafe {
        assert_eq!(shuffledp_status(null()), 1);
        assert!(shuffledp_part(null(), 0, &mut 7).is_null());
        shuffledp_free(std::ptr::null_mut());
        let result = shuffledp_check_round(null(), 0);
        let mut length = 7;
        assert!(shuffledp_part(result, 1, &mut length).is_null());
        assert_eq!(length, 0);
        shuffledp_free(result);
    }
}

#[test]
fn the_header_declares_exactly_the_functions_of_the_library() {
    let read =
        |path: &str| read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a file of this crate");
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .split(before)
            .skip(1)
            .filter_map(|rest| rest.split_once('(').map(|(name, _)| name.to_owned()))
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
            .collect();
        names.sort();
        names
    };
    let exported = names(&read("src/lib.rs"), "extern \"C\" fn shuffledp");
    let header = read("include/shuffledp.h");
    let code: String = header.split("*/").skip(1).map(|part| part.split("/*").next().unwrap_or_default()).collect();
    assert_eq!(exported.len(), 9);
    assert_eq!(names(&code, "shuffledp").into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>(), exported);
}
