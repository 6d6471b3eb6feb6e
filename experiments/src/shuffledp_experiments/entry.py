"""An experiment: question, parameters, a function from parameters to rows, and claims."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOSE_FROM: Final = 1.1
"""A published bound above this multiple of the certified one is called loose."""


class Kind(StrEnum):
    """Source of a row's number, in ascending order of trustworthiness."""

    PUBLISHED = "published"  # digits copied from the paper
    PRINTED = "printed"  # the paper's formula, evaluated
    MEASURED = "measured"  # simulated, with a stated number of runs
    ATTAINED = "attained"  # what a concrete dataset costs: never above the truth
    CERTIFIED = "certified"  # proved: never below the truth
    EXACT = "exact"  # computed without a bound


class Verdict(StrEnum):
    """Verdict on a published number or statement."""

    SOUND = "sound"  # never below the truth
    LOOSE = "loose"  # sound, and far above the truth
    FALSE = "false"  # below what a concrete dataset costs, or refuted otherwise
    NO_BOUND = "no-bound"  # an order of growth, evaluated with constant 1
    UNEQUAL = "unequal"  # compares mechanisms at different guarantees
    IMPOSSIBLE = "impossible"  # better than a proved optimum
    NOT_REPRODUCED = "not-reproduced"  # no stated parameters give it
    OPEN = "open"  # between attained and certified: unknown
    DRAWING = "drawing"  # nothing is claimed


@dataclass(frozen=True, slots=True)
class Row:
    """One number of an experiment.

    Attributes:
        series: the curve or column that it belongs to.
        kind: where the number comes from.
        x_name, x: the parameter for which the number holds, such as n; text for a category.
        y_name, y: the number, and its name with the unit, if any; NaN if there is no number, as for
            an infeasible plan.
        low, high: an interval around y (percentiles, or a confidence interval), if there is one.
        settings: further parameters, the same names in every row of a series.
    """

    series: str
    kind: Kind
    x_name: str
    x: float | str
    y_name: str
    y: float
    low: float | None = None
    high: float | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A published number or statement, with its verdict and the true values.

    Attributes:
        statement: its place in the paper and its parameters, such as "Theorem 1 at ε = .1".
        verdict: see `Verdict`.
        why: the reason in a few words, with the proposition of docs/accounting.md, if there is one.
        published, certified, attained: the numbers, in the same unit; None if there is none.
    """

    statement: str
    verdict: Verdict
    why: str
    published: float | None = None
    certified: float | None = None
    attained: float | None = None

    def line(self) -> str:
        """The claim in one line: available numbers, verdict, reason."""
        numbers = [
            f"{name} {value:.4g}"
            for name, value in (
                ("published", self.published),
                ("certified", self.certified),
                ("attained", self.attained),
            )
            if value is not None
        ]
        return " | ".join([self.statement, *numbers, f"{self.verdict.upper()}: {self.why}"])


def judge(
    statement: str,
    published: float,
    *,
    certified: float,
    attained: float,
    why: Mapping[Verdict, str] | str = "",
) -> PaperClaim:
    """Judge a published bound on ε or δ by the certified and the attained value.

    Args:
        statement: see `PaperClaim`.
        published: the paper's number, in the unit of the others.
        certified: never below the truth.
        attained: never above it.
        why: the reason, or one for each verdict that may come out.

    Returns:
        FALSE if published < attained, OPEN between the two, LOOSE above `LOOSE_FROM` times
        certified, else SOUND.
        Digits that were rounded down in print do not count as false: one part in a thousand is
        tolerated.
    """
    if published < attained * (1 - 1e-3):
        verdict = Verdict.FALSE
    elif published < certified * (1 - 1e-3):
        verdict = Verdict.OPEN
    else:
        verdict = Verdict.LOOSE if published > certified * LOOSE_FROM else Verdict.SOUND
    reason = why if isinstance(why, str) else why.get(verdict, "")
    return PaperClaim(
        statement, verdict, reason or _BY_NUMBERS[verdict], published, certified, attained
    )


_BY_NUMBERS: Final = {
    Verdict.FALSE: "a concrete dataset costs more",
    Verdict.OPEN: "between what is attained and what is certified",
    Verdict.LOOSE: "above what is certified",
    Verdict.SOUND: "not below what is certified",
}


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Inputs of an experiment: its parameters, and the reader's options.

    Attributes:
        parameters: the experiment's parameters, some replaced by those of `--quick` if that is set.
        quick: whether to compute fewer points and runs, for a first look.
        seed: seed of every simulated number, together with the experiment's id; the same seed gives
            the same CSV.
        runs: number of simulated runs; None for the experiment's own.
        data: folder of the data files, or None; see `shuffledp_experiments.data`.
        exact_sampler: whether a subset of the simulated runs is repeated with the clients' integer
            sampler.
    """

    id: str
    parameters: Mapping[str, Any]
    quick: bool = False
    seed: int = 1
    runs: int | None = None
    data: Path | None = None
    exact_sampler: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def generator(self, *names: object) -> np.random.Generator:
        """A separate random generator for each part, so that parts may run in any order."""
        text = "\0".join([self.id, *map(str, names)])
        return np.random.default_rng([self.seed, zlib.crc32(text.encode())])


