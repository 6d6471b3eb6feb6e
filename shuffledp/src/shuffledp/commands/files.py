"""Files that hold a plan: signed documents with a certificate, or JSON output of a command.

The commands are `certify` and `calibrate`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from shuffledp.plans import Plan, as_plan
from shuffledp.verification import verify
from shuffledp_core.documents.signed import decode_value
from shuffledp_core.errors import MalformedDocumentError, UsageError
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.files import read_file
from shuffledp_privacy.bounds import Setting


def plan_in(file: Path, *, roster: Path | None, root_key: str | None, key: str | None) -> Plan:
    """The plan in a file; in a result, the plan of its final certificate.

    A signed document is checked as `shuffledp verify` does. An answer is unsigned: only its
    parameters are read, and every number is computed again.

    Raises:
        ConfigError: a file or key cannot be read.
        DocumentError: a signature does not hold, a claim is too good, or the file holds no plan.
    """
    data = read_file(file, "document")
    answer = _answer(data)
    if answer is not None:
        return _plan_of_answer(answer, file)
    checked = verify(file, roster=roster, root_key=root_key, key=key)
    return as_plan(checked[-1].certificate)


def _answer(data: bytes) -> dict[str, Any] | None:
    """The unsigned JSON output of a command; None if the data is anything else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "parameters" in document else None


def _plan_of_answer(answer: dict[str, Any], file: Path) -> Plan:
    try:
        spec_type = MECHANISMS[answer["mechanism"]]
        parameters = {name: answer["parameters"][name] for name in spec_type.__struct_fields__}
        spec = msgspec.convert(
            {"mechanism": answer["mechanism"], **parameters}, spec_type, dec_hook=decode_value
        )
        adjacency = Adjacency(answer["adjacency"])
        setting = Setting(answer["users"], answer["honest"], adjacency, answer["max_distance"])
        return Plan(spec, setting, answer["delta"], answer["rounds"])
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise MalformedDocumentError(
            f"{file} is not JSON output of certify or calibrate: {error!r}"
        ) from error


def spread_times(files: Sequence[Path], times: Sequence[int]) -> list[int]:
    """Number of repetitions of each file; a single number applies to all files.

    Raises:
        UsageError: other than one number, or one for each file.
    """
    if len(times) not in {1, len(files)}:
        raise UsageError(
            f"give --times once for all files, or once for each of the {len(files)} files, not "
            f"{len(times)} times"
        )
    return list(times) * (len(files) if len(times) == 1 else 1)


def repeat_plans(plans: Sequence[Plan], times: Sequence[int]) -> list[Plan]:
    """Multiply each plan's number of rounds. Raises `UsageError` if it gets out of range."""
    return [
        replace(plan, rounds=plan.rounds * count) for plan, count in zip(plans, times, strict=True)
    ]
