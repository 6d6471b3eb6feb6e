"""Frequent texts of an open list, simulated at full size, with sampling as published (n18)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.choosing import calibrate
from shuffledp_core.answering.strings import FALSE_TEXTS, ColumnCounts, least_threshold
from shuffledp_core.bounds.node_noise import conditional_law
from shuffledp_core.documents.open_list import SymbolHashes
from shuffledp_core.mechanisms.columns import ColumnsSpec
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA
from shuffledp_experiments.beyond.dummies import sampled_share, threshold
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OURS: Final = "hashed columns, 3 nodes"
_NEBULA: Final = "Nebula's sampling and threshold, without its dummies"
_LISTED: Final = "probability that a text is listed"
_FALSE: Final = "listed texts that no one has, per round"
_NODES: Final = 3
_FREQUENT: Final = 20
"""Texts that are equally frequent; all other people hold random candidates."""

_HASHES: Final = SymbolHashes(salt="00" * 16, columns=3, bits=13)


class _Outcome(NamedTuple):
    """Share of the frequent texts that are listed, and number of listed texts that no one has."""

    listed: float
    false: int


def _spec(users: int, epsilon: float) -> ColumnsSpec:
    plan = calibrate(
        "node-columns",
        epsilon=epsilon,
        delta=DELTA,
        setting=Setting(users, 1),
        columns=_HASHES.shape,
    )
    if not isinstance(plan.spec, ColumnsSpec):
        raise TypeError("calibrate must return a spec with columns for node-columns")
    return plan.spec


def _play(
    spec: ColumnsSpec, users: int, people: int, candidates: int, rng: np.random.Generator
) -> _Outcome:
    """Simulate one round with fresh hashes of all candidates."""
    cells = rng.integers(0, _HASHES.shape[0], (_HASHES.columns, candidates))
    rest = rng.integers(_FREQUENT, candidates, users - _FREQUENT * people)
    texts = np.concatenate([np.repeat(np.arange(_FREQUENT), people), rest])
    counts = np.stack(
        [np.bincount(column[texts], minlength=_HASHES.shape[0]) for column in cells]
    ) + _noise(spec, rng)
    columns = ColumnCounts(_HASHES, counts.ravel().tolist())
    least, _ = least_threshold(columns, candidates, FALSE_TEXTS)
    text_counts = counts[np.arange(_HASHES.columns)[:, np.newaxis], cells]
    listed: NDArray[np.bool_] = text_counts.min(axis=0) >= least
    listed_frequent = float(listed[:_FREQUENT].mean())
    listed[texts] = False
    return _Outcome(listed_frequent, int(listed.sum()))


def _noise(spec: ColumnsSpec, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the noise of all nodes in every count, by the law of a single count."""
    law = conditional_law(
        spec.noise_epsilon, spec.mean, spec.column_sizes[0], spec.column_dummies[0]
    )
    shape = (_NODES, _HASHES.columns, _HASHES.shape[0])
    drawn = rng.choice(np.arange(law.size) - spec.mean, size=shape, p=law)
    return np.asarray(drawn.sum(axis=0))


def _sampling(people: int, epsilon: float) -> float:
    """Probability that a text's sampled people are enough to show it."""
    from scipy.stats import binom  # here: scipy is slow to import

    return float(binom(people, sampled_share(epsilon)).sf(threshold(DELTA) - 1))


def _run_n18(work: RunInputs) -> Results:
    users, epsilon, candidates = work["n"], work["ε"], work["candidates"]
    spec = _spec(users, epsilon)
    played = work.runs or work["rounds"]
    rows = []
    settings = {"n": users, "ε": epsilon, "candidates": candidates}
    for people in work["people"]:
        rng = work.generator("people", people)
        rounds = [_play(spec, users, people, candidates, rng) for _ in range(played)]
        listed = float(np.mean([outcome.listed for outcome in rounds]))
        false = float(np.mean([outcome.false for outcome in rounds]))
        for series, kind, quantity, value in (
            (_OURS, Kind.MEASURED, _LISTED, listed),
            (_OURS, Kind.MEASURED, _FALSE, false),
            (_NEBULA, Kind.PRINTED, _LISTED, _sampling(people, epsilon)),
        ):
            rows.append(Row(series, kind, "people", people, quantity, value, settings=settings))
    share = sampled_share(epsilon)
    largest = work["people"][-1]
    note = (
        f"{_FREQUENT} texts of equally many people, {spec.dummies_per_node:,} dummies of each of "
        f"{_NODES} nodes, a count's standard error {spec.node_noise * math.sqrt(_NODES):.1f}; with "
        f"Nebula's sampling {math.sqrt(largest * (1 - share) / share):.1f} at {largest} people. "
        "Its line models sampling and threshold only, not the dummies of the revised paper; "
        "it needs no list of candidates"
    )
    return Results(tuple(rows), notes=(note,))


def _draw_n18(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 1, width=6.5, height=4.2)
    panel = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()[0]
    rows = [row for row in result.rows if row.y_name == _LISTED]
    for index, name in enumerate((_OURS, _NEBULA)):
        drawing.line(panel, rows, name, **drawing.series_style(index))
    panel.set_xlabel(f"people who have the text, of {result.rows[0].settings['n']:,}")
    panel.set_ylabel(_LISTED)
    drawing.legend_below(figure, columns=2)
    return figure


N18: Final = Experiment(
    id="n18", source="new", question="How many people must have a text of an open list, so that it "
                                     "is found among a million?",
    parameters={"n": 10_000, "ε": 1.0, "candidates": 1_000_000, "rounds": 100,
                "people": (50, 60, 70, 80, 90, 100, 150)},
    quick={"candidates": 100_000, "rounds": 10, "people": (50, 100)},
    run=_run_n18, draw=_draw_n18, seconds=180, seconds_quick=6,
)  # fmt: skip
