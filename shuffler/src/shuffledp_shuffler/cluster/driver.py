"""The process that directs a node's Ray cluster for one mixing.

If this process dies, the node goes on.

It is a separate process because Ray kills a driver that loses the head, and because Ray reads its
secrets from the environment. It gets a job and a pipe, reports its progress through the pipe, asks
for permission before it writes, and exits.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import ConfigError, NodeFault, ShuffleDPError
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.files import commit_part, open_part
from shuffledp_core.runtime.workers import begin
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_shuffler.cluster.messages import (
    DroppedMessage,
    EndMessage,
    FailureMessage,
    PeeledMessage,
    StageMessage,
)
from shuffledp_shuffler.cluster.tasks import (
    DISTRIBUTION,
    bucketful,
    open_block,
    read_range,
    repeats,
)
from shuffledp_shuffler.cluster.work import ENTRY, Job, Sum, by_buckets, opened_bucket, sum_of
from shuffledp_shuffler.metrics import CHECK, PEEL, PERMUTE
from shuffledp_shuffler.peeling import WorkersLost

RETRIES: Final = 5
"""How often Ray runs a task again when the machine that ran it is lost."""

_HANDSHAKE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 1.0
"""Interval in seconds at which the head and the workers are looked for."""


class ClusterFault(WorkersLost):
    """The cluster, or one of its machines, failed or does not answer.

    The work on disk is intact and can be done again.
    """


@dataclass(frozen=True)
class ClusterJob:
    """A job and its files: the packed units to read, and the file for the records."""

    job: Job
    source: Path
    target: Path


def drive(pipe: Connection, config: EngineConfig, work: ClusterJob | None) -> None:
    """Run in a process of its own: mix or, without `work`, only check that the cluster answers."""
    begin()
    # Ray says much, and names of files and addresses with it; what a node should know comes through
    # the pipe.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        with Cluster(config) as cluster:
            pipe.send(EndMessage() if work is None else Mixing(cluster, work, pipe).run())
    except ShuffleDPError as error:
        pipe.send(FailureMessage(error))
    except OSError as error:
        pipe.send(FailureMessage(NodeFault(f"the disk of this node failed: {error.strerror}")))


class Cluster:
    """A connection to the cluster's head, with Ray's errors as typed ones. A context manager."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._deadline = time.monotonic() + config.wait_seconds
        self.ray: Any = None

    def __enter__(self) -> Self:
        config = self._config
        while (reason := _find_head_trouble(config)) and time.monotonic() < self._deadline:
            time.sleep(_LOOK_SECONDS)
        if reason:
            raise ClusterFault(reason)
        os.environ |= _environment(config)
        try:
            import ray  # after its environment, which it reads once
        except ImportError as error:
            raise ConfigError(
                "`[engine] kind` is ray, which is not installed: shuffledp-shuffler[ray]"
            ) from error
        self.ray = ray
        try:
            ray.init(address=config.address, log_to_driver=False, configure_logging=False)
        # RuntimeError for another version; for a head that does not let us in ConnectionError, and
        # more; SystemExit where Ray gives up otherwise.
        except (Exception, SystemExit) as error:
            if "ersion mismatch" in str(error):
                raise ClusterFault(
                    f"the Ray head at {config.address} runs another version than this node, "
                    f"which has Ray {ray.__version__}: install the same Ray and Python on all "
                    "machines"
                ) from error
            raise ClusterFault(
                f"the Ray head at {config.address} does not admit this node: compare the tokens, "
                "and start Ray on this machine, too (docs/how-to/several-machines.md)"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.ray is not None:
            self.ray.shutdown()

    def processors(self) -> int:
        """Number of processors of all workers together; waits for the first worker.

        Raises `ClusterFault` if no worker comes in time.
        """
        while not (count := int(self.ray.cluster_resources().get("CPU", 0))):
            if time.monotonic() > self._deadline:
                raise ClusterFault(
                    f"the Ray cluster at {self._config.address} has no worker: start Ray on at "
                    "least one machine"
                )
            time.sleep(_LOOK_SECONDS)
        return count

    def wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        """Wait for one task; return it and the others.

        Raises `ClusterFault` if none ends in time.
        """
        done, others = self.ray.wait(
            refs, num_returns=1, timeout=self._config.stall_seconds, fetch_local=False
        )
        if not done:
            raise self._stall_fault()
        return done, others

    def _stall_fault(self) -> ClusterFault:
        return ClusterFault(
            f"the Ray cluster at {self._config.address} finished no task in "
            f"{self._config.stall_seconds:g} seconds: see `ray status` there, or raise `[engine] "
            "stall_seconds`"
        )

    def get(self, refs: Any) -> Any:
        """Fetch the results of tasks, and raise their errors as this program's types."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(refs, timeout=self._config.stall_seconds)
        except errors.GetTimeoutError as error:
            raise self._stall_fault() from error
        except errors.RayTaskError as error:
            raise _task_failed(error.cause) from error
        except errors.RayError as error:
            raise ClusterFault(
                f"the Ray cluster at {self._config.address} lost work that it cannot repeat "
                f"({type(error).__name__}): see `ray status` there; if a machine is short of "
                "memory, lower `[engine] task_memory`"
            ) from error


class Mixing:
    """One run of a job on a cluster: the steps of docs/protocol.md, "Mixing", each by tasks."""

    opens: Callable[..., Any] = staticmethod(open_block)
    """The task that opens a block; a benchmark replaces it by one without public-key work."""

    def __init__(self, cluster: Cluster, work: ClusterJob, pipe: Connection) -> None:
        self._cluster = cluster
        self._pipe = pipe
        self._job, self._source, self._target = work.job, work.source, work.target
        self._most = 2 * cluster.processors() + 1  # one task at work and one waiting for each
        self._in = Sum()
        self._dropped = 0
        remote = cluster.ray.remote
        here = cluster.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            cluster.ray.get_runtime_context().get_node_id(), soft=False
        )
        job = self._job
        # A task, not a value put into the cluster: it can be done again, too. The disk with the
        # batch is here.
        self._read = remote(read_range).options(
            num_cpus=0, scheduling_strategy=here, max_retries=RETRIES
        )
        self._split = remote(self.opens).options(
            num_returns=1 + job.groups + job.buckets,
            scheduling_strategy="SPREAD",
            max_retries=RETRIES,
        )
        self._again = remote(repeats).options(max_retries=RETRIES)
        self._ordered = remote(bucketful).options(num_returns=2, max_retries=RETRIES)

    def run(self) -> EndMessage:
        """Run all steps; the target is complete afterwards, or absent."""
        began = time.perf_counter()
        groups, buckets = self._open_blocks()
        self._pipe.send(StageMessage(PEEL, time.perf_counter() - began))
        began = time.perf_counter()
        left_out = self._find_repeated(groups)
        groups.clear()  # the cluster forgets them
        self._pipe.send(StageMessage(CHECK, time.perf_counter() - began))
        began = time.perf_counter()
        digest, written = self._write_target(buckets, left_out)
        self._pipe.send(StageMessage(PERMUTE, time.perf_counter() - began))
        return EndMessage(digest, written.records, self._dropped)

    def _open_blocks(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Open all blocks; return references to the parts of groups and of buckets, by block."""
        job, width, release = self._job, self._job.layer.unit_bytes, version(DISTRIBUTION)
        waiting: dict[Any, int] = {}
        groups, buckets = [], []
        done = 0

        def collect() -> None:
            nonlocal done
            (ready,), _ = self._cluster.wait(list(waiting))
            units = waiting.pop(ready)
            self._in += self._cluster.get(ready)
            done += units * job.layer.records_per_unit
            self._pipe.send(PeeledMessage(done))

        for block in range(job.blocks):
            if len(waiting) >= self._most:
                collect()
            start = block * job.block
            end = min(start + job.block, job.units)
            packed = self._read.remote(str(self._source), start * width, end * width)
            summed, *parts = self._split.remote(release, job, block, packed)
            waiting[summed] = end - start
            groups.append(parts[: job.groups])
            buckets.append(parts[job.groups :])
        while waiting:
            collect()
        self._drop(job.records - self._in.records)
        return groups, buckets

    def _find_repeated(self, groups: list[list[Any]]) -> list[NDArray[np.void]]:
        """Find the repeated records, which are left out, by bucket."""
        job = self._job
        tasks = (
            self._again.remote(job, group, *(parts[group] for parts in groups))
            for group in range(job.groups)
        )
        repeated = [np.empty(0, dtype=ENTRY)]
        for entries in self._in_turn(tasks):
            repeated.append(entries)
            if len(entries):
                self._drop(len(entries))
        return by_buckets(job, np.concatenate(repeated))

    def _write_target(
        self, buckets: list[list[Any]], left_out: list[NDArray[np.void]]
    ) -> tuple[str, Sum]:
        """Write the target file; return its digest, and the multiset of its records."""
        job = self._job
        digest = hashlib.sha256()
        out = Sum()
        written = Sum()
        tasks = (
            self._ordered.remote(
                job, bucket, left_out[bucket], *(parts[bucket] for parts in buckets)
            )
            for bucket in range(job.buckets)
        )
        with open_part(self._target) as file:
            for bucket, (dropped, sealed) in enumerate(self._in_turn(tasks)):
                records = opened_bucket(job, bucket, sealed)
                out += dropped
                written += sum_of(job, records)
                digest.update(records.data)
                file.write(records.data)
                for parts in buckets:
                    parts[bucket] = None  # the cluster forgets it
            if written + out != self._in or out.records != sum(map(len, left_out)):
                raise ClusterFault(
                    f"the Ray cluster returned {written.records} records, which are not the "
                    f"{self._in.records} that it received less {out.records} repeated ones: "
                    "nothing is forwarded"
                )
            commit_part(self._target, file)
        return digest.hexdigest(), written

    def _in_turn(self, tasks: Iterator[Any]) -> Iterator[Any]:
        """Run tasks, a few at a time, and yield their results in order."""
        window: deque[Any] = deque()
        for task in tasks:
            window.append(task)
            if len(window) >= self._most:
                yield self._cluster.get(window.popleft())
        while window:
            yield self._cluster.get(window.popleft())

    def _drop(self, more: int) -> None:
        """Ask the node whether `more` records may be dropped; if not, it kills this process."""
        self._dropped += more
        self._pipe.send(DroppedMessage(self._dropped))
        self._pipe.recv()


def _task_failed(cause: BaseException) -> ShuffleDPError:
    if isinstance(cause, NodeFault):
        return NodeFault(str(cause))
    if isinstance(cause, ImportError) or "failed to import" in str(cause):  # in Ray's words
        return ClusterFault(
            "a worker of the Ray cluster lacks this node's packages: install the same "
            "shuffledp-shuffler[ray] on it"
        )
    return ClusterFault(
        f"a task on the Ray cluster failed ({type(cause).__name__}): see Ray's logs there"
    )


def _environment(config: EngineConfig) -> dict[str, str]:
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(config.certificate),
        "RAY_TLS_SERVER_KEY": str(config.key),
        "RAY_TLS_CA_CERT": str(config.authority),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(config.token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }


def _find_head_trouble(config: EngineConfig) -> str | None:
    """The reason why no TLS server answers at the head's address; None if one does.

    Ray itself takes minutes to report it.
    """
    host, port = host_and_port(config.address)
    try:
        with (
            socket.create_connection((host, port), _HANDSHAKE_SECONDS) as plain,
            config.tls().wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLError as error:
        return (
            f"what listens at {config.address} is not a Ray head with a certificate of `[engine] "
            f"authority` for {host} ({error.reason or error.strerror}): set RAY_USE_TLS=1 there, "
            "and compare the certificates"
        )
    except OSError as error:
        return (
            f"no Ray head answers at {config.address} ({error.strerror or error}): start it, or "
            "correct `[engine] address`"
        )
