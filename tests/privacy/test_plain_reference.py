"""The fast curves agree with the formulas written down plainly."""

import pytest
from plain_reference import blanket_delta, clones_delta

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.bounds import Setting, delta_bounds
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.local.clones import LocalRandomiser


@pytest.mark.parametrize(
    ("symbols", "epsilon0", "honest", "epsilon"),
    [(10, 1.0, 1000, 0.05), (4, 2.0, 300, 0.3), (100, 1.0, 2000, 0.01)],
)
def test_the_blanket_curve(symbols: int, epsilon0: float, honest: int, epsilon: float) -> None:
    spec = KRRHistogram(symbols=symbols, blanket=epsilon0_to_blanket(epsilon0, symbols))
    plain = blanket_delta(symbols, epsilon0, honest, epsilon)
    assert delta_bounds(spec, Setting(honest, honest), epsilon).certified == pytest.approx(
        plain, rel=2e-3
    )


@pytest.mark.parametrize(
    ("epsilon0", "honest", "epsilon"), [(1.0, 1000, 0.1), (2.0, 500, 0.5), (0.5, 100, 0.2)]
)
def test_the_clones_curve(epsilon0: float, honest: int, epsilon: float) -> None:
    plain = clones_delta(epsilon0, honest, epsilon)
    assert delta_bounds(
        LocalRandomiser(epsilon0), Setting(honest, honest), epsilon
    ).certified == pytest.approx(plain, rel=1e-3)
