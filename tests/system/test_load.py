"""`shuffledp load` on a running system: counts are exact, nothing is lost.

About 25 seconds on two cores.
"""

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rounds_for_tests import LARGEST, quiet, small_plan, submit_some, within_a_minute

from shuffledp_core.errors import ConfigError, UnknownRoundError, UsageError
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.load.connections import OTHER_FILES, allow_open_files
from shuffledp_sim.load.figures import ENTRY
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.load.present import check_report_file, rows, write_report
from shuffledp_sim.load.process import ArrivalProcess
from shuffledp_sim.load.run import LoadOutcome, LoadTest, run_load
from shuffledp_sim.system.processes import LocalSystem

COMMAND = [sys.executable, "-m", "shuffledp.cli", "load"]
OPTIONS = LoadOptions(
    users=60,
    connections=10,
    rate=60.0,
    arrivals=ArrivalProcess.UNIFORM,
    max_value=LARGEST,
    epsilon=4.0,
    delta=1e-3,
)


async def run(
    system: LocalSystem, pool: ProcessPoolExecutor, corpus: Path, options: LoadOptions
) -> LoadOutcome:
    pids = {name: process.pid for name, process in system.processes.items()}
    return await within_a_minute(LoadTest(system, pids, options, corpus, pool, quiet()).run())


async def test_every_user_is_accepted_and_none_is_lost(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    found = await run(system, pool, tmp_path / "corpus", OPTIONS)
    report = found.report
    assert (report.offered, report.accepted, report.counted) == (60, 60, 60)
    assert (report.refused, report.unanswered, report.lost, report.failure) == ({}, 0, 0, None)
    assert (report.calls, report.unanswered_calls, report.accepted_later) == (60, {}, 0)
    assert (
        report.connections == report.established == 10
    )  # by the kernel's own table: nothing is shared
    assert report.latency is not None
    assert report.latency.p50 <= report.latency.p99 <= report.latency.max
    assert report.started_rate <= OPTIONS.rate * 1.0001  # nobody starts before its time
    assert all(size is not None and size > 2**20 for size in report.peak_bytes.values())
    assert set(report.seconds) >= {
        "open",
        "sealing",
        "connecting",
        "arrivals",
        "node-1 mixing",
        "decoding",
        "verify",
    }
    for suffix, begin in ((".png", b"\x89PNG"), (".html", b"<!DOCTYPE html>")):
        write_report(report, found.timeline, tmp_path / f"load{suffix}")
        assert (tmp_path / f"load{suffix}").read_bytes().startswith(begin)


async def test_users_beyond_a_full_round_are_refused_and_counted(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system, min_reports=45, max_reports=50))
    await submit_some(system, pool, opened.round_id, 10)
    options = replace(OPTIONS, keys=tmp_path, round_id=opened.round_id, leave_open=True)
    report = (await run(system, pool, tmp_path, options)).report
    assert (report.accepted, sum(report.refused.values()), report.unanswered) == (40, 20, 0)
    assert (report.counted, report.lost) == (50, 0)


async def test_a_corpus_is_used_again_for_its_round_and_for_no_other(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir(mode=0o755)
    first = (await run(system, pool, corpus, OPTIONS)).report
    assert (
        corpus.stat().st_mode & 0o777 == 0o700
    )  # what is in it is secret, also in a folder that was there before
    with pytest.raises(UsageError, match=f"sealed for round {first.round_id}"):
        await run(system, pool, corpus, OPTIONS)
    with pytest.raises(UsageError, match="not empty"):
        await run(system, pool, tmp_path, OPTIONS)


async def test_a_round_that_nobody_knows_is_a_clear_error(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    with pytest.raises(UnknownRoundError):
        await run(system, pool, tmp_path, replace(OPTIONS, keys=tmp_path, round_id="0" * 32))


async def test_a_round_that_fails_leaves_its_figures_and_says_why(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system, min_reports=61, max_reports=70))
    report = (
        await run(system, pool, tmp_path, replace(OPTIONS, keys=tmp_path, round_id=opened.round_id))
    ).report
    assert (report.accepted, report.lost, report.counted) == (60, None, None)
    assert "60" in (report.failure or "")


async def test_a_deployment_elsewhere_is_tested_with_its_keys_alone(system: LocalSystem) -> None:
    with metrics_page(
        "process_resident_memory_bytes 5.0e+07\nprocess_cpu_seconds_total 1.5\n"
    ) as url:
        options = replace(OPTIONS, keys=system.deployment.folder, users=20, metrics=url)
        report = (await within_a_minute(run_load(options, quiet()))).report
    assert (report.accepted, report.lost, report.peak_bytes) == (20, 0, {})
    assert (report.collecting_bytes, report.cpu_seconds[ENTRY]) == (50_000_000, 0.0)
    report = (
        await within_a_minute(run_load(replace(options, metrics=url), quiet()))
    ).report  # the page is gone
    assert (report.lost, report.collecting_bytes, report.cpu_seconds[ENTRY]) == (0, None, None)
    assert "unknown" in dict(rows(report))["memory of the entry node, collecting"]


@contextmanager
def metrics_page(text: str) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            thread.join()


def test_the_command_needs_no_deployment_and_prints_one_json_object(tmp_path: Path) -> None:
    options = ["--users", "30", "--connections", "5", "--rate", "60", "--epsilon", "4", "--delta",
    "1e-3",
               "--max-value", "3", "--nodes", "2", "--report", "load.html", "--format",
               "json"]  # fmt: skip
    done = subprocess.run(
        [*COMMAND, *options], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["accepted"], answer["lost"], answer["pre_sealed"]) == (30, 0, True)
    assert "data:image/png" in (tmp_path / "load.html").read_text()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rate": 0.0}, "--rate"),
        ({"rate": float("inf")}, "finite"),
        ({"round_id": "0" * 32}, "key folder"),
        ({"leave_open": True}, "another process closes"),
        ({"suite": "rot13"}, "sealed-box"),
        ({"metrics": "node-1:9100"}, "metrics page"),
    ],
)
def test_bad_options_are_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        replace(OPTIONS, **changes)


@pytest.mark.parametrize("name", ["load.pdf", "nowhere/load.png"])
def test_a_report_that_could_not_be_written_is_refused_before_the_test(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="--report"):
        check_report_file(tmp_path / name)


def test_a_bad_option_of_the_command_is_a_line_and_not_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "nowhere"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_more_connections_than_files_may_be_open_are_refused() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this machine sets no hard limit")
    with pytest.raises(UsageError, match="ulimit"):
        allow_open_files(hard - OTHER_FILES + 1)
