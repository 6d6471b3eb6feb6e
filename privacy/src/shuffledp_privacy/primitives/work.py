"""A limit on the work of computations whose parameters another party chooses.

Work is counted in nodes of the contour sums (`contour`), not in seconds, so that a check has the
same outcome on a busy machine as on an idle one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shuffledp_core.errors import CannotCertify


class _Allowance:
    """The number of nodes that may still be evaluated."""

    def __init__(self, nodes: float) -> None:
        self.limit = nodes
        self.left = nodes


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def limited_work(nodes: float) -> Iterator[None]:
    """Context that limits the work of computations; beyond it `spend_work` raises."""
    token = _ALLOWANCE.set(_Allowance(nodes))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


def spend_work(nodes: float) -> None:
    """Charge nodes that are about to be evaluated to the limit.

    Raises:
        CannotCertify: the limit of the enclosing `limited_work` is exceeded. Without an enclosing
            one there is no limit.
    """
    allowance = _ALLOWANCE.get()
    if allowance is None:
        return
    allowance.left -= nodes
    if allowance.left < 0:
        raise CannotCertify(
            f"recomputing these numbers takes more than {allowance.limit:.3g} evaluations, more "
            "than any calibrated round is known to need: do not rely on them, or check them with "
            "`shuffledp verify --patient`"
        )
