"""A user's claim and records, and the list of all claims: docs/mixing.md, "Claim" and "List"."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Final

from nacl import bindings

from shuffledp_core.errors import BadClaimError, BadListError, ProofError, UnansweredError
from shuffledp_core.mixproof.batches import Elements, multiples, spread
from shuffledp_core.mixproof.faults import at_fault, node
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Element,
    Scalar,
    challenge,
    digest_parts,
    number,
    total,
)
from shuffledp_core.mixproof.headers import Signer
from shuffledp_core.mixproof.proofs import (
    PROOF_BYTES,
    no_randomness,
    prove_all,
    prove_each,
    verify_all,
)
from shuffledp_core.mixproof.terms import MixTerms, split_record, verifies
from shuffledp_core.mixproof.trees import root
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_core.vocabulary import MIXPROOF_PROTOCOL

_SIGNED: Final = f"{MIXPROOF_PROTOCOL}/claim\0".encode()


@dataclass(frozen=True)
class Claim:
    """A user's public statement: the keys of its messages, and a commitment to its records.

    A node makes the same statement about its dummies. `credential` is an Ed25519 public key; `keys`
    is X_1 || .. || X_m; `root` commits to the records that node 1 gets.
    """

    credential: bytes
    root: bytes
    proof: bytes
    keys: bytes
    signature: bytes

    def parts(self) -> tuple[bytes, ...]:
        """All fields, in the order in which they are signed and hashed."""
        return (self.credential, self.root, self.proof, self.keys, self.signature)

    @property
    def key_list(self) -> tuple[bytes, ...]:
        """The encoded keys one by one, unchecked: `check_claim` returns them as elements."""
        return tuple(self.keys[start : start + WIDTH] for start in range(0, len(self.keys), WIDTH))


@dataclass(frozen=True)
class PreparedClaim:
    """One user's claim, with the records for node 1 and the secrets that the user keeps.

    `submission` is seed || records, for node 1's envelope; `secrets` are the x_j, which find the
    messages on the board. `messages` are key || symbol || proof, as they will appear there.
    """

    claim: Claim
    submission: bytes = field(repr=False)
    secrets: tuple[Scalar, ...] = field(repr=False)
    messages: tuple[bytes, ...] = field(repr=False, default=())


def claim_bytes(terms: MixTerms, claim: Claim) -> bytes:
    """The bytes that the credential's key signs."""
    return _SIGNED + terms.manifest + b"".join(claim.parts()[:-1])


def make_claim(
    terms: MixTerms, symbols: Sequence[int], credential_seed: bytes, random: RandomBytes
) -> PreparedClaim:
    """Seal one user's randomised symbols, and make the claim of the sealed records.

    Call it once a round; to send again, send the same.

    Args:
        terms: the round.
        symbols: m symbols below the alphabet's size.
        credential_seed: the raw Ed25519 private key of the credential, 32 bytes.
        random: the operating system's CSPRNG.

    Raises:
        ValueError: the symbols do not fit the round (our own misuse).
    """
    return _prepare(terms, symbols, *_signing(credential_seed), random)


def make_dummies_claim(
    terms: MixTerms, position: int, symbols: Sequence[int], sign: Signer, random: RandomBytes
) -> PreparedClaim:
    """Seal the dummies of the node at `position`, and make the claim of them as a user would.

    Call it once a round; to send again, send the same.

    Args:
        terms: the round.
        position: position of the node, 1 to L.
        symbols: the dummies, `terms.dummies` of them.
        sign: signs with the node's identity key.
        random: the operating system's CSPRNG.

    Raises:
        ValueError: the symbols do not fit the round (our own misuse).
    """
    return _prepare(terms, symbols, terms.node_credentials[position - 1], sign, random)


def _signing(credential_seed: bytes) -> tuple[bytes, Signer]:
    """The public key of a raw Ed25519 private key, and a function that signs with it."""
    credential, private = bindings.crypto_sign_seed_keypair(credential_seed)
    return credential, lambda statement: bindings.crypto_sign(statement, private)[
        : bindings.crypto_sign_BYTES
    ]


