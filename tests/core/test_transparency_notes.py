"""Signed notes and checkpoints, and what is refused of them."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.errors import MalformedDocumentError, SignatureError
from shuffledp_core.transparency.notes import (
    Checkpoint,
    NoteKey,
    check_note,
    parse_checkpoint,
    parse_note,
    sign_note,
)

SIGNER = Ed25519PrivateKey.generate()
KEY = NoteKey("shuffledp-ledger/demo", SIGNER.public_key().public_bytes_raw())
TEXT = Checkpoint(KEY.name, 7, bytes(range(32))).to_text()
NOTE = sign_note(TEXT, KEY, SIGNER.sign)


def test_a_signed_checkpoint_reads_back() -> None:
    assert check_note(parse_note(NOTE.encode()), KEY) == TEXT
    assert parse_checkpoint(TEXT) == Checkpoint(KEY.name, 7, bytes(range(32)))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (NOTE.replace("\n7\n", "\n8\n"), SignatureError),
        (NOTE.replace("ledger/demo ", "ledger/other "), SignatureError),
        (NOTE.replace("\n\n", "\n"), MalformedDocumentError),
        (NOTE.removesuffix("\n"), MalformedDocumentError),
        (NOTE.replace("\N{EM DASH}", "-"), MalformedDocumentError),
        (NOTE.replace("\n7\n", "\n7\r\n"), MalformedDocumentError),
        (NOTE + "\N{EM DASH} name \n", MalformedDocumentError),
        (NOTE + "\N{EM DASH} name AAAA!AAAA\n", MalformedDocumentError),
        (NOTE + 101 * "\N{EM DASH} name AAAAAAAA\n", MalformedDocumentError),
        (NOTE + 70_000 * "x", MalformedDocumentError),
    ],
)
def test_a_changed_note_is_refused(changed: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_note(parse_note(changed.encode()), KEY)


def test_a_note_of_bytes_that_are_no_text_is_refused() -> None:
    with pytest.raises(MalformedDocumentError, match="UTF-8"):
        parse_note(b"\xff\n\n\n")


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n7\n", "\n07\n"),
        TEXT.replace("\n7\n", "\n-7\n"),
        TEXT.replace("\n7\n", "\n1" + 19 * "0" + "\n"),
        TEXT + "an extension\n",
        TEXT.replace("Hh8=", "Hh9="),  # the same bytes to a lenient decoder
        TEXT.replace("Hh8=", "Hg=="),
        TEXT.replace("ledger/demo", "ledger demo"),
    ],
)
def test_only_the_one_spelling_of_a_checkpoint_is_read(text: str) -> None:
    assert text != TEXT
    with pytest.raises(MalformedDocumentError):
        parse_checkpoint(text)


def test_a_key_s_name_has_no_space_and_no_plus() -> None:
    for name in ("", "two words", "a+b", 300 * "x"):
        with pytest.raises(ValueError, match="name"):
            NoteKey(name, KEY.public_key)
