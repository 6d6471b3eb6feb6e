"""Accountant and analyst collude: they sign numbers that their own mechanism does not give."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import msgspec
import numpy as np
import pytest
from client_rounds import LENIENT, NOW, POPULATION, Draft, make_certificate
from simulated_round import SimulatedRound

from shuffledp_client.claims import check_claims
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.policy import Policy
from shuffledp_client.transport import Backoff
from shuffledp_client.verification import verify_round
from shuffledp_core.bounds.local import noisy_report
from shuffledp_core.bounds.lower import MOST_POINTS, BitCounts, ReportSum, ShiftedNoise
from shuffledp_core.documents.models import CorruptedGuarantee, EpsilonBounds
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    FalseCertificateError,
    MalformedDocumentError,
    ShuffleDPError,
)
from shuffledp_core.mechanisms import (
    MECHANISMS,
    Answers,
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.config import load_config
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import Deployment, write_client
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.sums.sgdl import local_total

HARDLY = Fraction(1, 10**9)
NO_NOISE: list[Mechanism] = [
    BloomRappor(symbols=5, bits=8, hashes=1, cohorts=4, fake=HARDLY),
    KRRHistogram(symbols=5, blanket=HARDLY),
    DummyHistogram(symbols=5, slots=1, fill=HARDLY),
    HadamardHistogram(symbols=5, blanket=HARDLY),
    NodeColumns(symbols=6, noise_epsilon=Fraction(50), mean=1, spare=0, columns=(3, 2)),
    NodeHistogram(symbols=5, noise_epsilon=Fraction(50), mean=1, dummies=5),
    NodeSum(max_value=4, noise_epsilon=Fraction(50), base=5, mean=4),
    NodeTree(symbols=5, noise_epsilon=Fraction(50), mean=1, spare=0, width=2),
    RapporHistogram(symbols=5, fake=HARDLY, when_zero=HARDLY, when_one=1 - HARDLY),
    LocalLaplace(max_value=4, epsilon_geo=Fraction(50)),
    OneBitShuffle(max_value=4, randomise=HARDLY),
    QuantisedRR(max_value=4, bits=2, randomise=HARDLY),
    RRShuffle(max_value=4, randomise=HARDLY),
    GeoShuffle(max_value=4, epsilon_geo=Fraction(50), padding=1),
    SGDLShuffle(max_value=4, noise_epsilon=Fraction(50), shares=100, padding=1),
    SplitMix(max_value=4, noise_epsilon=Fraction(50), shares=100, modulus=1000, pieces=3),
]
"""A randomiser of each kind that adds next to nothing."""

LIE: dict[str, Any] = {
    "epsilon": EpsilonBounds(certified=0.1, attained=0.1),
    "corrupted": CorruptedGuarantee(epsilon=0.1, delta=0.0),
}


def by_name(spec: Mechanism) -> str:
    return spec.kind


def test_every_mechanism_of_the_library_is_played() -> None:
    assert {spec.kind for spec in NO_NOISE} == set(MECHANISMS)


@pytest.mark.parametrize("mechanism", NO_NOISE, ids=by_name)
async def test_a_device_refuses_a_certificate_for_no_noise_that_accountant_and_analyst_sign(
    tmp_path: Path, deployment: Deployment, mechanism: Mechanism
) -> None:
    simulated = SimulatedRound(Draft(deployment, mechanism=mechanism, certificate=LIE), tmp_path)
    async with simulated:
        with pytest.raises(FalseCertificateError, match="evidence against the accountant"):
            await a_device(tmp_path / "user", deployment).submit(1)
        assert simulated.calls == 0


def a_device(folder: Path, deployment: Deployment) -> DeviceSteps:
    write_client(folder / "keys", deployment, POPULATION)
    config = folder / "client.toml"
    config.write_text(
        f'keys = "keys"\nroster = "{deployment.roster_file}"\nroot_key = "{deployment.root_key}"\n'
        'state = "state"\n[policy]\nepsilon = 1.0\ndelta = 1e-6\nepsilon_corrupted = 1.0\n'
    )
    return DeviceSteps(
        load_config(config, ClientConfig),
        Backoff(attempts=1, first=0.01, longest=0.01),
        lambda: NOW,
    )


@pytest.mark.parametrize("mechanism", [spec for spec in NO_NOISE if spec.needs_crowd], ids=by_name)
@pytest.mark.parametrize(
    ("claims", "error"),
    [
        # Each lie alone.
        ({"corrupted": CorruptedGuarantee(epsilon=0.1, delta=0.0)}, FalseCertificateError),
        ({"epsilon": EpsilonBounds(certified=0.1, attained=0.1)}, FalseCertificateError),
        # A claim at δ > 0 cannot be compared with a pure one; the policy limits what the device
        # computes.
        ({"corrupted": CorruptedGuarantee(epsilon=0.1, delta=1e-7)}, ClientPolicyRefusal),
    ],
)
def test_each_lie_is_refused_by_itself(
    deployment: Deployment,
    mechanism: Mechanism,
    claims: dict[str, Any],
    error: type[ShuffleDPError],
) -> None:
    honest = {
        "epsilon": EpsilonBounds(certified=600.0, attained=None),
        "corrupted": CorruptedGuarantee(epsilon=600.0, delta=0.0),
    }
    draft = Draft(deployment, mechanism=mechanism, certificate=honest | claims)
    policy = Policy(epsilon=600.0, delta=1e-6, epsilon_corrupted=1.0)
    # With next to no dummies no ε holds at this δ, so that 600 is a lie as well.
    is_false = isinstance(mechanism, DummyHistogram)
    with pytest.raises(FalseCertificateError if is_false else error):
        verify_round(draft.announcement(), deployment.roster, policy, POPULATION, NOW)


def test_a_mechanism_without_a_closed_form_is_refused_where_the_policy_limits_it(
    deployment: Deployment,
) -> None:
    """The accountant's own limit: so little noise per unit, in shares, is not tabulated."""
    unknown = SGDLShuffle(max_value=4, noise_epsilon=Fraction(1, 10**6), shares=2, padding=3)
    claimed = {"corrupted": CorruptedGuarantee(epsilon=5.0, delta=0.0)}
    draft = Draft(deployment, mechanism=unknown, certificate=claimed)
    with pytest.raises(ClientPolicyRefusal, match="computed here, is inf"):
        verify_round(draft.announcement(), deployment.roster, LENIENT, POPULATION, NOW)
    any_local = msgspec.structs.replace(LENIENT, epsilon_corrupted=math.inf)
    assert verify_round(draft.announcement(), deployment.roster, any_local, POPULATION, NOW)


