"""Mechanisms with curves tabulated once, for the many compositions of the ledger.

Every reservation adds up all rounds so far, and a curve costs up to seconds. δ is a convex function
of e^ε, so the chord between two upper bounds of it is an upper bound; and it falls, so its last
bound holds for every larger ε (docs/accounting.md, proposition C3). The table is therefore never
below the truth. Tables are pure functions of their key and of this software: the ledger stores them
beside the charges, so that a restart computes none again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from inspect import getsource
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.mechanisms.installed import GROUP as MECHANISMS_GROUP
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import GROUP as ANALYSES_GROUP
from shuffledp_privacy.analyses import Analysis
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.composition import grows_with_distance
from shuffledp_privacy.rounds.filters import DeltaCurve
from shuffledp_privacy.rounds.remembered import AllReports
from shuffledp_privacy.rounds.subsampling import reflect_curve

NODES: Final = 400
"""Points of a table: for a Gaussian curve 1/30 of a standard deviation apart; the chords add less
than 1% to δ.
"""

REACH: Final = 2.5
"""The table ends at this multiple of ε(1e-6): for a Gaussian curve δ is 1e-31 there."""

TAIL_NODES: Final = 64
"""Points beyond the reach."""

LARGEST: Final = 80.0
"""No table goes further: e^ε is beyond counting."""

MOST_KEPT: Final = 8192
"""Tables kept in memory, 7 KiB each; the oldest goes first."""


@cache
def fingerprint() -> str:
    """Hex digest of the code that computes tables; tables of other versions are recomputed."""
    # Each version of numpy rounds in its own way: a table of another version is not taken over.
    digest = hashlib.sha256(version("numpy").encode())
    for point in (*entry_points(group=MECHANISMS_GROUP), *entry_points(group=ANALYSES_GROUP)):
        digest.update(f"{point.value} {point.dist and point.dist.version}".encode())
        digest.update(getsource(import_module(point.module)).encode())
    for source in [
        *_sources(files("shuffledp_privacy")),
        *_sources(files("shuffledp_core") / "mechanisms"),
    ]:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable) -> list[Traversable]:
    sources: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda child: child.name):
        if entry.is_dir():
            sources += _sources(entry)
        elif entry.name.endswith(".py"):
            sources.append(entry)
    return sources


class Tables:
    """Tables of δ by mechanism, users and distance, each computed once.

    Several threads may at worst compute one twice.
    """

    def __init__(self) -> None:
        self._curves: dict[str, DeltaCurve] = {}

    def of(self, mechanism: Mechanism, setting: Setting, distance: int) -> DeltaCurve:
        """The table for a change by `distance`, whatever the setting's adjacency."""
        distance = (
            distance if mechanism.metric else 1
        )  # K7: all changes of a symbol are the same change
        key = f"{to_json(mechanism).decode()} {setting.users} {setting.honest} {distance}"
        table = self._curves.get(key)
        if table is None:
            table = _tabulate(mechanism, setting, distance)
            self._keep(key, table)
        return table

    def learn(self, stored: Iterable[tuple[str, bytes]]) -> None:
        """Load tables that `dump` wrote.

        Invalid tables are left out, and computed again when needed.
        """
        for key, data in stored:
            curve = _unpack(data)
            if curve is not None:
                self._keep(key, curve)

    def dump(self, stored: Container[str]) -> dict[str, bytes]:
        """All tables except those in `stored`, as bytes by key."""
        return {
            key: np.concatenate((curve.excess, curve.deltas)).astype("<f8").tobytes()
            # A copy: another thread may add a table meanwhile.
            for key, curve in tuple(self._curves.items())
            if key not in stored
        }

    def forget(self) -> None:
        """Discard all tables, as after a restart."""
        self._curves.clear()
        bounds_of.cache_clear()
        certified_epsilon_of.cache_clear()

    def _keep(self, key: str, curve: DeltaCurve) -> None:
        while len(self._curves) >= MOST_KEPT:
            # None: another thread may have dropped the same one.
            self._curves.pop(next(iter(self._curves)), None)
        self._curves[key] = curve


TABLES: Final = Tables()
"""Those of this process."""


def _unpack(data: bytes) -> DeltaCurve | None:
    if len(data) % 16 or not data:
        return None
    excess, deltas = np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(2, -1)
    right = excess[0] == 0 and np.all(np.diff(excess) > 0) and np.all((deltas >= 0) & (deltas <= 1))
    return DeltaCurve(excess, deltas) if right and np.all(np.isfinite(excess)) else None


@lru_cache(maxsize=1024)
def bounds_of(mechanism: Mechanism, setting: Setting, delta: float) -> Bounds:
    """Cached `epsilon_bounds`."""
    return epsilon_bounds(mechanism, setting, delta)


@lru_cache(maxsize=1024)
def certified_epsilon_of(mechanism: Mechanism, setting: Setting, delta: float) -> float:
    """Cached `certified_epsilon`."""
    return certified_epsilon(mechanism, setting, delta)


