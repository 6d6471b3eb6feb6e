"""The local randomiser that certificates are about: from a user's value to an answer.

A histogram's answer is a symbol; a sum's answer is the number of ones in the user's unary code, or
a noisy value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.sampling.arrays import RandomArrays

Recall: TypeAlias = Callable[[str, Callable[[], int]], int]
"""The response kept under a name, drawn and kept first where there is none."""

PIECE: Final = 2**15
"""Users who are drawn at once in bulk: what they need stays in a processor's cache, and memory
bounded.
"""


def randomise(
    spec: Mechanism, value: int, integers: RandomIntegers, recall: Recall | None = None
) -> int:
    """The randomised answer of a user who holds `value`.

    Args:
        spec: the mechanism, as certified.
        value: the user's own value, in {0..spec.domain-1}.
        integers: the source of randomness.
        recall: gives the response that a device keeps under a name, drawn by the function if there
            is none yet; None for a user who is asked once. Only for mechanisms with `remembered`.

    Returns:
        What `spec.say` turns into messages: the symbol to send (k-RR), how many of the
        `spec.messages_per_user` bits
        are one, or the noisy value modulo q (sums).

    Raises:
        UsageError: the value is outside the domain. The message names the range only: errors are
            logged, and the value is the user's secret.
    """
    # To Python True is the integer 1: a device that meant "yes" would answer another question.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < spec.domain:
        raise UsageError(
            f"the value must be a whole number from 0 to {spec.domain - 1}: this round's "
            "mechanism accepts no other"
        )
    name = spec.response_name
    if name is None or recall is None:
        return spec.sample(value, integers)
    return spec.report(recall(name, lambda: spec.remember(value, integers)), integers)


def randomise_in_bulk(
    spec: Mechanism, values: NDArray[np.int64], arrays: RandomArrays
) -> NDArray[np.int64]:
    """The randomised answers of many users, independent and with exactly the law of `randomise`.

    For simulated users, audits and experiments. A device randomises its one value by `randomise`.

    Args:
        spec: the mechanism, as certified.
        values: any shape, each in {0..spec.domain-1}.
        arrays: the source of randomness.

    Returns:
        Like `randomise`, in the shape of `values`.

    Raises:
        UsageError: values that are not whole numbers, or outside the domain.
    """
    import numpy as np

    given = np.asarray(values)
    if given.dtype.kind not in "iu" or (
        given.size and not 0 <= int(given.min()) <= int(given.max()) < spec.domain
    ):
        raise UsageError(
            f"values must be whole numbers from 0 to {spec.domain - 1}: this round's mechanism "
            "accepts no others"
        )
    flat = given.ravel()
    answers = np.empty(given.size, dtype=np.int64)
    for start in range(0, given.size, PIECE):
        piece = flat[start : start + PIECE].astype(np.int64)
        answers[start : start + PIECE] = spec.sample_all(piece, arrays)
    return answers.reshape(given.shape)
