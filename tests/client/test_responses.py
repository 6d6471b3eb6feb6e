"""Responses that a device keeps: drawn once, whatever comes later, and never in the place of a
damaged one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, Draft, make_deployment, make_members
from sampler_laws import exhausted, report_law, response_law

from shuffledp_client import responses
from shuffledp_client.responses import ResponseStore
from shuffledp_client.submission import prepare
from shuffledp_client.verification import verify_round
from shuffledp_core.errors import ClientPolicyRefusal, ConfigError, RoundStateError, UsageError
from shuffledp_core.mechanisms import RapporHistogram
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers

SPEC = RapporHistogram(
    symbols=3, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
)
SURE = RapporHistogram(
    symbols=31, fake=Fraction(1), when_zero=Fraction(1, 2**63), when_one=1 - Fraction(1, 2**63)
)
"""31 coins that a report shows as they are, but with probability 1e-17; two draws are the same with
5e-10.
"""


def refuse() -> int:
    raise AssertionError("another response was drawn")


def test_a_response_is_drawn_once_and_for_ever(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "responses", "home people")
    assert store.recall("a", lambda: 5) == 5
    assert store.recall("a", refuse) == 5
    assert ResponseStore(tmp_path / "responses", "home people").recall("a", refuse) == 5


def test_questions_and_populations_have_their_own(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, "home people")
    assert [
        store.recall(name, lambda number=number: number)  # type: ignore[misc]
        for number, name in enumerate("abc")
    ] == [0, 1, 2]
    assert ResponseStore(tmp_path, "home others").recall("a", lambda: 7) == 7
    assert store.recall("a", refuse) == 0


def test_reports_follow_the_kept_response_whatever_the_value_becomes(tmp_path: Path) -> None:
    recall, integers = ResponseStore(tmp_path, "home people").recall, RandomIntegers()
    reports = {randomise(SURE, value, integers, recall) for value in range(20)}
    assert len(reports) == 1
    # Without a memory they are of new coins each.
    assert len({randomise(SURE, 0, integers) for _ in range(20)}) > 1
    # Another question is another response; the same one with other p and q is not.
    assert randomise(SURE.about(1), 0, integers, recall) not in reports
    turned = RapporHistogram(
        symbols=31, fake=SURE.fake, when_zero=SURE.when_zero, when_one=Fraction(99, 100)
    )
    assert turned.response_name == SURE.response_name


def test_values_are_checked_although_they_are_not_used(tmp_path: Path) -> None:
    recall = ResponseStore(tmp_path, "home people").recall
    randomise(SPEC, 0, RandomIntegers(), recall)
    with pytest.raises(UsageError, match="from 0 to 2"):
        randomise(SPEC, 3, RandomIntegers(), recall)


@pytest.mark.parametrize("value", [0, 1])
def test_both_steps_have_their_laws_exactly(value: int) -> None:
    """All random choices, exhausted: what is kept, and what is reported of each response that may
    be kept."""
    spec = RapporHistogram(
        symbols=2, fake=Fraction(1, 2), when_zero=Fraction(1, 3), when_one=Fraction(3, 4)
    )
    kept, cut = exhausted(lambda integers: spec.remember(value, integers), Fraction(0))
    assert kept == response_law(spec, value)
    assert cut == 0
    total: Counter[int] = Counter()
    for response, weight in kept.items():
        reported, cut = exhausted(
            lambda integers, response=response: spec.report(response, integers),  # type: ignore[misc]
            Fraction(0),
        )
        assert cut == 0
        for report, chance in reported.items():
            total[report] += weight * chance  # type: ignore[assignment]
    assert total == report_law(spec, value)


def draw_in(folder: Path, number: int) -> int:
    return ResponseStore(folder, "home people").recall("a", lambda: number)


def test_of_many_processes_the_first_one_counts(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        found = set(pool.map(partial(draw_in, tmp_path / "responses"), range(40)))
    assert len(found) == 1
    assert len(list((tmp_path / "responses").iterdir())) == 1


def test_what_is_kept_is_private_and_holds_no_value(tmp_path: Path) -> None:
    folder = tmp_path / "responses"
    randomise(SPEC, 2, RandomIntegers(), ResponseStore(folder, "home people").recall)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(msgspec.json.decode(file.read_bytes())) == {"scope", "name", "response"}
    kept = responses.KeptResponse(scope="home people", name="a", response=123456)
    assert "123456" not in repr(kept)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"scope":"home people","name":"b","response":1}', b" " * 10_000]
)
def test_a_damaged_response_is_not_drawn_again(tmp_path: Path, damage: bytes) -> None:
    store = ResponseStore(tmp_path, "home people")
    store.recall("a", lambda: 5)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    with pytest.raises(RoundStateError, match="restore it from a backup"):
        store.recall("a", refuse)
    assert file.read_bytes() == damage


def test_no_more_are_kept_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_RESPONSES", 3)
    store = ResponseStore(tmp_path, "home people")
    for name in "abc":
        store.recall(name, lambda: 1)
    with pytest.raises(ClientPolicyRefusal, match="answers no further question"):
        store.recall("d", lambda: 1)
    assert store.recall("a", refuse) == 1


def test_nothing_leaves_before_the_response_is_kept(tmp_path: Path) -> None:
    """A folder that cannot be written to: no report, so that the next attempt may still draw the
    first one."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot save a memoised response"):
        randomise(
            SPEC,
            0,
            RandomIntegers(),
            ResponseStore(tmp_path / "file" / "below", "home people").recall,
        )


def test_a_killed_write_leaves_no_half_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    store = ResponseStore(tmp_path, "home people")
    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(KeyboardInterrupt):
        store.recall("a", lambda: 5)
    monkeypatch.undo()
    assert store.recall("a", lambda: 6) == 6


@pytest.mark.parametrize("linked", [False, True], ids=["before the link", "behind the link"])
def test_what_a_killed_process_left_is_swept_and_no_response_with_it(
    tmp_path: Path, *, linked: bool
) -> None:
    """A process that really ends, with no chance to clean up."""
    code = (
        "import os, sys; from pathlib import Path; from shuffledp_client.responses import "
        "ResponseStore\n"
        "link = os.link\n"
        f"os.link = lambda *names: ({'link(*names), ' if linked else ''}os._exit(9))\n"
        "ResponseStore(Path(sys.argv[1]), 'home people').recall('a', lambda: 5)\n"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], check=False, timeout=240
        ).returncode
        == 9
    )
    assert len(list(tmp_path.glob("*.part"))) == 1
    assert len(list(tmp_path.glob("*.json"))) == linked
    store = ResponseStore(tmp_path, "home people")
    assert store.recall("b", lambda: 7) == 7
    assert not list(tmp_path.glob("*.part"))
    assert store.recall("a", lambda: 6) == (5 if linked else 6)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = ResponseStore(tmp_path / "responses", "home people")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        store.recall("a", lambda: 5)
    monkeypatch.undo()
    assert list((tmp_path / "responses").iterdir()) == []
    assert store.recall("a", lambda: 6) == 6


def test_two_rounds_of_a_question_are_prepared_from_one_response(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "deployment")
    member = make_members(deployment, 1)[0]
    recall = ResponseStore(
        tmp_path / "responses", f"{deployment.roster.deployment} {POPULATION}"
    ).recall
    draft = Draft(deployment, mechanism=SURE)
    verified = verify_round(draft.announcement(), deployment.roster, LENIENT, POPULATION, NOW)
    first, second = (prepare(verified, value, member, os.urandom, recall) for value in (0, 19))
    assert first.symbols == second.symbols
    assert first.envelope != second.envelope
