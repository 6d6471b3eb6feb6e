"""Documents have one spelling: of keys, names and numbers, and of the text around them."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import (
    BatchHeader,
    Credential,
    Party,
    Population,
    Receipt,
    Roster,
    RoundPlan,
    Withdrawals,
)
from shuffledp_core.documents.signed import Document, Signed, from_json, sign, to_json, verify
from shuffledp_core.errors import MalformedDocumentError

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
HEX = "ab" * 32
OTHER_SPELLINGS_OF_HEX = {
    "capitals": HEX.upper(),
    "one capital": "A" + HEX[1:],
    "spaces between bytes": "ab " * 32,
    "a leading space": " " + HEX,
    "a line end": HEX + "\n",
    "full-width letters": unicodedata.normalize("NFKC", HEX).translate(
        {ord("a"): "ａ", ord("b"): "ｂ"}
    ),
    "too short": HEX[2:],
    "too long": HEX + "ab",
}
PARTY = Party(name="node-1", role="node", operator="o", address="localhost:1", identity_key=HEX)
POPULATION = Population(name="clinic", enrolment_key="cd" * 32)


def roster(
    *parties: Party, populations: tuple[Population, ...] = (POPULATION,), deployment: str = "demo"
) -> Roster:
    return Roster(deployment=deployment, parties=parties, populations=populations, tls_authority="")


def read_again(document: Document) -> object:
    """The document as a party reads it that was sent it, signed."""
    signed = Signed.from_bytes(sign(document, "signer", KEY).to_bytes())
    return verify(signed, type(document), "signer", PUBLIC)


# ------------------------------------------------------------------ keys


@pytest.mark.parametrize("spelling", OTHER_SPELLINGS_OF_HEX.values(), ids=OTHER_SPELLINGS_OF_HEX)
def test_a_credential_and_its_withdrawal_name_a_key_in_one_way(spelling: str) -> None:
    """They are compared as text by one party and as bytes by another."""
    credential = Credential(population="clinic", public_key=HEX)
    listed = Withdrawals(population="clinic", serial=1, issued_at=1, credentials=(HEX,))
    assert read_again(credential) == credential
    assert read_again(listed) == listed
    for document in (
        msgspec.structs.replace(credential, public_key=spelling),
        msgspec.structs.replace(listed, credentials=(HEX, spelling)),
    ):
        with pytest.raises(MalformedDocumentError):
            read_again(document)


@pytest.mark.parametrize("spelling", OTHER_SPELLINGS_OF_HEX.values(), ids=OTHER_SPELLINGS_OF_HEX)
def test_every_key_of_a_roster_is_written_in_one_way(spelling: str) -> None:
    badly = msgspec.structs.replace(PARTY, identity_key=spelling)
    enrolling = msgspec.structs.replace(POPULATION, enrolment_key=spelling)
    assert read_again(roster(PARTY)) == roster(PARTY)
    for parties, populations in (((badly,), (POPULATION,)), ((PARTY,), (enrolling,))):
        with pytest.raises(MalformedDocumentError):
            read_again(roster(*parties, populations=populations))


# ------------------------------------------------------------------ names

OTHER_NAMES = {
    "composed": "n\u00e9e",
    "decomposed": "ne\u0301e",
    "a Cyrillic letter": "n\u043ede-1",
    "a zero-width space": "node\u200b-1",
    "a trailing space": "node-1 ",
    "a line end": "node-1\n",
    "no letter": "",
    "a folder": "../node-1",
    "a topic": "node/#",
    "too long": "n" * 65,
}


@pytest.mark.parametrize("name", OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_a_roster_has_no_name_that_could_be_taken_for_another(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        roster(msgspec.structs.replace(PARTY, name=name))
    with pytest.raises(ValueError, match="name"):
        roster(PARTY, populations=(Population(name=name, enrolment_key=HEX),))
    with pytest.raises(ValueError, match="name"):
        roster(PARTY, deployment=name)


def test_a_name_stands_in_a_roster_once() -> None:
    other = msgspec.structs.replace(PARTY, identity_key="ef" * 32, role="analyst")
    shouted = msgspec.structs.replace(
        other, name="Node-1"
    )  # TLS takes its certificate for the other's
    twice = (POPULATION, msgspec.structs.replace(POPULATION, name="Clinic"))
    for parties, populations in (
        ((PARTY, other), (POPULATION,)),
        ((PARTY, shouted), (POPULATION,)),
        ((PARTY,), (POPULATION, POPULATION)),
        ((PARTY,), twice),
    ):
        with pytest.raises(ValueError, match="twice"):
            roster(*parties, populations=populations)
    text = to_json(roster(PARTY)).replace(b'"parties":[', b'"parties":[' + to_json(other) + b",")
    with pytest.raises(MalformedDocumentError, match="twice"):
        from_json(text, Roster)


def test_two_parties_do_not_share_an_identity_key() -> None:
    other = msgspec.structs.replace(PARTY, name="node-2")
    with pytest.raises(ValueError, match="the same identity key"):
        roster(PARTY, other)


@pytest.mark.parametrize("name", ["client", "operator", "viewer", "gateway", "Client"])
def test_no_party_has_the_name_of_a_shared_tls_certificate(name: str) -> None:
    """All devices show one certificate, with the common name `client`: each of them would be that
    party."""
    with pytest.raises(ValueError, match="TLS certificate"):
        roster(msgspec.structs.replace(PARTY, name=name))


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**19 * 9, 10**40, -(10**40)])
def test_a_number_beyond_64_bits_is_refused_also_where_the_rest_is_as_we_write_it(
    number: int,
) -> None:
    header = BatchHeader(round_id="0" * 32, position=1, users=1, records=7777777, digest=HEX)
    data = to_json(header)
    assert from_json(data, BatchHeader) == header
    with pytest.raises(MalformedDocumentError):
        from_json(data.replace(b"7777777", str(number).encode()), BatchHeader)


@pytest.mark.parametrize(
    "spelling",
    ["1.0", "1e0", "10e-1", "01", "+1", '"1"', "true", "0x1", "1_0", "\u0661", "-0", "-00"],
)
def test_a_whole_number_has_one_spelling(spelling: str) -> None:
    text = to_json(
        BatchHeader(round_id="0" * 32, position=7777777, users=1, records=1, digest=HEX)
    ).decode()
    with pytest.raises(MalformedDocumentError):
        from_json(text.replace("7777777", spelling), BatchHeader)


def test_a_plan_that_is_spelt_otherwise_is_written_again_in_one_way() -> None:
    """The accountant and the analyst compare plans as text, after they were read and written
    again."""
    plan = RoundPlan(
        population="clinic", mechanism="rr-shuffle", size=2, epsilon=2.0, delta=0.01,
        min_reports=5, max_reports=9,
        route=("node-1", "node-2"),
    )  # fmt: skip
    text = to_json(plan).decode()
    for old, new in (
        ("2.0", "2"),
        ("2.0", "20e-1"),
        ("0.01", "1e-2"),
        ('"clinic"', '"\\u0063linic"'),
        (",", " ,\n"),
    ):
        assert old in text
        assert to_json(from_json(text.replace(old, new), RoundPlan)).decode() == text
    assert to_json(from_json(text[:-1] + ',"mix":"plain"}', RoundPlan)).decode() == text


# ------------------------------------------------------------------ the text around them


def test_a_frame_that_is_spelt_otherwise_has_the_same_digest() -> None:
    """Anybody may spell the frame anew; the signed text in it is compared as it is."""
    signed = sign(Receipt(round_id="a", credential="b", submission_digest="c"), "node-1", KEY)
    data = signed.to_bytes()
    for other in (
        data.replace(b'"label"', b'"\\u006cabel"'),
        data.replace(b"node-1", b"node\\u002d1"),
        data.replace(b",", b" ,\n", 1),
        b" " + data + b"\n",
    ):
        assert other != data
        assert document_digest(Signed.from_bytes(other)) == document_digest(signed)


@pytest.mark.parametrize("text", ["\ufeff", "\0", "//\n", "/**/", "\u00a0", "\u200b", "1"])
def test_nothing_stands_around_a_document(text: str) -> None:
    data = sign(
        Receipt(round_id="a", credential="b", submission_digest="c"), "node-1", KEY
    ).to_bytes()
    for other in (text.encode() + data, data + text.encode()):
        with pytest.raises(MalformedDocumentError):
            Signed.from_bytes(other)


@pytest.mark.parametrize(
    "text",
    [
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\xc1\xa1"',
        b'"\xff"',
        b'"\t"',
        b"'a'",
    ],
)
def test_text_that_other_readers_would_repair_is_refused(text: bytes) -> None:
    data = to_json(Receipt(round_id="a", credential="b", submission_digest="c"))
    with pytest.raises(MalformedDocumentError):
        from_json(data.replace(b'"a"', text), Receipt)


@pytest.mark.parametrize(
    "field", ["Round_id", "ROUND_ID", "round_id\u200b", "round\u2011id", "roundId"]
)
def test_a_field_has_one_name(field: str) -> None:
    data = to_json(Receipt(round_id="a", credential="b", submission_digest="c")).decode()
    with pytest.raises(MalformedDocumentError):
        from_json(data.replace("round_id", field), Receipt)