@pytest.mark.parametrize(
    "changes",
    [{"honest": 0}, {"honest": 101}, {"max_distance": 0}, {"max_distance": 5}, {"honest": -1}],
)
def test_impossible_numbers_are_refused(deployment: Deployment, changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedDocumentError):
        check_claims(make_certificate(deployment, NO_NOISE[-1], **changes))


# The device's ε_L against the accountant's, which other code computes.


LOCAL: list[Mechanism] = [
    *NO_NOISE,
    *(
        BloomRappor(symbols=9, bits=8, hashes=h, cohorts=4, fake=Fraction(1, n))
        for h in (1, 2, 8)
        for n in (1, 2, 10**5)
    ),
    *(KRRHistogram(symbols=k, blanket=Fraction(1, n)) for k in (2, 3, 1000) for n in (1, 2, 50)),
    *(
        HadamardHistogram(symbols=k, blanket=Fraction(1, n))
        for k in (2, 3, 1000)
        for n in (1, 2, 50)
    ),
    RapporHistogram(
        symbols=2, fake=Fraction(1, 3), when_zero=Fraction(1, 5), when_one=Fraction(3, 5)
    ),
    RapporHistogram(
        symbols=31, fake=Fraction(1), when_zero=Fraction(1, 5), when_one=Fraction(3, 5)
    ),
    *(
        OneBitShuffle(max_value=k, randomise=Fraction(1, n))
        for k in (1, 7, 10**6)
        for n in (1, 2, 10**5)
    ),
    *(
        RRShuffle(max_value=k, randomise=Fraction(1, n))
        for k in (1, 7, 10**6)
        for n in (1, 2, 10**5)
    ),
    *(
        QuantisedRR(max_value=20, bits=r, randomise=Fraction(1, n))
        for r in (1, 3, 7, 20)
        for n in (1, 2, 10**5)
    ),
    *(LocalLaplace(max_value=20, epsilon_geo=Fraction(1, n)) for n in (1, 3, 10**5)),
    *(GeoShuffle(max_value=20, epsilon_geo=Fraction(1, n), padding=9) for n in (1, 3, 10**5)),
    *(
        SGDLShuffle(max_value=k, noise_epsilon=Fraction(1, n), shares=m, padding=9)
        for k in (1, 20, 1000)
        for n in (1, 30, 1000)
        for m in (1, 2, 3, 1000, 10**7)
    ),
    SplitMix(max_value=20, noise_epsilon=Fraction(1, 20), shares=900, modulus=2**20, pieces=9),
]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("spec", LOCAL, ids=str)
def test_the_device_computes_the_accountants_local_epsilon(
    spec: Mechanism, adjacency: Adjacency
) -> None:
    left = corrupted_bounds(spec, Setting(1000, 900, adjacency), 1e-6)
    own = spec.local_epsilon(1 if adjacency is Adjacency.METRIC else spec.domain - 1)
    if left.delta > 0.0:  # an approximate guarantee may be smaller than the pure one
        assert own >= left.epsilon * (1 - 2e-7)
    elif spec.noise_alone:
        assert own == pytest.approx(left.epsilon, rel=1e-12, abs=1e-12)
    else:  # the accountant's table rounds further outwards where noise is made in shares
        assert own <= left.epsilon * (1 + 2e-7)
        assert own == pytest.approx(left.epsilon, rel=1e-4)


