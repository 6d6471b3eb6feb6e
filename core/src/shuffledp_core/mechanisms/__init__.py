"""The mechanisms: each one class in one file, and all that are installed by name.

`MECHANISMS` and `Mechanism` are made when they are first asked for, so that a module that defines a
mechanism may be imported before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffledp_core.mechanisms.base import (
    MAX_DENOMINATOR,
    MAX_DOMAIN,
    Answers,
    HistogramSpec,
    PaddedSpec,
    Spec,
    SumSpec,
    UnarySpec,
)
from shuffledp_core.mechanisms.bloom import BloomRappor
from shuffledp_core.mechanisms.dummies import DummyHistogram
from shuffledp_core.mechanisms.geo import GeoShuffle
from shuffledp_core.mechanisms.hadamard import HadamardHistogram
from shuffledp_core.mechanisms.krr import KRRHistogram
from shuffledp_core.mechanisms.local_laplace import LocalLaplace
from shuffledp_core.mechanisms.node_columns import NodeColumns
from shuffledp_core.mechanisms.node_histogram import NodeHistogram
from shuffledp_core.mechanisms.node_sum import NodeSum
from shuffledp_core.mechanisms.node_tree import NodeTree
from shuffledp_core.mechanisms.one_bit import OneBitShuffle
from shuffledp_core.mechanisms.quantised import QuantisedRR
from shuffledp_core.mechanisms.rappor import RapporHistogram
from shuffledp_core.mechanisms.rr import RRShuffle
from shuffledp_core.mechanisms.sgdl import SGDLShuffle
from shuffledp_core.mechanisms.split import SplitMix

if TYPE_CHECKING:
    from shuffledp_core.mechanisms.installed import MECHANISMS, Mechanism

__all__ = [
    "MAX_DENOMINATOR",
    "MAX_DOMAIN",
    "MECHANISMS",
    "Answers",
    "BloomRappor",
    "DummyHistogram",
    "GeoShuffle",
    "HadamardHistogram",
    "HistogramSpec",
    "KRRHistogram",
    "LocalLaplace",
    "Mechanism",
    "NodeColumns",
    "NodeHistogram",
    "NodeSum",
    "NodeTree",
    "OneBitShuffle",
    "PaddedSpec",
    "QuantisedRR",
    "RRShuffle",
    "RapporHistogram",
    "SGDLShuffle",
    "Spec",
    "SplitMix",
    "SumSpec",
    "UnarySpec",
]


def __getattr__(name: str) -> object:
    if name in {"MECHANISMS", "Mechanism"}:
        from shuffledp_core.mechanisms import installed

        return getattr(installed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
