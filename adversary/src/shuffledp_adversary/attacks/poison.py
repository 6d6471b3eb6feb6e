"""Poison: users lie to move the answer as far as their messages can.

What the adversary has: a few credentials of its own, and nothing else; every node is honest.

What it does: its devices choose their symbols instead of drawing them, so that the estimate of one
count, or of the sum, becomes as large as it can.

Why it works: where users add the noise, the analyst takes it out of the counts by dividing by the
share of messages that carry information. A chosen message is divided, too, so a lie weighs more
than any value does. Where the mix nodes add the noise, nothing is divided; but a user who sends
several messages can put all of them into one cell.

What stops it: nothing makes people tell the truth. Each result states the most that one liar, and
the number of liars that the plan allows for, can have moved it (docs/adversary.md, "What liars can
move"); this attack shows that the bound holds and is no larger than what liars reach. Credentials
bound how many liars one attacker can play.

Source: Cheu, Smith and Ullman 2021, "Manipulation attacks in local differential privacy".
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_adversary.attacks.attack import CONFIDENCE, Attack, whole_number
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE
from shuffledp_client.encoding import symbols
from shuffledp_client.submission import prepare_symbols
from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimates import Present
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolNames
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Mechanism
from shuffledp_core.mechanisms.base import Answers
from shuffledp_core.mechanisms.liars import ExtremeMessages, largest_shift
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.vocabulary import Outcome
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.small_round import SmallRound, open_small

LIARS: Final = 3
HONEST: Final = 20
MOST: Final = 100
"""Most liars, and most honest users, of a round: two processors play twelve of them."""

LARGEST: Final = 3
"""Largest value: sums of 0 to 3, counts of four symbols."""

BINS: Final = 100
"""Bins of a histogram for quantiles, so that it has groups too."""

TWO_QUESTIONS: Final = QuestionWording(
    id="two-questions",
    text="How do you travel, and do you smoke?",
    axes=(
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("bicycle", "train"))),
        QuestionAxis(field="smoker", unit="", symbols=SymbolNames(names=("yes", "no"))),
    ),
)
"""Questions of a round that counts the answers to several."""

DRAWN: Final = 2000
"""Draws of the honest answers that the liars might have given instead."""

TRIED: Final = 128
IMAGINED: Final = 16
"""Symbols that liars try, and boards beside which they try them, where the alphabet has as many."""

IMAGINED_ANSWERS: Final = 64
"""Honest answers of theirs that liars imagine beside each such board. Of a single one, most bits
may be noise, and the wrong lie of a pair would seem the farther one."""

_LESSON: Final = (
    "Where users add the noise, a lie weighs more than the largest value, because the estimate "
    "divides by the share of messages that carry information. Under node-histogram and node-sum a "
    "lie weighs what a value does. Each result states the most that liars can have moved it, and "
    "liars reach it."
)


@dataclass(frozen=True)
class PoisonedRound:
    """A real round with liars: mechanism, answers, and bounds.

    Attributes:
        mechanism: kind of the mechanism.
        liars: number of them.
        worth: most by which their values could differ in the exact answer.
        bound: S(k), the stated bound on what they move.
        moved: distance of the published answer from the one had they told the opposite lie.
        from_honest: its mean distance from the one had they followed the protocol with values that
            count nothing; over `DRAWN` draws of their messages.
        amplified: whether the bound is larger than that.
        margin: half width of the interval of `from_honest` (Hoeffding 1963).
        missed: honest users who missed a message of theirs.
    """

    mechanism: str
    liars: int
    worth: float
    bound: float
    moved: float
    from_honest: float
    margin: float
    amplified: bool
    missed: int


def run_poison(
    *, liars: int = LIARS, users: int = HONEST, confidence: float = DEFAULT_CONFIDENCE
) -> AttackReport:
    """Play a real round of every mechanism in which some users lie as much as they can.

    Args:
        liars: number of liars in each round, from 1 to 100.
        users: honest ones beside them, from 10 to 100.
        confidence: confidence of the intervals of what is sampled.

    Raises:
        UsageError: a number is out of range.
        ShuffleDPError: the system did not start, or an honest part of it failed.
    """
    if not 1 <= liars <= MOST or not 10 <= users <= MOST or not 0 < confidence < 1:
        raise UsageError(
            f"liars must be from 1 to {MOST}, users from 10 to {MOST}, and confidence between 0 "
            f"and 1; got {liars}, {users} and {confidence}"
        )
    began = time.perf_counter()
    with (
        Stages(Console(stderr=True)) as stages,
        tempfile.TemporaryDirectory(prefix="shuffledp-poison-") as folder,
    ):
        rounds = asyncio.run(_play_all(Path(folder), liars, users, confidence, stages))
        stages.finish()
    findings = [finding for played in rounds for finding in findings_of(played, confidence)]
    details = {"users": users, "rounds": [asdict(played) for played in rounds]}
    return AttackReport("poison", _LESSON, tuple(findings), time.perf_counter() - began, details)


async def _play_all(
    folder: Path, liars: int, users: int, confidence: float, stages: Stages
) -> list[PoisonedRound]:
    system = LocalSystem(folder, nodes=3, budget=LocalBudget(1e9, 0.5), broker=False)
    rounds = []
    try:
        await system.start(lambda done, of: stages.update("starting processes", done, of))
        for kind in MECHANISMS:
            rounds.append(await _play(system, kind, liars, users, confidence))
            stages.update("rounds", len(rounds), len(MECHANISMS))
    finally:
        system.stop()
    return rounds


async def _play(
    system: LocalSystem, kind: str, liars: int, users: int, confidence: float
) -> PoisonedRound:
    """Play one round of this mechanism in which liars send what moves the answer most."""
    poisoned = await open_small(
        system,
        RoundPlan(
            population=system.population,
            mechanism=kind,
            size=BINS if MECHANISMS[kind].for_ranges else MECHANISMS[kind].size_for(LARGEST),
            wording=TWO_QUESTIONS if MECHANISMS[kind].counts_columns else msgspec.UNSET,
            epsilon=2.0,
            delta=1e-2,
            min_reports=users + liars,
            max_reports=users + liars,
            route=system.route,
            open_seconds=600.0,
        ),
    )
    poisoned.honest = poisoned.prepare_all([at % (LARGEST + 1) for at in range(users)])
    spec = poisoned.verified.mechanism
    chosen, opposite = extreme_lies(spec, liars, users)
    lies = [
        prepare_symbols(poisoned.verified, lie.tolist(), member)
        for lie, member in zip(np.split(chosen, liars), poisoned.members(liars), strict=True)
    ]
    await poisoned.send([*poisoned.honest, *lies])
    signed = await poisoned.finish()
    result = verify_from(poisoned.roster.analyst, signed, Result)
    if result.outcome != Outcome.PUBLISHED or result.estimate is None:
        raise OutputError(f"the round of {kind} has no answer: {result.reason}")
    board = await poisoned.board(result)
    others = _without(_symbols_on(poisoned, board, users + liars), chosen)
    hops, published = len(system.route), result.estimate.values[0]

    def moved_from(of_liars: NDArray[np.int64]) -> float:
        """Distance of the published answer from the answer with these messages of the liars."""
        answer = _target(spec, np.concatenate([others, of_liars]), users + liars, hops)
        return abs(published - answer)

    is_histogram = spec.answers is Answers.HISTOGRAM
    drawn = [
        moved_from(np.concatenate([_report(spec, _worthless(spec)) for _ in range(liars)]))
        for _ in range(DRAWN)
    ]
    bound = largest_shift(spec, liars)
    if bound is None:
        raise OutputError(
            f"{kind} states no bound on how far liars can shift its answer, so it cannot be "
            "measured"
        )
    worth = float(liars if is_histogram else liars * LARGEST)
    return PoisonedRound(
        mechanism=kind,
        liars=liars,
        worth=worth,
        bound=float(bound),
        moved=moved_from(opposite),
        from_honest=math.fsum(drawn) / DRAWN,
        margin=float(bound) * math.sqrt(math.log(2 / (1 - confidence)) / (2 * DRAWN)),
        amplified=bound > worth,
        missed=sum(poisoned.complaint(signed, board, user) is not None for user in range(users)),
    )


def extreme_lies(
    spec: Mechanism, liars: int, users: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two choices of the liars' symbols, shape (liars m,), with the most distant answers.

    The answer is the sum, or the count of symbol 0. The liars do not know the other messages, so
    they try each choice with the analyst's estimator beside several boards, one message of which
    takes values all over the alphabet, and take the pair whose least difference is largest. The
    first of the two is on average the farther from the answer with honest reports of theirs.
    """
    lies = list(_candidates(spec, liars * spec.messages_per_user))
    worthless = [
        np.concatenate([_report(spec, _worthless(spec)) for _ in range(liars)])
        for _ in range(IMAGINED_ANSWERS)
    ]
    honest = np.concatenate([_report(spec, 0) for _ in range(users)])
    rows = []
    for first in _spread(spec.alphabet, IMAGINED):
        beside = np.concatenate([[first], honest[1:]])
        rows.append(
            [
                _target(spec, np.concatenate([beside, sent]), users + liars, 0)
                for sent in (*worthless, *lies)
            ]
        )
    answers = np.array(rows)
    of_honest, of_lies = answers[:, :IMAGINED_ANSWERS], answers[:, IMAGINED_ANSWERS:]
    from_honest = np.abs(of_honest[:, :, None] - of_lies[:, None, :]).mean(axis=(0, 1))
    apart = np.abs(of_lies[:, :, None] - of_lies[:, None, :]).min(axis=0)
    pair = np.unravel_index(apart.argmax(), apart.shape)
    near, far = sorted(map(int, pair), key=lambda at: float(from_honest[at]))
    return lies[far], lies[near]


