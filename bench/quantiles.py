"""Rank errors of quantiles in one round: the tree, a plain histogram, and a trusted party.

    python bench/quantiles.py FILE COLUMN [--bins 1024] [--people 10000] [--rounds 200] [--nodes 3]

The first people of a CSV file (or .csv.gz), ε = 1, δ = 1e-6. All noise is drawn with numpy from the
certified laws. Two errors of every quantile: of its rank, which is 0 where the found bin holds the
quantile, and of the estimated share of people up to the true quantile's bin. The trusted party
draws one noise for each count of the same tree, as one node does.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.quantiles import QUANTILES, isotonic
from shuffledp_core.answering.trees import BinTree
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.mechanisms import NodeHistogram, NodeTree
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.mechanisms.node_tree import best_width


def read_column(file: Path, column: str, people: int) -> NDArray[np.int64]:
    """The first numbers of a column."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as rows:
        return np.array([int(row[column]) for row in islice(csv.DictReader(rows), people)])


def errors(
    tree: BinTree, noise: NDArray[np.float64], bins: NDArray[np.int64]
) -> tuple[list[float], list[float]]:
    """Rank error and error of the share, for each quantile of one round."""
    people = int(bins.sum())
    sums = np.cumsum(bins)
    exact = bins.astype(np.float64)
    columns = [exact] if tree.width == 1 else [tree.group_sums(exact), exact]
    counts = np.concatenate(columns) + noise
    parts = [counts] if tree.width == 1 else [counts[: -tree.bins], counts[-tree.bins :]]
    estimated = np.cumsum(tree.consistent_bins(parts, people))
    rising = np.clip(isotonic(estimated), 0, people)
    ranks = []
    shares = []
    for share in QUANTILES:
        rank = share * people
        estimate = min(int(np.searchsorted(rising, rank - 1e-9 * people)), tree.bins - 1)
        below = sums[estimate - 1] if estimate else 0
        ranks.append(max(0.0, below - rank, rank - sums[estimate]) / people)
        true = int(np.searchsorted(sums, rank))
        shares.append(abs(estimated[true] - sums[true]) / people)
    return ranks, shares


def main() -> None:
    """Print a line for each mechanism."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("column")
    for name, default in (("bins", 1024), ("people", 10_000), ("rounds", 200), ("nodes", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    values = np.minimum(read_column(options.file, options.column, options.people), options.bins - 1)
    bins = np.bincount(values, minlength=options.bins)
    target = Target(1.0, 1e-6, values.size, values.size, symbols=options.bins)
    tree = cast("NodeTree", calibrate("node-tree", target))
    plain = cast("NodeHistogram", calibrate("node-histogram", target))
    shape = BinTree(options.bins, best_width(options.bins))
    rows: tuple[tuple[str, BinTree, NodeTree | NodeHistogram, int], ...] = (
        ("node-tree", shape, tree, options.nodes),
        ("plain histogram", BinTree(options.bins, 1), plain, options.nodes),
        ("trusted party", shape, tree, 1),
    )
    numbers = np.random.default_rng()
    print("mechanism | rank error, 95% | at worst | error of the share, 95% | at worst")
    for name, used, spec, nodes in rows:
        mean = spec.mean
        law = bounded_laplace_law(spec.noise_epsilon, mean)
        places = np.arange(-mean, mean + 1)
        size = options.bins + (len(used.widths) if used.has_groups else 0)
        errors_of_rounds = [
            errors(used, numbers.choice(places, (nodes, size), p=law).sum(axis=0), bins)
            for _ in range(options.rounds)
        ]
        cells = [name]
        for kind in range(2):
            every = np.array([both[kind] for both in errors_of_rounds]) * 100
            cells += [f"{np.quantile(every, 0.95):.3f}%", f"{every.max():.3f}%"]
        print(" | ".join(cells))


if __name__ == "__main__":
    main()
