"""Pictures of a campaign: the planned budget over all dates, and a question's answers over time.

They are narrow, so that their text is readable on a telephone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.bars import ESTIMATE, TRUTH
from shuffledp.notebook import check_installed
from shuffledp_ops.campaigns.budget import BudgetCourse, Outlook
from shuffledp_ops.campaigns.config import CampaignQuestion
from shuffledp_ops.campaigns.results import DatedAnswer
from shuffledp_ops.campaigns.state import DateOutcome
from shuffledp_ops.results.saved import SavedAnswer
from shuffledp_ops.rounds.picture import QUIET, hide_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES: Final = 8
"""Values of a histogram that get a line, the most frequent ones: more colours look alike."""

COLOURS: Final = (
    "#2a6f97",
    "#c25f0e",
    "#3f8f4f",
    "#8c5ba8",
    "#a8323e",
    "#6d6d6d",
    "#b08900",
    "#2aa0a4",
)
MARKS: Final = "osD^vP*X"

_WIDTH: Final = 5.0
"""Inches, which fill a telephone: a letter of 10 points is then about 10 pixels high."""

_DPI: Final = 200
_MOST_TICKS: Final = 6

_TITLE: Final = 56
"""Characters in a line of a title."""

_LABEL: Final = 30
"""Characters of a value's name."""


def draw_budget(outlook: Outlook) -> bytes:
    """Draw each population's planned budget over the dates to come, with its limit, as PNG."""
    count = len(outlook.courses)
    figure = _new_figure(3.2 * count)
    for axes, course in zip(
        figure.subplots(count, squeeze=False)[:, 0], outlook.courses, strict=True
    ):
        _draw_course(axes, course)
    return _png(figure)


def _draw_course(axes: Axes, course: BudgetCourse) -> None:
    account, points = course.account, course.spending()
    highest = max(
        2 * account.limit, 1e-9
    )  # what lies far beyond the limit is no part of the picture
    if points:
        days = _days([datetime.fromtimestamp(at / 1000, UTC) for at, _ in points])
        spent = [course.before, *(min(epsilon, highest) for _, epsilon in points)]
        axes.step(
            days[[0, *range(len(days))]], spent, where="post", color=ESTIMATE, lw=2, label="planned"
        )
        axes.plot(days, spent[1:], "o", color=ESTIMATE, ms=4)
    axes.axhline(account.limit, color=TRUTH, lw=1.8, ls="--", label=f"limit {account.limit:g}")
    axes.set_ylim(
        0,
        1.12 * max(account.limit, *(min(epsilon, highest) for _, epsilon in points), course.before),
    )
    axes.set_ylabel(f"ε at δ = {account.delta:g}")
    names = sorted({date.question for date in course.dates})
    verdict = "fits" if course.fits else "does NOT fit"
    axes.set_title(
        f"{account.population}: {len(course.dates):,} rounds of {', '.join(names) or 'nothing'}\n"
        f"({account.composition} composition): {verdict}".replace("$", r"\$"),
        fontsize=10,
        loc="left",
    )
    _dress(axes, days if points else _days([]))
    axes.legend(loc="best", frameon=False, fontsize=9)


def draw_answers(question: CampaignQuestion, rows: Sequence[DatedAnswer]) -> bytes:
    """The answers to a question over time with 95% intervals, and the ε spent below, as PNG."""
    figure = _new_figure(5.2)
    above, below = figure.subplots(2, height_ratios=(3, 1), sharex=True)
    answered = [row for row in rows if row.answer is not None and row.answer.accepted > 0]
    if answered and answered[0].answer is not None:
        (_draw_means if answered[0].answer.is_sum else _draw_shares)(above, answered)
    else:
        above.text(0.5, 0.5, "no answer yet", transform=above.transAxes, ha="center", color=QUIET)
        above.set_yticks([])
    _mark_gaps(
        above,
        [row for row in rows if row.entry.outcome in {DateOutcome.FAILED, DateOutcome.MISSED}],
    )
    spending = [(row.when, row.entry.last.spent) for row in rows if row.entry.last is not None]
    days = _days([day for day, spent in spending if spent is not None])
    spent = [spent for _, spent in spending if spent is not None]
    below.step(days, spent, where="post", color=ESTIMATE, lw=1.8)
    below.plot(days, spent, "o", color=ESTIMATE, ms=3.5)
    below.set_ylim(bottom=0)
    below.set_ylabel("ε spent")
    title = "\n".join(wrap(question.subject, _TITLE))
    above.set_title(title.replace("$", r"\$"), fontsize=11, loc="left")
    dates = _days([row.when for row in rows])
    for axes in (above, below):
        _dress(axes, dates)
    if above.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return _png(figure)


