"""`shuffledp keys show` and `keys renew`: what changes on disk, what does not, and what a crash
leaves. About 5 s."""

from __future__ import annotations

import datetime as dt
import fcntl
import io
import os
import shutil
import stat
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rich.console import Console

from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_ops.keys import renewal
from shuffledp_ops.keys.app import renew as keys_renew
from shuffledp_ops.keys.authority import Authority, pem
from shuffledp_ops.keys.overview import show
from shuffledp_ops.keys.pki import Deployment, create_deployment, open_deployment, write_client
from shuffledp_ops.keys.renewal import renew

NOW = dt.datetime.now(dt.UTC)
ADDRESSES = {
    name: f"127.0.0.1:{7001 + at}"
    for at, name in enumerate(("node-1", "node-2", "analyst", "accountant"))
}
EVERYBODY = (*ADDRESSES, "client", "operator", "viewer", "gateway")
TLS = ("tls.pem", "tls-key.pem")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    made = create_deployment(tmp_path / "keys", ADDRESSES)
    write_client(made.folder / "clients" / "alice", made, "demo")
    return made


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of everything in a folder."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.stat().st_mode),
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
    }


def changed(before: dict[str, tuple[int, bytes]], folder: Path) -> set[str]:
    """Files that are new, gone or have other bytes; modes must be the same."""
    after = contents(folder)
    assert {name: mode for name, (mode, _) in before.items()} == {
        name: after[name][0] for name in before
    }
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def end_of(folder: Path) -> dt.datetime:
    return x509.load_pem_x509_certificate((folder / "tls.pem").read_bytes()).not_valid_after_utc


def test_everybody_gets_a_new_pair_that_fits_and_nothing_else_changes(
    deployment: Deployment,
) -> None:
    before = contents(deployment.folder)
    assert renew(deployment.folder).names == EVERYBODY
    folders = (*EVERYBODY, "clients/alice")
    assert changed(before, deployment.folder) == {
        f"{name}/{file}" for name in folders for file in TLS
    }
    authority = x509.load_pem_x509_certificate(deployment.roster.tls_authority.encode())
    for name in EVERYBODY:
        certificate = x509.load_pem_x509_certificate(
            (deployment.keys_of(name) / "tls.pem").read_bytes()
        )
        certificate.verify_directly_issued_by(authority)
        key = load_pem_private_key((deployment.keys_of(name) / "tls-key.pem").read_bytes(), None)
        assert key.public_key() == certificate.public_key()
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName)[0] == name


