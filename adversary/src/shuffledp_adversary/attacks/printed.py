"""Published parameters, tested against the guarantees that are printed for them.

*What the adversary knows.* The shuffled messages and all other users' values: exactly the adversary
of the definition of differential privacy, who asks of one user which of two values it holds. No
node is corrupt, no user colludes.

*What it does.* It runs the mechanism many times on both datasets, as anyone can: the mechanism is
public. On half of the runs it picks the event that tells the datasets apart best, on the other half
it counts how often that happens. If P(event) > e^ε P'(event) + δ, the printed (ε, δ) is false,
whatever its proof says; the exact intervals of Clopper and Pearson say how sure that is.

*Why it works.* Each of these statements has a slip in its proof (docs/accounting.md, K8 and S10 to
S13). Of Athanasiou et al. 2025:
* Lemma C.1 takes the mean b q of a negative binomial for b (1-q)/q, so that the padding is far too
  small: a large value is clamped to k + c while the sum of the others hardly varies.
* Theorem 5.1 passes from noise to clamped noise as if a bounded range cost nothing beyond δ. It
  does, even with a padding that satisfies its condition, P(someone is clamped) <= δ: no report
  exceeds k + c, so that a sum beyond it takes the noise of two users where the changed user holds
  0, and of one where it holds k.
* Theorem 4.1 evaluates its maximum over distances at d = 1, which for δ > 0 is the best case.
* Theorem 3.1 lets a count of bits move by d within an interval that holds it only before it moved:
  for a large d it leaves the interval, and the guarantee with it.
* Theorem 7.1 treats one user's bits as shuffled, but a unary code is ordered: from value 0 to 1 one
  known bit changes, and its own randomisation is all that hides it. (Our client sends its ones
  first, so that a node sees their number only; ε_L does not count on that.)

Of Biswas et al. 2023:
* Theorem 1 loses a binomial factor; the printed δ of a histogram is orders of magnitude too small
  even for a look at a single bin.

*What stops it.* Parameters from an accountant that computes the exact law of what runs, clamping
and distance included. The same sampler with those parameters, or the same parameters with that
accountant's ε, stands the same attack.

*What cannot be sampled.* Theorems 3.1 and 4.1 first fail where the total ε is 8 nats or more, often
hundreds: to refute them by counting takes more rounds than there is time for. And Theorem 1 is
counted for 20 users; the row of the papers' own table takes 400,000 rounds of 100 users on each
dataset. There the exact law of what runs stands in: these findings have no trials, and say so.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

import typer

from shuffledp.commands.options import parse_integer
from shuffledp.commands.questions import krr_histogram
from shuffledp_adversary.attacks.attack import CONFIDENCE, Attack
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import check_trials, epsilon_finding
from shuffledp_adversary.audit.sampling import Dataset, shuffled_counts
from shuffledp_adversary.audit.trials import TrialProgress
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, epsilon_bound
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, Mechanism, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Bounds, Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.calibration.padding import sgdl_padding, unnoticed_geo_padding
from shuffledp_privacy.histogram.published import corrected_marginal, published_theorem_1
from shuffledp_privacy.sums import geo, rr, sgdl
from shuffledp_privacy.sums.clamping import sgdl_any_clamped
from shuffledp_sim.users.sealing import Progress, sealing_pool

TRIALS: Final = 5000
"""Rounds on each dataset of the largest scenarios: 8.6 million reports are drawn in all."""

FEWEST: Final = 100
"""Fewest trials of the largest scenarios: below it nothing is refuted."""

LESSON: Final = (
    "Six published statements are refuted, four by counting alone. The same mechanisms with "
    "parameters from an exact accountant withstand the same attack: a proof on paper is no "
    "substitute for computing what really runs."
)


@dataclass(frozen=True, slots=True)
class _CaseClaim:
    """A claim about a case; `defended` is True for the accountant's claim."""

    claim: ClaimedLimit
    defended: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """An experiment, with the claims that it tests.

    `symbol`: the symbol whose count the adversary uses. `unit`: the distance by which ε is divided.
    """

    scenario: str
    spec: Mechanism
    datasets: tuple[Dataset, Dataset]
    delta: float
    claims: tuple[_CaseClaim, ...]
    trials: int
    unit: int = 1
    symbol: int = 1

    @property
    def reports(self) -> int:
        """Number of sampler calls on both datasets together, which determines the run time."""
        return self.trials * sum(len(values) for values in self.datasets)