def _prepare(
    terms: MixTerms, symbols: Sequence[int], credential: bytes, sign: Signer, random: RandomBytes
) -> PreparedClaim:
    if len(symbols) != terms.messages_of(credential) or not all(
        0 <= symbol < terms.alphabet for symbol in symbols
    ):
        raise ValueError(
            "the number of symbols, or one of them, does not fit the round's geometry and alphabet"
        )
    seed = random(WIDTH)
    packed = b"".join(symbol.to_bytes(terms.symbol_bytes, "big") for symbol in symbols)
    # Of all symbols: should a device be resumed from a snapshot and answer afresh, no x seals two
    # different messages.
    secrets = tuple(
        challenge("secret", terms.manifest, seed, credential, number(index), packed)
        for index in range(len(symbols))
    )
    keys, contents = _contents(terms, secrets, symbols)
    records = _seal_records(terms, secrets, keys, contents)
    messages = tuple(key + content for key, content in zip(keys, contents, strict=True))
    return replace(_claim(terms, records, secrets, credential, sign, random), messages=messages)


def board_message(terms: MixTerms, secret: Scalar, symbol: int) -> bytes:
    """One message under a secret x as it appears on the board: x B_L || symbol || proof."""
    [key], [content] = _contents(terms, [secret], [symbol])
    return key + content


def _contents(
    terms: MixTerms, secrets: Sequence[Scalar], symbols: Sequence[int]
) -> tuple[list[Element], list[bytes]]:
    """For each message its key on the board, x B_L, and its last plaintext, symbol || proof."""
    encoded = [symbol.to_bytes(terms.symbol_bytes, "big") for symbol in symbols]
    contexts = [(terms.manifest, symbol) for symbol in encoded]
    keys, proofs = prove_each("message", contexts, terms.route.blinding[-1], secrets, no_randomness)
    return keys, [symbol + proof for symbol, proof in zip(encoded, proofs, strict=True)]


def seal_record(terms: MixTerms, secret: Scalar, symbol: int) -> bytes:
    """One message under a secret x of its own: the record X || box that node 1 gets.

    The same x and symbol give the same bytes: anyone who compares two different boxes under one x
    could read both.
    """
    return _seal_records(terms, [secret], *_contents(terms, [secret], [symbol]))[0]


def _seal_records(
    terms: MixTerms, secrets: Sequence[Scalar], keys: Sequence[Element], contents: Sequence[bytes]
) -> list[bytes]:
    boxes = [
        terms.seal(terms.analyst, key, content) for key, content in zip(keys, contents, strict=True)
    ]
    for position in range(terms.hops, 1, -1):
        shares = multiples(terms.route.opener(position)[1], secrets)
        boxes = [terms.seal(position, share, box) for share, box in zip(shares, boxes, strict=True)]
    return [key + box for key, box in zip(multiples(GENERATOR, secrets), boxes, strict=True)]


def sign_claim(
    terms: MixTerms,
    records: Sequence[bytes],
    secrets: Sequence[Scalar],
    credential_seed: bytes,
    random: RandomBytes,
) -> PreparedClaim:
    """The claim of a user over sealed records."""
    return _claim(terms, records, secrets, *_signing(credential_seed), random)


def _claim(
    terms: MixTerms,
    records: Sequence[bytes],
    secrets: Sequence[Scalar],
    credential: bytes,
    sign: Signer,
    random: RandomBytes,
) -> PreparedClaim:
    seed = random(WIDTH)
    commitments = root(commitments_of(terms, seed, records))
    keys = [split_record(record)[0] for record in records]
    proof = prove_all((terms.manifest, credential, commitments), keys, secrets, random)
    unsigned = Claim(credential, commitments, proof, b"".join(keys), b"")
    claim = replace(unsigned, signature=sign(claim_bytes(terms, unsigned)))
    return PreparedClaim(claim, seed + b"".join(records), tuple(secrets))


def salt(terms: MixTerms, seed: bytes, index: int) -> bytes:
    """Salt of the commitment to record `index`; node 1 shows it only for a blamed user."""
    return digest_parts("salt", terms.manifest, seed, number(index))


