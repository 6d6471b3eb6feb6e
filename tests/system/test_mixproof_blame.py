"""Users and nodes of verified rounds who break the protocol, over real processes: who is named, and
who goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from rounds_for_tests import small_plan, small_values, within_a_minute

from shuffledp import verify
from shuffledp_adversary.attacks.exchange.spoiled import spoiled_submission
from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import TooFewReportsError
from shuffledp_core.mixproof.history import History
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.running import OpenedRound, make_report, read_result, with_published
from shuffledp_ops.rounds.saving import save_round
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.small_round import SmallRound, open_small

HONEST = 12


async def open_with_room(system: LocalSystem, room: int) -> SmallRound:
    """A verified round that goes on when up to `room` of its users are excluded."""
    changes = {
        "min_reports": HONEST,
        "max_reports": HONEST + room,
        "mix": Mix.VERIFIED,
        "epsilon": 8.0,
    }
    return await open_small(system, small_plan(system, **changes))


async def played(
    played_round: SmallRound, layers: Sequence[int]
) -> tuple[Signed, list[PreparedSubmission]]:
    """Plays the round with twelve honest users, and one for each layer at which a message says
    nothing."""
    played_round.honest += played_round.prepare_all(small_values(HONEST).tolist())
    members = played_round.members(len(layers))
    bad = [
        spoiled_submission(played_round.verified, *pair)
        for pair in zip(members, layers, strict=True)
    ]
    await played_round.send([*played_round.honest, *bad])
    return await within_a_minute(played_round.finish()), bad


async def saved(
    system: LocalSystem, played_round: SmallRound, signed: Signed, folder: Path
) -> History:
    """Saves the round's documents; its history."""
    result = read_result(system.deployment, signed)
    opened = OpenedRound(played_round.round_id, played_round.announcement)
    report = await with_published(
        system.deployment, make_report(system.deployment, opened, signed, result, {})
    )
    save_round(report, folder, trusted_files(system.deployment.folder))
    return History.from_bytes(report.published["history.bin"])


async def test_users_whose_messages_say_nothing_are_named_and_the_round_goes_on_without_them(
    system: LocalSystem, tmp_path: Path
) -> None:
    """At node 2, node 3 and the analyst, in one round; two of them at one place."""
    layers = (2, 3, 4, 3)
    small = await open_with_room(system, len(layers))
    signed, bad = await played(small, layers)
    history = await saved(system, small, signed, tmp_path)
    named = [
        passage.credential.hex()
        for transcript in history.transcripts
        for passage in transcript.passages
    ]
    assert sorted(named) == sorted(submission.claim.signer for submission in bad)
    assert [transcript.position for transcript in history.transcripts] == [2, 3, 4]
    result = from_json(signed.body, Result)
    assert result.accepted == HONEST
    board = await small.board(result)
    assert [small.complaint(signed, board, user) for user in range(HONEST)] == [None] * HONEST
    lines = [line for checked in verify(tmp_path) for line in checked.lines]
    assert f"mixing: {len(layers)} users excluded by evidence" in lines


@pytest.mark.parametrize("layer", [2, 4])
async def test_a_round_that_would_be_too_small_without_the_named_user_fails_and_says_so(
    system: LocalSystem, layer: int
) -> None:
    small = await open_with_room(system, 0)
    small.honest += small.prepare_all(small_values(HONEST - 1).tolist())
    [member] = small.members(1)
    await small.send([*small.honest, spoiled_submission(small.verified, member, layer)])
    signed = await within_a_minute(small.finish())
    with pytest.raises(
        TooFewReportsError,
        match=f"{HONEST - 1} users are left after exclusions, fewer than the minimum, {HONEST}",
    ):
        read_result(system.deployment, signed)
