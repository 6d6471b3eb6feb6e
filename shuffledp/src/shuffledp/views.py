"""Views of a guarantee: Rényi divergence, trade-off function, groups of reports, subsampling.

Pure.

Every number is certified: it errs in the direction in which the guarantee still holds, for every
dataset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.guarantees import number
from shuffledp.notebook import data_frame, html_table
from shuffledp.plans import DEFAULT_DELTA, Plan, Planned, as_plan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.runtime.arguments import check_number, whole_number
from shuffledp_privacy import views
from shuffledp_privacy.bounds import delta_bounds
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.rounds.remembered import remembered_by, times_counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from shuffledp_privacy.bounds import Setting
    from shuffledp_privacy.rounds.filters import DeltaCurve

    Floats = NDArray[np.float64]

ORDERS: Final = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)
"""Rényi orders of a view that names none."""

FALSE_POSITIVES: Final = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Chances of a false positive of a view that names none."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A plan's guarantee in another form: single numbers, and columns of equal length.

    Attributes:
        plan: what was asked.
        name: as `shuffledp certify --view` has it.
        numbers: by name; None if no finite bound is known.
        columns: by name, shape (points,); `inf` where no finite bound is known.
        basis: what the numbers rest on, in words.
    """

    plan: Plan
    name: str
    numbers: Mapping[str, float | None]
    columns: Mapping[str, Floats]
    basis: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The value of `view` in `shuffledp certify --view NAME --format json`.

        An order of infinity is "inf".
        """
        points = {
            name: [_plain(name, value) for value in values.tolist()]
            for name, values in self.columns.items()
        }
        return {"name": self.name, **self.numbers, **points, "basis": list(self.basis)}

    def to_pandas(self) -> Any:
        """The columns; without columns, one row with the single numbers.

        Raises `NotInstalledError` without pandas.
        """
        return data_frame(self.columns or {name: [value] for name, value in self.numbers.items()})

    def rows(self) -> list[tuple[str, str, str]]:
        """The numbers and the points in words: name, value, remark."""
        rows = [(name.replace("_", " "), number(value), "") for name, value in self.numbers.items()]
        if self.columns:
            (first, firsts), *others = self.columns.items()
            for name, values in others:
                words = name.replace("_", " ")
                points = zip(firsts.tolist(), values.tolist(), strict=True)
                rows += [
                    (f"{first.replace('_', ' ')} {at:g}", f"{value:.4g}", words)
                    for at, value in points
                ]
        return rows

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {value} {remark}".rstrip() for name, value, remark in self.rows()
        )

    def _repr_html_(self) -> str:
        return html_table(f"{self.plan.kind}: {self.name}", self.rows(), self.basis)


def _plain(name: str, value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return "inf" if name == "order" else None


def renyi(
    plan: Planned,
    setting: Setting | None = None,
    orders: ArrayLike | None = None,
    *,
    rounds: int | None = None,
) -> View:
    """Upper bound of the Rényi divergence (RDP) between neighbouring datasets, by order, in nats.

    Over all rounds.

    Computed for the dominating pair that the certified δ(ε) defines (Mironov 2017; Zhu et al. 2022;
    docs/accounting.md, C18); rounds add up. High orders depend on the tail of the curve, which has
    few digits: the bound is loose there, but never below the truth. Columns: `order`, `divergence`.

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting`. Standard
            adjacency.
        setting: in place of the plan's own.
        orders: shape (points,), each 1 (Kullback-Leibler) to 10,000, or inf (pure ε).
        rounds: how often the round is run on the same people, in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside its range.
        CannotCertify: no sound bound is known.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> group = sdp.Setting(users=1000, honest=950)
    >>> found = sdp.renyi(spec, group, [2, 8])
    >>> bool((found.columns["divergence"] < 0.1).all())
    True
    """
    full_plan = shuffled_plan(plan, setting, None, rounds)
    at_orders = _points(ORDERS if orders is None else orders)
    table = views.table_of(Round(full_plan.spec, full_plan.setting))
    divergences = np.array([views.renyi_divergence(table, order) for order in at_orders.tolist()])
    # Rényi divergences of rounds add up, also where a round depends on the results of others
    # (Mironov 2017).
    times = times_counted(full_plan.spec, full_plan.rounds)
    divergence = divergences if times == 1 else up(divergences * times, views.MARGIN)
    basis = (
        "C18: the pair that the certified curve defines",
        *(("rounds added",) if times > 1 else ()),
    )
    return View(
        full_plan,
        "rdp",
        {},
        {"order": at_orders, "divergence": divergence},
        basis + _remembered_line(full_plan),
    )


def trade_off(
    plan: Planned,
    setting: Setting | None = None,
    false_positives: ArrayLike | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> View:
    """Lower bound of the trade-off function (f-DP) of neighbouring datasets, and Gaussian DP.

    The trade-off function states how often any test of two such datasets errs.

    Columns: `false_positive`, `false_negative`. Numbers: `mu_certified`, the guarantee is at least
    as strong as μ-Gaussian DP that fails completely with probability `leak`; `mu_attained`, no
    smaller μ is possible for some dataset. The leak is the plan's δ (Dong et al. 2022;
    docs/accounting.md, C19).

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting`. Standard
            adjacency.
        setting: in place of the plan's own.
        false_positives: shape (points,), chances in [0, 1].
        delta: the leak, in place of the plan's δ; 1e-6 for parameters alone.
        rounds: how often the round is run on the same people, in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside its range.
        CannotCertify: no sound bound is known.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> group = sdp.Setting(users=1000, honest=950)
    >>> found = sdp.trade_off(spec, group, [0.05])
    >>> bool(0.9 < found.columns["false_negative"][0] < 0.95)
    True
    >>> 0 < found.numbers["mu_attained"] <= found.numbers["mu_certified"] < 0.2
    True
    """
    full_plan = shuffled_plan(plan, setting, delta, rounds)
    at_rates = _points(FALSE_POSITIVES if false_positives is None else false_positives)
    table = views.table_of(_round_of(full_plan))
    numbers = {
        "mu_certified": _finite(views.gaussian_shift(table, full_plan.delta)),
        "mu_attained": _mu_attained(full_plan, table),
        "leak": full_plan.delta,
    }
    columns = {"false_positive": at_rates, "false_negative": views.trade_off_bound(table, at_rates)}
    basis = (
        "C19: the certified curve's conjugate; false_negative: at least",
        *_remembered_line(full_plan),
    )
    return View(full_plan, "f-dp", numbers, columns, basis)


def _round_of(plan: Plan) -> Round:
    return Round(plan.spec, plan.setting, times_counted(plan.spec, plan.rounds))


def _remembered_line(plan: Plan) -> tuple[str, ...]:
    if remembered_by(plan.spec) is None:
        return ()
    return (
        "K14: of the kept response, hence of all rounds of the question together, however many",
    )


def _mu_attained(plan: Plan, table: DeltaCurve) -> float:
    """The largest μ that some single point of the curve requires.

    It is computed for one round; several rounds need at least as much.
    """
    right = math.log1p(float(table.excess[int(np.argmax(table.deltas <= max(plan.delta, 1e-9)))]))
    shift = 0.0
    for epsilon in np.linspace(0.0, right, 6).tolist():
        try:
            attained = delta_bounds(plan.spec, plan.setting, epsilon).attained
        except CannotCertify:
            continue
        shift = max(shift, views.gaussian_shift_attained(epsilon, attained, plan.delta))
    return shift


def group(
    plan: Planned,
    reports: int,
    setting: Setting | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> View:
    """ε at δ if a user sends several reports in one round, all of which may change.

    The result is never below the truth.

    Sound for every mechanism, whatever the reports say (docs/accounting.md, C20). Numbers:
    `epsilon`, None if no finite bound is known; `reports`.

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting` and `delta`.
            Standard adjacency.
        reports: number of reports of one user in each round, 1 to 100, all counted as honest.
        setting: in place of the plan's own; users are reports.
        delta: in place of the plan's own.
        rounds: how often the round is run on the same people, in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside its range.
        CannotCertify: no sound bound is known.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> people = sdp.Setting(users=1000, honest=950)
    >>> one, two = (sdp.group(spec, size, people, delta=1e-6).numbers["epsilon"] for size in (1, 2))
    >>> one < two < 3 * one
    True
    """
    reports = whole_number("reports", reports)
    full_plan = shuffled_plan(plan, setting, delta, rounds)
    if reports > full_plan.setting.honest:
        raise UsageError(
            f"{reports} reports of one user are more than all {full_plan.setting.honest} honest "
            "reports"
        )
    table = views.group_table(views.table_of(_round_of(full_plan)), reports)
    epsilon = _finite(views.epsilon_at(table, full_plan.delta))
    basis = ("C20: the curve, one report at a time", *_remembered_line(full_plan))
    return View(full_plan, "group", {"epsilon": epsilon, "reports": reports}, {}, basis)


def subsampled(
    plan: Planned,
    rate: Fraction,
    setting: Setting | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> View:
    """ε at δ if each round runs on a random subset of fixed size of the people.

    The result is never below the truth.

    The subset stays secret (Balle et al. 2018; docs/accounting.md, C5). Numbers: `epsilon`, None if
    no finite bound is known; `rate`.

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting` and `delta`.
        rate: in (0, 1], the chance that a user is drawn. With m drawn of n, of whom t collude, m /
            (n - t).
        setting: setting of the users drawn, in place of the plan's own.
        delta: over all rounds, in place of the plan's own.
        rounds: in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside its range.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> drawn = sdp.Setting(users=1000, honest=950)
    >>> found = sdp.subsampled(spec, Fraction(1, 10), drawn, delta=1e-6)
    >>> found.numbers["epsilon"] < sdp.certify(spec, drawn, delta=1e-6).certified / 5
    True
    """
    full_plan = shuffled_plan(plan, setting, delta, rounds)
    check_number("rate", rate)
    item = Round(full_plan.spec, full_plan.setting, full_plan.rounds, Fraction(rate))
    try:
        epsilon = _finite(compose_epsilon([item], full_plan.delta))
        # Who is drawn again and again shows the whole response: being drawn seldom hides nothing of
        # it.
        alone = full_plan.rounds == 1 and rate == 1
        basis = (() if alone else _remembered_line(full_plan)) or (
            "C5: a random subset of fixed size",
        )
    except CannotCertify as refusal:
        epsilon, basis = None, (f"no finite epsilon: {refusal}",)
    return View(full_plan, "subsampled", {"epsilon": epsilon, "rate": float(rate)}, {}, basis)


def shuffled_plan(
    plan: Planned,
    setting: Setting | None,
    delta: float | None,
    rounds: int | None,
    *,
    corrupt: bool = False,
) -> Plan:
    """Combine the arguments of a view into the plan whose guarantee it restates.

    Raises `UsageError` for a plan without an honest node, unless `corrupt`.
    """
    if delta is None and getattr(plan, "delta", None) is None:
        delta = DEFAULT_DELTA
    full_plan = as_plan(plan, setting, delta=delta, rounds=rounds)
    if full_plan.all_corrupt and not corrupt:
        raise UsageError(
            "this view needs a shuffled round, but every node is corrupt, so nothing is shuffled"
        )
    return replace(full_plan, notes=())


def _points(values: ArrayLike) -> Floats:
    points = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if points.ndim != 1 or not points.size:
        raise UsageError("the points of a view must be a non-empty list of numbers")
    return points


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
