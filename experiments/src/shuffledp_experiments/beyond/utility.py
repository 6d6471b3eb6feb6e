"""Utility at one certified guarantee: by ε (n3), messages and bytes (n4), and symbols (n12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.postprocessing import most_likely_histogram, project
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA, logarithmic
from shuffledp_experiments.beyond.plans import (
    HOPS,
    Offer,
    bits,
    calibrated_spec,
    central_error,
    dummies,
    krr,
    offers,
    pieces,
    traffic,
)
from shuffledp_experiments.data import load
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import standard_error
from shuffledp_privacy.central import gaussian_sigma
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shuffledp_core.mechanisms import HadamardHistogram

Floats = NDArray[np.float64]

_ERROR: Final = "standard error of the mean / k"
_TV: Final = "total variation distance"


def _run_n3(work: RunInputs) -> Results:
    rows: list[Row] = []
    for largest in work["k"]:
        for users in work["n"]:
            for epsilon in work["ε"]:
                settings = {"quantity": "sum", "k": largest, "n": users}
                rows += [
                    Row(
                        name,
                        Kind.EXACT,
                        "ε",
                        epsilon,
                        _ERROR,
                        offer.error / users / largest,
                        settings=settings,
                    )
                    for name, offer in offers(users, largest, epsilon).items()
                ]
    shares, note = _shares(work)
    for users in work["n"]:
        for epsilon in work["ε"]:
            rows += _histogram_rows(work, shares, users, epsilon)
    runs = work.runs or work["runs"]
    return Results(
        tuple(rows),
        notes=(
            note,
            f"all at certified (ε, {DELTA:g}), every user honest, standard adjacency; histograms: "
            f"mean of {runs} runs",
            "INV is matrix inversion and the nearest shares that are possible; IBU the likeliest "
            "shares, to which iterative Bayesian updates converge",
        ),
    )


def _shares(work: RunInputs) -> tuple[Floats, str]:
    """Shares of the symbols in a real column, or in a stand-in with as many symbols."""
    if work.data is not None:
        column = load(work.data, "adult")[:, 0].astype(np.int64)
        return np.bincount(column - 1, minlength=16) / len(
            column
        ), f"histogram: education of Adult, {len(column):,} rows"
    falling = 0.8 ** np.arange(16)
    return (
        falling / falling.sum(),
        "stand-in: 16 symbols with shares that fall by a fifth each; give --data for Adult's",
    )


def _histogram_rows(work: RunInputs, shares: Floats, users: int, epsilon: float) -> list[Row]:
    counts = np.floor(shares * users).astype(np.int64)
    counts[0] += users - counts.sum()
    truth = counts / users
    symbols = len(shares)
    runs = work.runs or work["runs"]
    generator = work.generator(users, epsilon)
    noisy = krr_counts(counts, float(krr(users, symbols, epsilon).blanket), runs, generator)
    blanket = float(krr(users, symbols, epsilon).blanket)
    alone = float(epsilon0_to_blanket(epsilon, symbols))
    locally = krr_counts(counts, alone, runs, generator)
    flip = float(bits(users, epsilon).randomise) / 2
    bit_counts = generator.binomial(counts, 1 - flip, (runs, symbols)) + generator.binomial(
        users - counts, flip, (runs, symbols)
    )
    ratio = -math.expm1(-epsilon / 2)
    added = generator.geometric(ratio, (runs, symbols)) - generator.geometric(
        ratio, (runs, symbols)
    )
    estimates = {
        "local": invert_shares(locally, alone),
        "k-RR, INV": invert_shares(noisy, blanket),
        "k-RR, IBU": most_likely_histogram(noisy, blanket / symbols, 1 - blanket) / users,
        "rr-shuffle": project((bit_counts / users - flip) / (1 - 2 * flip), 1.0),
        "central": project((counts + added) / users, 1.0),
    }
    settings = {"quantity": "histogram", "k": symbols, "n": users}
    rows = []
    for name, estimated in estimates.items():
        distances = np.abs(estimated - truth).sum(axis=1) / 2
        low, high = np.quantile(distances, (0.05, 0.95))
        rows.append(
            Row(
                name,
                Kind.MEASURED,
                "ε",
                epsilon,
                _TV,
                float(distances.mean()),
                float(low),
                float(high),
                settings,
            )
        )
    return rows


def krr_counts(
    counts: NDArray[np.int64], blanket: float, runs: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Number of reports of each symbol in each of `runs` rounds: shape (runs, k)."""
    symbols = len(counts)
    truthful = generator.binomial(counts, 1 - blanket, (runs, symbols))
    random = generator.multinomial(
        counts.sum() - truthful.sum(axis=1), np.full(symbols, 1 / symbols)
    )
    return np.asarray(truthful + random, dtype=np.int64)


