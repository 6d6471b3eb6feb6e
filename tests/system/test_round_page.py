"""`report.html` of a round and `shuffledp report`: the numbers of the signed documents, as text and
nothing else."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import httpx
import msgspec
import pytest
from commands import Shell
from matplotlib.figure import Figure
from rounds_for_tests import small_round

from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed, from_json, sign
from shuffledp_core.runtime.keys import load_identity
from shuffledp_ops.console.guards import LOOPBACK
from shuffledp_ops.console.saved import SavedRounds
from shuffledp_ops.console.web import Pages, application
from shuffledp_ops.rounds import charts, wording
from shuffledp_ops.rounds.operate import save, trusted_files
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.picture import draw_report
from shuffledp_ops.rounds.report import RoundReport, show
from shuffledp_ops.rounds.saving import LATEST, point_latest
from shuffledp_sim.system.processes import LocalSystem

HOSTILE = '</style></title><script>alert("x")</script><img src=x onerror=alert(1)>\u202e&amp;\'"'


class Parsed(HTMLParser):
    """Tags, attributes, text, links and the policy of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.style = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside = tag

    def handle_endtag(self, _: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]


@pytest.fixture(scope="module")
def reports(running: LocalSystem, pool: ProcessPoolExecutor) -> dict[str, RoundReport]:
    """A sum and a histogram, both played."""

    async def play() -> dict[str, RoundReport]:
        total = await small_round(running, pool)
        return {
            "sum": total,
            "histogram": await small_round(running, pool, mechanism="krr-histogram", size=4),
        }

    return asyncio.run(play())


