"""Vectors of signatures and signed documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from client_rounds import POPULATION, ROUND_ID
from test_strict_signatures import ODD
from vector_cases import (
    ASKED,
    Case,
    make_case,
    mechanism_named,
    sign_text,
    text_of,
)
from vector_world import (
    identity,
    make_draft,
    make_member,
    make_roster,
)

from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    Manifest,
    Receipt,
)
from shuffledp_core.documents.signed import Document, Signed, from_json, to_json
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.runtime.keys import ROOT, Identity


def signatures() -> Iterator[Case]:
    """Bare signatures that divide libraries; docs/protocol.md, "Signed documents", step 3."""
    for name, (triple, valid) in ODD.items():
        fields = dict(
            zip(("key", "signature", "message"), (part.hex() for part in triple), strict=True)
        )
        yield make_case(name, "signature", fields, None if valid else "SignatureError")


def documents() -> Iterator[Case]:
    """Frames and bodies, in the accepted spelling and in others."""
    node = identity("node-1")
    receipt = Receipt(round_id=ROUND_ID, credential="ab" * 32, submission_digest="cd" * 32)
    signed = node.sign(receipt)
    body, frame = signed.body, text_of(signed)

    def case(name: str, document: Signed | str, error: str | None = None, **changes: Any) -> Case:
        fields = {
            "document": document if isinstance(document, str) else text_of(document),
            "label": "receipt",
            "signer": "node-1",
            "key": node.public_key.hex(),
        }
        return make_case(name, "document", fields | changes, error)

    yield case("a receipt", signed)
    for document, signer in all_documents():
        yield case(
            f"a {document.label}",
            signer.sign(document),
            label=document.label,
            signer=signer.name,
            key=signer.public_key.hex(),
        )
    yield case("another label", signed, "ForeignDocumentError", label="discard")
    yield case("another signer", signed, "ForeignDocumentError", signer="node-2")
    other_key = identity("node-2").public_key.hex()
    yield case("another key", signed, "SignatureError", key=other_key)
    altered = body.replace("ab", "ac", 1)
    changed = msgspec.structs.replace(signed, body=altered)
    yield case("one digit of the body", changed, "SignatureError")
    renamed = sign_text(node, "discard", body)
    relabelled = msgspec.structs.replace(renamed, label="receipt")
    yield case("a signature under another label", relabelled, "SignatureError")
    for name, signature in {
        "a signature in capitals": signed.signature.upper(),
        "a signature with a space": signed.signature[:64] + " " + signed.signature[64:],
        "a signature cut short": signed.signature[:-2],
        "no signature": "",
    }.items():
        yield case(name, msgspec.structs.replace(signed, signature=signature), "SignatureError")
    malformed = "MalformedDocumentError"
    spaced = json.dumps(json.loads(frame), indent=1)
    yield case("a frame with white space, whose digest is the same", spaced)
    escaped = frame.replace('"receipt"', '"\\u0072eceipt"')
    yield case("a frame with an escape, whose digest is the same", escaped)
    yield case("a frame with a field twice", frame[:-1] + ',"signer":"node-1"}', malformed)
    yield case("a frame with an unknown field", frame[:-1] + ',"more":1}', malformed)
    yield case("a frame without a field", frame.replace('"signer":"node-1",', ""), malformed)
    yield case("a frame with trailing bytes", frame + "x", malformed)
    yield case("a frame with a byte order mark", "\ufeff" + frame, malformed)
    yield case("a frame that is a list", f"[{frame}]", malformed)
    yield case("no frame", "", malformed)
    yield from bodies(case)
    yield from malformed_keys_and_rationals(case)
    yield from malformed_rosters(case)


def bodies(case: Callable[..., Case]) -> Iterator[Case]:
    """Bodies under genuine signatures."""
    node = identity("node-1")
    body = node.sign(
        Receipt(round_id=ROUND_ID, credential="ab" * 32, submission_digest="cd" * 32)
    ).body
    malformed = "MalformedDocumentError"

    def with_body(name: str, text: str, error: str | None = malformed) -> Case:
        return case(name, sign_text(node, "receipt", text), error)

    yield with_body("a body with white space, signed so", body.replace(",", ", "), None)
    yield with_body("a body with a field twice", body[:-1] + f',"round_id":"{ROUND_ID}"}}')
    yield with_body("a body with an unknown field", body[:-1] + ',"more":1}')
    yield with_body("a body without a field", '{"version":1}')
    yield with_body("another version", body.replace('"version":1', '"version":2'))
    yield with_body("a version as text", body.replace('"version":1', '"version":"1"'))
    yield with_body("a version with a fraction", body.replace('"version":1', '"version":1.0'))
    yield with_body("a version with an exponent", body.replace('"version":1', '"version":1e0'))
    yield with_body("a version with a leading zero", body.replace('"version":1', '"version":01'))
    yield with_body("a version that is true", body.replace('"version":1', '"version":true'))
    yield with_body("a body with null for text", body.replace(f'"{ROUND_ID}"', "null"))
    yield with_body("a body with trailing bytes", body + " {}")
    yield with_body("a body that is a list", f"[{body}]")
    yield with_body("a body with a trailing comma", body[:-1] + ",}")
    yield with_body("a body with a comment", body[:-1] + "/**/}")
    yield with_body("a body with a control character", body.replace("ab", "a\x01", 1))
    yield with_body("a body with half of a surrogate pair", body.replace("ab", "\\ud800", 1))
    header = to_json(
        BatchHeader(round_id=ROUND_ID, position=2, users=3, records=12, digest="ab" * 32)
    ).decode()

    def with_header(name: str, text: str, error: str | None = malformed) -> Case:
        return case(name, sign_text(node, "batch", text), error, label="batch")

    yield with_header(
        "the largest whole number", header.replace('"users":3', f'"users":{2**64 - 1}'), None
    )
    yield with_header(
        "the least whole number", header.replace('"users":3', f'"users":-{2**63}'), None
    )
    yield with_header(
        "a whole number above 64 bits", header.replace('"users":3', f'"users":{2**64}')
    )
    yield with_header(
        "a whole number below 64 bits", header.replace('"users":3', f'"users":-{2**63 + 1}')
    )
    yield with_header("a whole number 0 with a sign", header.replace('"users":3', '"users":-0'))


def all_documents() -> Iterator[tuple[Document, Identity]]:
    """A document of every kind that devices read, and its signer."""
    draft = make_draft(ASKED)
    announced = draft.announcement()
    manifest = from_json(announced.manifest.body, Manifest)
    yield make_roster(), Identity(ROOT, identity(ROOT).key)
    yield from_json(manifest.certificate.body, Certificate), identity("accountant")
    yield manifest, identity("analyst")
    member = make_member("alice")
    claim = SubmissionClaim(
        round_id=ROUND_ID, credential=member.identity().name, envelope_digest="cd" * 32
    )
    yield claim, member.identity()


def malformed_keys_and_rationals(case: Callable[..., Case]) -> Iterator[Case]:
    """Spellings of keys and of parameters."""
    malformed = "MalformedDocumentError"
    enrolment = Identity(POPULATION, identity("enrolment").key)
    member = make_member("alice")
    body = member.credential.body
    named = {"label": "credential", "signer": POPULATION, "key": enrolment.public_key.hex()}
    key = member.identity().name

    def with_key(name: str, spelled: str, error: str | None = malformed) -> Case:
        text = body.replace(key, spelled)
        return case(name, sign_text(enrolment, "credential", text), error, **named)

    yield with_key("a credential", key, None)
    yield with_key("a key in capitals", key.upper())
    yield with_key("a key with a space", f" {key}")
    yield with_key("a key that is too short", key[2:])
    accountant = identity("accountant")
    certificate = make_draft(ASKED).signed_certificate().body
    named = {"label": "certificate", "signer": "accountant", "key": accountant.public_key.hex()}

    def with_certificate(name: str, old: str, new: str, error: str | None = malformed) -> Case:
        text = certificate.replace(old, new)
        if text == certificate:
            raise AssertionError(name)
        return case(name, sign_text(accountant, "certificate", text), error, **named)

    for spelled in ("2/4", "0.5", "1/0", "-1/2", "+1/2", "1/2 ", "01/2", "1", "0/1", "3/2"):
        yield with_certificate(f"the rational {spelled!r}", '"1/2"', f'"{spelled}"')
    yield with_certificate("a rational that is a number", '"1/2"', "0.5")
    large = 2**63 + 1
    yield with_certificate("a rational with a large denominator", '"1/2"', f'"1/{large}"')
    yield with_certificate("an unknown mechanism", '"krr-histogram"', '"krr-histogramm"')
    yield with_certificate("a mechanism without its name", '"mechanism":"krr-histogram",', "")
    yield with_certificate("a mechanism with an unknown field", '"symbols":4', '"symbols":4,"a":1')
    yield with_certificate("one symbol", '"symbols":4', '"symbols":1')
    yield with_certificate("too many symbols", '"symbols":4', f'"symbols":{2**31}')
    yield with_certificate("symbols that are true", '"symbols":4', '"symbols":true')
    yield with_certificate("an unknown adjacency", '"standard"', '"other"')
    yield with_certificate("a number beyond a float", '"delta":1e-6', '"delta":1e400')
    yield with_certificate("a number that is none", '"delta":1e-6', '"delta":NaN')
    yield with_certificate("a truth value that is a number", '"holds":true', '"holds":1')
    counted = json.loads(make_draft(mechanism_named("node-columns")).signed_certificate().body)
    counted["mechanism"] |= {"columns": [2**18, 3], "symbols": 3 * 2**18, "mean": 2**13}
    signed = sign_text(accountant, "certificate", json.dumps(counted))
    yield case("more dummies in columns than 31 bits count", signed, malformed, **named)
    yield with_certificate(
        "mixing that is plain, by a field", '"dropped":0', '"mix":"plain","dropped":0'
    )


def malformed_rosters(case: Callable[..., Case]) -> Iterator[Case]:
    """Names and keys that could be mistaken for each other."""
    root = identity(ROOT)
    named = {"label": "roster", "signer": ROOT, "key": root.public_key.hex()}
    text = to_json(make_roster()).decode()
    first = f'"{identity("node-1").public_key.hex()}"'
    second = f'"{identity("node-2").public_key.hex()}"'
    for name, old, new in (
        ("two parties of one name", '"name":"node-2"', '"name":"node-1"'),
        ("two names that differ in case", '"name":"node-2"', '"name":"Node-1"'),
        ("two parties with one key", second, first),
        ("a party with the name of a TLS certificate", '"name":"node-2"', '"name":"gateway"'),
        ("a party with a folder as name", '"name":"node-2"', '"name":"../node-2"'),
        ("a party with a line end in its name", '"name":"node-2"', '"name":"node-2\\n"'),
        ("a deployment without a name", '"deployment":"demo"', '"deployment":""'),
        ("an identity key in capitals", first, first.upper()),
    ):
        changed = text.replace(old, new)
        if changed == text:
            raise AssertionError(name)
        signed = sign_text(Identity(ROOT, root.key), "roster", changed)
        yield case(name, signed, "MalformedDocumentError", **named)
