"""Numbers and statements in the text of paper 002.

They are about users, the crossing, paddings, Theorem 3.2, two attacks, U_Q and the axes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.laws import HALF, LOCAL, local_law
from shuffledp_experiments.athanasiou.losses import COLOUR
from shuffledp_experiments.athanasiou.outliers import draw_attacks, run_attacks
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
from shuffledp_privacy.sums.clamping import least_padding_sgdl, sgdl_any_clamped
from shuffledp_privacy.sums.errors import ErrorLaw, bits_error, sgdl_error
from shuffledp_privacy.sums.planar import axis_budget, plane_guarantee
from shuffledp_privacy.sums.quantised import quantised_epsilon, quantised_parameter
from shuffledp_privacy.sums.rr import pure_randomise
from shuffledp_privacy.sums.sgdl import published_padding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

K: Final = printed.LARGEST


def run_fewest(work: RunInputs) -> Results:
    """Fewest users for RR-Shuffle at each ε, by Theorem 3.1 and exactly."""
    rows, delta = [], work["delta"]
    for epsilon in work["epsilon"]:
        settings = {"delta": delta}
        fewest = printed.fewest_users(epsilon, delta)
        rows.append(
            Row(
                "Theorem 3.1", Kind.PRINTED, "ε", epsilon, "fewest users", fewest, settings=settings
            )
        )
        # p = 2/(1 + e^ε) gives ε per unit at δ = 0, whatever the others do: one user is enough.
        exact = 1 if pure_randomise(epsilon) < 1 else math.nan
        rows += [
            Row(
                f"pure plan, {kind.value}",
                kind,
                "ε",
                epsilon,
                "fewest users",
                exact,
                settings=settings,
            )
            for kind in (Kind.CERTIFIED, Kind.ATTAINED)
        ]
    numbers = printed.fewest_users(0.1, 1e-4)
    released = printed.fewest_users(0.1 + printed.RELEASED_TOLERANCE, printed.RELEASED_DELTA)
    axis = 0.15 / (6 * math.sqrt(2))
    at_axis = printed.fewest_users(axis, 1e-4 / 2)
    for stated, epsilon, own_delta in ((23, 0.1, 1e-4), (776, axis, 1e-4 / 2)):
        rows.append(
            Row(
                "in the paper",
                Kind.PUBLISHED,
                "ε",
                epsilon,
                "fewest users",
                stated,
                settings={"delta": own_delta},
            )
        )
    claims = (
        PaperClaim(
            "section 6.2: RR-Shuffle needs 23 users for ε = 0.1",
            Verdict.SOUND if numbers == 23 else Verdict.NOT_REPRODUCED,
            f"Theorem 3.1 gives {numbers}; with the released δ and tolerance {released}",
            23,
        ),
        PaperClaim(
            "section 6.3: RR-Shuffle needs 776 users for ε_run = 0.15/(6 √2)",
            Verdict.SOUND if at_axis == 776 else Verdict.NOT_REPRODUCED,
            f"Theorem 3.1 gives {at_axis} at δ/2",
            776,
        ),
    )
    return Results(
        tuple(rows),
        claims,
        ("one user is enough for a guarantee: p = 2/(1 + e^ε) is pure at any n",),
    )


def draw_fewest(result: Results) -> Figure:
    """Plot the fewest users by ε."""
    figure, axes = drawing.panels(width=7.2, height=4.4)
    panel = axes[0, 0]
    drawing.line(panel, result, "Theorem 3.1", label="Theorem 3.1, δ = 1e-4")
    drawing.line(panel, result, "pure plan, certified", label="p = 2/(1 + e^ε), certified")
    drawing.line(panel, result, "in the paper", ls="", marker="X", ms=8)
    for row in result.rows:
        if row.kind is Kind.PUBLISHED:
            panel.annotate(
                f"{row.y:g}",
                (float(row.x), row.y),
                xytext=(6, -12),
                textcoords="offset points",
                fontsize=9,
            )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("ε per unit (nats)")
    panel.set_ylabel("fewest users (values 0..1000)")
    panel.set_title("RR-Shuffle needs a crowd for its theorem, not for its guarantee", fontsize=11)
    panel.legend(frameon=False, fontsize=9)
    return figure


def bits_law(users: int, epsilon: float, delta: float) -> ErrorLaw | None:
    """Law of RR-Shuffle's error with Theorem 3.1's parameters; None for too few users."""
    share = printed.randomise(epsilon, delta, users)
    return None if share is None else bits_error(users * K, users * HALF, share)


def run_crossing(work: RunInputs) -> Results:
    """Least number of users at which RR-Shuffle has a smaller error than Geo-Local.

    With the parameters as printed in the paper, and as in its released code.
    """
    epsilon, rows = work["epsilon"], []
    crossing: dict[str, int] = {}
    cases = {
        "as printed": (epsilon, work["delta"]),
        "as released": (epsilon + printed.RELEASED_TOLERANCE, printed.RELEASED_DELTA),
    }
    for n in work["users"]:
        local = local_law(epsilon, n).mean_absolute() / n
        settings = {"epsilon": epsilon, "delta": 0.0}
        rows.append(
            Row(
                LOCAL,
                Kind.EXACT,
                "n",
                n,
                "mean absolute error of the mean",
                local,
                settings=settings,
            )
        )
        for name, (goal, delta) in cases.items():
            law = bits_law(n, goal, delta)
            y = math.nan if law is None else law.mean_absolute() / n
            settings = {"epsilon": epsilon, "delta": delta}
            rows.append(
                Row(
                    f"RR-Shuffle {name}",
                    Kind.PRINTED,
                    "n",
                    n,
                    "mean absolute error of the mean",
                    y,
                    settings=settings,
                )
            )
            if y < local:
                crossing.setdefault(name, n)
    at = {
        name: _first_below(epsilon, goal, delta, crossing[name])
        for name, (goal, delta) in cases.items()
    }
    first = printed.fewest_users(epsilon, work["delta"])
    claim = PaperClaim(
        "section 6.2: RR-Shuffle is worse than Geo-Local for 23 <= n <= 70, ε = 0.1",
        Verdict.SOUND if (first, at["as printed"]) == (23, 71) else Verdict.NOT_REPRODUCED,
        f"as printed for {first} <= n <= {at['as printed'] - 1}; as released up to "
        f"{at['as released'] - 1}",
        70,
    )
    return Results(tuple(rows), (claim,))


def _first_below(epsilon: float, goal: float, delta: float, enough: int) -> int:
    """Least n at which RR-Shuffle's error is below `goal`, by bisection up to `enough`."""
    low, high = printed.fewest_users(goal, delta) - 1, enough
    while high - low > 1:
        n = (low + high) // 2
        law = bits_law(n, goal, delta)
        below = law is not None and law.mean_absolute() < local_law(epsilon, n).mean_absolute()
        low, high = (low, n) if below else (n, high)
    return high


