"""Wrong inputs to the commands of an operator and of a device: an exit code, a sentence, and no
file more or less."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from commands import Shell

from shuffledp_client import cli as client_cli
from shuffledp_client.bundle import install, read_bundle
from shuffledp_core.runtime.keys import SEEN_ROSTER
from shuffledp_ops.keys.enrolment import enrol
from shuffledp_ops.keys.pki import Deployment, create_deployment

ROUND = [
    "--mechanism",
    "krr-histogram",
    "--max-value",
    "4",
    "--epsilon",
    "3",
    "--min-reports",
    "5",
    "--max-reports",
    "5",
]
"""A round that could be asked; an option that is given again is the one that counts."""

NO_NAME = "1 to 64 of a-z, 0-9"
NO_DEPLOYMENT = "is not a deployment folder: it has no roster.json and no root.pub"
NO_ROUND = "is not a round's folder; name one that"
NO_TOML = "Expected '=' after a key"

WRONG: list[tuple[str, str]] = [
    ("round {keys} --mechanism laplace", "'laplace' is not one of bloom-rappor"),
    ("round {keys} --max-value 0", "not in the range x>=1"),
    ("round {keys} --max-value x", "is not a valid int"),
    ("round {keys} --min-reports 6", "min_reports must be from 1 to max_reports, not 6"),
    ("round {keys} --min-reports 0", "not in the range x>=1"),
    ("round {keys} --colluding 5", "colluding must be from 0 to min_reports - 1, not 5"),
    ("round {keys} --colluding -1", "not in the range x>=0"),
    ("round {keys} --question -1", "not in the range x>=0"),
    ("round {keys} --route node-1 --route node-1", "a node may occur only once on the route"),
    ("round {keys} --mix shaken", "'shaken' is not one of 'plain', 'verified'"),
    ("round {keys} --open-seconds nan", "open_seconds must be above 0 and at most a year, not nan"),
    ("round {keys} --open-seconds 0", "open_seconds must be above 0 and at most a year, not 0.0"),
    ("round {keys} --adjacency near", "'near' is not one of 'standard', 'metric'"),
    ("round {keys} --max-distance 0", "not in the range x>=1"),
    ("round {keys} --out a-file", "cannot write into the folder a-file: File exists"),
    (
        "round {keys} --out a-file/below",
        "cannot write into the folder a-file/below: Not a directory",
    ),
    ("round {keys} --format xml", "'xml' is not one of 'text', 'json'"),
    ("round nowhere", NO_DEPLOYMENT),
    ("round {keys} --words two.toml", "the question has values from 0 to 2: leave --max-value out"),
    ("round {keys} --candidates a-file", "--candidates is for open lists"),
    ("round {keys} --words a-file", "a-file cannot be used: this is not TOML"),
    ("results list nowhere", NO_DEPLOYMENT),
    ("results list {keys} --limit 0", "not in the range x>=1"),
    ("results list {keys} --limit x", "is not a valid int"),
    ("results list", "Missing argument"),
    ("results show a-file", NO_DEPLOYMENT),
    ("results show {keys} --out a-file", "free space there, or name another with --out"),
    ("results export {keys}", "Missing option '--to'"),
    ("results export {keys} --to table", "ends in .json, .csv, .parquet, not 'table'"),
    ("results export {keys} --to .csv", "ends in .json, .csv, .parquet, not '.csv'"),
    ("results export {keys} --to a-folder.csv", "--to 'a-folder.csv' is a folder; name a file"),
    ("results export {keys} --to a-file/t.csv", "free space there, or name another with --to"),
    ("keys withdraw {keys}", "Missing argument"),
    ("keys withdraw {keys} nobody", "this deployment has no client 'nobody'; to withdraw"),
    (f"keys withdraw {{keys}} {'f' * 63}", "give it as 64 hex digits"),
    ("keys withdraw {keys} alice --population others", "name a population of the roster"),
    ("keys withdraw {keys} ../alice", NO_NAME),
    ("keys withdraw nowhere alice", NO_DEPLOYMENT),
    ("keys enrol {keys}", "name the clients to enrol"),
    ("keys enrol {keys} ../x", NO_NAME),
    (f"keys enrol {{keys}} {'x' * 65}", NO_NAME),
    ("keys enrol {keys} bob bob", "the client 'bob' is given twice"),
    ("keys enrol {keys} bob --population others", "name a population of the roster"),
    ("keys enrol {keys} --count 100001", "x<=100000"),
    ("keys enrol {keys} --count 2 --prefix ../", NO_NAME),
    ("keys enrol {keys} --csv nowhere.csv", "cannot read the list of names nowhere.csv"),
    ("keys enrol {keys} --csv twice.csv", "the client 'bob' is given twice"),
    ("keys enrol {keys} bob --settings a-file", NO_TOML),
    ("keys enrol {keys} bob --settings strict.toml", "missing required field `delta`"),
    ("keys enrol {keys} bob --days 0", "not in the range 1<=x<=36500"),
    ("keys bundle {keys} nobody", "this deployment has no client 'nobody'"),
    ("keys bundle {keys} ../alice", "this deployment has no client '../alice'"),
    ("keys init new --nodes 1", "not in the range 2<=x<=16"),
    ("keys init full", "full is not empty; choose a new folder"),
    ("keys init a-file", "a-file is a file; name a new folder"),
    ("keys init new --population ../x", NO_NAME),
    ("keys init new --client bob --client bob", "the client 'bob' is given twice"),
    ("keys init new --address node-1=nowhere", "is not PARTY=HOST:PORT"),
    ("keys init new --host http://x", "--host 'http://x' is not a host name or address"),
    ("keys init new --first-port 65536", "x<=65000"),
    ("keys renew {keys} --party nobody", "the deployment has no party 'nobody'"),
    ("keys renew {keys} --party node-1 --authority", "leave out --party"),
    ("keys renew {keys} --roster --authority", "leave out --party and --authority"),
    ("report", f"out/latest {NO_ROUND}"),
    ("report a-file", f"a-file {NO_ROUND}"),
    ("report full", "full has no result.json, and so no published round"),
    ("report half", "there is no root key half/root.pub"),
    ("campaign plan a-folder.csv", "Is a directory"),
    ("campaign run a-file --once", NO_TOML),
    ("campaign status a-file", NO_TOML),
    ("console {keys} --allow-host http://x", "--allow-host 'http://x' is not a host name"),
    ("console {keys} --allow-host x:8765", "--allow-host 'x:8765' is not a host name"),
    ("console {keys} --host 0.0.0.0", "or --plaintext if a proxy encrypts"),
]

DEVICE: list[tuple[str, str]] = [
    ("submit --config nowhere.toml --value 1", "cannot read the configuration nowhere.toml"),
    ("submit --config a-file --value 1", NO_TOML),
    ("submit --config phone --value 1", "Is a directory"),
    ("submit --config phone/client.toml --value 1 --round ../x",
        "a round id must be 32 lower-case hex digits"),
    ("verify --config phone/client.toml", "no submission of this device waits for verification"),
    (f"verify --config phone/client.toml --round {'1' * 32}",
        "this device has submitted nothing to round"),
    ("evidence --config phone/client.toml --out new",
        "no submission of this device waits for verification"),
    (f"evidence --config phone/client.toml --out new --yes --round {'1' * 32}",
        "this device has submitted nothing to round"),
    ("check-evidence nowhere --roster a-file --root-key 0",
        "cannot read the evidence nowhere/evidence.json"),
    ("check-evidence half --roster a-file --root-key 0", "not a valid Evidence"),
    ("import nowhere.bundle new", "cannot read the bundle nowhere.bundle"),
    ("import a-file new", "a-file is not a device's bundle"),
    ("import {bundle} full", "full is not empty; name a new folder"),
    ("import {bundle} new --renew", "cannot read the configuration new/client.toml"),
    ("import {bundle} tablet", "already holds the device of this bundle"),
]  # fmt: skip


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Keys of a deployment of which nothing runs, with one device."""
    names = ("node-1", "node-2", "analyst", "accountant")
    addresses = {name: f"127.0.0.1:{port}" for port, name in enumerate(names, start=1)}
    made = create_deployment(tmp_path_factory.mktemp("words") / "keys", addresses)
    enrol(made, ["alice"])
    return made


