"""Cost and benefit of each plan for a question, before anyone answers. Pure except for plots.

Quantiles, sums of unknown range, and several fields at once; `shuffledp.open_lists` has that of
frequent texts. Every number follows from the law of the nodes' noise: it holds whatever people
answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from shuffledp.choosing import target_of
from shuffledp.open_lists import look_ahead
from shuffledp_core.answering.estimates import COVERAGE, Present
from shuffledp_core.answering.margins import PooledHistogram
from shuffledp_core.answering.quantiles import OrderedBins
from shuffledp_core.answering.totals import CutErrors, NoisyCounts, errors_by_cut
from shuffledp_core.answering.trees import BinTree, query_errors, query_widths
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import MECHANISMS, Answers, Mechanism
from shuffledp_core.mechanisms.columns import ColumnsSpec
from shuffledp_core.privacy import Adjacency
from shuffledp_core.questions import MECHANISM, MOST_CELLS
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.baselines import baseline
from shuffledp_privacy.calibration.calibrate import calibrate
from shuffledp_privacy.calibration.target import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType

    from shuffledp_core.bounds.weighted_noise import CountNoise

SHOWN_CUTS: Final = 10
"""Cuts of a sum that the terminal lists, about; JSON has all."""

_OPEN_WORDS: Final = "If every node is corrupt, values are in the open."


class PlannedQuestion(Protocol):
    """A question and its mechanism, such as a `RecordQuestion`."""

    @property
    def wording(self) -> QuestionWording:
        """The question in words."""

    @property
    def mechanism(self) -> str:
        """Name of the question's mechanism."""


class QuestionOutlook(Protocol):
    """Cost and benefit of the plans for a question."""

    def to_dict(self) -> dict[str, Any]:
        """The object in the output of `advise --format json`."""

    def render(self) -> Iterator[RenderableType]:
        """Tables and remarks for a terminal."""


@runtime_checkable
class DrawnOutlook(QuestionOutlook, Protocol):
    """An outlook that can be plotted."""

    def draw(self, file: Path) -> None:
        """Plot the outlook. Raises `ConfigError` if the file cannot be written."""


def outlook(
    question: PlannedQuestion,
    *,
    epsilon: float,
    delta: float,
    setting: Setting,
    nodes: int = 3,
    rounds: int = 1,
) -> QuestionOutlook | None:
    """Cost and benefit of a question's plans; None for counts and tables, which `advise` compares.

    Args:
        question: a question of `shuffledp_core.questions`, or one from a file.
        epsilon: largest ε, in nats, over all rounds.
        delta: largest δ, over all rounds.
        setting: who takes part in one round.
        nodes: mix nodes of the route, all of which add dummies.
        rounds: how often the question is asked of the same people.

    Raises:
        CannotCertify: no amount of noise meets the target.
        UsageError: a value is outside its range.
    """
    wording = question.wording
    columns = wording.columns if MECHANISMS[question.mechanism].counts_columns else None
    target = target_of(
        epsilon,
        delta,
        setting,
        max_value=None,
        symbols=wording.size if columns is None else math.prod(columns),
        rounds=rounds,
        epsilon_local=None,
        columns=columns,
    )
    if wording.is_open:
        return look_ahead(_columns_spec(calibrate(question.mechanism, target)), nodes)
    if wording.sum_axis is not None:
        return outlook_on_total(wording, target, nodes)
    if MECHANISMS[question.mechanism].for_ranges:
        return outlook_on_quantiles(question, target, nodes)
    if columns is not None:
        return outlook_on_columns(question, target, nodes)
    return None


def _calibrate_table(target: Target, wording: QuestionWording) -> Mechanism:
    """The plain histogram over all symbols of the question, calibrated."""
    return calibrate(MECHANISM, replace(target, symbols=wording.size, columns=None))


def _columns_spec(spec: Mechanism) -> ColumnsSpec:
    if not isinstance(spec, ColumnsSpec):
        raise TypeError(f"{spec.kind} does not count columns")
    return spec


def _count_noise(spec: Mechanism) -> CountNoise:
    noise = spec.count_noise if isinstance(spec, NoisyCounts) else None
    if noise is None:
        raise TypeError(f"{spec.kind} has no noise of nodes in its counts")
    return noise


class QuantilePlan(NamedTuple):
    """A plan for quantiles, with its mechanism and errors.

    Attributes:
        mechanism: name of the mechanism.
        messages: number of messages of a user.
        dummies: number of dummies of each node.
        errors: standard error of the number of users up to each bin, with the noise of all nodes.
        reach: that number is off by less than this with probability 95%, at its worst.
    """

    mechanism: str
    messages: int
    dummies: int
    errors: NDArray[np.float64]
    reach: float


