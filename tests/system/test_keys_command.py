"""`shuffledp keys init` with the addresses of a deployment whose parties are on other machines.

About 3 s.
"""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_ops.keys.app import init as keys_init
from shuffledp_ops.keys.app import keys_app
from shuffledp_ops.keys.pki import create_deployment, open_deployment, replace_addresses

REGULAR = {"node-1": "127.0.0.1:7001", "node-2": "127.0.0.1:7002", "analyst": "127.0.0.1:7003"}


def test_an_address_that_is_given_stands_in_the_signed_roster_and_the_others_stay(
    tmp_path: Path,
) -> None:
    keys_init(tmp_path / "keys", nodes=3, host="10.0.0.1", first_port=7001, population="demo",
              address=["node-2=node-2:7000", "analyst=[::1]:7000"])  # fmt: skip
    roster = open_deployment(tmp_path / "keys").roster
    assert {party.name: party.address for party in roster.parties} == {
        "node-1": "10.0.0.1:7001",
        "node-2": "node-2:7000",
        "node-3": "10.0.0.1:7003",
        "analyst": "[::1]:7000",
        "accountant": "10.0.0.1:7005",
    }
    assert [node.name for node in roster.nodes()] == ["node-1", "node-2", "node-3"]


@pytest.mark.parametrize(
    "text", ["node-9=host:1", "node-1", "node-1=host", "node-1=:7000", "node-1=host:0", "=host:1"]
)
def test_an_address_that_means_nothing_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(UsageError, match=text):
        replace_addresses(REGULAR, [text])


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    create_deployment(tmp_path / "keys", REGULAR | {"accountant": "127.0.0.1:7004"})
    with pytest.raises(ConfigError, match="is not empty"):
        create_deployment(tmp_path / "keys", REGULAR)


@pytest.mark.parametrize(("given", "threshold"), [([], 2), (["--log-threshold", "1"], 1)])
def test_witnesses_and_their_threshold_stand_in_the_roster(
    tmp_path: Path, given: list[str], threshold: int
) -> None:
    witnesses = ["--witness", "w-1=http://w-1:80", "--witness", "w-2=https://w-2"]
    done = CliRunner().invoke(keys_app, ["init", str(tmp_path / "keys"), *witnesses, *given])
    assert done.exit_code == 0, done.output
    terms = open_deployment(tmp_path / "keys").roster.log_terms
    assert terms is not None
    assert [witness.name for witness in terms.witnesses] == ["w-1", "w-2"]
    assert terms.threshold == threshold


def test_a_threshold_above_the_number_of_witnesses_is_refused(tmp_path: Path) -> None:
    line = ["init", str(tmp_path / "keys"), "--witness", "w-1=http://w-1:80"]
    refused = CliRunner().invoke(keys_app, [*line, "--log-threshold", "2"])
    assert isinstance(refused.exception, UsageError)
    assert not (tmp_path / "keys").exists()
