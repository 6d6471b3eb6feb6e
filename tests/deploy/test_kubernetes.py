"""The Kubernetes manifests, read without a cluster: published schemas, the networks of compose, and
who gets what."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from composed import DEPLOY

from shuffledp_accountant.config import AccountantConfig
from shuffledp_analyst.config import AnalystConfig
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_core.runtime.config import Section, parse_config
from shuffledp_core.runtime.keys import read_roster
from shuffledp_ops.campaigns.config import Campaign
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_shuffler.config import NodeConfig

FOLDER = DEPLOY / "kubernetes"
VERSIONS = ("1.29", "1.37")
"""The first with ReadWriteOncePod for everybody, and the newest whose schemas are here."""

ELSEWHERE = {"witness-1", "witness-2"}
"""Services of compose that belong to other organisations, and so into no pod of this cluster."""

PARTIES = ("node-1", "node-2", "node-3", "analyst", "accountant")
NETWORK = "shuffledp.net/"


def composed() -> dict[str, dict[str, Any]]:
    """The services of compose that have a pod here."""
    files = ("compose.yaml", "compose.gateway.yaml")
    return {
        n: one
        for file in files
        for n, one in yaml.safe_load((DEPLOY / file).read_text())["services"].items()
        if n not in ELSEWHERE
    }


def manifests(kind: str | None = None) -> list[dict[str, Any]]:
    files = [file for file in sorted(FOLDER.glob("*.yaml")) if file.name != "kustomization.yaml"]
    found = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [document for document in found if kind in {None, document["kind"]}]


def pods() -> dict[str, dict[str, Any]]:
    """Every pod's template by the name of its component."""
    templates = [one["spec"]["template"] for one in manifests("StatefulSet")]
    templates += [one["spec"]["jobTemplate"]["spec"]["template"] for one in manifests("CronJob")]
    return {one["metadata"]["labels"]["app.kubernetes.io/name"]: one for one in templates}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_what_the_published_schema_says(version: str) -> None:
    for document in manifests():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    (first, *_) = manifests("StatefulSet")
    first["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(first, VERSIONS[-1], strict=True)


def test_the_kustomization_names_every_file_and_every_image() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    named = {f"{one['name']}:{one['newTag']}" for one in kustomization["images"]}
    assert named == {one["spec"]["containers"][0]["image"] for one in pods().values()}


def test_every_pod_is_confined_as_its_container_in_compose() -> None:
    compose = composed()
    assert set(pods()) == set(compose) - {"keys", "fleet"}
    for name, pod in pods().items():
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == (1883 if name == "mosquitto" else 10001)
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        written = {
            mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")
        }
        assert written == {"tmp", "out" if name == "operator" else "state"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        # A node that is killed because it mixes and does not answer loses the round: nothing
        # restarts it but its end.
        assert "livenessProbe" not in container
    assert [one["spec"]["replicas"] for one in manifests("StatefulSet")] == [1] * 7


def test_who_meets_whom_is_what_compose_says() -> None:
    compose = composed()
    for name, pod in pods().items():
        labels = pod["metadata"]["labels"]
        networks = {label.removeprefix(NETWORK) for label in labels if label.startswith(NETWORK)}
        # A network that is there for a page of metrics has no counterpart: on Kubernetes nobody
        # reaches these pages.
        assert networks == {
            one
            for one in compose[name]["networks"]
            if not one.startswith(("metrics-", "witnessing-"))
        }, name


def test_a_policy_lets_the_members_of_one_network_meet_and_nobody_else() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in manifests("NetworkPolicy")}
    assert policies.pop("nobody") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    names = policies.pop("names")
    assert names["policyTypes"] == ["Egress"]
    assert {port["port"] for port in names["egress"][0]["ports"]} == {53}
    # Devices come to the gateway from anywhere, and to nobody else.
    assert policies.pop("gateway") == {
        "podSelector": {"matchLabels": {f"{NETWORK}gateway": "member"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": 7443}]}],
    }
    networks = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["networks"]
    assert set(policies) == {name for name in networks if not name.startswith("witnessing-")}
    for network, spec in policies.items():
        member = {"matchLabels": {f"{NETWORK}{network}": "member"}}
        (coming,), (going,) = spec["ingress"], spec["egress"]
        assert spec["podSelector"] == member
        assert coming["from"] == going["to"] == [{"podSelector": member}]
        # Not 9100, the page of metrics.
        assert {port["port"] for port in coming["ports"]} <= {7000, 1883}
        assert coming["ports"] == going["ports"]


def test_the_broker_is_configured_as_in_compose() -> None:
    (config,) = [one for one in manifests("ConfigMap") if one["metadata"]["name"] == "mosquitto"]
    assert config["data"]["mosquitto.conf"] == (DEPLOY / "mosquitto" / "mosquitto.conf").read_text()


def test_the_sample_campaign_can_be_read() -> None:
    (config,) = [one for one in manifests("ConfigMap") if one["metadata"]["name"] == "campaign"]
    campaign = parse_config(
        config["data"]["campaign.toml"].encode(), Campaign, "sample", Path("/campaign")
    )
    assert campaign.folder == Path("/out/campaign-weekly")
    (job,) = manifests("CronJob")
    assert (job["spec"]["suspend"], job["spec"]["concurrencyPolicy"]) == (True, "Forbid")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    addresses = {name: f"{name}:7000" for name in PARTIES}
    return create_deployment(tmp_path_factory.mktemp("kubernetes") / "keys", addresses)


def print_secrets(keys: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", FOLDER / "secrets.sh", keys], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def secrets(deployment: Deployment) -> dict[str, dict[str, bytes]]:
    """What `secrets.sh` prints: files by party."""
    printed = print_secrets(deployment.folder)
    assert printed.returncode == 0, printed.stderr
    documents = list(yaml.safe_load_all(printed.stdout))
    for document in documents:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    return {
        document["metadata"]["name"].removeprefix("keys-"): {
            name: base64.b64decode(data) for name, data in document["data"].items()
        }
        for document in documents
    }


def test_every_party_gets_its_own_keys_and_nobody_elses(
    secrets: dict[str, dict[str, bytes]], deployment: Deployment
) -> None:
    own = {"identity.pem", "tls.pem", "tls-key.pem", "roster.json", "config.toml"}
    assert {name: set(files) for name, files in secrets.items()} == {
        **dict.fromkeys(PARTIES, own),
        "gateway": own - {"identity.pem"},
        "operator": {"roster.json", "root.pub", "tls.pem", "tls-key.pem"},
    }
    for name, files in secrets.items():
        for file in set(files) & {"identity.pem", "tls.pem", "tls-key.pem"}:
            assert files[file] == (deployment.folder / name / file).read_bytes()
    private = list(secret_parts(secrets))
    assert len(set(private)) == len(private)
    kept = [deployment.folder / "root" / "identity.pem", deployment.folder / "root" / "ca-key.pem"]
    kept += [
        deployment.folder / "enrolment" / "demo" / "identity.pem",
        deployment.folder / "client" / "tls-key.pem",
    ]
    everything = b"".join(data for files in secrets.values() for data in files.values())
    assert not any(file.read_bytes() in everything for file in kept)


def secret_parts(secrets: dict[str, dict[str, bytes]]) -> Iterator[bytes]:
    """Every private key of every secret."""
    for files in secrets.values():
        yield from (data for data in files.values() if b"PRIVATE KEY" in data)


def test_every_secret_is_mounted_by_its_own_party_alone(
    secrets: dict[str, dict[str, bytes]],
) -> None:
    mounted = {
        name: [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        for name, pod in pods().items()
    }
    assert mounted.pop("mosquitto") == []
    assert {name: [one["secretName"] for one in found] for name, found in mounted.items()} == {
        name: [f"keys-{name}"] for name in secrets
    }
    # Where the command looks for them: the operator's TLS pair is in a folder of its own.
    assert {item["path"] for item in mounted["operator"][0]["items"]} == {
        "roster.json", "root.pub", "operator/tls.pem", "operator/tls-key.pem",
    }  # fmt: skip


def test_the_configurations_are_what_the_programs_read(
    secrets: dict[str, dict[str, bytes]], tmp_path: Path, deployment: Deployment
) -> None:
    models: dict[str, type[Section]] = dict.fromkeys(PARTIES, NodeConfig)
    models |= {"analyst": AnalystConfig, "accountant": AccountantConfig, "gateway": GatewayConfig}
    services = {one["metadata"]["name"]: one["spec"] for one in manifests("Service")}
    for name, model in models.items():
        config: Any = parse_config(secrets[name]["config.toml"], model, name, tmp_path)
        assert (config.name, config.root_key, str(config.keys)) == (
            name,
            deployment.root_key,
            "/keys",
        )
        (tmp_path / "roster.json").write_bytes(secrets[name]["roster.json"])
        roster, port = (
            read_roster(tmp_path / "roster.json", config.root_key),
            services[name]["ports"][0]["port"],
        )
        if name in PARTIES:  # devices know from their bundles where the gateway is
            assert roster.party(name).address == f"{name}:{port}"
        assert config.listen == f"0.0.0.0:{port}"
    assert set(services) == {*models, "mosquitto"}


@pytest.mark.parametrize(
    ("gone", "command"),
    [
        ("roster.json", "keys init"),
        ("root.pub", "keys init"),
        ("operator/tls-key.pem", "keys init"),
        ("accountant/identity.pem", "keys init"),
        ("gateway/tls.pem", "--party gateway"),
    ],
)
def test_where_a_file_is_missing_no_secret_is_printed_at_all(
    deployment: Deployment, tmp_path: Path, gone: str, command: str
) -> None:
    """What is printed goes straight to the cluster: half of it would be applied."""
    keys = shutil.copytree(deployment.folder, tmp_path / "keys")
    (keys / gone).unlink()
    run = print_secrets(keys)
    assert run.returncode == 2
    assert run.stdout == ""
    assert f"{gone} is missing: make it with shuffledp" in run.stderr
    assert command in run.stderr


def test_all_pairs_are_those_of_the_record() -> None:
    networks = {
        name: {label for label in pod["metadata"]["labels"] if label.startswith(NETWORK)}
        for name, pod in pods().items()
    }
    apart = {
        frozenset(pair)
        for pair in combinations(networks, 2)
        if not networks[pair[0]] & networks[pair[1]]
    }
    assert frozenset(("node-1", "node-3")) in apart
    assert {frozenset((node, "accountant")) for node in ("node-1", "node-2", "node-3")} <= apart
    assert {frozenset(("operator", node)) for node in ("node-2", "node-3")} <= apart
