"""A solution of lab 7."""

from __future__ import annotations

import hashlib
import json
import os
import random
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.public import PublicKey, SealedBox
from nacl.signing import VerifyKey


def made_up(pool: dict[str, Any]) -> bytes:
    """A record with the wanted symbol and a fresh tag, sealed for the later nodes."""
    record: bytes = pool["symbol"].to_bytes(pool["symbol_bytes"], "big") + os.urandom(
        pool["tag_bytes"]
    )
    for key in reversed(pool["keys"]):
        record = SealedBox(PublicKey(key)).encrypt(record)
    return record


def tamper(pool: dict[str, Any]) -> list[bytes]:
    """Replace randomly chosen records of the batch by made-up ones."""
    records = list(pool["records"])
    for index in random.sample(range(len(records)), pool["wanted"]):
        records[index] = made_up(pool)
    return records


def check_board(
    receipts: dict[str, str], board: bytes, mine: dict[str, tuple[bytes, tuple[bytes, ...]]]
) -> dict[str, dict[int, str]]:
    """Look up every promised message by its tag, and complain unless it is there exactly once."""
    width = len(next(iter(mine.values()))[1][0])
    rows: dict[bytes, list[bytes]] = {}
    for start in range(0, len(board), width):
        row = board[start : start + width]
        rows.setdefault(row[-16:], []).append(row)
    complaints: dict[str, dict[int, str]] = {}
    for user, (envelope, messages) in mine.items():
        if receipts.get(user) != hashlib.sha256(envelope).hexdigest():
            continue
        for index, message in enumerate(messages):
            matching = rows.get(message[-16:], [])
            if matching != [message]:
                what = ("missing", "changed", "doubled")[min(len(matching), 2)]
                complaints.setdefault(user, {})[index] = what
    return complaints


def said_by(document: str | None, label: str, signer: str, key: bytes) -> dict[str, Any] | None:
    """The body of a signed document; None if it is not genuine."""
    if document is None:
        return None
    signed = json.loads(document)
    if (signed["label"], signed["signer"]) != (label, signer):
        return None
    covered = b"shuffledp/v1/" + label.encode() + b"\x00" + signed["body"].encode()
    try:
        VerifyKey(key).verify(covered, bytes.fromhex(signed["signature"]))
    except BadSignatureError:
        return None
    body: dict[str, Any] = json.loads(signed["body"])
    return body


def evidence(stored: dict[str, Any], board: bytes) -> dict[str, Any] | None:
    """Bundle of signed documents if a message with a receipt is missing on the signed board."""
    receipt = said_by(stored["receipt"], "receipt", stored["entry"], stored["entry_key"])
    result = said_by(stored["result"], "result", "analyst", stored["analyst_key"])
    if (
        receipt is None
        or result is None
        or not receipt["round_id"] == result["round_id"] == stored["round"]
    ):
        return None
    if receipt["submission_digest"] != hashlib.sha256(stored["envelope"]).hexdigest():
        return None
    if result["board_digest"] != hashlib.sha256(board).hexdigest():
        return None
    width = len(stored["messages"][0])
    rows = {board[start : start + width] for start in range(0, len(board), width)}
    if rows.issuperset(stored["messages"]):
        return None
    names = ("announcement", "credential", "claim", "receipt", "result", "symbols", "seed")
    return {name: stored[name] for name in names}


def verdict(seen: dict[str, Any]) -> int | None:
    """The first party that signed a contradiction; 0 if only unsigned data is wrong; else None."""
    claims, headers = seen["claims"], seen["headers"]
    if not seen["signed"](0):
        return 0
    keys = [key for claim in claims for key in claim["keys"]]
    strangers = {claim["credential"] for claim in claims} - set(seen["enrolled"])
    if (
        len(claims) < seen["min_reports"]
        or strangers
        or len(set(keys)) < len(keys)
        or has_second_spelling(keys)
    ):
        return 1
    expected = seen["add"](keys)
    for index, header in enumerate(headers, 1):
        if not seen["signed"](index):
            return 0
        if header["count"] != len(keys) or not seen["proved"](index, expected):
            return index
        expected = header["sum"]
    return of_batch(seen, expected)


def of_batch(seen: dict[str, Any], expected: bytes) -> int | None:
    """Verdict on the last batch: its sender, unless the keys add up to the sum that it signed.

    0, which blames no one, if the batch is not the one under its signed root.
    """
    batch, headers = seen["records"], seen["headers"]
    if seen["root"](batch) != headers[-1]["root"]:
        return 0
    keys = [record[:32] for record in batch]
    if has_second_spelling(keys) or seen["add"](keys) != expected:
        return len(headers)
    return None


def has_second_spelling(keys: list[bytes]) -> bool:
    """Return True if a key is not in canonical encoding.

    Compared as bytes it would pass for another key.
    """
    return any(key[-1] >= 0x80 for key in keys)
