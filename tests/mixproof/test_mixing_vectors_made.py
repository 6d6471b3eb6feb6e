"""tests/vectors/mixing.json is what the generator makes, and our own code reads it as the file
says."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mixing_cheats import spoiled_user
from mixing_model import CONTEXT, ENROLLED, NAMES, World, honest_users, route_keys, terms

from shuffledp_core import errors
from shuffledp_core.mixproof.blame import judge
from shuffledp_core.mixproof.chain import check_board, follow
from shuffledp_core.mixproof.claims import Claim, check_claim
from shuffledp_core.mixproof.evidence import (
    AccusedRecord,
    MovedKey,
    Moves,
    Origin,
    Passage,
    Step,
    Trace,
    Transcript,
)
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.keys import NodeKey, check_route

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS: dict[str, Any] = json.loads((FOLDER / "mixing.json").read_text())


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_mixing_vectors", FOLDER / "make_mixing_vectors.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def world() -> World:
    return World(users=(*honest_users()[:-1], spoiled_user(7, 3))).play()


def test_the_generator_makes_the_file_again(made: ModuleType) -> None:
    assert made.text() == (FOLDER / "mixing.json").read_text()


def raw(value: Any) -> Any:
    if isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(value, dict):
        return {name: raw(each) for name, each in value.items()}
    return tuple(raw(each) for each in value) if isinstance(value, list) else value


def transcript(value: dict[str, Any]) -> Transcript:
    """The transcript that `raw` gives in plain objects."""
    traces = tuple(
        Trace(
            AccusedRecord(**each["accused"]),
            tuple(Step(**step) for step in each["steps"]),
            Origin(**each["origin"]),
        )
        for each in value["traces"]
    )
    passages = tuple(
        Passage(
            each["credential"],
            tuple(Moves(moves(hop["moves"]), hop["signature"]) for hop in each["hops"]),
        )
        for each in value["passages"]
    )
    return Transcript(value["position"], traces, passages)


def moves(values: tuple[dict[str, Any], ...]) -> tuple[MovedKey, ...]:
    return tuple(MovedKey(**each) for each in values)


def test_our_code_reads_the_blame_of_the_file(world: World) -> None:
    (read,) = (transcript(raw(each)) for each in VECTORS["transcripts"])
    assert (
        judge(follow(terms(), world.listed, world.headers[:2], []).case, read)
        == world.analyst.chain.excluded
    )


@pytest.mark.parametrize(
    "defect", VECTORS["defects"], ids=lambda defect: f"{defect['of']}: {defect['what']}"
)
def test_our_code_refuses_every_defect_by_the_error_that_the_file_names(
    defect: dict[str, Any], world: World
) -> None:
    value = raw(defect["value"])
    read: dict[str, Callable[[], object]] = {
        "claim": lambda: check_claim(terms(), Claim(**value), ENROLLED),
        "header": lambda: follow(terms(), world.listed, [world.headers[0], Header(**value)], []),
        "board": lambda: check_board(
            terms(),
            world.listed,
            world.headers,
            world.transcripts,
            value["board"],
            value["board_signature"],
        ),
        "blame": lambda: judge(
            follow(terms(), world.listed, world.headers[:2], []).case, transcript(value)
        ),
        "key": lambda: check_route(CONTEXT, NAMES, [NodeKey(**value), *route_keys()[1][1:]]),
    }
    with pytest.raises(errors.by_code(defect["error"])):
        read[defect["of"]]()
