"""A relay whose own TLS certificate has ended tries again, as for a successor that is away: it may
be renewed."""

import datetime as dt
from pathlib import Path

import pytest

from shuffledp_core.errors import UnreachableError
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_shuffler.relay import Relay


async def nothing() -> None:
    """Nothing is sent here."""


async def test_the_patience_of_a_relay_covers_a_certificate_that_has_ended(tmp_path: Path) -> None:
    addresses = dict.fromkeys(("node-1", "node-2", "analyst", "accountant"), "127.0.0.1:1")
    deployment = create_deployment(tmp_path / "keys", addresses)
    renew(deployment.folder, ["node-1"], now=dt.datetime.now(dt.UTC) - dt.timedelta(days=400))
    header = deployment.identity_of("node-1").sign(deployment.roster)
    relay = Relay(deployment.keys_of("node-1"), deployment.roster, patience=0.0)
    with pytest.raises(
        UnreachableError, match=r"within 0 s: the TLS certificate .* ended on .*keys renew"
    ) as failure:
        await relay.send(
            deployment.roster.party("node-2"), header, tmp_path, nothing, lambda _sent: None
        )
    assert type(failure.value) is UnreachableError
