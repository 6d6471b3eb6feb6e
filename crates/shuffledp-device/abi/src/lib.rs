//! The C ABI of `shuffledp-device`: include/shuffledp.h says what each function does.
//!
//! Pointers are read here and nowhere else. Every length comes with its pointer, every answer is a
//! `shuffledp_result` that the caller gives back to `shuffledp_free`, which erases it. No panic
//! crosses the boundary: it becomes the error `InternalError`.
#![deny(unsafe_op_in_unsafe_fn)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::slice::from_raw_parts;

use shuffledp_device::board::MOST_TILE_BYTES;
use shuffledp_device::device::{
    MOST_REQUEST_BYTES, Request, answer, check_answer_receipt, describe, find_in_tile, find_messages, sample_tile,
};
use shuffledp_device::documents::{MAX_DOCUMENT_BYTES, quote};
use shuffledp_device::errors::{Code, Outcome, malformed, refuse};
use zeroize::Zeroizing;

/// Longest board that is searched.
const MOST_BOARD_BYTES: usize = 1 << 31;

type Part = Zeroizing<Vec<u8>>;

/// What a function gives: a status, and parts that are erased when it is freed.
#[allow(non_camel_case_types)] // its name in C
pub struct shuffledp_result {
    status: i32,
    parts: Vec<Part>,
}

fn part(text: impl Into<Vec<u8>>) -> Part {
    Zeroizing::new(text.into())
}

fn problem(code: &str, detail: &str) -> (i32, Vec<Part>) {
    (1, vec![part(format!("{{\"code\":{},\"detail\":{}}}", quote(code), quote(detail)))])
}

/// Runs the safe part of a call and boxes what comes of it.
fn boxed(work: impl FnOnce() -> Outcome<Vec<Part>>) -> *mut shuffledp_result {
    // Nothing of a call that panicked is used again.
    let (status, parts) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(parts)) => (0, parts),
        Ok(Err(refusal)) => problem(refusal.code.name(), &refusal.message),
        Err(_) => problem("InternalError", "a defect of this library; report what was given to it"),
    };
    Box::into_raw(Box::new(shuffledp_result { status, parts }))
}

/// The caller's bytes; none for a null pointer of length 0.
///
/// # Safety
/// `data` is null, or readable for `length` bytes as long as the slice is used.
unsafe fn bytes<'a>(data: *const u8, length: usize, most: usize) -> Outcome<&'a [u8]> {
    if data.is_null() && length > 0 {
        return refuse(Code::Usage, "a null pointer with a length");
    }
    if length > most {
        return malformed(format!("{length} bytes, at most {most} are read"));
    }
    // SAFETY: not null, and the caller vouches for the length.
    Ok(if data.is_null() { &[] } else { unsafe { from_raw_parts(data, length) } })
}

/// # Safety
/// As `bytes`.
unsafe fn text<'a>(data: *const u8, length: usize, most: usize) -> Outcome<&'a str> {
    // SAFETY: as the caller of this function vouches.
    let given = unsafe { bytes(data, length, most) }?;
    std::str::from_utf8(given).or_else(|_| malformed("not UTF-8"))
}

/// # Safety
/// `request` is readable for `request_length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_check_round(request: *const u8, request_length: usize) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let request = Request::parse(unsafe { text(request, request_length, MOST_REQUEST_BYTES) }?)?;
        Ok(vec![part(describe(&request.check()?))])
    })
}

/// # Safety
/// `request` and `key` are readable for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_answer(
    request: *const u8,
    request_length: usize,
    key: *const u8,
    key_length: usize,
    value: u64,
    response: i64,
) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let request = Request::parse(unsafe { text(request, request_length, MOST_REQUEST_BYTES) }?)?;
        // SAFETY: as above.
        let given = unsafe { bytes(key, key_length, 32) }?;
        let mut key = Zeroizing::new([0; 32]);
        if given.len() != key.len() {
            return refuse(Code::Usage, "a private key has 32 bytes");
        }
        key.copy_from_slice(given);
        let prepared = answer(&request, &key, value, u64::try_from(response).ok())?;
        let response = prepared.response.map_or_else(|| part(""), |drawn| part(drawn.to_string()));
        Ok(vec![part(prepared.submission), prepared.record, response])
    })
}

