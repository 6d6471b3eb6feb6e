"""Lab 2, "What the wire tells": write the four functions below.

`shuffledp lab check 2` says how far you are.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction


def infer_answers(flows: tuple[tuple[str, int], ...], wire: dict[str, int]) -> dict[str, int]:
    """Step B: infer every client's answer from the number of bytes it sent to node 1.

    Args:
        flows: (client, bytes) of every connection, in no order. A connection may have broken off:
            the client then connects again and sends the same envelope from its beginning.
        wire: what everyone knows: "hops" L, "symbol" and "tag" (bytes of each in a message),
            "layer" (bytes that one layer of encryption adds), "connection" (least bytes of a whole
            connection besides the envelope), "jitter" (most bytes that it may have more).

    Returns:
        The answer of each client, by name; nothing ({}) where lengths tell nothing.
    """
    raise NotImplementedError


def encode(answer: int, messages: int, random: Callable[[int], bytes]) -> list[bytes]:
    """Step C: the plain messages of one user, exactly `messages` of them for every answer.

    A message is one byte, 1 or 0, and a tag of 16 bytes; as many messages carry a 1 as `answer`
    says.

    Args:
        answer: from 0 to `messages`; raise ValueError for any other.
        messages: m, the same for everyone.
        random: `random(n)` gives n fresh random bytes. Use no other randomness.
    """
    raise NotImplementedError


def decode(board: tuple[bytes, ...]) -> int:
    """Step C: the sum of all answers on the board, for messages in any order, of any users.

    Raise ValueError if something on it is no message: another length, or another first byte than 0
    and 1.
    """
    raise NotImplementedError


def far_user(
    board: tuple[int, ...] | bytes, public: dict[str, int | str | Fraction]
) -> bool | None:
    """Step D: does the one user hold `far` (True) or 0 (False)? None: this round cannot tell.

    All others hold 0.

    Args:
        board: what left the shuffle. "numbers": every user's value plus its noise. "bits": the same
            numbers, `padding` added, as ones among `messages` bits of each user; one byte, 1 or 0,
            for each bit.
        public: "shuffled" ("numbers" or "bits"), "users", "far", "rate" (a Fraction: a user's noise
            is j with a probability proportional to e^(-rate |j|)), "padding" and "messages" (of the
            bits).
    """
    raise NotImplementedError
