"""`shuffledp certify` for the lecture's local mechanisms."""

import json

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app


@pytest.mark.parametrize(
    ("kind", "variance"), [("one-bit-local", None), ("laplace-mean", 2 * 20**2)]
)
def test_a_local_mean_keeps_exactly_its_epsilon(kind: str, variance: float | None) -> None:
    line = [
        "certify",
        kind,
        "--users",
        "100",
        "--max-value",
        "20",
        "--epsilon0",
        "1",
        "--format",
        "json",
    ]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["mechanism"] == kind
    assert answer["epsilon"]["certified"] == pytest.approx(1.0, rel=1e-9)
    assert answer["epsilon"]["certified"] >= 1.0 >= answer["epsilon"]["attained"]
    assert answer["corrupted"]["epsilon"] == pytest.approx(1.0, rel=1e-9)
    if variance is not None:
        assert answer["standard_error"] == pytest.approx((100 * variance) ** 0.5, rel=1e-9)
