"""Makes mixing.json: a small verified round with one spoiled message, its secrets, and defects. docs/mixing.md.

    PYTHONPATH=tests/verified python tests/vectors/make_mixing_vectors.py

Bytes are hex. The same in every run: all randomness comes from named streams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import mixing_attacks
from mixing_cheats import spoiled_user
from mixing_model import ALPHABET, CONTEXT, MANIFEST, MESSAGES, NAMES, World, honest_users, identity_seed, route_keys

from shuffledp_core.verified.claims import Claim
from shuffledp_core.verified.group import GENERATOR, Scalar, multiply

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
    other = world.listed.claims[1]
    two = replace(claim, keys=claim.keys[:32] * MESSAGES)
    doubled = multiply(Scalar((2).to_bytes(32, "little")), GENERATOR)
    symbol = [board[0][:32] + bytes([(board[0][32] + 1) % ALPHABET]) + board[0][33:], *board[1:]]
    first = route_keys()[1][0]
    claims: list[tuple[str, Claim]] = [
        ("signature of another claim", replace(claim, signature=other.signature)),
        ("another credential", mixing_attacks.resigned(claim, 7)),
        ("one key twice", two),
        ("identity as a key", replace(claim, keys=bytes(32) + claim.keys[32:])),
        ("key that is not canonical", replace(claim, keys=b"\xff" * 32 + claim.keys[32:])),
    ]
    return [
        *({"of": "claim", "what": what, "value": plain(value), "error": "BadClaimError"} for what, value in claims),
        {
            "of": "header",
            "what": "another sum",
            "value": plain(replace(header, total=doubled)),
            "error": "UnansweredError",
        },
        {"of": "board", "what": "another symbol", "value": plain(symbol), "error": "BadHopError"},
        {"of": "board", "what": "a message less", "value": plain(board[1:]), "error": "BadHopError"},
        {"of": "board", "what": "a message twice", "value": plain([board[1], *board[1:]]), "error": "BadHopError"},
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
    ]


def vectors() -> dict[str, Any]:
    """The whole round, as `mixing.json` holds it."""
    world = World(users=(*honest_users()[:-1], spoiled_user(7, 3))).play()
    secrets, keys = route_keys()
    return {
        "manifest_digest": plain(MANIFEST),
        "route_context": {"digest": plain(CONTEXT), "parts": ["clinic", "00" * 16, "11" * 32]},
        "names": list(NAMES),
        "parameters": plain(
            {name: getattr(world.terms, name) for name in ("messages_per_user", "symbol_bytes", "alphabet")}
        ),
        "min_reports": world.terms.min_reports,
        "max_reports": world.terms.max_reports,
        "identity_seeds": [plain(identity_seed(position)) for position in range(1, world.terms.analyst + 1)],
        "identities": plain(world.terms.identities),
        "node_secrets": plain(secrets),
        "node_keys": plain(keys),
        "claims": plain(world.listed.claims),
        "list_digest": plain(world.listed.digest),
        "submissions": {user.claim.credential.hex(): plain(user.submission) for user in world.users},
        "headers": plain(world.headers),
        "batches": [plain(hop.release(world.random)[1]) for hop in world.hops],
        "transcripts": plain(world.transcripts),
        "excluded": plain(world.analyst.chain.excluded),
        "board": plain(world.board),
        "defects": defects(world),
    }


def text() -> str:
    """The bytes of the file."""
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
