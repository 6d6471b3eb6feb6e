"""A cross table over latitude and longitude as a map: SVG, text, and GeoJSON. Pure.

docs/how-to/maps.md; ADR 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from shuffledp.crosstab import CrossTable, TableNumber
from shuffledp.location import EARTH_RADIUS
from shuffledp.pages import as_html
from shuffledp_core.answering.centres import CentreEstimate, centre_of
from shuffledp_core.answering.totals import NoisyCounts
from shuffledp_core.documents.wording import SymbolRanges
from shuffledp_core.questions import EAST, NORTH

METRES: Final = math.pi / 180 * EARTH_RADIUS
"""Of a degree along a meridian."""

_WIDTHS: Final = (("wide", 860.0), ("narrow", 360.0))
"""Pictures for screens and for telephones, so that their letters are readable on both."""

_TALLEST: Final = 2.0
"""Of a picture, in widths."""

_LETTER: Final = 7.2
"""Width of a letter of 12 pixels, with some room."""

_FOOT: Final = 22.0
"""Height of the longitudes below a map."""

_LINE: Final = 18.0
"""Least distance of two latitudes beside a map."""

_SHADES: Final = " ·░▒▓█"


def edges_of(table: CrossTable | None) -> tuple[list[float], list[float]] | None:
    """Parallels and meridians between the cells of a map; None for any other table."""
    if table is None or [axis.unit for axis in table.wording.axes] != [NORTH, EAST]:
        return None
    edges = []
    for axis, most in zip(table.wording.axes, (90.0, 180.0), strict=True):
        if not isinstance(axis.symbols, SymbolRanges):
            return None
        numbers = [float(edge) for edge in axis.symbols.edges]
        if not all(-most <= number <= most for number in numbers):
            return None
        edges.append(numbers)
    return edges[0], edges[1]


def centre(table: CrossTable) -> CentreEstimate | None:
    """Mean location of the people on the map; None without node noise, or for an empty map."""
    edges = edges_of(table)
    mechanism, present = table.fitted.mechanism, table.fitted.present
    noise = mechanism.count_noise if isinstance(mechanism, NoisyCounts) else None
    if edges is None or noise is None or not present.nodes:
        return None
    north, east = ((np.array(lines[1:]) + np.array(lines[:-1])) / 2 for lines in edges)
    reports = float(present.reports)
    return centre_of(table.fitted.values, (north, east), noise, present.nodes, reports)


def remarks(table: CrossTable) -> Iterator[str]:
    """A sentence on the mean location of the people on a map."""
    middle = centre(table) if edges_of(table) is not None else None
    if middle is None:
        return
    (north, east), lows, highs = middle.point, middle.low, middle.high
    narrow = math.cos(math.radians(north))
    long, short, angle = middle.ellipse((METRES, METRES * narrow))
    yield (
        f"Centre of the people on the map: {north:.5f} {NORTH}, {east:.5f} {EAST}; 95% intervals "
        f"{lows[0]:.5f} to {highs[0]:.5f} and {lows[1]:.5f} to {highs[1]:.5f}. Its standard error "
        f"is an ellipse with semi-axes of {long:,.0f} m and {short:,.0f} m, the longer one "
        f"{round(math.degrees(angle)) % 180}° north of east. Every person counts as being in the "
        "middle of a cell, which is wrong by half a cell at most along each axis."
    )


@dataclass(frozen=True)
class _Projection:
    """Positions in a picture: an equirectangular map, true to scale in its middle.

    Attributes:
        parallels: edges of the rows, from the south.
        meridians: edges of the columns, from the west.
        left: pixels left of the map.
        width: width of the map, in pixels.
    """

    parallels: list[float]
    meridians: list[float]
    left: float
    width: float

    @property
    def across(self) -> float:
        """Pixels per degree of longitude."""
        return self.width / (self.meridians[-1] - self.meridians[0])

    @property
    def height(self) -> float:
        """Height of the map, in pixels."""
        middle = (self.parallels[0] + self.parallels[-1]) / 2
        degree = self.across / math.cos(math.radians(middle))
        return min((self.parallels[-1] - self.parallels[0]) * degree, _TALLEST * self.width)

    @property
    def down(self) -> float:
        """Pixels per degree of latitude."""
        return self.height / (self.parallels[-1] - self.parallels[0])

    def x(self, longitude: float) -> float:
        """Pixels from the left edge of the picture."""
        return self.left + (longitude - self.meridians[0]) * self.across

    def y(self, latitude: float) -> float:
        """Pixels from the top edge of the picture."""
        return (self.parallels[-1] - latitude) * self.down


def picture(table: CrossTable) -> str:
    """The map as SVG, with north up; the more people a cell has, the darker it is.

    It is drawn for wide and for narrow screens, with coordinates at its edges.
    """
    edges = edges_of(table)
    if edges is None:
        return ""
    parallels, meridians = edges
    names = [_degrees(parallel, parallels) for parallel in parallels]
    left = 8 + _LETTER * max(map(len, names))
    middle = centre(table)
    drawn = []
    for name, width in _WIDTHS:
        projection = _Projection(parallels, meridians, left, width - left)
        drawn.append(
            f'<svg class="chart map {name}" viewBox="0 0 {width:.0f} '
            f'{projection.height + _FOOT:.1f}" role="img" '
            f'aria-label="Estimated number of people in each cell of the map">'
        )
        drawn += [*_cells(table, projection), *_scales(projection), *_middle(middle, projection)]
        drawn.append("</svg>")
    return "".join(drawn)


def _cells(table: CrossTable, projection: _Projection) -> Iterator[str]:
    most = _most(table)
    for row, numbers in enumerate(table.cells):
        top = projection.y(projection.parallels[row + 1])
        tall = projection.y(projection.parallels[row]) - top
        for column, number in enumerate(numbers):
            left = projection.x(projection.meridians[column])
            wide = projection.x(projection.meridians[column + 1]) - left
            cell_name = f"{table.row_names[row]}, {table.column_names[column]}"
            yield (
                f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{tall:.1f}" fill-opacity="{_share(number, most):.2f}">'
                f"<title>{as_html(cell_name)}: about {number.value:,.0f} people, "
                f"{number.low:,.0f} to {number.high:,.0f}</title></rect>"
            )


def _scales(projection: _Projection) -> Iterator[str]:
    """The frame, with as many latitudes on the side and longitudes below as fit."""
    parallels = projection.parallels
    meridians = projection.meridians
    right = projection.x(meridians[-1])
    bottom = projection.y(parallels[0])
    yield (
        f'<rect class="frame" x="{projection.left:.1f}" y="0" width="{projection.width:.1f}" '
        f'height="{bottom:.1f}"/>'
    )
    heights = [min(max(projection.y(parallel) + 4, 10), bottom) for parallel in reversed(parallels)]
    for at in _apart(heights, _LINE):
        words = _degrees(parallels[-1 - at], parallels)
        yield f'<text class="end" x="{projection.left - 5:.1f}" y="{heights[at]:.1f}">'
        yield f"{words}</text>"
    names = [_degrees(meridian, meridians) for meridian in meridians]
    wide = _LETTER * max(map(len, names))
    places = [
        min(max(projection.x(meridian), wide / 2), right - wide / 2) for meridian in meridians
    ]
    for at in _apart(places, wide + 8):
        yield f'<text x="{places[at]:.1f}" y="{bottom + 16:.1f}">{names[at]}</text>'


def _apart(places: list[float], least: float) -> list[int]:
    """Indices of ascending numbers at least `least` apart, with the first and the last."""
    last = len(places) - 1
    chosen = [0]
    for at, here in enumerate(places):
        if here - places[chosen[-1]] >= least and places[last] - here >= least:
            chosen.append(at)
    return [*chosen, last]


def _degrees(number: float, edges: list[float]) -> str:
    """Format a coordinate with as many digits as distinguish the edges."""
    step = min(high - low for low, high in pairwise(edges))
    digits = min(max(0, math.ceil(-math.log10(step) - 1e-9)), 6)
    return f"{number:.{digits}f}°"


def _middle(middle: CentreEstimate | None, projection: _Projection) -> Iterator[str]:
    """The mean location, with its error ellipse, as SVG."""
    if middle is None:
        return
    left = projection.x(middle.point[1])
    top = projection.y(middle.point[0])
    long, short, angle = middle.ellipse((projection.down, projection.across))
    yield (
        f'<ellipse class="truth" cx="{left:.1f}" cy="{top:.1f}" rx="{long:.1f}" '
        f'ry="{short:.1f}" fill="none" transform="rotate({-math.degrees(angle):.1f} '
        f'{left:.1f} {top:.1f})"/><circle class="truth" cx="{left:.1f}" cy="{top:.1f}" r="3"/>'
    )


def centre_entry(table: CrossTable | None) -> dict[str, Any] | None:
    """The object `centre` of `report.json`; None for other tables, or an unknown centre."""
    middle = centre(table) if table is not None and edges_of(table) is not None else None
    if middle is None:
        return None
    north, east = middle.point
    long, short, angle = middle.ellipse((METRES, METRES * math.cos(math.radians(north))))
    return {
        "north": north,
        "east": east,
        "interval_95_north": [middle.low[0], middle.high[0]],
        "interval_95_east": [middle.low[1], middle.high[1]],
        "covariance_north_east": [list(row) for row in middle.covariance],
        "ellipse_metres": [long, short],
        "ellipse_degrees_north_of_east": math.degrees(angle) % 180,
    }


def text_map(table: CrossTable) -> Iterator[str]:
    """The map for a terminal, one line for each row of cells from north to south."""
    most = _most(table)
    for numbers in reversed(table.cells):
        shades = (round(_share(number, most) * (len(_SHADES) - 1)) for number in numbers)
        yield "".join(2 * _SHADES[shade] for shade in shades)


def geojson(table: CrossTable) -> dict[str, Any]:
    """The cells as a GeoJSON feature collection (RFC 7946): one polygon each, with its numbers."""
    parallels, meridians = edges_of(table) or ([], [])
    features = []
    for row, numbers in enumerate(table.cells if parallels else []):
        south, north = parallels[row : row + 2]
        for column, number in enumerate(numbers):
            west, east = meridians[column : column + 2]
            ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
            features.append(
                {
                    "type": "Feature",
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                    "properties": {
                        "people": number.value,
                        "standard_error": number.error,
                        "low_95": number.low,
                        "high_95": number.high,
                    },
                }
            )
    middle = centre(table)
    if middle is not None:
        north, east = middle.point
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [east, north]},
                "properties": {
                    "name": "centre",
                    "low_95": [middle.low[1], middle.low[0]],
                    "high_95": [middle.high[1], middle.high[0]],
                    "covariance_north_east": [list(row) for row in middle.covariance],
                },
            }
        )
    return {"type": "FeatureCollection", "features": features}


def _most(table: CrossTable) -> float:
    """Number of people in the fullest cell."""
    return max((cell.value for row in table.cells for cell in row), default=0.0)


def _share(number: TableNumber, most: float) -> float:
    """Square root of a cell's share of the fullest cell, so that small numbers are visible."""
    return 0.0 if most <= 0 else math.sqrt(min(max(number.value / most, 0.0), 1.0))
