"""Documents and bytes of verified rounds: what is refused, and that plain rounds have none of
it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mixing_cheats import flipped
from mixing_model import World, credential_seed, honest_user, honest_users, messages

from shuffledp_core.answering.decoding import decode
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.models import (
    BatchHeader,
    Credential,
    MixingKey,
    Party,
    Population,
    RoundPlan,
    Withdrawals,
)
from shuffledp_core.documents.signed import Signed, from_json, sign, to_json
from shuffledp_core.errors import (
    BadClaimError,
    CountMismatchError,
    ForeignDocumentError,
    MalformedDocumentError,
    SignatureError,
)
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.mixproof.claiming import (
    Enrolment,
    enrolled_claim,
    pack_claim,
    read_withdrawals,
    unpack_claim,
)
from shuffledp_core.mixproof.history import History, pack_document
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import SUITES
from shuffledp_core.vocabulary import Mix

MECHANISM = RRShuffle(max_value=2, randomise=Fraction(1, 4))
GEOMETRY = Geometry.of(MECHANISM, "sealed-box", 3, Mix.VERIFIED)
PLAN = {
    "population": "clinic", "mechanism": "rr-shuffle", "size": 2, "epsilon": 1.0, "delta": 1e-6,
    "min_reports": 2,
    "max_reports": 5, "route": ("a", "b"),
}  # fmt: skip


def authority() -> tuple[Ed25519PrivateKey, Population]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x07")
    return key, Population(name="clinic", enrolment_key=key.public_key().public_bytes_raw().hex())


def credential(
    user: int = 0, expires_at: int | None = None, key: Ed25519PrivateKey | None = None
) -> Signed:
    public = (
        Ed25519PrivateKey.from_private_bytes(credential_seed(user))
        .public_key()
        .public_bytes_raw()
        .hex()
    )
    owner = Credential(population="clinic", public_key=public, expires_at=expires_at)
    return sign(owner, "clinic", key or authority()[0])


# ------------------------------------------------------------------ mix


def test_a_plain_plan_and_geometry_are_written_as_ever() -> None:
    plain = Geometry.of(MECHANISM, "sealed-box", 3)
    assert plain == Geometry.of(MECHANISM, "sealed-box", 3, Mix.PLAIN)
    assert (
        to_json(plain) == b'{"suite":"sealed-box","hops":3,"messages_per_user":2,"symbol_bytes":1}'
    )
    named, unnamed = RoundPlan(**PLAN, mix=Mix.PLAIN), RoundPlan(**PLAN)  # type: ignore[arg-type]
    assert to_json(named) == to_json(unnamed)
    assert b"mix" not in to_json(unnamed)
    assert from_json(to_json(RoundPlan(**PLAN, mix=Mix.VERIFIED)), RoundPlan).mix is Mix.VERIFIED  # type: ignore[arg-type]


@pytest.mark.parametrize("mix", ["plain", "verifyed", "", 1, None])
def test_another_mix_in_a_document_is_refused(mix: object) -> None:
    data = json.dumps(json.loads(to_json(GEOMETRY)) | {"mix": mix})
    with pytest.raises(MalformedDocumentError):
        from_json(data, Geometry)


def test_the_post_quantum_suite_has_no_verified_geometry() -> None:
    for suite in SUITES:
        if "mlkem" in suite:
            with pytest.raises(ValueError, match="discrete logarithms"):
                Geometry.of(MECHANISM, suite, 3, Mix.VERIFIED)
        else:
            Geometry.of(MECHANISM, suite, 3, Mix.VERIFIED)


def test_lengths_are_those_of_the_core() -> None:
    """A record at node 1 is as long as at node 2; the board's are without a box."""
    terms = World().terms
    assert [GEOMETRY.record_bytes(position) for position in (2, 3, 4)] == [
        terms.record_bytes(at) for at in (2, 3, 4)
    ]
    assert GEOMETRY.plain_bytes == len(honest_user(0).messages[0])
    packed_claim = pack_claim(enrolled_claim(honest_user(0).claim, credential()))
    assert GEOMETRY.claim_bytes == len(packed_claim)
    overhead = SUITES["sealed-box"].overhead
    assert GEOMETRY.envelope_bytes == len(packed_claim) + overhead + len(honest_user(0).submission)


