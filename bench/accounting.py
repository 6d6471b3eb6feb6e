"""Benchmarks of the accountant: certificates, composition, advice and the cold command."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import (
    MECHANISMS,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    OneBitShuffle,
    QuantisedRR,
    RRShuffle,
    SGDLShuffle,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, certified_curve, epsilon_bounds
from shuffledp_privacy.calibration.advice import advise
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "privacy"))
from plain_reference import blanket_delta, clones_delta

DELTA = 1e-6


def _krr(symbols: int) -> KRRHistogram:
    return KRRHistogram(symbols=symbols, blanket=epsilon0_to_blanket(1.0, symbols))


def _seconds(work: Callable[[], object], times: int = 3) -> float:
    """Median wall-clock seconds of `work`, with this project's caches cleared before every run."""
    spent = []
    for _ in range(times):
        _forget()
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(("shuffledp_core", "shuffledp_privacy")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def certificates() -> None:
    """Print the seconds for both bounds of ε of each mechanism, for 10 to 10^9 honest users."""
    print("  seconds for certified and attained ε at δ = 1e-6 (wanted at most 1; one core)")
    print("  honest users              10      1e4      1e6      1e9")
    kinds: dict[str, Callable[[int], object]] = {
        "local (clones)": lambda h: epsilon_bounds(LocalRandomiser(1.0), Setting(h, h), DELTA),
        "2-RR": lambda h: epsilon_bounds(_krr(2), Setting(h, h), DELTA),
        "10-RR": lambda h: epsilon_bounds(_krr(10), Setting(h, h), DELTA),
        "100-RR": lambda h: epsilon_bounds(_krr(100), Setting(h, h), DELTA),
        "Hadamard k=1000": lambda h: epsilon_bounds(
            HadamardHistogram(symbols=1000, blanket=Fraction(1, 2)), Setting(h, h), DELTA
        ),
        "one bit k=20 metric": lambda h: epsilon_bounds(
            OneBitShuffle(max_value=20, randomise=Fraction(1, 2)),
            Setting(h, h, Adjacency.METRIC),
            DELTA,
        ),
        "quantised RR k=1000": lambda h: epsilon_bounds(
            QuantisedRR(max_value=1000, bits=12, randomise=Fraction(1, 10)), Setting(h, h), DELTA
        ),
        "quantised RR metric": lambda h: epsilon_bounds(
            QuantisedRR(max_value=1000, bits=12, randomise=Fraction(1, 10)),
            Setting(h, h, Adjacency.METRIC),
            DELTA,
        ),
        "RR k=20 metric": lambda h: epsilon_bounds(
            RRShuffle(max_value=20, randomise=Fraction(1, 10)),
            Setting(h, h, Adjacency.METRIC),
            DELTA,
        ),
        "Geo k=20": lambda h: epsilon_bounds(
            GeoShuffle(max_value=20, epsilon_geo=Fraction(1, 2), padding=90), Setting(h, h), DELTA
        ),
        "SGDL k=20": lambda h: epsilon_bounds(
            SGDLShuffle(max_value=20, noise_epsilon=Fraction(1, 20), shares=h, padding=400),
            Setting(h, h),
            DELTA,
        ),
    }
    for name, work in kinds.items():
        row = [_seconds(lambda work=work, h=h: work(h)) for h in (10, 10**4, 10**6, 10**9)]  # type: ignore[misc]
        print(f"  {name:<20}" + "".join(f"{value:9.3f}" for value in row))


def against_the_plain_formula() -> None:
    """Print the time of one δ by plain summation, relative to certified and attained ε."""
    honest = 10**4
    setting = Setting(honest, honest)
    for name, plain, ours in (
        (
            "10-RR",
            lambda: blanket_delta(10, 1.0, honest, 0.02),
            lambda: epsilon_bounds(_krr(10), setting, DELTA),
        ),
        (
            "clones",
            lambda: clones_delta(1.0, honest, 0.05),
            lambda: epsilon_bounds(LocalRandomiser(1.0), setting, DELTA),
        ),
    ):
        ratio = _seconds(plain, 1) / _seconds(ours)
        print(
            f"  {name}, h = 1e4: one plain δ takes {ratio:.1f} times as long as a whole ε from "
            "both sides"
        )


def against_small_rounds() -> None:
    """Print the cost of a billion honest users relative to 10,000, and of calibration and advice.

    The latter two are relative to one certificate.
    """
    for name, work in (
        ("10-RR", lambda h: epsilon_bounds(_krr(10), Setting(h, h), DELTA)),
        ("clones", lambda h: epsilon_bounds(LocalRandomiser(1.0), Setting(h, h), DELTA)),
    ):
        ratio = _seconds(partial(work, 10**9)) / _seconds(partial(work, 10**4))
        print(f"  {name}: a certificate for 1e9 honest users takes {ratio:.1f} times one for 1e4")
    target = Target(epsilon=1.0, delta=DELTA, users=2000, honest=1800, max_value=20)
    shares, total = {}, 0.0
    for kind in MECHANISMS:
        spec = calibrate(kind, target)
        single = _seconds(partial(epsilon_bounds, spec, target.setting, DELTA))
        searched = _seconds(partial(calibrate, kind, target))
        shares[kind] = searched / single
        total = total + searched
    print(
        "  calibrate / one certificate: "
        + ", ".join(f"{kind} {share:.1f}" for kind, share in shares.items())
    )
    print(f"  advise / all calibrations: {_seconds(lambda: advise(target, 3)) / total:.2f}")


def composition() -> None:
    """Print the time to compose 1,000 rounds, with and without their curve, and dp-accounting's.

    dp-accounting composes its own Gaussian mechanism.
    """
    from dp_accounting.pld import privacy_loss_distribution

    spec = _krr(10)
    setting = Setting(10**4, 10**4)
    curves = dict[bytes, NDArray[np.float64]]()

    def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        key = epsilons.tobytes()
        if key not in curves:
            curves[key] = certified_curve(spec, setting, 1, epsilons)
        return curves[key]

    def compose() -> float:
        return compose_curves([Repeated(curve, 1000)], DELTA).epsilon(DELTA)

    began = time.perf_counter()
    compose()
    total = time.perf_counter() - began
    after = _seconds(compose)
    peer = _seconds(
        lambda: (
            privacy_loss_distribution.from_gaussian_mechanism(
                math.sqrt(1000.0) * 5, use_connect_dots=True
            )
            .self_compose(1000)
            .get_epsilon_for_delta(DELTA)
        )
    )
    print(
        f"  10-RR, h = 1e4, 1,000 rounds: {total:.3f} s with the curve, {after:.4f} s after it "
        "(wanted at most 0.05 s)"
    )
    small = _seconds(lambda: compose_curves([Repeated(curve, 1000)], 1e-12).epsilon(1e-12), 5)
    longer = _seconds(lambda: compose_curves([Repeated(curve, 10**5)], DELTA).epsilon(DELTA), 5)
    print(
        f"  the same at δ = 1e-12 / at 1e-6: {small / after:.2f}; 100,000 rounds / 1,000: "
        f"{longer / after:.1f}"
    )
    print(
        f"  dp-accounting's Gaussian, 1,000 rounds: {peer:.4f} s, {peer / after:.1f} times ours "
        "after the curve"
    )


def commands() -> None:
    """Print the time of a command from a cold start, and of `advise`."""
    target = Target(epsilon=1.0, delta=DELTA, users=2000, honest=1800, max_value=20)
    print(f"  advise: {_seconds(lambda: advise(target, 3)):.2f} s (wanted at most 3 s)")
    line = (
        "certify krr-histogram --users 10000 --symbols 10 --epsilon0 1 --delta 1e-6 --format json"
    )
    command = [sys.executable, "-m", "shuffledp.cli", *line.split()]

    def cold() -> None:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command

    print(f"  cold `shuffledp {line}`: {_seconds(cold, 5):.2f} s (wanted at most 0.6 s)")


def run() -> None:
    """Run all benchmarks of this module."""
    certificates()
    against_the_plain_formula()
    against_small_rounds()
    composition()
    commands()
