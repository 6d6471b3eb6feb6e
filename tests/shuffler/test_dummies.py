"""Dummies of nodes: drawn once, on disk before the batch, in every node's output, never dropped."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from shuffler_world import World

from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import CountMismatchError, NodeFault
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import peel
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.vocabulary import Mix
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.dummies import make_dummies
from shuffledp_shuffler.mixing import mix
from shuffledp_shuffler.peel_worker import Layer, LayersBehind, PeeledChunk
from shuffledp_shuffler.peeling import ItemT, PeelPool, ResultT
from shuffledp_shuffler.permutation import Records

DUMMIES = 7
MANY = 10_000
ROUND = "0" * 32
SPEC = RRShuffle(max_value=3, randomise=Fraction(1, 4))


@pytest.fixture(autouse=True)
def _mechanism_with_dummies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every node add `DUMMIES` random bits to rounds of `RRShuffle`."""

    def sample(_spec: RRShuffle, integers: RandomIntegers) -> NDArray[np.int64]:
        return np.array([integers.below(2) for _ in range(DUMMIES)])

    monkeypatch.setattr(RRShuffle, "dummies_per_node", property(lambda _spec: DUMMIES))
    monkeypatch.setattr(RRShuffle, "sample_dummies", sample)


def files_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


class OpenOnions(PeelPool):
    """Peels onions whose layer is 48 bytes in front."""

    async def peel(
        self, layer: Layer, pieces: Iterable[bytes], place: Callable[[PeeledChunk], Awaitable[None]]
    ) -> None:
        for piece in pieces:
            units: Records = np.frombuffer(piece, dtype=np.uint8).reshape(-1, layer.unit_bytes)
            await place(PeeledChunk(units[:, 48:].tobytes(), ()))


class SealHere(PeelPool):
    """Works in this process."""

    async def map(
        self,
        work: Callable[[ItemT], ResultT],
        items: Iterable[ItemT],
        store: Callable[[ResultT], Awaitable[None]],
    ) -> None:
        for item in items:
            await store(work(item))


async def test_many_dummies_are_sealed_by_workers_and_progress_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RRShuffle, "dummies_per_node", property(lambda _spec: MANY))
    monkeypatch.setattr(RRShuffle, "sample_dummies", lambda *_: np.arange(MANY) % 2)
    suite = suite_named("sealed-box")
    pairs = [suite.generate() for _ in range(2)]
    geometry = Geometry.of(SPEC, "sealed-box", 2)
    layers = LayersBehind(geometry, ROUND, 1, tuple(public for _, public in pairs))
    sealed: list[int] = []
    pool = PeelPool(2)
    try:
        await make_dummies(tmp_path / "dummies", SPEC, layers, pool, sealed.append)
    finally:
        pool.close()
    assert sealed == sorted(sealed)
    assert len(sealed) > 1
    assert sealed[-1] == MANY
    plain = peel(geometry, ROUND, 2, pairs[1][0], (tmp_path / "dummies").read_bytes())
    width = geometry.plain_bytes
    messages = [plain[start : start + width] for start in range(0, len(plain), width)]
    assert [message[0] for message in messages] == [number % 2 for number in range(MANY)]
    assert len(set(messages)) == MANY


@pytest.mark.parametrize("memory", [2**18, 2**24])
async def test_every_dummy_goes_out_once_among_the_records(tmp_path: Path, memory: int) -> None:
    geometry = Geometry(
        suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1, dummies_per_node=9000
    )
    layer = Layer(geometry, ROUND, 2, b"")
    width = geometry.record_bytes(3)
    records = [os.urandom(width) for _ in range(3000)]
    dummies = [os.urandom(width) for _ in range(9000)]
    onions = [hashlib.sha384(record).digest() + record for record in records]
    # A copy of an onion is dropped; what the node adds itself is not looked at.
    (tmp_path / "in").write_bytes(b"".join([*onions, onions[0]]))
    (tmp_path / "dummies").write_bytes(b"".join(dummies))
    dropped: list[int] = []
    mixed = await mix(
        Batch(layer, 3001, tmp_path / "in", tmp_path / "out", tmp_path / "dummies"),
        OpenOnions(1),
        os.urandom,
        lambda _done: None,
        allowed=dropped.append,
        memory=memory,
    )
    data = (tmp_path / "out").read_bytes()
    sent = [data[start : start + width] for start in range(0, len(data), width)]
    assert Counter(sent) == Counter([*records, *dummies])
    assert (mixed.records, mixed.dropped, dropped) == (12_000, 1, [1])
    # Not behind the others: the chance of this in a uniform order is below 2^-1000.
    assert sent[-9000:] != dummies
    assert set(sent[-9000:]) != set(dummies)


