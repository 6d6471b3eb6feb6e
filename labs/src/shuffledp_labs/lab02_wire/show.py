"""The picture of lab 2: bytes sent, by answer.

It shows clients that send only their ones, and real ones with the student's messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shuffledp.notebook import check_installed
from shuffledp_labs.errors import NotWritten, StudentFault
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab02_wire import instances

HOPS: Final = 3
SUITE: Final = "sealed-box"
REAL_USERS: Final = 12

Points = Sequence[tuple[int, int]]
"""(answer, bytes) of clients."""


def ones_only_points(draws: Draws) -> Points:
    """What the observer reads from clients that send only their ones, as points."""
    recording = instances.only_ones(draws, SUITE, HOPS)
    return _points(recording.flows, recording.answers)


def _points(flows: Sequence[tuple[str, int]], answers: dict[str, int]) -> Points:
    return [(answers[client], size) for client, size in instances.longest(flows).items()]


def show(showing: ShowRun) -> Path:
    """Draw what an observer sees; once `encode` is written, also in a real round."""
    from shuffledp_labs.lab02_wire.system import watch

    panels = [
        (
            "a message for every one: the length is the answer",
            ones_only_points(showing.draws.child("ones")),
        )
    ]
    program = showing.program
    try:
        # Asked before anything starts: a stub, or a slip, should not cost half a minute.
        program.call("encode", 1, 2, showing.draws.bytes)
        showing.progress(f"a real round of {REAL_USERS} users with your encode, past a proxy")
        watched = asyncio.run(
            watch(
                showing.draws.child("real"),
                lambda answer, messages: list(
                    program.call("encode", answer, messages, showing.draws.bytes)
                ),
                users=REAL_USERS,
                suite=SUITE,
            )
        )
        ended = "published" if watched.published else f"not published ({watched.reason})"
        showing.progress(f"the round is {ended}; {watched.missing} of your messages are missing")
        panels.append(
            ("your encode, a real round past a proxy", _points(watched.flows, watched.answers))
        )
    except NotWritten:
        showing.progress(
            "encode is not written yet: the picture has what step B sees, and no real round"
        )
    except (StudentFault, ValueError, TypeError) as fault:
        showing.progress(f"no real round with this encode: {fault}")
    return draw(panels, showing.out / "bytes.png")


def draw(panels: Sequence[tuple[str, Points]], file: Path) -> Path:
    """Draw the picture, with one panel for each way of sending."""
    check_installed("matplotlib", "shuffledp[plot]", "the picture")
    from matplotlib.figure import Figure

    from shuffledp_adversary.attacks.picture import CurveRole

    figure = Figure(figsize=(5.2 * len(panels), 4.2), dpi=140, layout="constrained")
    for axes, (title, points), role in zip(
        figure.subplots(1, len(panels), squeeze=False)[0],
        panels,
        (CurveRole.MEASURED, CurveRole.SAFE),
        strict=False,
    ):
        axes.plot(
            [answer for answer, _ in points],
            [size for _, size in points],
            "o",
            color=role.value,
            alpha=0.75,
        )
        axes.set_title(title, fontsize=11, loc="left")
        axes.set(xlabel="randomised answer of the client", ylabel="bytes that it sent")
        axes.set_ylim(0, 1.15 * max(size for _, size in points))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=True, color=CurveRole.LIMIT.value, alpha=0.18, lw=0.7)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(file)
    return file
