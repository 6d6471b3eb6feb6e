"""Finds the analysis of a mechanism: ours, and those that installed packages register.

The functions that are told apart by mechanism (`bounds`, `rounds.composition.grows_with_distance`,
...) are `functools.singledispatch`es. One that meets a spec it does not know asks here, and the
first such question loads all analyses: ours, then what entry points of the group
`shuffledp.analyses` name. Each of those is a function without arguments that registers everything
its package has to say of its mechanisms. docs/extending.md does it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeVar

from shuffledp_core.runtime.installed import offered

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

T = TypeVar("T")

GROUP: Final = "shuffledp.analyses"

_OURS: Final = (
    "histogram.krr",
    "histogram.hadamard",
    "histogram.rappor",
    "local.clones",
    "local.matrix",
    "sums.rr",
    "sums.geo",
    "sums.sgdl",
    "sums.one_bit",
    "sums.quantised",
    "sums.split",
    "local.lecture",
    "local.rappor",
)


class _Registry:
    """Loads once, whoever asks first.

    Who registers may ask again meanwhile and gets what there is by then.
    """

    def __init__(self) -> None:
        self._lock, self._begun = RLock(), False

    def load(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
            for name in _OURS:
                import_module(f"shuffledp_privacy.{name}")
            for point in sorted(offered(GROUP), key=lambda point: point.name):
                point.load()()


load: Final = _Registry().load
"""Registers every analysis that is installed; does nothing the second time."""


def registered(function: _SingleDispatchCallable[T], spec: object) -> Callable[..., T] | None:
    """The implementation of a `singledispatch` function for this spec, from any package.

    None for none.
    """
    unknown = function.dispatch(object)
    found = function.dispatch(type(spec))
    if found is unknown:
        load()
        found = function.dispatch(type(spec))
    return None if found is unknown else found
