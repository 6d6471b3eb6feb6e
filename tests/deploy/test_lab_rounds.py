"""Labs 3, 4 and 6 on the deployment in containers, with the reference solutions for students.

Needs an engine.

One deployment, changed from test to test by its overlays as the guide does it; each test says which
it wants."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from composed import REPOSITORY, Composed, run

from shuffledp_sim.system.ports import Ports

pytestmark = pytest.mark.docker

SOLUTIONS = REPOSITORY / "labs" / "solutions"
USERS = 40
MESSAGES = 3
ACCOUNTS = 4
OPEN = re.compile(r"round ([0-9a-f]{32}) is open for ")


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Composed]:
    with Ports(3) as ports:  # let go at once: the engine refuses a port that anybody holds
        node, analyst, broker = ports.numbers
    environment = {
        "DEVICES_ADDRESS": "127.0.0.1",
        "NODE_1_PORT": str(node),
        "ANALYST_PORT": str(analyst),
        "BROKER_PORT": str(broker),
        "FLEET_USERS": str(USERS),
        "LAB_WORK": str(SOLUTIONS / "lab03.py"),
        "VOLUMES": "1",
    }
    deployment = Composed("shuffledp-labs", environment)
    everything(deployment).remove()
    try:
        yield deployment
    finally:
        everything(deployment).remove()


def overlaid(deployment: Composed, overlays: str, **more: str) -> Composed:
    return Composed(deployment.project, {**deployment.environment, "OVERLAYS": overlays, **more})


def everything(deployment: Composed) -> Composed:
    """With the volumes of every overlay."""
    return overlaid(deployment, "devices corrupt student")


def sums(deployment: Composed) -> dict[str, Any]:
    """A round of the fleet's people, three messages each."""
    options = ("--mechanism", "rr-shuffle", "--max-value", str(MESSAGES), "--epsilon", "4")
    return deployment.round(*options)


def replayed(deployment: Composed, answer: dict[str, Any], folder: Path) -> dict[str, int]:
    """What the solution of lab 4 makes of the logs of a round."""
    deployment.script("class.sh", "logs", str(folder))
    module = [sys.executable, "-m", "shuffledp_labs.lab04_onion.replay"]
    documents = REPOSITORY / "out" / answer["round"]
    said = run([*module, str(SOLUTIONS / "lab04.py"), str(documents), "--logs", str(folder)])
    numbers = [int(number) for number in re.findall(r"\d+", said)]
    return dict(zip(("messages", "proved", "claimed", "alike"), numbers, strict=True))


def test_a_class_is_asked_and_one_of_it_is_surrounded(laboratory: Composed, tmp_path: Path) -> None:
    """Lab 6, by `make lab-server` and `make lab-round`."""
    bundles = REPOSITORY / "out" / "class"
    shutil.rmtree(bundles, ignore_errors=True)
    people = tmp_path / "class.csv"
    names = ["victim", *(f"eve-{number}" for number in range(ACCOUNTS))]
    people.write_text("\n".join(["name", *names]) + "\n")
    deployment = overlaid(laboratory, "devices", CLASS=str(people), HOST="127.0.0.1")
    try:
        deployment.make("lab-server")
        client = [sys.executable, "-m", "shuffledp_client.cli"]
        run([*client, "import", str(bundles / "victim.bundle"), str(tmp_path / "victim")])
        with deployment.making("lab-round", OPTIONS="--format json") as opened:
            assert opened.stderr is not None
            round_id = next(found[1] for line in opened.stderr if (found := OPEN.match(line)))
            config = str(tmp_path / "victim" / "client.toml")
            run([*client, "submit", "--config", config, "--value", "2", "--round", round_id])
            flooding = [
                sys.executable,
                "-m",
                "shuffledp_labs.lab06_surrounded.flooding",
                str(SOLUTIONS / "lab06.py"),
            ]
            said = run([*flooding, *(str(bundles / f"{name}.bundle") for name in names[1:])])
            out, rest = opened.communicate(timeout=300)
    finally:
        shutil.rmtree(bundles, ignore_errors=True)
    assert opened.returncode == 0, rest
    assert json.loads(out.strip().splitlines()[-1])["accepted"] == ACCOUNTS + 1
    board, sent, left = (
        tuple(int(count) for count in group.split(", "))
        for group in re.findall(r"\(([\d, ]+)\)", said)
    )
    assert sent == (ACCOUNTS, 0, 0, 0)
    assert sum(board) == ACCOUNTS + 1
    # One message is left, the victim's; with all values alike the best guess is what it says.
    assert sum(left) == 1
    assert f"one of them holds {left.index(1)}," in said
    run([*client, "verify", "--config", config])


def test_a_student_s_node_takes_part_and_two_logs_prove_nothing(
    laboratory: Composed, tmp_path: Path
) -> None:
    """Lab 3, and lab 4 with one honest node."""
    deployment = overlaid(laboratory, "corrupt student")
    deployment.make("up")
    answer = sums(deployment)
    assert answer["accepted"] == USERS
    assert answer["corrupt_nodes"] == [
        1,
        2,
        3,
    ]  # by its own word node 2 is, too: it runs other code than ours
    seen = replayed(deployment, answer, tmp_path / "logs")
    assert seen == {"messages": USERS * MESSAGES, "proved": 0, "claimed": 0, "alike": 0}
    assert {place.name for place in (tmp_path / "logs").iterdir()} == {"node-1", "node-3"}


def test_with_all_logs_every_message_has_a_sender(laboratory: Composed, tmp_path: Path) -> None:
    """Lab 4 where no node is honest."""
    deployment = overlaid(laboratory, "corrupt")
    deployment.make("up")
    answer = sums(deployment)
    seen = replayed(deployment, answer, tmp_path / "logs")
    assert set(seen.values()) == {USERS * MESSAGES}
