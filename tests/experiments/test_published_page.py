"""The page docs/published-against-true.md: every command is one, every experiment exists, the
numbers are true."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from scipy.stats import binom
from typer.main import get_command

from shuffledp.cli import app
from shuffledp.commands.questions import krr_histogram
from shuffledp_core.mechanisms import RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_experiments.entry import Verdict
from shuffledp_experiments.registry import experiments
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.histogram.published import corrected_marginal, published_theorem_1
from shuffledp_privacy.sums import sgdl
from shuffledp_privacy.sums.clamping import sgdl_any_clamped

PAGE: Final = Path(__file__).parents[2] / "docs" / "published-against-true.md"


def typed_commands() -> Iterator[str]:
    """Every command on the page, in boxes and in running text."""
    text = PAGE.read_text()
    for line in text.splitlines():
        if line.startswith("    shuffledp "):
            yield line.strip()
    yield from re.findall(r"`(shuffledp [^`]+)`", text)


def resolve(line: str) -> tuple[list[str], Any]:
    """The names of the command and its parsed context.

    Raises for a command or an option that there is not.
    """
    words = shlex.split(line)[1:]
    command: Any = get_command(app)
    context, names = typer.Context(command, info_name="shuffledp"), []
    while words and hasattr(command, "get_command"):
        names.append(words.pop(0))
        command = command.get_command(context, names[-1])
        assert command is not None, line
        context = typer.Context(command, info_name=names[-1], parent=context)
    # In running text a command may be named alone, without what it needs.
    return names, command.make_context(names[-1], words, parent=context) if words else None


def test_the_page_has_commands() -> None:
    assert len(list(typed_commands())) > 15


@pytest.mark.parametrize("line", sorted(set(typed_commands())))
def test_every_command_of_the_page_is_one(line: str) -> None:
    names, context = resolve(line)
    if names == ["reproduce"]:
        ids = {
            *experiments(),
            *(alias for entry in experiments().values() for alias in entry.aliases),
        }
        assert context is not None
        assert set(context.params["ids"]) <= ids


def test_everything_that_an_experiment_may_judge_false_is_named() -> None:
    named = set(re.findall(r"\b(?:00\d-[a-z]\d+|n\d+)\b", PAGE.read_text()))
    judged = [
        {entry.id, *entry.aliases}
        for entry in experiments().values()
        if Verdict.FALSE in entry.verdicts
    ]
    assert len(judged) > 30
    assert [sorted(ids) for ids in judged if not ids & named] == []


def test_every_statement_has_a_command_that_shows_it() -> None:
    for section in PAGE.read_text().split("\n## ")[1:-1]:
        assert "    shuffledp " in section, section.splitlines()[0]


def test_every_statement_says_what_is_printed_what_is_true_why_and_what_to_use() -> None:
    sections = [
        part
        for part in PAGE.read_text().split("\n## ")[1:]
        if part.startswith(("Biswas", "Athan", "Lecture"))
    ]
    assert len(sections) == 7
    for section in sections:
        for word in (
            "**What is printed.**",
            "**What is true.**",
            "**Why it went wrong.**",
            "**What to use instead.**",
        ):
            assert word in section, section.splitlines()[0]


def metric(users: int) -> Setting:
    return Setting(users, users, Adjacency.METRIC)


def shared(padding: int) -> SGDLShuffle:
    return SGDLShuffle(max_value=1000, noise_epsilon=Fraction(1, 10), shares=1000, padding=padding)


def test_the_numbers_of_the_histogram() -> None:
    spec, _ = krr_histogram(10, 2.0)
    bounds = delta_bounds(spec, Setting(100, 100), 0.1)
    assert f"{published_theorem_1(100, 80, 10, 2.0, 0.1):.2e}" in {"2.48e-15", "2.49e-15"}
    assert f"{bounds.certified:.2e}" == f"{bounds.attained:.2e}" == "5.02e-02"
    assert f"{corrected_marginal(100, 80, 10, 2.0, 0.1):.2e}" == "6.15e-03"


def test_the_numbers_of_rr_shuffle() -> None:
    bounds = epsilon_bounds(
        RRShuffle(max_value=1000, randomise=Fraction("0.06654")), metric(23), 1e-4
    )
    assert bounds.published == pytest.approx(0.5, abs=1e-3)
    assert f"{bounds.attained:.2f}" == f"{bounds.certified:.2f}" == "1.21"
    assert f"{math.log((2 - 0.393) / 0.393):.3f}" == "1.408"
    single_bit = epsilon_bounds(
        RRShuffle(max_value=1, randomise=Fraction("0.0055262")), Setting(10_000, 10_000), 1e-6
    )
    assert f"{single_bit.attained:.3f}" == "1.187"
    assert math.log(1e6) / (10_000 * 0.5**2) == pytest.approx(0.0055262, rel=1e-5)


def test_the_numbers_of_sgdl_shuffle() -> None:
    noise = Fraction(1, 10)
    assert sgdl.published_padding(noise, 1000, 1e-4) == 4
    assert f"{sgdl_any_clamped(noise, 1000, 4, 1000):.3f}" == "0.713"
    assert sgdl_any_clamped(noise, 1000, 77, 1000) <= 1e-4 < sgdl_any_clamped(noise, 1000, 76, 1000)
    assert epsilon_bounds(shared(4), metric(1000), 1e-4).attained > 0.469
    assert epsilon_bounds(shared(77), metric(1000), 1e-4).attained > 0.1095
    assert epsilon_bounds(shared(1066), metric(1000), 1e-4).certified <= 0.1 * (1 + 1e-6)


def test_the_numbers_of_the_averaging_attack() -> None:
    assert f"{3.0**-50:.2e}" == "1.39e-24"
    assert f"{binom.pmf(75, 100, 0.25):.1e}" == "1.3e-25"
    assert binom.pmf(75, 100, 0.25) / binom.pmf(75, 100, 0.75) == pytest.approx(3.0**-50)
