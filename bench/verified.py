"""What verified mixing costs a message, for client, node and analyst, and how that compares with plain mixing."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence

from nacl import bindings

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import peel, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.verified.chain import check_board
from shuffledp_core.verified.claims import ClaimList, Prepared, check_list, list_digest, make_claim, signed_list
from shuffledp_core.verified.headers import Header
from shuffledp_core.verified.hops import Analyst, Hop
from shuffledp_core.verified.keys import NodeKey, NodeSecret, check_route, make_key
from shuffledp_core.verified.terms import MixTerms

NODES, USERS, MESSAGES = 3, 12, 30
ROUND, CONTEXT = "00" * 16, bytes(32)
NAMES = tuple(f"node-{position}" for position in range(1, NODES + 1))


def run() -> None:
    """Prints microseconds of processor time a message, and ratios."""
    messages, (seal, plain_hop), made = USERS * MESSAGES, plain(), verified()
    print(f"  {USERS} users, {MESSAGES} messages each, {NODES} nodes; microseconds of processor time a message")
    compared("client", seal / messages, made["client"] / messages)
    for name in ("node 2, while the round is open", "node 2, after the close"):
        alone(name, made[name] / messages)
    node = made["node 2, while the round is open"] + made["node 2, after the close"]
    compared("node 2, both", plain_hop / messages, node / messages)
    for name in ("analyst, after the close", "verify, with the list"):
        alone(name, made[name] / messages)


def compared(name: str, was: float, now: float) -> None:
    print(f"  {name:<36}{was:8.0f} plain{now:8.0f} verified  x {now / was:.1f}")


def alone(name: str, now: float) -> None:
    print(f"  {name:<36}{now:22.0f} verified")


def timed(work: Callable[[], object]) -> float:
    """Microseconds of processor time."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6


def plain() -> tuple[float, float]:
    """Sealing all users' envelopes, and one hop of all messages, plain."""
    geometry = Geometry(suite="sealed-box", hops=NODES, messages_per_user=MESSAGES, symbol_bytes=1)
    suite = suite_named(geometry.suite)
    keys = [suite.generate() for _ in range(NODES)]
    content = [bytes(geometry.plain_bytes)] * MESSAGES
    public = [key for _, key in keys]
    envelopes: list[bytes] = []
    seal = timed(lambda: envelopes.extend(seal_envelope(geometry, ROUND, public, content) for _ in range(USERS)))
    opener = suite.opener(keys[0][0], b"")
    batch = b"".join(opener(envelope) for envelope in envelopes)
    return seal, timed(lambda: peel(geometry, ROUND, 2, keys[1][0], batch))


def verified() -> dict[str, float]:
    """The same, verified; and what only verified mixing has."""
    terms, secrets, signers = round_of()
    users: list[Prepared] = []
    seeds = [hashlib.sha256(bytes([user])).digest() for user in range(USERS)]
    found = {
        "client": timed(lambda: users.extend(make_claim(terms, [1] * MESSAGES, seed, os.urandom) for seed in seeds))
    }
    claims = sorted((user.claim for user in users), key=lambda claim: claim.credential)
    enrolled = {claim.credential for claim in claims}
    list_signature = signers[0](signed_list(terms, list_digest(terms, claims)))
    lists: list[ClaimList] = []
    found["node 2, while the round is open"] = timed(
        lambda: lists.append(check_list(terms, claims, enrolled, list_signature))
    )
    hops = [Hop(terms, lists[0], at + 1, secret, signers[at]) for at, secret in enumerate(secrets)]
    analyst, headers, records = Analyst(terms, lists[0], signers[-1]), list[Header](), tuple[bytes, ...]()
    hops[0].take({user.claim.credential: user.submission for user in users})
    for hop in hops:
        taken = timed(lambda hop=hop, records=records: through(hop, headers, records))  # type: ignore[misc]
        if hop.position == 2:
            found["node 2, after the close"] = taken
        header, records = hop.release(os.urandom)
        headers.append(header)
    found["analyst, after the close"] = timed(lambda: read(analyst, headers, records))
    found["verify, with the list"] = timed(
        lambda: check_board(terms, check_list(terms, claims, enrolled, list_signature), headers, [], *analyst.board())
    )
    return found


def round_of() -> tuple[MixTerms, list[NodeSecret], list[Callable[[bytes], bytes]]]:
    """Terms, the nodes' secrets, and everybody's signature."""
    made: list[tuple[NodeSecret, NodeKey]] = []
    for position, name in enumerate(NAMES, start=1):
        route = check_route(CONTEXT, NAMES[: position - 1], [key for _, key in made])
        made.append(make_key(CONTEXT, name, position, route.blinding[-1], os.urandom))
    identities = [bindings.crypto_sign_keypair() for _ in range(NODES + 1)]
    signers = [signer(private) for _, private in identities]
    route = check_route(CONTEXT, NAMES, [key for _, key in made])
    terms = MixTerms(bytes(32), route, tuple(public for public, _ in identities), MESSAGES, 1, 2, USERS, USERS)
    return terms, [secret for secret, _ in made], signers


def signer(private: bytes) -> Callable[[bytes], bytes]:
    """Signs with this key."""
    return lambda statement: bindings.crypto_sign(statement, private)[: bindings.crypto_sign_BYTES]


def through(hop: Hop, headers: Sequence[Header], records: Sequence[bytes]) -> None:
    """All that a node does after the close."""
    if hop.position > 1:
        hop.receive(headers, [], records)
    hop.accuse(os.urandom)
    hop.release(os.urandom)


def read(analyst: Analyst, headers: Sequence[Header], records: Sequence[bytes]) -> None:
    """All that the analyst does after the last hop."""
    analyst.receive(headers, [], records)
    analyst.accuse(os.urandom)
    analyst.board()
