"""Total variation of a map behind one node's dummies, and of a trusted party's with equal noise.

    python bench/maps.py gowalla_sf_box.csv.gz

The grid of 24 x 17 cells of San Francisco, ε = 1, δ = 1e-6. Counts are projected on possible ones.
The trusted party adds discrete Laplace noise of ε/2 to each count.

A real round of all people over two or more nodes, and the same numbers of its answer:

    python bench/maps.py --description > map.toml
    shuffledp demo --users 123026 --nodes 2 --data gowalla_sf_box.csv.gz --question map.toml
    python bench/maps.py --report out/latest/report.json
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from pathlib import Path
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


def trusted_distance(truth: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Total variation of one map published by the trusted party."""
    fall = -np.expm1(-EPSILON / 2)
    noise = rng.geometric(fall, truth.size) - rng.geometric(fall, truth.size)
    return distance((truth + noise).astype(np.float64), truth)


def describe() -> str:
    """Describe the map, with edges in as many digits as distinguish the cells."""
    edges = [np.round(lines, 6).tolist() for lines in (PARALLELS, MERIDIANS)]
    return (
        'id = "where-in-san-francisco"\ntext = "Where in San Francisco are you?"\n'
        'ask = "table"\nof = ["lat", "lon"]\nothers = "not on the map"\n'
        f'[fields.lat]\nunit = "°N"\nedges = {edges[0]}\n'
        f'[fields.lon]\nunit = "°E"\nedges = {edges[1]}'
    )


def compare_round(report: Path, rounds: int) -> None:
    """Print the distance between a simulated round's estimate and the truth."""
    answer = json.loads(report.read_text())
    truth = np.array(answer["true_value"], dtype=np.int64)
    of_round = distance(np.array(answer["estimate"], dtype=np.float64), truth)
    rng = np.random.default_rng(32)
    trusted = float(np.mean([trusted_distance(truth, rng) for _ in range(rounds)]))
    print(
        f"{answer['accepted']:,} people, {answer['messages']:,} messages, total "
        f"{answer['seconds']['total']:.0f} s: {of_round:.4f}, trusted {trusted:.4f}, ratio "
        f"{of_round / trusted:.2f}"
    )


def main() -> None:
    """Print one line for each number of people, or for the round in a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", help="gowalla_sf_box.csv.gz")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--description", action="store_true", help="print the map's description")
    parser.add_argument("--report", type=Path, help="report.json of a round by that description")
    options = parser.parse_args()
    if options.description:
        print(describe())
        return
    if options.report is not None:
        compare_round(options.report, options.rounds)
        return
    if options.data is None:
        parser.error("name the data, or --description or --report")
    with gzip.open(options.data, "rt") as stream:
        points = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(stream)]
    lat, lon = np.array(points).T
    grid = np.histogram2d(lat, lon, [PARALLELS, MERIDIANS])[0].ravel().astype(np.int64)
    cells = np.append(grid, len(points) - grid.sum())
    rng = np.random.default_rng(32)
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
            of_trusted.append(trusted_distance(truth, rng))
        node = float(np.mean(of_node))
        trusted = float(np.mean(of_trusted))
        print(f"{people:,} people: {node:.4f}, trusted {trusted:.4f}, ratio {node / trusted:.2f}")


if __name__ == "__main__":
    main()
