"""Rounds that are mixed on a real Ray cluster: a head and two workers, of which one is killed.

`make test-ray`.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from shuffler_world import World

from shuffledp_core.errors import BadBatchError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.cluster.driver import ClusterFault
from shuffledp_shuffler.cluster.engine import RayEngine
from shuffledp_shuffler.mixing import MixResult
from shuffledp_shuffler.peel_worker import Layer
from shuffledp_sim.system.ray_cluster import RayCluster, RayNode

pytestmark = pytest.mark.ray

BEFORE = "2.59.0"
"""A release of Ray that is not the one in uv.lock."""

UV = os.environ.get("UV") or shutil.which("uv") or ".tools/bin/uv"

RECORDS = 12_000
WIDE = RRShuffle(max_value=600, randomise=Fraction(1, 4))
"""600 messages a user."""


@pytest.fixture(scope="module")
def started() -> Iterator[RayCluster]:
    import ray.util

    # Not pytest's own folder: Ray's sockets are below it, and names of sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="sdp-ray-"))
    cluster = RayCluster(folder, ray.util.get_node_ip_address())
    try:
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(started: RayCluster) -> RayCluster:
    """The cluster with all its workers, whatever the test before did to it."""
    started.start_missing()
    return started


class Batch:
    """A batch of real onions at position 2, of which two are equal and one does not open."""

    def __init__(self, folder: Path) -> None:
        suite = suite_named("sealed-box")
        private, public = suite.generate()
        self.layer = Layer(
            Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1),
            "r",
            2,
            private,
        )
        seal = suite.sealer(public, binding("r", 2))
        self.records = [os.urandom(self.layer.geometry.record_bytes(3)) for _ in range(RECORDS)]
        onions = [seal(record) for record in self.records]
        onions[-1], onions[RECORDS // 2] = onions[0], os.urandom(self.layer.unit_bytes)
        self.left = [
            record
            for place, record in enumerate(self.records)
            if place not in (RECORDS - 1, RECORDS // 2)
        ]
        self.source, self.target = folder / "incoming", folder / "outgoing"
        self.source.write_bytes(b"".join(onions))
        self.progress: list[int] = []

    async def mix(
        self, engine: RayEngine, allowed: Callable[[int], None] = lambda _: None
    ) -> MixResult:
        return await engine.mix(
            self.layer,
            RECORDS,
            self.source,
            self.target,
            os.urandom,
            self.progress.append,
            allowed=allowed,
        )

    def sent(self) -> list[bytes]:
        data, width = self.target.read_bytes(), self.layer.geometry.record_bytes(3)
        return [data[start : start + width] for start in range(0, len(data), width)]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


async def test_a_round_is_mixed_on_a_cluster_and_the_next_hop_takes_it(
    cluster: RayCluster, world: World
) -> None:
    """Both nodes mix there, the entry node envelopes and the other onions."""
    await world.start_analyst()
    await world.start("node-1", engine=cluster.engine())
    await world.start("node-2", engine=cluster.engine())
    round_ = await world.open(WIDE)
    submissions = [world.submission(round_) for _ in range(10)]
    await asyncio.gather(*(world.submit(submission) for submission in submissions))
    await world.close_round("node-1", round_.round_id)
    for name in world.names:
        status = await world.ended(name, round_.round_id)
        assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason
    assert sorted(world.board(round_)) == sorted(
        message for submission in submissions for message in submission.messages
    )


async def test_a_worker_killed_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    cluster: RayCluster, batch: Batch
) -> None:
    """Killed when all is opened and nothing ordered yet: what it kept has to be made again."""
    told: list[int] = []

    def kill(dropped: int) -> None:
        told.append(dropped)
        if len(told) == 1:
            cluster.workers[0].kill()

    mixed = await batch.mix(RayEngine(cluster.engine()), kill)
    assert told == [1, 2]
    assert (mixed.records, mixed.dropped) == (RECORDS - 2, 2)
    assert Counter(batch.sent()) == Counter(batch.left)
    assert batch.progress[-1] == RECORDS
    assert batch.sent() != batch.left


async def test_too_many_dropped_ends_it_before_anything_is_written(
    cluster: RayCluster, batch: Batch
) -> None:
    def refuse(dropped: int) -> None:
        raise BadBatchError(f"{dropped} are too many")

    with pytest.raises(BadBatchError, match="1 are too many"):
        await batch.mix(RayEngine(cluster.engine()), refuse)
    assert not batch.target.exists()


async def test_strangers_are_told_what_to_do_and_not_let_in(
    cluster: RayCluster, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64)
    token.chmod(0o600)
    with pytest.raises(ClusterFault, match="compare the token"):
        await RayEngine(cluster.engine(token=token)).check()
    (tmp_path / "other").mkdir()
    other = RayCluster(tmp_path / "other", cluster.ip)
    with pytest.raises(ClusterFault, match="compare the certificates"):
        await RayEngine(cluster.engine(authority=other.folder / "ca.pem", wait_seconds=0.1)).check()
    with pytest.raises(ClusterFault, match="start it, or correct"):
        await RayEngine(cluster.engine(address=other.address, wait_seconds=0.1)).check()
    await RayEngine(cluster.engine()).check()


@pytest.fixture
def older(tmp_path: Path) -> Iterator[RayCluster]:
    """The head of a cluster of the release before, from an environment of its own."""
    import ray.util

    python = tmp_path / "bin" / "python"
    subprocess.run(
        [UV, "venv", "--quiet", "--python", sys.executable, "--allow-existing", tmp_path],
        check=True,
    )
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--python", python, f"ray=={BEFORE}"], check=True
    )
    folder = Path(tempfile.mkdtemp(prefix="sdp-ray-"))
    cluster = RayCluster(
        folder, ray.util.get_node_ip_address(), beside=0, program=python.parent / "ray"
    )
    try:
        cluster.start_missing()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def agent_port(machine: RayNode) -> int:
    """The port on which a machine's runtime-env agent listens."""
    processes = [
        stat.parent
        for stat in Path("/proc").glob("[0-9]*/stat")
        if _group(stat) == machine.process.pid
    ]
    [agent] = [
        each
        for each in processes
        if (each / "cmdline").read_bytes().startswith(b"ray::RuntimeEnvAgent")
    ]
    sockets = {link.readlink().name[len("socket:[") : -1] for link in (agent / "fd").iterdir()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    [address] = [fields[1] for fields in lines if fields[3] == "0A" and fields[9] in sockets]
    return int(address.partition(":")[2], 16)


def _group(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[2])
    except OSError:  # it ended meanwhile
        return 0


async def test_the_runtime_env_agent_speaks_plain_http_and_wants_the_token(
    cluster: RayCluster,
) -> None:
    """What docs/how-to/several-machines.md, says of this port, which Ray cannot protect by
    TLS."""
    assert cluster.head is not None
    port = agent_port(cluster.head)

    def ask(**headers: str) -> int:
        with closing(http.client.HTTPConnection(cluster.ip, port, timeout=240)) as connection:
            connection.request("POST", "/get_runtime_envs_info", headers=headers)
            with connection.getresponse() as response:
                return response.status

    assert await asyncio.to_thread(ask) == 401
    assert await asyncio.to_thread(ask, Authorization="Bearer " + "0" * 64) in {401, 403}
    assert await asyncio.to_thread(ask, Authorization=f"Bearer {cluster.token.read_text()}") == 200


async def test_a_head_of_another_version_is_named_with_what_to_install(older: RayCluster) -> None:
    import ray

    assert ray.__version__ != BEFORE
    with pytest.raises(
        ClusterFault, match=f"another version than this node, which has Ray {ray.__version__}"
    ):
        await RayEngine(older.engine()).check()


async def test_a_head_that_is_gone_fails_it_with_advice_and_mixing_again_succeeds(
    cluster: RayCluster, batch: Batch
) -> None:
    def kill(_: int) -> None:
        assert cluster.head is not None
        cluster.head.kill()

    engine = RayEngine(cluster.engine(wait_seconds=120.0))
    with pytest.raises(ClusterFault, match="start them again"):
        await batch.mix(engine, kill)
    assert not batch.target.exists()
    again = asyncio.create_task(batch.mix(engine))
    await asyncio.to_thread(cluster.start_missing)
    assert (await again).records == RECORDS - 2
    assert Counter(batch.sent()) == Counter(batch.left)
