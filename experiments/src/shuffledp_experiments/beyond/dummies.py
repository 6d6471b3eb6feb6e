"""Histograms among dummies: published formulas, certified numbers, and hashing (n17)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA, logarithmic
from shuffledp_experiments.beyond.plans import calibrated_spec, central_error, dummies, krr
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERROR: Final = "standard error of a count (users)"
_MESSAGES: Final = "messages of all parties, per user"
_NODES: Final = 3
_ALPHA: Final = 1 / 6
"""α of sampling with which Nebula samples a tenth of all people at ε = 1."""

_CERTIFIED: Final = "dummy-histogram"
_HASHED: Final = "dummies of hashed symbols"
_BY_NODES: Final = "node-histogram, 3 nodes"
_CENTRAL: Final = "discrete Laplace, central"


class _Cost(NamedTuple):
    """Standard error of one count in users, and number of messages per user."""

    error: float
    messages: float


def dummies_of_luo(epsilon: float, delta: float) -> float:
    """Dummies per symbol by the formula of Luo, Wang and Yi 2022: 32 ln(2/δ)/ε²."""
    return 32 * math.log(2 / delta) / epsilon**2


def dummies_of_luo_program(users: int, epsilon: float, delta: float) -> float:
    """Dummies per symbol by the program of Luo, Wang and Yi 2022 (hkustDB/SDPFE).

    The least mean, up to 0.1, at which two independent binomial counts X and Y of dummies have
    Pr[X + 1 >= e^ε Y] <= δ.
    """
    from scipy.stats import binom  # here: scipy is slow to import

    largest = dummies_of_luo(epsilon, delta)
    counts = np.arange(min(users, int(largest + 40 * math.sqrt(largest))) + 1)
    beaten_from = np.maximum(np.ceil(math.exp(epsilon) * counts - 1), 0)
    low, high = 0.0, largest
    while high - low > 0.1:
        mean = (low + high) / 2
        law = binom(users, mean / users)
        if law.pmf(counts) @ law.sf(beaten_from - 1) <= delta:
            high = mean
        else:
            low = mean
    return high


def dummies_of_balcer(epsilon: float, delta: float) -> float:
    """Empty slots per symbol by Balcer and Cheu 2020: 50 ln(2/δ)/ε² for one bit.

    A value changes two bits, so that each has half of ε and δ.
    """
    return 50 * math.log(4 / delta) / (epsilon / 2) ** 2


def buckets_of_luo(users: int) -> int:
    """Number of hash cells with the least error: n/ln n."""
    return max(2, int(users / math.log(users)))


def _among_dummies(users: int, symbols: int, epsilon: float) -> _Cost:
    spec = dummies(users, symbols, epsilon)
    return _Cost(standard_error(spec, users), spec.messages_per_user)


def _luo(users: int, symbols: int, epsilon: float) -> _Cost:
    return _cost_of_dummies(dummies_of_luo(epsilon, DELTA), users, symbols)


def _luo_program(users: int, symbols: int, epsilon: float) -> _Cost:
    mean = dummies_of_luo_program(users, epsilon, DELTA)
    return _cost_of_dummies(mean, users, symbols)


def _cost_of_dummies(mean: float, users: int, symbols: int) -> _Cost:
    return _Cost(math.sqrt(mean), 1 + math.ceil(mean * symbols / users))


def _balcer(users: int, symbols: int, epsilon: float) -> _Cost:
    """Cost of the protocol of Balcer and Cheu: one slot per user and symbol, few of them empty."""
    empty = min(dummies_of_balcer(epsilon, DELTA), float(users))
    error = math.sqrt(empty * (1 - empty / users)) if empty < users else math.nan
    return _Cost(error, 1 + symbols * (1 - empty / users))


def cost_of_hashing(users: int, epsilon: float) -> _Cost:
    """Cost of the second protocol of Luo, Wang and Yi 2022, with certified dummies, for any k.

    Each message has a hash function of its own, drawn by its sender, and a cell of it. As many
    dummies as K15 asks for among that many cells agree with a symbol: those that agree with both of
    two symbols hide a change as well, so that K15 is a bound. A message of another user agrees with
    a symbol with probability 1/cells, which adds to the error.
    """
    cells = buckets_of_luo(users)
    spec = dummies(users, cells, epsilon)
    collisions = users / cells * (1 - 1 / cells)
    noise = math.hypot(standard_error(spec, users), math.sqrt(collisions))
    return _Cost(noise / (1 - 1 / cells), spec.messages_per_user)


def _nodes(users: int, symbols: int, epsilon: float) -> _Cost:
    spec = calibrated_spec("node-histogram", users, symbols - 1, epsilon)
    messages = 1 + _NODES * spec.dummies_per_node / users
    return _Cost(standard_error(spec, users, _NODES), messages)


def _krr(users: int, symbols: int, epsilon: float) -> _Cost:
    return _Cost(standard_error(krr(users, symbols, epsilon), users), 1)


def _hadamard(users: int, symbols: int, epsilon: float) -> _Cost:
    spec = calibrated_spec("hadamard-histogram", users, symbols - 1, epsilon)
    return _Cost(standard_error(spec, users), 1)


def _sample_cost(users: int, symbols: int, epsilon: float) -> _Cost:  # noqa: ARG001
    """Cost of sampling as published for Nebula, if all users hold the symbol.

    The dummies that the revised paper adds are not modelled.
    """
    share = sampled_share(epsilon)
    return _Cost(math.sqrt(users * (1 - share) / share), share)


def sampled_share(epsilon: float) -> float:
    """Probability that a person is sampled: α (1 - e^-ε), by Bharadwaj and Cormode 2022."""
    return -_ALPHA * math.expm1(-epsilon)


def threshold(delta: float) -> int:
    """Least number τ of sampled people at which a symbol is shown: δ = exp(-C τ), same paper."""
    return math.ceil(math.log(1 / delta) / (math.log(1 / _ALPHA) - 1 / (1 + _ALPHA)))


_PLANS: Final[dict[str, tuple[Kind, Callable[[int, int, float], _Cost]]]] = {
    "k-RR": (Kind.CERTIFIED, _krr),
    "hadamard-histogram": (Kind.CERTIFIED, _hadamard),
    "Nebula's sampling, without its dummies": (Kind.PRINTED, _sample_cost),
    "Balcer, Cheu 2020": (Kind.PRINTED, _balcer),
    "Luo, Wang, Yi 2022": (Kind.PRINTED, _luo),
    "Luo, Wang, Yi 2022, their program": (Kind.PRINTED, _luo_program),
    _CERTIFIED: (Kind.CERTIFIED, _among_dummies),
    _HASHED: (Kind.CERTIFIED, lambda users, _, epsilon: cost_of_hashing(users, epsilon)),
    _BY_NODES: (Kind.CERTIFIED, _nodes),
    _CENTRAL: (
        Kind.EXACT,
        lambda _, __, epsilon: _Cost(central_error(epsilon / 2), 1),
    ),
}


def _run_n17(work: RunInputs) -> Results:
    epsilon = work["ε"]
    rows = []
    notes = []
    for users in work["n"]:
        costs = {
            name: {k: plan(users, k, epsilon) for k in work["k"]}
            for name, (_, plan) in _PLANS.items()
        }
        rows += [
            Row(name, _PLANS[name][0], "k", k, quantity, value, settings={"n": users, "ε": epsilon})
            for name, by_symbols in costs.items()
            for k, cost in by_symbols.items()
            for quantity, value in ((_ERROR, cost.error), (_MESSAGES, cost.messages))
        ]
        notes.append(_note_on_hashing(users, costs, work["k"]))
    certified = standard_error(dummies(work["n"][-1], work["k"][0], epsilon), work["n"][-1]) ** 2
    formulas = (
        f"dummies of a symbol: certified {certified:.1f}; Luo, Wang, Yi 2022 "
        f"{dummies_of_luo(epsilon, DELTA):.0f} by their formula and "
        f"{dummies_of_luo_program(work['n'][-1], epsilon, DELTA):.0f} by their program; "
        f"Balcer, Cheu 2020 {dummies_of_balcer(epsilon, DELTA):,.0f} empty slots"
    )
    share = sampled_share(epsilon)
    error = math.sqrt(1000 * (1 - share) / share)
    sampling = (
        f"Nebula without its dummies, as published for one person more or less: {share:.1%} "
        f"are sampled, a count of 1,000 has an error of {error:.0f}, and counts below "
        f"{threshold(DELTA) / share:.0f} are mostly not shown"
    )
    return Results(
        tuple(rows), notes=(formulas, *notes, sampling, f"all at (ε, δ = {DELTA:g}), worst count")
    )


def _note_on_hashing(
    users: int, costs: dict[str, dict[int, _Cost]], symbols: tuple[int, ...]
) -> str:
    """The least k at which hashing sends fewer messages than users' and nodes' dummies."""
    hash_cost = costs[_HASHED][symbols[0]]
    words = []
    for name in (_CERTIFIED, _BY_NODES):
        fewer = [k for k in symbols if hash_cost.messages < costs[name][k].messages]
        words.append(f"{name} from k = {fewer[0]:,} on" if fewer else f"{name} nowhere here")
    last = symbols[-1]
    return (
        f"n = {users:,}: hashing ({hash_cost.messages:g} messages, error {hash_cost.error:.2f}) "
        f"sends fewer messages than {' and '.join(words)}; at k = {last:,} these take "
        f"{costs[_CERTIFIED][last].messages:,.3g} and {costs[_BY_NODES][last].messages:,.3g}, with "
        f"errors of {costs[_CERTIFIED][last].error:.2f} and {costs[_BY_NODES][last].error:.2f}"
    )


def _draw_n17(result: Results) -> Figure:
    sizes = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    figure, axes = drawing.panels(2, len(sizes), width=5.5 * len(sizes), height=8, sharex=True)
    for column, users in enumerate(sizes):
        for panel, quantity in zip(axes[:, column], (_ERROR, _MESSAGES), strict=True):
            rows = [
                row for row in result.rows if row.settings["n"] == users and row.y_name == quantity
            ]
            for index, name in enumerate(_PLANS):
                style = drawing.series_style(index)
                if name == _CENTRAL:
                    style = {"color": "black", "ls": "--"}
                drawing.line(panel, rows, name, **style)
            logarithmic(panel)
            panel.set_ylabel(quantity)
        axes[0, column].set_title(f"n = {users:,}", fontsize=10)
        axes[1, column].set_xlabel("symbols k")
    figure.suptitle(f"Histograms at ε = {result.rows[0].settings['ε']:g}, δ = {DELTA:g}")
    drawing.legend_below(figure, columns=3)
    return figure


N17: Final = Experiment(
    id="n17", source="new", question="How many dummies does a histogram need, as published and as "
                                     "certified, and does hashing the symbols pay?",
    parameters={"n": (10_000, 1_000_000), "ε": 1.0, "k": (10, 100, 1000, 10_000, 100_000)},
    quick={"n": (10_000,), "k": (100, 10_000)},
    run=_run_n17, draw=_draw_n17, seconds=60, seconds_quick=6,
)  # fmt: skip
