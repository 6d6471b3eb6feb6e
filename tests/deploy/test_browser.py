"""What a person sees in a browser while a deployment runs: Debian's Chromium on the provisioned
dashboards.

Where an image of Grafana is at hand the dashboard of a round is opened, too; Prometheus' own pages
always. Needs a Docker engine and `chromium`. Screenshots stay in out/browser."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from composed import (
    DEPLOY,
    GRAFANA_IMAGE,
    REPOSITORY,
    USERS,
    Composed,
    FirstRound,
    has_grafana,
    run,
    until,
)
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = REPOSITORY / "out" / "browser"

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]


@dataclass(frozen=True)
class Observed:
    """A deployment after one round, and where its pages are."""

    composed: Composed
    result: dict[str, Any]
    prometheus: str
    grafana: str | None
    """None where there is no image of it."""

    @property
    def messages(self) -> int:
        """On the board, dummies of the nodes included."""
        return int(self.result["messages"])


@pytest.fixture(scope="module")
def observed(deployment: Composed, first_round: FirstRound) -> Observed:
    """All parties with the overlay, after their first round, of `USERS` people."""
    assert first_round.result["accepted"] == USERS
    prometheus, grafana = (
        f"http://127.0.0.1:{deployment.environment[name]}"
        for name in ("PROMETHEUS_PORT", "GRAFANA_PORT")
    )
    return Observed(deployment, first_round.result, prometheus, grafana if has_grafana() else None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; its sandbox cannot be had by root."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page of a size that people have."""
    fresh = browser.new_page(viewport={"width": 1280, "height": 800})
    yield fresh
    fresh.close()


def keep(page: Page, name: str) -> None:
    """The screenshot as a test artefact."""
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def prometheus_page(page: Page, observed: Observed, name: str, **parameters: str) -> str:
    """Opens one of Prometheus' pages, which stand beside the one it shows first.

    All the text on it.
    """
    page.goto(observed.prometheus)
    base = page.url.split("?")[0].rpartition("/")[0]
    page.goto(f"{base}/{name}?{urlencode(parameters)}", wait_until="networkidle")
    return page.inner_text("body")


def shown_value(page: Page, observed: Observed, expression: str) -> str:
    """What the query page shows for an expression with one series; empty while there is none."""
    prometheus_page(page, observed, "graph", **{"g0.expr": expression, "g0.tab": "1"})
    cells = page.locator("td").all_inner_texts()
    return cells[-1].strip() if cells else ""


def until_shown(page: Page, observed: Observed, expression: str, wanted: int) -> None:
    """Prometheus asks every few seconds, so the page is opened until it has asked after the
    round."""
    until(
        lambda: shown_value(page, observed, expression) == str(wanted),
        f"the page shows {wanted} for {expression}",
    )


@pytest.mark.parametrize(
    ("name", "expression", "of_messages"),
    [
        ("accepted-by-the-entry-node", "shuffledp_node_submissions_accepted_total > 0", False),
        ("accepted-as-the-analyst-says", "shuffledp_analyst_round_accepted_reports", False),
        (
            "mixed-by-the-last-node",
            'shuffledp_node_records_total{instance="node-3", phase="mixing"}',
            True,
        ),
        ("decoded", "shuffledp_analyst_messages_decoded_total", True),
    ],
)
def test_the_query_page_shows_the_rounds_numbers(
    observed: Observed, page: Page, name: str, expression: str, *, of_messages: bool
) -> None:
    assert observed.messages > USERS
    until_shown(page, observed, expression, observed.messages if of_messages else USERS)
    keep(page, name)


def test_the_graph_page_draws_the_accepted_reports(observed: Observed, page: Page) -> None:
    until_shown(page, observed, "shuffledp_analyst_round_accepted_reports", USERS)
    drawn = {
        "g0.expr": "shuffledp_analyst_round_accepted_reports",
        "g0.tab": "0",
        "g0.range_input": "5m",
    }
    text = prometheus_page(page, observed, "graph", **drawn)
    assert 'instance="analyst"' in text
    keep(page, "graph")


def test_the_targets_page_shows_all_five_services_and_the_gateway_up(
    observed: Observed, page: Page
) -> None:
    def all_up() -> bool:
        text = prometheus_page(page, observed, "targets")
        return all(
            f"{job} up)" in text
            for job in ("nodes (3/3", "analyst (1/1", "accountant (1/1", "gateway (1/1")
        )

    until(all_up, "six targets are up")
    keep(page, "targets")


def test_the_alerts_page_lists_every_alert_and_none_of_a_failure_fires(
    observed: Observed, page: Page
) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    text = prometheus_page(page, observed, "alerts")
    found = dict(re.findall(r"(\w+) \((\d+) active\)", text))
    assert found.keys() == {rule["alert"] for rule in rules}
    for name in (
        "NodeCorrupt",
        "LedgerDown",
        "RoundFailed",
        "UnexpectedFailure",
        "CertificateExpiring",
    ):
        assert found[name] == "0"
    keep(page, "alerts")


def test_the_provisioned_dashboard_shows_the_round(observed: Observed, page: Page) -> None:
    if observed.grafana is None:
        pytest.skip(f"no image {GRAFANA_IMAGE}; Prometheus' own pages are looked at")

    def shown() -> bool:
        page.goto(f"{observed.grafana}/d/shuffledp-round?kiosk", wait_until="networkidle")
        return str(USERS) in page.inner_text("body").split()

    until(shown, f"the dashboard shows {USERS} reports")
    keep(page, "dashboard")


def test_a_stopped_node_is_seen(observed: Observed, page: Page) -> None:
    node = observed.composed.container("node-2")
    run(["docker", "stop", node])
    try:
        until(
            lambda: "nodes (2/3 up)" in prometheus_page(page, observed, "targets"),
            "one node of three is down",
        )
        until(
            lambda: "NodeDown (1 active)" in prometheus_page(page, observed, "alerts"),
            "the alert waits or fires",
        )
        keep(page, "a-node-is-down")
    finally:
        run(["docker", "start", node])
        observed.composed.until_healthy("node-2")
