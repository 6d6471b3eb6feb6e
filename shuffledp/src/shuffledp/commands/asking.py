"""Builds a plan from a mechanism's own options, for every installed mechanism.

A mechanism without a function here gets one option for each field of its spec, its exact
parameters. Importing this costs no numerics.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from msgspec import NODEFAULT, structs

from shuffledp.commands.options import (
    AnyEpsilon0,
    Blanket,
    EpsilonGeo,
    MaxValue,
    Modulus,
    NoiseEpsilon,
    Padding,
    Pieces,
    Scenario,
    Shares,
    Symbols,
    decimal,
    parse_integer,
    parse_integers,
)
from shuffledp_core.mechanisms import (
    MECHANISMS,
    GeoShuffle,
    KRRHistogram,
    SGDLShuffle,
    Spec,
    SplitMix,
)

if TYPE_CHECKING:
    from shuffledp.plans import Plan


def _krr_histogram(
    scenario: Scenario, *, symbols: Symbols, epsilon0: AnyEpsilon0 = None, blanket: Blanket = None
) -> Plan:
    from shuffledp.commands import questions

    return questions.krr_question(symbols, epsilon0, blanket, scenario)


def _geo_shuffle(
    scenario: Scenario, *, max_value: MaxValue, epsilon_geo: EpsilonGeo, padding: Padding = None
) -> Plan:
    from shuffledp.commands import questions

    return questions.geo_question(max_value, epsilon_geo, padding, scenario)


def _sgdl_shuffle(
    scenario: Scenario,
    *,
    max_value: MaxValue,
    noise_epsilon: NoiseEpsilon,
    shares: Shares = None,
    padding: Padding = None,
) -> Plan:
    from shuffledp.commands import questions

    return questions.sgdl_question(max_value, noise_epsilon, shares, padding, scenario)


def _split_mix(
    scenario: Scenario,
    *,
    max_value: MaxValue,
    noise_epsilon: NoiseEpsilon,
    shares: Shares = None,
    modulus: Modulus = None,
    pieces: Pieces = None,
) -> Plan:
    from shuffledp.commands import questions

    return questions.split_question(max_value, noise_epsilon, shares, (modulus, pieces), scenario)


_OWN: Final[dict[str, Callable[..., Plan]]] = {
    KRRHistogram.kind: _krr_histogram,
    GeoShuffle.kind: _geo_shuffle,
    SGDLShuffle.kind: _sgdl_shuffle,
    SplitMix.kind: _split_mix,
}
"""Those that are asked about by something else than their fields, or choose some of these
themselves.
"""

_WORDS: Final = {"symbols": "k, symbols of the histogram.", "max_value": "k: values are 0..k."}
"""Help for the fields that specs inherit; a field of its own is annotated with its words."""


def ask(kind: str, scenario: Scenario, **parameters: Any) -> Plan:
    """The checked plan of a mechanism with these parameters, as its options parse them.

    Raises:
        UsageError: a value is outside its range; the message names both.
    """
    if kind in _OWN:
        return _OWN[kind](scenario, **parameters)
    from shuffledp.commands import questions

    return questions.question(
        questions.build_spec(lambda: MECHANISMS[kind](**parameters)), scenario
    )


def options_of(kind: str) -> list[Parameter]:
    """The mechanism's own options, as keyword parameters for typer."""
    if kind in _OWN:
        hints = get_type_hints(_OWN[kind], {**globals(), "Plan": object}, include_extras=True)
        return [
            option.replace(annotation=hints[option.name])
            for option in signature(_OWN[kind]).parameters.values()
            if option.kind is Parameter.KEYWORD_ONLY
        ]
    return [_option(MECHANISMS[kind], field) for field in structs.fields(MECHANISMS[kind])]


def _option(spec: type[Spec], field: structs.FieldInfo) -> Parameter:
    kind, words = field.type, _WORDS.get(field.name, "")
    if get_origin(kind) is Annotated:
        kind, *annotations = get_args(kind)
        words = next((word for word in annotations if isinstance(word, str)), words)
    if kind is int:
        option = typer.Option(parser=parse_integer, metavar="INTEGER", help=words)
    elif kind is Fraction:
        option = typer.Option(parser=decimal, metavar="DECIMAL", help=words)
    elif kind == tuple[int, ...]:
        option = typer.Option(parser=parse_integers, metavar="INTEGER,..", help=words)
        kind = str  # typer reads as many words as a tuple has members
    else:
        raise TypeError(
            f"{spec.kind}: {field.name} must be an int, a Fraction or a tuple of ints to be an "
            f"option, not {kind}"
        )
    default = Parameter.empty if field.default is NODEFAULT else str(field.default)
    return Parameter(
        field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )
