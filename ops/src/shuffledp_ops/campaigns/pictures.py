"""Pictures of a campaign: the planned budget over all dates, and a question's answers over time.

They are narrow, so that their text is readable on a telephone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

_TITLE: Final = 46
"""Characters in a line of a title, which begins where the vertical axis does."""

_LEGEND: Final = 66
"""Characters in a line of the legend."""

_KEY: Final = 7
"""Characters that an entry of the legend has room for besides its name."""

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
    rounds = (
        f"{account.population}: {len(course.dates):,} rounds of {', '.join(names) or 'nothing'}"
    )
    lines = [*wrap(rounds, _TITLE), f"({account.composition} composition): {verdict}"]
    axes.set_title("\n".join(lines).replace("$", r"\$"), fontsize=10, loc="left")
    _dress(axes, days if points else _days([]))
    axes.legend(loc="best", frameon=False, fontsize=9)


def draw_answers(question: CampaignQuestion, rows: Sequence[DatedAnswer]) -> bytes:
    """The answers to a question over time with 95% intervals, and the ε spent below, as PNG."""
    figure = _new_figure(5.2)
    above, below = figure.subplots(2, height_ratios=(3, 1), sharex=True)
    answered = [row for row in rows if row.answer is not None and row.answer.accepted > 0]
    if answered and answered[-1].answer is not None:
        _drawing_of(answered[-1].answer)(above, answered)
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
    labels = above.get_legend_handles_labels()[1]
    if labels:
        columns = min(3, max(1, _LEGEND // (max(map(len, labels)) + _KEY)))
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
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


@dataclass(frozen=True)
class _Line:
    """A quantity over time: for each date its estimate and the ends of its interval, or None."""

    label: str
    points: Sequence[tuple[float, float, float] | None]


def _drawing_of(answer: SavedAnswer) -> Callable[[Axes, Sequence[DatedAnswer]], None]:
    """The function that draws answers of this kind over time."""
    if answer.open_list is not None:
        return _draw_texts
    if answer.totals is not None:
        return _draw_totals
    if answer.quantiles:
        return _draw_quantiles
    return _draw_means if answer.is_sum else _draw_shares


def _answers(rows: Sequence[DatedAnswer]) -> list[SavedAnswer]:
    return [row.answer for row in rows if row.answer is not None]


def _draw_means(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    answers = _answers(rows)
    _draw_lines(axes, rows, [_Line("mean", [_scaled_answer(answer, 0, 1.0) for answer in answers])])
    axes.set_ylabel(f"mean{_unit([answer.unit for answer in answers])}, 95% intervals")


def _unit(units: Sequence[str | None]) -> str:
    distinct = {unit for unit in units if unit}
    return f" in {distinct.pop()}".replace("$", r"\$") if len(distinct) == 1 else ""


def _draw_texts(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    """Draw the most frequent texts; a text has no point at dates on which it is not listed."""
    found_texts = [
        {} if answer.open_list is None else {text.text: text for text in answer.open_list.texts}
        for answer in _answers(rows)
    ]
    people: dict[str, float] = {}
    for texts in found_texts:
        for text in texts.values():
            people[text.text] = people.get(text.text, 0.0) + text.people
    shown = sorted(people, key=people.__getitem__, reverse=True)[:MOST_LINES]
    _draw_lines(
        axes,
        rows,
        [
            _Line(
                name,
                [
                    (texts[name].people, texts[name].low, texts[name].high)
                    if name in texts
                    else None
                    for texts in found_texts
                ],
            )
            for name in shown
        ],
    )
    axes.set_ylabel("people, 95% intervals" + _rest(len(people) - len(shown), "rarer texts"))
    axes.set_ylim(bottom=0)


def _rest(number: int, what: str) -> str:
    return f"\n({number} {what}: in the table)" if number > 0 else ""


def _draw_totals(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    """Draw the sums of the groups with the largest sums."""
    totals = [answer.totals for answer in _answers(rows)]
    groups = [
        {} if total is None else {sum_.name: sum_ for sum_ in total.groups} for total in totals
    ]
    largest: dict[str, float] = {}
    for sums in groups:
        for name, total in sums.items():
            largest[name] = largest.get(name, 0.0) + total.value
    shown = sorted(largest, key=largest.__getitem__, reverse=True)[:MOST_LINES]
    lines = [
        _Line(
            name or "sum",
            [
                (sums[name].value, sums[name].low, sums[name].high) if name in sums else None
                for sums in groups
            ],
        )
        for name in shown
    ]
    _draw_lines(axes, rows, lines)
    unit = _unit([None if total is None else total.unit for total in totals])
    rest = _rest(len(largest) - len(shown), "smaller groups")
    axes.set_ylabel(f"sum{unit}, 95% intervals{rest}")
    axes.yaxis.set_major_formatter(_format_number)


def _format_number(value: float, _: object) -> str:
    return f"{value:,.6g}"


def _draw_quantiles(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    """Draw the quantiles over time, with bin names on the vertical axis."""
    answers = _answers(rows)
    shares = [quantile.share for quantile in answers[-1].quantiles]
    of_dates = [{quantile.share: quantile for quantile in answer.quantiles} for answer in answers]
    lines = [
        _Line(
            "median" if share == 0.5 else f"{share:.0%}",
            [
                (of_date[share].bin, of_date[share].low, of_date[share].high)
                if share in of_date
                else None
                for of_date in of_dates
            ],
        )
        for share in reversed(shares)
    ]
    _draw_lines(axes, rows, lines)
    low, high = axes.get_ylim()
    last = len(answers[-1].values) - 1
    shown = sorted({round(value) for value in np.linspace(max(low, 0), min(high, last), 6)})
    axes.set_yticks(shown, [_label(answers[-1], value) for value in shown])
    axes.set_ylabel("quantiles, 95% intervals")


def _draw_shares(axes: Axes, rows: Sequence[DatedAnswer]) -> None:
    answers = _answers(rows)
    values = min(len(answer.values) for answer in answers)
    totals = [sum(answer.values[value] for answer in answers) for value in range(values)]
    shown = sorted(sorted(range(values), key=totals.__getitem__, reverse=True)[:MOST_LINES])
    lines = [
        _Line(
            _label(answers[-1], value), [_scaled_answer(answer, value, 100.0) for answer in answers]
        )
        for value in shown
    ]
    _draw_lines(axes, rows, lines)
    axes.set_ylabel("% of reports, 95% intervals" + _rest(values - len(shown), "rarer values"))


def _scaled_answer(answer: SavedAnswer, value: int, scale: float) -> tuple[float, float, float]:
    """A value of an answer for each report, times `scale`, with its interval."""
    lows, highs = answer.bounds
    share = scale / answer.reports
    return answer.values[value] * share, lows[value] * share, highs[value] * share


def _label(answer: SavedAnswer, value: int) -> str:
    return _short(answer.labels[value] if answer.labels else f"value {value}")


def _short(name: str) -> str:
    return shorten(name, _LABEL, placeholder=" …").replace("$", r"\$")


def _draw_lines(axes: Axes, rows: Sequence[DatedAnswer], lines: Sequence[_Line]) -> None:
    """Draw quantities over time with their intervals, side by side so that none hides another."""
    days = _days([row.when for row in rows if row.answer is not None])
    apart = np.timedelta64(int((days[-1] - days[0]).astype(int)) // 150, "s")
    for index, line in enumerate(lines):
        aside = (2 * index - len(lines) + 1) * apart // 2
        points = np.array([point or (np.nan,) * 3 for point in line.points], dtype=np.float64)
        centres, lows, highs = points.T
        colour = COLOURS[index % len(COLOURS)]
        mark = MARKS[index % len(MARKS)]
        label = _short(line.label)
        axes.plot(days + aside, centres, color=colour, marker=mark, ms=5, lw=1.4, label=label)
        # Apart from the line: an unbiased estimate may lie outside its interval, which is cut to
        # what is possible.
        axes.errorbar(
            days + aside,
            (lows + highs) / 2,
            yerr=(highs - lows) / 2,
            fmt="none",
            ecolor=colour,
            elinewidth=1.4,
            capsize=3,
        )


def _days(moments: Sequence[datetime]) -> NDArray[np.datetime64]:
    """Convert times into the local times of their zones."""
    return np.array([moment.replace(tzinfo=None) for moment in moments], dtype="datetime64[s]")


def _dress(axes: Axes, dates: NDArray[np.datetime64]) -> None:
    """Style the axes, with ticks at the campaign's dates or some of them."""
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
