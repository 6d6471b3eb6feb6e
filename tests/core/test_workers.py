"""Processes of a pool end with a parent that has no time to say so."""

import os
import select
import signal
import subprocess
import sys

import pytest

POOLS = {
    "core": (
        "from concurrent.futures import ProcessPoolExecutor; from multiprocessing import "
        "get_context; from shuffledp_core.runtime.workers import begin; pool = "
        "ProcessPoolExecutor(1, mp_context=get_context('spawn'), initializer=begin)"
    ),
    "sealing": "from shuffledp_sim.users.sealing import sealing_pool; pool = sealing_pool()",
    "peeling": (
        "from shuffledp_shuffler.peeling import PeelPool; pool = PeelPool(1)._running_pool()"
    ),
}


@pytest.mark.parametrize("made", POOLS.values(), ids=POOLS)
def test_a_worker_ends_when_its_parent_is_killed(made: str) -> None:
    code = (
        f"import os, sys; {made}; print(pool.submit(os.getpid).result(), flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended = select.poll()
    ended.register(worker, select.POLLIN)
    gone = ended.poll(30_000)
    if not gone:
        signal.pidfd_send_signal(worker, signal.SIGKILL)
    os.close(worker)
    assert gone, "the worker is still there half a minute after its parent"


def test_a_pool_shuts_down_although_a_worker_was_killed_with_tasks_waiting() -> None:
    """Each task is larger than a pipe holds, so that one is half written when its reader dies."""
    code = (
        "import os, signal\n"
        "from multiprocessing import get_context\n"
        "from shuffledp_core.runtime.workers import WorkerPool, begin\n"
        "pool = WorkerPool(1, mp_context=get_context('spawn'), initializer=begin)\n"
        "worker = pool.submit(os.getpid).result()\n"
        "os.kill(worker, signal.SIGSTOP)\n"  # so that nothing is read before the end
        "tasks = [pool.submit(len, bytes(2**20)) for _ in range(3)]\n"
        "os.kill(worker, signal.SIGKILL)\n"
        "print(*(type(task.exception()).__name__ for task in tasks), flush=True)\n"
        "pool.shutdown()\n"
        "print('ended')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.split() == ["BrokenProcessPool"] * 3 + ["ended"]
