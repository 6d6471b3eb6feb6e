"""Signed documents: verify first, parse after, one typed error for everything else."""

from fractions import Fraction

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Credential, Party, Receipt, RoundPlan
from shuffledp_core.documents.signed import Signed, from_json, sign, to_json, verify
from shuffledp_core.documents.submission import SubmissionClaim, check_submission
from shuffledp_core.errors import (
    DocumentError,
    ForeignDocumentError,
    InvalidSubmissionError,
    MalformedDocumentError,
    ShuffleDPError,
    SignatureError,
    UnknownCredentialError,
)
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism, RRShuffle, SGDLShuffle
from shuffledp_core.runtime.keys import verify_from

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
RECEIPT = Receipt(round_id="aa", credential="bb", submission_digest="cc")


def test_what_was_signed_is_what_is_read() -> None:
    signed = Signed.from_bytes(sign(RECEIPT, "node-1", KEY).to_bytes())
    assert verify(signed, Receipt, "node-1", PUBLIC) == RECEIPT


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_in_the_frame_is_noticed(position: int, bit: int) -> None:
    data = bytearray(sign(RECEIPT, "node-1", KEY).to_bytes())
    data[position % len(data)] ^= 1 << bit
    try:
        signed = Signed.from_bytes(bytes(data))
    except MalformedDocumentError:
        return
    with pytest.raises(DocumentError):
        verify(signed, Receipt, "node-1", PUBLIC)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_typed_error(data: bytes) -> None:
    with pytest.raises(MalformedDocumentError):
        Signed.from_bytes(data)


def test_a_signature_under_another_label_means_nothing() -> None:
    signed = sign(RECEIPT, "node-1", KEY)
    with pytest.raises(ForeignDocumentError):
        verify(signed, Credential, "node-1", PUBLIC)
    relabelled = msgspec.structs.replace(signed, label="credential")
    with pytest.raises(SignatureError):
        verify(relabelled, Credential, "node-1", PUBLIC)


def test_another_key_and_another_signer_are_refused() -> None:
    signed = sign(RECEIPT, "node-1", KEY)
    with pytest.raises(SignatureError, match="altered, or signed by another key"):
        verify(
            signed, Receipt, "node-1", Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        )
    with pytest.raises(ForeignDocumentError, match="node-2"):
        verify(signed, Receipt, "node-2", PUBLIC)


def test_an_unknown_field_or_version_is_malformed_though_well_signed() -> None:
    for body in (
        '{"round_id":"a","credential":"b","submission_digest":"c","extra":1}',
        '{"version":2,"round_id":"a","credential":"b","submission_digest":"c"}',
    ):
        covered = b"shuffledp/v1/receipt\x00" + body.encode()
        signed = Signed(label="receipt", signer="n", body=body, signature=KEY.sign(covered).hex())
        with pytest.raises(MalformedDocumentError):
            verify(signed, Receipt, "n", PUBLIC)


def test_a_signature_can_be_written_in_one_way_only() -> None:
    signed = sign(RECEIPT, "node-1", KEY)
    for other in (
        signed.signature.upper(),
        f" {signed.signature}",
        signed.signature + "\n",
        signed.signature + "00",
    ):
        with pytest.raises(SignatureError):
            verify(msgspec.structs.replace(signed, signature=other), Receipt, "node-1", PUBLIC)


def well_signed(body: str) -> Signed:
    covered = b"shuffledp/v1/receipt\x00" + body.encode()
    return Signed(label="receipt", signer="n", body=body, signature=KEY.sign(covered).hex())


def test_a_field_that_stands_twice_is_refused_in_frame_and_body() -> None:
    with pytest.raises(MalformedDocumentError, match="twice"):
        Signed.from_bytes(
            b'{"label":"x","label":"receipt","signer":"n","body":"{}","signature":""}'
        )
    body = '{"round_id":"a","\\u0072ound_id":"z","credential":"b","submission_digest":"c"}'
    with pytest.raises(MalformedDocumentError, match="twice"):
        verify(well_signed(body), Receipt, "n", PUBLIC)
    nested = '{"mechanism":"rr-shuffle","max_value":3,"max_value":4,"randomise":"1/3"}'
    with pytest.raises(MalformedDocumentError, match="twice"):
        from_json(f'{{"mechanism":{nested}}}', Holder)


@pytest.mark.parametrize(
    "number", ["1" + "0" * 40, "-" + "9" * 4000, "9" * 5000, "1e400", "NaN", "1.5", "Infinity"]
)
def test_a_number_that_no_machine_counts_with_is_malformed(number: str) -> None:
    with pytest.raises(MalformedDocumentError):
        from_json(
            f'{{"round_id":"a","position":1,"users":{number},"records":1,"digest":"d"}}',
            BatchHeader,
        )