@pytest.fixture
def places(tmp_path: Path, deployment: Deployment) -> dict[str, str]:
    """What a person may name by mistake, in the folder where the command is typed."""
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "twice.csv").write_text("name\nbob\nbob\n")
    (tmp_path / "strict.toml").write_text("[policy]\nepsilon = 1\n")
    (tmp_path / "two.toml").write_text('ask = "counts"\nof = "f"\n[fields.f]\nnames = ["a", "b"]\n')
    for name in ("a-folder.csv", "full", "half"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "kept").write_text("x")
    for name in ("result.json", "evidence.json"):
        (tmp_path / "half" / name).write_text("{}")
    return {
        "keys": str(deployment.folder),
        "bundle": str(deployment.folder / "clients" / "alice.bundle"),
    }


def everything(*folders: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file and folder below these: its mode, and what is in it."""
    found = (path for folder in folders for path in folder.rglob("*"))
    return {
        path: (path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for path in found
    }


def one_sentence(errors: str) -> str:
    """What was said, without the frame that a terminal gets."""
    assert "Traceback" not in errors
    return re.sub(r"[│\s]+", " ", errors)


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[words for words, _ in WRONG])
def test_an_operators_wrong_words_change_nothing(
    shuffledp: Shell,
    deployment: Deployment,
    places: dict[str, str],
    tmp_path: Path,
    words: str,
    says: str,
) -> None:
    given = words.format(**places).split()
    before = everything(tmp_path, deployment.folder)
    code, printed, errors = shuffledp(
        *given[:2], *(ROUND if given[0] == "round" else []), *given[2:]
    )
    assert (code, printed) == (2, ""), errors
    assert says in one_sentence(errors)
    assert everything(tmp_path, deployment.folder) == before


@pytest.mark.parametrize(("words", "says"), DEVICE, ids=[words for words, _ in DEVICE])
def test_the_wrong_words_of_a_devices_owner_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    deployment: Deployment,
    places: dict[str, str],
    tmp_path: Path,
    words: str,
    says: str,
) -> None:
    """But for the number of the roster that the device has seen, which it writes down when it
    starts."""
    monkeypatch.setattr(
        client_cli, "configure_logs", lambda _: None
    )  # of this process: other tests read its logs
    install(read_bundle(Path(places["bundle"])), tmp_path / "phone")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["shuffledp-client", *words.format(**places).split()])
    before = everything(tmp_path, deployment.folder)
    with pytest.raises(SystemExit) as stop:
        client_cli.main()
    printed = capsys.readouterr()
    assert (stop.value.code in {1, 2}, printed.out) == (True, ""), printed.err
    assert says in one_sentence(printed.err)
    after = everything(tmp_path, deployment.folder)
    state = tmp_path / "phone" / "state"
    changed = {path for path in after.keys() | before.keys() if after.get(path) != before.get(path)}
    assert changed <= {state, state / SEEN_ROSTER}
