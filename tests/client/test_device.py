"""A device against a whole simulated round over real TLS: submit once, survive, verify, notice
cheating."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, Draft, settled
from simulated_round import SimulatedRound, without

from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.evidence import check_evidence
from shuffledp_client.state import StoredSubmission, SubmissionStore
from shuffledp_client.submission import prepare
from shuffledp_client.transport import Backoff
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    ConfigError,
    DifferentSubmissionError,
    FalseResultError,
    MalformedDocumentError,
    ReceiptMissingError,
    RoundStateError,
    SubmissionClosedError,
    TooFewReportsError,
    UnknownRoundError,
    UnreachableError,
    UsageError,
)
from shuffledp_core.mechanisms import RapporHistogram
from shuffledp_core.runtime.config import BrokerConfig, load_config
from shuffledp_core.runtime.keys import SEEN_ROSTER
from shuffledp_core.transport.announce import Announcer, manifest_topic
from shuffledp_ops.keys.pki import Deployment, write_client
from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalProcess

QUICK = Backoff(attempts=3, first=0.01, longest=0.01)


def write_config(folder: Path, deployment: Deployment, *lines: str, epsilon: float = 1.0) -> Path:
    """A user of its own, with keys, state and configuration in `folder`."""
    write_client(folder / "keys", deployment, POPULATION)
    path = folder / "client.toml"
    path.write_text(
        "\n".join(
            [
                'keys = "keys"',
                f'roster = "{deployment.roster_file}"',
                f'root_key = "{deployment.root_key}"',
                'state = "state"',
                "wait_seconds = 60",
                *lines,
                "[policy]",
                f"epsilon = {epsilon}",
                "delta = 1e-6",
                "epsilon_corrupted = inf",
            ]
        )
    )
    return path


@pytest.fixture
def config(tmp_path: Path, deployment: Deployment) -> Path:
    return write_config(tmp_path / "user", deployment)


def device(config: Path, clock: int = NOW) -> DeviceSteps:
    return DeviceSteps(load_config(config, ClientConfig), QUICK, lambda: clock)


@pytest.fixture
def simulated(tmp_path: Path, deployment: Deployment) -> SimulatedRound:
    return SimulatedRound(Draft(deployment), tmp_path)


async def test_a_value_is_submitted_and_found_on_the_board(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    users = [device(write_config(tmp_path / name, deployment)) for name in ("a", "b", "c")]
    async with simulated:
        for value, user in enumerate(users):
            done = await user.submit(value)
            assert (done.round_id, done.entry, done.messages, done.repeated) == (
                ROUND_ID,
                "node-1",
                10,
                False,
            )
        with pytest.raises(UnknownRoundError, match="not ended"):
            await users[0].verify(ROUND_ID)
        simulated.end()
        for user in users:
            assert user.only_round() == ROUND_ID
            assert (await user.verify(ROUND_ID)).result.accepted == 3
    assert sorted(path.name for path in (tmp_path / "a" / "state").iterdir()) == [
        f"{ROUND_ID}.done",
        SEEN_ROSTER,
    ]


async def test_after_verification_the_round_is_never_entered_again(
    config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        simulated.end()
        await device(config).verify(ROUND_ID)
        for again in (None, ROUND_ID):
            with pytest.raises(RoundStateError, match="only once"):
                await device(config).submit(1, again)
        with pytest.raises(RoundStateError, match="no submission of this device waits"):
            device(config).only_round()


async def test_the_next_round_of_a_question_is_answered_from_the_response_that_is_kept(
    tmp_path: Path, config: Path, deployment: Deployment
) -> None:
    """Twenty fair coins that a report shows as they are, but with probability 1e-17: two draws of
    them would differ."""
    coin, hardly = Fraction(1), Fraction(1, 2**63)
    sure = RapporHistogram(symbols=20, fake=coin, when_zero=hardly, when_one=1 - hardly)
    simulated, state, symbols = (
        SimulatedRound(Draft(deployment, mechanism=sure), tmp_path),
        tmp_path / "user/state",
        [],
    )
    async with simulated:
        for value in (0, 19):
            await device(config).submit(value)
            symbols.append(
                from_json(
                    (state / f"{ROUND_ID}.json").read_bytes(), StoredSubmission
                ).submission.symbols
            )
            (state / f"{ROUND_ID}.json").unlink()  # as if it had another number
            simulated.accepted.clear()
    assert symbols[0] == symbols[1]
    assert len(list((state / "responses").iterdir())) == 1


async def test_a_lost_answer_is_asked_for_again_with_the_same_submission(
    config: Path, simulated: SimulatedRound
) -> None:
    simulated.lost_answers = 2
    async with simulated:
        assert not (await device(config).submit(1)).repeated
    assert simulated.calls == 3
    assert len(simulated.accepted) == 1


async def test_a_device_that_crashed_before_its_receipt_sends_the_same_again(
    config: Path, simulated: SimulatedRound
) -> None:
    simulated.lost_answers = QUICK.attempts
    async with simulated:
        with pytest.raises(UnreachableError):
            await device(config).submit(1, ROUND_ID)
        (first,) = simulated.accepted.values()
        assert (await device(config).submit(4, ROUND_ID)).repeated
        assert (await device(config).submit(2)).repeated
        assert list(simulated.accepted.values()) == [first]


async def test_a_receipt_that_is_kept_is_not_asked_for_again(
    config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        await device(config).submit(1)
    assert simulated.calls == 1


async def test_devices_of_one_user_at_the_same_time_send_one_submission(
    config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await asyncio.gather(*(device(config).submit(value) for value in (0, 1, 2)))
    assert len(simulated.accepted) == 1


async def test_a_refusal_is_not_retried(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        (tmp_path / "user" / "state" / f"{ROUND_ID}.json").unlink()  # a device that lost its state
        with pytest.raises(DifferentSubmissionError):
            await device(config).submit(1)
    assert simulated.calls == 2


async def test_a_board_without_ones_messages_is_noticed_and_the_evidence_stays(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        simulated.end(without(3))
        with pytest.raises(ReceiptMissingError, match="3 of 10 messages"):
            await device(config).verify(ROUND_ID)
    kept = SubmissionStore(tmp_path / "user" / "state").load(ROUND_ID)
    assert kept.receipt is not None


async def test_a_submission_without_a_receipt_that_did_not_arrive_accuses_nobody(
    tmp_path: Path, deployment: Deployment, config: Path, simulated: SimulatedRound
) -> None:
    simulated.lost_answers = QUICK.attempts
    async with simulated:
        with pytest.raises(UnreachableError):
            await device(config).submit(1, ROUND_ID)
        simulated.accepted.clear()
        await device(write_config(tmp_path / "other", deployment)).submit(1)
        simulated.end()
        with pytest.raises(SubmissionClosedError, match="has no receipt"):
            await device(config).verify(ROUND_ID)
    assert SubmissionStore(tmp_path / "user" / "state").rounds() == ()


async def test_a_round_that_failed_by_every_nodes_word_is_erased(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        simulated.fail("kkk")
        with pytest.raises(TooFewReportsError, match=r"100 are needed$"):
            await device(config).verify(ROUND_ID)
    assert SubmissionStore(tmp_path / "user" / "state").rounds() == ()


async def test_a_lying_failed_erases_no_evidence(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    """The attack: the analyst, or who has its key, tells a device that the round failed, and
    publishes it to others.

    On the old code receipt and messages were gone with the first word of it.
    """
    states = SubmissionStore(tmp_path / "user" / "state")
    async with simulated:
        await device(config).submit(1)
        for words in ("", "kk", "kfk", "fff"):
            simulated.fail(words)
            with pytest.raises(TooFewReportsError, match=r"kept for 30 days: .*node"):
                await device(config).verify(ROUND_ID)
            assert states.load(ROUND_ID).receipt is not None
        assert device(config).only_round() == ROUND_ID
        simulated.end(without(3))
        with pytest.raises(ReceiptMissingError):
            await device(config).verify(ROUND_ID)
        bundle, board = await device(config).evidence(ROUND_ID)
        roster = simulated.draft.deployment.roster
        assert check_evidence(bundle, roster, board).missing == 3
        simulated.end()  # at last it is published as it was sent
        assert (await device(config).verify(ROUND_ID)).result.accepted == 1
    assert states.rounds() == ()


async def test_a_failed_round_without_a_receipt_leaves_nothing(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    simulated.lost_answers = QUICK.attempts
    async with simulated:
        with pytest.raises(UnreachableError):
            await device(config).submit(1, ROUND_ID)
        simulated.fail()
        with pytest.raises(TooFewReportsError):
            await device(config).verify(ROUND_ID)
    assert SubmissionStore(tmp_path / "user" / "state").rounds() == ()


async def test_a_published_result_whose_nodes_disagree_erases_nothing(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    """A header that counts otherwise is a lie about a round that is over, and no failure of it."""
    async with simulated:
        await device(config).submit(1)
        simulated.end()
        fields = settled(simulated.draft, simulated.board, 1)
        other = settled(simulated.draft, simulated.board * 2, 2)
        simulated.publish(**fields | {"headers": other["headers"]})
        with pytest.raises(FalseResultError):
            await device(config).verify(ROUND_ID)
        simulated.publish(
            **fields | {"estimate": msgspec.structs.replace(fields["estimate"], values=(1e6,))}
        )
        with pytest.raises(FalseResultError, match="1000000"):
            await device(config).verify(ROUND_ID)
    assert SubmissionStore(tmp_path / "user" / "state").load(ROUND_ID).receipt is not None


async def test_unsettled_rounds_are_erased_when_their_time_is_over(
    tmp_path: Path, config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        simulated.fail()
        with pytest.raises(TooFewReportsError):
            await device(config).verify(ROUND_ID)
    day = 86_400_000
    device(config, NOW + 30 * day)
    assert SubmissionStore(tmp_path / "user" / "state").rounds() == (ROUND_ID,)
    device(config, NOW + 30 * day + 60_001)
    assert SubmissionStore(tmp_path / "user" / "state").rounds() == ()


async def test_nothing_is_sealed_for_a_round_that_is_closed_or_against_the_policy(
    tmp_path: Path, deployment: Deployment, config: Path, simulated: SimulatedRound
) -> None:
    strict = write_config(tmp_path / "strict", deployment, epsilon=0.1)
    async with simulated:
        with pytest.raises(SubmissionClosedError):
            await device(config, NOW + 3_000_000).submit(1)
        with pytest.raises(ClientPolicyRefusal, match=r"0\.5"):
            await device(strict).submit(1)
        with pytest.raises(UsageError, match="from 0 to 4"):
            await device(strict.parent.parent / "user" / "client.toml").submit(5)
        simulated.announcement = b"{}"
        with pytest.raises(MalformedDocumentError):
            await device(config).submit(1)
        with pytest.raises(UnknownRoundError):
            await device(config).submit(1, "f" * 32)
    assert simulated.calls == 0
    assert [path.name for path in (tmp_path / "user" / "state").iterdir()] == [SEEN_ROSTER]


async def test_waiting_for_a_result_ends_when_it_is_there(
    config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        verification = asyncio.ensure_future(device(config).verify(ROUND_ID, wait=True))
        simulated.end()
        assert (await verification).result.accepted == 1


async def test_waiting_for_a_result_that_never_comes_gives_up(
    config: Path, simulated: SimulatedRound
) -> None:
    async with simulated:
        await device(config).submit(1)
        with pytest.raises(UnknownRoundError, match="not ended"):
            await device(config, NOW + 60_000 + 60_000).verify(ROUND_ID, wait=True)


async def test_an_envelope_of_several_chunks_arrives_whole(
    tmp_path: Path, deployment: Deployment
) -> None:
    draft = Draft(deployment)
    draft.mechanism = msgspec.structs.replace(draft.mechanism, padding=5_000)
    simulated = SimulatedRound(draft, tmp_path)
    simulated_user = write_config(tmp_path / "large", deployment, epsilon=5.0)
    async with simulated:
        assert (await device(simulated_user).submit(1)).messages == 10_004
    (envelope,) = simulated.accepted.values()
    assert len(envelope) > 2**20


# The broker.


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerConfig]:
    with Ports(1) as ports:
        (port,) = ports.numbers
        process = LocalProcess(
            "broker", ["shuffledp_sim.system.broker", str(port)], tmp_path / "broker.log"
        )
        process.start()
        yield BrokerConfig(host="127.0.0.1", port=port)
        process.kill()


async def test_what_a_lying_broker_says_is_passed_over(
    tmp_path: Path, deployment: Deployment, broker: BrokerConfig
) -> None:
    """The genuine announcement is used when it comes; the analyst is not even running."""
    user = write_config(
        tmp_path / "user",
        deployment,
        f'broker = {{ host = "127.0.0.1", port = {broker.port} }}',
        "broker_seconds = 60",
    )
    announcer = Announcer(broker)
    announcer.publish(manifest_topic("demo", "0" * 32), b"not even JSON")
    announcer.publish(
        manifest_topic("demo", "1" * 32),
        to_json(Draft(deployment, suite="hpke").announcement())[:-9],
    )
    announcer.publish(manifest_topic("demo", ROUND_ID), to_json(Draft(deployment).announcement()))
    publishing = asyncio.ensure_future(announcer.run())
    # the broker may still be starting: a refused connection sends the device to the absent analyst
    while True:
        try:
            found = await device(user).find_round()
            break
        except UnreachableError:
            continue
    publishing.cancel()
    assert found.round_id == ROUND_ID


async def test_without_a_broker_the_analyst_is_asked(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    with Ports(1) as ports:
        (nobody,) = ports.numbers
        user = write_config(
            tmp_path / "user", deployment, f'broker = {{ host = "127.0.0.1", port = {nobody} }}'
        )
        async with simulated:
            assert (await device(user).find_round(ROUND_ID)).round_id == ROUND_ID


# Configuration and command line.


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("delta = 1e-6", "delta = 2.0"), "delta"),
        (("epsilon_corrupted = inf", ""), "epsilon_corrupted"),
        (("delta = 1e-6", "delta = 1e-6\ncolour = 1"), "colour"),
        (("wait_seconds = 60", "evidence_days = 0"), "evidence_days"),
        (("wait_seconds = 60", "evidence_days = inf"), "evidence_days"),
        (("wait_seconds = 60", "kept_bytes = 0"), "kept_bytes"),
    ],
)
def test_a_wrong_key_in_the_configuration_is_named(
    config: Path, change: tuple[str, str], named: str
) -> None:
    config.write_text(config.read_text().replace(*change))
    with pytest.raises(ConfigError, match=named):
        load_config(config, ClientConfig)


@pytest.mark.parametrize(
    "address",
    [
        "::1:443",
        "2001:db8::7:443",
        "::1",
        "[::1]",
        "[::1:443",
        "::1]:443",
        "[h]:443",
        "[]:443",
        "a:b:443",
    ],
)
def test_an_ipv6_address_without_brackets_is_refused_at_once_with_how_to_write_it(
    config: Path, address: str
) -> None:
    text = config.read_text()
    for table in (f'[gateway]\naddress = "{address}"\n', f'[addresses]\nnode-1 = "{address}"\n'):
        config.write_text(f"{text}\n{table}")
        with pytest.raises(ConfigError, match=r"with an IPv6 address in brackets \(\[::1\]:7443\)"):
            device(config)


def test_a_credential_that_is_not_this_keys_is_refused(
    tmp_path: Path, deployment: Deployment, config: Path
) -> None:
    other = write_config(tmp_path / "other", deployment)
    credential = config.parent / "keys" / "credential.json"
    genuine = credential.read_bytes()
    credential.write_bytes((other.parent / "keys" / "credential.json").read_bytes())
    with pytest.raises(ConfigError, match="another key"):
        device(config)
    credential.write_bytes(genuine.replace(b"demo", b"fake"))
    with pytest.raises(ConfigError, match="enrol"):
        device(config)
    credential.unlink()
    with pytest.raises(ConfigError, match=r"credential\.json"):
        device(config)


def test_the_pure_parts_import_no_grpc_and_no_numpy() -> None:
    code = (
        "import sys, shuffledp_client.submission; "
        "sys.exit(any(name in sys.modules for name in ('grpc', 'numpy', 'asyncio', 'typer')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert prepare.__module__ == "shuffledp_client.submission"
    assert LENIENT.nodes == 2
