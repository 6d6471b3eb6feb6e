"""Vectors of what devices compute in verified rounds (docs/mixing.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import msgspec
from client_rounds import NOW, POPULATION, ROUND_ID, Draft, make_certificate
from vector_cases import (
    ASKED,
    GENEROUS,
    HYBRID,
    MECHANISMS,
    Case,
    Fields,
    make_case,
    mechanism_named,
    plain,
    text_of,
)
from vector_world import coins, derive, identity, make_draft, make_member, make_roster, sign_roster

from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import BatchHeader, Credential, MixingKey, Result
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.mechanisms import Mechanism, RRShuffle
from shuffledp_core.mixproof.group import GENERATOR, Element, Scalar, multiply
from shuffledp_core.mixproof.keys import NodeKey, make_key, route_context
from shuffledp_core.mixproof.manifests import mixing_key
from shuffledp_core.mixproof.vectors import INVALID, MULTIPLES, with_bit_255
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.keys import ROOT, Identity
from shuffledp_core.transparency.board_tiles import TiledBoard
from shuffledp_core.vocabulary import Mix

FIELD: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
BITS: Final = RRShuffle(max_value=3, randomise=Fraction(1, 2))
USERS: Final = 7

Keys = list[NodeKey]


def verified() -> Iterator[Case]:
    """Elements, keys of nodes, claims, and results, as devices compute them in verified rounds."""
    yield from elements()
    yield from geometries()
    yield from rounds()
    yield from claims()
    yield from results()


def elements() -> Iterator[Case]:
    """Group elements by RFC 9496, and their multiples by scalars."""
    scalars = [1, 2, 15, 16, 17, 31, 32, ORDER - 1, (ORDER - 1) // 2, (ORDER + 1) // 2, 2**252]
    scalars += [int.from_bytes(derive("scalar", at)) % ORDER for at in range(8)]
    packed = [scalar.to_bytes(32, "little").hex() for scalar in scalars]
    for at, encoded in enumerate(MULTIPLES, start=1):
        fields = {"element": encoded.hex(), "scalars": packed if at % 5 == 1 else packed[:3]}
        yield make_case(f"{at} times the generator", "element", fields)
        fields = {"element": with_bit_255(encoded).hex(), "scalars": packed[:1]}
        yield make_case(f"{at} times the generator, bit 255", "element", fields, "ProofError")
    for reason, encodings in INVALID.items():
        for at, text in enumerate(encodings):
            encoded = bytes.fromhex(text)
            for suffix, data in (("", encoded), (", bit 255", with_bit_255(encoded))):
                fields = {"element": data.hex(), "scalars": packed[:1]}
                yield make_case(f"{reason}, {at}{suffix}", "element", fields, "ProofError")
    generator = MULTIPLES[0]
    for name, data, scalar in (
        ("the identity", bytes(32), packed[0]),
        ("the identity plus the field's order", FIELD.to_bytes(32, "little"), packed[0]),
        ("a byte too few", generator[:-1], packed[0]),
        ("a byte too many", generator + b"\0", packed[0]),
        ("no bytes", b"", packed[0]),
        ("a product that is the identity", generator, bytes(32).hex()),
    ):
        fields = {"element": data.hex(), "scalars": [scalar]}
        yield make_case(name, "element", fields, "ProofError")


def geometries() -> Iterator[Case]:
    """Lengths of verified rounds."""
    for mechanism in MECHANISMS:
        for suite, hops in (("hpke", 2), ("sealed-box", 5)):
            fields = {
                "mechanism": plain(mechanism),
                "suite": suite,
                "hops": hops,
                "mix": "verified",
            }
            yield make_case(f"{mechanism.kind} over {hops} hops, {suite}", "geometry", fields)
    fields = {"mechanism": plain(ASKED), "suite": HYBRID, "hops": 3, "mix": "verified"}
    yield make_case("a suite against later computers", "geometry", fields, "MalformedDocumentError")


def context_of(draft: Draft) -> bytes:
    """What binds the keys of a draft's nodes, which come before the manifest."""
    return route_context("demo", ROUND_ID, document_digest(draft.signed_certificate()))


def node_keys(draft: Draft) -> Keys:
    """Derived mixing keys of a draft's route."""
    base, keys = GENERATOR, []
    for position, name in enumerate(draft.route, start=1):
        source = coins(derive("mixing key", name))
        _, key = make_key(context_of(draft), name, position, base, source)
        base = Element(key.blinding)
        keys.append(key)
    return keys


