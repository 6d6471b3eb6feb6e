"""No page of metrics and no log, at the most talkative level, names a user, a message or a value
(invariant 6).

Whole rounds over real processes, with users whose secrets the test knows, good ones and ones that
are refused; then everything the processes said is searched. About 10 seconds."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from pages import metrics_of
from rounds_for_tests import ended, quiet, small_plan, within_a_minute

from shuffledp_client.submission import Member, PreparedSubmission, prepare
from shuffledp_client.transport import EntryNode
from shuffledp_client.verification import CheckedRound
from shuffledp_core.errors import (
    DifferentSubmissionError,
    ShuffleDPError,
    TooFewReportsError,
    UnknownCredentialError,
)
from shuffledp_core.onion.geometry import TAG_BYTES
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import issue_credentials
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

OBSERVED = True

BINS = 20_000
VALUES = np.arange(10_007, 10_007 + 40 * 97, 97)
"""Forty values of five digits, below every port: a number that is one of them is no accident."""


def spellings(secret: bytes) -> set[bytes]:
    """The ways in which bytes get into text: as they are, hex, base64 inside anything longer, and
    as escapes."""
    found = {
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        repr(secret)[2:-1].encode(),
    }
    found.add(json.dumps(secret.decode("latin-1"))[1:-1].encode())
    for shift, dropped in enumerate((0, 2, 3)):
        whole = (shift + len(secret)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(bytes(shift) + secret)[dropped:whole])
    return found


def leaked(secrets: Sequence[bytes], values: Sequence[int], text: bytes) -> list[str]:
    """What of the secrets (bytes) and the values (numbers standing alone) is in the text."""
    found = [secret.hex() for secret in secrets if any(one in text for one in spellings(secret))]
    numbers = set(re.findall(rb"(?<![\w.])(\d{5})(?:\.0)?(?![\w.])", text))
    return found + [str(value) for value in values if str(value).encode() in numbers]


@pytest.mark.parametrize("spelling", sorted(spellings(b"\x00secret\xfftag\x80\n....")))
def test_the_search_finds_a_secret_in_every_spelling(spelling: bytes) -> None:
    line = b'{"event": "x", "y": "' + spelling + b'"}\n'
    assert leaked([b"\x00secret\xfftag\x80\n....", bytes(16)], [], line) == [
        b"\x00secret\xfftag\x80\n....".hex()
    ]


@pytest.mark.parametrize(
    "line", ['{"value": 10007}', 'x{value="10007"} 1.0', "x 10007.0", "value=10007,"]
)
def test_the_search_finds_a_value(line: str) -> None:
    assert leaked([], [10007, 10104], line.encode()) == ["10007"]
    assert leaked([], [10007], b"x 10007.5 0.10007 100070 a10007") == []


class KnownFleet(Fleet):
    """A fleet that remembers who took part."""

    def __init__(
        self, system: LocalSystem, round_id: str, values: np.ndarray, pool: ProcessPoolExecutor
    ) -> None:
        super().__init__(system, round_id, values, pool, quiet(), {})
        self.members: list[Member] = []

    def _chunks(self, verified: CheckedRound) -> Iterator[list[tuple[int, Member]]]:
        for users in super()._chunks(verified):
            self.members += [member for _, member in users]
            yield users

    def secrets(self, width: int) -> list[bytes]:
        """Public keys (they are the credential ids) and the tags of all messages of `width`
        bytes."""
        return [
            *map(key_of, self.members),
            *(tag for kept in self._sent_messages for tag in tags_of(kept, width)),
        ]


def key_of(member: Member) -> bytes:
    return member.identity().public_key


def tags_of(messages: bytes, width: int) -> list[bytes]:
    return [messages[end - TAG_BYTES : end] for end in range(width, len(messages) + 1, width)]


async def refused(
    system: LocalSystem, prepared: PreparedSubmission, kind: type[ShuffleDPError] = ShuffleDPError
) -> None:
    roster = system.deployment.roster
    async with EntryNode(
        roster.party("node-1"), system.deployment.keys_of(CLIENT), roster
    ) as entry:
        with pytest.raises(kind):
            await entry.submit(prepared)


async def test_nothing_that_the_processes_say_names_a_user_a_message_or_a_value(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    users, plan = (
        len(VALUES),
        small_plan(system, mechanism="krr-histogram", size=BINS, max_reports=len(VALUES) + 1),
    )
    strangers = [
        Member.of(*pair) for pair in issue_credentials(system.deployment.identity_of("analyst"), 1)
    ]
    async with control_of(system.deployment) as control:
        opened = await open_round(control, plan)
        fleet = KnownFleet(system, opened.round_id, VALUES, pool)
        await fleet.submit()
        verified = await fleet.find_round()
        hostile = [
            prepare(verified, 19_001, fleet.members[0]),
            prepare(verified, 19_013, strangers[0]),
        ]
        await refused(system, hostile[0], DifferentSubmissionError)
        await refused(system, hostile[1], UnknownCredentialError)
        async with translate_errors("analyst"):
            await control.EndSubmissions(
                analyst_pb2.EndSubmissionsRequest(round_id=opened.round_id)
            )
        signed = await within_a_minute(ended(system, opened.round_id))
        poor = await open_round(control, plan)
        few = KnownFleet(system, poor.round_id, VALUES[:2], pool)
        await few.submit()
        async with translate_errors("analyst"):
            await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=poor.round_id))
        with pytest.raises(TooFewReportsError):
            await within_a_minute(ended(system, poor.round_id))
    await fleet.verify(signed)

    width = verified.geometry.plain_bytes
    secrets = [*fleet.secrets(width), *few.secrets(width), *map(key_of, strangers)]
    secrets += [tag for one in hostile for tag in tags_of(one.messages, width)]
    assert len(set(secrets)) == 2 * users + 2 * 2 + 1 + 2
    pages = await metrics_of(system)
    said = {f"page of {name}": page.encode() for name, page in pages.items()}
    said |= {
        f"log of {name}": process.log.read_bytes() for name, process in system.processes.items()
    }
    values = [*VALUES.tolist(), 19_001, 19_013]
    assert {
        where: found for where, text in said.items() if (found := leaked(secrets, values, text))
    } == {}

    # The search looked at the right things: the round is in the logs and, as counts, on the pages.
    for name in system.metrics:
        assert leaked([bytes.fromhex(opened.round_id)], [], said[f"log of {name}"]), (
            f"no trace of the round at {name}"
        )
        assert opened.round_id not in pages[name]
    assert f"shuffledp_node_submissions_accepted_total {users + 2}.0" in pages["node-1"]
    for reason in ("DifferentSubmissionError", "UnknownCredentialError"):
        assert (
            f'shuffledp_refusals_total{{method="SubmitWhole",reason="{reason}"}} 1.0'
            in pages["node-1"]
        )
    assert (
        'shuffledp_analyst_rounds_ended_total{outcome="TooFewReportsError"} 1.0' in pages["analyst"]
    )
