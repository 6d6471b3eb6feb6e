"""Plots of the explanation pages, drawn at build time from results of `shuffledp`.

They stand in the page as SVG, in the colours of its text, so that one picture serves light and
dark, and no file has to be loaded.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.front import add_legend, draw_front

CROWDS: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
"""Numbers of users, evenly spread on a logarithmic scale."""

PLANNED: Final = 10_000
"""People for whom the histograms of `honest_people` are planned."""

_TEXT: Final = "#010203"
"""Placeholder colour, used by nothing else, that becomes the colour of the page's text."""

_LOCAL, _SHUFFLE, _CENTRAL = "#e07a1f", "#2a8fc9", "#5d9e5d"
"""Readable on white as on black, and told apart by people who see red and green alike."""

_HISTOGRAMS: Final = {
    "krr-histogram": _LOCAL,
    "dummy-histogram": _SHUFFLE,
    "node-histogram": _CENTRAL,
}

_STYLE: Final[dict[Any, Any]] = {
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _TEXT
    ),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 12,
    "svg.hashsalt": "shuffledp",
}


def three_models() -> str:
    """Plot of a count's error at ε = 1, δ = 1e-6 by number of users, in three trust models."""
    local = [
        _json_of("certify", "one-bit-local", "--epsilon0=1", "--max-value=1", f"--users={n}")
        for n in CROWDS
    ]
    shuffle = [
        _json_of("calibrate", "krr-histogram", "--epsilon=1", "--symbols=2", f"--users={n}")
        for n in CROWDS
    ]
    discrete_laplace = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))
    with mpl.rc_context(_STYLE):
        figure, axes = _empty("standard error, in people")
        _line(
            axes, [answer["standard_error"] for answer in local], "local: no one is trusted", _LOCAL
        )
        _line(
            axes,
            [answer["standard_error"] for answer in shuffle],
            "shuffle: one of the nodes is trusted",
            _SHUFFLE,
        )
        _line(
            axes, [discrete_laplace] * len(CROWDS), "central: one party sees everything", _CENTRAL
        )
        return _inline(
            figure,
            "Local, shuffle and central model: the error of a count against the number of users",
        )


def crowd() -> str:
    """Plot of ε after shuffling reports with ε0 = 1 each, against the number of users."""
    answers = [
        _json_of("certify", "krr-histogram", "--epsilon0=1", "--symbols=2", f"--users={n}")
        for n in CROWDS
    ]
    with mpl.rc_context(_STYLE):
        figure, axes = _empty("ε")
        _line(axes, [1.0] * len(CROWDS), "one report alone: ε0", _LOCAL)
        _line(
            axes,
            [answer["epsilon"]["certified"] for answer in answers],
            "shuffled: ε certified",
            _SHUFFLE,
        )
        return _inline(figure, "The certified ε falls with the number of users")


def honest_people() -> str:
    """Plot of ε of histograms planned for 10,000 honest people, by actual honest people."""
    everyone = sdp.Setting(PLANNED, PLANNED)
    honest = np.unique(np.geomspace(10, PLANNED, 40).astype(int)).tolist()
    with mpl.rc_context(_STYLE):
        figure, axes = _empty("ε certified")
        axes.set(xlabel="honest people of 10,000", yscale="linear")
        for kind, colour in _HISTOGRAMS.items():
            plan = sdp.calibrate(kind, epsilon=1, delta=1e-6, setting=everyone, symbols=21)
            certified = [sdp.certify(plan, sdp.Setting(PLANNED, h)).certified for h in honest]
            # No point where no ε is certified.
            points = [(h, e) for h, e in zip(honest, certified, strict=True) if e is not None]
            axes.plot(*zip(*points, strict=True), color=colour, lw=2.5, label=kind)
        return _inline(figure, "The certified ε of three histograms by the number of honest people")


def front_of_sums() -> str:
    """Plot of the error of a sum by messages, from the local model to a trusted party."""
    people = sdp.Setting(PLANNED, PLANNED)
    comparison = sdp.advise(epsilon=1, delta=1e-6, setting=people, max_value=20)
    recommendation = comparison.recommendations[-1]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.4, 6.2), layout="constrained")
        axes = figure.subplots()
        draw_front(axes, recommendation)
        add_legend(axes)
        return _svg(figure, "The error of a sum by the messages of a person, for each mechanism")


def _json_of(*words: str) -> dict[str, Any]:
    """JSON output of a command, so that plots show what a reader would get."""
    completed = CliRunner().invoke(
        app, [*words, "--delta=1e-6", "--format=json"], catch_exceptions=False
    )
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer


def _empty(quantity: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="users", ylabel=quantity)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure, axes


def _line(axes: Axes, values: Sequence[float], label: str, colour: str) -> None:
    axes.plot(CROWDS, values, color=colour, lw=2.5, label=label)


def _inline(figure: Figure, title: str) -> str:
    figure.axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=11)
    return _svg(figure, title)


def _svg(figure: Figure, title: str) -> str:
    """The figure as inline SVG, with text in the page's colour."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace(_TEXT, "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>',
        rf'<svg class="drawn" role="img" viewBox="\1"><title>{title}</title>',
        drawn,
    )
    return f"````{{raw}} html\n{drawn}\n````"
