"""Bounds for rounds whose few privacy losses are known exactly, with noise of nodes.

Pure; docs/accounting.md, N3.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.losses import PrivacyLosses
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Spec
from shuffledp_privacy.analyses import Analysis
from shuffledp_privacy.bounds import Bounds, CorruptedBounds, Setting, check_delta
from shuffledp_privacy.numerics.rounding import down
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.responses import response_bounds
from shuffledp_privacy.primitives.work import spend_work

OPEN: Final = "N7: a report is the value itself; with every node corrupt nothing hides it"
"""Basis of ε_L where values are in the open."""


CALL_COST: Final = 150.0
"""Work of δ at one ε besides its losses, as `work` counts it."""

LOSS_COST: Final = 0.15
"""Work of a loss at one ε."""


class OpenValueAnalysis(Analysis):
    """Analysis shared by mechanisms whose reports are the values themselves."""

    __slots__ = ()

    spec: Spec

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """No guarantee without k-RR, because the report is the value; with k-RR, its ε_L."""
        if getattr(self.spec, "blanket", 0):
            return response_bounds(self.spec)  # type: ignore[arg-type]
        return CorruptedBounds(math.inf, 0.0, (OPEN,))

    def standard_error(self, users: int) -> float:  # noqa: ARG002
        """0, because the users' reports have no noise."""
        return 0.0

    def log_likelihood(self, answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log-likelihood: 0 at the value itself, -inf at all others."""
        return np.where(answers[:, np.newaxis] == np.arange(self.spec.domain), 0.0, -np.inf)


def delta_of_losses(losses: PrivacyLosses, epsilon: float, basis: tuple[str, ...]) -> Bounds:
    """Certified and attained δ at a total ε, with the certificate's basis."""
    certified = certified_delta(losses, epsilon)
    return Bounds(certified, min(losses.attained_delta(epsilon), certified), None, basis)


def certified_delta(losses: PrivacyLosses, epsilon: float) -> float:
    """δ at a total ε; never below the truth."""
    spend_work(CALL_COST + LOSS_COST * losses.count_above(epsilon))
    return float(losses.certified_delta(np.array([epsilon]))[0])


def least_epsilon(losses: PrivacyLosses, delta: float) -> float:
    """The smallest total ε that is found with a certified δ of at most `delta`.

    Raises:
        CannotCertify: outcomes that no ε covers have a probability above δ.
    """
    check_delta(delta, pure=True)
    spend_work(LOSS_COST * losses.most.size)  # to make them
    if losses.infinite_high > delta:
        raise CannotCertify(
            "outcomes at the ends of the noise alone have a probability of "
            f"{losses.infinite_high:.4g}: allow a larger delta than that, or use more dummies"
        )
    return certified_epsilon(
        lambda epsilon: certified_delta(losses, epsilon), delta, max(0.0, float(losses.most.max()))
    )


def attained_of_losses(losses: PrivacyLosses, delta: float) -> float:
    """The largest total ε that is found with an attained δ of at least `delta`."""
    if delta == 0.0:
        return 0.0
    return attained_epsilon(losses.attained_delta, delta, max(0.0, float(losses.most.max())))


def epsilon_of_losses(losses: PrivacyLosses, delta: float, basis: tuple[str, ...]) -> Bounds:
    """Certified and attained ε at δ, with the certificate's basis."""
    certified = least_epsilon(losses, delta)
    return Bounds(certified, min(down(attained_of_losses(losses, delta)), certified), None, basis)