def draw_crossing(result: Results) -> Figure:
    """Plot the errors by n."""
    figure, axes = drawing.panels(width=7.2, height=4.4)
    panel = axes[0, 0]
    drawing.line(panel, result, LOCAL, color=COLOUR[LOCAL])
    drawing.line(panel, result, "RR-Shuffle as printed", color=COLOUR["RR-Shuffle"])
    drawing.line(panel, result, "RR-Shuffle as released", color=COLOUR["RR-Shuffle"], ls="--")
    panel.axvspan(
        23,
        70,
        color=drawing.QUIET,
        alpha=0.15,
        lw=0,
        label="where the paper sees RR-Shuffle behind",
    )
    panel.set_yscale("log")
    panel.set_xlabel("users n")
    panel.set_ylabel("mean absolute error of the mean")
    panel.set_title(
        "RR-Shuffle overtakes Geo-Local later than the paper says (ε = 0.1)", fontsize=11
    )
    panel.legend(frameon=False, fontsize=9)
    return figure


def exact_padding(epsilon: Fraction, users: int, delta: float) -> int:
    """Least c at which any noise leaves [-c, c] with probability at most δ (Lemma C.1's aim)."""
    low, high = -1, 1
    while sgdl_any_clamped(epsilon, users, high, users) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if sgdl_any_clamped(epsilon, users, middle, users) > delta:
            low = middle
        else:
            high = middle
    return high