@dataclass(frozen=True, slots=True)
class Results:
    """Rows, claims and notes of an experiment.

    Attributes:
        rows: every number, in the order of the picture's series.
        claims: the published statements that the rows judge; empty for figures that no paper has.
        notes: sentences that a reader needs, for example on substituted data, on an infeasible row,
            or on what a new figure shows. Numbers in them are computed.
    """

    rows: tuple[Row, ...]
    claims: tuple[PaperClaim, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("an experiment has rows")

    def series(
        self, name: str
    ) -> tuple[np.ndarray[Any, np.dtype[Any]], np.ndarray[Any, np.dtype[np.float64]]]:
        """The x and y values of one series, in the order of its rows."""
        rows = [row for row in self.rows if row.series == name]
        return np.array([row.x for row in rows]), np.array(
            [row.y for row in rows], dtype=np.float64
        )


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that reproduces one table or figure.

    Attributes:
        id: numbers of the paper and of the table, such as "000-t1"; "n4" for a figure that no paper
            has.
        aliases: other ids of the same table.
        source: author, year and place, such as "Biswas et al. 2022, table 1"; "new" if no paper has
            it.
        question: what the reader wants to know, as a question.
        parameters: names and values, as printed or inferred; `inferred` names the latter.
        quick: parameters that replace these with `--quick`.
        run: function from the inputs to the results.
        draw: function from the results to their figure.
        verdicts: the expected verdicts, which a test compares; empty if nothing is claimed.
        inferred: names of parameters that the paper does not state.
        data: names of the data files that it uses if they are given.
        seconds: measured CPU seconds of its run, figure and files in a separate process, without
            the process's start.
        seconds_quick: CPU seconds with `--quick`.
    """

    id: str
    source: str
    question: str
    parameters: Mapping[str, Any]
    run: Callable[[RunInputs], Results]
    draw: Callable[[Results], Figure]
    seconds: float
    seconds_quick: float
    verdicts: frozenset[Verdict] = frozenset()
    aliases: tuple[str, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    inferred: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = {*self.quick, *self.inferred} - {*self.parameters}
        if unknown:
            raise ValueError(f"{self.id} has no parameters {sorted(unknown)}")
        if not math.isfinite(self.seconds + self.seconds_quick):
            raise ValueError(f"{self.id} needs its seconds")

    def work(self, **wishes: Any) -> RunInputs:
        """The inputs of this experiment under the reader's options; see `RunInputs`."""
        parameters = {**self.parameters, **(self.quick if wishes.get("quick") else {})}
        return RunInputs(id=self.id, parameters=parameters, **wishes)
