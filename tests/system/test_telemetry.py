"""Traces of the operator's path: what a real OTLP collector gets, and what it never gets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from campaigns import FIRST, MovedCalendar, campaign_file, people
from campaigns import USERS as CAMPAIGN_USERS
from commands import Shell
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from rounds_for_tests import USERS, quiet, small_plan, small_values

from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import NodeFault, NotInstalledError, UnreachableError, UsageError
from shuffledp_ops.campaigns.commands import run_campaign
from shuffledp_ops.campaigns.config import load_campaign
from shuffledp_ops.campaigns.state import AttemptStage, CampaignStore
from shuffledp_ops.rounds import telemetry
from shuffledp_ops.rounds.running import StageClock, abort_round, control_of
from shuffledp_ops.rounds.telemetry import PARTY_ATTRIBUTE, ROUND_ATTRIBUTES, TelemetryExporter
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalSystem


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """An OTLP endpoint that keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []

    def Export(  # noqa: N802
        self,
        request: trace_service_pb2.ExportTraceServiceRequest,
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> list[Span]:
        """The spans of the only request; its resource and scope have no other attributes."""
        (request,) = self.requests
        (resource,) = request.resource_spans
        assert attributes(resource.resource) == {"service.name": "shuffledp-operator"}
        (scope,) = resource.scope_spans
        assert not scope.scope.attributes
        return list(scope.spans)


def attributes(holder: Any) -> dict[str, str | int]:
    """Attributes of a span or resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in holder.attributes}


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    kept = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(kept, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield kept, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


async def test_a_round_is_one_trace_of_stages_and_public_facts(
    system: LocalSystem,
    pool: ProcessPoolExecutor,
    collector: tuple[Collector, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=secret")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    kept, url = collector
    plan = small_plan(system)
    clock = StageClock()
    who: list[bytes] = []
    report = await run_round(system, plan, small_values(), pool, quiet(), clock, credentials=who)
    result = from_json(report.documents["result"].body, Result)
    TelemetryExporter(url).export("demo", plan, report.round_id, clock, result)
    spans = kept.spans()
    (root,) = [span for span in spans if not span.parent_span_id]
    stages = [span for span in spans if span is not root]
    assert attributes(root) == {
        "shuffledp.deployment": "demo",
        "shuffledp.round": report.round_id,
        "shuffledp.population": system.population,
        "shuffledp.mechanism": "rr-shuffle",
        "shuffledp.mix": "plain",
        "shuffledp.nodes": 3,
        "shuffledp.accepted": USERS,
        "shuffledp.messages": report.messages,
    }
    assert root.name == "round"
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert {span.parent_span_id for span in stages} == {root.span_id}
    assert {(span.name, attributes(span).get(PARTY_ATTRIBUTE)) for span in stages} >= {
        ("open", None),
        ("decoding", None),
        ("certifying", None),
        *(("mixing", f"node-{number}") for number in (1, 2, 3)),
    }
    # As many spans whatever the number of people, and no other kind of attribute.
    assert len(stages) == len(clock.ended_at) < 15
    assert all(set(attributes(span)) <= {PARTY_ATTRIBUTE} for span in stages)
    assert set(attributes(root)) <= ROUND_ATTRIBUTES
    assert all(not span.events and not span.links for span in spans)
    sent = kept.requests[0].SerializeToString()
    assert len(who) == USERS
    assert not any(one in sent or one.hex().encode() in sent for one in who)
    for span in stages:
        length = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        label = f"{attributes(span).get(PARTY_ATTRIBUTE, '')} {span.name}".strip()
        assert length == pytest.approx(clock.seconds[label], abs=1e-6)
        assert span.end_time_unix_nano <= root.end_time_unix_nano


def test_the_command_traces_a_round_that_fails(
    running: LocalSystem, collector: tuple[Collector, str], shuffledp: Shell
) -> None:
    kept, url = collector
    keys = str(running.deployment.folder)
    plan = ("--mechanism", "rr-shuffle", "--max-value", "3", "--epsilon", "4", "--delta", "1e-3")
    reports = ("--min-reports", "40", "--max-reports", "40", "--open-seconds", "0.2")
    code, _, errors = shuffledp("round", keys, *plan, *reports, "--otlp-endpoint", url)
    assert code == 1, errors
    (root,) = [span for span in kept.spans() if not span.parent_span_id]
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert not root.status.message
    assert set(attributes(root)) <= ROUND_ATTRIBUTES
    assert attributes(root)["error.type"] == "TooFewReportsError"
    assert "warning" not in errors


async def test_a_campaign_traces_each_of_its_rounds(
    running: LocalSystem,
    collector: tuple[Collector, str],
    tmp_path: Path,
    pool: ProcessPoolExecutor,
) -> None:
    """The first attempt at its only date is ended by the analyst's operator."""
    kept, url = collector
    file = campaign_file(
        tmp_path,
        running.deployment.folder,
        (("rounds = 3", "rounds = 1"),),
        question="retries = 2",
    )
    running_campaign = asyncio.ensure_future(
        asyncio.to_thread(
            run_campaign,
            file,
            once=False,
            go_on=False,
            otlp_endpoint=url,
            calendar=MovedCalendar(FIRST),
        )
    )
    store = CampaignStore(load_campaign(file).folder)
    aborted = ""
    async with asyncio.timeout(240):
        while not aborted:
            state = store.load()
            last = None if state is None else state.entries[0].last
            if last is not None and last.stage is AttemptStage.OPEN:
                aborted = last.round_id
            await asyncio.sleep(0.05)
    async with control_of(running.deployment) as control:
        await abort_round(control, aborted, "a test")
    async with people(running, pool):
        await running_campaign
    roots = [
        attributes(span)
        for request in kept.requests
        for span in request.resource_spans[0].scope_spans[0].spans
        if not span.parent_span_id
    ]
    failed, published = roots
    assert failed["shuffledp.round"] == aborted
    assert failed["error.type"] == "RoundFailed"
    assert published["shuffledp.accepted"] == CAMPAIGN_USERS
    assert published["shuffledp.round"] != aborted
    assert all(set(root) <= ROUND_ATTRIBUTES for root in roots)


def test_a_collector_that_is_away_is_named(
    running: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "EXPORT_SECONDS", 0.5)
    exporter = TelemetryExporter("http://127.0.0.1:1")
    with pytest.raises(UnreachableError, match=r"collector at http://127\.0\.0\.1:1"):
        exporter.export("demo", small_plan(running), "", StageClock(), NodeFault("away"))


@pytest.mark.parametrize("url", ["collector:4317", "ftp://collector", "https://"])
def test_what_is_no_url_of_a_collector_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected one such as"):
        TelemetryExporter(url)


def test_without_the_optional_packages_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    with pytest.raises(NotInstalledError, match=r"shuffledp-ops\[telemetry\]"):
        TelemetryExporter("http://localhost:4317")
