"""The compose files and the configurations of containers, read without an engine."""

import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from composed import DEPLOY, Composed

from shuffledp_accountant.config import AccountantConfig
from shuffledp_analyst.config import AnalystConfig
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_core.runtime.config import Section, load_config
from shuffledp_shuffler.config import NodeConfig

OVERLAYS = ("postgres", "observability", "corrupt", "devices")
"""Those of which every combination is tried."""

OTHERS = ("console", "gateway", "web", "ray", "student")
"""Those that are tried with all of them at once."""

NODES = ("node-1", "node-2", "node-3")
METRICS_PORT = "9100"
PROXY = (DEPLOY / "proxy" / "haproxy.cfg").read_text()
LISTENING = (*NODES, "analyst", "accountant", "mosquitto")
MEETINGS = {
    frozenset(pair)
    for pair in (
        ("node-1", "node-2"), ("node-2", "node-3"),
        ("analyst", "node-1"), ("analyst", "node-2"), ("analyst", "node-3"), ("analyst",
        "accountant"),
        ("mosquitto", "node-1"), ("mosquitto", "node-2"), ("mosquitto", "node-3"), ("mosquitto",
        "analyst"),
        ("fleet", "node-1"), ("fleet", "analyst"), ("fleet", "mosquitto"), ("fleet", "operator"),
        ("accountant", "witness-1"), ("accountant", "witness-2"),
        ("operator", "node-1"), ("operator", "analyst"), ("operator", "mosquitto"), ("operator",
        "accountant"),
    )
}  # fmt: skip
"""Who shares a network with whom: docs/adr/0005-networks-of-a-deployment.md."""


def compose_file(overlay: str | None = None) -> dict[str, Any]:
    name = "compose.yaml" if overlay is None else f"compose.{overlay}.yaml"
    content: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return content


def services(overlay: str | None = None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose_file(overlay)["services"]
    return found


def defined() -> list[tuple[str, dict[str, Any]]]:
    """Every service that a file defines, and does not only change."""
    base = services()
    added = [
        pair
        for overlay in (*OVERLAYS, *OTHERS)
        for pair in services(overlay).items()
        if pair[0] not in base
    ]
    return [*base.items(), *added]


@pytest.mark.parametrize("overlays", [c for size in range(5) for c in combinations(OVERLAYS, size)])
def test_every_combination_of_overlays_is_a_valid_deployment(overlays: tuple[str, ...]) -> None:
    if shutil.which("docker-compose") is None and shutil.which("docker") is None:
        pytest.skip("neither docker compose nor docker-compose is installed")
    project = Composed("shuffledp-config", {"OVERLAYS": " ".join(overlays)})
    assert "node-3" in project.compose("config", "--services")


def test_every_overlay_is_tested() -> None:
    assert {file.name.split(".")[1] for file in DEPLOY.glob("compose.*.yaml")} == {
        *OVERLAYS,
        *OTHERS,
    }


@pytest.mark.parametrize(("name", "service"), defined())
def test_a_service_is_confined_bounded_and_keeps_its_log_small(
    name: str, service: dict[str, Any]
) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", [])) <= (
        {"CHOWN", "DAC_OVERRIDE"} if name == "keys" else set()
    )
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert not {"privileged", "network_mode", "pid", "container_name"} & (
        service.keys() - {"network_mode"}
    )
    assert service.get("network_mode", "none") == "none"
    if name != "keys":
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}
        assert service["pids_limit"] > 0


def test_programs_are_loaded_from_the_temporary_folder_by_those_alone_who_check_verified_rounds() -> (  # noqa: E501
    None
):
    folders = {name: service["tmpfs"] for name, service in defined()}
    assert {name for name, (folder,) in folders.items() if folder.endswith(":exec")} == {
        *NODES, "analyst", "fleet", "operator",
    }  # fmt: skip


def test_corrupt_nodes_share_a_volume_and_not_a_file() -> None:
    """A log has the name of its round: in one folder the last node would replace those of the
    others."""
    corrupt = services("corrupt")
    assert {name: service["command"][-1] for name, service in corrupt.items()} == {
        node: f"/corrupt/{node}" for node in NODES
    }
    assert all(service["volumes"] == ["collusion:/corrupt"] for service in corrupt.values())


def test_nobody_meets_whom_it_should_not() -> None:
    networks = {name: set(service.get("networks", ())) for name, service in services().items()}
    met = {frozenset((a, b)) for a, b in combinations(networks, 2) if networks[a] & networks[b]}
    assert met == MEETINGS


def test_no_network_leads_out_and_nothing_is_published_without_an_overlay() -> None:
    assert all(network["internal"] for network in compose_file()["networks"].values())
    assert not [name for name, service in services().items() if "ports" in service]


