"""Frequent texts: every statement about them, checked over all hashes that a text may have."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_core.answering.strings import (
    FOUND,
    ColumnCounts,
    OpenListAnswer,
    at_least,
    find_strings,
)
from shuffledp_core.documents.open_list import SymbolHashes
from shuffledp_core.errors import UsageError

TWO = SymbolHashes(salt="00" * 16, columns=2, bits=4)
THREE = SymbolHashes(salt="00" * 16, columns=3, bits=4)


@cache
def texts_of(hashes: SymbolHashes) -> tuple[str, ...]:
    """A text for every symbol."""
    texts: dict[int, str] = {}
    number = 0
    while len(texts) < hashes.size:
        texts.setdefault(hashes.locate(str(number)), str(number))
        number += 1
    return tuple(texts[symbol] for symbol in range(hashes.size))


def board(hashes: SymbolHashes, seed: int) -> NDArray[np.float64]:
    """Counts that have noise, light texts, and a few heavy ones; no two are alike."""
    rng = np.random.default_rng(seed)
    counts = rng.normal(3, 4, sum(hashes.shape))
    heavy = rng.integers(0, hashes.size, 2)
    cells = hashes.cells_of(heavy) + np.arange(hashes.columns)[:, np.newaxis] * hashes.shape[0]
    np.add.at(counts, cells, 60.0)
    return counts


def add_people(
    hashes: SymbolHashes, counts: NDArray[np.float64], text: str, people: int
) -> NDArray[np.float64]:
    added = counts.copy()
    cells = hashes.cells_of(np.array([hashes.locate(text)]))[:, 0]
    added[cells + np.arange(hashes.columns) * hashes.shape[0]] += people
    return added


def look_up(
    hashes: SymbolHashes, counts: NDArray[np.float64], text: str, most_false: float
) -> OpenListAnswer:
    return find_strings(hashes, counts.tolist(), 1000, [text], most_false)


@pytest.mark.parametrize("hashes", [TWO, THREE])
@pytest.mark.parametrize("seed", range(5))
def test_the_expected_number_of_false_texts_is_exact(hashes: SymbolHashes, seed: int) -> None:
    # Over all hashes a text has each one once: as many are listed as are expected.
    counts = board(hashes, seed).tolist()
    answer = find_strings(hashes, counts, 1000, texts_of(hashes), 0.05 * hashes.size)
    assert len(answer.texts) == pytest.approx(answer.expected_false, rel=1e-12)
    assert 0 < len(answer.texts) <= 0.05 * hashes.size


@pytest.mark.parametrize("seed", range(3))
def test_a_text_of_enough_people_is_listed_as_often_as_stated(seed: int) -> None:
    hashes = TWO
    counts = board(hashes, seed)
    least = look_up(hashes, counts, "any", 0.2).least
    assert least is not None
    listed = [
        bool(look_up(hashes, add_people(hashes, counts, text, least), text, 0.2).texts)
        for text in texts_of(hashes)
    ]
    assert np.mean(listed) >= FOUND
    fewer = [
        bool(look_up(hashes, add_people(hashes, counts, text, least // 3), text, 0.2).texts)
        for text in texts_of(hashes)
    ]
    assert np.mean(fewer) < FOUND


@pytest.mark.parametrize(("hashes", "seed"), [(TWO, 0), (TWO, 1), (TWO, 2), (THREE, 3)])
def test_intervals_contain_the_truth_for_19_of_20_hashes(hashes: SymbolHashes, seed: int) -> None:
    counts = board(hashes, seed)
    people = 200  # so that the text is listed whatever its hash is
    covered = 0
    for text in texts_of(hashes):
        (measured,) = look_up(hashes, add_people(hashes, counts, text, people), text, 0.2).texts
        covered += measured.low <= people <= measured.high
        assert measured.low <= measured.people <= measured.high
    assert covered >= 0.95 * hashes.size


def test_the_probability_of_several_events_is_that_of_all_their_outcomes() -> None:
    shares = np.array([[0.1, 0.5], [0.2, 0.5], [0.7, 0.5]])
    expected = np.zeros((4, 2))
    for outcome in np.ndindex(2, 2, 2):
        happened = np.array(outcome)[:, np.newaxis]
        expected[sum(outcome)] += np.where(happened, shares, 1 - shares).prod(axis=0)
    for needed in range(4):
        assert at_least(shares, needed) == pytest.approx(expected[needed:].sum(axis=0))


def test_without_noise_the_texts_are_listed_in_order_with_their_numbers() -> None:
    hashes = SymbolHashes(salt="11" * 16, columns=3, bits=10)
    held = {"b": 300, "a": 200, "c": 200, "rare": 1}
    counts = np.zeros(sum(hashes.shape))
    for text, people in held.items():
        counts = add_people(hashes, counts, text, people)
    candidates = [*held, " a ", "b", "", "absent"]
    answer = find_strings(hashes, counts.tolist(), 701, candidates)
    assert [(text.text, text.people) for text in answer.texts][:3] == [
        ("b", 300),
        ("a", 200),
        ("c", 200),
    ]
    assert answer.candidates == 5
    assert all(text.text != "absent" for text in answer.texts)


def test_too_many_candidates_list_nothing_and_say_so() -> None:
    hashes = SymbolHashes(salt="11" * 16, columns=1, bits=4)
    counts = np.arange(16.0)
    answer = find_strings(hashes, counts.tolist(), 100, [str(number) for number in range(1000)])
    assert answer.texts == ()
    assert answer.threshold is None
    assert answer.least is None


@pytest.mark.parametrize(("candidates", "most_false"), [([""], 0.05), (["a"], 0.0), (["a"], -1.0)])
def test_impossible_questions_are_refused(candidates: list[str], most_false: float) -> None:
    with pytest.raises(UsageError):
        find_strings(TWO, [0.0] * 32, 10, candidates, most_false)


def test_cells_are_counted_with_all_that_are_alike() -> None:
    columns = ColumnCounts(SymbolHashes(salt="00" * 16, columns=1, bits=4), [1.0] * 8 + [2.0] * 8)
    assert columns.reaching(np.array([1.0, 1.5, 2.0, 3.0])).tolist() == [[1.0, 0.5, 0.5, 0.0]]
    assert columns.below(np.array([1.0, 2.0]), more=1).tolist() == [[1 / 16, 9 / 16]]
