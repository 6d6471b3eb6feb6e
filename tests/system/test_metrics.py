"""The pages of metrics of real processes, and what Prometheus, its alerts and the dashboards make
of them.

About 15 seconds; what needs the programs `prometheus` or `promtool` is skipped where they are not
installed."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from pages import fetch, metrics_of
from rounds_for_tests import USERS, small_round

from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalSystem

OBSERVED = True

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
OBJECTIVES = DEPLOY / "prometheus" / "objectives.yml"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
DATASOURCE = (DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()

MAY_BE_EMPTY = {
    "Refusals by reason", "Refusals of the accountant", "Records in work", "Rounds by phase",
    "Through the phase"
}  # fmt: skip
"""Panels of work under way and of trouble: empty after one small round that went well."""

SCRAPED = {"up", "ALERTS"}
"""Series that Prometheus makes itself."""

MESSAGES = 3 * USERS


def panels() -> list[Any]:
    return [panel for file in DASHBOARDS for panel in json.loads(file.read_text())["panels"]]


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:shuffledp_\w+|process_\w+|up\b)", text)) - SCRAPED


def samples(page: str) -> dict[str, float]:
    """Values by series as it is written on a page."""
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#"]
    return {series: float(value) for series, value in lines}


@pytest.fixture(scope="module")
def round_done(running: LocalSystem, pool: ProcessPoolExecutor) -> LocalSystem:
    """The module's system after one whole round."""
    asyncio.run(small_round(running, pool))
    return running


@pytest.fixture(scope="module")
def prometheus(round_done: LocalSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Prometheus with the deployed configuration, but for addresses and a
    faster pace."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text().replace(": 5s", ": 1s")
    for name, address in round_done.metrics.items():
        assert f"{name}.metrics:9100" in text
        text = text.replace(f"{name}.metrics:9100", address)
    (folder / "prometheus.yml").write_text(text)
    for rules in (ALERTS, OBJECTIVES):
        shutil.copy(rules, folder)
    ports = Ports(1)
    address = f"127.0.0.1:{ports.numbers[0]}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={address}"], stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield address
    finally:
        process.kill()
        process.wait()
        ports.close()


def alerts_page(address: str) -> str:
    """Beside the page that Prometheus shows first.

    Versions and distributions differ in where that is.
    """
    with urlopen(f"http://{address}/", timeout=240) as answer:
        first: str = answer.url
    return first.removeprefix("http://").rstrip("/").rpartition("/")[0] + "/alerts"


async def api(address: str, path: str) -> Any:
    return json.loads(await asyncio.to_thread(fetch, f"{address}/api/v1/{path}"))["data"]


async def query(address: str, expression: str) -> list[Any]:
    found: list[Any] = (await api(address, f"query?query={quote(expression)}"))["result"]
    return found


async def until(address: str, expression: str, wanted: Callable[[list[Any]], bool]) -> list[Any]:
    """The first answer that is wanted; what it is instead, when none is for four minutes."""
    found: list[Any] = []
    try:
        async with asyncio.timeout(240):
            while not wanted(found):
                await asyncio.sleep(0.2)
                try:
                    found = await query(address, expression)
                except OSError:  # still starting
                    continue
    except TimeoutError:
        pytest.fail(f"{expression} stays {found}")
    return found


async def test_the_pages_tell_the_round(round_done: LocalSystem) -> None:
    pages = {name: samples(page) for name, page in (await metrics_of(round_done)).items()}
    assert pages["node-1"]["shuffledp_node_submissions_accepted_total"] == USERS
    for name in round_done.route:
        page = pages[name]
        assert page['shuffledp_node_records_total{phase="mixing"}'] == MESSAGES
        assert page['shuffledp_node_records_total{phase="relaying"}'] == MESSAGES
        assert page['shuffledp_node_rounds_ended_total{outcome="done"}'] == 1
        assert page["shuffledp_node_corrupt"] == 0
        assert page["shuffledp_node_workers_resident_bytes"] > 1e6
        for stage in ("check", "peel", "permute", "write", "relay"):
            assert page[f'shuffledp_node_stage_seconds{{stage="{stage}"}}'] > 0
        one, both = (
            page[f'shuffledp_node_peel_capacity_records_per_second{{workers="{w}"}}']
            for w in ("one", "all")
        )
        assert min(one, both) > 0
    for giver, taker in (("node-1", "node-2"), ("node-2", "node-3")):
        out = pages[giver]['shuffledp_node_batch_bytes_total{direction="out"}']
        assert 0 < out == pages[taker]['shuffledp_node_batch_bytes_total{direction="in"}']
    analyst = pages["analyst"]
    assert analyst['shuffledp_analyst_rounds_ended_total{outcome="published"}'] == 1
    assert analyst["shuffledp_analyst_messages_decoded_total"] == MESSAGES
    assert analyst["shuffledp_analyst_time_to_result_seconds_count"] == 1
    assert 0 < analyst["shuffledp_analyst_time_to_result_seconds_sum"] < 7200
    assert analyst["shuffledp_analyst_round_accepted_reports"] == USERS
    for name in round_done.route:
        assert analyst[f'shuffledp_analyst_node_phase{{node="{name}",phase="done"}}'] == 1
    for stage in ("plan", "final"):
        assert (
            pages["accountant"][f'shuffledp_accountant_certificates_total{{stage="{stage}"}}'] == 1
        )


