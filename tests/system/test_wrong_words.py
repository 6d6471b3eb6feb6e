"""Wrong inputs to what people type first: one sentence that says what to do, an exit code, and
nothing half done."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Shell

from shuffledp_client import cli as client_cli
from shuffledp_client.gateway import cli as gateway_cli
from shuffledp_client.gateway import probe as gateway_probe
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.enrolment import enrol
from shuffledp_ops.keys.pki import Deployment, create_deployment

ENDLESS = "/dev/zero"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Keys of a deployment of which nothing runs, with one device."""
    names = ("node-1", "node-2", "analyst", "accountant")
    addresses = {name: f"127.0.0.1:{port}" for port, name in enumerate(names, start=1)}
    made = create_deployment(tmp_path_factory.mktemp("wrong") / "keys", addresses)
    enrol(made, ["alice"])
    return made


def bundle_of(deployment: Deployment) -> Path:
    return deployment.folder / "clients" / "alice.bundle"


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., object]:
    """Runs a program's `main` in an empty folder; exit code and standard error."""
    monkeypatch.chdir(tmp_path)

    def main_of(main: Callable[[], None], *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["program", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), " ".join(capsys.readouterr().err.split())

    return main_of


Run = Callable[..., tuple[int, str]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["alice"], "a client named 'alice' already exists"),
        (["z", "--gateway", "host"], "--gateway 'host' is not HOST:PORT"),
        (["z", "--gateway", "a b:7443"], "--gateway 'a b:7443' is not HOST:PORT"),
        (["z", "--gateway", 'h"\nepsilon = 9\n:7443'], "is not HOST:PORT"),
        (["z", "--gateway", "host:٤٤٣"], "is not HOST:PORT"),
        (["z", "--broker", "host:99999"], "--broker 'host:99999' is not HOST:PORT"),
        (["z", "--address", "node-1=:7000"], "is not PARTY=HOST:PORT"),
        (["z", "--address", "node-9=h:1"], "names no party of the deployment"),
        (["z", "--days", "99999999"], "x<=36500"),
        (["z", "--settings", ENDLESS], "has more than 67,108,864 bytes"),
        (["--csv", ENDLESS], "has more than 67,108,864 bytes"),
    ],
)
def test_who_cannot_be_enrolled_leaves_nothing(
    shuffledp: Shell, deployment: Deployment, words: list[str], says: str
) -> None:
    before = sorted(deployment.folder.rglob("*"))
    code, printed, errors = shuffledp("keys", "enrol", str(deployment.folder), *words)
    assert (code, printed) == (2, ""), errors
    assert says in re.sub(r"[│\s]+", " ", errors)
    assert sorted(deployment.folder.rglob("*")) == before


BUNDLES: dict[str, tuple[Callable[[bytes], bytes] | None, str, str]] = {
    "empty": (lambda _: b"", "phone", "is not a device's bundle"),
    "cut off": (lambda data: data[:500], "phone", "is not a device's bundle"),
    "nested without end": (lambda _: b"[" * 10**6, "phone", "is not a device's bundle"),
    "touched": (lambda data: data.replace(b"5", b"6", 1), "phone", "valid signature of 'root'"),
    "without end": (None, "phone", "has more than 4,194,304 bytes"),
    "into a file": (lambda data: data, "the.bundle", "(Not a directory); name another folder"),
    "below a file": (lambda data: data, "the.bundle/phone", "everything written there was removed"),
    "a name that is too long": (
        lambda data: data,
        "x" * 300,
        "(File name too long); name another folder",
    ),
}


@pytest.mark.parametrize("case", BUNDLES)
def test_a_bundle_that_cannot_be_installed_leaves_no_key(
    run: Run, deployment: Deployment, tmp_path: Path, case: str
) -> None:
    changed, folder, says = BUNDLES[case]
    file = tmp_path / "the.bundle"
    if changed is None:
        file.symlink_to(ENDLESS)
    else:
        file.write_bytes(changed(bundle_of(deployment).read_bytes()))
    code, errors = run(client_cli.main, "import", str(file), folder)
    assert code in {1, 2}
    assert says in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_midst_of_an_import_leaves_no_key(
    deployment: Deployment, tmp_path: Path, number: signal.Signals
) -> None:
    """The import stands still, keys written, where it checks them: it ends there, and takes all of
    it back."""
    code = (
        "import signal, sys\n"
        "for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "    signal.signal(one, signal.default_int_handler if one == signal.SIGINT else "
        "signal.SIG_DFL)\n"
        "from shuffledp_client import bundle, cli\n"
        "bundle._check_installation = lambda folder: "
        "(print('keys are written', flush=True), signal.pause())\n"
        "cli.main()\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "import",
        str(bundle_of(deployment)),
        str(tmp_path / "phone"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "keys are written\n"
            assert list(tmp_path.rglob("identity.pem"))
            process.send_signal(number)
            _, errors = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


GATEWAYS = {
    "listen must be host:port": ('listen = "127.0.0.1:9"', 'listen = "nowhere"'),
    "unknown field `surprise`": ("boards = 16", "boards = 16\nsurprise = 1"),
    "boards must be from 1": ("boards = 16", "boards = 0"),
    "cannot read the TLS key": ('gateway"\nroster', 'none"\nroster'),
    "has no party of that name": ("boards = 16", 'boards = 16\n[addresses]\nnode-9 = "h:1"'),
    "has more than": ("roster.json", "../endless"),
}


@pytest.mark.parametrize("says", GATEWAYS)
def test_a_gateway_with_a_wrong_configuration_says_what_is_wrong_and_does_not_start(
    run: Run, deployment: Deployment, tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gateway_cli, "configure_logs", lambda _: None
    )  # of this process: other tests read its logs
    endless = deployment.folder.parent / "endless"
    if not endless.is_symlink():
        endless.symlink_to(ENDLESS)
    text = (
        f'keys = "{deployment.keys_of(GATEWAY)}"\nroster = "{deployment.roster_file}"\n'
        f'root_key = "{deployment.root_key}"\nlisten = "127.0.0.1:9"\nstate = "state"\nboards = '
        f"16\n"
    )
    old, new = GATEWAYS[says]
    assert old in text
    config = tmp_path / "gateway.toml"
    config.write_text(text.replace(old, new))
    code, errors = run(gateway_cli.main, "--config", str(config))
    assert (code, says in errors) == (2, True), errors
    assert run(gateway_probe.main, str(config))[0] in {1, 2}


def test_a_document_without_end_is_refused(shuffledp: Shell) -> None:
    for words in (["verify", ENDLESS], ["campaign", "plan", ENDLESS]):
        code, printed, errors = shuffledp(*words)
        assert (code, printed) == (2, "")
        assert "has more than 67,108,864 bytes; check the path" in " ".join(errors.split())
