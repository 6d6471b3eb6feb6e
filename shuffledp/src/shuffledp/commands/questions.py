"""Builds checked plans from options: exact mechanism, setting, and corrupt nodes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from shuffledp.commands.options import Scenario
from shuffledp.node_numbers import node_numbers
from shuffledp.plans import ParameterValue, Plan, check_distance
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle, SplitMix
from shuffledp_core.runtime.files import read_file
from shuffledp_privacy.bounds import Setting, domain_of
from shuffledp_privacy.calibration.padding import (
    geo_padding,
    geo_padding_note,
    padding_note,
    sgdl_padding,
)
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean
from shuffledp_privacy.local.matrix import LocalMatrix, parse_matrix
from shuffledp_privacy.splitting import among_rounds
from shuffledp_privacy.sums.mixing import least_pieces
from shuffledp_privacy.sums.split import mixing_security, wide_modulus

SpecT = TypeVar("SpecT")


def build_spec(build: Callable[[], SpecT]) -> SpecT:
    """Build a spec, with its errors turned into `UsageError`."""
    try:
        return build()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def question(
    spec: object,
    scenario: Scenario,
    *,
    notes: tuple[str, ...] = (),
    asked: tuple[tuple[str, ParameterValue], ...] = (),
) -> Plan:
    """The checked plan for a spec.

    Raises:
        UsageError: a value is outside its range; the message names both.
    """
    return Plan(
        spec=spec,
        setting=setting_of(scenario, domain_of(spec)),
        delta=scenario.delta,
        rounds=scenario.rounds,
        corrupt=node_numbers(scenario.corrupt_nodes, scenario.nodes, "corrupt-nodes"),
        nodes=scenario.nodes,
        notes=notes,
        asked=asked,
    )


def setting_of(scenario: Scenario, domain: int | None) -> Setting:
    """The setting of one round; `UsageError` for a distance that the domain does not have."""
    check_distance(scenario.max_distance, domain)
    honest = scenario.users if scenario.honest is None else scenario.honest
    return Setting(scenario.users, honest, scenario.adjacency, scenario.max_distance)


def check_finite(name: str, value: float) -> None:
    """Raise `UsageError` unless the value is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name} must be a finite number above 0, not {value}")


def krr_histogram(symbols: int, epsilon0: float) -> tuple[KRRHistogram, tuple[str, ...]]:
    """k-RR with local ε of at most `epsilon0` (nats), and a note on how the blanket was rounded."""
    check_finite("epsilon0", epsilon0)
    blanket = epsilon0_to_blanket(epsilon0, symbols)
    spec = build_spec(lambda: KRRHistogram(symbols=symbols, blanket=blanket))
    note = (
        f"blanket = {blanket} is the exact rational that users sample; its local epsilon is at "
        f"most {epsilon0:g}"
    )
    return spec, (note,)


def krr_question(
    symbols: int, epsilon0: float | None, blanket: Fraction | None, scenario: Scenario
) -> Plan:
    """The checked plan of k-ary randomised response, from either ε0 or an exact blanket.

    Raises:
        UsageError: neither or both are given, or a value is outside its range.
    """
    if epsilon0 is not None and blanket is None:
        spec, notes = krr_histogram(symbols, epsilon0)
        return question(spec, scenario, notes=notes, asked=(("epsilon0", epsilon0),))
    if blanket is not None and epsilon0 is None:
        return question(
            build_spec(lambda: KRRHistogram(symbols=symbols, blanket=blanket)), scenario
        )
    raise UsageError(
        "give either --epsilon0 or --blanket, the exact parameter that calibrate prints"
    )


def local(epsilon0: float | None, matrix: Path | None = None) -> LocalRandomiser | LocalMatrix:
    """Any randomiser with this local ε, or the one whose probabilities are in the file.

    Raises:
        UsageError: neither or both are named, or the file is no matrix of chances.
        ConfigError: the file cannot be read.
    """
    if epsilon0 is not None and matrix is None:
        check_finite("epsilon0", epsilon0)
        return LocalRandomiser(epsilon0)
    if matrix is None or epsilon0 is not None:
        raise UsageError("give either --epsilon0, or --matrix with a file of probabilities")
    try:
        return parse_matrix(read_file(matrix, "matrix").decode())
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{matrix} is not a text file; expected comma-separated probabilities in UTF-8"
        ) from error
    except UsageError as error:
        raise UsageError(f"{matrix}: {error}") from error


def one_bit_local(epsilon0: float, max_value: int) -> OneBitMean:
    """Build the one-bit mean of the local model from its options; `UsageError` for wrong ones."""
    check_finite("epsilon0", epsilon0)
    return OneBitMean(epsilon0, max_value)