def _mark_gaps(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    for row, day in zip(rows, _days([row.when for row in rows]), strict=True):
        axes.axvline(day, color=QUIET, ls=":", lw=1.2)
        axes.annotate(
            row.entry.outcome.value,
            (day, 0.98),
            xycoords=("data", "axes fraction"),
            rotation=90,
            va="top",
            ha="right",
            fontsize=8,
            color=QUIET,
        )


def _draw_means(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    _draw_value(axes, _days([row.when for row in rows]), rows, 0, 1.0, 0, "mean")
    units = {row.answer.unit for row in rows if row.answer is not None and row.answer.unit}
    unit = f" in {units.pop()}".replace("$", r"\$") if len(units) == 1 else ""
    axes.set_ylabel(f"mean{unit}, 95% intervals")


def _draw_shares(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    answers = [row.answer for row in rows if row.answer is not None]
    values = min(len(answer.values) for answer in answers)
    totals = [sum(answer.values[value] for answer in answers) for value in range(values)]
    shown = sorted(sorted(range(values), key=totals.__getitem__, reverse=True)[:MOST_LINES])
    days = _days([row.when for row in rows])
    # Side by side, so that no interval hides another.
    apart = np.timedelta64(int((days[-1] - days[0]).astype(int)) // 150, "s")
    for index, value in enumerate(shown):
        aside = (2 * index - len(shown) + 1) * apart // 2
        _draw_value(axes, days + aside, rows, value, 100.0, index, _label(answers[-1], value))
    rest = values - len(shown)
    axes.set_ylabel(
        "% of reports, 95% intervals"
        + (f"\n({rest} rarer values: in the table)" if rest > 0 else "")
    )


def _label(answer: SavedAnswer, value: int) -> str:
    name = answer.labels[value] if answer.labels else f"value {value}"
    return shorten(name, _LABEL, placeholder=" …").replace("$", r"\$")


def _draw_value(
    axes: Axes,
    days: NDArray[np.datetime64],
    rows: Sequence[DatedAnswer],
    value: int,
    scale: float,
    index: int,
    label: str,
) -> None:
    """One value of the answers for each report, times `scale`, with its intervals."""
    answers = [row.answer for row in rows if row.answer is not None]
    columns = (
        [answer.values for answer in answers],
        *zip(*(answer.bounds for answer in answers), strict=True),
    )
    centres, lows, highs = (
        np.array(
            [
                numbers[value] * scale / answer.reports
                for answer, numbers in zip(answers, column, strict=True)
            ]
        )
        for column in columns
    )
    colour, mark = COLOURS[index], MARKS[index]
    axes.plot(days, centres, color=colour, marker=mark, ms=5, lw=1.4, label=label)
    # Apart from the line: an unbiased estimate may lie outside its interval, which is cut to what
    # is possible.
    middles = (lows + highs) / 2
    reach = (highs - lows) / 2
    axes.errorbar(days, middles, yerr=reach, fmt="none", ecolor=colour, elinewidth=1.4, capsize=3)


def _days(moments: Sequence[datetime]) -> NDArray[np.datetime64]:
    """Times as the clocks of their zones show them."""
    return np.array([moment.replace(tzinfo=None) for moment in moments], dtype="datetime64[s]")


def _dress(axes: Axes, dates: NDArray[np.datetime64]) -> None:
    """Put ticks at the campaign's own dates, or some of them, and style the axes."""
    step = -(-len(dates) // _MOST_TICKS) or 1
    ticks = dates[::step]
    is_one_day = len(dates) > 0 and dates[-1] - dates[0] < np.timedelta64(1, "D")
    form = "%H:%M" if is_one_day else "%m-%d"
    axes.set_xticks(ticks, [f"{moment:{form}}" for moment in ticks.tolist()])
    axes.tick_params(labelsize=9)
    hide_frame(axes)


def _new_figure(height: float) -> Figure:
    check_installed("matplotlib", "shuffledp[plot]", "the picture of a campaign")
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()
