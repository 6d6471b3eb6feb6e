/* A device of shuffledp for C and every language that can call it.
 *
 * Nothing here opens a socket or a file: callers bring documents as bytes and carry bytes away.
 * docs/how-to/any-language.md is the guide. One rule for memory: inputs are the caller's and are
 * only read, each with its length; every shuffledp_result is the library's, is never null, and is
 * given back once to shuffledp_free, which erases it. Functions may be called from several threads.
 */
#ifndef SHUFFLEDP_H
#define SHUFFLEDP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shuffledp_result shuffledp_result;

/* A request is JSON in UTF-8, at most 16 MiB:
 *   roster       text of the signed roster
 *   root_key     64 hex digits, pinned in the device
 *   announcement text, as the gateway gave it
 *   policy       object: epsilon, delta, epsilon_corrupted (a number or "inf"), and the optional
 *                limits of the Python client's [policy]
 *   population   text
 *   now          milliseconds since 1970 by the device's clock
 * and, where it applies:
 *   round_id     the round that was asked for
 *   remembered   the proof of the public log that the last checked round gave ("log" below)
 *   credential   text of the signed credential; needed to answer
 */

/* Checks a round in every way that a device can. Part 0: what to show people before they answer,
 * JSON: round_id, mechanism, values (their number), messages, question, symbols, epsilon, delta,
 * epsilon_corrupted, adjacency, closes_at, entry, certificate_digest, response_name, log. */
shuffledp_result *shuffledp_check_round(const uint8_t *request, size_t request_length);

/* Checks the round again, then randomises, seals and signs a value. Call it ONCE for each round,
 * and store parts 0 and 1 on disk before you send part 0: a second answer spends the user's
 * privacy twice. key: the 32 bytes of the device's Ed25519 key, erase your copy after the call.
 * response: the response that this question keeps (part 2 of an earlier answer to the question
 * named response_name), or -1.
 * Part 0: the body to POST, JSON; to send again, send the same bytes. Part 1: the record to keep, a line
 * of JSON and the messages, which are secret. Part 2: the response to keep, decimal, secret; empty
 * for mechanisms that keep none. */
shuffledp_result *shuffledp_answer(
    const uint8_t *request, size_t request_length,
    const uint8_t *key, size_t key_length,
    uint64_t value, int64_t response);

/* Checks the entry node's receipt, as the gateway gave it, for a record. No parts. */
shuffledp_result *shuffledp_check_receipt(
    const uint8_t *roster, size_t roster_length,
    const uint8_t *root_key, size_t root_key_length,
    const uint8_t *record, size_t record_length,
    const uint8_t *receipt, size_t receipt_length);

/* Finds the messages of a record on the board of a result. result: the gateway's answer as it came,
 * with the proof of the public log, which is required where the roster names witnesses. Part 0: how
 * many are there once and unchanged, decimal; fewer than were sent means that a node cheated, and
 * record and receipt are the evidence. If all are there, the answer is computed again: answer, errors,
 * intervals and tiles of the result must be those of the board (FalseResultError). */
shuffledp_result *shuffledp_find_messages(
    const uint8_t *roster, size_t roster_length,
    const uint8_t *root_key, size_t root_key_length,
    const uint8_t *record, size_t record_length,
    const uint8_t *result, size_t result_length,
    const uint8_t *board, size_t board_length);

/* Instead of the whole board: the index of the tile to fetch (docs/tiles.md, "sample"). It was drawn
 * at random with the answer, so that the request reveals nothing; fetch no other tile. Part 0: the
 * index, decimal. */
shuffledp_result *shuffledp_sample_tile(
    const uint8_t *roster, size_t roster_length,
    const uint8_t *root_key, size_t root_key_length,
    const uint8_t *record, size_t record_length,
    const uint8_t *result, size_t result_length);

/* Checks that tile, and that it has the messages of the record that belong into it. Part 0: how many
 * these are, decimal, often 0. ReceiptMissingError means that a node cheated: see
 * shuffledp_find_messages. */
shuffledp_result *shuffledp_find_in_tile(
    const uint8_t *roster, size_t roster_length,
    const uint8_t *root_key, size_t root_key_length,
    const uint8_t *record, size_t record_length,
    const uint8_t *result, size_t result_length,
    const uint8_t *tile, size_t tile_length);

/* 0: everything was checked and done. 1: refused; part 0 is {"code": .., "detail": ..}, with the
 * codes of docs/reference/errors.md, UnsupportedError for what this library does not implement and
 * InternalError for its own defects. */
int32_t shuffledp_status(const shuffledp_result *result);

/* Bytes of a part, valid until the result is freed, not ended by a zero; null if there is none. */
const uint8_t *shuffledp_part(const shuffledp_result *result, size_t index, size_t *length);

/* Erases and frees; null is allowed. */
void shuffledp_free(shuffledp_result *result);

#ifdef __cplusplus
}
#endif

#endif