def invert_shares(counts: NDArray[np.int64], blanket: float) -> Floats:
    """Shares by matrix inversion, and the nearest possible shares; shape (runs, k)."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    return project((shares - blanket / counts.shape[1]) / (1 - blanket), 1.0)


def _draw_n3(result: Results) -> Figure:
    groups = list(
        dict.fromkeys((row.settings["quantity"], row.settings["k"]) for row in result.rows)
    )
    sizes = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    names = list(dict.fromkeys(row.series for row in result.rows))
    figure, axes = drawing.panels(
        len(groups),
        len(sizes),
        width=max(8.6, 4.2 * len(sizes)),
        height=2.9 * len(groups) + 0.8,
        sharex=True,
        sharey="row",
    )
    for row_of, (quantity, largest) in zip(axes, groups, strict=True):
        for panel, users in zip(row_of, sizes, strict=True):
            rows = [
                row for row in result.rows
                if (row.settings["quantity"], row.settings["k"], row.settings["n"]) == (quantity,
                largest, users)
            ]  # fmt: skip
            for name in dict.fromkeys(row.series for row in rows):
                drawing.line(panel, rows, name, **_style(names, name))
            panel.set_title(f"{quantity}, k = {largest}, n = {users:,}", fontsize=10)
            logarithmic(panel)
        row_of[0].set_ylabel(rows[0].y_name)
    for panel in axes[-1]:
        panel.set_xlabel("certified ε (nats)")
    figure.suptitle(f"Error at one true guarantee (δ = {DELTA:g})")
    drawing.legend_below(figure, columns=5)
    return figure


def _style(names: list[str], name: str) -> dict[str, Any]:
    """Line style of a mechanism; three that nearly coincide have different widths."""
    style = drawing.series_style(names.index(name))
    special: dict[str, dict[str, Any]] = {
        "central": {"color": "black", "marker": "_", "ms": 9, "lw": 1.2, "ls": "--"},
        "sgdl-shuffle": {"lw": 5, "alpha": 0.35, "ms": 8},
        "k-RR, INV": {"color": "#cc79a7", "marker": "D"},
        "k-RR, IBU": {"color": "#8c6d31", "marker": "*", "ls": "--"},
        "split-mix": {"color": "#e69f00", "marker": "x", "ls": "", "ms": 7},
        "local": {"color": drawing.QUIET},
        "local, one bit": {"color": drawing.QUIET},
    }
    return style | special.get(name, {})


N3: Final = Experiment(
    id="n3", source="new", question="Which mechanism errs least, where all keep the same true "
                                    "guarantee?",
    parameters={"n": (1000, 10_000, 100_000), "k": (10, 100), "ε": (0.1, 0.3, 1.0, 2.0, 4.0),
    "runs": 200},
    quick={"n": (10_000,), "k": (10,), "ε": (1.0,), "runs": 50},
    run=_run_n3, draw=_draw_n3, data=("adult",), seconds=60, seconds_quick=5.7,
)  # fmt: skip

_LEFT: Final = "ε_L (nats)"


def _run_n4(work: RunInputs) -> Results:
    rows: list[Row] = []
    notes: list[str] = []
    for largest in work["k"]:
        for epsilon in work["ε"]:
            offered = offers(work["n"], largest, epsilon)
            sent = {name: offer for name, offer in offered.items() if offer.messages and offer.size}
            settings = {"n": work["n"], "k": largest, "ε": epsilon}
            for name, offer in sent.items():
                rows += _offer_rows(name, offer, settings)
            rows.append(
                Row(
                    "central",
                    Kind.EXACT,
                    "messages",
                    0,
                    "error",
                    offered["central"].error,
                    settings=settings,
                )
            )
            front = " < ".join(_front(sent))
            notes.append(
                f"k = {largest}, ε = {epsilon:g}: nothing is better in both, by bytes: {front}"
            )
    return Results(tuple(rows), notes=tuple(notes))


def _offer_rows(name: str, offer: Offer, settings: dict[str, Any]) -> list[Row]:
    numbers = {"error": offer.error, "bytes": float(offer.size), _LEFT: offer.corrupted}
    return [
        Row(
            f"{name}: {quantity}",
            Kind.EXACT,
            "messages",
            offer.messages,
            quantity,
            value,
            settings=settings,
        )
        for quantity, value in numbers.items()
    ]


def _front(sent: dict[str, Offer]) -> list[str]:
    """The mechanisms that no other beats in both bytes and error, fewest bytes first."""
    best, front = math.inf, []
    for name, offer in sorted(sent.items(), key=lambda item: (item[1].size, item[1].error)):
        if offer.error < best:
            best = offer.error
            front.append(name)
    return front


def _draw_n4(result: Results) -> Figure:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    symbols = list(dict.fromkeys(row.settings["k"] for row in result.rows))
    epsilons = list(dict.fromkeys(row.settings["ε"] for row in result.rows))
    figure, axes = drawing.panels(
        len(symbols), len(epsilons), width=4.3 * len(epsilons) + 1, height=3.3 * len(symbols) + 0.7
    )
    left = [row.y for row in result.rows if row.y_name == _LEFT]
    norm, colours = LogNorm(min(left), max(left)), colormaps["viridis_r"]
    names = list(
        dict.fromkeys(row.series.split(":")[0] for row in result.rows if row.series != "central")
    )
    for row_of, largest in zip(axes, symbols, strict=True):
        for panel, epsilon in zip(row_of, epsilons, strict=True):
            rows = [
                row
                for row in result.rows
                if row.settings["k"] == largest and row.settings["ε"] == epsilon
            ]
            for index, name in enumerate(names):
                value = {row.y_name: row for row in rows if row.series.startswith(f"{name}:")}
                point, error = value["bytes"], value["error"].y
                panel.plot(
                    point.y, error, drawing.MARKERS[index], ms=10,
                    color=colours(norm(value[_LEFT].y)),
                    mec="black", mew=0.8,
                )  # fmt: skip
                # Only shapes are in the legend: a colour says ε_L.
                panel.plot(
                    [], [], drawing.MARKERS[index], ms=9, color="white", mec="black", label=name
                )
                side = (-6, -14) if index == 0 else (8, 5)  # the first two are often neighbours
                panel.annotate(
                    f"{point.x:,}", (point.y, error), side, textcoords="offset points", fontsize=8
                )
            central = next(row.y for row in rows if row.series == "central")
            panel.axhline(central, color="black", lw=1, ls="--", label="central, no messages")
            panel.set_title(f"ε = {epsilon:g}, k = {largest}", fontsize=10)
            panel.margins(x=0.15)
            logarithmic(panel)
        row_of[0].set_ylabel("standard error of the sum")
    for panel in axes[-1]:
        panel.set_xlabel(f"bytes per user, {HOPS} nodes")
    bar = figure.colorbar(
        ScalarMappable(norm, colours),
        ax=axes,
        label="ε_L with every node corrupt (nats)",
        fraction=0.03,
    )
    logarithmic(bar.ax, "y")
    users = result.rows[0].settings["n"]
    figure.suptitle(
        f"Error against traffic; beside each point its messages per user (n = {users:,}, δ = "
        f"{DELTA:g})"
    )
    drawing.legend_below(figure, columns=6)
    return figure


N4: Final = Experiment(
    id="n4", source="new", question="What do a smaller error and a better ε_L cost in messages "
                                    "and bytes?",
    parameters={"n": 10_000, "k": (10, 100), "ε": (0.1, 1.0, 4.0)},
    quick={"n": 1000, "k": (10,), "ε": (1.0, 4.0)},
    run=_run_n4, draw=_draw_n4, seconds=9, seconds_quick=1.5,
)  # fmt: skip


def _run_n12(work: RunInputs) -> Results:
    users, epsilon = work["n"], work["ε"]
    flip = float(bits(users, epsilon).randomise) / 2
    # By k and by how many hold the symbol.
    errors: dict[str, Callable[[int, float], float]] = {
        "rr-shuffle for each bin": lambda _, __: (
            math.sqrt(users * flip * (1 - flip)) / (1 - 2 * flip)
        ),
        "Gaussian, central": lambda _, __: gaussian_sigma(math.sqrt(2), epsilon, DELTA),
        "discrete Laplace, central": lambda _, __: central_error(epsilon / 2),
        "k-RR": lambda k, holders: _krr_error(
            users, holders, k, float(krr(users, k, epsilon).blanket)
        ),
        "hadamard-histogram": lambda k, holders: _hadamard_error(users, holders, k, epsilon),
        "dummy-histogram": lambda k, _: standard_error(dummies(users, k, epsilon), users),
        "node-histogram": lambda k, _: standard_error(
            calibrated_spec("node-histogram", users, k - 1, epsilon), users, _NODES
        ),
        "k-RR, no shuffler": lambda k, holders: _krr_error(
            users, holders, k, float(epsilon0_to_blanket(epsilon, k))
        ),
    }
    rows = [
        Row(
            name,
            Kind.EXACT,
            "k",
            k,
            _COUNT,
            max(error(k, share * users) for share in shares(k)),
            settings={"n": users, "ε": epsilon, "of": of},
        )
        for of, shares in _HELD.items()
        for name, error in errors.items()
        for k in work["k"]
    ]
    notes = [
        note
        for of in _HELD
        for note in _notes_n12([row for row in rows if row.settings["of"] == of], of)
    ]
    messages = [dummies(users, k, epsilon).messages_per_user for k in work["k"]]
    sent = (
        f"messages of a user: k for rr-shuffle, {messages[0]} to {messages[-1]} for "
        "dummy-histogram, one for the others; with every node corrupt dummy-histogram and "
        f"node-histogram hide nothing; node-histogram: the noise of all {_NODES} nodes"
    )
    return Results(tuple(rows), notes=(*notes, sent, f"certified at (ε, δ = {DELTA:g})"))


_NODES: Final = 3
"""Nodes whose noise is in an answer of node-histogram."""

_COUNT: Final = "standard error of a count (users)"

_HELD: Final[dict[str, Callable[[int], tuple[float, ...]]]] = {
    "a symbol that one in k holds": lambda symbols: (1 / symbols,),
    "the symbol that is counted worst": lambda _: (0.0, 1.0),
}
"""Shares of the users who hold the symbol, of which the worst counts. The variance is linear in the
share, so an end is
the worst: k-RR errs most where all hold it, Hadamard response where none does."""


def _notes_n12(rows: list[Row], of: str) -> list[str]:
    """Notes: the mechanism with least error, and the k at which Hadamard response beats k-RR."""
    error = {(row.series, row.x): row.y for row in rows}
    other = "hadamard-histogram"
    names = ("rr-shuffle for each bin", "k-RR", other, "dummy-histogram", "node-histogram")
    symbols = list(dict.fromkeys(int(row.x) for row in rows))
    least: dict[str, list[str]] = {}
    for k in symbols:
        least.setdefault(min(names, key=lambda name: error[name, k]), []).append(str(k))
    words = "; ".join(f"{name} at k = {', '.join(where)}" for name, where in least.items())
    last = max((k for k in symbols if error[other, k] >= error["k-RR", k]), default=0)
    better = [str(k) for k in symbols if k > last]
    where = f"from k = {better[0]} on" if better else f"nowhere up to k = {symbols[-1]}"
    ends = f"{error[other, symbols[-1]]:.3g} against {error['k-RR', symbols[-1]]:.3g}"
    return [
        f"{of}: without a curator errs least {words}",
        f"{of}: of those with one message {other} errs less than k-RR {where} ({ends} users at "
        "the last)",
    ]


def _krr_error(users: int, holders: float, symbols: int, blanket: float) -> float:
    """Standard error of a debiased k-RR count: Bin(holders, p) + Bin(n - holders, q) reports."""
    q = blanket / symbols
    p = 1 - blanket + q
    return math.sqrt(holders * p * (1 - p) + (users - holders) * q * (1 - q)) / (1 - blanket)


def _hadamard_error(users: int, holders: float, symbols: int, epsilon: float) -> float:
    """Standard error of a count from the indices in a symbol's half: p = 1 - γ/2, q = 1/2 (K13)."""
    spec = cast(
        "HadamardHistogram", calibrated_spec("hadamard-histogram", users, symbols - 1, epsilon)
    )
    p = 1 - float(spec.blanket) / 2
    return math.sqrt(holders * p * (1 - p) + (users - holders) / 4) / (p - 0.5)