def run_printed(*, trials: int = TRIALS, confidence: float = DEFAULT_CONFIDENCE) -> AttackReport:
    """Test every false published statement, and the accountant's claims, against the real sampler.

    Args:
        trials: rounds on each dataset for the largest scenarios, at least 100; the small ones take
            ten times as many.
        confidence: probability that a true claim is not reported as broken, for each finding.

    Raises:
        UsageError: trials or confidence out of range.
    """
    check_trials(trials, confidence, FEWEST)
    began = time.perf_counter()
    cases = [
        *_lemma_c1(trials),
        *_theorem_51(10 * trials),
        _theorem_1(10 * trials),
        _theorem_71(10 * trials),
    ]
    cases.append(_theorem_41_ours(trials))
    findings, done, total = [], 0, sum(case.reports for case in cases)
    with TrialProgress() as shown, sealing_pool() as pool:
        for case in cases:
            users = len(case.datasets[0])

            def report_progress(
                trials: int, _: int, before: int = done, users: int = users
            ) -> None:
                shown.update("reports drawn", before + trials * users, total)

            findings += _measure(case, confidence, pool, report_progress)
            done += case.reports
    findings[-1:-1] = [_theorem_1_of_the_tables(), _theorem_31(), _theorem_41()]
    return AttackReport("printed", LESSON, tuple(findings), time.perf_counter() - began)


def _measure(
    case: _Case, confidence: float, pool: ProcessPoolExecutor, progress: Progress
) -> list[Finding]:
    first, second = shuffled_counts(case.spec, case.datasets, case.trials, pool, progress=progress)
    bound = epsilon_bound(first[:, case.symbol], second[:, case.symbol], case.delta, confidence)
    return [
        epsilon_finding(
            case.scenario,
            bound,
            claimed.claim,
            defended=claimed.defended,
            unit=case.unit,
            note=claimed.note,
        )
        for claimed in case.claims
    ]


def _zeros_but(users: int, value: int) -> Dataset:
    return (value, *(0,) * (users - 1))


def _metric(users: int, distance: int) -> Setting:
    return Setting(users, users, Adjacency.METRIC, distance)


def _share_case(
    words: str, spec: SGDLShuffle, delta: float, trials: int, printed: str | None
) -> _Case:
    """Case in which one user changes from 0 to k.

    `printed` is the source of the claim ε = noise_epsilon, or None.
    """
    users, distance = spec.shares, spec.max_value
    exact = epsilon_bounds(spec, _metric(users, distance), delta)
    claim = ClaimedLimit(printed, float(spec.noise_epsilon)) if printed else _ours(exact)
    return _Case(
        scenario=f"sgdl-shuffle, {words} c = {spec.padding}; n = {users}, k = d = {distance}",
        spec=spec,
        datasets=(_zeros_but(users, 0), _zeros_but(users, distance)),
        delta=delta,
        claims=(_CaseClaim(claim, printed is None, _exactly(exact)),),
        trials=trials,
        unit=distance,
    )


def _ours(exact: Bounds) -> ClaimedLimit:
    return ClaimedLimit("the accountant's certified ε", exact.certified)


def _exactly(exact: Bounds) -> str:
    return f"exact on this dataset: {exact.attained:.4g}"


def _lemma_c1(trials: int) -> list[_Case]:
    users, epsilon, delta, largest = 100, Fraction(1, 10), 1e-4, 20
    short = sgdl.published_padding(epsilon, users, delta)
    sound = sgdl_padding(epsilon, users, largest, _metric(users, largest), delta)
    printed, ours = (
        SGDLShuffle(max_value=largest, noise_epsilon=epsilon, shares=users, padding=padding)
        for padding in (short, sound)
    )
    return [
        _share_case(
            "padding of Lemma C.1,", printed, delta, trials, "Athanasiou et al. 2025, Theorem 5.1"
        ),
        _share_case("padding of the accountant,", ours, delta, trials, None),
    ]