def commitment(terms: MixTerms, salt_: bytes, index: int, record: bytes) -> bytes:
    """The commitment to a user's record `index`, from 0."""
    return digest_parts("commitment", terms.manifest, salt_, number(index), *split_record(record))


def commitments_of(terms: MixTerms, seed: bytes, records: Sequence[bytes]) -> list[bytes]:
    """The commitments to a user's records: the leaves under the claim's root."""
    return [
        commitment(terms, salt(terms, seed, index), index, record)
        for index, record in enumerate(records)
    ]


def check_claim(
    terms: MixTerms, claim: Claim, enrolled: Container[bytes]
) -> tuple[tuple[Element, ...], bytes]:
    """Check a claim as every party does; return its keys and their sum, which may be the identity.

    1. C1: the fields have their lengths, and the credential signed them (by libsodium's strict
       rule), is enrolled, and is not a node's key.
    2. C2: it has m different keys, each an element.
    3. C3: it knows the logarithm of every one.

    Raises:
        BadClaimError: a check failed; the message names the user, or begins with "no claim" if the
            credential did not sign these fields.
    """
    _require_signed(terms, claim)
    party = terms.name_of(claim.credential)
    # Dummies are claimed behind all users: a node that is enrolled as a user as well would have two
    # claims under one name.
    if claim.credential in terms.node_credentials:  # D3 users
        raise BadClaimError(f"{party}: signs a user's claim with a node's identity key")
    if claim.credential not in enrolled:  # C1 enrolled
        raise BadClaimError(f"{party}: is not enrolled for this round")
    return _check_keys(terms, claim)


def check_dummies_claim(
    terms: MixTerms, position: int, claim: Claim
) -> tuple[tuple[Element, ...], bytes]:
    """Check a node's claim of its dummies as every party does; return its keys and their sum.

    The steps are those of `check_claim`, with the identity key of the node at `position` in place
    of an enrolled credential.

    Raises:
        BadClaimError: a check failed; the message names the node, or begins with "no claim" if it
            did not sign these fields.
    """
    if claim.credential != terms.node_credentials[position - 1]:  # D3 nodes
        raise BadClaimError(
            f"no claim: the dummies of node {position} must be claimed with that node's identity "
            "key"
        )
    _require_signed(terms, claim)
    return _check_keys(terms, claim)


def _require_signed(terms: MixTerms, claim: Claim) -> None:
    messages = terms.messages_of(claim.credential)
    lengths = len(claim.root), len(claim.proof), len(claim.keys)
    # The signature is over the fields joined: cut elsewhere it would still hold, and name whoever
    # signed them.
    if lengths != (WIDTH, PROOF_BYTES, WIDTH * messages):  # C1 lengths
        raise BadClaimError(
            f"no claim: it must consist of a root of {WIDTH} bytes, a proof and {messages} keys"
        )
    verify_signature(terms, claim)  # C1 signed


def _check_keys(terms: MixTerms, claim: Claim) -> tuple[tuple[Element, ...], bytes]:
    with at_fault(BadClaimError, terms.name_of(claim.credential)):
        keys = Elements(claim.key_list)
        if len(set(keys)) != len(keys):  # C2
            raise ProofError("a key occurs twice in the claim")
        verify_all((terms.manifest, claim.credential, claim.root), keys, claim.proof)  # C3
    return tuple(keys), keys.total


def verify_signature(terms: MixTerms, claim: Claim) -> None:
    """Verify a claim's signature by the strict rule; a looser library could incriminate node 1.

    Raises:
        BadClaimError: a check failed; the message names no party, because none signed the claim.
    """
    if not verifies(claim.credential, claim_bytes(terms, claim), claim.signature):
        raise BadClaimError("no claim: its signature does not verify with its credential's key")


