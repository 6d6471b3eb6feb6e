"""Histories whose objects take many times the memory of their bytes; the predecessor signs them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from mixproof_world import MixproofRound, open_mixproof
from shuffler_world import World

from shuffledp_core.documents.models import Manifest
from shuffledp_core.documents.signed import from_json
from shuffledp_core.mixproof.history import unblamed_bytes
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.config import MixingConfig

MIB = 2**20
HISTORY_BYTES = 64 * MIB
FIELDS = ("withdrawals", "list_signature", "enrolment_signature", "claims")


def manifest_of(round_: MixproofRound) -> Manifest:
    assert round_.round.manifest is not None
    return from_json(round_.round.manifest.body, Manifest)


def of_claims(claim: bytes, count: int) -> bytes:
    """A history of `count` claims that are written as these bytes; all other fields are empty."""
    first, *rest = FIELDS
    fields = {first: b""} | dict.fromkeys(rest[:-1], b"")
    data = bytearray(msgspec.msgpack.encode(fields | {"claims": []})[:-1])
    data += b"\xdd" + count.to_bytes(4, "big") + claim * count
    for field, empty in (("headers", []), ("transcripts", []), ("board_signature", b"")):
        data += msgspec.msgpack.encode(field) + msgspec.msgpack.encode(empty)
    data[0] = 0x80 | (len(FIELDS) + 3)
    return bytes(data)


def peak_memory(process: int) -> int:
    """The largest resident size of a process so far, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


async def test_a_history_of_tiny_claims_costs_a_node_little_and_names_its_signer(
    world: World,
) -> None:
    """Claims of two bytes took 18 bytes of memory for each byte: 64 MiB ended a node of 1 GiB."""
    await world.start("node-1", mixing=MixingConfig(memory=2**40))
    process = await world.start_process("node-2", mixing=MixingConfig(memory=2**40))
    round_ = await open_mixproof(world, max_reports=200_000)
    assert unblamed_bytes(manifest_of(round_)) > HISTORY_BYTES
    claim = msgspec.msgpack.encode(b"ab")
    history = of_claims(claim, (HISTORY_BYTES - 200) // len(claim))
    width = round_.round.geometry.record_bytes(2)
    data = history + bytes(2 * round_.terms.messages_per_user * width)
    before = peak_memory(process.pid)
    await world.add_batch(world.header(round_.round, data, 2, history=len(history)), data)
    status = await world.ended("node-2", round_.round.round_id)
    assert peak_memory(process.pid) - before < 3 * HISTORY_BYTES
    assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "BadBatchError")
    assert "node-1 signed a history" in status.reason
