"""A deployment whose node 2 mixes on a Ray cluster in containers, one of which is killed meanwhile.

`make test-ray`.
"""

import re
import time
from collections.abc import Iterator

import pytest
from composed import Composed, run, until, why_no_docker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

USERS = 4000
AT_WORK = re.compile(r"ray::(?!IDLE)")
"""How Ray names a process that runs a task."""


@pytest.fixture(scope="module")
def clustered() -> Iterator[Composed]:
    """A deployment with the overlay `ray`, whose tasks are so small that a batch takes many."""
    if reason := why_no_docker("cluster"):
        pytest.skip(reason)
    environment = {
        "OVERLAYS": "ray",
        "FLEET_USERS": str(USERS),
        "RAY_TASK_MEMORY": str(2**20),
        "VOLUMES": "1",
    }
    composed = Composed("shuffledp-ray", environment)
    composed.remove()
    try:
        composed.make("up")
        yield composed
    finally:
        composed.remove()


def workers(composed: Composed) -> int:
    """Machines with a processor that the head counts."""
    code = (
        "import ray; ray.init('auto', log_to_driver=False); "
        "print(int(ray.cluster_resources().get('CPU', 0)))"
    )
    return int(composed.python("node-2", code).split()[-1])


def test_a_round_is_whole_though_a_worker_is_killed_while_it_mixes(clustered: Composed) -> None:
    until(lambda: workers(clustered) == 2, "both workers have joined")
    with clustered.making("round") as playing:
        worker = clustered.container("ray-2")
        processes = ["docker", "top", worker, "-o", "pid,args"]
        until(lambda: AT_WORK.search(run(processes)) is not None, "a task runs on ray-2")
        run(["docker", "kill", worker])
        killed = time.time()
        printed, errors = playing.communicate(timeout=900)
    assert playing.returncode == 0, errors
    assert f"{USERS:,} users" in printed
    clustered.until_logged(clustered.container("node-2"), "round relayed", killed)  # not before
    assert workers(clustered) == 1


def test_a_killed_worker_that_comes_back_is_used_again(clustered: Composed) -> None:
    run(["docker", "start", clustered.container("ray-2")])
    until(lambda: workers(clustered) == 2, "the worker is back")
    assert f"{USERS:,} users" in clustered.make("round")


def test_nobody_but_the_node_and_its_workers_is_in_the_clusters_network_or_has_its_token(
    clustered: Composed,
) -> None:
    names = {"node-2", "ray-1", "ray-2"}
    everyone = set(clustered.compose("ps", "--services").split())
    assert names < everyone
    for service in sorted(everyone - {"ray-keys", "operator", "keys"}):
        found = clustered.inspect(service)
        networks = set(found["NetworkSettings"]["Networks"])
        mounts = {mount.get("Name", "") for mount in found["Mounts"]}
        assert (("shuffledp-ray_ray" in networks) and "shuffledp-ray_keys-ray" in mounts) == (
            service in names
        ), service
