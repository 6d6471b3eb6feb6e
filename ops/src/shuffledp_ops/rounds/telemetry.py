"""Traces of rounds as the operator sees them, for an OpenTelemetry collector.

A trace has one span for the round and one for each stage that the analyst reports. Each attribute
is one of `ROUND_ATTRIBUTES`, whose values are in the round's public documents, or a party's name.
No trace context is sent to any party, so no trace follows a submission or a message.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import UnsetType

from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.errors import NotInstalledError, ShuffleDPError, UnreachableError, UsageError
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.rounds.running import StageClock

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

ROUND_ATTRIBUTES: Final = frozenset(
    {
        "shuffledp.deployment",
        "shuffledp.round",
        "shuffledp.population",
        "shuffledp.mechanism",
        "shuffledp.mix",
        "shuffledp.nodes",
        "shuffledp.accepted",
        "shuffledp.messages",
        "error.type",
    }
)
"""Every attribute that a round's span may have."""

PARTY_ATTRIBUTE: Final = "shuffledp.party"
"""The only attribute of a stage's span: the party that was at work."""

EXPORT_SECONDS: Final = 10.0
"""Time within which the collector must take a trace."""


class TelemetryExporter:
    """Exporter of the traces of rounds to one OTLP endpoint, over gRPC."""

    def __init__(self, endpoint: str) -> None:
        """Prepare to send to the collector at the URL `endpoint`, as in https://example.com:4317.

        The standard variables `OTEL_EXPORTER_OTLP_*` add headers and certificates.

        Raises:
            UsageError: the endpoint is not an http or https URL.
            NotInstalledError: the optional packages are missing.
        """
        url = urlsplit(endpoint)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise UsageError(
                f"--otlp-endpoint {endpoint!r} is not the URL of a collector; expected one such as "
                "https://collector.example:4317"
            )
        try:
            from opentelemetry.exporter.otlp.proto.grpc import trace_exporter
        except ModuleNotFoundError as error:
            raise NotInstalledError(
                "the exporter of traces is missing: pip install 'shuffledp-ops[telemetry]'"
            ) from error
        # Its own messages repeat the error that `export` raises.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._endpoint = endpoint
        self._make_exporter = partial(trace_exporter.OTLPSpanExporter, endpoint=endpoint)

    def export(
        self,
        deployment: str,
        plan: RoundPlan,
        round_id: str,
        clock: StageClock,
        outcome: Result | ShuffleDPError,
    ) -> None:
        """Send the trace of a round that has ended, or whose opening was refused (no `round_id`).

        Raises:
            UnreachableError: the collector did not take it within `EXPORT_SECONDS`.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        attributes: dict[str, str | int] = {
            "shuffledp.deployment": deployment,
            "shuffledp.population": plan.population,
            "shuffledp.mechanism": plan.mechanism,
            "shuffledp.mix": Mix.PLAIN if isinstance(plan.mix, UnsetType) else plan.mix,
            "shuffledp.nodes": len(plan.route),
        }
        if round_id:
            attributes["shuffledp.round"] = round_id
        if isinstance(outcome, Result):
            attributes["shuffledp.accepted"] = outcome.accepted
            attributes["shuffledp.messages"] = outcome.messages
        else:
            attributes["error.type"] = type(outcome).__name__
        spans = _make_spans(attributes, clock, failed=not isinstance(outcome, Result))
        exporter = self._make_exporter(timeout=EXPORT_SECONDS)
        try:
            exported = exporter.export(spans)
        finally:
            exporter.shutdown()
        if exported is not SpanExportResult.SUCCESS:
            raise UnreachableError(
                f"the collector at {self._endpoint} did not take the round's trace; check its "
                "address, its certificate and the variables OTEL_EXPORTER_OTLP_*"
            )


def export_trace(
    exporter: TelemetryExporter | None,
    deployment: str,
    plan: RoundPlan,
    round_id: str,
    clock: StageClock,
    outcome: Result | ShuffleDPError,
) -> None:
    """Export the round's trace, if there is an exporter; a failure is a warning on standard error.

    See `TelemetryExporter.export`.
    """
    if exporter is None:
        return
    try:
        exporter.export(deployment, plan, round_id, clock, outcome)
    except UnreachableError as error:
        sys.stderr.write(f"warning: {error}\n")


def _make_spans(
    attributes: Mapping[str, str | int], clock: StageClock, *, failed: bool
) -> tuple[ReadableSpan, ...]:
    """The span of the round, and a child for each stage that has ended."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import StatusCode, set_span_in_context

    finished = InMemorySpanExporter()
    # Neither the environment nor the machine adds attributes: the list above is complete.
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({"service.name": "shuffledp-operator"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(finished))
    tracer = provider.get_tracer("shuffledp")
    root = tracer.start_span("round", start_time=clock.began_at, attributes=attributes)
    if failed:
        root.set_status(StatusCode.ERROR)
    inside = set_span_in_context(root)
    for stage, ended_at in clock.ended_at.items():
        party, _, name = stage.rpartition(" ")
        child = tracer.start_span(
            name,
            context=inside,
            start_time=ended_at - int(1e9 * clock.seconds[stage]),
            attributes={PARTY_ATTRIBUTE: party} if party else None,
        )
        child.end(ended_at)
    root.end(clock.now())
    provider.shutdown()
    return finished.get_finished_spans()
