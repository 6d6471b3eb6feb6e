"""Spoil: a lost or exchanged message, and rounds without an honest node.

A sum of split values does not tolerate them; a sum of bits does.

**What the adversary has.** One mix node; or every mix node.

**What it does, and why that should work.** Under split-mix a user's messages are random numbers
that add up to its noisy value modulo q. Without one of them, or with another number in its place,
the sum of all is a random number, too. And an adversary who
traces all messages of a user adds them up: what is left is the user's own share of the noise, which
is nearly always 0.

**What stops it.** A message that is lost, repeated or marked is counted and signed for, or its tag
occurs twice on the board: then there is no answer, rather than a wrong one. One that is exchanged
with all counts right is missed by its sender, who holds a receipt. While one node is honest, no
message is traced. What users who lie can do is the subject of `poison`.

Sources: Balle et al. 2020 and Ghazi et al. 2020, on the mechanism; docs/accounting.md, S19, on what
it does not give.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from rich.console import Console

from shuffledp.columns import load_column
from shuffledp.progress import Stages
from shuffledp_adversary.attacks.attack import CONFIDENCE, Attack, whole_number
from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.rounds import (
    Observation,
    TamperedRound,
    judge,
    open_tampered,
    plan_for,
    tamperable_system,
)
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import share_finding
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE
from shuffledp_adversary.tracing.trace import CapturedRound, TraceResult, load_captured, trace_round
from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimates import Present
from shuffledp_core.documents.models import Result
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.mechanisms import SplitMix
from shuffledp_core.runtime.keys import verify_from
from shuffledp_privacy.sums.errors import sgdl_log_mass
from shuffledp_sim.demo import DemoOptions, play_round
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.system.workplace import workplace

COUNTED: Final = (("drop", 2), ("copy", 2), ("mark", 2), ("double", 3))
"""Tamperings, each with its place on the route, that take one message away or make two of it, and
what counts them.
"""

SILENT: Final = (("exchange", 1), ("exchange", 3), ("alter", 3))
"""Those that leave every count right."""

NODES: Final = 3

TRACED_USERS: Final = 100
"""Users of the round without an honest node."""

_LESSON: Final = (
    "A sum of pieces has no answer once a message is lost or doubled, and a wrong one once a node "
    "exchanges it, which only its sender notices. "
    "Without an honest node each value is read off, because a user's own share of the noise is "
    "almost always 0."
)


@dataclass(frozen=True)
class SpoiledRound:
    """One round: which parties noticed what, and the error of its published sum.

    The error is None if no sum was published.

    `shift` is the difference from the estimate of the users' own messages.
    """

    mechanism: str
    what: str
    seen: Observation
    shift: float | None

    def to_dict(self) -> dict[str, Any]:
        """The fields for the report's JSON."""
        return {
            "mechanism": self.mechanism,
            "what": self.what,
            "shift": self.shift,
            **self.seen.to_dict(),
        }


def run_spoil(*, users: int = TRACED_USERS, confidence: float = DEFAULT_CONFIDENCE) -> AttackReport:
    """Play real rounds: one for each tampering, then one without an honest node.

    `users` take part in the round without an honest node.

    Args:
        users: number of users of the last round, at least 20.
        confidence: confidence of the intervals of what is sampled.

    Raises:
        UsageError: a number is out of range.
        ShuffleDPError: the system did not start, or an honest part of it failed.
    """
    if not 20 <= users <= 10_000 or not 0 < confidence < 1:
        raise UsageError(
            f"users must be from 20 to 10000, and confidence between 0 and 1; got {users} and "
            f"{confidence}"
        )
    began = time.perf_counter()
    with Stages(Console(stderr=True)) as stages:
        with tempfile.TemporaryDirectory(prefix="shuffledp-spoil-") as folder:
            rounds = asyncio.run(_play(Path(folder), stages))
        captured = _capture_round(users, stages)
        stages.finish()
    findings = (
        *findings_of_losses(rounds),
        *findings_of_exchanges(rounds),
        *findings_without_honest_node(captured, confidence),
    )
    details = {"rounds": [spoiled.to_dict() for spoiled in rounds]}
    return AttackReport("spoil", _LESSON, findings, time.perf_counter() - began, details)


async def _play(folder: Path, stages: Stages) -> list[SpoiledRound]:
    system, orders = tamperable_system(folder)
    rounds: list[SpoiledRound] = []
    total = len(COUNTED) + len(SILENT) + 1

    def record(spoiled: SpoiledRound) -> None:
        rounds.append(spoiled)
        stages.update("rounds", len(rounds), total)

    try:
        await system.start(lambda done, of: stages.update("starting processes", done, of))
        record(await _play_tampered(system, orders, None, 1))
        for name, position in (*COUNTED, *SILENT):
            record(await _play_tampered(system, orders, name, position))
        orders.give(None)
    finally:
        system.stop()
    return rounds


async def _play_tampered(
    system: LocalSystem, orders: Orders, name: str | None, position: int
) -> SpoiledRound:
    """Play a split-mix round in which the malicious node tampers as ordered (`name`)."""
    orders.give(name)
    plan = msgspec.structs.replace(plan_for(system, position), mechanism=SplitMix.kind)
    played = await open_tampered(system, plan)
    await played.submit()
    return await _judge(played, orders, name or "nothing", position)


