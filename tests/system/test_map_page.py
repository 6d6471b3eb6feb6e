"""Maps: cross tables over latitude and longitude as a picture, as text, and as GeoJSON."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from client_rounds import Draft, make_certificate, make_deployment
from rich.console import Console

from shuffledp import map_page
from shuffledp.crosstab import table_of
from shuffledp_core.answering.estimates import Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.mechanisms import KRRHistogram, NodeHistogram
from shuffledp_core.questions import RangeField, RecordSchema, table
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.present import MAP, print_report, write_report
from shuffledp_ops.rounds.report import RoundReport

COUNTS = [700, 100, 100, 100, 100, 400, 100]


def make(folder: Path, units: tuple[str, str] = ("°N", "°E"), south: float = -1) -> RoundReport:
    schema = RecordSchema({"lat": RangeField([south, 0, 1]), "lon": RangeField([10, 11, 12, 13])})
    plain = table(schema, "lat", "lon").wording
    # Units that no description of a map has, as others may sign them.
    axes = [
        msgspec.structs.replace(axis, unit=unit)
        for axis, unit in zip(plain.axes, units, strict=True)
    ]
    wording = msgspec.structs.replace(plain, axes=tuple(axes))
    spec = KRRHistogram(symbols=7, blanket=Fraction(1, 4))
    draft = Draft(make_deployment(folder / "keys"))
    final = make_certificate(draft.deployment, spec, wording=wording)
    users = sum(COUNTS)
    return RoundReport(
        "ab" * 16, users, users, users, estimate(spec, COUNTS, users), final, "sealed-box", {}, {},
        labels=wording.names(), column=", ".join(wording.fields),
    )  # fmt: skip


@pytest.fixture
def report(tmp_path: Path) -> RoundReport:
    return make(tmp_path)


def test_the_page_shows_every_cell_north_up(report: RoundReport) -> None:
    assert report.table is not None
    svg = map_page.picture(report.table)
    wide, narrow = svg.split("<svg")[1:]
    assert wide.count('<rect class="bar"') == narrow.count('<rect class="bar"') == 6
    rects = wide.split("<rect")[1:]
    assert 'y="0.0"' in rects[3]  # the second row of cells is the northern one
    assert 'fill-opacity="1.00"' in rects[0]  # the fullest cell is in the south-west
    assert "0–1 °N, 12–13 °E: about" in rects[5]
    assert svg in page(report, [MAP])
    assert f'<a href="{MAP}">' in page(report, [MAP])


def test_the_map_has_its_coordinates_at_its_edges(report: RoundReport) -> None:
    assert report.table is not None
    for svg in map_page.picture(report.table).split("<svg")[1:]:
        words = [text.partition(">")[2].partition("<")[0] for text in svg.split("<text")[1:]]
        assert words == ["1°", "0°", "-1°", "10°", "11°", "12°", "13°"]
        width = float(svg.split('viewBox="0 0 ')[1].split()[0])
        places = [float(text.split('x="')[1].split('"')[0]) for text in svg.split("<text")[1:]]
        assert all(0 < place < width for place in places)


def test_coordinates_of_many_small_cells_do_not_cover_each_other() -> None:
    edges = [round(48.8 + 0.004 * at, 3) for at in range(25)]
    schema = RecordSchema(
        {"lat": RangeField(edges, unit="°N"), "lon": RangeField(edges, unit="°E")}
    )
    wording = table(schema, "lat", "lon").wording
    spec = NodeHistogram(
        symbols=24**2 + 1, noise_epsilon=Fraction(1), mean=2, dummies=2 * 24**2 + 9
    )
    present = Present(Fraction(100), 1)
    crosstab = table_of(spec, spec.estimate([2] * spec.alphabet, present), wording, present)
    assert crosstab is not None
    for svg in map_page.picture(crosstab).split("<svg")[1:]:
        texts = [text.split("<")[0] for text in svg.split("<text")[1:]]
        beside = [float(text.split('y="')[1].split('"')[0]) for text in texts if "end" in text]
        assert len(beside) > 5
        assert min(low - high for high, low in itertools.pairwise(beside)) >= 17.9
        below = [float(text.split('x="')[1].split('"')[0]) for text in texts if "end" not in text]
        assert len(below) >= 4
        assert min(high - low for low, high in itertools.pairwise(below)) > 7.2 * len("48.800°")


def test_the_terminal_has_a_line_for_each_row(report: RoundReport) -> None:
    assert report.table is not None
    north, south = map_page.text_map(report.table)
    assert len(north) == len(south) == 6
    assert south.startswith("██")
    console = Console(record=True, width=200, file=io.StringIO())
    print_report(report, console)
    assert south.rstrip() in console.export_text()


def test_geojson_has_closed_polygons_with_the_fitted_numbers(
    report: RoundReport, tmp_path: Path
) -> None:
    write_report(report, tmp_path)
    cells = json.loads((tmp_path / MAP).read_text())
    assert cells["type"] == "FeatureCollection"
    assert report.table is not None
    numbers = [number for row in report.table.cells for number in row]
    assert len(cells["features"]) == len(numbers) == 6
    first = cells["features"][0]
    ring = first["geometry"]["coordinates"][0]
    assert ring == [[10, -1], [11, -1], [11, 0], [10, 0], [10, -1]]
    for feature, number in zip(cells["features"], numbers, strict=True):
        assert feature["properties"]["people"] == number.value
        assert feature["properties"]["low_95"] == number.low


def test_the_centre_is_drawn_and_described_behind_noise_of_nodes(tmp_path: Path) -> None:
    report = make(tmp_path)
    assert map_page.centre(report.table) is None  # type: ignore[arg-type]
    spec = NodeHistogram(symbols=7, noise_epsilon=Fraction(2), mean=9, dummies=80)
    nodes = report.final.nodes
    board = [count + 9 * nodes for count in COUNTS] + [17 * nodes]
    answer = estimate(spec, board, sum(COUNTS), nodes=nodes)
    noisy = replace(
        report, estimate=answer, final=msgspec.structs.replace(report.final, mechanism=spec)
    )
    assert noisy.table is not None
    middle = map_page.centre(noisy.table)
    assert middle is not None
    rows = [sum(COUNTS[:3]), sum(COUNTS[3:6])]
    north = (-0.5 * rows[0] + 0.5 * rows[1]) / sum(rows)
    assert middle.point[0] == pytest.approx(north, abs=1e-3)
    assert middle.low[0] < north < middle.high[0]
    html = page(noisy, [])
    assert "Centre of the people on the map: -0.1" in html
    assert '<ellipse class="truth"' in html
    entry = noisy.to_dict()["centre"]
    assert (entry["north"], entry["east"]) == middle.point
    assert entry["interval_95_north"] == [middle.low[0], middle.high[0]]
    assert entry["ellipse_metres"][0] >= entry["ellipse_metres"][1] > 0
    assert 0 <= entry["ellipse_degrees_north_of_east"] < 180
    assert "centre" not in report.to_dict()
    point = map_page.geojson(noisy.table)["features"][-1]
    assert point["geometry"]["type"] == "Point"
    assert point["geometry"]["coordinates"] == [middle.point[1], middle.point[0]]


@pytest.mark.parametrize(
    ("units", "south"), [(("", ""), -1), (("°E", "°N"), -1), (("°N", "°E"), -91)]
)
def test_other_tables_are_no_maps(tmp_path: Path, units: tuple[str, str], south: float) -> None:
    other = make(tmp_path, units, south)
    assert map_page.edges_of(other.table) is None
    assert 'class="chart map' not in page(other, [])
    write_report(replace(other), tmp_path)
    assert not (tmp_path / MAP).exists()
