"""A node's part in verified rounds: what it refuses before a receipt or a signature, and how it
answers for a step."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from mixing_cheats import flipped
from mixproof_world import (
    MixproofRound,
    chunked,
    expiring,
    joined,
    keys_in_turn,
    open_mixproof,
    planned,
    prepare,
    soon,
)
from shuffler_world import Round, World
from test_withdrawals import folder, publish

import shuffledp_shuffler.node
from shuffledp_adversary.attacks.exchange.spoiled import spoiled_record
from shuffledp_core.documents.models import BatchHeader, MixingKey, RoundKey
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    BadBatchError,
    BadClaimError,
    BusyError,
    InvalidSubmissionError,
    MalformedDocumentError,
    PolicyRefusal,
    RoundKeyError,
    RoundStateError,
    UnansweredError,
    UnknownRoundError,
    WithdrawnCredentialError,
)
from shuffledp_core.mechanisms import NodeHistogram
from shuffledp_core.mixproof import hops
from shuffledp_core.mixproof.claims import PreparedClaim, seal_record, sign_claim
from shuffledp_core.mixproof.evidence import Trace
from shuffledp_core.mixproof.group import GENERATOR, Scalar, multiply, random_scalar
from shuffledp_core.mixproof.headers import Header, make_header
from shuffledp_core.mixproof.history import (
    MEMORY_PER_BYTE,
    Accusation,
    History,
    Inquiry,
    most_bytes,
    most_read,
    unblamed_bytes,
    unpack_document,
)
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.sampling.randomness import RandomBytes, system_random
from shuffledp_core.transport.receiving import Chunks, gather
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.config import MixingConfig
from shuffledp_shuffler.mixproof.settling import TranscriptExchange
from shuffledp_shuffler.round_state import MIXING_ATTEMPTS
from shuffledp_shuffler.store import RoundFolder

MIXING, FAILED, DONE = (
    node_pb2.ROUND_PHASE_MIXING,
    node_pb2.ROUND_PHASE_FAILED,
    node_pb2.ROUND_PHASE_DONE,
)


# ------------------------------------------------------------------ keys


async def test_a_node_makes_its_keys_on_those_of_the_nodes_before_and_on_no_others(
    world: World,
) -> None:
    await world.start()
    round_ = planned(world)
    with pytest.raises(RoundKeyError, match="needs the keys of the 1 nodes before it, not of 0"):
        await prepare(world, "node-2", round_.certificate, 2, ())
    first = await prepare(world, "node-1", round_.certificate, 1, ())
    with pytest.raises(RoundKeyError, match="node 1: the proof of knowledge"):
        await prepare(
            world,
            "node-2",
            round_.certificate,
            2,
            (resigned(world, first, blinding=GENERATOR.hex()),),
        )
    with pytest.raises(RoundKeyError, match="lower-case hex"):
        await prepare(
            world, "node-2", round_.certificate, 2, (resigned(world, first, blinding="XX"),)
        )
    await prepare(world, "node-2", round_.certificate, 2, (first,))


async def test_a_plain_round_has_no_mixing_keys_and_takes_none(world: World) -> None:
    await world.start()
    round_ = await world.prepare_all(world.round())
    assert all('"mixing"' not in key.body for key in round_.keys)
    other = world.round()
    with pytest.raises(RoundKeyError, match="this round's mixing is plain"):
        await prepare(world, "node-2", other.certificate, 2, (round_.keys[0],))


async def test_a_manifest_with_keys_that_do_not_hold_is_not_countersigned(world: World) -> None:
    """The key of the last node is exchanged after all have made theirs: its own signature is on the
    exchange."""
    await world.start()
    round_ = await keys_in_turn(world, planned(world))
    bad = Round(round_.round_id, round_.certificate, round_.geometry)
    bad.keys = (round_.keys[0], resigned(world, round_.keys[1], opening=GENERATOR.hex()))
    with pytest.raises(RoundKeyError, match="node 2: the proof of knowledge"):
        await world.set_manifest("node-1", world.manifest(bad, max_reports=20))


async def test_a_round_that_needs_more_memory_than_the_node_may_use_is_refused(
    world: World,
) -> None:
    await world.start()
    with pytest.raises(PolicyRefusal, match=r"raise `\[mixing\] memory`"):
        await open_mixproof(world, max_reports=10**6)
    spec = NodeHistogram(symbols=1000, noise_epsilon=Fraction(1, 2), mean=28, dummies=30_000)
    with pytest.raises(PolicyRefusal, match=r"60,000 dummies of nodes .* fewer symbols"):
        await open_mixproof(world, spec)


def resigned(world: World, key: Signed, **changes: str) -> Signed:
    """A round key with other mixing keys, signed by its node."""
    said = from_json(key.body, RoundKey)
    assert isinstance(said.mixing, MixingKey)
    changed = msgspec.structs.replace(said, mixing=msgspec.structs.replace(said.mixing, **changes))
    return world.deployment.identity_of(key.signer).sign(changed)


# ------------------------------------------------------------------ claims


async def test_what_the_claim_does_not_commit_to_gets_no_receipt_and_costs_nobody(
    world: World,
) -> None:
    await world.start()
    round_, user = await open_mixproof(world), world.user()
    good = round_.made(user)
    other = replace(good, submission=good.submission[:40] + flipped(good.submission[40:]))
    with pytest.raises(BadClaimError, match="the records do not match the claim"):
        await round_.send(round_.submission(user, other))
    unproved = replace(good, claim=replace(good.claim, proof=flipped(good.claim.proof)))
    with pytest.raises(BadClaimError, match="signature does not verify with its credential's key"):
        await round_.send(round_.submission(user, unproved))
    header, envelope = round_.submission(user, good)
    with pytest.raises(InvalidSubmissionError, match="not the one that the claim signs for"):
        await round_.send((header, flipped(envelope)))
    await round_.send((header, envelope))
    assert await round_.send((header, envelope)) == await round_.send((header, envelope))


async def test_a_key_that_another_user_claimed_is_refused_also_after_a_restart(
    world: World,
) -> None:
    """Both know its logarithm, so both claims hold: together they would make every list invalid."""
    await world.start()
    round_, first, second = await open_mixproof(world), world.user(), world.user()
    secrets = [random_scalar(system_random) for _ in range(round_.terms.messages_per_user)]
    await round_.send(
        round_.submission(first, claiming(round_, first.key.private_bytes_raw(), secrets))
    )
    copied = round_.submission(second, claiming(round_, second.key.private_bytes_raw(), secrets))
    with pytest.raises(BadClaimError, match="another user has already claimed"):
        await round_.send(copied)
    await world.hang_up()
    await world.stop("node-1")
    await world.start("node-1")
    with pytest.raises(BadClaimError, match="another user has already claimed"):
        await round_.send(copied)
    await round_.send(round_.submission(second))


async def test_a_credential_that_expires_before_the_round_closes_does_not_count(
    world: World,
) -> None:
    await world.start()
    round_, user = await open_mixproof(world), expiring(world, soon())
    with pytest.raises(BadClaimError, match="expires before this round closes"):
        await round_.send(round_.submission(user))


async def test_the_entry_nodes_list_of_withdrawals_is_the_rounds_and_goes_with_it(
    world: World,
) -> None:
    """Node 2 knows no list.

    It takes the one that node 1's key names, and finds that the claims hold by it.
    """
    withdrawn, user = world.user(), world.user()
    publish(world, 3, withdrawn.key.public_key().public_bytes_raw().hex())
    await world.start("node-1", withdrawals=folder(world))
    await world.start("node-2")
    await world.start_analyst()
    round_ = await open_mixproof(world)
    with pytest.raises(WithdrawnCredentialError):
        await round_.send(round_.submission(withdrawn))
    publish(
        world, 4
    )  # a later list lets the credential in again: not into a round that goes by the earlier one
    with pytest.raises(BadClaimError, match="is withdrawn by the list that this round uses"):
        await round_.send(round_.submission(withdrawn))
    for each in (user, world.user()):
        await round_.send(round_.submission(each))
    await world.close_round("node-1", round_.round.round_id)
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE


async def test_a_node_that_knows_a_newer_list_of_withdrawals_makes_no_key(world: World) -> None:
    publish(world, 1)
    await world.start("node-2", withdrawals=folder(world))
    await world.start("node-1")
    with pytest.raises(
        BusyError, match="uses list 0 of withdrawn credentials, but this node has list 1"
    ):
        await open_mixproof(world)


def claiming(
    round_: MixproofRound, seed: bytes, secrets: list[Scalar], layer: int = 0
) -> PreparedClaim:
    """A claim for these keys; the first record says nothing at `layer`."""
    records = [seal_record(round_.terms, secret, 0) for secret in secrets]
    if layer:
        records[0] = spoiled_record(round_.terms, secrets[0], layer)
    return sign_claim(round_.terms, records, secrets, seed, system_random)


# ------------------------------------------------------------------ batches and blame


async def spoiled_round(world: World, layer: int = 2) -> MixproofRound:
    """A closed round of three users, one message of whom says nothing at `layer`."""
    await world.start()
    await world.start_analyst()
    round_, bad = await open_mixproof(world), world.user()
    secrets = [random_scalar(system_random) for _ in range(round_.terms.messages_per_user)]
    for sent in (
        round_.submission(world.user()),
        round_.submission(world.user()),
        round_.submission(bad, claiming(round_, bad.key.private_bytes_raw(), secrets, layer)),
    ):
        await round_.send(sent)
    await world.close_round("node-1", round_.round.round_id)
    return round_


async def accused(world: World, round_: MixproofRound) -> None:
    """Returns once node 2 waits for a transcript."""
    async for status in world.watch("node-2", round_.round.round_id):
        assert status.phase not in {FAILED, DONE}
        if status.accused:
            return


async def test_an_accusation_survives_a_restart_and_a_damaged_transcript_ends_nothing(
    world: World,
) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    accusation = await round_.accusation("node-2")
    for (
        name
    ) in world.names:  # the accuser, and the node that has to answer, which is done with its part
        if name == "node-1":
            assert (await world.ended(name, round_.round.round_id)).phase == DONE
        await world.hang_up()
        await world.stop(name)
        await world.start(name)
    await accused(world, round_)
    assert await round_.accusation("node-2") == accusation
    transcript = await round_.transcript(accusation)
    with pytest.raises(UnansweredError):
        await round_.settle("node-2", replace(transcript, passages=()))
    assert world.sink.batches == {}
    await round_.settle("node-2", await round_.transcript(accusation))
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.accepted) == (DONE, 3)
    with pytest.raises(RoundStateError, match="no open accusation"):
        await round_.settle("node-2", transcript)


async def test_nothing_leaves_a_node_whose_accusation_nobody_answers(world: World) -> None:
    await world.start("node-1")
    await world.start("node-2", relay_seconds=0.5)
    await world.start_analyst()
    round_, bad = await open_mixproof(world), world.user()
    secrets = [random_scalar(system_random) for _ in range(round_.terms.messages_per_user)]
    for user in (world.user(), world.user()):
        await round_.send(round_.submission(user))
    await round_.send(
        round_.submission(bad, claiming(round_, bad.key.private_bytes_raw(), secrets, 2))
    )
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "UnansweredError")
    assert world.sink.batches == {}
    state = world.folder / "state" / "node-2" / "rounds" / round_.round.round_id
    assert not {"key", "incoming", "accusation", "order"} & {file.name for file in state.iterdir()}


async def test_a_node_shows_no_step_for_what_does_not_stand(world: World) -> None:
    """The record of another index, a signature of nobody, another round's history, and bytes that
    are no inquiry."""
    round_ = await spoiled_round(world)
    await accused(world, round_)
    accusation = unpack_document(await round_.accusation("node-2"), Accusation)
    good = Inquiry(2, accusation.history.headers, (), (Trace(accusation.accused[0]),))
    bad_signature = replace(
        accusation.accused[0], signature=flipped(accusation.accused[0].signature)
    )
    for inquiry in (
        replace(good, traces=(Trace(bad_signature),)),
        replace(good, headers=()),
        replace(good, position=3),
    ):
        with pytest.raises(UnansweredError):
            await round_.ask(1, inquiry)
    parts = [node_pb2.AnswerRequest(round_id=round_.round.round_id)]
    parts += [node_pb2.AnswerRequest(chunk=chunk) for chunk in chunked(b"no inquiry")]
    with pytest.raises(MalformedDocumentError, match="malformed inquiry"):
        async with translate_errors("node-1"):
            await joined(world.node("node-1").Answer(iter(parts)))
    assert (await round_.ask(1, good)).traces[0].origin is not None


async def test_a_deleted_round_and_one_past_its_time_answer_nothing(world: World) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    accusation = await round_.accusation("node-2")
    await world.ended("node-1", round_.round.round_id)
    world.ahead = 10**9
    await world.running["node-1"].node.abandon_overdue_rounds(0)
    with pytest.raises(RoundStateError, match="have been erased"):
        await round_.transcript(accusation)
    await world.delete("node-2", round_.round.round_id)
    with pytest.raises(UnknownRoundError):
        await round_.accusation("node-2")


async def test_a_node_that_was_killed_while_it_erased_erases_the_rest(world: World) -> None:
    """The key goes first.

    What is left then links the node's whole hop, and nobody can ask for a step any more.
    """
    round_ = await spoiled_round(world)
    await accused(world, round_)
    assert (await world.ended("node-1", round_.round.round_id)).phase == DONE
    folder = world.folder / "state" / "node-1" / "rounds" / round_.round.round_id
    kept = {path.name for path in folder.iterdir()} & {"order", "outgoing", "envelopes"}
    assert kept == {"order", "outgoing", "envelopes"}
    await world.hang_up()
    await world.stop("node-1")
    (folder / "key").unlink()
    await world.start("node-1")
    assert not {path.name for path in folder.iterdir()} & kept


async def test_what_cannot_be_erased_is_erased_at_the_next_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the node still knows that there is something to erase."""
    round_ = await spoiled_round(world)
    assert (await world.ended("node-1", round_.round.round_id)).phase == DONE
    folder = world.folder / "state" / "node-1" / "rounds" / round_.round.round_id
    world.ahead, node = 10**9, world.running["node-1"].node

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is worn out")

    with monkeypatch.context() as worn:
        worn.setattr(RoundFolder, "erase_consumed", refused)
        await node.abandon_overdue_rounds(0)
    assert (folder / "key").exists()
    await node.abandon_overdue_rounds(0)
    assert not {path.name for path in folder.iterdir()} & {"key", "order", "outgoing", "envelopes"}


