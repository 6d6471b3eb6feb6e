"""The picture of lab 3: the student's node in a real system, with verdicts along the route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shuffledp.notebook import check_installed
from shuffledp_labs.lab03_node.joining import (
    DROPS,
    TAMPERINGS,
    USERS,
    JoinOutcome,
    TamperOutcome,
    play_join,
    play_withstand,
)

if TYPE_CHECKING:
    from shuffledp_labs.lab import ShowRun

PICTURE: Final = "node.png"
_GOOD: Final = "#3f9b6c"
_BAD: Final = "#c8553d"
_QUIET: Final = "#8a8f98"
_INK: Final = "#22313f"
_STATIONS: Final = ("12 users", "node 1", "your node", "node 3", "board")
_DOES: Final = {
    "honest": "nodes 1 and 3 write\ndown all they see",
    "copy": "node 1 sends one\nonion three times",
    "mark": "node 1 flips a bit\nof one onion",
    "replay": "node 1 sends an onion\nof the last round again",
}


def show(showing: ShowRun) -> Path:
    """Play an honest round and three tampered ones, and draw their outcomes."""
    showing.progress("a round with your node as node 2; nodes 1 and 3 write down what they see")
    joined = play_join(showing.work)
    showing.progress(
        f"published: {joined.failed is None}; right by place: {joined.by_place} of "
        f"{joined.messages}"
    )
    tampered = play_withstand(showing.work, TAMPERINGS, showing.progress)
    for seen in tampered:
        showing.progress(
            f"{seen.tampering}: dropped by nodes 1, 2, 3: {seen.failed or seen.dropped}"
        )
    file = showing.out / PICTURE
    draw(joined, tampered, file)
    return file


def draw(joined: JoinOutcome, tampered: Sequence[TamperOutcome], file: Path) -> None:
    """Draw a row for each round, with a verdict under every party that has one."""
    check_installed("matplotlib", "shuffledp[plot]", "the picture")
    from matplotlib.figure import Figure

    rows = [
        ("honest", _verdicts_joined(joined)),
        *((seen.tampering, _verdicts(seen)) for seen in tampered),
    ]
    figure = Figure(figsize=(9.6, 1.05 * len(rows) + 0.5), dpi=140, layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(-1.75, len(_STATIONS) - 0.35)
    axes.set_ylim(len(rows) - 0.4, -0.35)
    axes.axis("off")
    axes.set_title(
        "Your node on the route, and what every station said", fontsize=12, loc="left", color=_INK
    )
    for row, (name, verdicts) in enumerate(rows):
        axes.text(-1.7, row, _DOES.get(name, name), fontsize=9, va="center", color=_INK)
        for column in range(len(_STATIONS) - 1):  # between the boxes, so that the heads are seen
            ends = (column + 0.68, row), (column + 0.3, row)
            axes.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": _QUIET})
        for column, station in enumerate(_STATIONS):
            _station(axes, column, row, station, verdicts.get(column))
    figure.savefig(file)


def _station(axes: Any, column: int, row: int, name: str, verdict: tuple[bool, str] | None) -> None:
    colour = _QUIET if verdict is None else _GOOD if verdict[0] else _BAD
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": "white",
        "edgecolor": colour,
        "linewidth": 1.8,
    }
    axes.text(
        column, row, name, ha="center", va="center", fontsize=9, bbox=box, color=_INK, zorder=3
    )
    if verdict is not None:
        axes.text(column, row + 0.27, verdict[1], ha="center", va="top", fontsize=7.5, color=colour)


def _verdicts_joined(seen: JoinOutcome) -> dict[int, tuple[bool, str]]:
    if seen.failed is not None:
        return {4: (False, "no result")}
    hides = seen.by_place < seen.messages
    return {
        1: (False, "corrupt"),
        0: (not seen.missed, f"{USERS - seen.missed} found\ntheir messages"),
        2: (hides, "mixed" if hides else "kept the order"),
        3: (
            not seen.traced,
            f"corrupt; traced {seen.traced},\nby place {seen.by_place} of {seen.messages} right",
        ),
        4: (True, "published"),
    }


def _verdicts(seen: TamperOutcome) -> dict[int, tuple[bool, str]]:
    if seen.failed is not None:
        return {2: (False, "refused\nthe batch"), 4: (False, "no result:\neverybody's round")}
    _, dropped_here, later = seen.dropped
    complaint = (
        f"{seen.missed} user{'s' if seen.missed != 1 else ''} "
        f"complain{'s' if seen.missed == 1 else ''}"
    )
    return {
        1: (False, "malicious"),
        0: (True, f"{complaint},\nreceipt in hand"),
        2: (dropped_here == DROPS[seen.tampering], f"dropped {dropped_here}\nand signed for it"),
        3: (not later, f"had to drop {later}" if later else "nothing to drop"),
        4: (not seen.identified, f"{seen.identified} messages of\nthe victim known"),
    }
