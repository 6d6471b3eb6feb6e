"""The console shows where the public log stands, and each round's entry in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from log_world import Branch, LogWorld

from shuffledp_core.documents.models import Announcement
from shuffledp_core.documents.signed import from_json
from shuffledp_core.transparency.notes import parse_checkpoint, parse_note
from shuffledp_ops.console.frame import Viewer
from shuffledp_ops.console.model import ConsoleSnapshot, RoundInfo
from shuffledp_ops.console.one_round import running_page
from shuffledp_ops.console.overview import overview
from shuffledp_ops.console.watching import DeploymentWatch

VIEWER = Viewer("demo", live=True, version="1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogWorld]:
    with LogWorld(tmp_path_factory.mktemp("log")) as there:
        yield there


@pytest.fixture(scope="module")
def branch(world: LogWorld) -> Iterator[Branch]:
    with world.branch("one") as one:
        yield one


def announce(world: LogWorld, branch: Branch, *, proof: bool) -> RoundInfo:
    """A round that the console learns of by its announcement."""
    round_id, certificate = branch.certify()
    shown = branch.proof(round_id, certificate) if proof else None
    announcement = from_json(world.announcement(certificate, shown), Announcement)
    watch = DeploymentWatch(world.deployment.folder)
    watch._rounds[round_id] = RoundInfo(round_id, 1, "demo", "krr-histogram", "running")
    watch._announce(world.deployment, round_id, announcement)
    return watch._rounds[round_id]


def test_the_first_page_and_the_rounds_page_have_the_logs_position(
    world: LogWorld, branch: Branch
) -> None:
    announce(world, branch, proof=True)
    newest = announce(world, branch, proof=True)
    note = parse_note((branch.folder / "log" / "checkpoint").read_bytes())
    checkpoint = parse_checkpoint(note.text)
    assert newest.logged is not None
    assert newest.logged.entry == checkpoint.size - 1
    page = overview(VIEWER, ConsoleSnapshot(1, (newest,)))
    for shown in (page, running_page(VIEWER, newest)):
        assert f"<dt>entries</dt><dd>{checkpoint.size:,}</dd>" in shown
        assert checkpoint.root.hex() in shown
        assert "witness-1, <time" in shown
        assert "; witness-2, <time" in shown
        assert "2 of 2 witnesses" in shown
    assert f'data-name="log entry">{checkpoint.size - 1:,}</td>' in page
    assert f"entry {checkpoint.size - 1:,}." in running_page(VIEWER, newest)


def test_a_running_round_without_a_proof_is_named_on_both_pages(
    world: LogWorld, branch: Branch
) -> None:
    bare = announce(world, branch, proof=False)
    assert bare.logged is None
    page = overview(VIEWER, ConsoleSnapshot(1, (bare,)))
    for shown in (page, running_page(VIEWER, bare)):
        assert "LogProofError" in shown
        assert "Devices that require the public log refuse this round" in shown
    assert "log entry" not in page


def test_a_witness_that_did_not_sign_is_named(world: LogWorld, branch: Branch) -> None:
    newest = announce(world, branch, proof=True)
    assert newest.logged is not None
    one_signed = replace(
        newest.logged,
        cosigned_at=newest.logged.cosigned_at[:1],
        unsigned=("witness-2",),
        threshold=1,
    )
    page = overview(VIEWER, ConsoleSnapshot(1, (replace(newest, logged=one_signed),)))
    assert "<dt>not by</dt><dd>witness-2</dd>" in page
    assert "1 of 2 witnesses" in page