@pytest.fixture(scope="module")
def saved(
    running: LocalSystem, reports: dict[str, RoundReport], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Both rounds as they are saved, the histogram last."""
    keys, place = running.deployment.folder, tmp_path_factory.mktemp("saved") / "out"
    for report in reports.values():
        save(report, place, keys, trusted_files(keys))
    return place


@pytest.fixture
def out(saved: Path, tmp_path: Path) -> Path:
    """A copy of them, to be spoilt."""
    return shutil.copytree(saved, tmp_path / "out", symlinks=True)


def parsed(folder: Path) -> Parsed:
    return Parsed((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["sum", "histogram"])
def test_the_page_has_the_numbers_of_the_report_and_links_to_every_document(
    out: Path, reports: dict[str, RoundReport], kind: str
) -> None:
    folder = out / reports[kind].round_id
    found, numbers = parsed(folder), json.loads((folder / "report.json").read_text())
    text = found.text
    assert f"{numbers['epsilon']:.4g} : proved upper bound" in text
    assert f"{numbers['epsilon_attained']:.4g} : reached in a known case" in text
    assert f"{numbers['epsilon_corrupted']:.4g} : remains if every node is corrupt" in text
    assert f"{numbers['honest']:,} of the {numbers['accepted']:,} reports" in text
    assert f"{numbers['messages']:,}, " in text
    assert numbers["round"] in text
    assert "shuffledp verify result.json" in text
    links = {value for tag, name, value in found.attributes if (tag, name) == ("a", "href")}
    assert links == {path.name for path in folder.iterdir()} - {"report.html"}
    if kind == "sum":
        assert f"Sum: {charts.figure(numbers['estimate'])} " in text
    else:
        rows = zip(
            numbers["estimate"], numbers["standard_error"], *numbers["interval_95"], strict=True
        )
        for symbol, ((value, error, low, high), true) in enumerate(
            zip(rows, numbers["true_value"], strict=True)
        ):
            assert f"{symbol} {value:,.1f} {error:,.1f} {low:,.1f} .. {high:,.1f} {true:,}" in text


def test_the_page_allows_itself_nothing_but_its_own_style(out: Path) -> None:
    found = parsed(out / LATEST)
    (policy,) = (value for value in found.values("content") if "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert (
        policy
        == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not set(found.tags) & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "link",
        "form",
        "base",
        "use",
        "image",
    }
    assert not any(name == "style" or name.startswith("on") for _, name, _ in found.attributes)
    assert not re.search(r"url\(|@import|https?:", found.style)
    assert "prefers-color-scheme: dark" in found.style
    assert "@media print" in found.style


def test_bars_stand_where_their_numbers_are(out: Path, reports: dict[str, RoundReport]) -> None:
    """Heights of the bars, from the axis up, are proportional to the estimates."""
    estimate = reports["histogram"].estimate
    wide = parsed(out / LATEST)
    path = next(
        value for (_, name, value) in wide.attributes if name == "d" and value.count("z") == 4
    )
    heights = [
        float(zero) - float(top)
        for zero, top in re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)h[\d.]+V[\d.]+z", path)
    ]
    scale = heights[0] / estimate.values[0]
    assert heights == pytest.approx([value * scale for value in estimate.values], abs=0.2)


def test_hostile_names_are_text_and_nothing_else(reports: dict[str, RoundReport]) -> None:
    before = reports["histogram"]
    final = msgspec.structs.replace(
        before.final,
        population=HOSTILE,
        deployment=HOSTILE,
        route=(HOSTILE,),
        assumptions=(HOSTILE,),
    )
    hostile = replace(
        before,
        final=final,
        column=HOSTILE,
        labels=(HOSTILE,) * 4,
        suite=HOSTILE,
        seconds={HOSTILE: 1.0},
    )
    found, plain = Parsed(page(hostile, ())), Parsed(page(before, ()))
    assert set(found.tags) == set(plain.tags)
    assert {name for _, name, _ in found.attributes} <= {
        name for _, name, _ in plain.attributes
    } | {"transform"}
    assert found.style == plain.style
    assert "onerror=alert(1)>\ufffd&amp;" in found.text
    assert "\u202e" not in found.text


def test_capped_values_and_a_simulation_are_said(reports: dict[str, RoundReport]) -> None:
    text = Parsed(
        page(replace(reports["histogram"], capped=2, column="visits", drawn_from=7), ())
    ).text
    assert "≥ 3" in text
    assert "How many people hold each value of “visits”?" in text
    assert "Values above 3 are counted as 3; this affected 2 people." in text
    assert "sampled with replacement from 7 rows" in text
    assert "≥" not in Parsed(page(reports["histogram"], ())).text


def test_what_does_not_hold_is_not_promised(reports: dict[str, RoundReport]) -> None:
    before = reports["sum"]
    none = msgspec.structs.replace(before.final.epsilon, certified=None)
    local = msgspec.structs.replace(before.final.corrupted, epsilon=None)
    final = msgspec.structs.replace(before.final, epsilon=none, corrupted=local, holds=False)
    text = Parsed(page(replace(before, final=final, corrupt=(1, 2, 3)), ())).text
    assert "does NOT hold" in text
    assert "no guarantee remains" in text
    assert "All nodes of this round declared themselves corrupt" in text
    assert "times as likely" not in text


def test_the_picture_states_the_guarantee_that_holds(
    reports: dict[str, RoundReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    monkeypatch.setattr(Figure, "suptitle", lambda _, title, **__: titles.append(title))
    before = reports["histogram"]
    epsilon = msgspec.structs.replace(before.final.epsilon, certified=0.125)
    honest = replace(before, final=msgspec.structs.replace(before.final, epsilon=epsilon))
    for report in (honest, replace(honest, corrupt=tuple(range(1, honest.final.nodes + 1)))):
        draw_report(report, tmp_path / "plot.png")
    certified = "ε = 0.125"
    remaining = f"all nodes corrupt, ε = {show(honest.final.corrupted.epsilon)}"
    assert (certified in titles[0], remaining in titles[0]) == (True, False)
    assert (certified in titles[1], remaining in titles[1]) == (False, True)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 1.0, 2.302, 5.0, 13.0, 20.0, 300.0])
def test_a_factor_is_never_below_the_truth_and_hardly_above(epsilon: float) -> None:
    words = wording.factor(epsilon).replace(",", "")
    power = float(words[2:]) if words.startswith("e^") else math.log(float(words))
    assert epsilon - 1e-12 <= power <= epsilon * 1.01 + 0.01


def test_a_thousand_bars_are_one_path_and_their_names_do_not_touch() -> None:
    count = 1000
    bars = charts.Bars(
        [str(place) for place in range(count)], [5.0] * count, [4.0] * count, [6.0] * count
    )
    drawn = charts.histogram(bars, "title")
    assert drawn.count("<path") == 4
    for part in drawn.split("</svg>")[:2]:
        places = [float(x) for x in re.findall(r'class="tick" x="([\d.]+)"', part)]
        assert len(places) > 5
        assert min(after - before for before, after in pairwise(places)) > 4 * 7.2


def test_names_for_which_there_is_no_room_are_left_out_and_none_is_cut_off() -> None:
    """On telephones too: many bars with long names, of which only some are shown."""
    count = 100
    names = [f"about {place * 1000} EUR" for place in range(count)]
    bars = charts.Bars(names, [5.0] * count, [4.0] * count, [6.0] * count, named=True)
    for part in charts.histogram(bars, "title").split("</svg>")[:2]:
        width, height = (
            float(size) for size in part.split('viewBox="0 0 ')[1].split('"')[0].split()
        )
        assert "rotate" not in part
        ends = []
        for kind, x, y, name in re.findall(
            r'<text class="tick ?(end|name|)" x="([\d.]+)" y="([\d.]+)">(about[^<]+)<', part
        ):
            assert float(y) < height
            shift = {"end": 1.0, "name": 0.0, "": 0.5}[kind] * 6.5 * len(name)
            ends.append((float(x) - shift, float(x) - shift + 6.5 * len(name)))
        assert len(ends) >= 2
        assert min(start for start, _ in ends) >= 0
        assert max(end for _, end in ends) <= width
        assert all(end < start for (_, end), (start, _) in pairwise(ends))


def test_latest_is_the_round_that_was_saved_last(
    out: Path, reports: dict[str, RoundReport]
) -> None:
    assert (out / LATEST).readlink() == Path(reports["histogram"].round_id)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [LATEST, *(one.round_id for one in reports.values())]
    )
    point_latest(out / reports["sum"].round_id)
    assert (out / LATEST / "result.json").samefile(out / reports["sum"].round_id / "result.json")


def test_without_links_latest_is_a_file_that_report_follows(
    out: Path, reports: dict[str, RoundReport], shuffledp: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    point_latest(out / reports["sum"].round_id)
    assert (out / LATEST).read_text() == f"{reports['sum'].round_id}\n"
    code, printed, errors = shuffledp("report")
    assert code == 0, errors
    assert f"out/{reports['sum'].round_id}/report.html" in printed


def test_a_folder_in_the_place_of_latest_stays_and_nothing_is_left_beside_it(
    out: Path, reports: dict[str, RoundReport]
) -> None:
    (out / LATEST).unlink()
    (out / LATEST).mkdir()
    (out / LATEST / "mine").write_text("precious")
    point_latest(out / reports["sum"].round_id)
    assert (out / LATEST / "mine").read_text() == "precious"
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_report_makes_the_same_page_again_from_the_documents(out: Path, shuffledp: Shell) -> None:
    folder = out / LATEST
    first = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    code, printed, errors = shuffledp("report")
    assert code == 0, errors
    assert "the page is out/latest/report.html" in printed
    again = (folder / "report.html").read_text()
    assert again == first
    (folder / "report.json").unlink()
    assert shuffledp("report", "out/latest")[0] == 0
    text = parsed(folder).text
    assert "simulat" not in text.lower()
    assert "true value" not in text


def rewritten(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def instead(file: Path) -> Path:
    """The place of a file that is gone."""
    file.unlink()
    return file


WRONG: dict[str, tuple[Callable[[Path], object], str, int]] = {
    "no result": (lambda f: (f / "result.json").unlink(), "has no result.json", 2),
    "no roster": (lambda f: (f / "roster.json").unlink(), "there is no roster", 2),
    "no root key": (lambda f: (f / "root.pub").unlink(), "there is no root key", 2),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "there is no document", 2),
    "root key is not hex": (lambda f: (f / "root.pub").write_text("zz"),
    "root key is not hexadecimal", 2),
    "root key is binary": (lambda f: (f / "root.pub").write_bytes(b"\xff\x00"),
    "root key is not hexadecimal", 2),
    "root key of another": (lambda f: (f / "root.pub").write_text("ab" * 32),
        "does not carry a valid signature", 1),
    "root key without end": (lambda f: (f / "root.pub").write_text("a" * 9999),
    "is longer than 1,000 bytes", 1),
    "result is no JSON": (lambda f: (f / "result.json").write_text("<html>"),
    "not a signed document", 1),
    "result is empty": (lambda f: (f / "result.json").write_text(""), "not a signed document", 1),
    "result is too long": (lambda f: (f / "result.json").write_text(" " * 2**23),
    "is longer than", 1),
    "result is a device": (
        lambda f: instead(f / "result.json").symlink_to("/dev/zero"),
        "there is no document",
        2,
    ),
    "result is a certificate": (
        lambda f: shutil.copy(f / "certificate.json", f / "result.json"),
        "expected a document of type 'result'",
        1,
    ),
    "result was touched": (
        lambda f: (f / "result.json").write_text((f / "result.json").read_text().replace("accepted", "acceptes")),  # noqa: E501
        "does not carry a valid signature",
        1,
    ),
    "manifest of another round": (
        lambda f: shutil.copy(other(f) / "manifest.json", f / "manifest.json"),
        "manifest.json is of round",
        1,
    ),
    "certificate of another round": (
        lambda f: shutil.copy(other(f) / "certificate.json", f / "certificate.json"),
        "differs from the certificate inside result.json",
        1,
    ),
    "report.json of another round": (
        lambda f: shutil.copy(other(f) / "report.json", f / "report.json"),
        "report.json is of another round",
        1,
    ),
    "report.json is no JSON": (lambda f: (f / "report.json").write_text("{"),
    "is not a valid report of a round", 1),
    "report.json with NaN": (
        lambda f: rewritten(f / "report.json", lambda c: c.update(capped=math.nan)),
        "is not a valid report of a round",
        1,
    ),
    "too few truths": (
        lambda f: rewritten(f / "report.json", lambda c: c.update(true_value=[1])),
        "does not fit", 1
    ),
    "negative seconds": (
        lambda f: rewritten(f / "report.json", lambda c: c.update(seconds={"open": -1})),
        "does not fit",
        1,
    ),
    "a share of 7": (lambda f: rewritten(f / "report.json", lambda c: c.update(traced=7)),
    "does not fit", 1),
    "a name without end": (
        lambda f: rewritten(f / "report.json", lambda c: c.update(column="x" * 601)),
        "does not fit",
        1,
    ),
    "too many names": (
        lambda f: rewritten(f / "report.json", lambda c: c.update(labels=["x"] * 9)),
        "does not fit", 1
    ),
    "a page that is a folder": (
        lambda f: instead(f / "report.html").mkdir(),
        "cannot write the page",
        2,
    ),
}  # fmt: skip


def other(folder: Path) -> Path:
    """The other round's folder."""
    return next(path for path in folder.parent.iterdir() if path.name not in {LATEST, folder.name})


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_that_cannot_be_believed_is_named_and_no_page_is_made(
    out: Path, shuffledp: Shell, case: str
) -> None:
    spoil, says, expected = WRONG[case]
    folder = (out / LATEST).resolve()
    (folder / "report.html").write_text("before")
    spoil(folder)
    code, printed, errors = shuffledp("report", str(folder))
    assert (code, printed) == (expected, "")
    assert says in errors
    assert "Traceback" not in errors
    assert (
        not (folder / "report.html").is_file() or (folder / "report.html").read_text() == "before"
    )
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    "case", ["no result", "no roster", "root key of another", "result is empty",
    "manifest of another round",
             "certificate of another round"]
)  # fmt: skip
def test_what_no_page_is_made_of_is_not_verified_either(
    out: Path, shuffledp: Shell, case: str
) -> None:
    """Whoever verifies a folder believes each of its documents afterwards, not the result alone."""
    folder = (out / LATEST).resolve()
    assert shuffledp("verify", str(folder))[0] == 0
    WRONG[case][0](folder)
    code, printed, errors = shuffledp("verify", str(folder))
    assert (code, printed) == (WRONG[case][2], "")
    assert str(folder) in errors.replace("\n", " ") or WRONG[case][1] in errors