def verified_draft(mechanism: Mechanism = ASKED, **changes: Any) -> Draft:
    """A verified round about to be announced, without keys for the mixing."""
    suite = changes.pop("suite", "hpke")
    mix = Mix.VERIFIED if suite != HYBRID else msgspec.UNSET
    geometry = Geometry.of(mechanism, suite, 3, mix)
    certificate = {"mix": Mix.VERIFIED} | changes.pop("certificate", {})
    manifest = {"geometry": geometry} | changes.pop("manifest", {})
    return make_draft(mechanism, suite, certificate=certificate, manifest=manifest, **changes)


def with_keys(draft: Draft, keys: Keys, enrolment: str | None = None) -> Draft:
    """The draft with these keys of its nodes."""
    enrolment_key = enrolment or identity("enrolment").public_key.hex()
    mixing = [mixing_key(key, enrolment_key, 0, "") for key in keys]
    draft.round_keys = {at: {"mixing": key} for at, key in enumerate(mixing, start=1)}
    return draft


def rounds() -> Iterator[Case]:
    """Verified rounds, and keys that a device refuses before it touches the value."""

    def case(name: str, draft: Draft, error: str | None = None, **policy: Any) -> Case:
        fields = {
            "roster": text_of(sign_roster(make_roster())),
            "root_key": identity(ROOT).public_key.hex(),
            "announcement": to_json(draft.announcement()).decode(),
            "policy": GENEROUS | policy,
            "population": POPULATION,
            "now": NOW,
            "round_id": ROUND_ID,
        }
        return make_case(name, "round", fields, error)

    for mechanism in (ASKED, BITS, mechanism_named("node-histogram")):
        draft = verified_draft(mechanism)
        lenient: Fields = {"epsilon": 1e9, "epsilon_corrupted": "inf"}
        if not mechanism.needs_crowd:  # it has few dummies
            draft = verified_draft(mechanism, certificate={"delta": 0.5})
            lenient["delta"] = 0.5
        genuine = with_keys(draft, node_keys(draft))
        yield case(f"a genuine verified round of {mechanism.kind}", genuine, **lenient)
    bad_key, malformed = "RoundKeyError", "MalformedDocumentError"
    yield case("a policy of plain mixing", _genuine(), "ClientPolicyRefusal", mixes=["plain"])
    yield case("a policy of verified mixing", _genuine(), mixes=["verified"])
    yield case("no keys for the mixing", verified_draft(), bad_key)
    hybrid = verified_draft(suite=HYBRID)
    yield case("a suite against later computers", with_keys(hybrid, node_keys(hybrid)), malformed)
    plain_round = make_draft(ASKED)
    yield case(
        "keys for the mixing in a plain round",
        with_keys(plain_round, node_keys(plain_round)),
        bad_key,
    )
    lengths = {"geometry": Geometry.of(ASKED, "hpke", 3)}
    draft = verified_draft(manifest=lengths)
    yield case("lengths of plain mixing", with_keys(draft, node_keys(draft)), malformed)
    elsewhere = with_keys(verified_draft(), node_keys(verified_draft()), "ab" * 32)
    yield case("another enrolment key", elsewhere, "ForeignDocumentError")
    one_without = _genuine()
    one_without.round_keys = {at: one_without.round_keys[at] for at in (1, 3)}
    yield case("a node without keys for the mixing", one_without, bad_key)
    for name, change in false_keys().items():
        draft = verified_draft()
        yield case(name, with_keys(draft, change(node_keys(draft))), bad_key)
    for name, changes in {
        "a key in capitals": {"blinding": "AB" * 32},
        "half a byte more": {"opening": "a" * 65},
        "a proof that is not hex": {"opening_proof": "g" * 128},
    }.items():
        draft = _genuine()
        mixing = draft.round_keys[2]["mixing"]
        assert isinstance(mixing, MixingKey)
        changed = {"mixing": msgspec.structs.replace(mixing, **changes)}
        draft.round_keys = {**draft.round_keys, 2: changed}
        yield case(name, draft, bad_key)


def _genuine() -> Draft:
    draft = verified_draft()
    return with_keys(draft, node_keys(draft))


