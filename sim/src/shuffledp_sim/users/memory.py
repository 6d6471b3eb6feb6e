"""Memoised responses of simulated users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_client.responses import MOST_RESPONSES
from shuffledp_core.errors import ClientPolicyRefusal
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.sampling.randomness import RandomIntegers

_NONE: Final = -1
"""Of a user who was never asked; responses are from 0."""


class Memory:
    """The memoised responses of the users of one run, for one population.

    A user is its place among the values.

    They are in memory, and end with the run: a fleet that is started again plays other people.

    Args:
        users: number of users.
    """

    def __init__(self, users: int) -> None:
        self._users = users
        self._responses: dict[str, NDArray[np.int64]] = {}

    async def recall(
        self, pool: Executor, spec: Mechanism, first: int, values: Sequence[int]
    ) -> list[int] | None:
        """The memoised responses of some users; draws those that are missing.

        None if devices keep no responses of this mechanism.

        Args:
            pool: worker processes that draw them.
            spec: the round's mechanism.
            first: place of the first of these users; the others follow it.
            values: their values now; used only for users who were never asked.

        Raises:
            ClientPolicyRefusal: these users already keep the largest allowed number of responses.
        """
        name = spec.response_name
        if name is None:
            return None
        if name not in self._responses:
            if len(self._responses) >= MOST_RESPONSES:
                raise ClientPolicyRefusal(
                    f"the simulated users already keep {MOST_RESPONSES} responses, the maximum"
                )
            self._responses[name] = np.full(self._users, _NONE, dtype=np.int64)
        responses = self._responses[name][first : first + len(values)]
        unasked = np.flatnonzero(responses == _NONE)
        if unasked.size:
            unasked_values = [values[index] for index in unasked.tolist()]
            responses[unasked] = await asyncio.get_running_loop().run_in_executor(
                pool, draw_responses, spec, unasked_values
            )
        return [int(response) for response in responses]


def draw_responses(spec: Mechanism, values: Sequence[int]) -> list[int]:
    """Draw a fresh memoised response for each of these values."""
    integers = RandomIntegers()
    return [spec.remember(value, integers) for value in values]
