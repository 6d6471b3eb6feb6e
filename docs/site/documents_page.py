"""The reference page of all documents and their fields, generated from their classes."""

from __future__ import annotations

import inspect
from enum import Enum
from fractions import Fraction
from types import UnionType
from typing import Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from shuffledp_core.documents import models
from shuffledp_core.documents.signed import Document, Signed, to_json
from shuffledp_core.mechanisms import MECHANISMS

_WORDS: Final = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    type(None): "null",
    Fraction: 'text, "numerator/denominator"',
}


def page() -> str:
    """Signed documents in the order of a round, then their parts and mechanisms, as Markdown."""
    documents = [
        value
        for _, value in inspect.getmembers(models, _is_model)
        if value.__module__ == models.__name__
    ]
    documents.sort(key=lambda model: inspect.getsourcelines(model)[1])
    signed = [model for model in documents if issubclass(model, Document)]
    parts = [Signed, *(model for model in documents if model not in signed)]
    return "\n".join(
        [
            "## Signed documents\n",
            *(_section(model, f"`{model.label}`") for model in signed),
            "## Parts, and what is not signed by itself\n",
            *(_section(model, model.__name__) for model in parts),
            "## Mechanisms\n",
            *(_section(model, f"`{name}`") for name, model in MECHANISMS.items()),
        ]
    )


def _is_model(value: object) -> bool:
    return (
        inspect.isclass(value)
        and issubclass(value, msgspec.Struct)
        and not value.__name__.startswith("_")
    )


def _section(model: type[msgspec.Struct], title: str) -> str:
    hints = get_type_hints(model)
    rows = [_row(field, hints[field.name]) for field in msgspec.structs.fields(model)]
    return "\n".join([f"### {title}\n", inspect.getdoc(model) or "", "", *rows, ""])


def _row(field: msgspec.structs.FieldInfo, hint: object) -> str:
    default = "" if field.required else f"; default {_default(field)}"
    return f"* `{field.encode_name}`: {words(hint)}{default}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.UNSET:
        return "absent"
    return "empty" if field.default is msgspec.NODEFAULT else f"`{to_json(field.default).decode()}`"


def words(hint: object) -> str:
    """A type in terms of JSON, such as "list of Party, or null"."""
    if get_origin(hint) is tuple:
        return f"list of {words(get_args(hint)[0])}"
    if set(MECHANISMS.values()) <= set(get_args(hint)):
        return "one of the [mechanisms](#mechanisms)"
    if get_origin(hint) in {Union, UnionType, Literal}:
        options = [option for option in get_args(hint) if option is not msgspec.UnsetType]
        return " or ".join(
            f"`{option}`" if isinstance(option, str) else words(option) for option in options
        )
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return " or ".join(f"`{member.value}`" for member in hint)
    if _is_model(hint):
        return _link(hint)
    return (
        _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
        if isinstance(hint, type)
        else str(hint)
    )


def _link(model: object) -> str:
    name = getattr(model, "__name__", "")
    is_documented = getattr(model, "__module__", "") in {models.__name__, Signed.__module__}
    return f"[{name}](#{name.lower()})" if is_documented else name
