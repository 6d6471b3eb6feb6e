"""A node that is corrupt on purpose: correct on the wire, loud about it, and its log says what it
knows.

About ten seconds in all.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import stat
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from prometheus_client import generate_latest
from shuffler_world import Round, Running, Submission, World, garbage_inside

from shuffledp_adversary.tracing.links import join_logs
from shuffledp_core.documents.models import RoundKey
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import ConfigError, CorruptLogError
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.app import build
from shuffledp_shuffler.corruption import Arrays, CorruptLog, read_log, read_logs, write_log
from shuffledp_shuffler.node import MixNode

USERS = 12


def corrupt(world: World, *names: str) -> None:
    for name in names:
        world.corrupt[name] = world.folder / "logs" / name


async def submit_all(world: World, round_: Round, users: int = USERS) -> list[Submission]:
    submissions = [world.submission(round_) for _ in range(users)]
    await asyncio.gather(*(world.submit(submission) for submission in submissions))
    return submissions


async def mixed(world: World, *names: str) -> tuple[Round, list[Submission]]:
    """A whole round, the named nodes corrupt."""
    corrupt(world, *names)
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    submissions = await submit_all(world, round_)
    await world.close_round("node-1", round_.round_id)
    for name in world.names:
        assert (await world.ended(name, round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    return round_, submissions


def logs_of(world: World, round_: Round) -> dict[int, CorruptLog]:
    return read_logs(world.folder / "logs", world.roster.deployment, round_.round_id)


def link(record: bytes) -> bytes:
    return hashlib.sha256(record).digest()[:16]


async def test_the_logs_of_all_nodes_lead_from_every_message_to_its_sender(world: World) -> None:
    round_, submissions = await mixed(world, "node-1", "node-2")
    board, logs = world.board(round_), logs_of(world, round_)
    assert sorted(logs) == [1, 2]
    assert [row.tobytes() for row in logs[2].outgoing] == [link(message) for message in board]
    came_in = {row.tobytes(): place for place, row in enumerate(logs[2].incoming)}
    assert logs[1].credentials is not None
    messages = {submission.credential: set(submission.messages) for submission in submissions}
    pool_of_board = logs[2].permutation.tolist()
    sent_as = {came_in[row.tobytes()]: place for place, row in enumerate(logs[1].outgoing)}
    for place, message in enumerate(board):
        pool = int(logs[1].permutation[sent_as[pool_of_board[place]]])
        sender = logs[1].credentials[pool // round_.geometry.messages_per_user].tobytes().hex()
        assert message in messages[sender]


async def test_the_logs_cope_with_onions_that_were_dropped(world: World) -> None:
    """One user's onions do not open at node 2.

    Two accomplices share an onion, of which node 1 keeps one.
    """
    corrupt(world, "node-1", "node-2")
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    honest = await submit_all(world, round_)
    geometry, seal = round_.geometry, suite_named("sealed-box").sealer
    outer, inner = (
        seal(key, binding(round_.round_id, place))
        for place, key in enumerate(round_.public_keys(), 1)
    )
    shared = inner(world.messages(geometry)[0])
    for _ in range(2):
        onions = [shared, *(inner(message) for message in world.messages(geometry)[1:])]
        await world.submit(world.submission(round_, envelope=outer(b"".join(onions))))
    await world.submit(world.submission(round_, envelope=garbage_inside(round_)))
    await world.close_round("node-1", round_.round_id)
    for name in world.names:
        assert (await world.ended(name, round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    logs = logs_of(world, round_)
    counted = {
        place: (log.header.users, log.header.dropped, log.header.records)
        for place, log in logs.items()
    }
    assert counted == {1: (USERS + 3, 1, 3 * USERS + 8), 2: (USERS + 3, 3, 3 * USERS + 5)}
    board = np.frombuffer(b"".join(world.board(round_)), dtype=np.uint8).reshape(
        -1, geometry.plain_bytes
    )
    links = join_logs(logs, board)
    assert logs[1].credentials is not None
    senders = [logs[1].credentials[sender].tobytes().hex() for sender in links.senders.tolist()]
    said = dict(zip(world.board(round_), senders, strict=True))
    assert all(
        said[message] == submission.credential
        for submission in honest
        for message in submission.messages
    )


async def test_a_corrupt_node_says_so_in_its_key_and_in_its_status(world: World) -> None:
    corrupt(world, "node-2")
    await world.start()
    round_ = await world.open()
    said = {key.signer: from_json(key.body, RoundKey).corrupt for key in round_.keys}
    assert said == {"node-1": False, "node-2": True}
    for name, word in said.items():
        assert (await world.status(name, round_.round_id)).corrupt == word


async def test_a_node_that_is_not_corrupt_writes_no_link_anywhere(world: World) -> None:
    round_, _ = await mixed(world, "node-2")
    assert sorted(logs_of(world, round_)) == [2]
    # A corrupt node keeps in its state what every node keeps there, and no more.
    for name in world.names:
        state = world.folder / "state" / name
        folder = f"rounds/{round_.round_id}"
        # A node says that it is done, and then erases what it has passed on.
        while (state / folder / "outgoing").exists():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        files = {path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file()}
        entry = (
            {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm"} if name == "node-1" else set()
        )
        node = {"lock", "seen", "roster-seen", "ledger-positions.json"}
        assert files == {*node, *(f"{folder}/{file}" for file in ("record.json", *entry))}
    links = {row.tobytes() for row in logs_of(world, round_)[2].incoming}
    kept = b"".join(
        path.read_bytes() for path in (world.folder / "state").rglob("*") if path.is_file()
    )
    assert not any(one in kept for one in links)


async def test_logs_are_for_their_owner_only(world: World) -> None:
    await mixed(world, "node-1")
    for path in (world.folder / "logs" / "node-1", *(world.folder / "logs" / "node-1").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


async def test_a_round_that_is_mixed_twice_leaves_the_log_of_the_order_that_was_sent(
    world: World,
) -> None:
    corrupt(world, *world.names)
    await world.start()
    round_ = await world.open()
    await submit_all(world, round_)
    for name in world.names:
        await world.stop(name)
    await world.hang_up()
    state, before = world.folder / "state" / "node-1", world.folder / "before"
    shutil.copytree(state, before)
    await world.start("node-1")
    await world.close_round("node-1", round_.round_id)
    await world.until("node-1", round_.round_id, node_pb2.ROUND_PHASE_RELAYING)
    first = logs_of(world, round_)[1]
    await world.stop("node-1")
    await world.hang_up()
    shutil.rmtree(state)
    shutil.copytree(
        before, state
    )  # as if it had been killed before it kept anything of the mixing but the log
    await world.start_analyst()
    await world.start()
    await world.close_round("node-1", round_.round_id)
    for name in world.names:
        assert (await world.ended(name, round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    logs = logs_of(world, round_)
    assert np.array_equal(logs[1].outgoing, logs[2].incoming)
    assert logs[1].header.batch != first.header.batch


async def test_a_log_that_cannot_be_written_does_not_stop_the_round(world: World) -> None:
    corrupt(world, "node-2")
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    await submit_all(world, round_, 3)
    world.corrupt["node-2"].rmdir()
    await world.close_round("node-1", round_.round_id)
    assert (await world.ended("node-2", round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE


async def test_a_round_that_was_prepared_honestly_stays_so_after_a_restart_as_corrupt(
    world: World,
) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    await submit_all(world, round_, 3)
    await world.stop("node-1")
    await world.hang_up()
    corrupt(world, "node-1")
    await world.start("node-1")
    await world.close_round("node-1", round_.round_id)
    assert (await world.ended("node-2", round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    assert not list(world.corrupt["node-1"].iterdir())


async def test_a_folder_that_cannot_be_made_is_named(world: World) -> None:
    (world.folder / "file").write_text("")
    with pytest.raises(ConfigError, match="--corrupt"):
        build(world.config("node-1"), corrupt=world.folder / "file" / "logs")


async def test_the_program_says_it_on_standard_error(world: World) -> None:
    world.corrupt["node-1"] = world.folder / "logs"
    process = await world.start_process("node-1", stderr=PIPE)
    assert process.stderr is not None
    assert b"CORRUPT NODE: node-1 writes who sent what" in await process.stderr.readline()


# ----------------------------------------------------------------------------------------------
# logs that are none


def arrays_of(log: CorruptLog) -> Arrays:
    found: Arrays = {
        "permutation": log.permutation,
        "incoming": log.incoming,
        "outgoing": log.outgoing,
    }
    return found if log.credentials is None else found | {"credentials": log.credentials}


def rewritten(path: Path, change: Callable[[Arrays], Arrays], **header: object) -> None:
    """A log whose digests fit, so that only the change is wrong with it."""
    log = read_log(path)
    arrays = change(arrays_of(log))
    digests = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
    write_log(path, msgspec.structs.replace(log.header, **({"arrays": digests} | header)), arrays)


def without(name: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def unchanged(arrays: Arrays) -> Arrays:
    return arrays


async def test_logs_that_are_torn_or_of_something_else_are_refused(world: World) -> None:
    round_, _ = await mixed(world, "node-1", "node-2")
    folder, name = world.folder / "logs", f"{round_.round_id}.npz"
    path = folder / "node-1" / name
    whole = path.read_bytes()

    def refused(match: str, round_id: str = round_.round_id, deployment: str = "demo") -> None:
        with pytest.raises(CorruptLogError, match=match):
            read_logs(folder, deployment, round_id)
        path.write_bytes(whole)

    for end in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        refused("torn")
    before = arrays_of(read_log(path))
    for place in range(0, len(whole), len(whole) // 100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        # what a zip file says in two places may be wrong in one of them; anything else is found
        try:
            after = arrays_of(read_log(path))
        except CorruptLogError:
            continue
        assert all(np.array_equal(after[name], before[name]) for name in before)
    path.write_bytes(whole)
    refused("holds no log of round", round_id="0" * 32)
    refused("of deployment", deployment="another")
    rewritten(path, unchanged, round_id="1" * 32)
    refused("is of round 1111")
    rewritten(path, without("permutation"))
    refused("permutation is missing")
    rewritten(path, without("credentials"))
    refused("credentials is missing")
    rewritten(path, lambda arrays: arrays | {"permutation": np.zeros_like(arrays["permutation"])})
    refused("permutation does not choose")
    rewritten(path, lambda arrays: arrays | {"outgoing": arrays["outgoing"][1:]})
    refused("shape")
    rewritten(path, unchanged, version=2)
    refused("version 2")
    (folder / "copy").mkdir()
    (folder / "copy" / name).write_bytes(whole)
    refused("second log for position 1")


# -------------------------------------------------------------------- foreign code


class ForeignNode(MixNode):
    """A node of somebody else's code, as an experiment puts it in place of the honest one."""


