"""The picture of `advise`: every mechanism where the table has it, and labels that can be read."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.choosing import Comparison
from shuffledp.cli import app
from shuffledp.front import draw_front

LINE = "advise --users 300 --symbols 5 --epsilon 1 --delta 1e-6"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return sdp.advise(epsilon=1, delta=1e-6, setting=sdp.Setting(1000, 1000), max_value=8)


def test_every_mechanism_is_drawn_where_the_table_has_it(comparison: Comparison) -> None:
    for recommendation in comparison.recommendations:
        axes = Figure(figsize=(5.4, 6.2), layout="constrained").subplots()
        draw_front(axes, recommendation)
        lines: list[Any] = list(axes.lines)
        drawn = {line.get_gid(): line for line in lines if line.get_gid()}
        assert set(drawn) == {row.kind for row in recommendation.rows}
        for row in recommendation.rows:
            assert drawn[row.kind].get_xydata().tolist() == [[row.messages, row.error]]
            bears = row.mechanism.bears_losses
            assert (drawn[row.kind].get_marker() == "X") == (not bears)
        ends = {line.get_ydata()[0] for line in lines if not line.get_gid()}
        assert ends == {recommendation.beside.central, recommendation.beside.local}


def test_no_label_covers_another(comparison: Comparison) -> None:
    for recommendation in comparison.recommendations:
        figure = Figure(figsize=(5.4, 6.2), layout="constrained")
        draw_front(figure.subplots(), recommendation)
        canvas: Any = FigureCanvasAgg(figure)
        renderer = canvas.get_renderer()
        boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
        assert len(boxes) == len(recommendation.rows) + 2
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_the_command_writes_the_picture_and_refuses_other_formats(tmp_path: Path) -> None:
    file = tmp_path / "front.svg"
    done = CliRunner().invoke(app, [*LINE.split(), "--plot", str(file)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "node-histogram" in file.read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, [*LINE.split(), "--plot", str(tmp_path / "front.gif")])
    assert refused.exit_code != 0
    assert "must be a file that ends in" in str(refused.exception)