async def test_an_input_that_ended_the_process_every_time_is_given_up(world: World) -> None:
    """As an input beyond the machine's memory does: the node would begin anew for ever, and serve
    no other round."""
    await world.start()
    await world.start_analyst()
    round_ = await open_mixproof(world)
    for _ in range(3):
        await round_.send(round_.submission(world.user()))
    folder = RoundFolder(world.folder / "state" / "node-2" / "rounds" / round_.round.round_id)
    folder.count_attempts(MIXING_ATTEMPTS - 1)
    await world.close_round("node-1", round_.round.round_id)
    assert (
        await world.ended("node-2", round_.round.round_id)
    ).phase == DONE  # the last attempt succeeds
    assert folder.attempts == 0
    given_up = await open_mixproof(world)
    for _ in range(3):
        await given_up.send(given_up.submission(world.user()))
    folder = RoundFolder(world.folder / "state" / "node-2" / "rounds" / given_up.round.round_id)
    folder.count_attempts(MIXING_ATTEMPTS)
    await world.close_round("node-1", given_up.round.round_id)
    status = await world.ended("node-2", given_up.round.round_id)
    assert (status.phase, status.error) == (FAILED, "NodeFault")
    assert "crashed 3 times" in status.reason


async def test_a_process_that_ends_while_it_puts_the_batch_out_counts_also(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken the input in well each time: if that made it forget, it would begin anew for
    ever."""
    left_by_a_kill: list[int] = []
    honest = hops.Hop.release

    def looked_at(self: hops.Hop, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        if self.position != 1:
            left_by_a_kill.append(kept.attempts)
        return honest(self, random)

    await world.start()
    await world.start_analyst()
    round_ = await open_mixproof(world)
    for _ in range(3):
        await round_.send(round_.submission(world.user()))
    kept = RoundFolder(world.folder / "state" / "node-2" / "rounds" / round_.round.round_id)
    kept.count_attempts(MIXING_ATTEMPTS - 1)
    monkeypatch.setattr(hops.Hop, "release", looked_at)
    await world.close_round("node-1", round_.round.round_id)
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE
    assert left_by_a_kill == [MIXING_ATTEMPTS]


async def test_a_history_on_its_way_has_no_signature_of_a_board(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corrupt node could fill it up to what is allowed, and an honest one pass on what is too
    long."""
    written = History.to_bytes

    def padded(self: History) -> bytes:
        return written(replace(self, board_signature=bytes(64)))

    await world.start()
    round_ = await open_mixproof(world)
    for user in (world.user(), world.user()):
        await round_.send(round_.submission(user))
    monkeypatch.setattr(History, "to_bytes", padded)
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "BadBatchError")
    assert "signature of a board" in status.reason


