"""Two neighbouring datasets, and how strongly an answer speaks for one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.audit.sampling import Dataset
from shuffledp_adversary.evidence import number_outcomes
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Answers, Mechanism


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two datasets that differ in user 0, who holds `value` or `changed`.

    `others` are the values of all other users.
    """

    value: int
    changed: int
    others: int
    users: int

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """Both datasets, the changed user first."""
        rest = (self.others,) * (self.users - 1)
        return (self.value, *rest), (self.changed, *rest)

    @property
    def distance(self) -> int:
        """Distance by which the value changes."""
        return abs(self.changed - self.value)


def worst_looking(spec: Mechanism, users: int, value: int, changed: int) -> Neighbours:
    """Datasets with the other users as in the accountant's attained bound (K5, S9, S10).

    A histogram: all at one third symbol, or at the first user's where there are but two. A sum: all
    at 0.

    Raises:
        UsageError: a value outside the domain, or the same value twice.
    """
    for candidate in (value, changed):
        if not 0 <= candidate < spec.domain:
            raise UsageError(
                f"values must be from 0 to {spec.domain - 1}, the mechanism's domain, "
                f"not {candidate}"
            )
    if value == changed:
        raise UsageError(
            f"the two values must differ: {value} and {changed} give the same dataset, not two "
            "neighbours"
        )
    if users < 1:
        raise UsageError(f"users must be at least 1, not {users}")
    others = 0
    if spec.answers is Answers.HISTOGRAM:
        others = next(
            (other for other in range(spec.domain) if other not in {value, changed}), value
        )
    return Neighbours(value, changed, others, users)


def outcomes(
    spec: Mechanism, pair: Neighbours, counts: list[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Published answers in each trial of both datasets, as whole numbers.

    They are the input of `evidence.epsilon_bound`. The estimator runs once for each different
    outcome.

    Args:
        spec: the mechanism that ran.
        pair: the two datasets on which it ran.
        counts: counts on both datasets, each of shape (trials, spec.cells).
    """
    rows, row_of_trial = _distinct(counts)
    nodes = 1 if spec.dummies_per_node else 0
    answers = np.array([estimate(spec, row, pair.users, nodes=nodes).values for row in rows])
    codes = rank_answers(answers, pair)[row_of_trial]
    return codes[: len(counts[0])], codes[len(counts[0]) :]


def rank_answers(answers: NDArray[np.float64], pair: Neighbours) -> NDArray[np.int64]:
    """Number the answers in order of their evidence for the change, equal answers equally.

    For a histogram the evidence is the estimate for the changed value minus that for the first
    value; for a sum it is the sum. So the tails of the order are sensible events, and the
    likelihood-ratio events are as fine as the answers.
    """
    statistic = (
        answers[:, 0]
        if answers.shape[1] == 1
        else answers[:, pair.changed] - answers[:, pair.value]
    )
    _, codes = np.unique(np.column_stack((statistic, answers)), axis=0, return_inverse=True)
    return codes.ravel().astype(np.int64)


def _distinct(counts: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct rows of both arrays, and the index of each row among them.

    Rows have one sum: the first count is redundant.
    """
    base = int(counts[0][0].sum()) + 1
    width = counts[0].shape[1] - 1
    # A row is written as one number, with the counts as digits below `base`: one-to-one while it
    # fits into 63 bits.
    if base**width >= 2**63:
        rows, row_of_trial = np.unique(np.concatenate(counts), axis=0, return_inverse=True)
        return rows, row_of_trial.ravel()
    digits = base ** np.arange(width, dtype=np.int64)
    present, row_of_trial = number_outcomes(
        np.concatenate([array[:, 1:] @ digits for array in counts])
    )
    # Any trial of an outcome stands for all of them.
    last = np.zeros(len(present), dtype=np.int64)
    last[row_of_trial] = np.arange(len(row_of_trial))
    first, second = counts
    rows = np.where(
        (last < len(first))[:, np.newaxis], first[last % len(first)], second[last % len(second)]
    )
    return rows, row_of_trial
