"""Names of the parties at fault, with which error messages begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shuffledp_core.errors import ProofError, ShuffleDPError


def node(position: int, hops: int) -> str:
    """Name of the party at a position: a node or, after the last node, the analyst."""
    return f"node {position}" if position <= hops else "analyst"


def user(credential: bytes) -> str:
    """Name of a credential's user, by its public key."""
    return f"user {credential.hex()}"


@contextmanager
def at_fault(kind: type[ShuffleDPError], party: str) -> Iterator[None]:
    """Turn a `ProofError` in the block into an error of the class `kind` that names the party."""
    try:
        yield
    except ProofError as error:
        raise kind(f"{party}: {error}") from error
