"""A cross table over latitude and longitude as a map: a picture, text, and GeoJSON. Pure.

docs/how-to/maps.md; ADR 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from shuffledp.crosstab import CrossTable, TableNumber
from shuffledp.location import EARTH_RADIUS
from shuffledp.pages import as_html
from shuffledp_core.answering.centres import CentreEstimate, centre_of
from shuffledp_core.answering.totals import NoisyCounts
from shuffledp_core.documents.wording import SymbolRanges

NORTH: Final = "°N"
EAST: Final = "°E"
"""Units of the rows and the columns of a map, in the signed words of its question."""

METRES: Final = math.pi / 180 * EARTH_RADIUS
"""Of a degree along a meridian."""

_WIDTH: Final = 860.0
_TALLEST: Final = 2.0
"""Of a picture, in widths."""

_SHADES: Final = " ·░▒▓█"


def edges_of(table: CrossTable | None) -> tuple[list[float], list[float]] | None:
    """The parallels and the meridians between the cells of a map; None for any other table."""
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
    """The centre of the people on the map; None without noise of nodes, or if it may be empty."""
    edges = edges_of(table)
    mechanism, present = table.fitted.mechanism, table.fitted.present
    noise = mechanism.count_noise if isinstance(mechanism, NoisyCounts) else None
    if edges is None or noise is None or not present.nodes:
        return None
    north, east = ((np.array(lines[1:]) + np.array(lines[:-1])) / 2 for lines in edges)
    reports = float(present.reports)
    return centre_of(table.fitted.values, (north, east), noise, present.nodes, reports)


def remarks(table: CrossTable) -> Iterator[str]:
    """A sentence on the centre of a map."""
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


def picture(table: CrossTable) -> str:
    """The map as SVG, north up; the more people a cell has, the darker it is."""
    edges = edges_of(table)
    if edges is None:
        return ""
    parallels, meridians = edges
    # Distances of an equirectangular map that are right at its middle.
    narrow = math.cos(math.radians((parallels[0] + parallels[-1]) / 2))
    scale = _WIDTH / ((meridians[-1] - meridians[0]) * narrow)
    height = min((parallels[-1] - parallels[0]) * scale, _TALLEST * _WIDTH)
    steps = height / (parallels[-1] - parallels[0])
    most = _most(table)
    parts = [
        f'<svg class="chart map" viewBox="0 0 {_WIDTH:.0f} {height:.1f}" role="img" '
        f'aria-label="Estimated number of people in each cell of the map">'
    ]
    for row, numbers in enumerate(table.cells):
        top = (parallels[-1] - parallels[row + 1]) * steps
        tall = (parallels[row + 1] - parallels[row]) * steps
        for column, number in enumerate(numbers):
            left = (meridians[column] - meridians[0]) * narrow * scale
            wide = (meridians[column + 1] - meridians[column]) * narrow * scale
            cell_name = f"{table.row_names[row]}, {table.column_names[column]}"
            parts.append(
                f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{tall:.1f}" fill-opacity="{_share(number, most):.2f}">'
                f"<title>{as_html(cell_name)}: about {number.value:,.0f} people, "
                f"{number.low:,.0f} to {number.high:,.0f}</title></rect>"
            )
    middle = centre(table)
    if middle is not None:
        left = (middle.point[1] - meridians[0]) * narrow * scale
        top = (parallels[-1] - middle.point[0]) * steps
        long, short, angle = middle.ellipse((steps, narrow * scale))
        parts.append(
            f'<ellipse class="truth" cx="{left:.1f}" cy="{top:.1f}" rx="{long:.1f}" '
            f'ry="{short:.1f}" fill="none" transform="rotate({-math.degrees(angle):.1f} '
            f'{left:.1f} {top:.1f})"/><circle class="truth" cx="{left:.1f}" cy="{top:.1f}" r="3"/>'
        )
    return "".join([*parts, "</svg>"])


def text_map(table: CrossTable) -> Iterator[str]:
    """The map for a terminal, a line for each row of cells from north to south."""
    most = _most(table)
    for numbers in reversed(table.cells):
        shades = (round(_share(number, most) * (len(_SHADES) - 1)) for number in numbers)
        yield "".join(2 * _SHADES[shade] for shade in shades)


def geojson(table: CrossTable) -> dict[str, Any]:
    """The cells as a GeoJSON feature collection (RFC 7946): a polygon each, with its numbers."""
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
    """People in the fullest cell."""
    return max((cell.value for row in table.cells for cell in row), default=0.0)


def _share(number: TableNumber, most: float) -> float:
    """The square root of a cell's share of the fullest one: few people are seen, too."""
    return 0.0 if most <= 0 else math.sqrt(min(max(number.value / most, 0.0), 1.0))
