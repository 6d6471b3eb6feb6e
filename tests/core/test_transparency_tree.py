"""The Merkle tree of transparency logs, against the definition and on forged proofs."""

import hashlib
from itertools import pairwise

import pytest

from shuffledp_core.errors import LogProofError
from shuffledp_core.transparency.tree import (
    EMPTY_ROOT,
    MerkleTree,
    check_consistency,
    check_inclusion,
    leaf_hash,
)

MOST = 33

LEAVES = [leaf_hash(f"entry {number}".encode()) for number in range(MOST)]

ROOTS_OF_RFC_6962 = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""Roots of the entries below, by size: the vectors that implementations of RFC 6962 share."""

ENTRIES_OF_RFC_6962 = [
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]  # fmt: skip


def root_by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word by word."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    left, right = root_by_definition(leaves[:middle]), root_by_definition(leaves[middle:])
    return hashlib.sha256(b"\1" + left + right).digest()


def test_roots_are_those_of_the_shared_vectors() -> None:
    tree = MerkleTree(leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES_OF_RFC_6962)
    assert EMPTY_ROOT.hex() == ROOTS_OF_RFC_6962[0]
    for size, root in ROOTS_OF_RFC_6962.items():
        assert tree.root(size).hex() == root


def test_roots_are_those_of_the_definition() -> None:
    tree = MerkleTree(LEAVES)
    for size in range(MOST + 1):
        assert tree.root(size) == root_by_definition(LEAVES[:size])


def test_every_inclusion_proof_holds_for_its_leaf_alone() -> None:
    tree = MerkleTree(LEAVES)
    for size in range(1, MOST + 1):
        root = tree.root(size)
        for index in range(size):
            proof = tree.inclusion_proof(index, size)
            check_inclusion(LEAVES[index], index, size, proof, root)
            for other in range(size):
                if other != index:
                    with pytest.raises(LogProofError):
                        check_inclusion(LEAVES[other], index, size, proof, root)
                    with pytest.raises(LogProofError):
                        check_inclusion(LEAVES[index], other, size, proof, root)


def test_every_consistency_proof_holds_for_its_trees_alone() -> None:
    tree = MerkleTree(LEAVES)
    roots = [tree.root(size) for size in range(MOST + 1)]
    for size in range(MOST + 1):
        for old in range(size + 1):
            proof = tree.consistency_proof(old, size)
            check_consistency(old, roots[old], size, roots[size], proof)
            if 0 < old < size:
                with pytest.raises(LogProofError):
                    check_consistency(old, roots[old - 1], size, roots[size], proof)
                with pytest.raises(LogProofError):
                    check_consistency(old, roots[old], size, roots[size - 1], proof)


def test_changed_shortened_and_lengthened_proofs_are_refused() -> None:
    tree = MerkleTree(LEAVES)
    root = tree.root()
    for index in (0, 7, 31, 32):
        proof = tree.inclusion_proof(index)
        for forged in forgeries(proof):
            with pytest.raises(LogProofError):
                check_inclusion(LEAVES[index], index, MOST, forged, root)
    for old in (1, 6, 16, 32):
        proof = tree.consistency_proof(old)
        for forged in forgeries(proof):
            with pytest.raises(LogProofError):
                check_consistency(old, tree.root(old), MOST, root, forged)


def forgeries(proof: list[bytes]) -> list[list[bytes]]:
    changed = [[*proof[:index], bytes(32), *proof[index + 1 :]] for index in range(len(proof))]
    swapped = [
        [*proof[:index], second, first, *proof[index + 2 :]]
        for index, (first, second) in enumerate(pairwise(proof))
    ]
    return [*changed, *swapped, proof[:-1], [*proof, bytes(32)]]


def test_a_shrunken_and_a_forked_log_are_refused() -> None:
    tree = MerkleTree(LEAVES)
    fork = MerkleTree([*LEAVES[:5], leaf_hash(b"another"), *LEAVES[6:]])
    with pytest.raises(LogProofError, match="shrank"):
        check_consistency(9, tree.root(9), 8, tree.root(8), [])
    with pytest.raises(LogProofError, match="two different logs"):
        check_consistency(MOST, tree.root(), MOST, fork.root(), [])
    for old in range(6, MOST):
        with pytest.raises(LogProofError, match="two histories"):
            check_consistency(old, tree.root(old), MOST, fork.root(), fork.consistency_proof(old))
    with pytest.raises(LogProofError):
        check_inclusion(LEAVES[0], 3, 3, [], tree.root(3))