@pytest.mark.parametrize("shares", [2, 3, 50, 10**6])
@pytest.mark.parametrize("distance", [1, 2, 30, 1891, 10**4])
@pytest.mark.parametrize(
    "rate",
    [Fraction(10**14, 3), Fraction(7221, 10), Fraction(3), Fraction(1, 3), Fraction(1, 1000)],
)
def test_the_local_epsilon_of_shared_noise_is_exact_and_never_below(
    rate: Fraction, shares: int, distance: int
) -> None:
    with mpmath.workdps(60):
        epsilon, share = mpmath.mpf(rate.numerator) / rate.denominator, mpmath.mpf(1) / shares
        decay = mpmath.exp(-2 * epsilon)
        at_zero = mpmath.hyp2f1(share, share, 1, decay)
        at_distance = mpmath.hyp2f1(share, share + distance, distance + 1, decay)
        first = (
            mpmath.loggamma(share + distance)
            - mpmath.loggamma(share)
            - mpmath.loggamma(distance + 1)
        )
        truth = distance * epsilon + mpmath.log(at_zero / at_distance) - first
        assert truth <= noisy_report(rate, shares, distance) <= truth * (1 + 1e-9) + 1e-7
        assert truth <= local_total(rate, shares, distance)


@pytest.mark.parametrize("spec", [spec for spec in LOCAL if spec.domain > 3], ids=str)
def test_the_local_epsilon_grows_with_the_distance_and_per_unit_is_largest_at_one(
    spec: Mechanism,
) -> None:
    """So that a single unit decides under metric adjacency, and the largest distance under the
    standard one."""
    distances = sorted({1, 2, 3, spec.domain // 2, spec.domain - 1} - {0})
    totals = [spec.local_epsilon(distance) for distance in distances]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(totals))
    assert all(
        totals[0] >= total / far * (1 - 1e-12) for far, total in zip(distances, totals, strict=True)
    )


def test_a_certificate_has_one_way_to_write_plain_mixing(deployment: Deployment) -> None:
    assert make_certificate(deployment, NO_NOISE[0], mix=Mix.VERIFIED).verified
    with pytest.raises(ValueError, match="left out"):
        make_certificate(deployment, NO_NOISE[0], mix=Mix.PLAIN)


# The lower bound that no true certificate is below.


SHARES = {
    "bloom-rappor": 0.5,
    "dummy-histogram": 0.999,
    "krr-histogram": 0.51,
    "hadamard-histogram": 0.52,
    "node-columns": 0.999,
    "node-histogram": 0.999,
    "node-sum": 0.999,
    "node-tree": 0.999,
    "rappor-histogram": 0.56,
    "local-laplace": 0.46,
    "one-bit-mean": 0.24,
    "quantised-rr": 0.76,
    "rr-shuffle": 0.86,
    "geo-shuffle": 0.95,
    "sgdl-shuffle": 0.999,
    "split-mix": 0.999,
}
"""Share of the certified ε that a device refuses at least: the figures of docs/accounting.md, C21.
"""


def targets() -> list[tuple[str, int, float, Adjacency]]:
    plans = [(200, 1.0, Adjacency.STANDARD), (2000, 1.0, Adjacency.METRIC)]
    return [(kind, *plan) for kind in MECHANISMS for plan in plans]


@pytest.mark.parametrize(("kind", "users", "epsilon", "adjacency"), targets())
def test_a_true_certificate_is_accepted_and_an_understated_epsilon_is_refused(
    deployment: Deployment, kind: str, users: int, epsilon: float, adjacency: Adjacency
) -> None:
    histogram = MECHANISMS[kind].answers is Answers.HISTOGRAM
    target = Target(
        epsilon=epsilon if histogram or adjacency is Adjacency.STANDARD else epsilon / 5,
        delta=1e-6,
        users=users,
        honest=users * 9 // 10,
        adjacency=adjacency,
        max_value=None if histogram else 20,
        symbols=10 if histogram else None,
        most_users=2 * users,
    )
    spec = calibrate(kind, target)
    setting = Setting(users, users * 9 // 10, adjacency, spec.domain - 1)
    bounds, left = epsilon_bounds(spec, setting, 1e-6), corrupted_bounds(spec, setting, 1e-6)
    true = make_certificate(
        deployment,
        spec,
        users=users,
        honest=setting.honest,
        adjacency=adjacency,
        epsilon=EpsilonBounds(certified=bounds.certified, attained=bounds.attained),
        corrupted=CorruptedGuarantee(epsilon=left.epsilon, delta=left.delta),
    )
    check_claims(true)
    low = EpsilonBounds(certified=SHARES[kind] * bounds.certified, attained=0.0)
    with pytest.raises(FalseCertificateError, match="two datasets"):
        check_claims(msgspec.structs.replace(true, epsilon=low))


def exact_delta(before: list[mpmath.mpf], after: list[mpmath.mpf], epsilon: float) -> float:
    growth = mpmath.e**epsilon
    return float(
        sum((max(p - growth * q, 0) for p, q in zip(before, after, strict=True)), mpmath.mpf(0))
    )


def convolved(one: list[mpmath.mpf], other: list[mpmath.mpf]) -> list[mpmath.mpf]:
    sums = [mpmath.mpf(0)] * (len(one) + len(other) - 1)
    for i, p in enumerate(one):
        for j, q in enumerate(other):
            sums[i + j] += p * q
    return sums


def binomial(trials: int, chance: Fraction) -> list[mpmath.mpf]:
    p = mpmath.mpf(chance.numerator) / chance.denominator
    return [mpmath.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize(("others", "bits"), [(0, 1), (9, 1), (60, 3), (5, 20)])
def test_the_bound_of_bits_is_the_exact_one_rounded_down(
    others: int, bits: int, epsilon: float
) -> None:
    chance, high, low = Fraction(1, 20), Fraction(19, 20), Fraction(1, 20)
    base = binomial(others, chance)
    truth = exact_delta(
        convolved(base, binomial(bits, high)), convolved(base, binomial(bits, low)), epsilon
    )
    found = BitCounts(others, chance, bits, high, low).attained_delta(epsilon)
    assert truth - 1e-8 * math.exp(epsilon) <= found <= truth


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("distance", [1, 4])
def test_the_bound_of_clamped_noise_is_the_exact_one_rounded_down(
    distance: int, epsilon: float
) -> None:
    spec, honest = GeoShuffle(max_value=4, epsilon_geo=Fraction(1, 2), padding=2), 7
    ratio = mpmath.exp(mpmath.mpf(-1) / 2)

    def law(value: int) -> list[mpmath.mpf]:
        ones = [mpmath.mpf(0)] * (spec.messages_per_user + 1)
        for noise in range(-200, 201):
            place = min(max(value + noise + spec.padding, 0), spec.messages_per_user)
            ones[place] += (1 - ratio) / (1 + ratio) * ratio ** abs(noise)
        return ones

    others = law(0)
    for _ in range(honest - 2):
        others = convolved(others, law(0))
    truth = exact_delta(convolved(others, law(0)), convolved(others, law(distance)), epsilon)
    witness = spec.witness(honest, distance)
    assert witness is not None
    assert truth - 1e-8 * math.exp(epsilon) <= witness.attained_delta(epsilon) <= truth + 1e-15


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("shares", "honest"), [(2, 2), (3, 2), (50, 200)])
def test_the_bound_of_shared_noise_is_below_the_exact_one(
    shares: int, honest: int, epsilon: float
) -> None:
    shape, rate, distance = mpmath.mpf(honest) / shares, Fraction(1, 3), 2
    ratio = mpmath.exp(mpmath.mpf(-1) / 3)
    half = [mpmath.binomial(k + shape - 1, k) * (1 - ratio) ** shape * ratio**k for k in range(160)]
    law = convolved(half, half[::-1])
    gap = [mpmath.mpf(0)] * distance
    truth = exact_delta(law + gap, gap + law, epsilon)
    found = ShiftedNoise(honest / shares, float(rate), distance, 0.0).attained_delta(epsilon)
    assert truth - 1e-7 <= found <= truth + 1e-12


def test_what_is_too_large_for_a_device_has_no_bound_and_costs_nothing() -> None:
    """A certificate comes from others: its largest numbers must not take a device's memory or
    time."""
    half = Fraction(1, 2)
    assert BitCounts(10**18, half, 1, Fraction(3, 4), Fraction(1, 4)).attained_delta(0.1) == 0.0
    assert ShiftedNoise(10**15, 1e-9, 1, 0.0).attained_delta(0.1) == 0.0
    assert ReportSum(10**18, np.array([0.5, 0.5]), np.array([0.0, 1.0])).attained_delta(0.1) == 0.0
    wide = GeoShuffle(max_value=MOST_POINTS, epsilon_geo=half, padding=1)
    assert wide.witness(10, 1) is None
    assert (
        RRShuffle(max_value=2**31 - 1, randomise=HARDLY).witness(10, 2**31 - 2).attained_delta(0.1)
        > 0.99
    )
    assert math.isinf(noisy_report(Fraction(1, 10**9), 2, 1))