def _draw_n12(result: Results) -> Figure:
    figure, axes = drawing.panels(1, len(_HELD), width=12, height=5.2, sharey=True)
    for panel, of in zip(axes[0], _HELD, strict=True):
        rows = [row for row in result.rows if row.settings["of"] == of]
        for index, name in enumerate(dict.fromkeys(row.series for row in rows)):
            drawing.line(panel, rows, name, **drawing.series_style(index))
        panel.set_title(of, fontsize=10)
        panel.set_xlabel("symbols k")
        logarithmic(panel)
    axes[0, 0].set_ylabel(_COUNT)
    settings = result.rows[0].settings
    figure.suptitle(
        f"Histograms at certified ε = {settings['ε']:g}, δ = {DELTA:g}, n = {settings['n']:,}"
    )
    drawing.legend_below(figure, columns=3)
    return figure


N12: Final = Experiment(
    id="n12", source="new", question="Which histogram errs least, by the number of its bins?",
    parameters={"n": 10_000, "ε": 1.0, "k": (2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
    10_000)},
    quick={"k": (2, 10, 1000)},
    run=_run_n12, draw=_draw_n12, seconds=22, seconds_quick=4.6,
)  # fmt: skip


def _run_n6(work: RunInputs) -> Results:
    rows: list[Row] = []
    users, epsilon = work["n"], work["ε"]
    settings = {"n": users, "ε": epsilon}
    for largest in work["k"]:
        for name, (messages, size) in traffic(users, largest, epsilon).items():
            rows += [
                Row(
                    f"{name}: {quantity}",
                    Kind.EXACT,
                    "k",
                    largest,
                    quantity,
                    float(value),
                    settings=settings,
                )
                for quantity, value in (("messages", messages), ("bytes", size))
            ]
    split = {row.x: row.y for row in rows if row.series == "split-mix: messages"}
    unary = {row.x: row.y for row in rows if row.series == "rr-shuffle: messages"}
    fewer = [largest for largest in work["k"] if split[largest] < unary[largest]]
    words = f"from k = {fewer[0]} on" if fewer else "nowhere here"
    notes = [
        f"split-mix sends fewer messages than a bit for each unit {words}; more users make it "
        "cheaper still: "
        + ", ".join(_pieces(n, work["k"][-1], epsilon) for n in (10**3, 10**4, 10**5, 10**6)),
        "all of the time goes into onions, so it follows the messages",
    ]
    return Results(tuple(rows), notes=tuple(notes))