async def test_a_history_that_is_longer_than_a_nodes_memory_is_not_read(world: World) -> None:
    """Its sender needs none of it: by the manifest alone nearly every user might have been
    accused."""
    await world.start("node-1")
    await world.start("node-2", mixing=MixingConfig(memory=2**20))
    round_ = await open_mixproof(world, min_reports=2, max_reports=100)
    node = world.running["node-2"].node
    [live] = node.rounds()
    manifest, each = live.require_terms().manifest, round_.terms.messages_per_user
    assert unblamed_bytes(manifest) == most_read(manifest, 2**20) < most_bytes(manifest)
    assert most_read(manifest, 2**40) == most_bytes(manifest)
    between = MEMORY_PER_BYTE * (unblamed_bytes(manifest) + 1000)
    assert most_read(manifest, between) == unblamed_bytes(manifest) + 1000

    async def nothing() -> AsyncIterator[tuple[int, bytes]]:
        return
        yield

    for history, refusal in (
        (unblamed_bytes(manifest), BadBatchError),
        (most_bytes(manifest), PolicyRefusal),
    ):
        header = BatchHeader(
            round_id=round_.round.round_id,
            position=2,
            users=2,
            records=2 * each,
            digest="00" * 32,
            history=history,
        )
        signed = world.deployment.identity_of("node-1").sign(header)
        with pytest.raises(refusal):
            await node.add_batch(signed.to_bytes(), "node-1", nothing())


