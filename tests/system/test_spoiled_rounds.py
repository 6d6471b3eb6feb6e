"""One malicious credential tries to spoil rounds of real processes: each is published, says so, and
is charged once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec
import pytest
from rounds_for_tests import USERS, ended, quiet, small_plan, small_values, within_a_minute

from shuffledp_adversary.attacks.exchange.rounds import charge_of
from shuffledp_client.submission import Member, PreparedSubmission, prepare
from shuffledp_client.transport import EntryNode
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Certificate
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomness import system_random
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import issue_credentials
from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

Envelope = Callable[[CheckedRound], bytes]


def sealed(verified: CheckedRound, messages: list[bytes]) -> bytes:
    return seal_envelope(verified.geometry, verified.round_id, verified.public_keys, messages)


def garbage_inside(verified: CheckedRound) -> bytes:
    """An envelope that the entry node opens, around onions that nobody can."""
    geometry = verified.geometry
    inside = system_random(geometry.messages_per_user * geometry.record_bytes(2))
    return suite_named(geometry.suite).sealer(
        verified.public_keys[0], binding(verified.round_id, 1)
    )(inside)


def outside_the_alphabet(verified: CheckedRound) -> bytes:
    return sealed(verified, [plain(verified.geometry, 2), *zeros(verified, 1)])


def one_tag_for_all(verified: CheckedRound) -> bytes:
    tag = system_random(TAG_BYTES)
    return sealed(
        verified, [plain(verified.geometry, place % 2, tag) for place in range(messages(verified))]
    )


def one_onion_twice(verified: CheckedRound) -> bytes:
    """Two messages that differ outside and are one and the same onion from node 3 on."""
    geometry, round_id, keys = verified.geometry, verified.round_id, verified.public_keys
    suite = suite_named(geometry.suite)
    inner = [
        suite.sealer(keys[2], binding(round_id, 3))(plain(geometry, 0))
        for _ in range(geometry.messages_per_user - 1)
    ]
    outer = suite.sealer(keys[1], binding(round_id, 2))
    onions = [outer(onion) for onion in [*inner, inner[0]]]
    return suite.sealer(keys[0], binding(round_id, 1))(b"".join(onions))


def messages(verified: CheckedRound) -> int:
    return verified.geometry.messages_per_user


def zeros(verified: CheckedRound, less: int) -> list[bytes]:
    return [plain(verified.geometry, 0) for _ in range(messages(verified) - less)]


def plain(geometry: Geometry, symbol: int, tag: bytes | None = None) -> bytes:
    return symbol.to_bytes(geometry.symbol_bytes, "big") + (tag or system_random(TAG_BYTES))


def spoiled(verified: CheckedRound, member: Member, envelope: bytes) -> PreparedSubmission:
    """What a malicious device sends: all signatures are right."""
    identity = member.identity()
    claim = SubmissionClaim(
        round_id=verified.round_id, credential=identity.name, envelope_digest=digest(envelope)
    )
    honest = prepare(verified, 0, member)
    return msgspec.structs.replace(honest, envelope=envelope, claim=identity.sign(claim))


async def round_with(
    system: LocalSystem, pool: ProcessPoolExecutor, envelope: Envelope, **changes: object
) -> tuple[Fleet, str]:
    """A round of honest users and one who sends that envelope."""
    plan = small_plan(system, **({"max_reports": USERS + 1, "colluding": 1} | changes))
    async with control_of(system.deployment) as control:
        opened = await open_round(control, plan)
    fleet = Fleet(system, opened.round_id, small_values(), pool, quiet(), {})
    verified = await fleet.find_round()
    await fleet.submit(verified)
    ((key, credential),) = issue_credentials(system.deployment.enrolment_of(system.population), 1)
    async with EntryNode(
        verified.entry, system.deployment.keys_of(CLIENT), system.deployment.roster
    ) as entry:
        await entry.submit(spoiled(verified, Member.of(key, credential), envelope(verified)))
    return fleet, opened.round_id


@dataclass(frozen=True)
class Lost:
    """How many messages of three are lost, and where."""

    dropped: int = 0
    outside: int = 0
    repeated: int = 0


@pytest.mark.parametrize(
    ("envelope", "lost"),
    [
        (garbage_inside, Lost(dropped=3)),
        (outside_the_alphabet, Lost(outside=1)),
        (one_tag_for_all, Lost(repeated=3)),
        (one_onion_twice, Lost(dropped=1)),
    ],
)
async def test_one_credential_spoils_its_own_report_and_nothing_else(
    system: LocalSystem, pool: ProcessPoolExecutor, envelope: Envelope, lost: Lost
) -> None:
    fleet, round_id = await round_with(system, pool, envelope)
    roster = system.deployment.roster
    signed = await within_a_minute(ended(system, round_id))
    result = read_result(system.deployment, signed)
    await fleet.verify(signed)
    assert (result.accepted, result.messages) == (USERS + 1, 3 * (USERS + 1) - lost.dropped)
    assert (result.dropped, result.outside_alphabet, result.repeated_tags) == (
        lost.dropped,
        lost.outside,
        lost.repeated,
    )
    assert result.final_certificate is not None
    final = verify_from(roster.accountant, result.final_certificate, Certificate)
    assert (final.dropped, final.invalid) == (lost.dropped, lost.outside + lost.repeated)
    # 41 reports, 39 planned as honest: of three dropped onions each may have been an honest user's.
    assert final.honest == min(USERS - 1, USERS - lost.dropped)
    assert final.holds == (lost.dropped <= 1)
    assert await charge_of(system, round_id) == "settled"


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        (garbage_inside, "the answer of split-mix needs every one: nothing is forwarded"),
        (one_tag_for_all, "messages are lost or invalid, but split-mix needs all of them"),
    ],
)
async def test_a_sum_of_pieces_has_no_answer_once_a_message_is_spoiled(
    system: LocalSystem, pool: ProcessPoolExecutor, envelope: Envelope, words: str
) -> None:
    """Where a node sees it, nothing goes on; where only the analyst does, it names no number."""
    _, round_id = await round_with(system, pool, envelope, mechanism="split-mix")
    with pytest.raises(ShuffleDPError, match=words):
        await within_a_minute(ended(system, round_id))