def _pieces(users: int, largest: int, epsilon: float) -> str:
    certified, printed = pieces(users, largest, epsilon)
    return f"{certified} at n = {users:,} (by the formula of Balle et al. 2020: {printed})"


def _draw_n6(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 2, width=11, height=4.8)
    names = list(dict.fromkeys(row.series.split(":")[0] for row in result.rows))
    for panel, quantity in zip(axes[0], ("messages", "bytes"), strict=True):
        for name in names:
            drawing.line(
                panel,
                result,
                f"{name}: {quantity}",
                label=name,
                **drawing.series_style(names.index(name)),
            )
        panel.set_xlabel("largest value k")
        panel.set_ylabel(f"{quantity} per user")
        logarithmic(panel)
    settings = result.rows[0].settings
    figure.suptitle(
        f"A sum of 0..k at certified ε = {settings['ε']:g}, δ = {DELTA:g}, n = {settings['n']:,}"
    )
    drawing.legend_below(figure)
    return figure


N6: Final = Experiment(
    id="n6", source="new", question="From which k on do summands modulo q beat bits?",
    parameters={"n": 10_000, "ε": 1.0, "k": (1, 3, 10, 30, 100, 300, 1000)},
    quick={"k": (1, 100)},
    run=_run_n6, draw=_draw_n6, seconds=8, seconds_quick=2.5,
)  # fmt: skip