async def test_a_node_gathers_one_transcript_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be as long as the round's history: of many at once nobody could say what they
    take."""
    callers, calls, inside, all_came = 4, 0, 0, asyncio.Event()
    at_once: list[int] = []
    require_open = TranscriptExchange.require_open

    def called(self: TranscriptExchange) -> None:
        nonlocal calls
        calls += 1
        if calls >= callers:
            all_came.set()
        require_open(self)

    async def counted(chunks: Chunks, most: int) -> bytes:
        nonlocal inside
        inside += 1
        await all_came.wait()
        at_once.append(inside)
        try:
            return await gather(chunks, most)
        finally:
            inside -= 1

    round_ = await spoiled_round(world)
    await accused(world, round_)
    cut = replace(await round_.transcript(await round_.accusation("node-2")), passages=())
    monkeypatch.setattr(TranscriptExchange, "require_open", called)
    monkeypatch.setattr(shuffledp_shuffler.node, "gather", counted)
    answers = await asyncio.gather(
        *(round_.settle("node-2", cut) for _ in range(callers)), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {UnansweredError}
    assert at_once == [1] * callers


async def test_a_node_that_exchanges_a_record_is_named_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = hops.Hop.release

    def exchanging(self: hops.Hop, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        header, records = honest(self, random)
        if self.position != 1:
            return header, records
        own = multiply(random_scalar(random), GENERATOR) + records[0][32:]
        changed = (own, *records[1:])
        stated = replace(header, root=Tree(changed).root, total=b"", proof=b"", signature=b"")
        secret = self._secrets.blinding
        return make_header(
            self._terms, stated, self.chain.total, secret, self._sign, random
        ), changed

    monkeypatch.setattr(hops.Hop, "release", exchanging)
    await world.start()
    round_ = await open_mixproof(world)
    for user in (world.user(), world.user()):
        await round_.send(round_.submission(user))
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-2", round_.round.round_id)
    assert status.error == "BadHopError"
    assert status.reason == "node 1: the keys of the batch do not add up to the sum that was signed"


async def test_a_batch_of_a_plain_round_has_no_history_and_that_of_a_verified_one_has(
    world: World,
) -> None:
    await world.start()
    plain, data = await world.open(), bytes(2 * 3 * 65)
    with pytest.raises(BadBatchError, match="a batch of a plain round must have no history"):
        await world.add_batch(world.header(plain, data, 2, history=5), data)
    round_ = await open_mixproof(world)
    for history in (msgspec.UNSET, 0, 10**12):
        with pytest.raises(BadBatchError, match="in this round it must have"):
            await world.add_batch(world.header(round_.round, data, 2, history=history), data)
    with pytest.raises(BadBatchError, match="in a verified round no onion may be dropped"):
        await world.add_batch(world.header(round_.round, data, 2, dropped=1, history=9), data)


async def test_a_history_that_cannot_be_read_fails_the_round_and_erases_the_secrets(
    world: World,
) -> None:
    await world.start()
    round_ = await open_mixproof(world)
    width = round_.round.geometry.record_bytes(2)
    data = b"rubbish." + bytes(2 * round_.terms.messages_per_user * width)
    await world.add_batch(world.header(round_.round, data, 2, history=8), data)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "BadBatchError")
    assert "node-1 signed a history that cannot be read" in status.reason
    assert not (
        world.folder / "state" / "node-2" / "rounds" / round_.round.round_id / "key"
    ).exists()
