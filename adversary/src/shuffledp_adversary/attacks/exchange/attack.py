"""Exchange: a mix node that repeats, replays, drops, replaces or marks onions.

**What the adversary has.** One mix node, above all the entry node: it opens every user's envelope,
so it knows whose inner onions are whose, though not what is in them. It may change its output as it
likes, and sign for it. It reads the published board. All its peers run the honest program.

**What it does, and why that should work.** A mix hides only what goes through it once and
unchanged.

* *Repeat*: add a copy of the victim's onion. Mixing keeps multiplicities, so the message
  that is on the board three times is the victim's. *Replay* does it across rounds.
* *Mark*: flip a bit of the victim's onion. Under a malleable cipher the change comes through all
  layers and shows.
* *Lose* or *exchange*: drop the victim's onions, and send others in their place so that all counts
  stay right; or *drop* them and sign for it, as if they had not opened; or, as the last node,
  *double* one message in place of others.
* *Isolate* (the "n - 1" or blending attack): exchange everyone's onions but the victim's for its
  own. What it did not make itself on the board is the victim's. *Crowd* does that at the door: let
  the victim in, turn the others away, and make up the rest. *Surround* is the same from outside,
  with accomplices who really are enrolled.
* *Frame* (verified rounds only, which trace what does not open to its user): accuse a record that
  does open, and show the share that opens it in a second spelling.

**What stops it.** Of an onion that occurs twice in a batch the next node keeps one; round keys are
fresh, so that an onion of another round does not open; every layer is authenticated, so that a
marked one does not open either, and what does not open is dropped: neither copies nor marks reach
the board. Counts, also of what was dropped, are signed at every hop and held together at the end;
and every message carries a receipt tag that only its sender knows, so that a user whose message is
not on the board, once and unchanged, holds evidence in its receipt. A share in a second spelling is
refused, and its author named, because an element of the group has one encoding.

**What does not.** Tags tell of a loss only after the board is out: *isolate* is noticed by
everyone but the victim, too late for the victim. *Crowd* leaves no one with a receipt that is not
honoured. Only the entry node sees credentials, so no other party can recognise made-up reports;
they count as colluding users, which the plan must allow for.

Sources: Serjantov, Dingledine and Syverson, "From a Trickle to a Flood: Active Attacks on Several
Mix Types" (Information Hiding 2002), for the blending attack; Danezis and Goldberg, "Sphinx" (IEEE
S&P 2009), for tagging and replay.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from shuffledp.commands.options import Mixing
from shuffledp.progress import Stages
from shuffledp_adversary.attacks.attack import CONFIDENCE, Attack, whole_number
from shuffledp_adversary.attacks.exchange import unguarded
from shuffledp_adversary.attacks.exchange.doors import AGAIN, crowd_out, knock, surround
from shuffledp_adversary.attacks.exchange.mixproof import run_mixproof
from shuffledp_adversary.attacks.exchange.rounds import (
    USERS,
    Observation,
    observe,
    tamperable_system,
)
from shuffledp_adversary.attacks.exchange.tampering import SILENTLY
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import check_trials, share_finding
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE
from shuffledp_core.errors import UsageError
from shuffledp_core.onion.suites import SUITES
from shuffledp_core.vocabulary import Mix

SCENARIOS: Final[dict[str, tuple[int, ...]]] = {
    "copy": (1, 2),
    "replay": (1,),
    "mark": (1, 2),
    "double": (3,),
    "drop": (1, 2),
    "substitute": (1, 2),
    "exchange": (1, 3),
    "alter": (3,),
    "shrink": (1, 3),
    SILENTLY: (1,),
    "grow": (1, 3),
}
"""Tamperings that must be noticed, with the positions on the route at which they are tried (1:
entry, 3: last).
"""

ANSWER: Final = "another answer"
TRACED: Final = "the victim's messages"

GOALS: Final[dict[str, str]] = {
    **dict.fromkeys(("copy", "replay", "mark", "isolate", "crowd", "surround"), TRACED),
    **dict.fromkeys(
        ("double", "drop", "substitute", "exchange", "alter", "shrink", SILENTLY, "grow"), ANSWER
    ),
}
"""Goal of the adversary for each tampering."""

CONSISTENT: Final = ("substitute", "exchange", "alter", SILENTLY, "isolate")
"""Tamperings that leave every count and length as the other parties expect them."""

TRIALS: Final = 100
"""Number of in-process rounds of each attack without its defence."""

_GOAL: Final = "threat model: integrity goal 2"
_NOTICED: Final = "noticed, as a share of the tampered rounds"
_IDENTIFIED: Final = "identified, as a share of the victim's messages"

_LESSON: Final = (
    "Whatever a node repeats, replays, marks, loses or exchanges is noticed; copied and marked "
    "onions reach no board. But an entry node that drops everybody else takes away the victim's "
    "crowd: receipts tell of that only afterwards, and of reports that the entry node makes up "
    "not at all. Such reports count as colluding users. Plain rounds accuse no one; with --mix "
    "verified a node also tries to frame a user."
)


def run_exchange(
    *,
    trials: int = TRIALS,
    confidence: float = DEFAULT_CONFIDENCE,
    mix: Mix = Mix.PLAIN,
    users: int = USERS + 1,
    culprits: str = "1",
    tamperings: int = 0,
) -> AttackReport:
    """Run every tampering in real rounds, and attacks without their defence in process.

    Each position gets one real round; `trials` rounds are simulated in this process.

    With `mix` "verified" the rounds are verified ones, and nothing is simulated.

    Args:
        trials: number of trials, at least 1.
        confidence: confidence of the intervals of what is sampled.
        mix: whether the rounds are mixed plainly or provably.
        users: number of users of each verified round in which users send messages that do not open.
        culprits: numbers of users who do so, for example "1,10,100"; each number is played at each
            layer.
        tamperings: random ones in verified rounds, by a node at each position, and as many by a
            user.

    Raises:
        UsageError: a number is out of range, or applies only to the other kind of mixing.
        ShuffleDPError: the system did not start, or an honest part of it failed.
    """
    check_trials(trials, confidence, fewest=1)
    if mix is Mix.VERIFIED:
        if (trials, confidence) != (TRIALS, DEFAULT_CONFIDENCE):
            raise UsageError(
                "--trials and --confidence need --mix plain: with verified mixing nothing is "
                "sampled"
            )
        return run_mixproof(users, culprits, tamperings)
    if (users, culprits, tamperings) != (USERS + 1, "1", 0):
        raise UsageError(
            "--users, --culprits and --tamperings need verified rounds: add --mix verified"
        )
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="shuffledp-exchange-") as folder,
        Stages(Console(stderr=True)) as stages,
    ):
        observations, refusals = asyncio.run(play(Path(folder), stages))
        in_process = _in_process(trials, confidence, stages)
        stages.finish()
    findings = (*findings_of_rounds(observations), *_at_the_door(refusals), *in_process)
    details: dict[str, Any] = {
        "observations": [_row(seen) for seen in observations],
        "at_the_door": refusals,
    }
    return AttackReport("exchange", _LESSON, findings, time.perf_counter() - began, details)


async def play(folder: Path, stages: Stages) -> tuple[list[Observation], dict[str, str | None]]:
    """Play all real rounds on one system.

    Returns an observation of each round, and the refusals at the door (see `knock`).
    """
    scenarios = [
        (name, position) for name, positions in SCENARIOS.items() for position in positions
    ]
    scenarios.append(("isolate", 1))
    total = len(scenarios) + 4
    system, orders = tamperable_system(folder)
    observations: list[Observation] = []

    def record(observation: Observation) -> None:
        observations.append(observation)
        stages.update("rounds", len(observations), total)

    try:
        await system.start(lambda done, of: stages.update("starting processes", done, of))
        record(await observe(system, orders, None, 1))
        for name, position in scenarios:
            record(await observe(system, orders, name, position))
        record(await crowd_out(system, orders))
        record(await surround(system))
        refusals, observation = await knock(system)
        record(observation)
    finally:
        system.stop()
    return observations, refusals


def _row(seen: Observation) -> dict[str, Any]:
    goal = GOALS.get(seen.tampering)
    got = (
        seen.answer_changed if goal == ANSWER else seen.identified > 0 if goal == TRACED else False
    )
    return {"wanted": goal, "got": got, **seen.to_dict()}


def findings_of_rounds(observations: Sequence[Observation]) -> list[Finding]:
    """Findings of the real rounds."""
    of = {
        name: [seen for seen in observations if seen.tampering == name]
        for name in (*SCENARIOS, "isolate")
    }
    findings = [_must_be_noticed(name, of[name]) for name in SCENARIOS]
    tracing = [seen for name in ("copy", "replay", "mark") for seen in of[name]]
    findings.append(
        _count(
            "copy, replay and mark: does the victim's message show?",
            _IDENTIFIED,
            ClaimedLimit("threat model: privacy goal 1", 0.0),
            sum(seen.identified for seen in tracing) / sum(seen.messages for seen in tracing),
            len(tracing),
            defended=True,
        )
    )
    consistent = [seen for name in CONSISTENT for seen in of[name]]
    findings.append(
        _count(
            f"{', '.join(CONSISTENT)}: if users did not look for their tags",
            _NOTICED,
            ClaimedLimit(_GOAL, 1.0, at_least=True),
            sum(seen.stopped_by is not None for seen in consistent) / len(consistent),
            len(consistent),
            defended=False,
            note="every count is right: only the receipt tags tell",
        )
    )
    tampered = [seen for rounds in of.values() for seen in rounds]
    findings.append(
        _count(
            "the charge of a tampered round",
            "still charged, as a share of the tampered rounds",
            ClaimedLimit("protocol: Discards", 1.0, at_least=True),
            sum(seen.charge != "released" for seen in tampered) / len(tampered),
            len(tampered),
            defended=True,
        )
    )
    findings.append(_must_be_noticed("isolate", of["isolate"]))
    for name, what in _ISOLATING.items():
        findings += [
            _isolation_finding(what, seen) for seen in observations if seen.tampering == name
        ]
    return findings


_ISOLATING: Final = {
    "isolate": "entry node exchanges all onions but the victim's",
    "crowd": "entry node turns the others away and makes up reports (no enrolment key)",
    "surround": f"{USERS - 1} enrolled accomplices around the victim (with the enrolment key; "
    f"entry node honest)",
}
"""Attacks after which the board holds only the victim's and the adversary's messages.
"""


def _must_be_noticed(name: str, rounds: Sequence[Observation]) -> Finding:
    share = sum(seen.was_noticed for seen in rounds) / len(rounds)
    note = "; ".join(f"at {seen.position}: {seen.by}, {seen.error}" for seen in rounds)
    return _count(
        name,
        _NOTICED,
        ClaimedLimit(_GOAL, 1.0, at_least=True),
        share,
        len(rounds),
        defended=True,
        note=note,
    )


def _isolation_finding(what: str, seen: Observation) -> Finding:
    return _count(
        what,
        _IDENTIFIED,
        ClaimedLimit("guessing which messages of the round are the victim's", 1 / USERS),
        seen.identified / seen.messages,
        1,
        defended=False,
        note=f"nothing prevents it; noticed afterwards by {seen.by}",
    )


def _at_the_door(refusals: dict[str, str | None]) -> list[Finding]:
    """Finding at an honest entry node: a receipt is repeated only for an identical submission."""
    foreign = {what: error for what, error in refusals.items() if what != AGAIN}
    note = "; ".join(f"{what}: {error}" for what, error in foreign.items())
    refused = sum(error is not None for error in foreign.values()) / len(foreign)
    claim = ClaimedLimit("threat model: integrity goal 1", 1.0, at_least=True)
    quantity = "refused, as a share of the wrong submissions"
    return [_count("at the door", quantity, claim, refused, len(foreign), defended=True, note=note)]


def _in_process(trials: int, confidence: float, stages: Stages) -> list[Finding]:
    """Findings of the in-process attacks, each with and without the check that prevents it.

    Every bit of an onion is flipped as well.
    """
    runs: list[tuple[str, bool, Callable[[], unguarded.Pointing]]] = [
        (
            "copy, where nodes do not look for repeated onions",
            False,
            lambda: unguarded.run_copy(trials, guarded=False),
        ),
        (
            "copy, the same rounds with that check",
            True,
            lambda: unguarded.run_copy(trials, guarded=True),
        ),
        (
            "mark, where layers are encrypted but not authenticated",
            False,
            lambda: unguarded.run_mark(trials),
        ),
    ]
    findings = []
    for scenario, defended, run in runs:
        findings.append(_sampled_finding(scenario, run(), confidence, defended=defended))
        stages.update("in process", len(findings), len(runs) + len(SUITES))
    for name, suite in SUITES.items():
        findings.append(_flip_finding(name, unguarded.flip_every_bit(suite)))
        stages.update("in process", len(findings), len(runs) + len(SUITES))
    return findings


def _flip_finding(suite: str, trace: unguarded.Pointing) -> Finding:
    claim = ClaimedLimit("authenticated encryption", 0.0)
    share = trace.hits / trace.trials
    quantity = "opened, as a share of the onions with one flipped bit"
    return _count(
        f"mark, every bit under {suite}", quantity, claim, share, trace.trials, defended=True
    )


def _sampled_finding(
    scenario: str, trace: unguarded.Pointing, confidence: float, *, defended: bool
) -> Finding:
    claim = ClaimedLimit(
        "pointing at any message of the round: the victim has as many as everybody",
        1 / unguarded.USERS,
    )
    counted, quantity = (trace.hits, trace.trials), "traced, as a share of the rounds"
    return share_finding(scenario, counted, claim, confidence, defended=defended, quantity=quantity)


def _count(
    scenario: str,
    quantity: str,
    claim: ClaimedLimit,
    measured: float,
    trials: int,
    *,
    defended: bool,
    note: str = "",
) -> Finding:
    """Finding with an exact count, whose interval is the count itself."""
    return Finding(
        scenario, quantity, claim, measured, measured, measured, trials, defended, note=note
    )


ATTACK: Final = Attack(
    name="exchange",
    summary="Repeat, drop, exchange or mark onions at a corrupt entry node.",
    run=run_exchange,
    options={
        "trials": whole_number("Rounds in process of each attack, with and without its defence."),
        "confidence": CONFIDENCE,
        "mix": Mixing,
        "users": whole_number(
            "Users of each verified round in which some messages fail to decrypt."
        ),
        "culprits": Annotated[
            str,
            typer.Option(
                metavar="INTEGER,..",
                help="Numbers of colluding users to try; one round each, at each layer.",
            ),
        ],
        "tamperings": whole_number(
            "Verified rounds with a random tampering, at each position and by a user."
        ),
    },
)