def false_keys() -> dict[str, Callable[[Keys], Keys]]:
    """Changes of a route's keys, each of which K1, K2 or K3 refuses."""
    zero, order = bytes(32), ORDER.to_bytes(32, "little")

    def put(at: int, **fields: Any) -> Callable[[Keys], Keys]:
        def change(keys: Keys) -> Keys:
            values = {name: make(keys[at]) for name, make in fields.items()}
            changed = NodeKey(**{**_fields_of(keys[at]), **values})
            return [*keys[:at], changed, *keys[at + 1 :]]

        return change

    def flip(data: bytes, at: int = 0) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def beyond(proof: bytes) -> bytes:
        z = int.from_bytes(proof[32:], "little") + ORDER
        return proof[:32] + z.to_bytes(32, "little")

    def swapped(keys: Keys) -> Keys:
        return [keys[0], keys[2], keys[1]]

    def based_on_generator(keys: Keys) -> Keys:
        secret = coins(derive("mixing key", "alone"))
        _, key = make_key(context_of(verified_draft()), "node-2", 2, GENERATOR, secret)
        return [keys[0], key, keys[2]]

    def of_another_round(keys: Keys) -> Keys:
        source = coins(derive("mixing key", "node-2"))
        _, key = make_key(derive("another"), "node-2", 2, Element(keys[0].blinding), source)
        return [keys[0], key, keys[2]]

    def doubled(keys: Keys) -> Keys:
        two = Scalar((2).to_bytes(32, "little"))
        return put(1, blinding=lambda key: multiply(two, Element(key.blinding)))(keys)

    return {
        "the identity as a blinding key": put(0, blinding=lambda _: zero),
        "the identity as an opening key": put(2, opening=lambda _: zero),
        "a key with bit 255": put(1, blinding=lambda key: with_bit_255(key.blinding)),
        "a key that is negative": put(1, opening=lambda key: flip(key.opening)),
        "a key of 31 bytes": put(1, blinding=lambda key: key.blinding[:-1]),
        "an opening key of node 1": put(0, opening=lambda key: key.blinding),
        "an opening proof of node 1": put(0, opening_proof=lambda key: key.blinding_proof),
        "no opening key of node 2": put(1, opening=lambda _: b""),
        "a changed blinding proof": put(1, blinding_proof=lambda key: flip(key.blinding_proof)),
        "a changed opening proof": put(2, opening_proof=lambda key: flip(key.opening_proof, 40)),
        "a proof with a number beyond the order": put(
            1, blinding_proof=lambda key: beyond(key.blinding_proof)
        ),
        "a proof whose challenge is 0": put(
            1, blinding_proof=lambda key: zero + key.blinding_proof[32:]
        ),
        "a proof whose response is 0": put(
            1, blinding_proof=lambda key: key.blinding_proof[:32] + zero
        ),
        "a proof whose response is the order": put(
            1, blinding_proof=lambda key: key.blinding_proof[:32] + order
        ),
        "a proof cut short": put(1, opening_proof=lambda key: key.opening_proof[:-1]),
        "a proof with a byte more": put(1, opening_proof=lambda key: key.opening_proof + b"\0"),
        "the opening proof as the blinding proof": put(
            1, blinding_proof=lambda key: key.opening_proof
        ),
        "keys of two nodes exchanged": swapped,
        "a key on the generator and not on the key before": based_on_generator,
        "a key of another round": of_another_round,
        "twice a key under the key's own proof": doubled,
    }


def _fields_of(key: NodeKey) -> dict[str, bytes]:
    names = ("blinding", "blinding_proof", "opening", "opening_proof")
    return {name: getattr(key, name) for name in names}


def claims() -> Iterator[Case]:
    """Claims as functions of their randomness: own, the seed of salts, and that of the nonce."""
    keys = node_keys(verified_draft())
    member, forever = make_member("alice", expires_at=NOW + 10**9), make_member("bob")
    fields: Fields = {
        "manifest_digest": derive("manifest").hex(),
        "blinding": [key.blinding.hex() for key in keys],
        "opening": [key.opening.hex() for key in keys[1:]],
        "credential": text_of(member.credential),
        "private_key": member.private_key.hex(),
        "symbol_bytes": 1,
        "symbols": [1, 0, 1],
        "random": derive("claim", size=96).hex(),
    }
    yield make_case("three bits", "verified-claim", fields)
    yield make_case("one bit", "verified-claim", fields | {"symbols": [0]})
    wide = {"symbols": [70_000, 3], "symbol_bytes": 3, "random": derive("wide", size=96).hex()}
    yield make_case("wide symbols", "verified-claim", fields | wide)
    many = {"symbols": [at * at % 7 for at in range(17)]}
    yield make_case("a tree with nodes without partners", "verified-claim", fields | many)
    two = {"blinding": fields["blinding"][:2], "opening": fields["opening"][:1]}
    yield make_case("two nodes", "verified-claim", fields | two)
    endless = {
        "credential": text_of(forever.credential),
        "private_key": forever.private_key.hex(),
    }
    yield make_case("a credential without an end", "verified-claim", fields | endless)
    enrolment = Identity(POPULATION, identity("enrolment").key)
    owner = Credential(population=POPULATION, public_key=member.identity().name, expires_at=NOW)
    body = json.dumps(json.loads(to_json(owner)))
    signature = enrolment.key.sign(f"shuffledp/v1/credential\0{body}".encode()).hex()
    spaced = json.dumps(
        {"label": "credential", "signer": POPULATION, "body": body, "signature": signature}
    )
    malformed = "MalformedDocumentError"
    yield make_case(
        "a credential with spaces", "verified-claim", fields | {"credential": spaced}, malformed
    )
    past = make_member("alice", expires_at=-1)
    yield make_case(
        "a credential that expires before 1970",
        "verified-claim",
        fields | {"credential": text_of(past.credential)},
        malformed,
    )
    identity_key = fields | {"opening": [bytes(32).hex(), fields["opening"][1]]}
    yield make_case("the identity as a key", "verified-claim", identity_key, "ProofError")