@pytest.mark.parametrize("expires_at", [-1, 2**64 - 1])
def test_an_expiry_that_would_be_packed_as_another_one_is_refused(expires_at: int) -> None:
    """2^64 - 1 stands for "never" in a claim. No document has a number beyond 64 bits."""
    with pytest.raises(
        MalformedDocumentError, match="does not fit into the 8 bytes of a claim: enrol again"
    ):
        enrolled_claim(honest_user(0).claim, credential(expires_at=expires_at))


def test_what_a_user_keeps_is_what_stands_on_the_board() -> None:
    world = World().play()
    assert sorted(message for user in honest_users() for message in user.messages) == sorted(
        world.board
    )
    counted = decode(b"".join(world.board), GEOMETRY, 5, len(honest_users()))
    assert (counted.outside, counted.repeated) == (0, 0)
    found = np.bincount(messages(world.board), minlength=5)
    assert counted.counts == tuple(found.tolist())
    doubled = b"".join([world.board[0], *world.board[:-1]])
    assert decode(doubled, GEOMETRY, 5, len(honest_users())).repeated == 2


# ------------------------------------------------------------------ claims


@pytest.mark.parametrize("expires_at", [None, 0, 1_900_000_000_000])
def test_a_packed_claim_gives_the_credentials_document_again(expires_at: int | None) -> None:
    document = credential(expires_at=expires_at)
    enrolled = enrolled_claim(honest_user(0).claim, document)
    assert unpack_claim(GEOMETRY, pack_claim(enrolled)) == enrolled
    assert unpack_claim(GEOMETRY, pack_claim(enrolled)).credential("clinic") == document
    with pytest.raises(BadClaimError, match="no claim"):
        unpack_claim(GEOMETRY, pack_claim(enrolled)[:-1])


def test_a_credential_that_is_written_otherwise_is_refused_by_its_own_device() -> None:
    document = credential()
    spaced = msgspec.structs.replace(document, body=document.body.replace(",", ", "))
    with pytest.raises(MalformedDocumentError, match="enrol again"):
        enrolled_claim(honest_user(0).claim, spaced)


def test_who_is_enrolled_when_the_round_closes() -> None:
    _, population = authority()
    at = 1_900_000_000_000
    good = enrolled_claim(honest_user(0).claim, credential(expires_at=at + 1))
    late = enrolled_claim(honest_user(0).claim, credential(expires_at=at))
    foreign = enrolled_claim(honest_user(0).claim, credential(key=Ed25519PrivateKey.generate()))
    other = replace(good, enrolment=flipped(good.enrolment))
    moved = replace(good, claim=honest_user(1).claim)
    everybody = Enrolment(population, at, frozenset())
    assert everybody.of([good]) == {good.claim.credential}
    for each in (late, foreign, other, moved):
        assert everybody.of([each]) == frozenset()
        assert str(everybody.refusal(each)).startswith(f"user {each.claim.credential.hex()}: ")
    assert Enrolment(population, at, frozenset({good.claim.credential})).of([good]) == frozenset()


def test_only_the_list_of_withdrawals_that_the_key_names_counts() -> None:
    key, population = authority()
    document = Withdrawals(population="clinic", serial=3, issued_at=1, credentials=("ab" * 32,))
    signed = sign(document, "clinic", key)
    named = MixingKey(
        blinding="", blinding_proof="", withdrawals=3, withdrawals_digest=document_digest(signed)
    )
    assert read_withdrawals(signed.to_bytes(), population, named) == {bytes.fromhex("ab" * 32)}
    assert (
        read_withdrawals(b"", population, MixingKey(blinding="", blinding_proof="")) == frozenset()
    )
    for wrong in (
        msgspec.structs.replace(named, withdrawals=2),
        msgspec.structs.replace(named, withdrawals_digest=digest(b"another")),
        MixingKey(blinding="", blinding_proof=""),
    ):
        with pytest.raises(ForeignDocumentError, match="list of withdrawn credentials"):
            read_withdrawals(signed.to_bytes(), population, wrong)
    with pytest.raises(SignatureError):
        read_withdrawals(
            sign(document, "clinic", Ed25519PrivateKey.generate()).to_bytes(), population, named
        )
    with pytest.raises(MalformedDocumentError):  # kept back
        read_withdrawals(b"", population, named)


