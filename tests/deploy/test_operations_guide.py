"""The operations guide against the system: an alert has its section, a number of the sizing table
its formula."""

import math
import re

import pytest
import yaml
from composed import DEPLOY, REPOSITORY

from shuffledp_core.onion.geometry import Geometry
from shuffledp_shuffler.cluster.work import ENTRY, SECRET_BYTES, Job
from shuffledp_shuffler.layout import MEMORY_BYTES
from shuffledp_shuffler.peel_worker import Layer

GUIDE = (REPOSITORY / "docs" / "operations.md").read_text()
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
NUMBER = r"([\d,]+(?:\.\d+)?)"


def anchors() -> set[str]:
    """The headings as a page of them links to them: small letters, hyphens for spaces, no other
    signs."""
    headings = re.findall(r"^#+ (.+)$", GUIDE, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def measured(name: str, page: str = GUIDE) -> float:
    """A constant of a page, such as "M = 54,000"."""
    found = re.findall(rf"`{name}\s=\s{NUMBER}`", page)
    assert len(found) == 1, f"the page has {len(found)} values of {name}"
    return float(found[0].replace(",", ""))


def rows() -> list[list[float]]:
    """The sizing table's rows of numbers."""
    section = GUIDE.split("\n## Sizing\n")[1].split("\n## ")[0]
    table = section.split("| users |")[1].split("\n\n")[0]
    lines = table.splitlines()[2:]
    return [
        [float(cell.strip().replace(",", "")) for cell in line.strip("|").split("|")]
        for line in lines
    ]


def rounded(value: float) -> float:
    """Two significant digits, upwards: a table to plan by errs on the large side."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step - 1e-9) * step, 6)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alerts_runbook_is_a_section_of_the_guide(rule: dict[str, dict[str, str]]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (REPOSITORY / page).read_text() == GUIDE
    assert anchor == str(rule["alert"]).lower()
    assert anchor in anchors()


def test_the_guide_explains_no_alert_that_does_not_exist() -> None:
    section = GUIDE.split("\n## Alerts\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^### (\w+)$", section, flags=re.MULTILINE)) == {
        rule["alert"] for rule in ALERTS
    }


def test_every_log_line_of_the_guide_is_written_by_a_party_that_it_names() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (node|analyst|both) \|", GUIDE, flags=re.MULTILINE)
    assert len(rows) >= 10
    for line, party in rows:
        folders = {"node": ["shuffler"], "analyst": ["analyst"], "both": ["shuffler", "analyst"]}
        for folder in folders[party]:
            # Code that all services share writes some of the lines.
            sources = [*(REPOSITORY / folder / "src").rglob("*.py")]
            sources += (REPOSITORY / "core" / "src").rglob("*.py")
            assert any(f'"{line}"' in file.read_text() for file in sources), (line, folder)


def test_there_are_rows_to_check() -> None:
    assert len(rows()) >= 5


def test_the_guide_names_the_memory_that_mixing_takes_by_default() -> None:
    assert measured("W") == round(MEMORY_BYTES / 1e6)
    assert f"({MEMORY_BYTES:,};" in GUIDE


@pytest.mark.parametrize("row", rows(), ids=str)
def test_a_row_of_the_sizing_table_follows_from_the_formula(row: list[float]) -> None:
    users, messages, nodes, collecting, mixing, memory, entry_disk, middle_disk, board = row
    geometry = Geometry(
        suite="sealed-box", hops=int(nodes), messages_per_user=int(messages), symbol_bytes=1
    )
    records = users * messages
    second, third, last = (geometry.record_bytes(at) for at in (2, 3, int(nodes) + 1))
    assert collecting == rounded(users / measured("S"))
    assert mixing == rounded((nodes - 1) * records / measured("M"))
    assert memory == rounded(measured("B") + min(records * (second + 130) / 1e6, measured("W")))
    envelopes = users * (geometry.envelope_bytes + measured("I"))
    assert entry_disk == rounded((envelopes + records * (second + 16)) / 1e6)
    assert middle_disk == rounded(records * (second + third) / 1e6)
    assert board == rounded(records * last / 1e6)


def test_the_plan_for_several_machines_follows_from_its_formulas() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "several-machines.md").read_text()
    opening, moving, ordering = (measured(name, page) for name in "PRO")
    lines = page.split("| records |")[1].split("\n\n")[0].splitlines()[2:]
    for line in lines:
        row = [float(cell.strip().replace(",", "")) for cell in line.strip("|").split("|")]
        geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
        records = int(row[0])
        job = Job(Layer(geometry, "r", 2, b""), records, int(row[1]) * 2**30, bytes(SECRET_BYTES))
        assert row[2:5] == [job.blocks, job.buckets, job.blocks * (job.buckets + job.groups)]
        assert row[5] == rounded(records * (geometry.record_bytes(3) + ENTRY.itemsize) / 1e9)
        assert row[6] == rounded(records * (opening / 16 + ordering) / 6e7)
        assert row[7] == rounded(records * (opening + moving) / 160 / 6e7)
        link = 1.25e9 * 60
        assert row[8:] == [rounded(records * geometry.record_bytes(at) / link) for at in (2, 3)]
    assert len(lines) == 3