def test_bytes_that_are_no_text_and_endless_nesting_are_malformed() -> None:
    for data in (
        b'{"label":"\xff\xfe"}',
        b'{"label":' + b"[" * 100_000,
        b'{"x":' * 100_000,
        b'{"label":"\\ud800"}',
    ):
        with pytest.raises(MalformedDocumentError):
            Signed.from_bytes(data)
    with pytest.raises(MalformedDocumentError):
        verify(well_signed('{"round_id":' + "[" * 100_000), Receipt, "n", PUBLIC)


def test_a_roster_whose_key_is_no_key_is_a_typed_error() -> None:
    for key in ("zz", "00", "00" * 31):
        party = Party(name="n", role="node", operator="o", address="a:1", identity_key=key)
        with pytest.raises(ShuffleDPError, match="identity key"):
            verify_from(party, sign(RECEIPT, "n", KEY), Receipt)


class Holder(msgspec.Struct):
    mechanism: Mechanism


SPECS: list[Mechanism] = [
    KRRHistogram(symbols=10, blanket=Fraction(1, 3)),
    RRShuffle(max_value=20, randomise=Fraction(1, 10)),
    GeoShuffle(max_value=20, epsilon_geo=Fraction(3, 7), padding=12),
    SGDLShuffle(max_value=20, noise_epsilon=Fraction(1, 20), shares=900, padding=300),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_a_mechanism_survives_json_exactly(spec: Mechanism) -> None:
    assert from_json(to_json(Holder(spec)), Holder).mechanism == spec


@pytest.mark.parametrize(
    "text",
    [
        '{"mechanism":"krr-histogram","symbols":1,"blanket":"1/3"}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"4/3"}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":0.3}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"1/0"}',
        '{"mechanism":"rr-shuffle","max_value":0,"randomise":"1/3"}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"2/6"}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"\u0661/\u0663"}',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"01/3"}',
        '{"mechanism":"nope"}',
        "[]",
        "{",
        '"1/3"',
        '{"mechanism":"krr-histogram","symbols":3,"blanket":"1/99999999999999999999"}',
    ],
)
def test_a_bad_mechanism_is_one_typed_error(text: str) -> None:
    with pytest.raises(MalformedDocumentError):
        from_json(f'{{"mechanism":{text}}}', Holder)


@pytest.mark.parametrize(
    "bad",
    [
        {"min_reports": 0},
        {"min_reports": 20},
        {"colluding": 9, "min_reports": 9},
        {"route": ["a", "a"]},
        {"open_seconds": 0},
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    good = {
        "population": "p", "mechanism": "rr-shuffle", "size": 5, "epsilon": 1.0, "delta": 1e-6,
        "min_reports": 9,
        "max_reports": 10, "route": ["a", "b"],
    }  # fmt: skip
    assert from_json(msgspec.json.encode(good), RoundPlan).max_reports == 10
    with pytest.raises(MalformedDocumentError):
        from_json(msgspec.json.encode(good | bad), RoundPlan)


def test_a_submission_is_checked_against_credential_claim_round_and_bytes() -> None:
    enrolment, client, envelope = (
        Ed25519PrivateKey.generate(),
        Ed25519PrivateKey.generate(),
        b"sealed",
    )
    key, name = (
        enrolment.public_key().public_bytes_raw(),
        client.public_key().public_bytes_raw().hex(),
    )
    credential = sign(Credential(population="people", public_key=name), "people", enrolment)

    def claim(
        round_id: str = "r1",
        who: str = name,
        body: bytes = envelope,
        by: Ed25519PrivateKey = client,
    ) -> Signed:
        return sign(
            SubmissionClaim(round_id=round_id, credential=who, envelope_digest=digest(body)),
            name,
            by,
        )

    assert check_submission("r1", "people", key, credential, claim(), envelope) == name
    with pytest.raises(UnknownCredentialError):
        check_submission(
            "r1", "people", client.public_key().public_bytes_raw(), credential, claim(), envelope
        )
    forged = sign(Credential(population="others", public_key=name), "people", enrolment)
    with pytest.raises(UnknownCredentialError):
        check_submission("r1", "people", key, forged, claim(), envelope)
    for wrong in (claim("r2"), claim(who="ff"), claim(body=b"other"), claim(by=enrolment)):
        with pytest.raises(InvalidSubmissionError):
            check_submission("r1", "people", key, credential, wrong, envelope)
    with pytest.raises(InvalidSubmissionError):
        check_submission("r1", "people", key, credential, claim(), envelope + b"x")