def open_submission(
    terms: MixTerms, claim: Claim, submission: bytes
) -> tuple[bytes, tuple[bytes, ...]]:
    """(seed, records) of a checked claim's submission (C4), as node 1 sees it before the receipt.

    Raises:
        BadClaimError: another length, or these are not the records that the claim commits to.
    """
    width = terms.record_bytes(1)
    seed, packed = submission[:WIDTH], submission[WIDTH:]
    records = tuple(packed[start : start + width] for start in range(0, len(packed), width))
    legal = len(submission) == WIDTH + width * terms.messages_of(claim.credential)
    keys = b"".join(split_record(record)[0] for record in records)
    if not (
        legal and keys == claim.keys and root(commitments_of(terms, seed, records)) == claim.root
    ):  # C4
        raise BadClaimError(
            f"{terms.name_of(claim.credential)}: the records do not match the claim; send both "
            "again unchanged"
        )
    return seed, records


@dataclass(frozen=True)
class ClaimList:
    """A checked list of claims, with its digest, the sum Σ_0 of all keys, and the number of users.

    The claims of `users` users come first, by ascending credential; then those of the nodes'
    dummies, in route order.
    """

    digest: bytes
    claims: tuple[Claim, ...]
    total: Element
    users: int

    @cached_property
    def by_credential(self) -> dict[bytes, Claim]:
        """The claims by credential."""
        return {claim.credential: claim for claim in self.claims}

    def find_message(self, at: int, terms: MixTerms) -> tuple[Claim, int]:
        """The claim that holds message number `at` of the list, and the index in that claim."""
        of_users = self.users * terms.messages_per_user
        if at < of_users:
            owner, index = divmod(at, terms.messages_per_user)
        else:
            owner, index = divmod(at - of_users, terms.dummies)
            owner += self.users
        return self.claims[owner], index


def list_digest(terms: MixTerms, claims: Sequence[Claim]) -> bytes:
    """Digest of the claim list for headers and answers: every field of every claim, in order."""
    return digest_parts(
        "list", terms.manifest, *(part for claim in claims for part in claim.parts())
    )


def signed_list(terms: MixTerms, digest: bytes) -> bytes:
    """The bytes that node 1 signs for the list with this digest."""
    return terms.statement("list", 1, digest)


def check_list(
    terms: MixTerms, claims: Sequence[Claim], enrolled: Container[bytes], signature: bytes
) -> ClaimList:
    """Check node 1's list as every party does; return the list against which hops are checked.

    1. L1: node 1 signed it.
    2. L3: it has a permitted number of users; checked before anything is computed for each of them.
    3. L2: credentials ascend strictly, and C1 to C3 hold for every claim. If nodes add dummies, one
       claim of every node follows those of the users.
    4. L4: no key occurs twice.

    Raises:
        BadListError: a check failed; the message names node 1, whose signature is on it.
        UnansweredError: step 1; or the keys add up to the identity. No party is named for that.
    """
    entry = node(1, terms.hops)
    digest = list_digest(terms, claims)
    terms.require_signed(1, signed_list(terms, digest), signature)  # L1
    users = len(claims) - len(terms.node_credentials)
    if not terms.min_reports <= users <= terms.max_reports:  # L3
        raise BadListError(
            f"{entry}: the list has {users} users, but the round allows {terms.min_reports} to "
            f"{terms.max_reports}"
        )
    if not all(
        left.credential < right.credential for left, right in pairwise(claims[:users])
    ):  # L2
        raise BadListError(f"{entry}: the credentials of the list are not in ascending order")
    try:
        checked = spread(lambda claim: check_claim(terms, claim, enrolled), claims[:users])  # L2
        checked += [
            check_dummies_claim(terms, position, claim)
            for position, claim in enumerate(claims[users:], start=1)
        ]  # L2 dummies
    except BadClaimError as error:
        raise BadListError(
            f"{entry}: the list has a claim that does not verify: {error}"
        ) from error
    keys = list(chain.from_iterable(keys for keys, _ in checked))
    if len(set(keys)) != len(keys):  # L4
        raise BadListError(f"{entry}: a key occurs twice in the list")
    try:
        return ClaimList(digest, tuple(claims), total(claim_sum for _, claim_sum in checked), users)
    except ProofError as error:
        raise UnansweredError(f"no answer: {error}; such a list contains no honest user") from error
