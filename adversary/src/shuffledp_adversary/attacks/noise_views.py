"""Views of an adversary who controls everyone but one user and one mix node.

The noise of a round whose nodes add dummies is then one node's. These rounds run the client's
encoder and the shuffler's own functions for that node: `make_dummies`, and `mixing.mix` on files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.attacks.exchange.tampering import split_records
from shuffledp_adversary.attacks.views import Views
from shuffledp_adversary.in_process import fresh_route
from shuffledp_client.encoding import encode
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import peel, seal_records
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.dummies import make_dummies
from shuffledp_shuffler.mixing import mix
from shuffledp_shuffler.peel_worker import Layer, LayersBehind
from shuffledp_shuffler.peeling import ItemT, PeelPool, ResultT

HOPS: Final = 3
HONEST_POSITION: Final = 2
"""Between a malicious entry node and a malicious last one, so that dummies are sealed, too."""

COLLUDING: Final = 4
"""Users beside the victim; the adversary takes their messages away again."""

_SYMBOLS: Final = 2
"""Counts in a view: those of symbols 0 and 1, which the victim's change moves."""


@dataclass(frozen=True, slots=True)
class HonestNode:
    """The only node that the adversary does not control, with or without its noise.

    Attributes:
        mechanism: the certified mechanism of the round.
        law: the mechanism whose law the node's dummies have; None for a node that adds none. An
            honest node's is `mechanism`.
    """

    mechanism: Mechanism
    law: Mechanism | None


def play_surrounded_rounds(node: HonestNode, value: int, count: int) -> Views:
    """Play rounds in which only the victim and this node are honest.

    The adversary delivers the victim's onions and its own users' to the node, decrypts the output,
    and takes its own messages away.

    Args:
        node: the node.
        value: value of the victim; the colluding users hold the largest value of the domain.
        count: rounds, each with fresh keys, onions and dummies.

    Returns:
        For each round the remaining numbers of symbols 0 and 1, and the symbol of the record that
        is first in the node's output.
    """
    with TemporaryDirectory() as folder:
        return asyncio.run(_play_rounds(node, value, count, Path(folder)))


def rank_views(
    first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the views of two datasets, equal views equally, for `evidence.epsilon_bound`.

    Args:
        first: shape (rounds, 3), from `play_surrounded_rounds`.
        second: as `first`, of the neighbouring dataset.

    Returns:
        Shape (rounds,) each, in the order of how many more messages have symbol 1 than 0.
    """
    views = np.concatenate((first, second))
    ordered = np.column_stack((views[:, 1] - views[:, 0], views))
    _, codes = np.unique(ordered, axis=0, return_inverse=True)
    numbered = codes.ravel().astype(np.int64)
    return numbered[: len(first)], numbered[len(first) :]


class _PeelHere(PeelPool):
    """A pool that peels and seals in this process, which is one of many workers."""

    async def map(
        self,
        work: Callable[[ItemT], ResultT],
        items: Iterable[ItemT],
        store: Callable[[ResultT], Awaitable[None]],
    ) -> None:
        for item in items:
            await store(work(item))


class _RunHere(ThreadPoolExecutor):
    """An executor that runs the blocking steps of `mix` in this thread.

    There are twenty in a round, and nothing else to do meanwhile. Handing each of them to another
    thread took a fifth of the time.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`; the call has ended when this returns."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            done.set_exception(error)
        return done


async def _play_rounds(node: HonestNode, value: int, count: int, folder: Path) -> Views:
    pool = _PeelHere(1)
    asyncio.get_running_loop().set_default_executor(_RunHere(1))
    return [await _play_round(node, value, folder, pool) for _ in range(count)]


async def _play_round(node: HonestNode, value: int, folder: Path, pool: PeelPool) -> list[int]:
    spec = node.mechanism
    geometry = Geometry.of(spec, "sealed-box", HOPS)
    route = fresh_route(geometry)
    keys = tuple(public for _, public in route)
    round_id = os.urandom(16).hex()
    victim = _messages(spec, geometry, value)
    others = [
        message for _ in range(COLLUDING) for message in _messages(spec, geometry, spec.domain - 1)
    ]
    plain = [*victim, *others]
    source, target, dummies = folder / "incoming", folder / "outgoing", folder / "dummies"
    sources = [os.urandom] * len(plain)
    onions = seal_records(geometry, round_id, keys, HONEST_POSITION - 1, plain, sources)
    source.write_bytes(b"".join(onions))
    if node.law is not None:
        layers = LayersBehind(geometry, round_id, HONEST_POSITION, keys)
        await make_dummies(dummies, node.law, layers, pool)
    layer = Layer(geometry, round_id, HONEST_POSITION, route[HONEST_POSITION - 1][0])
    added = None if node.law is None else dummies
    batch = Batch(layer, len(plain), source, target, added)
    await mix(batch, pool, os.urandom, lambda _done: None)
    packed = target.read_bytes()
    dummies.unlink(missing_ok=True)
    for position in range(HONEST_POSITION + 1, HOPS + 1):
        packed = peel(geometry, round_id, position, route[position - 1][0], packed)
    return _view(geometry, split_records(packed, geometry.plain_bytes), others)


def _messages(spec: Mechanism, geometry: Geometry, value: int) -> list[bytes]:
    """Plain messages of one user with this value."""
    return encode(geometry, spec, randomise(spec, value, RandomIntegers()), os.urandom)


def _view(geometry: Geometry, board: list[bytes], forged: list[bytes]) -> list[int]:
    """Counts of symbols 0 and 1 among others' records, and the symbol of the first record."""
    taken_away = set(forged)
    symbols = [
        int.from_bytes(message[: geometry.symbol_bytes], "big")
        for message in board
        if message not in taken_away
    ]
    return [*(symbols.count(symbol) for symbol in range(_SYMBOLS)), symbols[0]]