def _worthless(spec: Mechanism) -> int:
    """A value that contributes nothing to the answer."""
    return spec.domain - 1 if spec.answers is Answers.HISTOGRAM else 0


def _candidates(spec: Mechanism, messages: int) -> Iterator[NDArray[np.int64]]:
    tried = _spread(spec.alphabet, TRIED)
    if isinstance(spec, ExtremeMessages):
        tried += spec.extreme_messages(0)
    for symbol in tried:
        yield np.full(messages, symbol, dtype=np.int64)
        yield np.concatenate([[symbol], np.zeros(messages - 1, dtype=np.int64)])


def _spread(alphabet: int, number: int) -> list[int]:
    """At most `number` symbols, evenly spread over the alphabet."""
    return sorted({index * alphabet // number for index in range(number)})


def _target(spec: Mechanism, sent: NDArray[np.int64], users: int, nodes: int) -> float:
    """Estimate of the sum, or of the count of symbol 0, from these messages of all users."""
    counts = spec.counts_of(sent).tolist()
    return spec.estimate(counts, Present(Fraction(users), nodes)).values[0]


def _report(spec: Mechanism, value: int) -> NDArray[np.int64]:
    """The symbols of one user who follows the protocol."""
    integers = RandomIntegers()
    answer = randomise(spec, value, integers)
    return np.array(symbols(spec, answer, integers), dtype=np.int64)


def _symbols_on(poisoned: SmallRound, board: bytes, reports: int) -> NDArray[np.int64]:
    """The symbols on a board, as the analyst decodes them."""
    spec, seen = poisoned.verified.mechanism, list[NDArray[np.int64]]()

    def keep(decoded: NDArray[np.int64]) -> NDArray[np.int64]:
        seen.append(decoded)
        return spec.counts_of(decoded)

    decode(board, poisoned.verified.geometry, spec.alphabet, reports, counts_of=keep)
    return seen[0]


def _without(board: NDArray[np.int64], lies: NDArray[np.int64]) -> NDArray[np.int64]:
    """The board without these messages.

    Raises:
        OutputError: some of the messages are not on the board.
    """
    left = Counter(board.tolist())
    left.subtract(lies.tolist())
    if min(left.values()) < 0:
        raise OutputError("the board lacks messages of the liars, so nothing can be compared")
    return np.array(sorted(left.elements()), dtype=np.int64)


def findings_of(played: PoisonedRound, confidence: float) -> Sequence[Finding]:
    """Findings on one round: against the stated bound, and against honest values' contribution."""
    scenario = f"{played.liars} liars, {played.mechanism}"
    moved = _nine_digits(played.moved)
    reached = 100 * played.moved / played.bound
    return (
        Finding(
            f"{scenario}: their lies against the opposite ones",
            "is how far they moved the answer",
            ClaimedLimit("bound printed with the result", _nine_digits(played.bound)),
            moved,
            moved,
            moved,
            trials=1,
            defended=True,
            note=f"{reached:.0f}% of the bound; {played.missed} honest users missed a message",
        ),
        Finding(
            f"{scenario}: their lies against honest answers",
            "is how far they moved the answer, on average",
            ClaimedLimit("what their values are worth", played.worth),
            played.from_honest,
            played.from_honest - played.margin,
            played.from_honest + played.margin,
            trials=DRAWN,
            defended=not played.amplified,
            confidence=confidence,
            note=f"{100 * played.from_honest / played.bound:.0f}% of the bound",
        ),
    )


def _nine_digits(value: float) -> float:
    """Round to nine significant digits: the estimator uses floats, the bound is exact."""
    return float(f"{value:.9g}")


ATTACK: Final = Attack(
    name="poison",
    summary="Lie, to move a count or a sum as far as messages can.",
    run=run_poison,
    options={
        "liars": whole_number("Users who lie, in each round."),
        "users": whole_number("Honest users beside them."),
        "confidence": CONFIDENCE,
    },
)
