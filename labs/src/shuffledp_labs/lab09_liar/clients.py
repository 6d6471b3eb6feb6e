"""Clients behind one function that hides their code: shuffledp's samplers, some faulty."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, Spec
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws

Answer = Callable[[int, RandomIntegers], int]


@dataclass(frozen=True)
class Client:
    """A client that claims to run `spec`.

    `answer` is what it really runs, `fault` says how it differs.
    """

    spec: Spec
    answer: Answer
    fault: str = ""

    @property
    def claim(self) -> tuple[int, int, float, float]:
        """Two values, and the certified (ε_L, δ) of one user's answers to them."""
        from shuffledp_privacy.bounds import Setting, corrupted_bounds

        bounds = corrupted_bounds(self.spec, Setting(1, 1), 0.0)
        return 0, self.spec.domain - 1, bounds.epsilon, bounds.delta


def honest(spec: Spec) -> Client:
    """A client that runs the mechanism it claims."""
    return Client(spec, spec.sample)


def blanket_halved(spec: KRRHistogram) -> Client:
    """A client that replaces its value by noise half as often."""
    return Client(
        spec, msgspec.structs.replace(spec, blanket=spec.blanket / 2).sample, "half the blanket"
    )


def noise_halved(spec: GeoShuffle) -> Client:
    """A client that adds half the noise."""
    return Client(
        spec,
        msgspec.structs.replace(spec, epsilon_geo=2 * spec.epsilon_geo).sample,
        "half the noise",
    )


def coin_not_flipped(spec: RRShuffle) -> Client:
    """A client that sends 0 for every bit that a fair coin should replace."""
    keep = 1 - spec.randomise

    def answer(value: int, integers: RandomIntegers) -> int:
        return sum(integers.below(keep.denominator) < keep.numerator for _ in range(value))

    return Client(spec, answer, "a coin never flipped")


def improbable(answers: int, chance: float) -> Client:
    """A client whose `answers` answers have no noise, an event of probability `chance`.

    Its claim allows for that: no sound audit at a higher confidence accuses it.
    """
    flip = -math.expm1(math.log(chance) / answers)
    spec = RRShuffle(max_value=1, randomise=Fraction(2 * flip).limit_denominator(10**9))
    return Client(spec, lambda value, _: value)


class SealedClients:
    """All clients of one check, accessible only through `ask`.

    Their answers come from the check's draws alone, so that a replay gives the same.
    """

    def __init__(self, clients: dict[str, Client], draws: Draws, most: int) -> None:
        self.clients, self.most = clients, most
        self.answer_counts: Counter[str] = Counter()
        self._integers = RandomIntegers(_stream(draws.bytes(32)))

    @property
    def claims(self) -> dict[str, tuple[int, int, float, float]]:
        """Each client's claim about itself."""
        return {name: client.claim for name, client in self.clients.items()}

    def ask(self, *question: Any) -> tuple[int, ...]:
        """`ask(name, value, count)`: `count` fresh answers of a client that holds this value.

        Raises:
            CheckFailure: there is no such client or value, or the client gives fewer answers.
        """
        if len(question) != 3 or type(question[0]) is not str or question[0] not in self.clients:
            raise CheckFailure(
                "ask takes the name of a client, a value and a number of answers; see step D"
            )
        name, value, count = question
        client = self.clients[name]
        if type(value) is not int or not 0 <= value < client.spec.domain:
            raise CheckFailure(f"{name} was asked about a value that it cannot hold; see step D")
        if type(count) is not int or not 0 <= count <= self.most - self.answer_counts[name]:
            raise CheckFailure(
                f"{name} gives at most {self.most} answers, half of them to each value; see step D"
            )
        self.answer_counts[name] += count
        return tuple(client.answer(value, self._integers) for _ in range(count))


def _stream(seed: bytes) -> Callable[[int], bytes]:
    """A deterministic byte source: SHAKE-256 of a drawn seed and a counter."""
    blocks = 0

    def next_bytes(size: int) -> bytes:
        nonlocal blocks
        blocks += 1
        return hashlib.shake_256(seed + blocks.to_bytes(8, "big")).digest(size)

    return next_bytes


def draw_krr(draws: Draws) -> KRRHistogram:
    """k-RR with ε0 from about 1 to 2."""
    return KRRHistogram(symbols=draws.integer(3, 5), blanket=Fraction(draws.integer(50, 65), 100))


def draw_response(draws: Draws) -> RRShuffle:
    """One bit, replaced by a fair coin with probability .4 to .65."""
    return RRShuffle(max_value=1, randomise=Fraction(draws.integer(40, 65), 100))


def draw_geo(draws: Draws) -> GeoShuffle:
    """A number up to 2 with two-sided geometric noise; ε_L from .8 to 1.6."""
    return GeoShuffle(max_value=2, epsilon_geo=Fraction(draws.integer(40, 80), 100), padding=12)
