"""The locations of paper 002's second experiment: boxes, addresses, and shares of ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments.data import load

Floats = NDArray[np.float64]


BOX: Final = ((30.091, 30.95534), (-98.27048, -97.3819))
"""Latitudes and longitudes of the paper's rectangle (footnote 4)."""


SUBURBS: Final = ((30.16737, 30.45908), (-97.877248, -97.627248))
"""The rectangle whose addresses the "dispersed" data leave out (footnote 6)."""


@cache
def addresses(folder: Path | None, *, dispersed: bool = False) -> tuple[Floats, str]:
    """(lat, lon) of the addresses, shape (rows, 2), and a note on their source.

    Args:
        folder: with the paper's file, which has the dispersed addresses only; None for a stand-in.
        dispersed: whether the stand-in leaves out the rectangle that the paper's dispersed data
            leave out.
    """
    if folder is None:
        generator = np.random.default_rng(22)
        centre = np.array([(low + high) / 2 for low, high in BOX])
        spread = np.array([(high - low) / 8 for low, high in BOX])
        points = centre + spread * generator.normal(size=(20_000, 2))
        inside = _within(points, BOX)
        if dispersed:
            inside &= ~_within(points, SUBURBS)
        return points[
            inside
        ], "stand-in: a Gaussian cloud for the addresses; give --data for those outside the centre"
    return load(
        folder, "austin"
    ), "only the dispersed addresses are to be had; figures 5, 22 to 25 and 27 used all"


def _within(
    places: Floats, box: tuple[tuple[float, float], tuple[float, float]]
) -> NDArray[np.bool_]:
    inside = [(places[:, i] >= box[i][0]) & (places[:, i] <= box[i][1]) for i in (0, 1)]
    return np.asarray(np.all(inside, axis=0))


@cache
def share_of_ones(folder: Path | None, *, dispersed: bool = False) -> float:
    """Mean coordinate of the addresses over both axes, as a share of the grid's width."""
    points, _ = addresses(folder, dispersed=dispersed)
    parts = [(points[:, i] - BOX[i][0]) / (BOX[i][1] - BOX[i][0]) for i in (0, 1)]
    # Squares are counted from the upper left.
    return float(np.clip((1 - parts[0].mean() + parts[1].mean()) / 2, 0.01, 0.99))
