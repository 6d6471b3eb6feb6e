"""Whole rounds whose mixing can be verified, over real processes, and everything that is published
of them."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rounds_for_tests import (
    USERS,
    ended,
    quiet,
    restart,
    small_plan,
    small_round,
    small_values,
    within_a_minute,
)

from shuffledp import verify
from shuffledp.published import BOARD, HISTORY
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, HistoryDigest, Manifest, Result
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import (
    DocumentError,
    FalseResultError,
    ForeignDocumentError,
    UnansweredError,
    UsageError,
)
from shuffledp_core.mixproof.history import History
from shuffledp_core.runtime.keys import ROOT, load_identity
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import next_roster
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_ops.rounds.saving import save_round
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

PATIENT = True
"""A node is killed and started again within a round."""


async def verified_round(
    system: LocalSystem, pool: ProcessPoolExecutor, folder: Path, **changes: object
) -> RoundReport:
    report = await small_round(system, pool, mix=Mix.VERIFIED, **changes)
    save_round(report, folder, trusted_files(system.deployment.folder))
    return report


def mixing_lines(folder: Path) -> list[str]:
    return [
        line for checked in verify(folder) for line in checked.lines if line.startswith("mixing:")
    ]


async def test_a_verified_round_gives_an_answer_and_a_board_that_anybody_can_check(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    report = await verified_round(system, pool, tmp_path / "round")
    assert report.accepted == USERS
    assert report.final.holds
    assert report.final.mix == "verified"
    lines = mixing_lines(tmp_path / "round")
    assert [line.split()[1] for line in lines] == [str(USERS), "3", "0"]
    result = from_json(report.documents["result"].body, Result)
    users = [from_json(header.body, BatchHeader).users for header in result.headers]
    assert users == [USERS] * 3
    page = (tmp_path / "round" / "report.html").read_text()
    for words in (
        "shuffledp verify .</pre>",
        f'href="{BOARD}"',
        f'href="{HISTORY}"',
        "no node can fabricate reports",
    ):
        assert words in page
    assert "made up by" not in page


async def test_what_was_published_cannot_be_changed_unnoticed(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    await verified_round(system, pool, good)
    for name in (BOARD, HISTORY):
        data = bytearray((good / name).read_bytes())
        data[len(data) // 2] ^= 1
        bad = tmp_path / f"bad-{name}"
        shutil.copytree(good, bad)
        (bad / name).write_bytes(bytes(data))
        with pytest.raises(DocumentError, match="does not have the digest that the result states"):
            verify(bad)
        with (bad / name).open("r+b") as file:
            file.truncate(
                2**42
            )  # a hole, which takes no disk; read as it is, it would take all memory
        with pytest.raises(DocumentError, match=r"more than the .* that the manifest allows"):
            verify(bad)
    (unchecked,) = (
        line
        for each in verify(good / "result.json")
        for line in each.lines
        if line.startswith("mixing")
    )
    assert "NOT checked" in unchecked


async def test_an_old_round_under_a_new_enrolment_key_names_nobody(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    """By the new key nobody on the list is enrolled: honest node 1 would stand there with made-up
    users."""
    place = tmp_path / "round"
    await verified_round(system, pool, place)
    roster = system.deployment.roster
    fresh = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    populations = tuple(
        msgspec.structs.replace(each, enrolment_key=fresh) for each in roster.populations
    )
    renewed = next_roster(roster, dt.datetime.now(dt.UTC), populations=populations)
    root = load_identity(system.deployment.folder / "root", ROOT)
    (place / "roster.json").write_bytes(root.sign(renewed).to_bytes())
    with pytest.raises(ForeignDocumentError, match="use the roster of the round's time"):
        verify(place)


async def test_an_analyst_cannot_publish_a_verified_round_without_its_history(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    """Otherwise it could put any board out, and nobody would look further.

    Nor another answer than the board's.
    """
    report = await verified_round(system, pool, tmp_path / "round")
    true, place = from_json(report.documents["result"].body, Result), tmp_path / "round"
    assert true.estimate is not None
    for name in (
        "certificate.json",
        "plan-certificate.json",
    ):  # it would not leave them beside another result
        (place / name).unlink()

    def refused(words: str, **changes: Any) -> None:
        lying = system.deployment.identity_of("analyst").sign(
            msgspec.structs.replace(true, **changes)
        )
        (place / "result.json").write_bytes(lying.to_bytes())
        with pytest.raises(FalseResultError, match=words):
            verify(place)

    refused("names no history", history=msgspec.UNSET)
    higher = tuple(value + 1 for value in true.estimate.values)
    refused("the board gives", estimate=msgspec.structs.replace(true.estimate, values=higher))
    refused("no final certificate", final_certificate=None)
    refused("the result counts", messages=true.messages - 1)
    refused("the result counts", accepted=USERS + 1)
    (place / BOARD).write_bytes(b"another board")
    refused("does not have the digest that the result states", plan_certificate=None)


async def test_bytes_that_were_damaged_on_their_way_name_nobody(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    """Every byte that node 1 did not sign in the list: expiry and enrolment.

    What cannot be read at all, the analyst
    has signed.
    """
    place = tmp_path / "round"
    report = await verified_round(system, pool, place)
    true = from_json(report.documents["result"].body, Result)
    history = History.from_bytes((place / HISTORY).read_bytes())

    def refused(error: type[DocumentError | UnansweredError], **changes: Any) -> str:
        data = replace(history, **changes).to_bytes()
        (place / HISTORY).write_bytes(data)
        named = HistoryDigest(digest=digest(data), length=len(data))
        result = system.deployment.identity_of("analyst").sign(
            msgspec.structs.replace(true, history=named)
        )
        (place / "result.json").write_bytes(result.to_bytes())
        with pytest.raises(error) as refusal:
            verify(place)
        return str(refusal.value)

    first, *others = history.claims
    for index in (0, 7, 8, 71):  # expiry in 8 bytes, then the enrolment's signature in 64
        damaged = bytes([*first[:index], first[index] ^ 1, *first[index + 1 :]])
        assert "did not sign its part of this answer" in refused(
            UnansweredError, claims=(damaged, *others)
        )
    too_many = f"analyst signed a history of {2 * USERS} claims"
    assert too_many in refused(FalseResultError, claims=history.claims * 2)
    assert "claims, but not all have" in refused(FalseResultError, claims=(first[:-1], *others))
    tiny = refused(FalseResultError, claims=(b"ab",) * 20_000)
    assert re.search("analyst signed a history that cannot be read: .* values in", tiny)


async def test_a_plain_round_says_nothing_of_mixing_and_its_documents_have_no_such_field(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    report = await small_round(system, pool)
    save_round(report, tmp_path / "round", trusted_files(system.deployment.folder))
    assert mixing_lines(tmp_path / "round") == []
    for name, signed in report.documents.items():
        assert '"mix"' not in signed.body, name
        assert '"history"' not in signed.body, name
    manifest = from_json(report.documents["manifest"].body, Manifest)
    assert all('"mixing"' not in key.body for key in manifest.route)


async def test_a_killed_node_goes_on_with_a_verified_round(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    for name in system.route:
        async with control_of(system.deployment) as control:
            opened = await open_round(control, small_plan(system, mix=Mix.VERIFIED))
            half = Fleet(system, opened.round_id, small_values(USERS // 2), pool, quiet(), {})
            await half.submit()
            system.processes[name].kill()
            await restart(system, name)
            rest = Fleet(system, opened.round_id, small_values(USERS // 2), pool, quiet(), {})
            await rest.submit()
        signed = await within_a_minute(ended(system, opened.round_id))
        await half.verify(signed)
        await rest.verify(signed)


async def test_the_post_quantum_suite_stays_plain_and_says_so(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    with pytest.raises(UsageError, match="discrete logarithms"):
        await small_round(system, pool, mix=Mix.VERIFIED, suite="hpke-mlkem768-x25519")


async def test_hpke_carries_a_verified_round(
    system: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    await verified_round(system, pool, tmp_path / "round", suite="hpke", route=("node-3", "node-1"))
    assert mixing_lines(tmp_path / "round")[1].startswith("mixing: 2 hops")
