"""Answers of this project's Python code to the test vectors.

    PYTHONPATH=tests/client:tests/vectors python tests/vectors/vector_answers.py

reads cases on standard input, as vector_runner.py writes them.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import hpke_by_hand
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from vector_world import coins

from shuffledp_client.board import check_board, check_result
from shuffledp_client.encoding import symbols
from shuffledp_client.policy import Policy
from shuffledp_client.receipts import check_tile
from shuffledp_client.submission import Member, PreparedSubmission, check_receipt, seal
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core.documents import models
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.models import Party, Result, Roster
from shuffledp_core.documents.signatures import check_signature
from shuffledp_core.documents.signed import Document, Signed, from_json, to_json, verify
from shuffledp_core.documents.submission import SubmissionClaim, check_submission
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import MalformedDocumentError, ShuffleDPError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.mixproof.claiming import enrolled_claim, pack_claim
from shuffledp_core.mixproof.claims import make_claim
from shuffledp_core.mixproof.group import GENERATOR, element, multiply, scalar
from shuffledp_core.mixproof.keys import Route
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, open_envelope, peel
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import ROOT
from shuffledp_core.sampling import exact
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.transparency.logged import read_remembered
from shuffledp_core.vocabulary import Mix

Fields = dict[str, Any]

LABELS: Final[dict[str, type[Document]]] = {
    model.label: model
    for model in (
        models.Roster, models.Credential, models.Withdrawals, models.Certificate, models.RoundKey,
        models.Manifest, models.Countersignature, models.Receipt, models.BatchHeader,
        models.Discard, models.Result, SubmissionClaim,
    )
}  # fmt: skip


class _Specified(msgspec.Struct, forbid_unknown_fields=True):
    mechanism: Mechanism


def _mechanism(value: Any) -> Mechanism:
    return from_json(json.dumps({"mechanism": value}), _Specified).mechanism


def _integers(fields: Fields) -> RandomIntegers:
    return RandomIntegers(coins(bytes.fromhex(fields["coins"])))


def _roster(fields: Fields) -> Roster:
    signed = Signed.from_bytes(fields["roster"].encode())
    return verify(signed, Roster, ROOT, bytes.fromhex(fields["root_key"]))


def answer_signature(fields: Fields) -> Fields:
    """Check a bare Ed25519 signature."""
    check_signature(*(bytes.fromhex(fields[name]) for name in ("key", "signature", "message")))
    return {}


def answer_document(fields: Fields) -> Fields:
    """Verify one signed document."""
    signed = Signed.from_bytes(fields["document"].encode("utf-8", "surrogatepass"))
    verify(signed, LABELS[fields["label"]], fields["signer"], bytes.fromhex(fields["key"]))
    return {"digest": document_digest(signed)}


def answer_round(fields: Fields) -> Fields:
    """Check a round as a device does before it touches the value."""
    limits = fields["policy"]
    policy = Policy(**{**limits, "epsilon_corrupted": float(limits["epsilon_corrupted"])})
    roster, kept = _roster(fields), fields.get("remembered")
    round_ = verify_round(
        parse_announcement(fields["announcement"].encode()),
        roster,
        policy,
        fields["population"],
        fields["now"],
        fields["round_id"],
        None if kept is None else read_remembered(kept.encode(), roster),
    )
    log = round_.log and {
        "size": round_.log.checkpoint.size,
        "witnesses": list(round_.log.witnesses),
    }
    return {
        **({"log": log} if log else {}),
        "round_id": round_.round_id,
        "mechanism": round_.mechanism.kind,
        "entry": round_.entry.name,
        "certificate_digest": round_.certificate_digest,
        "geometry": json.loads(to_json(round_.geometry)),
    }


def answer_wording(fields: Fields) -> Fields:
    """Read a question in words, name its symbols, and find those of records.

    null is the symbol of a record that has none.
    """
    wording = from_json(fields["wording"], QuestionWording)
    names = {"names": list(wording.names())}
    if "records" not in fields:
        return names
    symbols: list[int | None] = []
    for record in json.loads(fields["records"]):
        try:
            symbols.append(wording.locate_record(record))
        except ValueError:
            symbols.append(None)
    return names | {"symbols": symbols}


def answer_rounding(fields: Fields) -> Fields:
    """Round answers to magnitudes at random, one after another from one stream."""
    magnitudes = from_json(json.dumps(fields["symbols"]), SymbolMagnitudes)
    integers = _integers(fields)
    symbols: list[int | None] = []
    for number in fields["answers"]:
        try:
            symbols.append(magnitudes.locate(number, integers))
        except ValueError:
            symbols.append(None)
    return {"symbols": symbols, "next": integers.below(2**32)}


def answer_seal(fields: Fields) -> Fields:
    """Seal one layer with a given ephemeral key.

    The HPKE suites of the project take none, so that the answer is the RFC's, by hand.
    """
    public_key, plaintext, ephemeral = (
        bytes.fromhex(fields[name]) for name in ("public_key", "plaintext", "ephemeral")
    )
    info = binding(fields["round_id"], fields["position"])
    if fields["suite"] == "sealed-box":
        sealer = suite_named("sealed-box").sealer(public_key, info, lambda _: ephemeral)
        return {"sealed": sealer(plaintext).hex()}
    given = fields.get("encapsulation")
    pair = given and (bytes.fromhex(given["ciphertext"]), bytes.fromhex(given["secret"]))
    sealed = hpke_by_hand.seal(fields["suite"], public_key, info, plaintext, ephemeral, pair)
    return {"sealed": sealed.hex()}


def answer_open(fields: Fields) -> Fields:
    """Open one layer, as a node does."""
    opener = suite_named(fields["suite"]).opener(
        bytes.fromhex(fields["private_key"]), binding(fields["round_id"], fields["position"])
    )
    return {"plaintext": opener(bytes.fromhex(fields["sealed"])).hex()}


def answer_envelope(fields: Fields) -> Fields:
    """Open an envelope and all its onions, as the nodes do one after another."""
    geometry = msgspec.convert(fields["geometry"], Geometry)
    keys = [bytes.fromhex(key) for key in fields["private_keys"]]
    round_id = fields["round_id"]
    packed = open_envelope(geometry, round_id, keys[0], bytes.fromhex(fields["envelope"]))
    for position in range(2, geometry.hops + 1):
        packed = peel(geometry, round_id, position, keys[position - 1], packed)
    width = geometry.plain_bytes
    messages = [packed[start : start + width].hex() for start in range(0, len(packed), width)]
    return {"messages": messages}


def answer_seeded(fields: Fields) -> Fields:
    """Seal symbols with tags and ephemeral keys from a seed, in the suite that can."""
    geometry = msgspec.convert(fields["geometry"], Geometry)
    keys = [bytes.fromhex(key) for key in fields["public_keys"]]
    packed = bytes.fromhex(fields["symbols"])
    envelope = seal(geometry, fields["round_id"], keys, packed, bytes.fromhex(fields["seed"]))
    return {"envelope": envelope.hex()}


def answer_geometry(fields: Fields) -> Fields:
    """All lengths of a round of a mechanism."""
    mechanism = _mechanism(fields["mechanism"])
    try:
        mix = Mix(fields.get("mix", Mix.PLAIN))
        geometry = Geometry.of(mechanism, fields["suite"], fields["hops"], mix)
    except ValueError as error:
        raise MalformedDocumentError(str(error)) from error
    return {
        "geometry": json.loads(to_json(geometry)),
        "domain": mechanism.domain,
        "alphabet": mechanism.alphabet,
        "plain_bytes": geometry.plain_bytes,
        "record_bytes": [
            geometry.record_bytes(position) for position in range(2, geometry.hops + 2)
        ],
        "envelope_bytes": geometry.envelope_bytes,
    }


def answer_integers(fields: Fields) -> Fields:
    """Uniform integers below given bounds, one after another from one stream."""
    integers = _integers(fields)
    return {"draws": [str(integers.below(int(bound))) for bound in fields["bounds"]]}


def answer_sample(fields: Fields) -> Fields:
    """Randomise a value, then encode the answer, from one stream."""
    mechanism, integers = _mechanism(fields["mechanism"]), _integers(fields)
    randomised = randomise(mechanism, fields["value"], integers)
    sent = symbols(mechanism, randomised, integers)
    return {"answer": randomised, "symbols": sent, "next": integers.below(2**32)}


LAWS: Final[dict[str, Callable[..., int]]] = {
    "bernoulli": exact.bernoulli,
    "bernoulli_exp": exact.bernoulli_exp,
    "geometric": exact.geometric,
    "discrete_laplace": exact.discrete_laplace,
    "bounded_laplace": exact.bounded_laplace,
    "geometric_share": exact.geometric_share,
    "sgdl": exact.sgdl,
}
"""Samplers from which mechanisms are made."""


class _Rational(msgspec.Struct, forbid_unknown_fields=True):
    rational: Fraction


def answer_law(fields: Fields) -> Fields:
    """Draws of one exact sampler, one after another from one stream."""
    integers = _integers(fields)
    rational = from_json(json.dumps({"rational": fields["rational"]}), _Rational).rational
    whole = [] if fields.get("whole") is None else [fields["whole"]]
    law = LAWS[fields["law"]]
    draws = [int(law(rational, *whole, integers)) for _ in range(fields["count"])]
    return {"draws": draws, "next": integers.below(2**32)}


def answer_numbers(fields: Fields) -> Fields:
    """Compute what a device holds against a certificate: ε_L, and δ of two datasets."""
    mechanism = _mechanism(fields["mechanism"])
    local = mechanism.local_epsilon(fields["distance"])
    witness = mechanism.witness(fields["honest"], fields["distance"])
    return {
        "local_epsilon": local if math.isfinite(local) else None,
        "attained_delta": (
            None if witness is None else witness.attained_delta(float(fields["epsilon"]))
        ),
    }


def answer_claim(fields: Fields) -> Fields:
    """Sign a claim over an envelope."""
    credential = Signed.from_bytes(fields["credential"].encode())
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(fields["private_key"]))
    identity = Member.of(key, credential).identity()
    claim = SubmissionClaim(
        round_id=fields["round_id"],
        credential=identity.name,
        envelope_digest=digest(bytes.fromhex(fields["envelope"])),
    )
    return {"claim": identity.sign(claim).to_bytes().decode()}


def answer_submission(fields: Fields) -> Fields:
    """Check a submission as the entry node does, but for the list of withdrawals."""
    credential = check_submission(
        fields["round_id"],
        fields["population"],
        bytes.fromhex(fields["enrolment_key"]),
        Signed.from_bytes(fields["credential"].encode()),
        Signed.from_bytes(fields["claim"].encode()),
        bytes.fromhex(fields["envelope"]),
    )
    return {"credential": credential}


def _submission(fields: Fields) -> PreparedSubmission:
    """What a device keeps of a submission, as far as checks need it."""
    nothing = Signed(label="", signer="", body="", signature="")
    claim = msgspec.structs.replace(nothing, signer=fields.get("credential", ""))
    return PreparedSubmission(
        deployment=fields["deployment"],
        round_id=fields["round_id"],
        entry=fields["entry"],
        geometry=msgspec.convert(fields["geometry"], Geometry),
        certificate_digest=fields["certificate_digest"],
        closes_at=0,
        envelope=bytes.fromhex(fields.get("envelope", "")),
        claim=claim,
        credential=nothing,
        symbols=b"",
        seed=b"",
        board=bytes.fromhex("".join(fields["messages"])),
    )


def answer_receipt(fields: Fields) -> Fields:
    """Check that a receipt is for exactly this submission."""
    entry = Party(
        name=fields["entry"], role="node", operator="", address="", identity_key=fields["key"]
    )
    blank = {"deployment": "", "certificate_digest": "", "messages": []}
    geometry = {"suite": "hpke", "hops": 2, "messages_per_user": 1, "symbol_bytes": 1}
    submission = _submission({**fields, **blank, "geometry": geometry})
    check_receipt(submission, entry, Signed.from_bytes(fields["receipt"].encode()))
    return {}


def answer_result(fields: Fields) -> Fields:
    """Check a round's result, and that the board has the device's messages and gives the answer."""
    roster = _roster(fields)
    submission = _submission(fields["submission"])
    result = check_result(submission, roster, Signed.from_bytes(fields["result"].encode()))
    board = bytes.fromhex(fields["board"])
    check_board(result, submission.geometry, board, [submission.messages])
    return {"accepted": result.result.accepted, "epsilon": result.final.epsilon.certified}


def answer_tile(fields: Fields) -> Fields:
    """Check a tile, and that it has the device's messages that belong into it."""
    root = fields["tiles_root"]
    result = Result(
        deployment="demo",
        round_id="",
        outcome="published",
        messages=fields["count"],
        tiles_root=msgspec.UNSET if root is None else root,
    )
    geometry = msgspec.convert(fields["geometry"], Geometry)
    mine = [bytes.fromhex(message) for message in fields["messages"]]
    tile = bytes.fromhex(fields["tile"])
    return {"found": check_tile(result, geometry, fields["index"], tile, mine)}


