"""Total variation of a map behind one node's dummies, and of a trusted party's with equal noise.

    python bench/maps.py gowalla_sf_box.csv.gz

The grid of 24 x 17 cells of San Francisco, ε = 1, δ = 1e-6. Counts are projected on possible ones.
The trusted party adds discrete Laplace noise of ε/2 to each count.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.choosing import calibrate
from shuffledp_core.answering.postprocessing import project
from shuffledp_core.mechanisms import NodeHistogram
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import Setting

PARALLELS: Final = np.linspace(37.7228, 37.7946, 18)
MERIDIANS: Final = np.linspace(-122.5153, -122.3789, 25)
EPSILON: Final = 1.0


def distance(counts: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """Total variation of the projected counts from the truth, as shares of the people."""
    people = int(truth.sum())
    possible = np.asarray(project(tuple(counts.tolist()), people))
    return float(np.abs(possible - truth).sum()) / 2 / people


def main() -> None:
    """Print one line for each number of people."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="gowalla_sf_box.csv.gz")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with gzip.open(options.data, "rt") as stream:
        points = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(stream)]
    lat, lon = np.array(points).T
    grid = np.histogram2d(lat, lon, [PARALLELS, MERIDIANS])[0].ravel().astype(np.int64)
    cells = np.append(grid, len(points) - grid.sum())
    rng = np.random.default_rng(32)
    fall = -np.expm1(-EPSILON / 2)
    for people in (2_000, 10_000, len(points)):
        truth = cells
        if people < len(points):
            truth = rng.multivariate_hypergeometric(cells, people)
        setting = Setting(people, people)
        plan = calibrate(
            "node-histogram", epsilon=EPSILON, delta=1e-6, setting=setting, symbols=truth.size
        )
        spec = cast("NodeHistogram", plan.spec)
        of_node = []
        of_trusted = []
        for _ in range(options.rounds):
            board = spec.counts_of(spec.sample_dummies(RandomIntegers()))[: truth.size]
            of_node.append(distance((truth + board - spec.mean).astype(np.float64), truth))
            noise = rng.geometric(fall, truth.size) - rng.geometric(fall, truth.size)
            of_trusted.append(distance((truth + noise).astype(np.float64), truth))
        node = float(np.mean(of_node))
        trusted = float(np.mean(of_trusted))
        print(f"{people:,} people: {node:.4f}, trusted {trusted:.4f}, ratio {node / trusted:.2f}")


if __name__ == "__main__":
    main()
