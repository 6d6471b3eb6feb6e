"""Makes mixing.json: a small verified round with one spoiled message, its secrets, and defects.
docs/mixing.md.

    PYTHONPATH=tests/mixproof python tests/vectors/make_mixing_vectors.py

Bytes are hex. The same in every run: all randomness comes from named streams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import mixing_couriers
import mixing_false_claims
from mixing_cheats import spoiled_user
from mixing_model import (
    ALPHABET,
    CONTEXT,
    MANIFEST,
    MESSAGES,
    NAMES,
    USERS,
    World,
    honest_user,
    honest_users,
    identity_seed,
    list_signature,
    randomness,
    route_keys,
    signer,
)
from mixing_spellings import key_in_two_spellings, respelled, respelled_sum

from shuffledp_core.mixproof.chain import signed_board
from shuffledp_core.mixproof.claims import Claim
from shuffledp_core.mixproof.group import GENERATOR, Scalar, multiply, number
from shuffledp_core.mixproof.proofs import prove_knowledge

FILE = Path(__file__).with_name("mixing.json")


def plain(value: object) -> Any:
    """The JSON form: bytes in hex, dataclasses as objects."""
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def defects(world: World) -> list[dict[str, Any]]:
    """One defect each: what it is of, what it is, and the error that it must give."""
    claim, header, board = world.listed.claims[0], world.headers[1], list(world.board)
    other, blame = world.listed.claims[1], world.transcripts[0]
    step = blame.traces[0].steps[0]
    doubled = multiply(Scalar((2).to_bytes(32, "little")), GENERATOR)
    symbol = [board[0][:32] + bytes([(board[0][32] + 1) % ALPHABET]) + board[0][33:], *board[1:]]
    first = route_keys()[1][0]
    owner = next(
        user for user in range(USERS) if honest_user(user).claim.credential == claim.credential
    )
    own = [
        ("one key twice", replace(claim, keys=claim.keys[:32] * MESSAGES)),
        ("identity as a key", replace(claim, keys=bytes(32) + claim.keys[32:])),
        ("key that is not canonical", replace(claim, keys=b"\xff" * 32 + claim.keys[32:])),
    ]
    root, proof = claim.root + claim.proof[:1], claim.proof[1:]
    claims: list[tuple[str, Claim]] = [
        ("signature of another claim", replace(claim, signature=other.signature)),
        ("another credential", mixing_false_claims.resigned(claim, 7)),
        ("the same bytes, cut elsewhere", replace(claim, root=root, proof=proof)),
        *((what, mixing_false_claims.resigned(value, owner)) for what, value in own),
    ]
    return [
        *(
            {"of": "claim", "what": what, "value": plain(value), "error": "BadClaimError"}
            for what, value in claims
        ),
        {
            "of": "header",
            "what": "another sum",
            "value": plain(replace(header, total=doubled)),
            "error": "UnansweredError",
        },
        *(
            {"of": "board", "what": what, "value": signed(world, value), "error": "BadHopError"}
            for what, value in (
                ("another symbol", symbol),
                ("a message less", board[1:]),
                ("a message twice", [board[1], *board[1:]]),
            )
        ),
        {
            "of": "board",
            "what": "another symbol, not signed",
            "value": {"board": plain(symbol), "board_signature": plain(world.board_signature)},
            "error": "UnansweredError",
        },
        {
            "of": "blame",
            "what": "a path with an empty partner more",
            "value": plain(mixing_couriers.put(blame, "step", path=(*step.path, b""))),
            "error": "UnansweredError",
        },
        {
            "of": "blame",
            "what": "a path cut elsewhere",
            "value": plain(mixing_couriers.put(blame, "step", path=(b"".join(step.path),))),
            "error": "UnansweredError",
        },
        {
            "of": "key",
            "what": "identity",
            "value": plain(replace(first, blinding=bytes(32))),
            "error": "RoundKeyError",
        },
        {
            "of": "key",
            "what": "proof of another key",
            "value": plain(replace(first, blinding=doubled)),
            "error": "RoundKeyError",
        },
        *second_spellings(world),
    ]


def second_spellings(world: World) -> list[dict[str, Any]]:
    """Elements with bit 255 set, whose proofs and signatures hold for a decoder that ignores that
    bit."""
    secret, key = route_keys()[0][0], route_keys()[1][0]
    point, bound = respelled(key.blinding), (CONTEXT, NAMES[0].encode(), number(1))
    proof = prove_knowledge("blinding", bound, GENERATOR, point, secret.blinding, randomness("key"))
    found = {
        "claim": (key_in_two_spellings(7).claim, "BadClaimError"),
        "header": (
            respelled_sum(world.hops[1], world.headers[1], randomness("sum")),
            "BadHopError",
        ),
        "key": (replace(key, blinding=point, blinding_proof=proof), "RoundKeyError"),
    }
    return [
        {"of": of, "what": "bit 255 of an element is set", "value": plain(value), "error": error}
        for of, (value, error) in found.items()
    ]


def signed(world: World, board: Sequence[bytes]) -> dict[str, Any]:
    """A board that the analyst signed, true or not."""
    signature = signer(world.terms.analyst)(signed_board(world.analyst.chain, board))
    return {"board": plain(list(board)), "board_signature": plain(signature)}


def vectors() -> dict[str, Any]:
    """The whole round, as `mixing.json` holds it."""
    world = World(users=(*honest_users()[:-1], spoiled_user(7, 3))).play()
    secrets, keys = route_keys()
    return {
        "manifest_digest": plain(MANIFEST),
        "route_context": {"digest": plain(CONTEXT), "parts": ["clinic", "00" * 16, "11" * 32]},
        "names": list(NAMES),
        "parameters": plain(
            {
                name: getattr(world.terms, name)
                for name in ("messages_per_user", "symbol_bytes", "alphabet")
            }
        ),
        "min_reports": world.terms.min_reports,
        "max_reports": world.terms.max_reports,
        "identity_seeds": [
            plain(identity_seed(position)) for position in range(1, world.terms.analyst + 1)
        ],
        "identities": plain(world.terms.identities),
        "node_secrets": plain(secrets),
        "node_keys": plain(keys),
        "claims": plain(world.listed.claims),
        "list_digest": plain(world.listed.digest),
        "list_signature": plain(list_signature(world.terms, world.listed.claims)),
        "submissions": {
            user.claim.credential.hex(): plain(user.submission) for user in world.users
        },
        "headers": plain(world.headers),
        "batches": [plain(hop.release(world.random)[1]) for hop in world.hops],
        "transcripts": plain(world.transcripts),
        "excluded": plain(world.analyst.chain.excluded),
        "board": plain(world.board),
        "board_signature": plain(world.board_signature),
        "defects": defects(world),
    }


def text() -> str:
    """The bytes of the file."""
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
