"""The privacy analysis of a mechanism: a class of named methods, registered for the spec's class.

`analysis_of` looks the class up. When it meets a spec for the first time that no class is
registered for, it imports every analysis that is installed: the modules of `mechanisms` and of
`local`, then what the entry points of the group `shuffledp.analyses` name. docs/extending.md adds
one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.runtime.installed import entry_points_of

if TYPE_CHECKING:
    from shuffledp_privacy.bounds import Bounds, CorruptedBounds, Setting
    from shuffledp_privacy.calibration.families import Family
    from shuffledp_privacy.calibration.target import Target
    from shuffledp_privacy.rounds.shifts import Farthest
    from shuffledp_privacy.sums.errors import ErrorLaw

GROUP: Final = "shuffledp.analyses"

_FOLDERS: Final = ("shuffledp_privacy.mechanisms", "shuffledp_privacy.local")

AnalysisClass = TypeVar("AnalysisClass", bound="type[Analysis]")


class Analysis:
    """Privacy analysis of one spec; subclasses are registered for classes of specs.

    An analysis of a mechanism defines the first five methods; the others have defaults that are
    right for every mechanism, if slower or less precise. Epsilon is in nats; under metric adjacency
    it is per unit of distance. All methods are pure.
    """

    __slots__ = ()

    def __init__(self, spec: Any) -> None:
        raise NotImplementedError

    def delta(self, setting: Setting, epsilon: float) -> Bounds:  # noqa: ARG002
        """δ of one round at `epsilon`. Certified never below, attained never above the truth."""
        raise self._missing("delta")

    def epsilon(self, setting: Setting, delta: float) -> Bounds:  # noqa: ARG002
        """ε of one round at `delta`. Certified never below, attained never above the truth."""
        raise self._missing("epsilon")

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ) if every node is corrupt; never below the truth."""
        raise self._missing("corrupted_bounds")

    def standard_error(self, users: int) -> float:  # noqa: ARG002
        """Standard deviation of the sum's estimate, or of one histogram count's at worst.

        The noise of nodes is not included; `bounds.standard_error` adds it.
        """
        raise self._missing("standard_error")

    def curve(
        self,
        setting: Setting,  # noqa: ARG002
        distance: int,  # noqa: ARG002
        epsilons: NDArray[np.float64],  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """δ at each of `epsilons` (total, any sign) for one value changed by exactly `distance`.

        Shape: same as `epsilons`. The result is never below the truth, and at every point the δ of
        one dominating
        pair (or above it), so that composition may build on it.
        """
        raise self._missing("curve")

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """The certified ε of `epsilon`, which may be quicker without the attained one."""
        return self.epsilon(setting, delta).certified

    @property
    def composes(self) -> bool:
        """True if the analysis has a `curve`."""
        return type(self).curve is not Analysis.curve

    @property
    def grows_with_distance(self) -> bool:
        """True if δ at distance d + 1 is proved to be nowhere below δ at d (C7)."""
        return False

    def excess(self, target: Target) -> float | None:  # noqa: ARG002
        """Quick estimate of how far the spec exceeds the target; None without such an estimate.

        It falls with more noise and is at most 0 where the target is met. None: use the
        certificate. No guarantee depends on it.
        """
        return None

    def farthest(self, setting: Setting) -> Farthest | None:  # noqa: ARG002
        """The round at its largest distance, if that is proved the worst to compose; else None."""
        return None

    def error_law(self, users: int, total: int) -> ErrorLaw | None:  # noqa: ARG002
        """Law of the error of the sum of `users` reports whose true sum is `total`, unclamped.

        None if it is not known.
        """
        return None

    def log_likelihood(
        self,
        answers: NDArray[np.int64],  # noqa: ARG002
    ) -> NDArray[np.float64] | None:
        """ln P(answer | x), shape (answers, domain), -inf for the impossible.

        The attack with corrupt nodes uses it to guess values. None if it is not known.
        """
        return None

    @staticmethod
    def family(target: Target) -> Family | None:  # noqa: ARG004
        """The specs that calibration searches for a target; None if it cannot be calibrated."""
        return None

    def _missing(self, method: str) -> UsageError:
        subject = type(getattr(self, "spec", self)).__name__
        return UsageError(f"{subject} has no analysis that offers {method}")


class _Registry:
    """Analysis classes by their specs' classes; imports all of them at first use."""

    def __init__(self) -> None:
        self._classes: dict[type, type[Analysis]] = {}
        self._lock, self._loading_began = RLock(), False

    def add(self, specs: tuple[type, ...], analysis: type[Analysis]) -> None:
        self._classes.update(dict.fromkeys(specs, analysis))

    def get(self, spec: type) -> type[Analysis] | None:
        nearest = self._nearest(spec)
        if nearest is None:
            self._load()
            nearest = self._nearest(spec)
        return nearest

    def _nearest(self, spec: type) -> type[Analysis] | None:
        return next((self._classes[kind] for kind in spec.__mro__ if kind in self._classes), None)

    def _load(self) -> None:
        # An analysis that looks up another one while it is imported gets what there is by then.
        with self._lock:
            if self._loading_began:
                return
            self._loading_began = True
            for folder in _FOLDERS:
                for module in iter_modules(import_module(folder).__path__, f"{folder}."):
                    import_module(module.name)
            for point in sorted(entry_points_of(GROUP), key=lambda point: point.name):
                analysis = point.load()
                if not (isinstance(analysis, type) and issubclass(analysis, Analysis)):
                    raise TypeError(
                        f"the entry point {point.name!r} of {GROUP} names {point.value!r}; "
                        "expected a class derived from Analysis (docs/extending.md)"
                    )


_REGISTRY: Final = _Registry()


def analyses(*specs: type) -> Callable[[AnalysisClass], AnalysisClass]:
    """Class decorator: registers the analysis for these classes of specs and their subclasses."""

    def register(analysis: AnalysisClass) -> AnalysisClass:
        _REGISTRY.add(specs, analysis)
        return analysis

    return register


def analysis_class(spec: type) -> type[Analysis]:
    """The analysis class that is registered for a class of specs, from any installed package.

    Raises:
        UsageError: no analysis is registered.
    """
    analysis = _REGISTRY.get(spec)
    if analysis is None:
        raise UsageError(f"there is no privacy analysis of {spec.__name__}")
    return analysis


def analysis_of(spec: object) -> Analysis:
    """The analysis of a spec; a spec that is its own analysis is returned as it is.

    Raises:
        UsageError: no analysis is registered.
    """
    if isinstance(spec, Analysis):
        return spec
    return analysis_class(type(spec))(spec)
