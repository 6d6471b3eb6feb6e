"""Compare noise of nodes with dummies of users: errors, tightness and certificates."""

from __future__ import annotations

import time
from collections.abc import Callable

from shuffledp_core.bounds import blanketed, bounded_noise, node_noise
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_privacy.bounds import Setting, epsilon_bounds, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.mechanisms import dummies

DELTA = 1e-6

NODES = 3


def _tightness(spec: Mechanism, setting: Setting) -> str:
    bounds = epsilon_bounds(spec, setting, DELTA)
    return f"certified/attained {bounds.certified / bounds.attained:.6f}"


def histograms() -> None:
    """Print the error of a count, at most 7 for users' dummies, 2.80 and 4.85 for nodes'."""
    for people in (1000, 10_000, 10**6):
        for symbols in (21, 1000, 10_000):
            target = Target(1.0, DELTA, people, people, symbols=symbols)
            where = f"{people:,} people, {symbols:,} symbols"
            try:
                spec = calibrate("dummy-histogram", target)
            except CannotCertify as refusal:
                print(f"  {where}: {refusal}")
            else:
                print(
                    f"  {where}: users' dummies ± {standard_error(spec, people):.2f} (wanted at "
                    f"most 7), {spec.messages_per_user} messages, "
                    f"{_tightness(spec, target.setting)}"
                )
            spec = calibrate("node-histogram", target)
            one_node = standard_error(spec, people)
            print(
                f"  {where}: nodes' dummies ± {one_node:.2f} of one node, "
                f"{standard_error(spec, people, NODES):.2f} of {NODES} (wanted 2.80 and 4.85), "
                f"{spec.dummies_per_node:,} dummies a node, {_tightness(spec, target.setting)}"
            )


def local_limits() -> None:
    """Print the cost of a finite ε with every node corrupt, at 10,000 people and 21 symbols."""
    for limit in (4.0, 6.0, 8.0):
        target = Target(1.0, DELTA, 10_000, 10_000, symbols=21, epsilon_local=limit)
        errors = {
            kind: standard_error(calibrate(kind, target), 10_000, NODES)
            for kind in ("krr-histogram", "dummy-histogram", "node-histogram")
        }
        print(
            f"  ε_L <= {limit:g}, at worst: "
            + ", ".join(f"{kind} ± {error:.2f}" for kind, error in errors.items())
        )


def sums() -> None:
    """Print the error and messages of a sum of 0..20 with noise of nodes."""
    target = Target(1.0, DELTA, 10_000, 10_000, max_value=20)
    spec = calibrate("node-sum", target)
    print(
        f"  sum of 0..20: nodes' dummies ± {standard_error(spec, 10_000):.1f} of one node, "
        f"{standard_error(spec, 10_000, NODES):.1f} of {NODES} (wanted at most 28.3 and 49), "
        f"{spec.messages_per_user} messages (wanted 20), {_tightness(spec, target.setting)}"
    )


def certificates() -> None:
    """Print the time of a certificate for 1e9 people and 100,000 symbols, at most 1 s."""
    target = Target(1.0, DELTA, 10**9, 10**9, symbols=100_000)
    limited = Target(1.0, DELTA, 10**9, 10**9, symbols=100_000, epsilon_local=14.0)
    cases: tuple[tuple[str, Target, str], ...] = (
        ("users' dummies", target, "dummy-histogram"),
        ("nodes' dummies", target, "node-histogram"),
        ("users' dummies, ε_L <= 14", limited, "dummy-histogram"),
        ("nodes' dummies, ε_L <= 14", limited, "node-histogram"),
    )
    for words, goal, kind in cases:
        spec = calibrate(kind, goal)
        used = _processor_seconds(lambda spec=spec, goal=goal: _tightness(spec, goal.setting))  # type: ignore[misc]
        print(
            f"  certificate for 1e9 people, 1e5 symbols, {words}: {used:.2f} s (wanted at most 1)"
        )


def _processor_seconds(work: Callable[[], object]) -> float:
    """Processor seconds of `work`, with its tables computed anew."""
    for module in (blanketed, bounded_noise, dummies, node_noise):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
    began = time.process_time()
    work()
    return time.process_time() - began


def run() -> None:
    """Run all comparisons of this module."""
    histograms()
    local_limits()
    sums()
    certificates()