@dataclass(frozen=True, eq=False)
class QuantileOutlook:
    """Errors of quantiles, from a tree of bins and from a plain histogram of bins.

    Attributes:
        wording: the question.
        users: who answer.
        nodes: nodes that add dummies.
        plans: the question's own mechanism first.
    """

    wording: QuestionWording
    users: int
    nodes: int
    plans: tuple[QuantilePlan, ...]

    @property
    def best(self) -> QuantilePlan:
        """The plan with the smaller worst error."""
        return min(self.plans, key=lambda plan: plan.reach)

    def to_dict(self) -> dict[str, Any]:
        """The object in the output of `advise --format json`."""
        return {
            "question": self.wording.id,
            "recommended": self.best.mechanism,
            "nodes": self.nodes,
            "plans": [
                {
                    "mechanism": plan.mechanism,
                    "messages": plan.messages,
                    "dummies_per_node": plan.dummies,
                    "largest_standard_error": float(plan.errors.max()),
                    "reach_95": plan.reach,
                    "rank_error_95": plan.reach / self.users,
                    "standard_errors": plan.errors.tolist(),
                }
                for plan in self.plans
            ],
        }

    def render(self) -> Iterator[RenderableType]:
        """Tables and remarks for a terminal."""
        headings = ("messages", "dummies", "error", "95% within", "of the users")
        table = _table(
            "Number of people up to a value, where its error is largest", "mechanism", headings
        )
        for plan in self.plans:
            error = f"{float(plan.errors.max()):,.4g}"
            cells = (f"{plan.messages}", f"{plan.dummies:,}", error, f"{plan.reach:,.4g}")
            table.add_row(plan.mechanism, *cells, f"{plan.reach / self.users:.2%}")
        yield table
        share = 100 * self.best.reach / self.users
        yield (
            f"Take [bold cyan]{self.best.mechanism}[/bold cyan]: the least error. The share of the "
            f"users up to any value is then off by less than {share:.2g} percentage points, with "
            "probability 95%."
        )
        yield (
            f"Errors are those of the noise of all {self.nodes} nodes. In people, they do not "
            f"depend on how many answer. {_OPEN_WORDS}"
        )

    def draw(self, file: Path) -> None:
        """Plot the error by value, one line per plan. `ConfigError` if it cannot be written."""
        axes = _new_axes(self.wording.text)
        places = np.arange(1, self.plans[0].errors.size + 1)
        for plan in self.plans:
            axes.plot(places, plan.errors, lw=2, label=plan.mechanism)
        axis = self.wording.axes[0]
        chosen = np.unique(np.linspace(0, axis.symbols.size - 1, 6).astype(int))
        axes.set_xticks(chosen + 1, [axis.symbols.name(int(bin_), axis.unit) for bin_ in chosen])
        axes.set(ylabel="standard error of the number of people up to a value", ylim=(0, None))
        _finish(axes, file)


def outlook_on_quantiles(question: PlannedQuestion, target: Target, nodes: int) -> QuantileOutlook:
    """Cost and errors of quantiles by the question's mechanism, and by a plain histogram."""
    wording = question.wording
    counted = math.prod(wording.shape)
    spec = _columns_spec(calibrate(question.mechanism, target))
    if not isinstance(spec, OrderedBins):
        raise TypeError(f"{spec.kind} has no bins in an order")
    tree = BinTree(spec.symbols, getattr(spec, "width", 1))
    queries = tree.prefix_queries(np.arange(1, counted + 1))
    errors = query_errors(spec, tree, queries, nodes)
    worst = queries[[int(errors.argmax())]]
    reach = float(query_widths(spec, tree, worst, Present(Fraction(0), nodes))[0])
    by_tree = QuantilePlan(spec.kind, spec.messages_per_user, spec.dummies_per_node, errors, reach)

    plain = _calibrate_table(target, wording)
    noise = _count_noise(plain)
    # The number of all users is known: what a sum has in common with it has no error.
    sizes = np.arange(1, counted + 1)
    errors = np.sqrt(sizes * (1 - sizes / wording.size) * nodes) * noise.deviation
    worst = (np.arange(wording.size) < sizes[int(errors.argmax())]).astype(np.float64)
    worst -= worst.mean()
    reach = float(noise.widths(worst[np.newaxis], nodes, 1 - COVERAGE)[0])
    by_bins = QuantilePlan(
        plain.kind, plain.messages_per_user, plain.dummies_per_node, errors, reach
    )
    return QuantileOutlook(wording, target.users, nodes, (by_tree, by_bins))


