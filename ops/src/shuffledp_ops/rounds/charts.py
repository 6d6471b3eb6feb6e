"""Charts of an answer as SVG, in the colours of the page's style sheet.

Pure; sizes are in pixels.

A chart is drawn twice, for wide screens and for telephones, because scaled-down text would be too
small to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from shuffledp.pages import as_html

WIDE: Final = (860.0, 340.0)
NARROW: Final = (360.0, 280.0)

_LETTER: Final = 7.2
"""Width of a letter of 12 pixels, with some room."""

_LONGEST: Final = 14
"""Letters of a name below a bar."""

_TOP, _RIGHT, _FOOT = 12.0, 12.0, 26.0


@dataclass(frozen=True)
class Bars:
    """Estimated counts with their intervals; all sequences have one entry for each bar.

    `truths` are the true counts, known in a simulation only. `named` bars have names, all of which
    are shown if there is room; of numbers only some are shown, since the others follow from their
    neighbours.
    """

    labels: Sequence[str]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    truths: Sequence[float] | None = None
    named: bool = False


def histogram(bars: Bars, title: str) -> str:
    """A histogram: bars from zero to the estimates, intervals as lines, true counts as marks.

    It is drawn for wide and for narrow screens.
    """
    return _both(lambda width, height: _histogram(bars, width, height), title)


@dataclass(frozen=True)
class Span:
    """One estimate with its interval, and the range of all possible answers."""

    value: float
    low: float
    high: float
    most: float
    truth: float | None = None
    least: float = 0.0


def interval(span: Span, title: str) -> str:
    """Draw an estimate on the scale of possible answers, and magnified if it is too small there."""
    return _both(lambda width, _: _interval(span, width), title)


@dataclass(frozen=True)
class DistributionCurve:
    """A distribution function over bins; all but the labels have one entry for each point.

    `ends` are the numbers of bins up to each point, rising, the last one that of all bins.
    `values`, `lows`, `highs` and `truths` are shares of the people, from 0 to 1.
    """

    labels: Sequence[str]
    ends: Sequence[int]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    truths: Sequence[float] | None = None


def distribution(curve: DistributionCurve, title: str) -> str:
    """Draw a distribution function with its band, and the true one as a line, for two widths."""
    return _both(lambda width, height: (height, _distribution_parts(curve, width, height)), title)


def _distribution_parts(curve: DistributionCurve, width: float, height: float) -> Iterator[str]:
    bins = len(curve.labels)
    left = 14 + _LETTER * len("100%")
    frame = _Frame(left, _TOP, width - _RIGHT, height - _FOOT, 0.0, 1.0)
    step = (frame.right - frame.left) / bins
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = frame.y(share)
        yield _line("grid" if share else "zero", frame.left, y, frame.right, y)
        yield _text("tick end", frame.left - 6, y + 4, f"{share:.0%}")
    places = [frame.left + end * step for end in curve.ends]
    upper = [f"L{x:.1f} {frame.y(share):.1f}" for x, share in zip(places, curve.highs, strict=True)]
    lower = [f"L{x:.1f} {frame.y(share):.1f}" for x, share in zip(places, curve.lows, strict=True)]
    start = f"M{frame.left:.1f} {frame.bottom:.1f}"
    yield _path("band", iter([start, *upper, *reversed(lower), "z"]))
    lines = [("estimate", curve.values)]
    if curve.truths is not None:
        lines.append(("truth thin", curve.truths))
    for name, shares in lines:
        points = (f"L{x:.1f} {frame.y(share):.1f}" for x, share in zip(places, shares, strict=True))
        yield _path(name, iter([start, *points]))
    names, _ = _names(Bars(curve.labels, (), (), ()), step)
    for index, name in names:
        yield _tick(frame, frame.left + (index + 0.5) * step, name)


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` + 1 round numbers from `low` to `high`, for an axis.

    Steps are 1, 2 or 5 times a power of ten; low < high.
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def figure(value: float) -> str:
    """Format a number for an axis or a sentence: whole with thousands, or the digits it needs."""
    if abs(value) >= 1e9:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.3g}"


def _both(draw: Callable[[float, float], tuple[float, Iterator[str]]], title: str) -> str:
    drawn = []
    for name, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
        taken, parts = draw(width, height)
        drawn.append(
            f'<svg class="chart {name}" role="img" viewBox="0 0 {width:g} {taken:g}" '
            f'aria-label="{as_html(title)}">'
            f"{''.join(parts)}</svg>"
        )
    return "".join(drawn)


def _histogram(bars: Bars, width: float, height: float) -> tuple[float, Iterator[str]]:
    ends = [*bars.values, *bars.highs, *(bars.truths or ())]
    high = max(*ends, 1.0)
    low = min(*bars.values, 0.0)
    scale = ticks(low, high, 5)
    left = 14 + _LETTER * max(len(figure(tick)) for tick in scale)
    names, foot = _names(bars, (width - left - _RIGHT) / len(bars.labels))
    turned = foot > _FOOT
    if turned:  # names need room to the left of their bars
        step = (width - left - _RIGHT) / len(bars.labels)
        reach = max(0.78 * _LETTER * len(name) - (index + 0.4) * step for index, name in names)
        left = max(left, reach)
    frame = _Frame(left, _TOP, width - _RIGHT, height - foot, low, high)
    return height, _histogram_parts(bars, frame, scale, names, turned=turned)


@dataclass(frozen=True)
class _Frame:
    """Edges of the drawing, and the smallest and largest number on its axis."""

    left: float
    top: float
    right: float
    bottom: float
    low: float
    high: float

    def y(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def _histogram_parts(
    bars: Bars, frame: _Frame, scale: list[float], names: list[tuple[int, str]], *, turned: bool
) -> Iterator[str]:
    step = (frame.right - frame.left) / len(bars.labels)
    centres = [frame.left + (index + 0.5) * step for index in range(len(bars.labels))]
    for tick in scale:
        y = frame.y(tick)
        yield _line("zero" if tick == 0 else "grid", frame.left, y, frame.right, y)
        yield _text("tick end", frame.left - 6, y + 4, figure(tick))
    zero = frame.y(0)
    half = 0.4 * step
    ends = [(centre, frame.y(value)) for centre, value in zip(centres, bars.values, strict=True)]
    # One path for all bars: a histogram may have a hundred thousand of them.
    yield _path(
        "bar", (f"M{x - half:.2f} {zero:.1f}V{y:.1f}h{2 * half:.2f}V{zero:.1f}z" for x, y in ends)
    )
    spans = zip(centres, bars.lows, bars.highs, strict=True)
    yield _path(
        "span thin" if step < 7 else "span",
        (f"M{x:.2f} {frame.y(a):.1f}V{frame.y(b):.1f}" for x, a, b in spans),
    )
    if bars.truths is not None:
        marks = zip(centres, bars.truths, strict=True)
        yield _path(
            "truth", (f"M{x - half:.2f} {frame.y(true):.1f}h{2 * half:.2f}" for x, true in marks)
        )
    for index, name in names:
        if turned:
            yield _text("tick turned", centres[index], frame.bottom + 18, name, turned=True)
        else:
            yield _tick(frame, centres[index], name)


def _tick(frame: _Frame, x: float, name: str) -> str:
    """A label below the axis: centred, or aligned with the picture's edge if it would be cut."""
    half = _LETTER * len(name) / 2
    edge = frame.right + _RIGHT
    if x + half > edge:
        return _text("tick end", edge, frame.bottom + 18, name)
    if x - half < 0:
        return _text("tick name", 0, frame.bottom + 18, name)
    return _text("tick", x, frame.bottom + 18, name)


