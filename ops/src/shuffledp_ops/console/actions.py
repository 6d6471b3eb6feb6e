"""An operator's actions on rounds from a page: open one, close its submissions, cancel it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from shuffledp_core.documents.models import Roster, RoundPlan
from shuffledp_core.documents.wording import (
    QuestionAxis,
    QuestionWording,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.questions import OTHERS, TextField, mechanism_of
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import ANALYST, Deployment
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import analyst_pb2

DEFAULTS: Final[Mapping[str, str]] = {
    "mechanism": "node-histogram",
    "mix": Mix.PLAIN.value,
    "max_value": "20",
    "epsilon": "1",
    "delta": "1e-6",
    "epsilon_local": "",
    "min_reports": "",
    "max_reports": "",
    "colluding": "",
    "open_minutes": "10",
    "question": "0",
    "words_id": "",
    "words_text": "",
    "words_field": "",
    "words_unit": "",
    "words_values": "",
}
"""The fields of the form, besides the population, and what stands in them at first."""

MOST_REASON: Final = 200
"""Letters of the reason for giving a round up."""

LONGEST_VALUES: Final = 300
"""Characters of the meaning of all values; a form has few bytes, `round --words` takes more."""

BETWEEN: Final = "|"
"""Character between the fields of a table, their units and their values."""

COLUMN_MECHANISMS: Final = tuple(
    name for name, mechanism in MECHANISMS.items() if mechanism.counts_columns
)
"""Mechanisms that count each field by itself."""

_LARGEST: Final = 10**9
_DEADLINE: Final = 30.0


def plan_of(fields: Mapping[str, str], roster: Roster) -> RoundPlan:
    """The plan that the fields of a form describe, over all nodes of the roster.

    Raises `UsageError`, which names the field.
    """
    population = fields.get("population", "")
    if population not in {known_population.name for known_population in roster.populations}:
        raise UsageError(f"population: {population[:40]!r} is not a population of this deployment")
    mechanism = fields.get("mechanism", "")
    if mechanism not in MECHANISMS:
        raise UsageError(
            f"mechanism: {mechanism[:40]!r} is unknown; choose one of {', '.join(MECHANISMS)}"
        )
    mix = fields.get("mix", "")
    if mix not in set(Mix):
        raise UsageError(f"mix: {mix[:40]!r} is unknown; choose one of {', '.join(Mix)}")
    wording = wording_of(fields)
    if wording is not None and wording.is_open:
        mechanism = mechanism_of(wording)
    largest = _integer(fields, "max_value", 1) if wording is None else wording.size - 1
    fewest = _integer(fields, "min_reports", 1)
    colluding = (
        _integer(fields, "colluding", 0) if fields.get("colluding", "").strip() else fewest // 20
    )
    try:
        return RoundPlan(
            population=population,
            mechanism=mechanism,
            size=MECHANISMS[mechanism].size_for(largest),
            epsilon=_number(fields, "epsilon"),
            delta=_number(fields, "delta"),
            min_reports=fewest,
            max_reports=_integer(fields, "max_reports", fewest),
            colluding=colluding,
            route=tuple(node.name for node in roster.nodes()),
            mix=Mix(mix),
            open_seconds=60 * _number(fields, "open_minutes"),
            question=_integer(fields, "question", 0),
            epsilon_local=_number(fields, "epsilon_local")
            if fields.get("epsilon_local", "").strip()
            else UNSET,
            wording=UNSET if wording is None else wording,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def wording_of(fields: Mapping[str, str]) -> QuestionWording | None:
    """The wording that the fields of a form describe; None if these fields are empty.

    Raises `UsageError`, which names the field.
    """
    names = [name for name in DEFAULTS if name.startswith("words_")]
    typed = {name: " ".join(fields.get(name, "").split()) for name in names}
    if not any(typed.values()):
        return None
    for name in ("words_id", "words_text", "words_field"):
        if not typed[name]:
            raise UsageError(
                f"{name}: a question in words needs this field; to ask without words, leave all "
                "their fields empty"
            )
    try:
        axes = _axes(fields, typed)
        by_columns = fields.get("mechanism") in COLUMN_MECHANISMS
        return QuestionWording(
            id=typed["words_id"],
            text=unicodedata.normalize("NFC", typed["words_text"]),
            axes=axes,
            others=OTHERS if len(axes) > 1 and not by_columns else "",
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _axes(fields: Mapping[str, str], typed: Mapping[str, str]) -> tuple[QuestionAxis, ...]:
    """One axis for each field in the form; a table has several, with separators between them."""
    if len(typed["words_values"]) > LONGEST_VALUES:
        raise UsageError(
            f"words_values: at most {LONGEST_VALUES} characters fit; `shuffledp round --words` "
            "takes a file with more"
        )
    names = _split(typed["words_field"])
    parts = {"words_values": [typed["words_values"]], "words_unit": [typed["words_unit"]]}
    if len(names) > 1:
        parts = {name: _split(typed[name]) for name in parts}
        if not typed["words_unit"]:
            parts["words_unit"] = [""] * len(names)
    for name, given in parts.items():
        if len(given) != len(names):
            raise UsageError(
                f"{name}: {len(names)} fields need as many parts, separated by “{BETWEEN}”, not "
                f"{len(given)}"
            )
    return tuple(
        QuestionAxis(field=name, unit=unit, symbols=_meaning(fields, values, typed["words_id"]))
        for name, unit, values in zip(
            names, parts["words_unit"], parts["words_values"], strict=True
        )
    )


def _split(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text)
    return [part.strip() for part in composed.split(BETWEEN)]


def _meaning(fields: Mapping[str, str], values: str, name: str) -> SymbolMeaning:
    values = unicodedata.normalize("NFC", values)
    kind, _, rest = values.partition(":")
    parts = tuple(part.strip() for part in rest.split(";" if kind == "names" else ","))
    if kind == "names":
        return SymbolNames(names=parts)
    if kind == "ranges":
        return SymbolRanges(edges=parts)
    if values == "texts":
        return TextField().hashes_of(name)
    size = _integer(fields, "max_value", 1) + 1
    if not values:
        return SymbolScale(start="0", step="1", size=size)
    if kind == "scale" and len(parts) == 2:
        return SymbolScale(start=parts[0], step=parts[1], size=size)
    raise UsageError(
        "words_values: write “names: yes; no”, “ranges: 0, 15, 60, inf” or “scale: 18.5, 0.5”, "
        "“texts” for an open list, or leave it empty for whole numbers from 0"
    )


def _integer(fields: Mapping[str, str], name: str, least: int) -> int:
    text = fields.get(name, "").strip().replace(",", "")
    if not (
        text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= _LARGEST
    ):
        raise UsageError(
            f"{name}: give a whole number from {least:,} to {_LARGEST:,}, not {text[:40]!r}"
        )
    return int(text)


def _number(fields: Mapping[str, str], name: str) -> float:
    text = fields.get(name, "").strip()
    try:
        value = float(text[:40])
    except ValueError:
        value = -1.0
    if not 0 < value <= _LARGEST:  # neither infinite nor NaN
        raise UsageError(f"{name}: give a number above 0, such as 0.5, not {text[:40]!r}")
    return value


async def open_planned(deployment: Deployment, plan: RoundPlan) -> str:
    """Open a round and return its id. Raises the analyst's typed errors."""
    async with control_of(deployment) as control:
        return (await open_round(control, plan)).round_id


async def end_submissions(deployment: Deployment, round_id: str) -> None:
    """Close the submissions of a round now. Raises the analyst's typed errors."""
    async with control_of(deployment) as control, translate_errors(ANALYST):
        await control.EndSubmissions(
            analyst_pb2.EndSubmissionsRequest(round_id=round_id), timeout=_DEADLINE
        )


async def give_up(deployment: Deployment, round_id: str, reason: str) -> None:
    """Cancel a round without publishing anything.

    Raises the analyst's typed errors, `UsageError` without a reason.
    """
    if not reason.strip() or len(reason) > MOST_REASON:
        raise UsageError(
            f"reason: give a reason of 1 to {MOST_REASON} characters; it becomes part of the "
            "signed result"
        )
    async with control_of(deployment) as control, translate_errors(ANALYST):
        request = analyst_pb2.AbortRoundRequest(round_id=round_id, reason=reason.strip())
        await control.AbortRound(request, timeout=_DEADLINE)
