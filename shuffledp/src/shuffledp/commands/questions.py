"""From options to a checked question: an exact mechanism, a setting, and who is corrupt. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Final, TypeVar

from shuffledp.commands.options import Circumstances
from shuffledp.commands.padding import geo_padding, padding_note, sgdl_padding
from shuffledp.node_numbers import node_numbers
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.calibrate import epsilon0_to_blanket
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean
from shuffledp_privacy.rounds.composition import LARGEST_TIMES
from shuffledp_privacy.splitting import among_rounds

LOCAL_KINDS: Final[dict[type, str]] = {
    LocalRandomiser: "local",
    OneBitMean: "one-bit-mean",
    LaplaceMean: "laplace-mean",
}
"""Names of the specs that have none of their own."""

MOST_NODES: Final = 16
"""Longest route."""

ParameterValue = int | float | str

SpecT = TypeVar("SpecT")


@dataclass(frozen=True, slots=True)
class Question:
    """One mechanism, who takes part, and against whom.

    Attributes:
        spec: any spec that the numerics know.
        setting: of one round.
        delta: over all rounds, 0 or 1e-12 <= δ < 1.
        rounds: how often the round is run on the same people.
        corrupt: numbers of the corrupt nodes, 1..nodes.
        nodes: mix nodes of the route.
        notes: what was decided on the way here, in words.
        asked: parameters as they were asked for, beside the spec's own.
    """

    spec: object
    setting: Setting
    delta: float
    rounds: int = 1
    corrupt: frozenset[int] = frozenset()
    nodes: int = 3
    notes: tuple[str, ...] = ()
    asked: tuple[tuple[str, ParameterValue], ...] = ()

    @property
    def kind(self) -> str:
        """The mechanism's name."""
        return str(getattr(self.spec, "kind", None) or LOCAL_KINDS[type(self.spec)])

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """The spec's exact parameters; a rational as text, as in a certificate."""
        return dict(self.asked) | exact(self.spec)

    @property
    def all_corrupt(self) -> bool:
        """Nothing is shuffled by anybody honest."""
        return len(self.corrupt) == self.nodes

    @property
    def max_distance(self) -> int | None:
        """The largest change that the answer covers; None where values have no distance."""
        domain = getattr(self.spec, "domain", None)
        return self.setting.max_distance or (None if domain is None else int(domain) - 1)

    @property
    def per_unit(self) -> str:
        """The unit of ε, in words after the number."""
        return " per unit" if self.setting.adjacency is Adjacency.METRIC else ""


def exact(spec: object) -> dict[str, ParameterValue]:
    """A spec's parameters by name; a rational as text, as in a certificate."""
    names = [field.name for field in fields(spec)] if is_dataclass(spec) else getattr(spec, "__struct_fields__", ())
    own = {name: getattr(spec, name) for name in names}
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in own.items()}


def checked(build: Callable[[], SpecT]) -> SpecT:
    """The spec, its refusals turned into `UsageError`."""
    try:
        return build()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def question(
    spec: object,
    typed: Circumstances,
    *,
    notes: tuple[str, ...] = (),
    asked: tuple[tuple[str, ParameterValue], ...] = (),
) -> Question:
    """The checked question about a spec.

    Raises:
        UsageError: a value is outside its range; the message names both.
    """
    if not (typed.delta == 0.0 or 1e-12 <= typed.delta < 1.0):
        raise UsageError(f"delta must be 0, or from 1e-12 to below 1, not {typed.delta}")
    if not 1 <= typed.rounds <= LARGEST_TIMES:
        raise UsageError(f"rounds must be from 1 to {LARGEST_TIMES:,}, not {typed.rounds}")
    if not 1 <= typed.nodes <= MOST_NODES:
        raise UsageError(f"nodes must be from 1 to {MOST_NODES}, not {typed.nodes}")
    return Question(
        spec=spec,
        setting=setting_of(typed, getattr(spec, "domain", None)),
        delta=typed.delta,
        rounds=typed.rounds,
        corrupt=node_numbers(typed.corrupt_nodes, typed.nodes, "corrupt-nodes"),
        nodes=typed.nodes,
        notes=notes,
        asked=asked,
    )