# ------------------------------------------------------------------ history and counts


def test_a_history_is_written_in_one_way() -> None:
    world = World().play()
    history = History(
        b"",
        b"s" * 64,
        b"e" * 64,
        tuple(b"claim" for _ in world.users),
        tuple(world.headers),
        (),
        b"b" * 64,
    )
    data = history.to_bytes()
    assert History.from_bytes(data) == history
    more = msgspec.msgpack.encode(msgspec.msgpack.decode(data) | {"hidden": b"note"})
    for bad in (data + b"\x00", data[:-1], more, b"", pack_document(history)[1:]):
        with pytest.raises(MalformedDocumentError, match="history of a verified round"):
            History.from_bytes(bad)


def signed_headers(
    users: Sequence[int], dropped: Sequence[int] = (0, 0, 0), board: str = "0" * 64
) -> tuple[list[Party], list[Signed]]:
    """A route of three nodes, and the headers that they sign, of two messages a user."""
    keys = [
        Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([number])) for number in (1, 2, 3)
    ]
    route = [
        Party(
            name=f"n{place}", role="node", operator="o", address="a:1",
            identity_key=key.public_key().public_bytes_raw().hex(),
        )
        for place, key in enumerate(keys)
    ]  # fmt: skip
    bodies = [
        BatchHeader(
            round_id="r",
            position=place + 2,
            users=left,
            records=2 * left - gone,
            digest=board,
            dropped=gone,
        )
        for place, (left, gone) in enumerate(zip(users, dropped, strict=True))
    ]
    return route, [
        sign(body, f"n{place}", key)
        for place, (body, key) in enumerate(zip(bodies, keys, strict=True))
    ]


@pytest.mark.parametrize(
    "spelling", ["AB" * 32, " " + "ab" * 32, "ab" * 32 + "\n", "ab" * 31, "\uff41b" * 32]
)
def test_a_digest_in_a_header_has_one_spelling(spelling: str) -> None:
    route, headers = signed_headers((5, 5, 5), board="ab" * 32)
    assert check_headers(headers, route, "r", 2, 5) == 0
    route, headers = signed_headers((5, 5, 5), board=spelling)
    with pytest.raises(MalformedDocumentError, match="SHA-256"):
        check_headers(headers, route, "r", 2, 5)


@pytest.mark.parametrize("dropped", [(0, 0, 1), (2, 2, 2)])
def test_no_header_of_a_verified_round_counts_a_dropped_message(dropped: tuple[int, ...]) -> None:
    route, headers = signed_headers((5, 5, 5), dropped)
    assert check_headers(headers, route, "r", 2, 5) == dropped[-1]
    with pytest.raises(CountMismatchError, match="no node may drop any"):
        check_headers(headers, route, "r", 2, 5, excluding=True)


@pytest.mark.parametrize(
    ("users", "accepted", "holds"),
    [
        ((5, 5, 5), 5, True),
        ((5, 4, 4), 4, True),
        ((5, 4, 4), 3, True),
        ((5, 4, 4), 5, False),
        ((4, 5, 4), 4, False),
    ],
)
def test_reports_only_become_fewer_along_a_verified_route(
    users: tuple[int, ...], accepted: int, *, holds: bool
) -> None:
    route, headers = signed_headers(users)
    if holds:
        assert check_headers(headers, route, "r", 2, accepted, excluding=True) == 0
    else:
        with pytest.raises(CountMismatchError):
            check_headers(headers, route, "r", 2, accepted, excluding=True)
    if users != (5, 5, 5):  # a plain round excludes nobody
        with pytest.raises(CountMismatchError):
            check_headers(headers, route, "r", 2, accepted)