def test_devices_outside_reach_what_they_need_and_meet_nobody_else() -> None:
    published = {
        name: service["ports"]
        for name, service in services("devices").items()
        if "ports" in service
    }
    assert {
        name: [port.rpartition(":")[2] for port in ports] for name, ports in published.items()
    } == {
        "node-1": ["7000"],
        "analyst": ["7000"],
        "mosquitto": ["1884"],
    }
    assert {name for name, service in services("devices").items() if "networks" in service} == set(
        published
    )
    assert all(frozenset(pair) in MEETINGS for pair in combinations(published, 2))


def test_devices_outside_only_read_at_the_broker_and_else_it_is_the_same() -> None:
    def settings(name: str) -> list[str]:
        lines = (DEPLOY / "mosquitto" / name).read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    inside, outside = settings("mosquitto.conf"), settings("devices.conf")
    assert outside == [
        "per_listener_settings true",
        *inside,
        "listener 1884",
        "allow_anonymous true",
        "acl_file /mosquitto/config/devices.acl",
        "max_connections 4096",
    ]
    assert settings("devices.acl") == ["topic read shuffledp/v1/#"]
    assert "devices.conf" in services("devices")["mosquitto"]["command"][-1]


def test_the_dashboards_are_published_on_this_machine_alone() -> None:
    published = [
        port for service in services("observability").values() for port in service.get("ports", ())
    ]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_prometheus_stands_with_every_service_and_asks_where_its_page_is() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    fixed = [group for job in jobs for group in job.get("static_configs", ())]
    targets = [target.split(":") for group in fixed for target in group["targets"]]
    assert [host for host, _ in targets] == [
        f"{name}.metrics" for name in (*NODES, "analyst", "accountant")
    ]
    assert {port for _, port in targets} == {METRICS_PORT}
    own = set(services("observability")["prometheus"]["networks"])
    for host, _ in targets:
        ((name, there),) = metrics_networks(host)
        assert host == f"{name}.metrics"
        assert there in own
        assert there != "clients"


def test_prometheus_finds_the_gateway_by_its_name_where_there_is_one() -> None:
    """In a network of the two alone.

    Without the gateway's overlay the name leads nowhere, and nobody is missed.
    """
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    ((job, found),) = [
        (job["job_name"], group) for job in jobs for group in job.get("dns_sd_configs", ())
    ]
    assert (job, found["names"], str(found["port"])) == (
        "gateway",
        ["gateway.metrics"],
        METRICS_PORT,
    )
    gateway, prometheus = services("gateway")["gateway"], services("observability")["prometheus"]
    shared = set(gateway["networks"]) & set(prometheus["networks"])
    assert shared == {"metrics-gateway"}
    assert gateway["networks"]["metrics-gateway"]["aliases"] == found["names"]
    for overlay in ("gateway", "observability"):
        assert compose_file(overlay)["networks"]["metrics-gateway"] == {"internal": True}
        others = {
            name for name, service in services(overlay).items() if shared & set(service["networks"])
        }
        assert others == {"gateway" if overlay == "gateway" else "prometheus"}
    assert not any(shared & set(service.get("networks", ())) for service in services().values())


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("node", "node-1"),
        ("analyst", "analyst"),
        ("accountant", "accountant"),
        ("gateway", "gateway"),
    ],
)
def test_a_page_of_metrics_listens_in_one_network_alone(template: str, name: str) -> None:
    """make-keys.sh puts another node's name in."""
    config = (DEPLOY / "containers" / f"{template}.toml").read_text()
    assert f'metrics = "{name}.metrics:{METRICS_PORT}"' in config


def metrics_networks(alias: str) -> list[tuple[str, str]]:
    """Which service has this name, and in which network."""
    attached = [
        (name, network, settings)
        for name, service in services().items()
        if isinstance(service.get("networks"), dict)
        for network, settings in service["networks"].items()
    ]
    return [
        (name, network)
        for name, network, settings in attached
        if alias in (settings or {}).get("aliases", ())
    ]


def test_a_party_mounts_no_other_partys_keys() -> None:
    for overlay in (None, "postgres", "gateway"):
        for name, service in services(overlay).items():
            keys = [volume for volume in service.get("volumes", ()) if volume.startswith("keys-")]
            if name != "keys":
                assert keys in ([], [f"keys-{name}:/keys:ro"])


TEMPLATES: list[tuple[str, type[Section]]] = [
    ("accountant.toml", AccountantConfig),
    ("analyst.toml", AnalystConfig),
    ("node.toml", NodeConfig),
    ("gateway.toml", GatewayConfig),
    ("pages.toml", GatewayConfig),
]


@pytest.mark.parametrize(("name", "model"), TEMPLATES)
def test_a_containers_configuration_is_one_that_its_program_reads(
    name: str, model: type[Section]
) -> None:
    load_config(DEPLOY / "containers" / name, model)


def test_every_containers_configuration_is_tested() -> None:
    assert {file.name for file in (DEPLOY / "containers").glob("*.toml")} == {
        name for name, _ in TEMPLATES
    }