def _theorem_51(trials: int) -> list[_Case]:
    users, epsilon, delta, largest = 20, Fraction(1, 2), 0.3, 8
    condition = next(c for c in range(1000) if sgdl_any_clamped(epsilon, users, c, users) <= delta)
    sound = sgdl_padding(epsilon, users, largest, _metric(users, largest), delta)
    printed, ours = (
        SGDLShuffle(max_value=largest, noise_epsilon=epsilon, shares=users, padding=padding)
        for padding in (condition, sound)
    )
    return [
        _share_case(
            "least padding with P(clamped) ≤ δ,",
            printed,
            delta,
            trials,
            "Athanasiou et al. 2025, Theorem 5.1",
        ),
        _share_case("padding of the accountant,", ours, delta, trials, None),
    ]


def _theorem_1(trials: int) -> _Case:
    """Case of x0's bin: one user holds x0 or not, 0.8 n others hold x0, as in the tables."""
    users, symbols, epsilon0, epsilon = 20, 10, 3.0, 0.1
    at_x0 = 4 * users // 5
    spec, _ = krr_histogram(symbols, epsilon0)
    delta = published_theorem_1(users, at_x0, symbols, epsilon0, epsilon)
    rest = (0,) * at_x0 + (2,) * (users - 1 - at_x0)
    return _Case(
        scenario=f"krr-histogram, n = {users}, k = {symbols}, ε0 = {epsilon0:g}, {at_x0} others "
        f"at x0; its bin alone",
        spec=spec,
        datasets=((0, *rest), (1, *rest)),
        delta=delta,
        claims=(
            _CaseClaim(
                ClaimedLimit("Biswas et al. 2023, Theorem 1", epsilon),
                defended=False,
                note=f"δ = {delta:.3g} is printed",
            ),
            _CaseClaim(
                _ours(epsilon_bounds(spec, Setting(users, users), delta)),
                defended=True,
                note="at the same δ",
            ),
        ),
        trials=trials,
        symbol=0,
    )


def _theorem_71(trials: int) -> _Case:
    """Case of the single bit in which the codes of two neighbouring values differ.

    The codes agree in all other bits.
    """
    largest, randomise, delta = 1000, Fraction(393, 1000), 1e-2
    # Theorem 7.1 is Theorem 3.1 with the bits of one user in the place of the bits of all.
    spec = RRShuffle(max_value=largest, randomise=randomise)
    printed = _printed_claim(
        f"Athanasiou et al. 2025, Theorem 7.1 with k = {largest}",
        rr.published_epsilon(spec, 1, delta),
    )
    bit = RRShuffle(max_value=1, randomise=randomise)
    left = corrupted_bounds(bit, Setting(1, 1), delta)
    return _Case(
        scenario=f"rr-shuffle, every node corrupt, p = {float(randomise):g}, bits in order; the "
        f"bit that changes",
        spec=bit,
        datasets=((0,), (1,)),
        delta=delta,
        claims=(
            _CaseClaim(printed, defended=False),
            _CaseClaim(
                ClaimedLimit("the accountant's ε_L", left.epsilon),
                defended=True,
                note="ln((2-p)/p), for every k",
            ),
        ),
        trials=trials,
    )


def _theorem_1_of_the_tables() -> Finding:
    """Finding for one row of the papers' tables: δ of x0's bin, printed and exact.

    The row is n = 100, k = 10, ε0 = 2, ε = .1.
    """
    users, symbols, epsilon0, epsilon = 100, 10, 2.0, 0.1
    at_x0 = 4 * users // 5
    row = (users, at_x0, symbols, epsilon0, epsilon)
    return _computed_finding(
        f"krr-histogram, n = {users}, k = {symbols}, ε0 = {epsilon0:g}, {at_x0} others at x0; its "
        "bin alone",
        f"δ at ε = {epsilon:g}",
        ClaimedLimit("Biswas et al. 2023, Theorem 1", published_theorem_1(*row)),
        corrected_marginal(*row),
    )


