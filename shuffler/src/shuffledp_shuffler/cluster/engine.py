"""The node's side of mixing on a cluster: a driver process, followed through a pipe."""

from __future__ import annotations

import multiprocessing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeAlias

from shuffledp_core.errors import NodeFault
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_shuffler.cluster.driver import ClusterFault, ClusterJob, drive
from shuffledp_shuffler.cluster.messages import (
    DroppedMessage,
    EndMessage,
    FailureMessage,
    Message,
    PeeledMessage,
    StageMessage,
)
from shuffledp_shuffler.cluster.work import SECRET_BYTES, Job
from shuffledp_shuffler.mixing import DropCheck, Measured, MixResult
from shuffledp_shuffler.peel_worker import Layer

Drive: TypeAlias = Callable[[Connection, EngineConfig, ClusterJob | None], None]

_POLL_SECONDS: Final = 0.2


class RayEngine:
    """Mixes batches on the Ray cluster of the configuration."""

    def __init__(self, config: EngineConfig, drive: Drive = drive) -> None:
        """`drive`: the driver's entry point; measurements pass another one.

        Raises `ConfigError` if a file cannot be used.
        """
        config.check_files()
        self._config = config
        self._drive = drive

    async def check(self) -> None:
        """Connect once, to see whether the cluster works.

        Raises `ClusterFault`, whose message says what is wrong, or `ConfigError` if Ray is not
        installed.
        """
        async with self._driver_process(None) as pipe:
            await _receive(pipe)

    async def mix(
        self,
        layer: Layer,
        units: int,
        source: Path,
        target: Path,
        random: RandomBytes,
        progress: Callable[[int], None],
        measured: Measured = lambda _stage, _records, _seconds: None,
        allowed: DropCheck = lambda _: None,
    ) -> MixResult:
        """Peel and permute a batch as `mixing.mix` does, but on the cluster.

        The position of a record is never stored here.

        Raises:
            ClusterFault: the cluster, or one of its machines, failed; mixing can be tried again.
            NodeFault: lost data, or too little `task_memory` for so large a batch.
            ShuffleDPError: what `allowed` raises.
        """
        if (await in_thread(source.stat)).st_size < units * layer.unit_bytes:
            raise NodeFault(
                f"{source.name} of round {layer.round_id} lost data on this node's disk"
            )
        # Fresh for every attempt: what an earlier one sealed and ordered has nothing to do with
        # this one.
        job = Job(layer, units, self._config.task_memory, random(SECRET_BYTES))
        stages: list[StageMessage] = []
        async with self._driver_process(ClusterJob(job, source, target)) as pipe:
            while not isinstance(message := await _receive(pipe), EndMessage):
                if isinstance(message, PeeledMessage):
                    progress(message.records)
                elif isinstance(message, DroppedMessage):
                    allowed(message.records)
                    with suppress(OSError):  # that it died is said at the end of the pipe
                        pipe.send(None)
                elif isinstance(message, StageMessage):
                    stages.append(message)
        for stage in stages:
            measured(stage.name, job.records, stage.seconds)
        return MixResult(message.digest, message.records, message.dropped)

    @asynccontextmanager
    async def _driver_process(self, work: ClusterJob | None) -> AsyncIterator[Connection]:
        """Context with a running driver process, which yields the node's end of the pipe.

        The process and all its tasks are killed when the block ends.
        """
        context = multiprocessing.get_context(
            "spawn"
        )  # a fork would copy gRPC's threads, locks and sockets
        ours, theirs = context.Pipe()
        process = context.Process(
            target=self._drive, args=(theirs, self._config, work), daemon=True
        )
        try:
            await in_thread(process.start)
            theirs.close()  # so that the end of the process is the end of the pipe
            yield ours
        finally:
            ours.close()
            theirs.close()
            if process.pid is not None:  # it was started
                process.kill()
                await in_thread(process.join)


async def _receive(pipe: Connection) -> Message:
    try:
        # By short waits: a cancellation waits for the end of one.
        while not await in_thread(pipe.poll, _POLL_SECONDS):
            pass
        message: Message = pipe.recv()
    except (EOFError, OSError) as error:
        raise ClusterFault(
            "the process that directs the Ray cluster died; Ray ends it when the head, or Ray "
            "on this machine, is gone: see `ray status`, and start them again"
        ) from error
    if isinstance(message, FailureMessage):
        raise message.error
    return message