@pytest.mark.parametrize(
    "script", sorted(DEPLOY.rglob("*.sh")), ids=lambda path: str(path.relative_to(DEPLOY))
)
def test_a_script_is_one_that_a_plain_shell_reads(script: Path) -> None:
    subprocess.run(["/bin/sh", "-n", str(script)], check=True, timeout=240)


@pytest.mark.parametrize(("name", "keys"), [("console", "viewer"), ("console-operate", "operator")])
def test_the_console_is_confined_published_on_this_machine_alone_and_holds_the_keys_it_needs(
    name: str, keys: str
) -> None:
    service = services("console")[name]
    assert [port.rpartition(":")[0].split(":")[0] for port in service["ports"]] == ["127.0.0.1"]
    assert service["volumes"] == [f"keys-{keys}:/keys:ro"]
    operates = keys == "operator"
    assert ("--operate" in service["command"]) == ("profiles" in service) == operates
    base = services()
    met = {
        other for other in base if set(service["networks"]) & set(base[other].get("networks", ()))
    }
    assert met == {"fleet", "operator", "node-1", "analyst", "mosquitto", "accountant"}, (
        "no other node"
    )


def test_the_gateway_is_confined_and_meets_whom_devices_meet() -> None:
    service = services("gateway")["gateway"]
    assert [port.rpartition(":")[2] for port in service["ports"]] == ["7443"]
    base = services()
    met = {
        other for other in base if set(service["networks"]) & set(base[other].get("networks", ()))
    }
    assert met == {"fleet", "operator", "node-1", "analyst", "mosquitto"}
    assert "keys-gateway:/parties/gateway" in base["keys"]["volumes"]


def test_pages_are_served_behind_a_proxy_that_meets_nobody_else() -> None:
    found = services("web")
    assert [port.partition(":")[0] for port in found["proxy"]["ports"]] == ["${PAGES_ADDRESS"]
    assert found["proxy"]["ports"][0].startswith("${PAGES_ADDRESS:-127.0.0.1}:")
    base = services()
    others = {**base, **{name: service for name, service in found.items() if name not in base}}
    met = {
        name: {
            other
            for other, service in others.items()
            if other != name and set(found[name]["networks"]) & set(service.get("networks", ()))
        }
        for name in ("proxy", "pages")
    }
    assert met["proxy"] == {"pages"}
    assert met["pages"] == {"proxy", "fleet", "operator", "node-1", "analyst", "mosquitto"}
    assert compose_file("web")["networks"]["web"]["internal"] is True
    assert found["pages"]["volumes"] == ["keys-pages:/keys:ro", "state-pages:/state"]
    assert found["proxy"]["volumes"] == ["./proxy:/proxy:ro", "${PAGES_TLS:-tls-proxy}:/tls:ro"]


def test_the_gateway_for_pages_believes_only_its_proxy_and_listens_only_beside_it() -> None:
    """The address is that of the compose file, where another network is chosen, too."""
    config = load_config(DEPLOY / "containers" / "pages.toml", GatewayConfig)
    found = services("web")
    (proxy,) = found["pages"]["command"]
    assert proxy == found["proxy"]["networks"]["web"]["ipv4_address"]
    assert config.web is not None
    assert config.web.proxies == (proxy.replace("${WEB_NETWORK:-10.213.78}", "10.213.78"),)
    assert config.web.listen.split(":")[0] in found["pages"]["networks"]["web"]["aliases"]
    assert f"server gateway {config.web.listen}" in PROXY
    assert "http-request del-header X-Forwarded-For" in PROXY
    assert "option forwardfor" in PROXY


def test_every_other_overlay_fits_all_of_them() -> None:
    if shutil.which("docker-compose") is None and shutil.which("docker") is None:
        pytest.skip("neither docker compose nor docker-compose is installed")
    everything = {"OVERLAYS": " ".join((*OVERLAYS, *OTHERS)), "LAB_WORK": "/dev/null"}
    project = Composed("shuffledp-config", everything)
    assert {"console", "gateway", "ray-1", "node-2"} <= set(
        project.compose("config", "--services").split()
    )


def test_a_cluster_of_node_2_is_in_a_network_of_its_own() -> None:
    """Certificates name addresses, so these are fixed.

    Keys come from a service that no network reaches.
    """
    found = services("ray")
    for name, service in found.items():
        mounted = [volume for volume in service["volumes"] if "keys-ray" in volume]
        assert mounted == ["keys-ray:/keys" if name == "ray-keys" else "keys-ray:/ray:ro"]
    addresses = [
        service["networks"]["ray"]["ipv4_address"]
        for name, service in found.items()
        if name != "ray-keys"
    ]
    assert addresses == found["ray-keys"]["command"]
    assert compose_file("ray")["networks"]["ray"]["internal"] is True
    assert not [
        name for name, service in services().items() if "ray" in service.get("networks", ())
    ]
    assert [set(found[worker]["networks"]) for worker in ("ray-1", "ray-2")] == [{"ray"}] * 2