def setting_of(typed: Circumstances, domain: int | None) -> Setting:
    """The setting of one round; `UsageError` for a distance that the domain does not have."""
    if domain is not None and typed.max_distance is not None and not 1 <= typed.max_distance < domain:
        raise UsageError(
            f"max-distance must be from 1 to {domain - 1}, the largest change within the domain, "
            f"not {typed.max_distance}"
        )
    honest = typed.users if typed.honest is None else typed.honest
    return Setting(typed.users, honest, typed.adjacency, typed.max_distance)


def check_finite(name: str, value: float) -> None:
    """`UsageError` unless the value is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name} must be a finite number above 0, not {value}")


def krr_histogram(symbols: int, epsilon0: float) -> tuple[KRRHistogram, tuple[str, ...]]:
    """The spec with local parameter at most `epsilon0` (nats), and how its blanket was rounded."""
    check_finite("epsilon0", epsilon0)
    blanket = epsilon0_to_blanket(epsilon0, symbols)
    spec = checked(lambda: KRRHistogram(symbols=symbols, blanket=blanket))
    note = f"blanket = {blanket} is the exact rational that users sample; its local epsilon is at most {epsilon0:g}"
    return spec, (note,)


def local(epsilon0: float) -> LocalRandomiser:
    """Any randomiser with that local parameter."""
    check_finite("epsilon0", epsilon0)
    return LocalRandomiser(epsilon0)


def one_bit_mean(epsilon0: float, max_value: int) -> OneBitMean:
    """The spec, checked."""
    check_finite("epsilon0", epsilon0)
    return OneBitMean(epsilon0, max_value)


def laplace_mean(epsilon0: float, max_value: int) -> LaplaceMean:
    """The spec, checked."""
    check_finite("epsilon0", epsilon0)
    return LaplaceMean(epsilon0, max_value)


def rr_shuffle(max_value: int, randomise: Fraction) -> RRShuffle:
    """The spec, checked."""
    return checked(lambda: RRShuffle(max_value=max_value, randomise=randomise))


def geo_shuffle(max_value: int, epsilon_geo: Fraction, padding: int) -> GeoShuffle:
    """The spec, checked."""
    return checked(lambda: GeoShuffle(max_value=max_value, epsilon_geo=epsilon_geo, padding=padding))


def sgdl_shuffle(max_value: int, noise_epsilon: Fraction, shares: int, padding: int) -> SGDLShuffle:
    """The spec, checked."""
    return checked(
        lambda: SGDLShuffle(max_value=max_value, noise_epsilon=noise_epsilon, shares=shares, padding=padding)
    )


def geo_question(max_value: int, epsilon_geo: Fraction, padding: int | None, typed: Circumstances) -> Question:
    """The question about geo-shuffle; without a padding, the least sound one."""
    draft = question(geo_shuffle(max_value, epsilon_geo, padding or 0), typed)
    if padding is not None:
        return draft
    chosen = geo_padding(epsilon_geo, max_value, draft.setting, among_rounds(typed.delta, typed.rounds))
    return replace(draft, spec=geo_shuffle(max_value, epsilon_geo, chosen), notes=(padding_note(chosen),))


def sgdl_question(
    max_value: int, noise_epsilon: Fraction, shares: int | None, padding: int | None, typed: Circumstances
) -> Question:
    """The question about sgdl-shuffle; without shares, the honest users; without a padding, the least sound one."""
    honest = typed.honest if typed.honest is not None else typed.users
    parts = shares if shares is not None else honest
    # The setting is checked first: fewer than one honest user is its complaint, not the shares'.
    setting_of(typed, None)
    draft = question(sgdl_shuffle(max_value, noise_epsilon, parts, padding or 0), typed)
    notes = () if shares is not None else (f"shares = {parts}, the honest users: together they add exactly one noise",)
    if padding is None:
        padding = sgdl_padding(noise_epsilon, parts, max_value, draft.setting, among_rounds(typed.delta, typed.rounds))
        notes = (*notes, padding_note(padding))
    return replace(draft, spec=sgdl_shuffle(max_value, noise_epsilon, parts, padding), notes=notes)