@pytest.mark.parametrize("named", ["nowhere", "file", "out", "/dev/null", "a" * 300])
def test_what_is_no_folder_of_a_round_is_refused_with_what_to_name(
    out: Path, shuffledp: Shell, named: str
) -> None:
    (out.parent / "file").write_text("no folder")
    code, printed, errors = shuffledp("report", named)
    assert (code, printed) == (2, "")
    assert "out/latest" in errors
    (out / LATEST).unlink()
    (out / LATEST).symlink_to("gone")
    assert "is not a round's folder" in shuffledp("report")[2]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"values": (1e300,) * 4}, "a number that no round can have"),
        ({"values": (1.0,) * 400}, "must have 4 values for"),
        ({"lows": ()}, "must have 4 values for"),
    ],
)
def test_an_analyst_who_signs_nonsense_gets_no_page(
    out: Path, running: LocalSystem, shuffledp: Shell, change: dict[str, object], says: str
) -> None:
    """The signatures hold: only the answer makes no sense."""
    file = out / LATEST / "result.json"
    result = from_json(Signed.from_bytes(file.read_bytes()).body, Result)
    assert result.estimate is not None
    lie = msgspec.structs.replace(
        result, estimate=msgspec.structs.replace(result.estimate, **change)
    )
    analyst = load_identity(running.deployment.folder / "analyst", "analyst")
    file.write_bytes(sign(lie, "analyst", analyst.key).to_bytes())
    code, _, errors = shuffledp("report")
    assert code == 1
    assert says in errors


