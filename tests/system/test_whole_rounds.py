"""Whole rounds over real processes: every mechanism, every suite, both adjacencies."""

import math
from concurrent.futures import ProcessPoolExecutor

from rounds_for_tests import LARGEST, USERS, small_round

from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.onion.suites import SUITES
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.rounds import wording
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_sim.system.processes import LocalSystem

TAIL_ERRORS = {
    "bloom-rappor": 9.0,
    "dummy-histogram": 9.0,
    "krr-histogram": 9.0,
    "hadamard-histogram": 9.0,
    "rappor-histogram": 9.0,
    "one-bit-mean": 7.0,
    "quantised-rr": 7.0,
    "rr-shuffle": 7.0,
    "geo-shuffle": 8.0,
}
"""Standard errors beyond which an estimate falls with probability below 1e-9 (per test, union over
bins): binomial
and near-normal tails."""

LONG_TAIL = 16.0
"""The same for any mechanism whose tails are at least exponential: exp(-sqrt(2) t), as of SGDL's
one discrete Laplace
noise."""


def check(report: RoundReport) -> None:
    assert report.accepted == USERS
    mechanism = report.final.mechanism
    dummies = report.final.nodes * mechanism.dummies_per_node
    assert report.messages == USERS * mechanism.messages_per_user + dummies
    assert report.final.stage == "final"
    assert report.final.holds
    assert report.final.epsilon.certified is not None
    assert report.final.epsilon.attained is not None
    assert 0 <= report.final.epsilon.attained <= report.final.epsilon.certified <= 4.0
    in_the_open = mechanism.kind == "dummy-histogram" or not mechanism.needs_crowd
    assert (report.final.corrupted.epsilon is None) == in_the_open
    limit = TAIL_ERRORS.get(report.final.mechanism.kind, LONG_TAIL)
    assert report.truth is not None
    for value, error, true in zip(
        report.estimate.values, report.estimate.standard_errors, report.truth.tolist(), strict=True
    ):
        assert math.isfinite(value)
        assert abs(value - true) <= limit * max(error, 1.0)
    if not mechanism.needs_crowd:
        noise, shift = wording.noise_of_nodes(report)
        assert f"{report.final.nodes} nodes added {mechanism.dummies_per_node} dummies" in noise
        assert f"by at most {mechanism.dummies_per_node}, and can weaken no one's privacy" in shift
        assert "no honest people needed" in " ".join(wording.honest(report.final))
    else:
        assert wording.noise_of_nodes(report) == ()


async def test_every_mechanism_gives_a_certified_answer_near_the_truth(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    for kind, spec in MECHANISMS.items():
        # Nodes' noise has ends, which use up delta in full; the rounds share one budget.
        delta = 1e-3 if spec.needs_crowd else 1e-6
        size = spec.size_for(LARGEST)
        check(await small_round(system, pool, mechanism=kind, size=size, delta=delta))


async def test_every_suite_carries_a_round(system: LocalSystem, pool: ProcessPoolExecutor) -> None:
    for suite in SUITES:
        report = await small_round(system, pool, suite=suite)
        assert report.suite == suite
        check(report)


async def test_a_metric_guarantee_is_per_unit(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    report = await small_round(
        system, pool, adjacency=Adjacency.METRIC, max_distance=2, epsilon=3.0
    )
    check(report)
    assert report.final.adjacency is Adjacency.METRIC
    assert report.final.max_distance == 2


async def test_a_route_may_leave_nodes_out(system: LocalSystem, pool: ProcessPoolExecutor) -> None:
    report = await small_round(system, pool, route=("node-3", "node-1"))
    assert report.final.nodes == 2
    check(report)
