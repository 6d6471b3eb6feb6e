"""Users of small rounds: honest ones, and what a corrupt one can send.

`small_rounds` plays the rounds.
"""

from __future__ import annotations

from functools import cache

from mixing_cheats import flipped, minus_secret, spoiled_record
from mixing_model import randomness
from mixing_spellings import respelled
from nacl import bindings
from small_search import Moot

from shuffledp_core.mixproof.claims import (
    Claim,
    PreparedClaim,
    claim_bytes,
    make_claim,
    make_dummies_claim,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Element,
    Scalar,
    challenge,
    element,
    less,
    multiply,
    multiply_add,
    number,
    total,
)
from shuffledp_core.mixproof.terms import MixTerms

BAD_AT_TWO = "a bad box at 2"
MOVES = (
    BAD_AT_TWO,
    "a bad box at 3",
    "bad boxes at 2 and 3",
    "a bad symbol",
    "a bad proof",
    "one key twice",
    "one key in two spellings",
    "keys that cancel",
    "keys that hide a victim's",
    "a victim's keys",
    "another's keys",
    "other records than claimed",
    "no claim",
)
SPOILED = {
    BAD_AT_TWO: {0: (2, "box")},
    "a bad box at 3": {0: (3, "box")},
    "bad boxes at 2 and 3": {0: (2, "box"), 1: (3, "box")},
    "a bad symbol": {0: (3, "symbol")},
    "a bad proof": {0: (3, "proof")},
}


DUMMY_MOVES = ("a broken dummy at 2", "a broken dummy at 3", "a dummy outside the alphabet")
BROKEN = {
    "a broken dummy at 2": (2, "box"),
    "a broken dummy at 3": (3, "box"),
    "a dummy outside the alphabet": (3, "symbol"),
}
OF_NODES = 1000
"""Senders from here on are nodes: what node i sends, its dummies, is that of sender 1000 + i."""


def dummies_of(position: int) -> int:
    """The sender of a node's dummies."""
    return OF_NODES + position


def identity_seed(position: int) -> bytes:
    return f"identity {position}".encode().ljust(WIDTH)


def credential_seed(user: int) -> bytes:
    if user >= OF_NODES:
        return identity_seed(user - OF_NODES)
    return f"credential {user}".encode().ljust(WIDTH)


@cache
def credential(user: int) -> bytes:
    return bytes(bindings.crypto_sign_seed_keypair(credential_seed(user))[0])


@cache
def secrets_of(user: int, messages: int) -> tuple[Scalar, ...]:
    """What a corrupt user's keys are made of: all who collude know it."""
    return tuple(challenge("corrupt", number(user), number(message)) for message in range(messages))


@cache
def honest(terms: MixTerms, user: int) -> PreparedClaim:
    symbols = [(user + message) % terms.alphabet for message in range(messages_of(terms, user))]
    if user >= OF_NODES:
        private = bindings.crypto_sign_seed_keypair(credential_seed(user))[1]
        return make_dummies_claim(
            terms,
            user - OF_NODES,
            symbols,
            lambda statement: bindings.crypto_sign(statement, private)[:64],
            randomness(f"user {user}"),
        )
    return make_claim(terms, symbols, credential_seed(user), randomness(f"user {user}"))


def messages_of(terms: MixTerms, user: int) -> int:
    return terms.dummies if user >= OF_NODES else terms.messages_per_user


@cache
def corrupt_dummies(terms: MixTerms, position: int, move: str) -> PreparedClaim:
    """What a corrupt node sends; the first of its dummies says nothing after a move."""
    sender = dummies_of(position)
    secrets = list(secrets_of(sender, terms.dummies))
    records = [seal_record(terms, secret, 0) for secret in secrets]
    if move:
        layer, how = BROKEN[move]
        records[0] = spoiled_record(terms, secrets[0], 0, layer, how)
    return sign_claim(
        terms, records, secrets, credential_seed(sender), randomness(f"node {position}")
    )


@cache
def corrupt(terms: MixTerms, user: int, move: str) -> PreparedClaim:
    """What a corrupt user sends.

    Without a move what an honest one would, from secrets that all corrupt ones know.
    """
    own = list(secrets_of(user, terms.messages_per_user))
    if move.startswith("one key"):
        own = own[:1] * len(own)
    if move == "keys that cancel":
        own = [own[0], minus_secret([], own[0])]
    if move == "another's keys":
        own = list(secrets_of(user - 1, terms.messages_per_user))
    records = [seal_record(terms, secret, 0) for secret in own]
    for message, (layer, how) in SPOILED.get(move, {}).items():
        if layer > terms.analyst or message >= len(records):
            raise Moot
        records[message] = spoiled_record(terms, own[message], 0, layer, how)
    if move == "one key in two spellings" and len(records) > 1:
        records[1] = respelled(records[1][:WIDTH]) + records[1][WIDTH:]
    if move == "keys that cancel":
        records[0] = spoiled_record(terms, own[0], 0, 2, "box")
    made = sign_claim(terms, records, own, credential_seed(user), randomness(f"corrupt {user}"))
    if move == "other records than claimed":
        return PreparedClaim(made.claim, flipped(made.submission), made.secrets)
    if move in ("keys that hide a victim's", "a victim's keys"):
        return _with_keys_of(terms, user, records, move)
    return made


def _with_keys_of(terms: MixTerms, user: int, records: list[bytes], move: str) -> PreparedClaim:
    """Keys that are made of user 0's, over boxes that open for nobody."""
    victim, own = honest(terms, 0), secrets_of(user, terms.messages_per_user)
    if len(own) < 2:
        raise Moot
    theirs = tuple(map(element, victim.claim.key_list))
    hidden = [
        total((theirs[0], multiply(own[0], GENERATOR))),
        less(multiply(own[1], GENERATOR), (theirs[0],)),
    ]
    keys = list(theirs) if move == "a victim's keys" else hidden
    packed = [key + record[WIDTH:] for key, record in zip(keys, records, strict=True)]
    made = sign_claim(terms, packed, own, credential_seed(user), randomness(f"hidden {user}"))
    proof = (
        _plain_sum(terms, made.claim, keys, own)
        if move != "a victim's keys"
        else victim.claim.proof
    )
    return PreparedClaim(
        signed(
            terms, user, Claim(made.claim.credential, made.claim.root, proof, b"".join(keys), b"")
        ),
        made.submission,
        (),
    )


def _plain_sum(
    terms: MixTerms, claim: Claim, keys: list[Element], own: tuple[Scalar, ...]
) -> bytes:
    """A proof that holds only if powers of the challenge are left out: of the keys' sum."""
    r = challenge("r", b"")
    c = challenge(
        "claim",
        terms.manifest,
        claim.credential,
        claim.root,
        b"".join(keys),
        multiply(r, GENERATOR),
    )
    z = r
    for secret in own:
        z = multiply_add(c, secret, z)
    return c + z


def signed(terms: MixTerms, user: int, claim: Claim) -> Claim:
    private = bindings.crypto_sign_seed_keypair(credential_seed(user))[1]
    signature = bindings.crypto_sign(claim_bytes(terms, claim), private)[:64]
    return Claim(claim.credential, claim.root, claim.proof, claim.keys, signature)
