"""Hash trees over records and commitments: docs/mixing.md, "Notation", Tree."""

from __future__ import annotations

from collections.abc import Sequence

from shuffledp_core.errors import ProofError
from shuffledp_core.mixproof.group import digest_parts

Path = tuple[bytes, ...]
"""The partners of a leaf on the way up, 32 bytes each."""


class Tree:
    """The tree over at least one leaf, with its paths.

    A node without a partner is copied to the level above.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [[digest_parts("leaf", leaf) for leaf in leaves]]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            paired = [digest_parts("node", *below[i : i + 2]) for i in range(0, len(below) - 1, 2)]
            self._levels.append(paired + below[2 * len(paired) :])

    @property
    def root(self) -> bytes:
        """The hash at the root, 32 bytes."""
        return self._levels[-1][0]

    def path(self, index: int) -> Path:
        """The path of the leaf at `index`."""
        partners = []
        for level in self._levels[:-1]:
            if index ^ 1 < len(level):
                partners.append(level[index ^ 1])
            index //= 2
        return tuple(partners)


def root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over these leaves."""
    return Tree(leaves).root


def verify_path(root: bytes, leaf: bytes, index: int, count: int, path: Path) -> None:
    """Check that `leaf` is at `index` of the `count` leaves under the root `root`.

    Raises `ProofError`.
    """
    if not 0 <= index < count:
        raise ProofError(f"there is no leaf {index} among {count} leaves")
    node = digest_parts("leaf", leaf)
    partners = list(path)
    while count > 1:
        if index ^ 1 < count:
            if not partners:
                raise ProofError("the path is too short")
            partner = partners.pop(0)
            node = digest_parts("node", *((partner, node) if index % 2 else (node, partner)))
        index, count = index // 2, (count + 1) // 2
    if partners or node != root:
        raise ProofError(f"the path does not lead from leaf {index} to the root")
