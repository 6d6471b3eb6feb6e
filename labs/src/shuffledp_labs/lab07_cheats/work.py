"""Lab 7, "The node that cheats": write the functions below.

`shuffledp lab check 7` shows your progress.

PyNaCl is there: `nacl.public.SealedBox(nacl.public.PublicKey(key)).encrypt(data)` seals to a node's
round key, `nacl.signing.VerifyKey(key).verify(data, signature)` raises
`nacl.exceptions.BadSignatureError`.
"""

from __future__ import annotations

from typing import Any


def tamper(pool: dict[str, Any]) -> list[bytes]:
    """Step B: the batch that your node sends instead of its honest output.

    Args:
        pool: "records" (a tuple of bytes: the output, peeled and mixed), "position" (your node's,
            from 1), "hops" (L), "keys" (round keys of the nodes behind yours, 32 bytes each, in the
            order of the route; none at the last), "symbol_bytes" and "tag_bytes" (a plain message
            is a symbol, big endian, and a tag), "symbol" (what the adversary wants more of) and
            "wanted" (how many of the records are to be exchanged for messages with it).

    Returns:
        As many records, `wanted` of them exchanged and the others unchanged, so that no node can
        notice.
    """
    raise NotImplementedError


def check_board(
    receipts: dict[str, str], board: bytes, mine: dict[str, tuple[bytes, tuple[bytes, ...]]]
) -> dict[str, dict[int, str]]:
    """Step C: the users who may complain about a published board, and their reasons.

    Args:
        receipts: by user, SHA-256 (hex) of the envelope that the entry node acknowledged; some
            users have none.
        board: all plain messages, concatenated; all messages of a round have the same length.
        mine: by user, the envelope that it sent and the plain messages in it; a tag is the last 16
            bytes of a message.

    Returns:
        For every user whose own envelope was acknowledged: {index of the message: what happened to
        it}: "missing" if its tag is not on the board, "changed" if it is there once with another
        symbol, "doubled" if it is there more than once. Messages that are there once and unchanged,
        and users without a reason, are left out.
    """
    raise NotImplementedError


def evidence(stored: dict[str, Any], board: bytes) -> dict[str, Any] | None:
    """Step D: the evidence with which a user convicts the route before a stranger.

    None if the stranger would not be convinced.

    Args:
        stored: all that the user's device stored: "round" (its id, hex), "entry" and "entry_key"
            (name and Ed25519 key, 32 bytes, of the entry node), "analyst_key" (32 bytes),
            "envelope", "messages", the signed documents "announcement", "credential", "claim",
            "receipt" (None: none came) and "result" as JSON text, the secrets "symbols" and "seed"
            from which tags and seals are made, and the secrets "value" and "private_key", which no
            one else ever needs.
        board: the board that the user received.

    Returns:
        A dict with exactly "announcement", "credential", "claim", "receipt", "result", "symbols"
        and "seed", or None.
    """
    raise NotImplementedError


def verdict(seen: dict[str, Any]) -> int | None:
    """Step E: the node that the next party of a verified round names after checking its input.

    Args:
        seen: "enrolled" (a tuple of credentials), "min_reports" (how many users the round needs),
            "messages" (of each user), "claims" (node 1's list: a tuple of dicts with "credential"
            and "keys", a tuple of bytes), "headers" (of node 1, node 2 .. up to the node before
            you: dicts with "count" of records, "root" and "sum"), "records" (the batch of the node
            before you; the first 32 bytes of each are its key); and four functions:
            `seen["signed"](place)`: is header `place` (1 is node 1's), or for 0 the list, signed as
            it came? `seen["proved"](place, sum)`: does header `place` prove that its sum is this
            one, blinded? `seen["add"](keys)`: the sum of keys, bytes. `seen["root"](records)`: the
            root over records, bytes.

    Returns:
        None: nothing is wrong, and the round goes on. A position from 1: this node signed something
        false, and is named. 0: the round stops and no node is named, because what you received is
        not what a node signed.
    """
    raise NotImplementedError