async def _judge(played: TamperedRound, orders: Orders, what: str, position: int) -> SpoiledRound:
    signed = await played.finish()
    seen = await judge(played, signed, orders.made_up(), what, position)
    result, spec = verify_from(played.roster.analyst, signed, Result), played.verified.mechanism
    own_messages = b"".join(submission.messages for submission in played.honest)
    users = len(played.honest)
    counts = decode(
        own_messages, played.verified.geometry, spec.alphabet, users, counts_of=spec.counts_of
    ).counts

    def estimate(seen: Sequence[int]) -> float:
        return spec.estimate(seen, Present(Fraction(users))).values[0]

    return SpoiledRound(
        mechanism=spec.kind,
        what=what,
        seen=seen,
        shift=None if result.estimate is None else result.estimate.values[0] - estimate(counts),
    )


def _capture_round(users: int, stages: Stages) -> CapturedRound:
    """Play a round in real processes, in which every node logs what it learns."""
    demo = DemoOptions(
        users=users,
        mechanism=SplitMix.kind,
        epsilon=4.0,
        max_value=8,
        corrupt=frozenset(range(1, NODES + 1)),
    )
    column = load_column(demo.data, demo.column, users=users, max_value=demo.max_value, draw=True)
    with workplace("shuffledp-spoil-") as folder:
        played = play_round(demo, column, stages, folder)
        if played.evidence is None:
            raise OutputError(
                "nothing can be traced, because the corrupt nodes' logs could not be saved: "
                f"{played.lost}"
            )
        return load_captured(played.evidence)


def findings_of_losses(rounds: Sequence[SpoiledRound]) -> list[Finding]:
    """Findings on rounds with a lost or doubled message: whether they publish an answer."""
    names = {name for name, _ in COUNTED}
    played = [spoiled for spoiled in rounds if spoiled.what in names]
    return [
        _count(
            f"{', '.join(dict.fromkeys(spoiled.what for spoiled in played))}: one message lost or "
            "doubled by a node",
            "of the rounds gave an answer",
            ClaimedLimit("protocol, Lost messages: none, rather than a wrong one", 0.0),
            sum(spoiled.shift is not None for spoiled in played) / len(played),
            len(played),
            defended=True,
            note="; ".join(
                f"{spoiled.what} at {spoiled.seen.position}: {spoiled.seen.by}, "
                f"{spoiled.seen.error}"
                for spoiled in played
            ),
        )
    ]


def findings_of_exchanges(rounds: Sequence[SpoiledRound]) -> list[Finding]:
    """Findings on rounds with an exchanged message and correct counts.

    They state who notices, and the error of the sum.
    """
    names = {name for name, _ in SILENT}
    played = [spoiled for spoiled in rounds if spoiled.what in names]
    note = "; ".join(
        f"{spoiled.what} at {spoiled.seen.position}: {spoiled.seen.by}, {_off(spoiled.shift)}"
        for spoiled in played
    )
    off = max((abs(spoiled.shift) for spoiled in played if spoiled.shift is not None), default=0.0)
    return [
        _count(
            "one message exchanged or altered, all counts right",
            "of the rounds were noticed by a user who looked for its tags",
            ClaimedLimit("threat model: integrity goal 2", 1.0, at_least=True),
            sum(spoiled.seen.users > 0 for spoiled in played) / len(played),
            len(played),
            defended=True,
            note=note,
        ),
        _count(
            "the same, if users did not look",
            "is the most by which a published sum is off",
            ClaimedLimit("the sum of the users' own messages", 0.0),
            off,
            len(played),
            defended=False,
            note="the answer is wrong, and every count of it right",
        ),
    ]


def _off(shift: float | None) -> str:
    return "no answer" if shift is None else f"sum off by {shift:g}"


def findings_without_honest_node(captured: CapturedRound, confidence: float) -> list[Finding]:
    """Findings on values read from the pieces: without an honest node, and with each in turn."""
    everyone = frozenset(captured.logs)
    note = (
        f"; a user's own share of the noise is 0 with probability {_no_noise(captured):.4f} "
        "(computed)"
    )
    traces = [trace_round(captured, everyone, confidence)]
    traces += [
        trace_round(captured, everyone - {honest}, confidence) for honest in sorted(everyone)
    ]
    return [_read_off(trace, confidence, note) for trace in traces]


def _no_noise(captured: CapturedRound) -> float:
    """Computed probability that a user's own share of noise is 0."""
    spec = captured.final.mechanism
    noise, shares = (float(getattr(spec, name)) for name in ("noise_epsilon", "shares"))
    return math.exp(sgdl_log_mass(1 / shares, noise, np.zeros(1, dtype=np.int64))[0])


def _read_off(trace: TraceResult, confidence: float, note: str) -> Finding:
    if trace.correct_uniform is None or trace.baseline is None:
        raise ValueError("the simulator keeps every value, to measure success by")
    nodes = ", ".join(map(str, trace.corrupt))
    return share_finding(
        f"nodes {nodes} of {trace.nodes} corrupt",
        (trace.correct_uniform, trace.users),
        ClaimedLimit("guessing without messages", trace.baseline),
        confidence,
        defended=not trace.all_corrupt,
        quantity="of the values are read off the pieces",
        note=f"traced: {trace.traced} of {trace.users} users{note if trace.all_corrupt else ''}",
    )


def _count(
    scenario: str,
    quantity: str,
    claim: ClaimedLimit,
    measured: float,
    trials: int,
    *,
    defended: bool,
    note: str,
) -> Finding:
    """Finding with an exact count, whose interval is the count itself."""
    return Finding(
        scenario, quantity, claim, measured, measured, measured, trials, defended, note=note
    )


ATTACK: Final = Attack(
    name="spoil",
    summary="Spoil a sum of pieces by one lost or exchanged message, or without an honest node.",
    run=run_spoil,
    options={
        "users": whole_number("Simulated users of the round without an honest node."),
        "confidence": CONFIDENCE,
    },
)