def answer_element(fields: Fields) -> Fields:
    """Decode a group element, and multiply it by scalars."""
    point = element(bytes.fromhex(fields["element"]))
    factors = [scalar(bytes.fromhex(packed)) for packed in fields["scalars"]]
    return {"multiples": [multiply(factor, point).hex() for factor in factors]}


def answer_verified_claim(fields: Fields) -> Fields:
    """Seal symbols for a verified round and claim them, with given randomness."""
    blinding, opening = (
        tuple(element(bytes.fromhex(key)) for key in fields[name])
        for name in ("blinding", "opening")
    )
    width = fields["symbol_bytes"]
    terms = MixTerms(
        manifest=bytes.fromhex(fields["manifest_digest"]),
        route=Route((GENERATOR, *blinding), opening),
        identities=(),
        messages_per_user=len(fields["symbols"]),
        symbol_bytes=width,
        alphabet=256**width,
        min_reports=1,
        max_reports=1,
    )
    source = io.BytesIO(bytes.fromhex(fields["random"]))
    private_key = bytes.fromhex(fields["private_key"])
    prepared = make_claim(terms, fields["symbols"], private_key, source.read)
    credential = Signed.from_bytes(fields["credential"].encode())
    return {
        "claim": pack_claim(enrolled_claim(prepared.claim, credential)).hex(),
        "submission": prepared.submission.hex(),
        "messages": [message.hex() for message in prepared.messages],
    }


ANSWERS: Final[dict[str, Callable[[Fields], Fields]]] = {
    "signature": answer_signature,
    "document": answer_document,
    "round": answer_round,
    "wording": answer_wording,
    "rounding": answer_rounding,
    "seal": answer_seal,
    "open": answer_open,
    "envelope": answer_envelope,
    "seeded": answer_seeded,
    "geometry": answer_geometry,
    "integers": answer_integers,
    "sample": answer_sample,
    "law": answer_law,
    "numbers": answer_numbers,
    "claim": answer_claim,
    "submission": answer_submission,
    "receipt": answer_receipt,
    "result": answer_result,
    "tile": answer_tile,
    "element": answer_element,
    "verified-claim": answer_verified_claim,
}


def answer(kind: str, fields: Fields) -> Fields:
    """The answer to one case."""
    try:
        return {"ok": ANSWERS[kind](fields)}
    except InvalidSignature:
        return {"error": "SignatureError"}
    except ShuffleDPError as error:
        return {"error": type(error).__name__}


def main() -> None:
    """Answer each line of standard input."""
    for line in sys.stdin:
        case = json.loads(line)
        sys.stdout.write(json.dumps(answer(case["kind"], case["input"])) + "\n")


if __name__ == "__main__":
    main()
