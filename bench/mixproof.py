"""Cost of provable mixing for client, node, analyst and whole round, relative to plain mixing.

`make bench` runs a small round; `python -m bench.mixproof --users 1000 --messages 90` runs one of
any size.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import msgspec

from bench.machine import machine
from bench.mixproof_rounds import BAD_LAYER, MixproofRound, Times, plain_round
from shuffledp_core.mixproof import batches
from shuffledp_core.mixproof.acceleration import points
from shuffledp_core.onion import suites
from shuffledp_core.onion.acceleration import engine
from shuffledp_core.onion.geometry import Geometry, MixField
from shuffledp_core.vocabulary import Mix

NODES, USERS, MESSAGES = 3, 20, 30


@dataclass(frozen=True)
class PlayedRounds:
    """Processor seconds of rounds of one size with one library, by party."""

    plain: Times
    verified: Times
    blamed: Times
    verify: float
    """Of anybody who checks the published round."""


def run() -> None:
    """Print times and ratios of a small round."""
    measure(USERS, MESSAGES)


def measure(users: int, messages: int) -> None:
    """Print times, ratios and lengths of a round of this size, with and without the accelerator."""
    count = users * messages
    print(
        f"  {users:,} users, {messages} messages each, {NODES} nodes; microseconds of processor "
        "time a message"
    )
    with without_accelerator():
        alone = play_rounds(users, messages)
    print_played("libsodium", alone, count)
    if points() is None:
        print("  no accelerator (make accel)")
    else:
        used = engine()
        with_wheel = play_rounds(users, messages)
        print_played(
            f"accelerator ({used.path if used else 'for ristretto255 alone'})", with_wheel, count
        )
        verified, plain = with_wheel.verified.round, alone.plain.round
        print(f"  round: verified with the accelerator / plain without {verified / plain:22.2f}")
    print_lengths(messages)


@contextmanager
def without_accelerator() -> Iterator[None]:
    """Context in which libsodium does all work."""
    with (
        patch.object(suites, "engine", lambda: None),
        patch.object(batches, "points", lambda: None),
    ):
        yield


def play_rounds(users: int, messages: int) -> PlayedRounds:
    """Play a plain round, a verified one, and one with an undecryptable message at node 3."""
    verified = MixproofRound(geometry_of(messages, verified=True), users)
    honest = verified.play()
    check, _ = verified.verify()
    plain = plain_round(geometry_of(messages, verified=False), users)
    blamed = verified.play(blamed=True)
    excluded = verified.verify()[1].excluded
    if len(excluded) != 1:
        raise RuntimeError(f"{len(excluded)} users were excluded, not one")
    return PlayedRounds(plain, honest, blamed, check)


def geometry_of(messages: int, *, verified: bool) -> Geometry:
    """The geometry of a round with `messages` messages per user."""
    mix: MixField = Mix.VERIFIED if verified else msgspec.UNSET
    return Geometry(
        suite="sealed-box", hops=NODES, messages_per_user=messages, symbol_bytes=1, mix=mix
    )


def print_played(library: str, times: PlayedRounds, messages: int) -> None:
    """Print one row for each party."""
    plain, verified, blamed = times.plain, times.verified, times.blamed
    scale = 1e6 / messages
    print(f"  {library:<30}   plain verified   ratio   with blame")
    rows = [("client", plain.clients, verified.clients, blamed.clients)]
    rows += [
        (f"node {at}", *seconds)
        for at, seconds in enumerate(
            zip(plain.nodes, verified.nodes, blamed.nodes, strict=True), start=1
        )
    ]
    rows += [
        ("analyst", plain.analyst, verified.analyst, blamed.analyst),
        ("round: all of them", plain.round, verified.round, blamed.round),
    ]
    for name, was, now, then in rows:
        print(
            "    "
            f"{name:<28}{was * scale:8.1f}{now * scale:9.1f}{now / was:8.1f}{then * scale:13.1f}"
        )
    print(f"    {'verify':<36}{times.verify * scale:9.1f}")
    print(
        f"    to trace and exclude a user, all parties: {blamed.blame:.2f} s (a message bad at "
        f"node {BAD_LAYER})"
    )


def print_lengths(messages: int) -> None:
    """Print bytes on the wire and on the board; verified batches include all claims."""
    plain = geometry_of(messages, verified=False)
    verified = geometry_of(messages, verified=True)
    rows = (
        ("a user sends", plain.envelope_bytes, verified.envelope_bytes),
        (
            "a batch, a user: node 1 to 2",
            messages * plain.record_bytes(2),
            messages * verified.record_bytes(2) + verified.claim_bytes,
        ),
        (
            "published, a user",
            messages * plain.plain_bytes,
            messages * verified.plain_bytes + verified.claim_bytes,
        ),
    )
    print(f"  {'bytes':<30}   plain verified   ratio")
    for name, was, now in rows:
        print(f"    {name:<28}{was:8,.0f}{now:9,.0f}{now / was:8.1f}")


def main() -> None:
    """Measure a round of the size given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    chosen = parser.parse_args()
    print(f"{machine()}, load average {os.getloadavg()[0]:.0f}")
    began = time.perf_counter()
    measure(chosen.users, chosen.messages)
    print(f"  [{time.perf_counter() - began:.0f} s]")


if __name__ == "__main__":
    main()