def results() -> Iterator[Case]:
    """Results and boards of verified rounds."""
    draft = _genuine_of(BITS)
    geometry = Geometry.of(BITS, "hpke", 3, Mix.VERIFIED)
    rows = [
        derive("key", at) + bytes([at % 2]) + derive("proof", at, size=64)
        for at in range(USERS * BITS.messages_per_user)
    ]
    board = b"".join(sorted(rows))

    def case(name: str, error: str | None = None, **changes: Any) -> Case:
        shown = changes.pop("board", board)
        messages = changes.pop("messages", rows[:3])
        certificate = draft.signed_certificate()
        fields = {
            "roster": text_of(sign_roster(make_roster())),
            "root_key": identity(ROOT).public_key.hex(),
            "submission": {
                "deployment": "demo",
                "round_id": ROUND_ID,
                "entry": "node-1",
                "geometry": plain(geometry),
                "certificate_digest": document_digest(certificate),
                "messages": [message.hex() for message in messages],
            },
            "result": text_of(_result(draft, geometry, board, **changes)),
            "board": shown.hex(),
        }
        return make_case(name, "result", fields, error)

    false, missing = "FalseResultError", "ReceiptMissingError"
    yield case("a result of a verified round")
    yield case("users are left out on the way", users=(9, 8, 7))
    yield case("users are left out at the end", users=(9, 9, 9))
    yield case("users come back on the way", false, users=(8, 9, 7))
    yield case("a node relays fewer users than are counted", false, users=(9, 6, 6))
    yield case("a node drops a message", false, dropped=(0, 1, 1))
    yield case("records that the users do not have", false, more_records=1)
    altered = rows[0][:32] + bytes([rows[0][32] ^ 1]) + rows[0][33:]
    yield case("a symbol on the board is another", missing, messages=[altered, *rows[1:3]])
    unknown = derive("unknown") + rows[0][32:]
    yield case("a key is not on the board", missing, messages=[unknown, *rows[1:3]])
    yield case("tiles that are not the board's", false, tiles_root="ab" * 32)
    yield case("another board", "BadBatchError", board=board[:-1] + b"\0")
    yield case("a board cut short", "BadBatchError", board=board[:-97])


def _genuine_of(mechanism: Mechanism) -> Draft:
    draft = verified_draft(mechanism)
    return with_keys(draft, node_keys(draft))


def _result(draft: Draft, geometry: Geometry, board: bytes, **changes: Any) -> Signed:
    users = changes.pop("users", (USERS,) * 3)
    dropped = changes.pop("dropped", (0, 0, 0))
    more = changes.pop("more_records", 0)
    fields = fields_of_result(draft, geometry, board, users, dropped, more)
    document = Result(deployment="demo", round_id=ROUND_ID, **(fields | changes))
    return identity("analyst").sign(document)


def fields_of_result(
    draft: Draft,
    geometry: Geometry,
    board: bytes,
    users: tuple[int, ...],
    dropped: tuple[int, ...] = (0, 0, 0),
    more: int = 0,
) -> Fields:
    """The fields of a published result: what the analyst computes, and the words of all nodes."""
    accepted = len(board) // geometry.plain_bytes // geometry.messages_per_user
    headers = [
        draft.signed_by(
            node,
            BatchHeader(
                round_id=ROUND_ID,
                position=at + 2,
                users=users[at],
                records=users[at] * geometry.messages_per_user - dropped[at] + more,
                digest=digest(derive("batch", at)),
                dropped=dropped[at],
            ),
        )
        for at, node in enumerate(draft.route)
    ]
    decoded = decode(board, geometry, draft.mechanism.alphabet, accepted)
    final = make_certificate(
        draft.deployment,
        draft.mechanism,
        stage="final",
        users=accepted,
        route=draft.route,
        mix=Mix.VERIFIED,
    )
    return {
        "outcome": "published",
        "accepted": accepted,
        "messages": accepted * geometry.messages_per_user,
        "board_digest": digest(board),
        "estimate": estimate(draft.mechanism, decoded.counts, accepted),
        "plan_certificate": draft.signed_certificate(),
        "final_certificate": draft.signed_by("accountant", final),
        "headers": tuple(headers),
        "tiles_root": TiledBoard.of(board, geometry).root.hex(),
    }
