"""Other papers' bounds in the forms that the tables of Biswas et al. seem to use.

None is a bound here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from shuffledp_experiments.biswas.truth import Group
from shuffledp_privacy.histogram.published import weak_adversary_delta

Formula = Callable[[Group, float], float]


def erlingsson_form(group: Group, epsilon: float) -> float:
    """δ of ε = 12 ε0 √(ln(1/δ)/n): Erlingsson et al. 2019, Theorem 7.

    It is used outside the theorem's range, so it is not a bound here.
    """
    return math.exp(-group.users * (epsilon / (12 * group.epsilon0)) ** 2)


def balle_form(group: Group, epsilon: float) -> float:
    """δ of ε = ε0 e^ε0 √(ln(1/δ)/n), the order of growth in Balle et al. 2019 for ε0 <= 1.

    The constant is 1.
    """
    return math.exp(-group.users * (epsilon / (group.epsilon0 * math.exp(group.epsilon0))) ** 2)


def balle_form_above_1(group: Group, epsilon: float) -> float:
    """δ of ε = e^ε0 √(ln(1/δ)/n): `balle_form` without min(1, ε0), as if ε0 were above 1."""
    return math.exp(-group.users * (epsilon / math.exp(group.epsilon0)) ** 2)


def feldman_form_base_2(group: Group, epsilon: float) -> float:
    """δ of ε = (1 - e^-ε0) √(e^ε0 log2(1/δ)/n), the order of growth in Feldman et al. 2021.

    The constant is 1 and the logarithm to base 2.
    """
    return math.exp2(
        -group.users * (epsilon / -math.expm1(-group.epsilon0)) ** 2 * math.exp(-group.epsilon0)
    )


def feldman_form_unsquared(group: Group, epsilon: float) -> float:
    """δ of ε = √((1 - e^-ε0) e^ε0 ln(1/δ)/n), with a misplaced factor under the root.

    1 - e^-ε0 does not belong there.
    """
    return math.exp(-group.users * epsilon**2 / math.expm1(group.epsilon0))


def koskela_two_symbols(group: Group, epsilon: float) -> float:
    """δ against the weak adversary of Koskela et al. 2021, the formula closest to the tables.

    It is computed for k = 2 and valid only there.
    """
    return weak_adversary_delta(Group(group.users, 2, group.epsilon0).spec(), group.users, epsilon)
