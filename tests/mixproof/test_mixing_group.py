"""The group, the proofs, the trees and the one rule for signatures, against vectors of others and
by laws."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixing_model import randomness
from mixing_spellings import respelled
from nacl import bindings

from shuffledp_core.errors import ProofError, UnansweredError
from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.group import (
    GENERATOR,
    Element,
    Scalar,
    element,
    less,
    minus,
    multiply,
    multiply_add,
    number,
    random_scalar,
    scalar,
    total,
)
from shuffledp_core.mixproof.proofs import (
    prove_all,
    prove_equal,
    prove_knowledge,
    verify_all,
    verify_equal,
    verify_knowledge,
)
from shuffledp_core.mixproof.terms import verifies
from shuffledp_core.mixproof.trees import Tree, verify_path

ORDER = 2**252 + 27742317777372353535851937790883648493

# RFC 9496, appendix A.1: multiples 1, 2, 15 of the generator.
MULTIPLES = {
    1: "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    2: "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    15: "e0c418f7c8d9c4cdd7395b93ea124f3ad99021bb681dfc3302a9d99a2e53e64e",
}

# RFC 9496, appendix A.2: non-canonical, negative, non-square, and the identity, which is canonical.
INVALID = (
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
    "00" * 32,
    "00" * 31,
)


def small(value: int) -> Scalar:
    return Scalar((value % ORDER).to_bytes(32, "little"))


@pytest.mark.parametrize("factor", MULTIPLES)
def test_multiples_of_the_generator_are_those_of_the_standard(factor: int) -> None:
    assert multiply(small(factor), GENERATOR).hex() == MULTIPLES[factor]
    assert total([GENERATOR] * factor).hex() == MULTIPLES[factor]


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_element_or_the_identity_is_refused(text: str) -> None:
    with pytest.raises(ProofError):
        element(bytes.fromhex(text))


def test_an_element_has_one_encoding() -> None:
    """libsodium 1.0.18 ignores bit 255 when it decodes."""
    for factor in range(1, 16):
        encoded = multiply(small(factor), GENERATOR)
        with pytest.raises(ProofError):
            element(respelled(encoded))
    with pytest.raises(ProofError):
        element(respelled(bytes(32)))


@pytest.mark.parametrize("value", [ORDER, ORDER + 1, 2**256 - 1])
def test_a_number_not_below_the_order_is_no_scalar(value: int) -> None:
    with pytest.raises(ProofError):
        scalar(value.to_bytes(32, "little"))


@given(st.integers(1, ORDER - 1), st.integers(1, ORDER - 1), st.integers(0, ORDER - 1))
def test_scalars_multiply_and_add_as_numbers_modulo_the_order(
    left: int, right: int, summand: int
) -> None:
    assert multiply_add(small(left), small(right), small(summand)) == small(left * right + summand)
    assert multiply(small(left), multiply(small(right), GENERATOR)) == multiply(
        small(left * right), GENERATOR
    )


def test_a_sum_that_is_the_identity_is_refused_only_where_it_is_the_end() -> None:
    opposite = minus(GENERATOR, multiply(small(2), GENERATOR))
    with pytest.raises(ProofError):
        total([GENERATOR, opposite])
    assert less(GENERATOR, [GENERATOR, opposite]) == GENERATOR


def test_a_position_that_does_not_fit_is_a_typed_error() -> None:
    for value in (-1, 2**32, 2**70):
        with pytest.raises(UnansweredError):
            number(value)


def test_a_proof_holds_for_its_statement_and_for_no_other() -> None:
    random = randomness("proofs")
    secret, other = random_scalar(random), random_scalar(random)
    point, second = multiply(secret, GENERATOR), multiply(other, GENERATOR)
    proof = prove_knowledge("opening", (b"a",), GENERATOR, point, secret, random)
    verify_knowledge("opening", (b"a",), GENERATOR, point, proof)
    wrong: list[tuple[str, tuple[bytes, ...], Element, Element, bytes]] = [
        ("blinding", (b"a",), GENERATOR, point, proof),
        ("opening", (b"b",), GENERATOR, point, proof),
        ("opening", (b"a",), second, point, proof),
        ("opening", (b"a",), GENERATOR, second, proof),
        ("opening", (b"a",), GENERATOR, point, proof[:-1]),
        ("opening", (b"a",), GENERATOR, point, bytes(64)),
    ]
    for arguments in wrong:
        with pytest.raises(ProofError):
            verify_knowledge(*arguments)


def test_logarithms_that_differ_are_not_proved_equal() -> None:
    random = randomness("equal")
    secret, other = random_scalar(random), random_scalar(random)
    base = multiply(random_scalar(random), GENERATOR)
    first, second = (GENERATOR, multiply(secret, GENERATOR)), (base, multiply(secret, base))
    proof = prove_equal("hop", (), first, second, secret, random)
    verify_equal("hop", (), first, second, proof)
    false = (base, multiply(other, base))
    for each in (proof, prove_equal("hop", (), first, false, secret, random)):
        with pytest.raises(ProofError):
            verify_equal("hop", (), first, false, each)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_proof_for_all_keys_needs_every_logarithm(count: int) -> None:
    random = randomness("all")
    secrets = [random_scalar(random) for _ in range(count)]
    points = Elements(multiply(secret, GENERATOR) for secret in secrets)
    verify_all((), points, prove_all((), points, secrets, random))
    for missing in range(count):
        guessed = [small(1) if at == missing else secret for at, secret in enumerate(secrets)]
        with pytest.raises(ProofError):
            verify_all((), points, prove_all((), points, guessed, random))


@pytest.mark.parametrize("count", range(1, 10))
def test_a_path_leads_from_its_leaf_and_place_only(count: int) -> None:
    leaves = [bytes([at]) for at in range(count)]
    tree = Tree(leaves)
    for at in range(count):
        verify_path(tree.root, leaves[at], at, count, tree.path(at))
        for wrong in (
            (leaves[at - 1], at) if count > 1 else (b"x", at),
            (leaves[at], at + 1),
            (leaves[at], -1),
        ):
            with pytest.raises(ProofError):
                verify_path(tree.root, wrong[0], wrong[1], count, tree.path(at))
        with pytest.raises(ProofError):
            verify_path(tree.root, leaves[at], at, count, (*tree.path(at), bytes(32)))


# Points of Edwards25519 of order 1 and 8.
NEUTRAL = bytes([1]) + bytes(31)
EIGHTH = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")


def signature(how: str) -> tuple[bytes, bytes, bytes]:
    """(public key, message, signature), where the equation holds up to what `how` says."""
    message, seed = b"a claim", hashlib.sha256(b"odd").digest()
    public = bindings.crypto_sign_seed_keypair(seed)[0]
    expanded = bytearray(hashlib.sha512(seed).digest()[:32])
    expanded[0] &= 248
    expanded[31] = expanded[31] & 127 | 64
    r, secret = 0 if how == "neutral R" else 7, int.from_bytes(expanded, "little")
    commitment = NEUTRAL if r == 0 else bindings.crypto_scalarmult_ed25519_base_noclamp(small(r))
    if how == "R with torsion":
        commitment = bindings.crypto_core_ed25519_add(commitment, EIGHTH)
    public = NEUTRAL if how == "neutral key" else public
    h = int.from_bytes(hashlib.sha512(commitment + public + message).digest(), "little")
    s = (r + h * (0 if how == "neutral key" else secret)) % ORDER + (
        ORDER if how == "s beyond the order" else 0
    )
    return public, message, commitment + s.to_bytes(32, "little")


@pytest.mark.parametrize(
    "how", ["neutral R", "R with torsion", "neutral key", "s beyond the order"]
)
def test_signatures_that_libraries_read_differently_are_refused(how: str) -> None:
    assert verifies(*signature("plain"))
    assert not verifies(*signature(how))