def laplace_mean(epsilon0: float, max_value: int) -> LaplaceMean:
    """Build the Laplace mean of the local model from its options; `UsageError` for wrong ones."""
    check_finite("epsilon0", epsilon0)
    return LaplaceMean(epsilon0, max_value)


def rr_shuffle(max_value: int, randomise: Fraction) -> RRShuffle:
    """Build rr-shuffle from its options; raise `UsageError` for wrong ones."""
    return build_spec(lambda: RRShuffle(max_value=max_value, randomise=randomise))


def geo_shuffle(max_value: int, epsilon_geo: Fraction, padding: int) -> GeoShuffle:
    """Build geo-shuffle from its options; raise `UsageError` for wrong ones."""
    return build_spec(
        lambda: GeoShuffle(max_value=max_value, epsilon_geo=epsilon_geo, padding=padding)
    )


def sgdl_shuffle(max_value: int, noise_epsilon: Fraction, shares: int, padding: int) -> SGDLShuffle:
    """Build sgdl-shuffle from its options; raise `UsageError` for wrong ones."""
    return build_spec(
        lambda: SGDLShuffle(
            max_value=max_value, noise_epsilon=noise_epsilon, shares=shares, padding=padding
        )
    )


def geo_question(
    max_value: int, epsilon_geo: Fraction, padding: int | None, scenario: Scenario
) -> Plan:
    """The plan of geo-shuffle; by default with the least sound padding."""
    draft = question(geo_shuffle(max_value, epsilon_geo, padding or 0), scenario)
    if padding is not None:
        return draft
    chosen = geo_padding(
        epsilon_geo, max_value, draft.setting, among_rounds(scenario.delta, scenario.rounds)
    )
    return replace(
        draft, spec=geo_shuffle(max_value, epsilon_geo, chosen), notes=(geo_padding_note(chosen),)
    )


def sgdl_question(
    max_value: int,
    noise_epsilon: Fraction,
    shares: int | None,
    padding: int | None,
    scenario: Scenario,
) -> Plan:
    """Plan a round of sgdl-shuffle.

    `shares` defaults to the number of honest users, `padding` to the least sound one.
    """
    honest = scenario.honest if scenario.honest is not None else scenario.users
    parts = shares if shares is not None else honest
    # The setting is checked first: fewer than one honest user is its complaint, not the shares'.
    setting_of(scenario, None)
    draft = question(sgdl_shuffle(max_value, noise_epsilon, parts, padding or 0), scenario)
    notes = () if shares is not None else (_shares_note(parts),)
    if padding is None:
        padding = sgdl_padding(
            noise_epsilon,
            parts,
            max_value,
            draft.setting,
            among_rounds(scenario.delta, scenario.rounds),
        )
        notes = (*notes, padding_note(padding))
    return replace(draft, spec=sgdl_shuffle(max_value, noise_epsilon, parts, padding), notes=notes)


def split_question(
    max_value: int,
    noise_epsilon: Fraction,
    shares: int | None,
    mixing: tuple[int | None, int | None],
    scenario: Scenario,
) -> Plan:
    """The plan of split-mix; by default with as many shares as honest users.

    Without modulus or pieces, the least sound.
    """
    setting = setting_of(scenario, None)
    parts, (modulus, pieces) = setting.honest if shares is None else shares, mixing
    notes: tuple[str, ...] = () if shares is not None else (_shares_note(parts),)
    # The noise is checked first: what it needs room for is computed from it.
    build_spec(
        lambda: SplitMix(
            max_value=max_value, noise_epsilon=noise_epsilon, shares=parts, modulus=2**31, pieces=2
        )
    )
    if modulus is None:
        modulus = wide_modulus(max_value, noise_epsilon, parts, setting.users)
        notes = (
            *notes,
            f"modulus = {modulus} was chosen: the least power of two with room for the sum and "
            "its noise",
        )
    if pieces is None:
        reach = min(scenario.max_distance or max_value, max_value)
        security = mixing_security(float(noise_epsilon) * reach, scenario.delta, scenario.rounds)
        pieces = least_pieces(setting.honest, modulus, security)
        notes = (
            *notes,
            f"pieces = {pieces} was chosen: the fewest whose shuffle is within 2^-{security:.4g} "
            "of the sum alone",
        )
    spec = build_spec(
        lambda: SplitMix(
            max_value=max_value,
            noise_epsilon=noise_epsilon,
            shares=parts,
            modulus=modulus,
            pieces=pieces,
        )
    )
    return question(spec, scenario, notes=notes)


def _shares_note(shares: int) -> str:
    return f"shares = {shares}, the honest users: together they add exactly one noise"