def test_a_party_at_an_address_of_ipv6_is_certified_for_it(tmp_path: Path) -> None:
    made = create_deployment(tmp_path / "keys", ADDRESSES | {"node-1": "[::1]:7001"})
    certificate = x509.load_pem_x509_certificate((made.keys_of("node-1") / "tls.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("::1")]
    assert names.get_values_for_type(x509.DNSName) == ["node-1", "localhost"]


def test_only_those_who_are_named_get_a_new_pair(deployment: Deployment) -> None:
    before = contents(deployment.folder)
    renew(deployment.folder, ["node-2", "operator"])
    assert changed(before, deployment.folder) == {
        f"{name}/{file}" for name in ("node-2", "operator") for file in TLS
    }


def test_a_new_authority_comes_with_a_roster_under_the_same_root_and_the_same_identities(
    deployment: Deployment,
) -> None:
    before = contents(deployment.folder)
    renew(deployment.folder, new_authority=True)
    tls = {f"{name}/{file}" for name in (*EVERYBODY, "clients/alice") for file in TLS}
    root = {f"root/{name}" for name in ("ca.pem", "ca-key.pem", "ca-bridge.pem")}
    assert changed(before, deployment.folder) == tls | root | {"roster.json"}
    new = open_deployment(deployment.folder)
    assert new.root_key == deployment.root_key
    assert new.roster.parties == deployment.roster.parties
    assert new.roster.populations == deployment.roster.populations
    assert new.roster.tls_authority.endswith(deployment.roster.tls_authority)
    assert new.roster.tls_authority != deployment.roster.tls_authority
    assert (deployment.folder / "root" / "ca-key.pem").stat().st_mode & 0o777 == 0o600


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    made = create_deployment(
        tmp_path / "keys", ADDRESSES, now=NOW - dt.timedelta(days=3 * 365 - 100)
    )
    done = renew(made.folder, ["node-1"])
    assert end_of(made.keys_of("node-1")) == done.authority_ends < NOW + dt.timedelta(days=101)


def test_an_authority_that_ends_soon_issues_nothing_and_the_error_says_what_does(
    tmp_path: Path,
) -> None:
    made = create_deployment(
        tmp_path / "keys", ADDRESSES, now=NOW - dt.timedelta(days=3 * 365 - 29)
    )
    before = contents(made.folder)
    with pytest.raises(ConfigError, match=r"ends on .* less than 30 days.*--authority"):
        renew(made.folder)
    assert changed(before, made.folder) == set()
    renew(made.folder, new_authority=True)
    assert end_of(made.keys_of("node-1")) > NOW + dt.timedelta(days=360)


def test_a_key_that_others_could_read_is_not_so_any_more(deployment: Deployment) -> None:
    key = deployment.keys_of("node-1") / "tls-key.pem"
    key.chmod(0o644)
    renew(deployment.folder, ["node-1"])
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_party_whose_folder_was_carried_away_gets_a_new_one(deployment: Deployment) -> None:
    shutil.rmtree(deployment.keys_of("node-1"))
    renew(deployment.folder, ["node-1"])
    assert {path.name for path in deployment.keys_of("node-1").iterdir()} == set(TLS)
    assert stat.S_IMODE(deployment.keys_of("node-1").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("missing", "authority", "says"),
    [
        ("root/ca-key.pem", False, "cannot read the TLS authority's key"),
        ("root/ca-key.pem", True, "cannot read the TLS authority's key"),
        (
            "root/identity.pem",
            True,
            "must be signed by the root key, and .*/keys/root/identity.pem does not exist",
        ),
        ("roster.json", False, "is not a deployment folder: it has no roster.json"),
        ("root.pub", False, "is not a deployment folder: it has no root.pub"),
    ],
)
def test_what_is_not_kept_here_is_named_and_nothing_is_changed(
    deployment: Deployment, missing: str, says: str, *, authority: bool
) -> None:
    (deployment.folder / missing).unlink()
    before = contents(deployment.folder)
    with pytest.raises(ConfigError, match=says):
        renew(deployment.folder, new_authority=authority)
    assert changed(before, deployment.folder) == set()
    assert [path.name for path in deployment.folder.parent.iterdir()] == ["keys"]


def test_the_root_key_is_not_needed_while_the_authority_stays(deployment: Deployment) -> None:
    (deployment.folder / "root" / "identity.pem").unlink()
    assert renew(deployment.folder).names == EVERYBODY


def test_another_root_key_signs_no_roster(deployment: Deployment, tmp_path: Path) -> None:
    other = create_deployment(tmp_path / "other", ADDRESSES)
    shutil.copy(other.folder / "root" / "identity.pem", deployment.folder / "root")
    with pytest.raises(ConfigError, match="is not the root key that devices pin"):
        renew(deployment.folder, new_authority=True)


def test_another_authoritys_key_issues_nothing(deployment: Deployment, tmp_path: Path) -> None:
    other = create_deployment(tmp_path / "other", ADDRESSES)
    shutil.copy(other.folder / "root" / "ca-key.pem", deployment.folder / "root")
    with pytest.raises(ConfigError, match="is not the key of"):
        renew(deployment.folder)


def test_a_name_that_the_deployment_does_not_have_is_refused_with_those_it_has(
    deployment: Deployment,
) -> None:
    with pytest.raises(
        UsageError, match=r"no party 'node-9'; choose from node-1, node-2, .*operator"
    ):
        renew(deployment.folder, ["node-1", "node-9"])


def test_a_new_authority_is_for_everybody(deployment: Deployment) -> None:
    with pytest.raises(UsageError, match="leave out --party"):
        renew(deployment.folder, ["node-1"], new_authority=True)


def test_two_renewals_do_not_meet(deployment: Deployment) -> None:
    holder = os.open(deployment.folder.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="another renewal is running"):
        renew(deployment.folder)
    os.close(holder)
    renew(deployment.folder)


def test_a_system_that_cannot_exchange_folders_says_so_and_nothing_is_changed(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(deployment.folder)
    monkeypatch.setattr(renewal, "_EXCHANGE", 1 << 30)  # a flag that no kernel knows
    with pytest.raises(ConfigError, match=r"Invalid argument.*nothing was changed"):
        renew(deployment.folder, new_authority=True)
    assert changed(before, deployment.folder) == set()
    assert [path.name for path in deployment.folder.parent.iterdir()] == ["keys"]


def test_the_copy_is_closed_to_others_before_there_is_a_key_in_it(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.folder.chmod(0o755)
    copy = deployment.folder.parent / ".keys.renewal"
    modes = []
    there = shutil.copytree

    def watching(*arguments: Any, **options: Any) -> Any:
        modes.append(stat.S_IMODE(copy.stat().st_mode))
        return there(*arguments, **options)

    monkeypatch.setattr(shutil, "copytree", watching)
    renew(deployment.folder)
    assert modes[0] == 0o700
    assert stat.S_IMODE(deployment.folder.stat().st_mode) == 0o755


def test_a_folder_of_another_user_is_left_alone(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(deployment.folder)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        renew(deployment.folder)
    assert changed(before, deployment.folder) == set()


def test_an_authority_that_may_certify_no_other_has_a_successor_without_a_bridge(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """An authority as deployments had it before there were bridges."""
    root = deployment.folder / "root"
    present = Authority.load(root)
    limited = (
        x509.CertificateBuilder(
            present.certificate.issuer, present.certificate.subject, present.key.public_key(), 1
        )
        .not_valid_before(NOW)
        .not_valid_after(present.ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(present.key, hashes.SHA256())
    )
    (root / "ca.pem").write_bytes(pem(limited))
    keys_renew(deployment.folder, party=None, authority=True)
    assert "a party with the old roster refuses the new certificates" in capsys.readouterr().out
    assert not (root / "ca-bridge.pem").exists()


CRASHES = """
import os, signal, sys
from pathlib import Path
from shuffledp_ops.keys import renewal
step, when = sys.argv[2:]
there = getattr(renewal, step)
def dies(*arguments):
    if when == "after":
        there(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(renewal, step, dies)
renewal.renew(Path(sys.argv[1]), new_authority=True)
"""


@pytest.mark.parametrize(
    ("step", "when", "is_new"),
    [
        ("_create_successor", "before", False),
        ("_create_successor", "after", False),
        ("_hand_to_users", "after", False),
        ("_sync", "after", False),
        ("_exchange", "before", False),
        ("_exchange", "after", True),
    ],
)
def test_a_crash_leaves_the_old_folder_or_the_new_one_and_the_next_renewal_cleans_up(
    deployment: Deployment, step: str, when: str, *, is_new: bool
) -> None:
    before = contents(deployment.folder)
    command = [sys.executable, "-c", CRASHES, str(deployment.folder), step, when]
    assert subprocess.run(command, timeout=240, check=False).returncode == -9
    kept = deployment.folder.parent / ".keys.renewal"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    if is_new:
        assert changed(before, kept) == set()
        assert {"roster.json", "root/ca-key.pem", "clients/alice/tls.pem"} < changed(
            before, deployment.folder
        )
    else:
        assert changed(before, deployment.folder) == set()
    renew(deployment.folder)
    assert not kept.exists()


def shown(deployment: Deployment) -> str:
    text = io.StringIO()
    show(deployment, Console(file=text, width=80), NOW)
    return text.getvalue()


def test_the_overview_has_names_fingerprints_and_ends_and_no_secret(deployment: Deployment) -> None:
    for name, days in {"node-1": 65, "node-2": 400, "operator": 200}.items():
        renew(deployment.folder, [name], now=NOW - dt.timedelta(days=days) + dt.timedelta(hours=1))
    text = shown(deployment)
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[-len(EVERYBODY) :]}
    assert tuple(lines) == EVERYBODY
    assert lines["node-1"][:2] == ["node", deployment.roster.party("node-1").identity_key[:16]]
    certificate = deployment.keys_of("node-1") / "tls.pem"
    openssl = ["openssl", "x509", "-in", str(certificate), "-noout", "-fingerprint", "-sha256"]
    printed = subprocess.run(openssl, capture_output=True, text=True, check=True).stdout
    assert lines["node-1"][2] in printed.replace(":", "").lower()
    assert lines["node-1"][3:] == [f"{end_of(deployment.keys_of('node-1')):%Y-%m-%d}", "300"]
    assert lines["node-2"][-1] == "-35"
    assert lines["operator"][-1] == "165"
    for secret in deployment.folder.rglob("*.pem"):
        for line in secret.read_text().splitlines():
            assert line not in text
    assert deployment.root_key in text


def test_the_overview_says_what_is_kept_elsewhere(deployment: Deployment) -> None:
    assert "private root key: root/identity.pem" in shown(deployment)
    (deployment.folder / "root" / "identity.pem").unlink()
    shutil.rmtree(deployment.keys_of("node-2"))
    text = shown(deployment)
    assert "private root key: not here" in text
    assert "private TLS authority's key: root/ca-key.pem" in text
    assert "not here" in next(line for line in text.splitlines() if line.startswith("node-2"))


def test_the_command_says_what_is_to_be_done_next(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    keys_renew(deployment.folder, party=["node-1"], authority=False)
    printed = capsys.readouterr().out
    assert "new TLS keys and certificates: node-1\n" in printed
    assert "put them in place; running parties reload them" in printed
    keys_renew(deployment.folder, party=None, authority=True)
    printed = capsys.readouterr().out
    assert "distribute it to all parties and devices" in printed
    assert "restart one by one" in printed