/// # Safety
/// All pointers are readable for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_check_receipt(
    roster: *const u8,
    roster_length: usize,
    root_key: *const u8,
    root_key_length: usize,
    record: *const u8,
    record_length: usize,
    receipt: *const u8,
    receipt_length: usize,
) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let (roster, root_key, record, receipt) = unsafe {
            (
                text(roster, roster_length, MAX_DOCUMENT_BYTES)?,
                text(root_key, root_key_length, 64)?,
                bytes(record, record_length, MOST_BOARD_BYTES)?,
                text(receipt, receipt_length, MAX_DOCUMENT_BYTES)?,
            )
        };
        check_answer_receipt(roster, root_key, record, receipt)?;
        Ok(Vec::new())
    })
}

/// # Safety
/// All pointers are readable for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_find_messages(
    roster: *const u8,
    roster_length: usize,
    root_key: *const u8,
    root_key_length: usize,
    record: *const u8,
    record_length: usize,
    result: *const u8,
    result_length: usize,
    board: *const u8,
    board_length: usize,
) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let (roster, root_key, record, result, board) = unsafe {
            (
                text(roster, roster_length, MAX_DOCUMENT_BYTES)?,
                text(root_key, root_key_length, 64)?,
                bytes(record, record_length, MOST_BOARD_BYTES)?,
                text(result, result_length, MAX_DOCUMENT_BYTES)?,
                bytes(board, board_length, MOST_BOARD_BYTES)?,
            )
        };
        Ok(vec![part(find_messages(roster, root_key, record, result, board)?.to_string())])
    })
}

/// # Safety
/// All pointers are readable for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_sample_tile(
    roster: *const u8,
    roster_length: usize,
    root_key: *const u8,
    root_key_length: usize,
    record: *const u8,
    record_length: usize,
    result: *const u8,
    result_length: usize,
) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let (roster, root_key, record, result) = unsafe {
            (
                text(roster, roster_length, MAX_DOCUMENT_BYTES)?,
                text(root_key, root_key_length, 64)?,
                bytes(record, record_length, MOST_BOARD_BYTES)?,
                text(result, result_length, MAX_DOCUMENT_BYTES)?,
            )
        };
        Ok(vec![part(sample_tile(roster, root_key, record, result)?.to_string())])
    })
}

/// # Safety
/// All pointers are readable for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_find_in_tile(
    roster: *const u8,
    roster_length: usize,
    root_key: *const u8,
    root_key_length: usize,
    record: *const u8,
    record_length: usize,
    result: *const u8,
    result_length: usize,
    tile: *const u8,
    tile_length: usize,
) -> *mut shuffledp_result {
    boxed(|| {
        // SAFETY: as the caller of this function vouches.
        let (roster, root_key, record, result, tile) = unsafe {
            (
                text(roster, roster_length, MAX_DOCUMENT_BYTES)?,
                text(root_key, root_key_length, 64)?,
                bytes(record, record_length, MOST_BOARD_BYTES)?,
                text(result, result_length, MAX_DOCUMENT_BYTES)?,
                bytes(tile, tile_length, MOST_TILE_BYTES)?,
            )
        };
        Ok(vec![part(find_in_tile(roster, root_key, record, result, tile)?.to_string())])
    })
}

/// # Safety
/// `result` is null, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_status(result: *const shuffledp_result) -> i32 {
    // SAFETY: as the caller of this function vouches.
    unsafe { result.as_ref() }.map_or(1, |result| result.status)
}

/// # Safety
/// `result` is null, or came from this library and was not freed; `length` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_part(
    result: *const shuffledp_result,
    index: usize,
    length: *mut usize,
) -> *const u8 {
    // SAFETY: as the caller of this function vouches.
    let bytes = unsafe { result.as_ref() }.and_then(|result| result.parts.get(index));
    // SAFETY: as above.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = bytes.map_or(0, |part| part.len());
    }
    bytes.map_or(null(), |part| part.as_ptr())
}

/// # Safety
/// `result` is null, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shuffledp_free(result: *mut shuffledp_result) {
    if !result.is_null() {
        // SAFETY: made by `boxed`, and given back once.
        drop(unsafe { Box::from_raw(result) });
    }
}
