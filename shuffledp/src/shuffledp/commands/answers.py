"""From a question to one frozen answer: both sides of the truth, what is left when all nodes are corrupt, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from shuffledp.commands.questions import Question
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_privacy.bounds import Bounds, Setting, corrupted_bounds, epsilon_bounds, standard_error
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.splitting import among_rounds

PUBLISHED: Final = "published:"
"""How a line of `basis` begins that explains the published number."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the accountant says to a question.

    Attributes:
        question: the question.
        certified: ε, never below the truth, nats; None where no finite bound is known.
        attained: ε that a concrete dataset is known to cost, never above the truth; None where unknown.
        published: what the paper's formula prints; None where it has none for this question.
        corrupted_epsilon: ε_L over all rounds when every node is corrupt; None for no bound.
        corrupted_delta: its δ.
        messages: per user and round; None where the spec does not say.
        error: standard error of one round's estimate; None for mechanisms without an estimator here.
        basis: what the numbers rest on, and notes, in words.
    """

    question: Question
    certified: float | None
    attained: float | None
    published: float | None
    corrupted_epsilon: float | None
    corrupted_delta: float
    messages: int | None
    error: float | None
    basis: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The keys of `--format json`; infinite and unknown numbers are None."""
        asked = self.question
        return {
            "mechanism": asked.kind,
            "parameters": asked.parameters,
            "users": asked.setting.users,
            "honest": asked.setting.honest,
            "adjacency": asked.setting.adjacency.value,
            "max_distance": asked.max_distance,
            "rounds": asked.rounds,
            "delta": asked.delta,
            "epsilon": {"certified": self.certified, "attained": self.attained, "published": self.published},
            "corrupted": {"epsilon": self.corrupted_epsilon, "delta": self.corrupted_delta},
            "messages_per_user": self.messages,
            "standard_error": self.error,
            "basis": list(self.basis),
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """Three numbers and their reasons, before they are dressed."""

    certified: float
    attained: float | None
    published: float | None
    basis: tuple[str, ...]


def answer(question: Question) -> Answer:
    """The answer; an impossible guarantee is an answer too, with a sentence in `basis`.

    Raises:
        UsageError: a parameter is outside the analysis' range.
    """
    local = _local(question)
    shuffled = _shuffled(question, local)
    found = _unshuffled(question, local, shuffled) if question.all_corrupt else shuffled
    notes = [*question.notes, *found.basis, *_nodes(question), *_gain(question, local, found)]
    notes += [f"all nodes corrupt: {line}" for line in local.basis]
    return Answer(
        question=question,
        certified=_finite(found.certified),
        attained=_finite(found.attained),
        published=_finite(found.published),
        corrupted_epsilon=_finite(local.epsilon),
        corrupted_delta=local.delta,
        messages=getattr(question.spec, "messages_per_user", 1),
        error=_error(question),
        basis=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Local:
    """(ε_L, δ_L) of all rounds together."""

    epsilon: float
    delta: float
    basis: tuple[str, ...]


def _local(question: Question) -> _Local:
    """Basic composition of the local guarantee over the rounds, rounded up."""
    rounds = question.rounds
    try:
        one = corrupted_bounds(question.spec, question.setting, among_rounds(question.delta, rounds))
    except CannotCertify as refusal:
        return _Local(math.inf, 0.0, (f"no guarantee: {refusal}",))
    if rounds == 1:
        return _Local(one.epsilon, one.delta, one.basis)
    outward = 1 + 2.0**-50
    basis = (*one.basis, f"basic composition: {rounds} times the ε_L of one round")
    return _Local(one.epsilon * rounds * outward, min(1.0, one.delta * rounds * outward), basis)


def _shuffled(question: Question, local: _Local) -> _Found:
    """The shuffle guarantee, whoever is corrupt."""
    try:
        bounds = _single(question, local)
    except CannotCertify as refusal:
        return _Found(math.inf, None, None, (f"no finite epsilon can be certified: {refusal}",))
    basis = bounds.basis
    if math.isinf(bounds.certified):
        basis = (*basis, "no finite epsilon can be certified for these parameters")
    if question.rounds == 1:
        return _Found(bounds.certified, bounds.attained, bounds.published, basis)
    return _composed(question, bounds)


def _single(question: Question, local: _Local) -> Bounds:
    """One round at the whole δ. Where an analysis has no pure guarantee of its own, the local one stands in."""
    try:
        return epsilon_bounds(question.spec, question.setting, question.delta)
    except UsageError:
        if question.delta > 0 or local.delta > 0:
            raise
    epsilon = corrupted_bounds(question.spec, question.setting, 0.0).epsilon
    return Bounds(epsilon, 0.0, None, ("pure: the local guarantee, which shuffling cannot weaken",))


def _composed(question: Question, single: Bounds) -> _Found:
    rounds = question.rounds
    note = "attained: by a single round, which the rounds together cannot undercut"
    try:
        certified = compose_epsilon([Round(question.spec, question.setting, rounds)], question.delta)
    except CannotCertify as refusal:
        return _Found(math.inf, single.attained, None, (f"no finite epsilon over {rounds} rounds: {refusal}", note))
    words = f"{rounds} rounds on the same people composed: privacy loss distributions, or pure guarantees added"
    kept = tuple(line for line in single.basis if not line.startswith(PUBLISHED))
    return _Found(certified, single.attained, None, (*kept, words, note))


def _unshuffled(question: Question, local: _Local, shuffled: _Found) -> _Found:
    """Every node corrupt: ε_L is the guarantee; what shuffled messages give away, these give away too."""
    certified = local.epsilon if local.delta <= question.delta else math.inf
    basis = ["every node is corrupt, so nothing is shuffled: the certified epsilon is the local one, eps_L"]
    if math.isinf(certified):
        basis.append(f"no finite epsilon can be certified at delta {question.delta:g} without a shuffler")
    alone = Setting(question.setting.users, 1, question.setting.adjacency, question.setting.max_distance)
    attained = shuffled.attained or 0.0
    try:
        attained = max(attained, epsilon_bounds(question.spec, alone, question.delta).attained)
        basis.append("attained: all other users' messages are known, this user's bits are not told apart")
    except (CannotCertify, UsageError):
        basis.append("attained: as with a shuffler, whose view is part of this one")
    return _Found(certified, min(attained, certified), None, tuple(basis))


def _nodes(question: Question) -> tuple[str, ...]:
    if not question.corrupt or question.all_corrupt:
        return ()
    listed = ", ".join(str(number) for number in sorted(question.corrupt))
    left = question.nodes - len(question.corrupt)
    return (
        f"node{'s' if len(question.corrupt) > 1 else ''} {listed} of {question.nodes} corrupt: {left} honest "
        f"node{'s' if left > 1 else ''} still shuffle{'' if left > 1 else 's'}, so the shuffle guarantee stands",
    )


def _gain(question: Question, local: _Local, found: _Found) -> tuple[str, ...]:
    """A warning where shuffling certifiably adds nothing to what each user has alone."""
    if question.all_corrupt or math.isinf(found.certified) or found.certified < local.epsilon * (1 - 1e-6):
        return ()
    padding = getattr(question.spec, "padding", None)
    cure = "" if padding is None else f"; padding = {padding} is too little for changes up to {question.max_distance}"
    return (f"the certified epsilon is no better than eps_L: no gain from shuffling can be certified here{cure}",)


def _error(question: Question) -> float | None:
    try:
        return _finite(standard_error(question.spec, question.setting.users))
    except UsageError:
        return None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