def _theorem_31() -> Finding:
    """Finding for the example of docs/accounting.md, S11.

    All others hold 0, and one user changes by up to 1000.
    """
    users, delta, distance = 23, 1e-4, 1000
    spec = RRShuffle(max_value=distance, randomise=Fraction(36, 541))
    exact = epsilon_bounds(spec, _metric(users, distance), delta)
    return _computed_finding(
        f"rr-shuffle, p = {spec.randomise}, n = {users}, k = {distance}",
        f"ε per unit at δ = {delta:g} (nats)",
        _printed_claim(
            "Athanasiou et al. 2025, Theorem 3.1", rr.published_epsilon(spec, users, delta)
        ),
        exact.attained,
    )


_GEO: Final = (50, Fraction(1), 0.1, 50)
"""Users, ε_geo, δ and distance at which Theorem 4.1 is tested."""


def _theorem_41() -> Finding:
    users, epsilon, delta, distance = _GEO
    padding = geo.published_padding(epsilon, users, delta)
    spec = GeoShuffle(max_value=distance, epsilon_geo=epsilon, padding=padding)
    exact = epsilon_bounds(spec, _metric(users, distance), delta)
    return _computed_finding(
        f"geo-shuffle, printed padding c = {padding}; n = {users}, ε_geo = {float(epsilon):g}, k "
        f"= d = {distance}",
        f"ε per unit at δ = {delta:g} (nats)",
        _printed_claim(
            "Athanasiou et al. 2025, Theorem 4.1", geo.published_epsilon(epsilon, users, delta)
        ),
        exact.attained,
    )


def _theorem_41_ours(trials: int) -> _Case:
    users, epsilon, delta, distance = _GEO
    padding = unnoticed_geo_padding(epsilon, distance, _metric(users, distance), delta)
    spec = GeoShuffle(max_value=distance, epsilon_geo=epsilon, padding=padding)
    ours = epsilon_bounds(spec, _metric(users, distance), delta)
    return _Case(
        scenario=f"geo-shuffle, padding of the accountant, c = {padding}; n = {users}, "
        f"ε_geo = {float(epsilon):g}, k = d = {distance}",
        spec=spec,
        datasets=(_zeros_but(users, 0), _zeros_but(users, distance)),
        delta=delta,
        claims=(_CaseClaim(_ours(ours), defended=True, note=_exactly(ours)),),
        trials=trials,
        unit=distance,
    )


def _computed_finding(
    scenario: str, quantity: str, claim: ClaimedLimit, at_least: float
) -> Finding:
    """Finding on a printed statement by an exact law, if counting would take too long."""
    note = "at least so much, by the exact law; too rare to be counted here"
    return Finding(
        scenario, quantity, claim, at_least, at_least, at_least, 0, defended=False, note=note
    )


def _printed_claim(source: str, epsilon: float | None) -> ClaimedLimit:
    """Claim of a theorem as printed. Raises `ValueError` outside its conditions."""
    if epsilon is None:
        raise ValueError(
            f"these parameters do not meet the conditions of {source}, so it claims nothing"
        )
    return ClaimedLimit(source, epsilon)


def _run_options(
    *, trials: int | None = None, quick: bool = False, confidence: float = DEFAULT_CONFIDENCE
) -> AttackReport:
    if quick and trials is not None:
        raise UsageError("--quick chooses the trials itself; leave out --trials")
    default = TRIALS // 10 if quick else TRIALS
    return run_printed(trials=default if trials is None else trials, confidence=confidence)


ATTACK: Final = Attack(
    name="printed",
    summary="Test published parameters against the guarantee printed with them.",
    run=_run_options,
    options={
        "trials": Annotated[
            int | None,
            typer.Option(
                parser=parse_integer,
                metavar="INTEGER",
                help="Rounds on each dataset of the largest scenarios, ten times that on the "
                "small ones; "
                f"default: {TRIALS:,}.",
            ),
        ],
        "quick": Annotated[
            bool, typer.Option("--quick", help=f"A tenth of the trials: {TRIALS // 10}.")
        ],
        "confidence": CONFIDENCE,
    },
)
