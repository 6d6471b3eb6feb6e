"""Processes of a pool end with a parent that has no time to say so."""

import os
import select
import signal
import subprocess
import sys

import pytest

POOLS = {
    "core": (
        "from concurrent.futures import ProcessPoolExecutor; from multiprocessing import get_context; "
        "from shuffledp_core.workers import begin; "
        "pool = ProcessPoolExecutor(1, mp_context=get_context('spawn'), initializer=begin)"
    ),
    "sealing": "from shuffledp_sim.users.sealing import sealing_pool; pool = sealing_pool()",
    "peeling": "from shuffledp_shuffler.peeling import PeelPool; pool = PeelPool(1)._started()",
}


@pytest.mark.parametrize("made", POOLS.values(), ids=POOLS)
def test_a_worker_ends_when_its_parent_is_killed(made: str) -> None:
    code = f"import os, sys; {made}; print(pool.submit(os.getpid).result(), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
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
