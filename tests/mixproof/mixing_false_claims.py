"""Attacks by false keys and claims: copied, cancelled, summed, made up, claimed twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixing_cheats import secrets_of
from mixing_model import (
    CONTEXT,
    ENROLLED,
    MESSAGES,
    NAMES,
    credential_seed,
    honest_user,
    honest_users,
    list_signature,
    randomness,
    route_keys,
    terms,
)
from nacl import bindings

from shuffledp_core.mixproof.claims import (
    Claim,
    check_claim,
    check_list,
    claim_bytes,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Element,
    Scalar,
    challenge,
    minus,
    multiply,
    multiply_add,
    random_scalar,
    total,
)
from shuffledp_core.mixproof.keys import check_route
from shuffledp_core.mixproof.proofs import prove_all, prove_knowledge


def cancelled_key() -> None:
    """Node 3 chooses a multiple of the base before node 2's, so that node 2's secret falls out."""
    r, first = random_scalar(randomness("cancel")), Element(route_keys()[1][0].blinding)
    bound = (CONTEXT, NAMES[2].encode(), (3).to_bytes(4, "big"))
    point = multiply(r, first)
    proof = prove_knowledge("blinding", bound, first, point, r, randomness("proof"))
    check_route(
        CONTEXT,
        NAMES,
        [*route_keys()[1][:2], replace(route_keys()[1][2], blinding=point, blinding_proof=proof)],
    )


def copied_opening_key() -> None:
    keys = route_keys()[1]
    copied = replace(keys[2], opening=keys[1].opening, opening_proof=keys[1].opening_proof)
    check_route(CONTEXT, NAMES, [*keys[:2], copied])


def key_of_another_round() -> None:
    check_route(b"another round".ljust(WIDTH), NAMES, route_keys()[1])


def identity_key() -> None:
    check_route(
        CONTEXT, NAMES, [replace(route_keys()[1][0], blinding=bytes(WIDTH)), *route_keys()[1][1:]]
    )


def resigned(claim: Claim, user: int) -> Claim:
    """The claim with this user's credential and signature."""
    credential, private = bindings.crypto_sign_seed_keypair(credential_seed(user))
    own = replace(claim, credential=credential)
    return replace(own, signature=bindings.crypto_sign(claim_bytes(terms(), own), private)[:64])


def summed_keys() -> None:
    """X_v + R and R' - X_v: the logarithm of their sum is known, of neither alone."""
    victim, random = Element(honest_user(0).claim.keys[:WIDTH]), randomness("sum")
    first, second = random_scalar(random), random_scalar(random)
    keys = total((victim, multiply(first, GENERATOR))) + minus(multiply(second, GENERATOR), victim)
    credential, r = honest_user(7).claim.credential, random_scalar(random)
    c = challenge("claim", terms().manifest, credential, bytes(WIDTH), keys, multiply(r, GENERATOR))
    z = multiply_add(c, second, multiply_add(c, first, r))
    check_claim(terms(), resigned(Claim(credential, bytes(WIDTH), c + z, keys, b""), 7), ENROLLED)


def copied_claim() -> None:
    check_claim(terms(), resigned(honest_user(0).claim, 7), ENROLLED)


def made_up_user() -> None:
    seed = b"nobody enrolled this".ljust(WIDTH)
    records = [seal_record(terms(), secret, 0) for secret in secrets_of(0)]
    claim = sign_claim(terms(), records, secrets_of(0), seed, randomness("seed")).claim
    claims = sorted(
        (*(user.claim for user in honest_users()[:7]), claim), key=lambda each: each.credential
    )
    check_own_list(claims)


def somebody_elses_signature() -> None:
    """Node 1 claims in the name of a user who never came."""
    claim = sign_claim(terms(), *records_of(7), credential_seed(6), randomness("forged")).claim
    victim = honest_user(7).claim.credential
    keys = tuple(
        Element(claim.keys[start : start + WIDTH]) for start in range(0, len(claim.keys), WIDTH)
    )
    proof = prove_all(
        (terms().manifest, victim, claim.root), keys, secrets_of(7), randomness("forged")
    )
    check_claim(terms(), replace(claim, credential=victim, proof=proof), ENROLLED)


def records_of(user: int, secrets: list[Scalar] | None = None) -> tuple[list[bytes], list[Scalar]]:
    own = secrets or secrets_of(user)
    return [seal_record(terms(), secret, 0) for secret in own], own


def check_own_list(claims: Sequence[Claim]) -> None:
    """A list that node 1 signed."""
    check_list(terms(), claims, ENROLLED, list_signature(terms(), claims))


def claim_for_another_round() -> None:
    check_claim(replace(terms(), manifest=b"another".ljust(WIDTH)), honest_user(0).claim, ENROLLED)


def one_key_twice() -> None:
    records, own = records_of(7, [secrets_of(7)[0]] * MESSAGES)
    check_claim(
        terms(),
        sign_claim(terms(), records, own, credential_seed(7), randomness("twice")).claim,
        ENROLLED,
    )


def key_in_two_claims() -> None:
    shared = [
        sign_claim(
            terms(), *records_of(7), credential_seed(user), randomness(f"shared {user}")
        ).claim
        for user in (6, 7)
    ]
    claims = sorted(
        (*(user.claim for user in honest_users()[:6]), *shared), key=lambda claim: claim.credential
    )
    check_own_list(claims)


def listed_twice() -> None:
    first = honest_user(0).claim
    check_own_list(
        sorted([first, *(user.claim for user in honest_users()[:7])], key=lambda c: c.credential)
    )