async def test_dummies_are_drawn_once_and_open_at_the_next_hop(tmp_path: Path) -> None:
    suite = suite_named("sealed-box")
    pairs = [suite.generate() for _ in range(3)]
    keys = tuple(public for _, public in pairs)
    geometry = Geometry.of(SPEC, "sealed-box", 3)
    path = tmp_path / "dummies"
    sealed: list[int] = []
    layers = LayersBehind(geometry, ROUND, 1, keys)
    await make_dummies(path, SPEC, layers, SealHere(1), sealed.append)
    assert sealed == [DUMMIES]
    first = path.read_bytes()
    await make_dummies(path, SPEC, layers, SealHere(1))
    assert path.read_bytes() == first
    behind = peel(geometry, ROUND, 2, pairs[1][0], first)
    plain = peel(geometry, ROUND, 3, pairs[2][0], behind)
    width = geometry.plain_bytes
    messages = [plain[start : start + width] for start in range(0, len(plain), width)]
    assert len(set(messages)) == DUMMIES
    assert {message[0] for message in messages} <= {0, 1}
    path.write_bytes(first[:-1])
    with pytest.raises(NodeFault, match="instead of"):
        await make_dummies(path, SPEC, layers, SealHere(1))


async def test_a_mechanism_that_draws_too_few_dummies_ends_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RRShuffle, "sample_dummies", lambda *_: np.zeros(DUMMIES - 1, np.int64))
    geometry = Geometry.of(SPEC, "sealed-box", 2)
    keys = (bytes(32), bytes(32))
    layers = LayersBehind(geometry, ROUND, 2, keys)
    with pytest.raises(NodeFault, match="drew 6 dummies instead of 7"):
        await make_dummies(tmp_path / "dummies", SPEC, layers, SealHere(1))
    assert not files_of(tmp_path)


def test_the_geometry_counts_the_dummies_of_the_nodes_before() -> None:
    geometry = Geometry.of(SPEC, "sealed-box", 3)
    assert [geometry.count_records(position, 10, 2) for position in (2, 3, 4)] == [35, 42, 49]
    assert msgspec.json.decode(msgspec.json.encode(geometry), type=Geometry) == geometry
    plain = msgspec.structs.replace(geometry, dummies_per_node=0)
    assert b"dummies" not in msgspec.json.encode(plain)
    verified = Geometry.of(SPEC, "sealed-box", 3, Mix.VERIFIED)
    assert [verified.count_records(position, 10) for position in (2, 3, 4)] == [30 + 3 * 7] * 3


async def test_every_node_of_a_round_adds_its_dummies(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    submissions = [world.submission(round_) for _ in range(5)]
    for submission in submissions:
        await world.submit(submission)
    await world.close_round("node-1", round_.round_id)
    headers = []
    for name in world.names:
        status = await world.ended(name, round_.round_id)
        assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason
        headers.append(Signed.from_bytes(status.header))
        folder = world.folder / "state" / name / "rounds" / round_.round_id
        assert not (folder / "dummies").exists()
    messages = round_.geometry.messages_per_user
    route = [world.roster.party(name) for name in world.names]
    counted = [verify_from(*pair, BatchHeader).records for pair in zip(route, headers, strict=True)]
    assert counted == [5 * messages + DUMMIES, 5 * messages + 2 * DUMMIES]
    sent = Counter(message for submission in submissions for message in submission.messages)
    board = Counter(world.board(round_))
    assert sent <= board
    assert (board - sent).total() == 2 * DUMMIES
    arguments = (headers, route, round_.round_id, messages, 5)
    assert check_headers(*arguments, dummies_per_node=DUMMIES) == 0
    with pytest.raises(CountMismatchError, match="dummies"):
        check_headers(*arguments)


async def test_a_node_that_mixes_again_after_a_crash_adds_the_same_dummies(world: World) -> None:
    await world.start("node-1")
    await world.start("node-2")
    round_ = await world.open()
    for _ in range(3):
        await world.submit(world.submission(round_))
    folder = world.folder / "state" / "node-1" / "rounds" / round_.round_id
    terms = world.running["node-1"].node.rounds()[0].require_terms()
    # As a process leaves it that ended between drawing and mixing.
    layers = LayersBehind(terms.geometry, round_.round_id, 1, terms.public_keys)
    await make_dummies(folder / "dummies", SPEC, layers, SealHere(1))
    drawn = (folder / "dummies").read_bytes()
    await world.stop("node-1")
    await world.hang_up()
    await world.start("node-1")
    await world.start_analyst()
    incoming = world.folder / "state" / "node-2" / "rounds" / round_.round_id / "incoming"
    seen: list[bytes] = []
    live = world.running["node-2"].node.rounds()[0]
    commit = live.folder.take_incoming

    def take(upload: Path, record: object) -> None:
        seen.append(upload.read_bytes())
        commit(upload, record)  # type: ignore[arg-type]

    live.folder.take_incoming = take  # type: ignore[method-assign]
    await world.close_round("node-1", round_.round_id)
    assert (await world.ended("node-2", round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    assert not incoming.exists()
    width = round_.geometry.record_bytes(2)
    relayed = {seen[0][start : start + width] for start in range(0, len(seen[0]), width)}
    own = {drawn[start : start + width] for start in range(0, len(drawn), width)}
    assert len(own) == DUMMIES
    assert own <= relayed
    header = from_json(world.record("node-1", round_.round_id).outgoing.body, BatchHeader)  # type: ignore[union-attr]
    assert header.records == 3 * round_.geometry.messages_per_user + DUMMIES