def _names(bars: Bars, step: float) -> tuple[list[tuple[int, str]], float]:
    """The names to show below bars, by position, and the height that the names need."""
    short = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in bars.labels]
    longest = _LETTER * max(map(len, short))
    if bars.named and longest > step >= 14:
        return list(enumerate(short)), _FOOT + 0.7 * longest
    every = next(size for size in _thinnings() if size * step >= longest + 8)
    indexes = [*range(0, len(short), every)]
    last = len(short) - 1
    # The last one always: it says where the values end, and whether larger ones are in it. It is
    # moved to the left if it would not end within the picture.
    moved = max(0.0, (longest - step) / 2 - _RIGHT)
    while len(indexes) > 1 and (last - indexes[-1]) * step < longest + 8 + moved:
        indexes.pop()
    return [(index, short[index]) for index in sorted({*indexes, last})], _FOOT


def _thinnings() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _interval(span: Span, width: float) -> tuple[float, Iterator[str]]:
    reach = max(
        span.high - span.low, abs(span.value - span.low), 1e-9 * max(span.most - span.least, 1.0)
    )
    points = [span.low, span.high, span.value, *([] if span.truth is None else [span.truth])]
    close = (min(points) - 0.8 * reach, max(points) + 0.8 * reach)
    full = (min(span.least, *points), max(span.most, *points))
    strips = [("Full range", full)]
    if close[1] - close[0] < 0.4 * (full[1] - full[0]):
        strips.append(("Zoomed in", close))
    parts = (
        part
        for index, strip in enumerate(strips)
        for part in _strip(span, strip, width, 92.0 * index)
    )
    return 92.0 * len(strips), parts


