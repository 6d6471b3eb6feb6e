"""Trace: join corrupt mix nodes' logs, rebuild what each user sent, and guess the user's value.

What the adversary knows: the published board and manifest, as everyone does, and all that the
corrupt nodes saw: at node 1 who sent which envelope, at every corrupt node its permutation, and
(truncated digests of) each record that came in and went out. It also knows how many people hold
each value, which makes its guesses as good as they can be.

What it does: a record that left one corrupt node is looked up among those that came in at the next,
from the senders to the board. If all m messages of a user are found there, the user's randomised
answer is known: m bits, or a symbol. The adversary then guesses the value that most likely made
that answer (maximum a posteriori: the mechanism's likelihood times the share of the population).

Why it works: with every node corrupt nothing is shuffled for the adversary, and each user has only
its own noise: ε_L instead of ε, often ten times as much. What stops it: one honest node. It takes a
layer off every record, so that no ciphertext looks as before, and puts them in a uniformly random
order that it forgets. The join finds nothing on its other side, and the best guess is the most
frequent value, as without any message. (That the order is random is put to the test, too: the
adversary also guesses as if the honest node had forgotten to mix.)

The last part measures ε_L itself, with no shuffle at all: the real client sampler draws answers for
the values 0 and 1, and the event that tells them apart best gives an ε from below. For randomised
response and for discrete Laplace noise that event attains ε_L, so that the estimate comes close to
it and never beyond what chance allows.

Reference: Athanasiou et al. 2025, sections 2.4 and 7 (robustness to corrupt shufflers);
docs/accounting.md, K7, S8 and S10.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.columns import load_column
from shuffledp.commands.options import Mechanism as MechanismOption
from shuffledp.node_numbers import node_numbers
from shuffledp.progress import Stages
from shuffledp_adversary.attacks.attack import CONFIDENCE, Attack
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, EpsilonBound, epsilon_bound
from shuffledp_adversary.tracing.trace import CapturedRound, TraceResult, load_captured, trace_round
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.mechanisms import GeoShuffle, Mechanism, RRShuffle
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import Setting, corrupted_bounds
from shuffledp_sim.demo import DemoOptions, play_round
from shuffledp_sim.system.workplace import workplace

REFERENCES: Final[tuple[Mechanism, ...]] = (
    RRShuffle(max_value=2, randomise=Fraction(1, 2)),
    GeoShuffle(max_value=2, epsilon_geo=Fraction(1), padding=4),
)
"""Mechanisms whose ε_L is attained at distance 1 by an event that happens often enough to be
measured.
"""

_CHUNK: Final = 5000
"""Number of answers drawn between two updates of the progress bar."""


@dataclass(frozen=True)
class TraceOptions:
    """The options of `shuffledp attack trace`.

    Attributes:
        demo: the round to play, with its corrupt nodes.
        folder: analyse this earlier round instead.
        logs: its logs; None for those in the folder.
        subset: use the logs of these nodes only; None for all there are.
        local_trials: answers drawn for each of the two values; 0 leaves the last part out.
        confidence: confidence of every interval.
    """

    demo: DemoOptions
    folder: Path | None = None
    logs: Path | None = None
    subset: frozenset[int] | None = None
    local_trials: int = 50_000
    confidence: float = DEFAULT_CONFIDENCE

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(f"--confidence must be above 0 and below 1, not {self.confidence}")
        if self.local_trials < 0 or self.local_trials == 1:
            raise UsageError(f"--local-trials must be 0, or at least 2, not {self.local_trials}")
        if self.folder is None and self.logs is not None:
            raise UsageError(
                "--logs needs --round-folder, the folder with the round's board and documents"
            )
        if self.folder is None and not self.demo.corrupt:
            raise UsageError(
                "--corrupt must name at least one node: without a log there is nothing to join"
            )


def run_trace(options: TraceOptions, stages: Stages) -> AttackReport:
    """Run the attack on one round, with the logs of all corrupt nodes.

    If none is honest, also without each one's.

    An adversary without the log of a node is the adversary to whom that node was honest: on the
    wire they are alike.

    Raises:
        CorruptLogError, DocumentError, ConfigError: logs or documents of an earlier round that
            cannot be used.
        ShuffleDPError: whatever ended the round that was played.
    """
    began = time.perf_counter()
    captured = _capture(options, stages)
    everyone = frozenset(captured.logs) if options.subset is None else options.subset
    subsets = [everyone]
    if len(everyone) == captured.nodes:
        subsets += [everyone - {honest} for honest in sorted(everyone)]
    traces = [trace_round(captured, subset, options.confidence) for subset in subsets]
    findings = [finding for trace in traces for finding in trace_findings(trace)]
    if options.local_trials:
        specs = dict.fromkeys((*REFERENCES, captured.final.mechanism))
        findings += [
            local_finding(spec, options.local_trials, options.confidence, stages) for spec in specs
        ]
    first = traces[0]
    return AttackReport(
        attack="trace",
        lesson=_lesson(first, captured),
        findings=tuple(findings),
        seconds=time.perf_counter() - began,
        details={
            "round": captured.manifest.round_id,
            "mechanism": captured.final.mechanism.kind,
            "epsilon": captured.final.epsilon.certified,
            "epsilon_corrupted": captured.final.corrupted.epsilon,
            **first.to_dict(),
            "traces": [trace.to_dict() for trace in traces],
        },
    )


def _capture(options: TraceOptions, stages: Stages) -> CapturedRound:
    if options.folder is not None:
        return load_captured(options.folder, options.logs)
    demo = options.demo
    column = load_column(
        demo.data, demo.column, users=demo.users, max_value=demo.max_value, draw=True
    )
    with workplace("shuffledp-trace-") as folder:
        played = play_round(demo, column, stages, folder)
        if played.evidence is None:
            raise OutputError(
                "nothing can be traced, because the corrupt nodes' logs could not be saved: "
                f"{played.lost}"
            )
        return load_captured(played.evidence)


def trace_findings(trace: TraceResult) -> list[Finding]:
    """Findings for one set of corrupt nodes: users traced, and values guessed."""
    nodes = ", ".join(map(str, trace.corrupt))
    adversary = f"node{'s' if len(trace.corrupt) > 1 else ''} {nodes} of {trace.nodes} corrupt"
    joins = ", ".join(
        f"{step.before} to {step.after}: {step.joined:,} of {step.records:,}"
        for step in trace.steps
    )
    defended = not trace.all_corrupt
    findings = [
        Finding(
            scenario=adversary,
            quantity="users traced (share)",
            claim=ClaimedLimit("no user, while one node is honest", 0.0),
            measured=trace.traced_share,
            low=trace.traced_share,
            high=trace.traced_share,
            trials=trace.users,
            defended=defended,
            confidence=trace.confidence,
            note=f"records joined: {joins}",
        )
    ]
    if trace.success is not None and trace.interval is not None and trace.baseline is not None:
        findings.append(
            Finding(
                scenario=adversary,
                quantity="users whose value was guessed (share)",
                claim=ClaimedLimit("guessing without messages", trace.baseline),
                measured=trace.success,
                low=trace.interval[0],
                high=trace.interval[1],
                trials=trace.users,
                defended=defended,
                confidence=trace.confidence,
            )
        )
    if defended and trace.correct_by_place is not None and trace.baseline is not None:
        low, high = trace.interval_of(trace.correct_by_place)
        findings.append(
            Finding(
                scenario=f"{adversary}, guessing as if honest nodes did not mix",
                quantity="users whose value was guessed (share)",
                claim=ClaimedLimit("guessing without messages", trace.baseline),
                measured=trace.correct_by_place / trace.users,
                low=low,
                high=high,
                trials=trace.users,
                defended=True,
                confidence=trace.confidence,
            )
        )
    return findings


def local_finding(
    spec: Mechanism, trials: int, confidence: float, stages: Stages | None = None
) -> Finding:
    """Empirical ε of one user's answer at distance 1, against the accountant's certified ε_L.

    The claim is the defence that is left when every node is corrupt, so it must hold.
    """
    bound = local_epsilon(spec, trials, confidence, stages)
    return Finding(
        scenario=f"one user alone, {spec.kind}: value 0 or 1",
        quantity="ε at δ = 0 (nats)",
        claim=ClaimedLimit("accountant, ε_L at distance 1", local_claim(spec)),
        measured=bound.estimate,
        low=bound.lower,
        high=math.inf,
        trials=bound.trials,
        defended=True,
        confidence=confidence,
        note=f"the event happened {bound.hits[0]:,} and {bound.hits[1]:,} times",
    )


def local_claim(spec: Mechanism) -> float:
    """Certified ε_L for a change by 1, nats: never below the truth."""
    return corrupted_bounds(spec, Setting(users=1, honest=1, max_distance=1), 0.0).epsilon


def local_epsilon(
    spec: Mechanism, trials: int, confidence: float, stages: Stages | None = None
) -> EpsilonBound:
    """Lower bound on the ε of one answer, from `trials` real answers for each of 0 and 1.

    At x = 0 the likelihood ratio of neighbouring values is largest where the answer is smallest:
    all bits zero for randomised response, anything at most c for discrete Laplace noise, the symbol
    0 for k-RR.
    """
    stage = f"local {spec.kind}"

    def answers(value: int, done: int) -> NDArray[np.int64]:
        integers = RandomIntegers()
        drawn = np.empty(trials, dtype=np.int64)
        for index in range(trials):
            if stages is not None and index % _CHUNK == 0:
                stages.update(stage, done + index, 2 * trials)
            drawn[index] = randomise(spec, value, integers)
        return drawn

    bound = epsilon_bound(answers(0, 0), answers(1, trials), 0.0, confidence)
    if stages is not None:
        stages.update(stage, 2 * trials, 2 * trials)
    return bound


def _lesson(trace: TraceResult, captured: CapturedRound) -> str:
    final = captured.final
    if trace.all_corrupt:
        return (
            f"With every node corrupt all {trace.traced:,} of {trace.users:,} users were traced, "
            "and only their own noise is left to them; without the log of any one node, no user "
            "is traced."
        )
    return (
        f"One honest node of {trace.nodes} is enough: {trace.traced:,} of {trace.users:,} users "
        f"were traced, and the certificate for {final.mechanism.kind} keeps its ε."
    )


def _run_options(
    *,
    users: int = 300,
    mechanism: str = "geo-shuffle",
    epsilon: float = 4.0,
    delta: float = 1e-6,
    max_value: int = 8,
    nodes: int = 3,
    corrupt: str | None = None,
    round_folder: Path | None = None,
    logs: Path | None = None,
    local_trials: int = 50_000,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    everyone = ",".join(str(number) for number in range(1, nodes + 1))
    chosen = node_numbers(everyone if corrupt is None else corrupt, nodes, "--corrupt")
    demo = DemoOptions(
        users=users,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        max_value=max_value,
        nodes=nodes,
        corrupt=chosen,
    )
    subset = None if corrupt is None else chosen
    options = TraceOptions(demo, round_folder, logs, subset, local_trials, confidence)
    with Stages(Console(stderr=True)) as stages:
        return run_trace(options, stages)


ATTACK: Final = Attack(
    name="trace",
    summary="Join the logs of corrupt nodes and guess every user's value.",
    run=_run_options,
    options={
        "users": Annotated[int, typer.Option(min=2, help="Number of simulated users.")],
        "mechanism": MechanismOption,
        "epsilon": Annotated[float, typer.Option(help="Target ε of the round, in nats.")],
        "delta": Annotated[float, typer.Option(help="Target δ.")],
        "max_value": Annotated[
            int, typer.Option(min=1, help="Largest value; larger ones are capped.")
        ],
        "nodes": Annotated[int, typer.Option(min=2, max=16, help="Number of mix nodes.")],
        "corrupt": Annotated[
            str | None,
            typer.Option(
                help="Corrupt nodes, whose logs the attack uses; default: all.", metavar="I,J"
            ),
        ],
        "round_folder": Annotated[
            Path | None,
            typer.Option(help="Attack this saved round, out/<round>, instead of a new one."),
        ],
        "logs": Annotated[
            Path | None,
            typer.Option(
                help="Folder with the saved round's logs, if it is not in the round's folder."
            ),
        ],
        "local_trials": Annotated[
            int,
            typer.Option(
                help="Answers per value for the audit of a single user's ε; 0 disables it."
            ),
        ],
        "confidence": CONFIDENCE,
    },
)
