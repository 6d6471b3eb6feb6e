"""Who is at fault: errors that begin with the party's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shuffledp_core.errors import ProofError, ShuffleDPError


def node(position: int, hops: int) -> str:
    """The party at a position: a node, or behind the last of them the analyst."""
    return f"node {position}" if position <= hops else "analyst"


def user(credential: bytes) -> str:
    """The user of a credential, by its public key."""
    return f"user {credential.hex()}"


@contextmanager
def at_fault(kind: type[ShuffleDPError], party: str) -> Iterator[None]:
    """Raises what is no element or does not hold inside as `kind`, with the party that gave it."""
    try:
        yield
    except ProofError as error:
        raise kind(f"{party}: {error}") from error