def _strip(
    span: Span, strip: tuple[str, tuple[float, float]], width: float, top: float
) -> Iterator[str]:
    name, (low, high) = strip
    left, right = 24.0, width - 24.0
    ground = top + 66

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    yield _text("name", left, top + 14, name)
    yield _line("zero", left, ground, right, ground)
    # No label may touch the next: that of the largest number is the widest.
    room = _LETTER * max(len(figure(low)), len(figure(high))) + 16
    for tick in ticks(low, high, max(1, int((right - left) / room))):
        yield _line("zero", x(tick), ground, x(tick), ground + 5)
        yield _text("tick", x(tick), ground + 20, figure(tick))
    wide = max(x(span.high) - x(span.low), 2.0)
    yield (
        f'<rect class="band" x="{x(span.low):.1f}" y="{top + 26:.1f}" width="{wide:.1f}" '
        f'height="40"/>'
    )
    if span.truth is not None:
        yield _line("truth", x(span.truth), top + 22, x(span.truth), ground)
    yield _line("estimate", x(span.value), top + 22, x(span.value), ground)


def _line(name: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _path(name: str, pieces: Iterator[str]) -> str:
    return f'<path class="{name}" d="{"".join(pieces)}"/>'


def _text(name: str, x: float, y: float, words: str, *, turned: bool = False) -> str:
    turn = f' transform="rotate(-40 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}"{turn}>{as_html(words)}</text>'


@dataclass(frozen=True)
class SpendingCurve:
    """ε that a population has spent, over time: pairs (milliseconds since 1970, ε), in order.

    `limit` is the budget's ε; None if it is too large to limit anything, and is not drawn.
    """

    points: Sequence[tuple[int, float]]
    limit: float | None


def spending(spent: SpendingCurve, title: str) -> str:
    """Draw the spent ε as steps and the limit as a line, for wide and narrow screens.

    `spent` needs at least one point.
    """
    return _both(
        lambda width, height: (0.7 * height, _spending_parts(spent, width, 0.7 * height)), title
    )


def _spending_parts(spent: SpendingCurve, width: float, height: float) -> Iterator[str]:
    high = max(*(value for _, value in spent.points), spent.limit or 0.0, 1e-9)
    scale = ticks(0.0, high, 4)
    left = 14 + _LETTER * max(len(figure(tick)) for tick in scale)
    frame = _Frame(left, _TOP + 10, width - _RIGHT, height - _FOOT, 0.0, high)
    first, last = spent.points[0][0], spent.points[-1][0]
    reach = max(last - first, 1)

    def x(moment: int) -> float:
        return frame.left + (moment - first) / reach * (frame.right - frame.left)

    for tick in scale:
        yield _line(
            "zero" if tick == 0 else "grid", frame.left, frame.y(tick), frame.right, frame.y(tick)
        )
        yield _text("tick end", frame.left - 6, frame.y(tick) + 4, figure(tick))
    if spent.limit is not None:
        yield _line("limit", frame.left, frame.y(spent.limit), frame.right, frame.y(spent.limit))
        yield _text("end limit-name", frame.right, frame.y(spent.limit) - 5, "limit")
    steps = [
        f"M{x(first):.1f} {frame.y(0.0):.1f}",
        *(f"H{x(at):.1f}V{frame.y(value):.1f}" for at, value in spent.points),
    ]
    yield _path("band", iter([*steps, f"H{frame.right:.1f}V{frame.y(0.0):.1f}z"]))
    yield _path(
        "estimate",
        iter(
            [
                f"M{x(first):.1f} {frame.y(spent.points[0][1]):.1f}",
                *steps[1:],
                f"H{frame.right:.1f}",
            ]
        ),
    )
    form = "%H:%M" if reach < 86_400_000 else "%Y-%m-%d"
    for name, x_label, moment in (("name", frame.left, first), ("end", frame.right, last)):
        words = datetime.fromtimestamp(moment / 1000, UTC).strftime(form) + (
            " UTC" if form == "%H:%M" else ""
        )
        yield _text(name, x_label, frame.bottom + 18, words)
