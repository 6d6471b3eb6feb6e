"""Registry of all experiments, in the order of the papers, for command, docs and tests."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from shuffledp_experiments.entry import Experiment
from shuffledp_experiments.errors import UnknownExperimentError

PARTS: Final = {
    "biswas": "Biswas, Jung and Palamidessi 2022 and 2023: histograms by k-randomised response",
    "athanasiou": "Athanasiou et al. 2025: sums with metric privacy",
    "lecture": "Lecture notes on local and shuffled privacy",
    "koskela": "Koskela, Heikkilä and Honkela 2021: tight accounting in the shuffle model",
    "beyond": "Figures that none of them has",
}
"""A package for each paper: its `ENTRIES` are the experiments."""


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by id, in the order of `PARTS`."""
    by_id: dict[str, Experiment] = {}
    for part in PARTS:
        for entry in part_entries(part):
            if entry.id in by_id:
                raise ValueError(f"two experiments are called {entry.id}")
            by_id[entry.id] = entry
    return by_id


def part_entries(part: str) -> tuple[Experiment, ...]:
    """The experiments of one paper."""
    entries: tuple[Experiment, ...] = import_module(f"shuffledp_experiments.{part}").ENTRIES
    return entries


def experiment(name: str) -> Experiment:
    """The experiment with this id or alias.

    Raises:
        UnknownExperimentError: there is no such experiment; the message says where they are listed.
    """
    for entry in experiments().values():
        if name == entry.id or name in entry.aliases:
            return entry
    raise UnknownExperimentError(
        f"there is no table or figure {name!r}; `shuffledp reproduce --list` lists them"
    )
