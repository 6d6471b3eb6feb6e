"""Lab 4, Follow the onion: write the functions of an adversary with corrupt nodes' logs.

The handout is README.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

# You will want hashlib.sha256.


def link(logs: dict[int, Any], board: list[bytes]) -> list[int]:
    """Step B: the sender of each message on the board, as far as the logs tell.

    For each message on the board: the user who sent it, or -1 where the logs do not prove it.

    Args:
        logs: logs of the corrupt nodes by position on the route, 1 first; other nodes have no log
            here. Each log has

            "permutation"   outgoing record i was record permutation[i] of the node's pool. At node
                            1 the pool holds
                            the messages of user 0, then those of user 1, and so on; elsewhere it is
                            what came in.
            "incoming"      first 16 bytes of the SHA-256 of everything that came in, in its order
                            (node 1: envelopes)
            "outgoing"      the same for everything that left, in its order
            "messages"      a number: how many messages every user sends

        board: the published messages.
    """
    raise NotImplementedError


def who_slept(logs: dict[int, Any], board: list[bytes], trails: list[list[bytes]]) -> int:
    """Step C: position of the node without a log that did not shuffle, or 0 if all did.

    That node forgot to mix and kept the order of its batch.

    Args:
        logs: as in `link`; never without node 1, and no two neighbours are missing.
        board: the published messages.
        trails: the messages of your own accomplices, who remember what they sent: trails[j][p - 1]
            is the digest (16 bytes, as in the logs) of what message j was when it left node p; the
            last one is as on the board.
    """
    raise NotImplementedError


def guess(answers: list[int | None], prior: list[Fraction], spec: dict[str, Any]) -> list[int]:
    """Step D: the likeliest value of each user.

    Args:
        answers: each user's randomised answer where you linked all its messages, None if you did
            not.
        prior: prior[x] is the share of users who hold x.
        spec: {"mechanism": "krr-histogram", "symbols": k, "blanket": g}: with probability g a
            uniform symbol of 0 .. k-1, else the value itself; or {"mechanism": "rr-shuffle",
            "max_value": k, "randomise": p}: a value x is x ones and k-x zeros, each of them flipped
            with probability p/2; the answer is the number of ones.
    """
    raise NotImplementedError