@dataclass(frozen=True, eq=False)
class TotalOutlook:
    """Errors of a sum of unknown range, for each possible cut.

    Attributes:
        wording: the question.
        mechanism: the mechanism that counts the amounts.
        target: guarantee and people.
        nodes: mix nodes of the route.
        cuts: errors for each possible cut.
        trusted: standard error of a trusted party that knows the cut to be the largest value.
    """

    wording: QuestionWording
    mechanism: Mechanism
    target: Target
    nodes: int
    cuts: tuple[CutErrors, ...]
    trusted: tuple[float, ...]

    @property
    def unit(self) -> str:
        """The unit of the amounts."""
        return self.wording.axes[self.wording.sum_axis or 0].unit

    @property
    def groups(self) -> int:
        """Number of sums."""
        return math.prod(self.wording.shape) // self.wording.shape[self.wording.sum_axis or 0]

    @property
    def seen_from(self) -> int:
        """Largest number of people in a doubling that noise alone may produce."""
        return max(cut.rising for cut in self.cuts)

    @property
    def rounding_share(self) -> float:
        """Largest relative standard deviation of a rounded value, except the smallest."""
        symbols = self.wording.axes[self.wording.sum_axis or 0].symbols
        parts = symbols.parts if isinstance(symbols, SymbolMagnitudes) else 1
        # Of a value between p and p + 1 steps (p = parts), whichever it is.
        return 1 / (2 * math.sqrt(parts * (parts + 1)))

    def to_dict(self) -> dict[str, Any]:
        """The object in the output of `advise --format json`."""
        return {
            "question": self.wording.id,
            "recommended": self.mechanism.kind,
            "messages": self.mechanism.messages_per_user,
            "dummies_per_node": self.mechanism.dummies_per_node,
            "nodes": self.nodes,
            "unit": self.unit,
            "groups": self.groups,
            "cuts": [
                {
                    "cut": cut.cut,
                    "standard_error": cut.noise,
                    "rounding_per_person": cut.rounding,
                    "people_that_show": cut.rising,
                    "trusted_party_who_knows_it": trusted,
                }
                for cut, trusted in zip(self.cuts, self.trusted, strict=True)
            ],
        }

    def render(self) -> Iterator[RenderableType]:
        """Tables and remarks for a terminal."""
        table = _table(
            f"Error of {'a group’s' if self.groups > 1 else 'the'} sum, if values are seen up to",
            f"largest seen{f' ({self.unit})' if self.unit else ''}",
            ("error", "trusted party"),
        )
        rows = list(zip(self.cuts, self.trusted, strict=True))
        for cut, trusted in rows[:: math.ceil(len(rows) / SHOWN_CUTS)]:
            table.add_row(f"{cut.cut:,.10g}", f"{cut.noise:,.4g}", f"{trusted:,.4g}")
        yield table
        yield (
            f"Take [bold cyan]{self.mechanism.kind}[/bold cyan]: "
            f"{self.mechanism.messages_per_user} message a user and "
            f"{self.mechanism.dummies_per_node:,} dummies of each node."
        )
        yield (
            f"The answer decides the row: values are seen if more than {self.seen_from:,} people "
            "are between half of the largest and it. Errors are those of the noise of all "
            f"{self.nodes} nodes; the trusted party knows the largest value beforehand."
        )
        share = self.rounding_share
        users = self.target.users
        yield (
            f"Rounding adds up to {share:.0%} of each value, at random: "
            f"{share / math.sqrt(users):.2g} times the sum of {users:,} equal values."
        )
        yield (
            "If you know the largest value, a sum of known range has less error: `shuffledp advise "
            f"--max-value`. {_OPEN_WORDS}"
        )

    def draw(self, file: Path) -> None:
        """Plot the error by the largest value seen. `ConfigError` if it cannot be written."""
        axes = _new_axes(self.wording.text)
        places = [cut.cut for cut in self.cuts]
        axes.loglog(places, [cut.noise for cut in self.cuts], "o-", lw=2, label="this question")
        axes.loglog(places, self.trusted, "--", lw=1.5, label="trusted party that knows the range")
        unit = f" ({self.unit})" if self.unit else ""
        axes.set(xlabel=f"largest value seen{unit}", ylabel=f"standard error of the sum{unit}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_format_tick)
        _finish(axes, file)


def outlook_on_total(wording: QuestionWording, target: Target, nodes: int) -> TotalOutlook:
    """Cost and errors of a sum of unknown range."""
    spec = _calibrate_table(target, wording)
    cuts = errors_by_cut(wording, _count_noise(spec), nodes)
    # In units of the cut: the error of a trusted party grows with it.
    unit = replace(
        target,
        max_value=1,
        symbols=None,
        columns=None,
        adjacency=Adjacency.STANDARD,
        max_distance=None,
    )
    central = baseline(unit, Answers.SUM).central
    trusted = tuple(central * cut.cut for cut in cuts)
    return TotalOutlook(wording, spec, target, nodes, tuple(cuts), trusted)


class FieldErrors(NamedTuple):
    """The standard error of one field's counts, with all nodes' noise.

    Attributes:
        field: name of the field.
        cells: number of values of the field.
        by_column: the error if the field has its own column.
        by_table: the error if its counts are sums of cells of a table; None if the table is too
            large.
    """

    field: str
    cells: int
    by_column: float
    by_table: float | None


@dataclass(frozen=True)
class ColumnsOutlook:
    """Errors of several fields in one round, counted separately and as one table.

    Attributes:
        wording: the question.
        nodes: nodes that add dummies.
        columns: the mechanism that counts each field by itself.
        table: the mechanism that counts all combinations; None if there are too many.
        fields: errors of each field.
    """

    wording: QuestionWording
    nodes: int
    columns: Mechanism
    table: Mechanism | None
    fields: tuple[FieldErrors, ...]

    @property
    def best(self) -> Mechanism:
        """The mechanism with the smaller worst error; of equal ones the table."""
        if self.table is None:
            return self.columns
        by_column = max(field.by_column for field in self.fields)
        by_table = max(field.by_table or 0.0 for field in self.fields)
        return self.table if by_table <= by_column else self.columns

    def to_dict(self) -> dict[str, Any]:
        """The object in the output of `advise --format json`."""
        plans = [self.columns, *([] if self.table is None else [self.table])]
        return {
            "question": self.wording.id,
            "recommended": self.best.kind,
            "nodes": self.nodes,
            "plans": [
                {
                    "mechanism": plan.kind,
                    "messages": plan.messages_per_user,
                    "dummies_per_node": plan.dummies_per_node,
                }
                for plan in plans
            ],
            "fields": [field._asdict() for field in self.fields],
        }

    def render(self) -> Iterator[RenderableType]:
        """Tables and remarks for a terminal."""
        table = _table(
            "Error of a count of each field",
            "field",
            ("values", f"by itself ({self.columns.kind})", f"from a table ({MECHANISM})"),
        )
        for field in self.fields:
            from_table = "too large" if field.by_table is None else f"{field.by_table:,.4g}"
            table.add_row(field.field, f"{field.cells:,}", f"{field.by_column:,.4g}", from_table)
        plans = [self.columns, *([] if self.table is None else [self.table])]
        messages = [f"{plan.messages_per_user}" for plan in plans]
        dummies = [f"{plan.dummies_per_node:,}" for plan in plans]
        table.add_row("[dim]messages of a user[/dim]", "", *messages)
        table.add_row("[dim]dummies of a node[/dim]", "", *dummies)
        yield table
        reason = "the least error in its worst count"
        if self.best is self.table:
            reason += '; it also counts combinations: ask = "table"'
        yield f"Take [bold cyan]{self.best.kind}[/bold cyan]: {reason}."
        yield f"Errors are with the noise of all {self.nodes} nodes. {_OPEN_WORDS}"


def outlook_on_columns(question: PlannedQuestion, target: Target, nodes: int) -> ColumnsOutlook:
    """Cost and errors of several fields, counted separately and as one table."""
    wording = question.wording
    columns = _columns_spec(calibrate(question.mechanism, target))
    cells = math.prod(wording.shape)
    table: Mechanism | None = None
    if cells <= MOST_CELLS:
        try:
            table = _calibrate_table(target, wording)
        except CannotCertify:
            table = None
    by_column = columns.node_noise * math.sqrt(nodes)
    fields = []
    present = Present(Fraction(target.users), nodes)
    even = np.bincount(np.arange(target.users) % cells, minlength=cells).astype(float)
    for at, axis in enumerate(wording.axes):
        by_table = None
        if isinstance(table, PooledHistogram):
            symbols = np.take(np.arange(cells).reshape(wording.shape), 0, axis=at)
            count = table.pool(even, symbols.reshape(1, -1), present)
            by_table = count.standard_errors[0]
        fields.append(FieldErrors(axis.field, axis.symbols.size, by_column, by_table))
    return ColumnsOutlook(wording, nodes, columns, table, tuple(fields))


def _table(title: str, first: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _new_axes(title: str) -> Axes:
    from shuffledp.drawing import new_axes

    axes = new_axes()
    axes.set_title(title.replace("$", r"\$"), loc="left", fontsize=11, wrap=True)
    return axes


def _format_tick(value: float, _: object) -> str:
    return f"{value:,.10g}"


def _finish(axes: Axes, file: Path) -> None:
    from shuffledp.drawing import save

    axes.legend(frameon=False)
    save(axes, file)