async def test_the_accountant_shows_what_the_ledger_says(round_done: LocalSystem) -> None:
    address = round_done.metrics["accountant"]
    async with asyncio.timeout(240):  # the figures follow a change by themselves
        while True:
            page = samples(await asyncio.to_thread(fetch, f"{address}/metrics"))
            if page.get('shuffledp_accountant_charges{population="demo",state="settled"}') == 1:
                break
            await asyncio.sleep(0.1)
    spent, left, limit = (
        page[f'shuffledp_accountant_epsilon_{what}{{population="demo"}}']
        for what in ("spent", "left", "limit")
    )
    assert 0 < spent <= 4.0
    assert left == limit - spent
    assert page['shuffledp_accountant_delta{population="demo"}'] == 1e-2


async def test_no_series_names_a_round(round_done: LocalSystem) -> None:
    for page in (await metrics_of(round_done)).values():
        assert re.findall(r"[0-9a-f]{32}", page) == []


async def test_dashboards_and_alerts_use_metrics_that_exist(round_done: LocalSystem) -> None:
    known = {
        re.split(r"[{ ]", line)[0]
        for page in (await metrics_of(round_done)).values()
        for line in page.split("\n")
    }
    texts = (*expressions(), ALERTS.read_text(), OBJECTIVES.read_text())
    used = set[str]().union(*map(names_in, texts))
    assert len(used) > 30
    # A refusal has no series before the first one, and this roster names no witnesses.
    without_series = {"shuffledp_refusals_total", "shuffledp_accountant_witness_answers_total"}
    assert used - known - without_series == set()


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_reads_from_the_provisioned_source_and_explains_every_panel(file: Path) -> None:
    dashboard = json.loads(file.read_text())
    assert dashboard["uid"].startswith("shuffledp-")
    for panel in dashboard["panels"]:
        assert panel["description"]
        for target in panel["targets"]:
            assert f"uid: {target['datasource']['uid']} " in DATASOURCE


async def test_prometheus_reaches_everybody_and_answers_for_the_round(
    prometheus: str, running: LocalSystem
) -> None:
    up = await until(
        prometheus, "up", lambda found: sum(one["value"][1] == "1" for one in found) == 5
    )
    assert {one["metric"]["instance"] for one in up} == set(running.metrics)
    (accepted,) = await until(prometheus, "shuffledp_analyst_round_accepted_reports", bool)
    assert accepted["value"][1] == str(USERS)
    (stage,) = await query(prometheus, "shuffledp_analyst_round_stage == 1")
    assert stage["metric"]["stage"] == "published"
    (spent,) = await query(prometheus, "shuffledp_accountant_epsilon_spent")
    assert spent["metric"]["population"] == running.population


async def test_every_panel_of_every_dashboard_has_data(prometheus: str) -> None:
    await until(prometheus, "min(count_over_time(up[1m])) >= 3", bool)  # rates need a history
    for panel in panels():
        for target in panel["targets"]:
            found = await query(prometheus, target["expr"])
            assert found or panel["title"] in MAY_BE_EMPTY, (
                f"{panel['title']}: nothing for {target['expr']}"
            )


async def test_prometheus_has_every_alert_and_each_says_what_to_do(prometheus: str) -> None:
    await until(prometheus, "up", bool)
    groups = {group["name"]: group for group in (await api(prometheus, "rules"))["groups"]}
    assert [rule["health"] for rule in groups["objectives"]["rules"]].count("err") == 0
    group = groups["shuffledp"]
    assert len(group["rules"]) == ALERTS.read_text().count("- alert:") > 10
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{rule['name'].lower()}"
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["health"] != "err", rule
    assert "<title>" in await asyncio.to_thread(
        fetch, await asyncio.to_thread(alerts_page, prometheus)
    )


@pytest.mark.parametrize("name", ["node-1", "analyst", "accountant"])
def test_a_taken_metrics_port_is_one_line_and_exit_code_2(
    running: LocalSystem, tmp_path: Path, name: str
) -> None:
    config = (running.folder / f"{name}.toml").read_text()
    listen = running.deployment.roster.party(name).address
    config = config.replace(f"state/{name}", str(tmp_path / "state")).replace(
        f'listen = "{listen}"', 'listen = "127.0.0.1:0"'
    )
    file = running.folder / f"second-{name}.toml"
    file.write_text(config)
    role = running.deployment.roster.party(name).role
    module = "shuffledp_shuffler" if role == "node" else f"shuffledp_{role}"
    command = [sys.executable, "-m", f"{module}.cli", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2, done.stderr
    assert f"cannot serve metrics on {running.metrics[name]}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("test", "rules", "objectives_test.yml"),
    ],
    ids=lambda c: c[-1],
)
def test_promtool_is_content(command: tuple[str, ...]) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    folder = DEPLOY / "prometheus"
    done = subprocess.run(
        [program, *command], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried_out() -> None:
    tried = (DEPLOY / "prometheus" / "alerts_test.yml").read_text()
    for name in re.findall(r"- alert: (\w+)", ALERTS.read_text()):
        assert f'alertname="{name}"' in tried
