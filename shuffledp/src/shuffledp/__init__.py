"""The shuffle model of differential privacy: certify, calibrate, compose, simulate, verify.

    import shuffledp as sdp

    group = sdp.Setting(users=2000, honest=1900)
    plan = sdp.calibrate("geo-shuffle", max_value=20, epsilon=1, delta=1e-6, setting=group)
    print(sdp.certify(plan).certified)

Every ε has a direction: `certified` is never below the truth, `attained` never above it. What is
named here is imported when it is first used, so that commands start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str
    from shuffledp.choosing import Comparison, advise, calibrate
    from shuffledp.composed import Composition, compose
    from shuffledp.curves import Curve, curve
    from shuffledp.guarantees import Guarantee, certify
    from shuffledp.location import Centroid, Grid, LocationPlan, plan_location, simulate_location
    from shuffledp.loss_export import privacy_loss_distribution
    from shuffledp.outlooks import outlook
    from shuffledp.paper_views import (
        adversaries,
        all_corrupt,
        central_gaussian,
        datasets,
        growing_delta,
        primary_count,
    )
    from shuffledp.plans import Plan
    from shuffledp.simulation import Answer, simulate
    from shuffledp.verification import CheckedCertificate, verify
    from shuffledp.views import View, group, renyi, subsampled, trade_off
    from shuffledp_core.errors import CannotCertify, ShuffleDPError
    from shuffledp_core.mechanisms import (
        BloomRappor,
        DummyHistogram,
        GeoShuffle,
        HadamardHistogram,
        KRRHistogram,
        LocalLaplace,
        NodeColumns,
        NodeHistogram,
        NodeSum,
        NodeTree,
        OneBitShuffle,
        QuantisedRR,
        RapporHistogram,
        RRShuffle,
        SGDLShuffle,
        SplitMix,
    )
    from shuffledp_core.privacy import Adjacency
    from shuffledp_privacy.bounds import Setting
    from shuffledp_privacy.local.encodings import HadamardResponse, SubsetSelection, UnaryEncoding
    from shuffledp_privacy.local.matrix import LocalMatrix

__all__ = [
    "Adjacency",
    "Answer",
    "BloomRappor",
    "CannotCertify",
    "Centroid",
    "CheckedCertificate",
    "Comparison",
    "Composition",
    "Curve",
    "DummyHistogram",
    "GeoShuffle",
    "Grid",
    "Guarantee",
    "HadamardHistogram",
    "HadamardResponse",
    "KRRHistogram",
    "LocalLaplace",
    "LocalMatrix",
    "LocationPlan",
    "NodeColumns",
    "NodeHistogram",
    "NodeSum",
    "NodeTree",
    "OneBitShuffle",
    "Plan",
    "QuantisedRR",
    "RRShuffle",
    "RapporHistogram",
    "SGDLShuffle",
    "Setting",
    "ShuffleDPError",
    "SplitMix",
    "SubsetSelection",
    "UnaryEncoding",
    "View",
    "adversaries",
    "advise",
    "all_corrupt",
    "calibrate",
    "central_gaussian",
    "certify",
    "compose",
    "curve",
    "datasets",
    "group",
    "growing_delta",
    "outlook",
    "plan_location",
    "primary_count",
    "privacy_loss_distribution",
    "renyi",
    "simulate",
    "simulate_location",
    "subsampled",
    "trade_off",
    "verify",
]

_HOMES: Final = {
    "shuffledp.choosing": ("Comparison", "advise", "calibrate"),
    "shuffledp.composed": ("Composition", "compose"),
    "shuffledp.curves": ("Curve", "curve"),
    "shuffledp.guarantees": ("Guarantee", "certify"),
    "shuffledp.location": (
        "Centroid",
        "Grid",
        "LocationPlan",
        "plan_location",
        "simulate_location",
    ),
    "shuffledp.loss_export": ("privacy_loss_distribution",),
    "shuffledp.outlooks": ("outlook",),
    "shuffledp.paper_views": (
        "adversaries",
        "all_corrupt",
        "central_gaussian",
        "datasets",
        "growing_delta",
        "primary_count",
    ),
    "shuffledp.plans": ("Plan",),
    "shuffledp.simulation": ("Answer", "simulate"),
    "shuffledp.verification": ("CheckedCertificate", "verify"),
    "shuffledp.views": ("View", "group", "renyi", "subsampled", "trade_off"),
    "shuffledp_core.errors": ("CannotCertify", "ShuffleDPError"),
    "shuffledp_core.mechanisms": (
        "BloomRappor",
        "DummyHistogram",
        "GeoShuffle",
        "HadamardHistogram",
        "KRRHistogram",
        "LocalLaplace",
        "OneBitShuffle",
        "QuantisedRR",
        "RRShuffle",
        "NodeColumns",
        "NodeHistogram",
        "NodeSum",
        "NodeTree",
        "RapporHistogram",
        "SGDLShuffle",
        "SplitMix",
    ),
    "shuffledp_core.privacy": ("Adjacency",),
    "shuffledp_privacy.bounds": ("Setting",),
    "shuffledp_privacy.local.encodings": ("HadamardResponse", "SubsetSelection", "UnaryEncoding"),
    "shuffledp_privacy.local.matrix": ("LocalMatrix",),
}
"""Module of each public name; a test compares it with what type checkers read above."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("shuffledp")
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