def run_padding(work: RunInputs) -> Results:
    """Padding: by Lemma C.1, the least with its property, and the least for the guarantee."""
    rows, claims, notes = [], [], []
    for users in work["users"]:
        wrong = []
        for value in work["epsilon"]:
            epsilon, delta = Fraction(str(value)), work["delta"]
            published = published_padding(epsilon, users, delta)
            exact = exact_padding(epsilon, users, delta)
            settings = {"n": users, "delta": delta}
            pairs: list[tuple[str, Kind, float]] = [
                ("Lemma C.1", Kind.PRINTED, published),
                ("nobody clamped but with δ", Kind.EXACT, exact),
            ]
            for d_max in (1, K):
                sound = least_padding_sgdl(epsilon, users, users, delta, value * d_max)
                pairs.append((f"certified for d <= {d_max}", Kind.CERTIFIED, sound))
            rows += [
                Row(
                    f"{name}, n = {users}",
                    kind,
                    "ε",
                    value,
                    "padding c (bits on each side)",
                    y,
                    settings=settings,
                )
                for name, kind, y in pairs
            ]
            if published < exact:
                wrong.append(value)
            if value in work["judged"]:
                chance = sgdl_any_clamped(epsilon, users, published, users)
                claims.append(
                    PaperClaim(
                        f"Lemma C.1, n = {users}, ε = {value:g}, δ = {delta:g}",
                        Verdict.FALSE
                        if published < exact
                        else Verdict.LOOSE
                        if published > exact * 1.1
                        else Verdict.SOUND,
                        f"somebody is clamped with probability {chance:.2g}",
                        published,
                        exact,
                        exact,
                    )
                )
        notes.append(f"n = {users}: Lemma C.1 is too small up to ε = {max(wrong):g}")
    return Results(tuple(rows), tuple(claims), tuple(notes))