async def foreign(world: World, name: str) -> None:
    """Starts a node of foreign code by the door that experiments have."""
    node, service = build(world.config(name), node_of=ForeignNode)
    await node.recover()
    await service.start()
    world.running[name] = Running(node, service)


async def test_a_node_that_runs_foreign_code_says_that_it_is_corrupt(world: World) -> None:
    await foreign(world, "node-1")
    await world.start("node-2")
    round_ = await world.open()
    said = {
        key.node: key.corrupt
        for key in (from_json(signed.body, RoundKey) for signed in round_.keys)
    }
    assert said == {"node-1": True, "node-2": False}
    assert (await world.status("node-1", round_.round_id)).corrupt
    assert b"shuffledp_node_corrupt 1.0" in generate_latest(
        world.running["node-1"].service.metrics.registry
    )


async def test_foreign_code_does_not_take_up_a_round_that_was_promised_by_an_honest_node(
    world: World,
) -> None:
    await world.start()
    round_ = await world.open()
    await world.hang_up()
    await world.stop("node-1")
    await foreign(world, "node-1")
    status = await world.status("node-1", round_.round_id)
    assert (status.phase, status.error, status.corrupt) == (
        node_pb2.ROUND_PHASE_FAILED,
        "NodeFault",
        False,
    )
