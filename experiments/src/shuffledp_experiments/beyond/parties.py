"""Guarantees if parties fail: colluding or absent users (n5), and corrupt nodes (n10)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.commands.questions import krr_histogram
from shuffledp_adversary.in_process import plain_messages, play
from shuffledp_adversary.tracing.likelihood import guess_values
from shuffledp_adversary.tracing.links import NOBODY, join_logs
from shuffledp_core.mechanisms.installed import Mechanism
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise_in_bulk
from shuffledp_core.vocabulary import DEFAULT_SUITE
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import (
    DELTA,
    both_sides,
    draw_sides,
    epsilon_rows,
    logarithmic,
    standard,
)
from shuffledp_experiments.beyond.plans import calibrated_spec, krr, shared
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import Bounds, Setting, corrupted_bounds, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARE: Final = "share of the users that collude or are missing"


def _run_n5(work: RunInputs) -> Results:
    users, largest, epsilon = work["n"], work["k"], work["ε"]
    half = shared(users, largest, epsilon, honest=users // 2)
    plans: dict[str, Mechanism] = {
        "rr-shuffle": calibrated_spec("rr-shuffle", users, largest, epsilon),
        "geo-shuffle": calibrated_spec("geo-shuffle", users, largest, epsilon),
        "k-RR histogram": krr(users, largest + 1, epsilon),
        "sgdl-shuffle, shares for all": shared(users, largest, epsilon),
        "sgdl-shuffle, shares for half": half,
    }
    settings = {"n": users, "k": largest, "ε": epsilon}
    rows: list[Row] = []
    for name, spec in plans.items():
        rows += epsilon_rows(
            work["share"], partial(_sides_left, spec, users), _SHARE, name, **settings
        )
    for share in work["share"]:
        for name, error in _errors(users, _honest(users, share), largest, epsilon).items():
            rows.append(
                Row(
                    f"{name}, planned",
                    Kind.EXACT,
                    _SHARE,
                    share,
                    "standard error of the sum",
                    error,
                    settings=settings,
                )
            )
    return Results(tuple(rows), notes=_notes_n5(rows, work["share"], epsilon))


def _sides_left(spec: Mechanism, users: int, share: float) -> Bounds:
    return both_sides(spec, Setting(users, _honest(users, share)))


def _honest(users: int, share: float) -> int:
    return max(1, round(users * (1 - share)))


def _errors(users: int, honest: int, largest: int, epsilon: float) -> dict[str, float]:
    """Standard errors of plans that count on `honest` honest users, if all users send."""
    target = Target(epsilon, DELTA, users, honest, max_value=largest)
    specs = {kind: calibrate(kind, target) for kind in ("rr-shuffle", "geo-shuffle", "split-mix")}
    specs["sgdl-shuffle"] = shared(users, largest, epsilon, honest)
    return {kind: standard_error(spec, users) for kind, spec in specs.items()}


def _notes_n5(rows: list[Row], shares: tuple[float, ...], epsilon: float) -> tuple[str, ...]:
    def at(name: str, share: float) -> float:
        return next(row.y for row in rows if row.series == f"{name} certified" and row.x == share)

    last = shares[-1]
    names = [
        row.series.removesuffix(" certified")
        for row in rows
        if row.series.endswith(" certified") and row.x == last
    ]
    words = ", ".join(f"{name} {at(name, last):.3g}" for name in names)
    return (
        f"planned for ε = {epsilon:g}; when {last:.0%} of the users are not honest: {words} (nan: "
        "no certificate)",
    )


def _draw_n5(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 2, width=12, height=5)
    names = [
        row.series.removesuffix(" certified")
        for row in result.rows
        if row.series.endswith(" certified")
    ]
    for index, name in enumerate(dict.fromkeys(names)):
        drawing.line(
            axes[0, 0], result, f"{name} certified", label=name, **drawing.series_style(index)
        )
        style = drawing.series_style(index) | {"marker": "", "ls": (0, (4, 3)), "lw": 1.2}
        drawing.line(axes[0, 0], result, f"{name} attained", label="_attained", **style)
    axes[0, 0].set_title("ε of a plan, by those who are missing\n(dashed: attained)", fontsize=10)
    axes[0, 0].set_ylabel("ε (nats)")
    looks: dict[str, dict[str, Any]] = {
        "rr-shuffle": drawing.series_style(0), "geo-shuffle": drawing.series_style(1),
        "sgdl-shuffle": drawing.series_style(3),
        "split-mix": {"color": drawing.CYCLE[4], "marker": "x", "ls": "", "ms": 8},
    }  # fmt: skip
    for name, look in looks.items():
        drawing.line(axes[0, 1], result, f"{name}, planned", **look)
    axes[0, 1].set_title(
        f"error where they are planned for\nat ε = {result.rows[0].settings['ε']:g}", fontsize=10
    )
    axes[0, 1].set_ylabel("standard error of the sum")
    for panel in axes[0]:
        panel.set_xlabel(_SHARE)
        logarithmic(panel, "y")
    figure.suptitle(
        f"Missing users (n = {result.rows[0].settings['n']:,}, k = {result.rows[0].settings['k']}, "
        f"δ = {DELTA:g})"
    )
    drawing.legend_below(figure)
    return figure


N5: Final = Experiment(
    id="n5", source="new", question="What do colluding or missing users cost, and what does it "
                                    "cost to plan for them?",
    parameters={"n": 1000, "k": 10, "ε": 1.0, "share": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7,
    0.8, 0.9)},
    quick={"share": (0.0, 0.5)},
    run=_run_n5, draw=_draw_n5, seconds=12, seconds_quick=3.2,
)  # fmt: skip


def _run_n10(work: RunInputs) -> Results:
    users, symbols, hops = work["n"], work["k"], work["nodes"]
    spec, _ = krr_histogram(symbols, work["ε0"])
    generator = work.generator("round")
    shares = 1 / np.arange(1, symbols + 1)
    values = generator.choice(symbols, users, p=shares / shares.sum())
    answers = randomise_in_bulk(spec, values, RandomArrays(generator.bytes))
    geometry = Geometry.of(spec, DEFAULT_SUITE, hops)
    played = play(
        geometry,
        plain_messages(geometry, spec, answers.tolist(), generator.bytes),
        random=generator.bytes,
    )
    board = np.frombuffer(played.batches[hops], dtype=np.uint8).reshape(-1, geometry.plain_bytes)
    reported = (
        board[:, : geometry.symbol_bytes].astype(np.int64)
        @ 256 ** np.arange(geometry.symbol_bytes)[::-1]
    )
    shuffled = both_sides(spec, standard(users))
    left = corrupted_bounds(spec, standard(users), DELTA).epsilon
    settings = {"n": users, "k": symbols, "ε0": work["ε0"], "nodes": hops}
    rows: list[Row] = []
    for corrupt in range(hops + 1):
        logs = {position: played.logs[position] for position in range(1, corrupt + 1)}
        senders = join_logs(logs, board).senders if logs else np.full(users, NOBODY)
        linked = senders != NOBODY
        guesses = np.full(users, int(np.argmax(shares)))
        guesses[senders[linked]] = guess_values(spec, reported[linked], shares)
        alone = corrupt == hops
        numbers = {
            "traced share": (Kind.MEASURED, float(linked.mean())),
            "values guessed": (Kind.MEASURED, float((guesses == values).mean())),
            "ε certified": (Kind.CERTIFIED, left if alone else shuffled.certified),
            "ε attained": (Kind.ATTAINED, left * (1 - 1e-12) if alone else shuffled.attained),
        }
        rows += [
            Row(
                name,
                kind,
                "corrupt nodes",
                corrupt,
                "ε (nats)" if name[0] == "ε" else "share",
                value,
                settings=settings,
            )
            for name, (kind, value) in numbers.items()
        ]
    return Results(
        tuple(rows),
        notes=(
            f"{users} users, real onions over {hops} nodes; the corrupt ones are the first on the "
            "route",
            "with no node corrupt the guess is the most frequent value",
        ),
    )


def _draw_n10(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 2, width=10, height=4.6)
    for index, name in enumerate(("traced share", "values guessed")):
        drawing.line(axes[0, 0], result, name, **drawing.series_style(index))
    axes[0, 0].set_ylabel("share of the users")
    axes[0, 0].set_ylim(-0.03, 1.05)
    draw_sides(axes[0, 1], result, "ε certified", "ε attained")
    axes[0, 1].set_ylabel("ε (nats); ε_L at the last")
    logarithmic(axes[0, 1], "y")
    settings = result.rows[0].settings
    for panel in axes[0]:
        panel.set_xticks(range(int(str(settings["nodes"])) + 1))
        panel.set_xlabel(f"corrupt nodes, of {settings['nodes']}")
    figure.suptitle(
        f"One honest node is enough (k-RR, k = {settings['k']}, ε0 = {settings['ε0']:g}, n = "
        f"{settings['n']})"
    )
    drawing.legend_below(figure)
    return figure


N10: Final = Experiment(
    id="n10", source="new", question="What do corrupt nodes learn, one after the other?",
    parameters={"n": 1000, "k": 10, "ε0": 2.0, "nodes": 3}, quick={"n": 100},
    run=_run_n10, draw=_draw_n10, seconds=1, seconds_quick=0.4,
)  # fmt: skip