def _tabulate(mechanism: Mechanism, setting: Setting, distance: int) -> DeltaCurve:
    """Upper bounds of δ at ε >= 0, for the total ε of a change by `distance`."""
    standard = Setting(setting.users, setting.honest, Adjacency.STANDARD, distance)
    try:
        reach = REACH * bounds_of(mechanism, standard, 1e-6).certified
    except CannotCertify:
        reach = 40.0
    reach = min(max(reach, 1e-3), LARGEST)
    epsilons = np.linspace(0.0, reach, NODES)
    # Clamping leaves a small δ up to the ε that even a report on its own keeps; from there on
    # nothing.
    pure = min(corrupted_bounds(mechanism, standard, 0.0).epsilon * (1 + 1e-9), LARGEST)
    if pure > reach:
        epsilons = np.concatenate((epsilons, np.linspace(reach, pure, TAIL_NODES)[1:]))
    deltas = certified_curve(mechanism, setting, distance, epsilons)
    # Nodes are moved up: since the curve falls, a bound at ε holds at anything above it.
    return DeltaCurve(up(np.expm1(epsilons)), np.minimum.accumulate(np.clip(deltas, 0.0, 1.0)))


@dataclass(frozen=True, slots=True)
class Tabulated(Analysis):
    """A mechanism's spec and analysis, with its curve read from a table."""

    mechanism: Mechanism

    @property
    def domain(self) -> int:
        """Number of admissible inputs."""
        return self.mechanism.domain

    @property
    def response_name(self) -> str | None:
        """Name of the memoised response that rounds share; None without one."""
        return self.mechanism.response_name

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        if self.response_name is not None:  # a single round's ε adds up to nothing that holds (K14)
            return epsilon_bounds(AllReports(self.mechanism), setting, delta)
        if setting.adjacency is Adjacency.METRIC:
            return bounds_of(self.mechanism, setting, delta)
        largest = self.domain - 1
        distance = min(largest, setting.max_distance or largest)
        return Bounds(
            read_epsilon(TABLES.of(self.mechanism, setting, distance), delta),
            0.0,
            None,
            ("C3: tabulated",),
        )

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        return corrupted_bounds(self.mechanism, setting, delta)

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        table = TABLES.of(self.mechanism, setting, distance)
        sizes = np.abs(epsilons)
        upper = table.bounds(sizes)
        return np.where(epsilons < 0, reflect_curve(upper, sizes), upper)

    @property
    def grows_with_distance(self) -> bool:
        """True if it is true of every mechanism."""
        return grows_with_distance(self.mechanism)


@dataclass(frozen=True, slots=True)
class Highest(Analysis):
    """A spec that represents any of several rounds of similar cost, by the largest curve (C7)."""

    members: tuple[tuple[Mechanism, Setting], ...]

    @property
    def domain(self) -> int:
        """Number of admissible inputs of the largest domain."""
        return max(mechanism.domain for mechanism, _ in self.members)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:  # noqa: ARG002
        """Certified and attained ε of one round."""
        worst = max(
            epsilon_bounds(Tabulated(mechanism), member_setting, delta).certified
            for mechanism, member_setting in self.members
        )
        return Bounds(worst, 0.0, None, ("C3: tabulated",))

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        bounds = [
            corrupted_bounds(mechanism, member_setting, delta)
            for mechanism, member_setting in self.members
        ]
        return max(bounds, key=lambda local: (local.delta, local.epsilon))

    def curve(
        self,
        setting: Setting,  # noqa: ARG002
        distance: int,
        epsilons: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        highest = np.zeros(np.shape(epsilons))
        for mechanism, member_setting in self.members:
            # A round whose domain ends earlier takes its largest change (C7).
            curve = certified_curve(
                Tabulated(mechanism),
                member_setting,
                max(1, min(distance, mechanism.domain - 1)),
                epsilons,
            )
            highest = np.maximum(highest, curve)
        return highest

    @property
    def grows_with_distance(self) -> bool:
        """True if it is true of every mechanism."""
        return all(grows_with_distance(mechanism) for mechanism, _ in self.members)


def read_epsilon(table: DeltaCurve, delta: float) -> float:
    """Smallest ε found with δ(ε) <= delta on the table's chords, rounded up.

    Raises:
        CannotCertify: the table ends above δ.
    """
    first = int(np.argmax(table.deltas <= delta))
    if table.deltas[first] > delta:
        raise CannotCertify(
            f"the round's curve does not fall to delta {delta:g}; ask for a larger delta"
        )
    if first == 0:
        return 0.0
    (left, right), (high, low) = (
        table.excess[first - 1 : first + 1],
        table.deltas[first - 1 : first + 1],
    )
    share = min(1.0, up(float((high - delta) / (high - low))))
    return up(math.log1p(up(float(left + share * (right - left)))))