async def test_the_console_serves_no_file_through_a_link_in_a_saved_round(
    out: Path, tmp_path: Path
) -> None:
    """Somebody hands over a round whose picture, or whose folder, is a link to a file of the
    console's user."""
    private = tmp_path / "private.txt"
    private.write_text("the user's own secret")
    first, second = sorted(one for one in out.iterdir() if not one.is_symlink())  # noqa: ASYNC240
    saved = SavedRounds(out)
    transport = httpx.ASGITransport(application(Pages(saved), [], LOOPBACK, tls=False))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        saved.look()
        for folder in (first, second):
            assert (await client.get(f"/rounds/{folder.name}/plot.png")).content.startswith(
                b"\x89PNG"
            )
        link_instead(first / "plot.png", private)
        assert "symbolic link" in await refused(client, first)  # as the console remembers the round
        saved.look()
        assert "symbolic link" in await refused(client, first)  # and as it reads it now
        second.rename(tmp_path / second.name)
        second.symlink_to(tmp_path / second.name)
        saved.look()
        assert "symbolic link" in await refused(client, second)


def link_instead(file: Path, target: Path) -> None:
    """The same time of change, so that nothing seems to have changed."""
    before = file.stat()
    file.unlink()
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    file.symlink_to(target)


async def refused(client: httpx.AsyncClient, folder: Path) -> str:
    answer = await client.get(f"/rounds/{folder.name}/plot.png")
    assert answer.status_code != 200
    assert "secret" not in answer.text
    return answer.text
