"""The page of metrics: it serves one registry, frees its port, and counts refusals by class
alone."""

import time
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from cryptography import x509

from shuffledp_core.errors import AccessDenied, ConfigError, PortInUseError
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.transport.metrics import MetricsPage, ServiceMetrics
from shuffledp_core.transport.service import Service
from shuffledp_ops.keys.pki import ANALYST, create_deployment
from shuffledp_sim.system.ports import Ports


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ServiceConfig:
    folder = tmp_path_factory.mktemp("service")
    deployment = create_deployment(folder / "keys", {ANALYST: "127.0.0.1:1"})
    return ServiceConfig(
        name=ANALYST, keys=deployment.keys_of(ANALYST), roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen="127.0.0.1:0", state=folder,
    )  # fmt: skip


@pytest.fixture
def page(config: ServiceConfig) -> Iterator[tuple[ServiceMetrics, MetricsPage]]:
    metrics = ServiceMetrics(config)
    served = MetricsPage(metrics.registry, "127.0.0.1:0")
    yield metrics, served
    served.close()


def read(page: MetricsPage) -> str:
    with urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=240) as answer:
        body: bytes = answer.read()
    return body.decode()


def test_a_refusal_is_counted_by_method_and_class_and_its_text_stays_out(
    page: tuple[ServiceMetrics, MetricsPage],
) -> None:
    metrics, served = page
    metrics.count_refusal("/shuffledp_proto.v1.Node/Submit", AccessDenied("'alice' may not"))
    metrics.count_refusal("/shuffledp_proto.v1.Node/Submit", KeyError("alice"))
    text = read(served)
    assert 'shuffledp_refusals_total{method="Submit",reason="AccessDenied"} 1.0' in text
    assert "shuffledp_unexpected_failures_total 1.0" in text
    assert "KeyError" not in text
    assert "alice" not in text


def test_two_services_in_one_process_count_apart(
    page: tuple[ServiceMetrics, MetricsPage], config: ServiceConfig
) -> None:
    metrics, served = page
    ServiceMetrics(config).count_refusal("/x/Other", AccessDenied("no"))
    metrics.count_refusal("/x/Own", AccessDenied("no"))
    assert "Own" in read(served)
    assert "Other" not in read(served)


async def test_a_service_shows_the_ends_of_the_certificates_it_was_started_with(
    config: ServiceConfig,
) -> None:
    roster = load_roster(config.roster, config.root_key)
    service = Service(config, roster, {}, (), lambda _server: None)
    own = x509.load_pem_x509_certificate((config.keys / "tls.pem").read_bytes())
    authority = x509.load_pem_x509_certificate(roster.tls_authority.encode())
    assert authority.not_valid_after_utc > own.not_valid_after_utc
    for name, certificate in {"own": own, "authority": authority}.items():
        shown = service.metrics.registry.get_sample_value(
            "shuffledp_tls_certificate_expiry_timestamp_seconds", {"certificate": name}
        )
        assert shown == certificate.not_valid_after_utc.timestamp()


def test_the_clock_the_disk_and_the_memory_are_real(
    page: tuple[ServiceMetrics, MetricsPage],
) -> None:
    values = dict(line.rsplit(" ", 1) for line in read(page[1]).splitlines() if line[0] != "#")
    assert abs(float(values["shuffledp_clock_timestamp_seconds"]) - time.time()) < 3600
    size = float(values["shuffledp_state_disk_size_bytes"])
    assert 0 <= float(values["shuffledp_state_disk_free_bytes"]) <= size
    assert float(values["process_resident_memory_bytes"]) > 1e6


def test_a_taken_port_is_said_so_and_a_closed_page_gives_it_back(
    page: tuple[ServiceMetrics, MetricsPage],
) -> None:
    metrics, served = page
    address = f"127.0.0.1:{served.port}"
    with pytest.raises(PortInUseError, match="metrics"):
        MetricsPage(metrics.registry, address)
    with Ports(1) as ports:
        address = f"127.0.0.1:{ports.numbers[0]}"
        MetricsPage(metrics.registry, address).close()
        with pytest.raises(URLError):
            urlopen(f"http://{address}/metrics", timeout=240)
        MetricsPage(metrics.registry, address).close()


@pytest.mark.parametrize(
    "listen", ["a..b:9100", "9100", "host:", ":9100", "host:high", "host:70000"]
)
def test_an_address_that_is_none_is_refused_with_its_value(
    config: ServiceConfig, listen: str
) -> None:
    with pytest.raises(ConfigError, match=listen):
        MetricsPage(ServiceMetrics(config).registry, listen)
