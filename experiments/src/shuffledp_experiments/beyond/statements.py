"""Published statements against certified and attained ε: by users (n1) and distance (n2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.commands.questions import krr_histogram
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import GeoShuffle, RRShuffle, SGDLShuffle
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import (
    DELTA,
    SIDE_STYLES,
    both_sides,
    draw_sides,
    epsilon_rows,
    finite,
    logarithmic,
    metric,
    standard,
    values_of,
)
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
    judge,
)
from shuffledp_privacy.bounds import Bounds, Setting, corrupted_bounds
from shuffledp_privacy.calibration.padding import sgdl_padding, unnoticed_geo_padding
from shuffledp_privacy.histogram.published import balle_2019, strong_adversary_delta
from shuffledp_privacy.local.clones import LocalRandomiser, erlingsson_2019, feldman_2021
from shuffledp_privacy.local.lecture import cheu_binary_sum
from shuffledp_privacy.sums import geo, rr, sgdl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class PrintedStatement:
    """A published statement, with its formula and its range of validity.

    Attributes:
        name: name of its panel, including the source.
        settings: its parameters, as in the panel's title.
        printed: function from n to the ε that the paper prints; None outside its range of validity.
        truth: function from n to both bounds of the same mechanism at the same δ.
        why: the reason, with the proposition, if the statement turns out to be false.
    """

    name: str
    settings: Mapping[str, object]
    printed: Callable[[int], float | None]
    truth: Callable[[int], Bounds]
    why: str = ""
    loose: str = field(default="a true bound, far above what can be certified")


def _krr_statement(
    name: str, settings: Mapping[str, Any], printed: Callable[[int], float | None], **words: str
) -> PrintedStatement:
    spec, _ = krr_histogram(settings["k"], settings["ε0"])
    return PrintedStatement(
        name, settings, printed, lambda users: both_sides(spec, standard(users)), **words
    )


def _theorem_1() -> PrintedStatement:
    spec, _ = krr_histogram(10, 1.0)
    return _krr_statement(
        "Biswas 2023, Thm 1", {"ε0": 1.0, "k": 10}, lambda users: both_sides(spec,
        standard(users)).published,
        why="a factor once too often in v_s, and one bin of one dataset (K8)",
    )  # fmt: skip


def _theorem_31() -> PrintedStatement:
    spec = RRShuffle(max_value=1000, randomise=Fraction(36, 541))
    return PrintedStatement(
        "Athanasiou 2025, Thm 3.1", {"p": float(spec.randomise), "k = d": 1000},
        lambda users: rr.published_epsilon(spec, users, DELTA),
        lambda users: both_sides(spec, metric(users, 1000)),
        why="for large d the count leaves the interval of its proof (S11)",
    )  # fmt: skip


def _theorem_41() -> PrintedStatement:
    rate, largest = Fraction(1, 5), 1000

    def truth(users: int) -> Bounds:
        padding = geo.published_padding(rate, users, DELTA)
        return both_sides(
            GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding), metric(users, largest)
        )

    return PrintedStatement(
        "Athanasiou 2025, Thm 4.1", {"ε_geo": 0.2, "k = d": largest},
        lambda users: geo.published_epsilon(rate, users, DELTA), truth,
        why="evaluated at d = 1, its best case (S12)",
    )  # fmt: skip


def _theorem_51() -> PrintedStatement:
    rate, largest = Fraction(1, 10), 100

    def truth(users: int) -> Bounds:
        padding = sgdl.published_padding(rate, users, DELTA)
        spec = SGDLShuffle(max_value=largest, noise_epsilon=rate, shares=users, padding=padding)
        return both_sides(spec, metric(users, largest))

    return PrintedStatement(
        "Athanasiou 2025, Thm 5.1", {"ε": 0.1, "k = d": largest}, lambda _: 0.1, truth,
        why="the padding of Lemma C.1 is far too short, and bounded support has a price (S13)",
    )  # fmt: skip


def _theorem_71() -> PrintedStatement:
    """Theorem 7.1: ε_L at the p that Theorem 3.1 gives for ε_S; n matters only through p."""
    largest, shuffled = 10_000, 0.1

    def spec(users: int) -> RRShuffle | None:
        expected = _expected_count(shuffled)
        randomise = Fraction(math.ceil(expected / (users * largest) * 2**20), 2**20)
        return RRShuffle(max_value=largest, randomise=randomise) if randomise < 1 else None

    def printed_epsilon(users: int) -> float | None:
        mechanism = spec(users)
        return None if mechanism is None else rr.published_epsilon(mechanism, 1, DELTA)

    def truth(users: int) -> Bounds:
        mechanism = spec(users)
        if mechanism is None:
            return Bounds(math.inf, 0.0, None, ())
        # Of the bits in their order, as Algorithm 2 has them, the pure one.
        exact = corrupted_bounds(mechanism, metric(1, 1), 0.0)
        # One bit is binary randomised response: its exact ε at δ, from both sides.
        single_bit = both_sides(RRShuffle(max_value=1, randomise=mechanism.randomise), standard(1))
        return Bounds(exact.epsilon, single_bit.attained, None, exact.basis)

    return PrintedStatement(
        "Athanasiou 2025, Thm 7.1 (ε_L)", {"ε_S": shuffled, "k": largest}, printed_epsilon, truth,
        why="unary bits are ordered: which one could differ is known (S10)",
    )  # fmt: skip


def _expected_count(epsilon: float) -> float:
    """λ for which Theorem 3.1 gives this ε at δ."""
    from scipy.optimize import brentq

    log_four = math.log(4 / DELTA)
    log_two = math.log(2 / DELTA)

    def excess(count: float) -> float:
        return math.sqrt(32 * log_four / (count - math.sqrt(2 * count * log_two))) - epsilon

    return float(brentq(excess, 14 * log_four, 1e12))


def _cheu() -> PrintedStatement:
    target = 0.5

    def spec(users: int) -> RRShuffle | None:
        try:
            return cheu_binary_sum(users, target, DELTA)
        except UsageError:
            return None

    def truth(users: int) -> Bounds:
        mechanism = spec(users)
        return (
            Bounds(math.inf, 0.0, None, ())
            if mechanism is None
            else both_sides(mechanism, standard(users))
        )

    return PrintedStatement(
        "lecture, Thm 9.6 (Cheu)", {"p": "ln(1/δ)/(nε²)", "ε": target},
        lambda users: None if spec(users) is None else target, truth,
        why="an order of growth, with constant 1",
    )  # fmt: skip


def _clones() -> PrintedStatement:
    any_randomiser = LocalRandomiser(1.0)
    return PrintedStatement(
        "Feldman 2021, closed form", {"ε0": 1.0}, lambda users: feldman_2021(1.0, users, DELTA),
        lambda users: both_sides(any_randomiser, standard(users)),
    )  # fmt: skip


def _erlingsson() -> PrintedStatement:
    any_randomiser = LocalRandomiser(0.45)
    return PrintedStatement(
        "Erlingsson 2019, Thm 7", {"ε0": 0.45}, lambda users: erlingsson_2019(0.45, users, DELTA),
        lambda users: both_sides(any_randomiser, standard(users)),
    )  # fmt: skip


def _balle() -> PrintedStatement:
    spec, _ = krr_histogram(10, 1.0)
    return _krr_statement(
        "Balle 2019, Thm 3.1", {"ε0": 1.0, "k": 10},
        lambda users: balle_2019(10, float(spec.blanket), users, DELTA),
    )  # fmt: skip


_HIGHEST: Final = 2.0
"""Largest ε looked for against the strong adversary; twice the local one."""


def _strong() -> PrintedStatement:
    spec, _ = krr_histogram(10, 1.0)

    def printed_epsilon(users: int) -> float | None:
        low, high = 0.0, _HIGHEST
        if strong_adversary_delta(spec, users, high) > DELTA:
            return (
                None  # without enough random reports nothing hides the one that is known to be true
            )
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (
                (low, middle)
                if strong_adversary_delta(spec, users, middle) <= DELTA
                else (middle, high)
            )
        return high

    return _krr_statement("Koskela 2021, strong adversary", {"ε0": 1.0, "k": 10}, printed_epsilon)


STATEMENTS: Final[Mapping[str, Callable[[], PrintedStatement]]] = {
    "theorem 1": _theorem_1,
    "theorem 3.1": _theorem_31,
    "theorem 4.1": _theorem_41,
    "theorem 5.1": _theorem_51,
    "theorem 7.1": _theorem_71,
    "cheu": _cheu,
    "strong": _strong,
    "balle": _balle,
    "feldman": _clones,
    "erlingsson": _erlingsson,
}
"""By the short name in the CSV; those that are false somewhere first."""


def _run_n1(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for short, make in STATEMENTS.items():
        statement = make()
        printed = [finite(statement.printed(users)) for users in work["n"]]
        rows += [
            Row(
                f"{short} printed",
                Kind.PRINTED,
                "n",
                users,
                "ε (nats)",
                value,
                settings=_about(statement),
            )
            for users, value in zip(work["n"], printed, strict=True)
        ]
        sides = epsilon_rows(work["n"], statement.truth, "n", short, **_about(statement))
        rows += sides
        claims.append(_worst(statement, work["n"], printed, sides, short))
    return Results(
        tuple(rows),
        tuple(claims),
        (f"δ = {DELTA:g}; every user honest; sums under metric adjacency",),
    )


def _about(statement: PrintedStatement) -> dict[str, object]:
    return {"statement": statement.name, **statement.settings}


def _worst(
    statement: PrintedStatement,
    users: tuple[int, ...],
    printed: list[float],
    sides: list[Row],
    short: str,
) -> PaperClaim:
    """Judge a statement where it is most wrong: at the least ratio of printed to attained ε."""
    certified, attained = (
        values_of(sides, f"{short} {kind}") for kind in (Kind.CERTIFIED, Kind.ATTAINED)
    )
    ratios = np.array(printed) / attained
    if np.isnan(ratios).all():
        raise ValueError(f"{statement.name} has no value at any of n = {users}")
    at = int(np.nanargmin(ratios))
    above = float(certified[at]) if math.isfinite(certified[at]) else math.inf
    return judge(
        f"{statement.name} at n = {users[at]:,}", printed[at], certified=above,
        attained=float(attained[at]),
        why={Verdict.FALSE: statement.why, Verdict.LOOSE: statement.loose},
    )  # fmt: skip


def _draw_n1(result: Results) -> Figure:
    shorts = [
        name for name in STATEMENTS if any(row.series == f"{name} printed" for row in result.rows)
    ]
    columns = 5
    figure, axes = drawing.panels(
        -(-len(shorts) // columns), columns, width=15.5, height=6.6, sharex=True
    )
    for panel, short in zip(axes.ravel(), shorts, strict=False):
        _panel(panel, result, short)
    for panel in axes[:, 0]:
        panel.set_ylabel("ε (nats; sums: per unit)")
    for panel in axes[-1, :]:
        panel.set_xlabel("users n")
    figure.suptitle(f"What is printed, and what is true, by the number of users (δ = {DELTA:g})")
    drawing.legend_below(figure)
    return figure


def _panel(axes: Axes, result: Results, short: str) -> None:
    about = next(row.settings for row in result.rows if row.series == f"{short} printed")
    words = ", ".join(
        f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in about.items()
        if name != "statement"
    )
    axes.set_title(f"{about['statement']}\n{words}", fontsize=9)
    draw_sides(axes, result, f"{short} certified", f"{short} attained")
    users, printed = result.series(f"{short} printed")
    shown = [row for row in result.rows if row.series == f"{short} printed" and row.y != 0]
    drawing.line(axes, shown, f"{short} printed", label="printed", marker="o", ms=3)
    # What is printed as 0 has no place on a logarithmic axis: it stands at the lower edge.
    floor = 1e-3 * float(
        np.nanmin(result.series(f"{short} attained")[1][result.series(f"{short} attained")[1] > 0])
    )
    if (printed == 0).any():
        axes.set_ylim(bottom=floor)
        colour = drawing.COLOURS[Kind.PRINTED]
        axes.plot(
            users[printed == 0], np.full((printed == 0).sum(), floor * 1.3), "v", color=colour, ms=6
        )
        axes.annotate(
            "0 is printed", (float(users[0]), floor * 2.2), fontsize=8, color=drawing.QUIET
        )
    _grey(axes, users, np.isnan(printed))
    logarithmic(axes)


def _grey(axes: Axes, users: np.ndarray[Any, Any], outside: np.ndarray[Any, Any]) -> None:
    """Shade the n to which the statement does not apply."""
    edges = np.sqrt(users[1:] * users[:-1])
    left = np.concatenate([[users[0]], edges])
    right = np.concatenate([edges, [users[-1]]])
    for low, high in zip(left[outside], right[outside], strict=True):
        axes.axvspan(
            float(low),
            float(high),
            color=drawing.QUIET,
            alpha=0.18,
            lw=0,
            label="outside its range",
        )


N1: Final = Experiment(
    id="n1", source="new",
    question="From how many users on, and by how much, does each published statement hold?",
    parameters={"n": (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)},
    quick={"n": (30, 10_000)},
    run=_run_n1, draw=_draw_n1, seconds=20, seconds_quick=5.9,
    verdicts=frozenset({Verdict.FALSE, Verdict.LOOSE}),
)  # fmt: skip


def _run_n2(work: RunInputs) -> Results:
    users, delta, largest = work["n"], work["δ"], work["k"]
    rate = Fraction(work["ε_geo"])
    settings = {"n": users, "δ": delta, "k": largest, "ε_geo": float(rate)}
    distances = tuple(d for d in work["d_max"] if d <= largest)
    plenty = unnoticed_geo_padding(rate, largest, metric(users, largest), delta)
    spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=plenty)
    printed = finite(geo.published_epsilon(rate, users, delta))
    rows = [
        Row("ε printed", Kind.PRINTED, "d_max", d, "ε (nats)", printed, settings=settings)
        for d in distances
    ]
    rows += epsilon_rows(
        distances, lambda d: both_sides(spec, metric(users, d), delta), "d_max", "ε", **settings
    )
    claims = [_claim_of_geo(printed, rows, distances, settings)]
    noise = Fraction(work["ε_sgdl"])
    about = {"n": users, "δ": delta, "k": largest, "ε_sgdl": float(noise)}
    short = sgdl.published_padding(noise, users, delta)
    rows += [
        Row("c printed", Kind.PRINTED, "d_max", d, "c (bits a side)", short, settings=about)
        for d in distances
    ]
    needed = [_needed_padding(noise, users, largest, metric(users, d), delta) for d in distances]
    rows += [
        Row("c certified", Kind.CERTIFIED, "d_max", d, "c (bits a side)", c, settings=about)
        for d, c in zip(distances, needed, strict=True)
    ]
    at_printed = [
        both_sides(_shared(noise, users, largest, short), metric(users, d), delta)
        for d in distances
    ]
    rows += [
        Row(
            "ε at the printed c attained",
            Kind.ATTAINED,
            "d_max",
            d,
            "ε (nats)",
            sides.attained,
            settings=about,
        )
        for d, sides in zip(distances, at_printed, strict=True)
    ]
    rows += [
        Row(
            "ε at the printed c certified",
            Kind.CERTIFIED,
            "d_max",
            d,
            "ε (nats)",
            finite(sides.certified),
            settings=about,
        )
        for d, sides in zip(distances, at_printed, strict=True)
    ]
    worst = max(at_printed, key=lambda sides: sides.attained)
    claims.append(
        judge(
            f"Athanasiou 2025, Thm 5.1 with the c = {short} of Lemma C.1, n = {users}",
            float(noise), certified=worst.certified, attained=worst.attained,
            why={Verdict.FALSE: f"the mean of a negative binomial is wrong there; {needed[-1]:g} "
                                "is enough (S13)"},
        )
    )  # fmt: skip
    return Results(tuple(rows), tuple(claims))


def _shared(noise: Fraction, users: int, largest: int, padding: int) -> SGDLShuffle:
    return SGDLShuffle(max_value=largest, noise_epsilon=noise, shares=users, padding=padding)


def _needed_padding(
    noise: Fraction, users: int, largest: int, setting: Setting, delta: float
) -> float:
    try:
        return float(sgdl_padding(noise, users, largest, setting, delta))
    except (CannotCertify, UsageError):
        return math.nan


def _claim_of_geo(
    printed: float, rows: list[Row], distances: tuple[int, ...], settings: Mapping[str, object]
) -> PaperClaim:
    certified, attained = (values_of(rows, f"ε {kind}") for kind in (Kind.CERTIFIED, Kind.ATTAINED))
    failing = [d for d, low in zip(distances, attained, strict=True) if low > printed]
    first = f"; of those drawn, first at d_max = {failing[0]}" if failing else ""
    return judge(
        f"Athanasiou 2025, Thm 4.1, n = {settings['n']}, at d_max = {distances[-1]}", printed,
        certified=float(certified[-1]), attained=float(attained[-1]),
        why={Verdict.FALSE: f"evaluated at d = 1, its best case (S12){first}"},
    )  # fmt: skip


def _draw_n2(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 3, width=13.5, height=4.6)
    about: Mapping[str, Any] = next(row.settings for row in result.rows)
    words = f"n = {about['n']}, δ = {about['δ']:g}"
    shared: Mapping[str, Any] = next(
        row.settings for row in result.rows if row.series == "c printed"
    )
    for panel, title, names in zip(
        axes[0],
        (
            f"geo-shuffle: ε* grows with the distance\n{words}, ε_geo = {about['ε_geo']:g}",
            f"sgdl-shuffle: so does the padding\n{words}, ε = {shared['ε_sgdl']:g}",
            f"sgdl-shuffle with the printed padding\n{words}, ε = {shared['ε_sgdl']:g}",
        ),
        (("ε printed", "ε certified", "ε attained"), ("c printed", "c certified"),
         ("ε at the printed c certified", "ε at the printed c attained")),
        strict=True,
    ):  # fmt: skip
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("largest distance d_max (units)")
        for name in names:
            kind = next(row.kind for row in result.rows if row.series == name)
            drawing.line(
                panel,
                result,
                name,
                label=str(kind),
                **SIDE_STYLES.get(kind, {"marker": "o", "ms": 3}),
            )
    axes[0, 2].axhline(
        shared["ε_sgdl"], color=drawing.COLOURS[Kind.PRINTED], lw=1.8, label="printed"
    )
    for panel in axes[0]:
        logarithmic(panel)
    for panel, name in zip(
        axes[0], ("ε per unit (nats)", "padding c (bits a side)", "ε per unit (nats)"), strict=True
    ):
        panel.set_ylabel(name)
    drawing.legend_below(figure)
    return figure


N2: Final = Experiment(
    id="n2", source="new",
    question="How do ε and the padding grow with the distance that they are promised for?",
    parameters={
        "n": 100, "δ": 1e-4, "k": 1000, "ε_geo": "1/5", "ε_sgdl": "1/10",
        "d_max": (1, 2, 5, 10, 20, 50, 100, 150, 200, 246, 300, 500, 700, 1000),
    },
    quick={"d_max": (1, 10, 100, 1000)},
    run=_run_n2, draw=_draw_n2, seconds=3, seconds_quick=2,
    verdicts=frozenset({Verdict.FALSE}),
)  # fmt: skip