def draw_padding(result: Results) -> Figure:
    """Plot the paddings, in one panel for each n."""
    sizes = sorted({int(r.settings["n"]) for r in result.rows})  # type: ignore[call-overload]
    figure, axes = drawing.panels(1, len(sizes), width=4.8 * len(sizes), height=4.6, sharey=True)
    for panel, n in zip(axes[0], sizes, strict=True):
        drawing.line(panel, result, f"Lemma C.1, n = {n}", label="Lemma C.1")
        drawing.line(
            panel, result, f"nobody clamped but with δ, n = {n}", label="least with its property"
        )
        for d_max, style in ((1, "-."), (K, "-")):
            series = f"certified for d <= {d_max}"
            drawing.line(
                panel,
                result,
                f"{series}, n = {n}",
                label=f"needed for (ε, δ), d ≤ {d_max}",
                ls=style,
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("ε per unit (nats)")
        panel.set_title(f"n = {n}: Lemma C.1 pads too little for small ε", fontsize=10.5)
    axes[0, 0].set_ylabel("padding c (bits on each side)")
    drawing.legend_below(figure, columns=4)
    return figure


def run_tail(work: RunInputs) -> Results:
    """The error quantile of Theorem 3.2, and the exact one."""
    rows, claims = [], []
    users, epsilon, delta = work["users"], work["epsilon"], work["delta"]
    share = printed.present(printed.randomise(epsilon, delta, users))
    law = printed.present(bits_law(users, epsilon, delta))
    for beta in work["beta"]:
        bound = printed.theorem_3_2(share, users, beta)
        exact = law.quantile(1 - beta)
        settings = {"n": users, "epsilon": epsilon, "delta": delta}
        for name, kind, y in (
            ("Theorem 3.2", Kind.PRINTED, bound),
            ("exact quantile", Kind.EXACT, exact),
        ):
            rows.append(Row(name, kind, "β", beta, "error of the sum", y, settings=settings))
        if beta in work["judged"]:
            claims.append(
                judge(
                    f"Theorem 3.2, n = {users}, ε = {epsilon:g}, β = {beta:g}",
                    bound,
                    certified=exact,
                    attained=exact,
                    why=f"{bound / exact:.2g} times the exact quantile",
                )
            )
    return Results(tuple(rows), tuple(claims))


def draw_tail(result: Results) -> Figure:
    """Plot both quantiles by β."""
    figure, axes = drawing.panels(width=6.6, height=4.2)
    panel = axes[0, 0]
    drawing.line(panel, result, "Theorem 3.2")
    drawing.line(panel, result, "exact quantile")
    panel.set_xscale("log")
    panel.set_ylim(bottom=0)
    panel.set_xlabel("β, probability of a larger error")
    panel.set_ylabel("error of the sum (n = 100, values 0..1000)")
    panel.set_title("Theorem 3.2 is about twice the exact quantile", fontsize=11)
    panel.legend(frameon=False, fontsize=9)
    return figure


def run_granularity(work: RunInputs) -> Results:
    """Appendix G: number of bits and error for each granularity, at equal pure ε per unit.

    It includes appendix D's axes.
    """
    rows, claims = [], []
    users = work["users"]
    for epsilon in work["epsilon"]:
        for step in work["granularity"]:
            per_step = quantised_parameter(epsilon, step)
            # A uniform remainder r is rounded with variance r (Q - r), (Q² - 1)/6 on average.
            rounding = (step**2 - 1) / 6
            noise = step**2 * sgdl_error(1.0, min(per_step, 30.0)).root_mean_square() ** 2
            share = Fraction(per_step).limit_denominator(10**6)
            padding = exact_padding(share, users, work["delta"])
            settings = {"epsilon": epsilon, "n": users, "Q": step}
            bits = math.ceil(K / step) + 2 * padding
            local = math.sqrt((noise + rounding) / users)
            shared = math.sqrt(noise / users**2 + rounding / users)
            for name, y in (("Geo-Local", local), ("SGDL-Shuffle", shared)):
                rows.append(
                    Row(
                        f"{name}, ε = {epsilon:g}",
                        Kind.EXACT,
                        "bits of a user",
                        bits,
                        "root mean square error of the mean",
                        y,
                        settings=settings,
                    )
                )
            both = (quantised_epsilon(per_step, step), epsilon)
            for kind, y in zip((Kind.CERTIFIED, Kind.ATTAINED), both, strict=True):
                rows.append(
                    Row(
                        f"ε at ε_Q, ε = {epsilon:g}, {kind.value}",
                        kind,
                        "Q",
                        step,
                        "ε per unit (nats)",
                        y,
                        settings=settings,
                    )
                )
    coarse = work["granularity"][-1]
    lost = quantised_epsilon(1.0, coarse)
    claims.append(
        PaperClaim(
            "appendix G: a larger granularity decreases metric privacy",
            Verdict.OPEN,
            f"open there; at ε_Q = 1 for each step of Q = {coarse} a unit costs ln(1 + (e - 1)/Q) "
            f"= {lost:.3g} (S14); shuffled, quantised-rr is certified by S20",
        )
    )
    printed = 0.15
    axis = axis_budget(printed, 1e-4)
    plane_epsilon, _ = plane_guarantee(axis, axis)
    claims.append(
        judge(
            "appendix D: axes with ε/√2 and δ/2 give ε = 0.15 in the plane",
            printed,
            certified=plane_epsilon,
            # Along a diagonal of independent pure axes the losses add up: √2 times one axis'.
            attained=math.sqrt(2) * axis[0] * (1 - 1e-12),
            why="Cauchy and Schwarz (S15)",
        )
    )
    return Results(tuple(rows), tuple(claims), ("Q from right to left; Q = 1 has the most bits",))


def draw_granularity(result: Results) -> Figure:
    """Plot the error by number of bits, in one panel for each ε."""
    names = [s for s in dict.fromkeys(r.series for r in result.rows) if not s.startswith("ε at")]
    levels = list(dict.fromkeys(float(r.settings["epsilon"]) for r in result.rows))  # type: ignore[arg-type]
    figure, axes = drawing.panels(1, len(levels), width=4.8 * len(levels), height=4.5, sharey=True)
    for panel, level in zip(axes[0], levels, strict=True):
        for index, name in enumerate(n for n in names if n.endswith(f"ε = {level:g}")):
            drawing.line(
                panel, result, name, label=name.partition(",")[0], **drawing.series_style(index)
            )
            points = [r for r in result.rows if r.series == name]
            # One label for both lines, below the lower one.
            for row in (points[0], points[-1], points[len(points) // 2]) if index else ():
                panel.annotate(
                    f"Q = {row.settings['Q']}",
                    (float(row.x), row.y),
                    ha="right",
                    xytext=(-5, -12),
                    textcoords="offset points",
                    fontsize=8,
                )
        panel.set_xscale("log")
        panel.set_xlim(left=0.8)
        panel.set_yscale("log")
        panel.set_xlabel("bits of a user, k/Q + 2c")
        panel.set_title(f"ε = {level:g} per unit, pure, for every Q", fontsize=10.5)
    axes[0, 0].set_ylabel("root mean square error of the mean (n = 100)")
    drawing.legend_below(figure)
    return figure


ENTRIES: Final[tuple[Experiment, ...]] = (
    Experiment(
        id="002-c1",
        source="Athanasiou et al. 2025, sections 6.2 and 6.3",
        question="How many users does RR-Shuffle need?",
        parameters={"epsilon": tuple(float(x) for x in np.round(np.geomspace(0.01, 2, 40), 5)),
        "delta": 1e-4},
        run=run_fewest,
        draw=draw_fewest,
        seconds=1.6,
        seconds_quick=0.7,
        verdicts=frozenset({Verdict.NOT_REPRODUCED}),
        inferred=("epsilon",),
    ),
    Experiment(
        id="002-c2",
        source="Athanasiou et al. 2025, section 6.2",
        question="From how many users on is RR-Shuffle better than Geo-Local?",
        parameters={"epsilon": 0.1, "delta": 1e-4, "users": (*range(20, 50, 2), *range(50, 310,
        10))},
        quick={"users": (20, 30, 40, 60, 100, 200, 300)},
        run=run_crossing,
        draw=draw_crossing,
        seconds=1.4,
        seconds_quick=0.5,
        verdicts=frozenset({Verdict.NOT_REPRODUCED}),
    ),
    Experiment(
        id="002-c4",
        source="Athanasiou et al. 2025, Lemma C.1",
        question="How much padding does SGDL-Shuffle need?",
        parameters={
            "epsilon": (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0),
            "users": (100, 1000),
            "delta": 1e-4,
            "judged": (0.1, 0.3, 1.0),
        },
        quick={"epsilon": (0.1, 0.3, 0.5, 1.0)},
        run=run_padding,
        draw=draw_padding,
        seconds=2,
        seconds_quick=0.8,
        verdicts=frozenset({Verdict.FALSE, Verdict.LOOSE}),
        inferred=("judged",),
    ),
    Experiment(
        id="002-c5",
        source="Athanasiou et al. 2025, Theorem 3.2",
        question="How good is the bound on the error of RR-Shuffle?",
        parameters={
            "users": 100, "epsilon": 0.1, "delta": 1e-4, "judged": (0.05, 0.01),
            "beta": (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4),
        },
        run=run_tail,
        draw=draw_tail,
        seconds=1.3,
        seconds_quick=0.8,
        verdicts=frozenset({Verdict.LOOSE}),
        inferred=("beta",),
    ),
    Experiment(
        id="002-c6",
        source="Athanasiou et al. 2025, sections 4.1 and 8",
        question="Do shuffled numbers betray an outlier, and lengths a value?",
        parameters={
            "users": 100, "epsilon": 0.1, "delta": 1e-4,
            "d": tuple(sorted({round(x) for x in np.geomspace(1, 1000, 60)})),
        },
        run=run_attacks,
        draw=draw_attacks,
        seconds=1.3,
        seconds_quick=0.5,
        verdicts=frozenset({Verdict.SOUND}),
        inferred=("users", "d"),
    ),
    Experiment(
        id="002-c7",
        source="Athanasiou et al. 2025, appendices D and G",
        question="What do coarser unary codes cost in error, at the same guarantee; and two axes?",
        parameters={
            "epsilon": (0.1, 1.0), "granularity": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
            "users": 100, "delta": 1e-4,
        },
        run=run_granularity,
        draw=draw_granularity,
        seconds=2.3,
        seconds_quick=1.2,
        verdicts=frozenset({Verdict.OPEN, Verdict.SOUND}),
        inferred=("users", "delta"),
    ),
)  # fmt: skip
