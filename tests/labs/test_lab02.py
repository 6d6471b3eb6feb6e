"""Lab 2: its recordings and boards against independent arithmetic, its proxy, and every number of
its texts."""

from __future__ import annotations

import asyncio
import math
import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_adversary.attacks.measuring import calibrate_spec, guess_limit
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.installed import lab
from shuffledp_labs.instance import Draws
from shuffledp_labs.kinds import is_list_of_bytes, kind_of
from shuffledp_labs.lab02_wire import checks, instances, show
from shuffledp_labs.lab02_wire.proxy import Proxy
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target

OVERHEAD = {"sealed-box": 48, "hpke": 48, "hpke-mlkem768-x25519": 1136}
"""Bytes of a layer, as docs/protocol.md has them."""

SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab02.py"


def text(name: str) -> str:
    """One of the lab's texts, in one line."""
    return " ".join(lab(2).file(name).read_text(encoding="utf-8").split())


def draws(number: int) -> Draws:
    return Draws(number.to_bytes(32, "big"))


@pytest.mark.parametrize(
    ("suite", "hops"), list(zip(instances.SUITES, instances.FIRST_HOPS, strict=True))
)
def test_every_recording_can_be_read_by_arithmetic_alone(suite: str, hops: int) -> None:
    recording = instances.only_ones(draws(1), suite, hops)
    record = 17 + (hops - 1) * OVERHEAD[suite]
    longest = {
        client: max(size for who, size in recording.flows if who == client)
        for client in recording.answers
    }
    for client, answer in recording.answers.items():
        least = recording.wire["connection"] + OVERHEAD[suite] + answer * record
        assert least <= longest[client] <= least + instances.JITTER
    assert record > 2 * instances.JITTER
    assert len(set(recording.answers.values())) > 1
    assert len(recording.flows) > len(recording.answers)
    assert instances.only_ones(draws(1), suite, hops).flows == recording.flows


def test_clients_that_send_as_many_messages_differ_by_the_transport_alone() -> None:
    recording = instances.all_alike(draws(2), "sealed-box", 3)
    longest = [
        max(size for who, size in recording.flows if who == client) for client in recording.answers
    ]
    assert max(longest) - min(longest) <= instances.JITTER
    assert len(set(recording.answers.values())) > 1


def below(point: int, ratio: float) -> float:
    """P(N < point) of one discrete Laplace noise."""
    return 1 - ratio**point / (1 + ratio) if point > 0 else ratio ** (1 - point) / (1 + ratio)


def of_numbers(users: int, far: int, rate: float) -> tuple[float, float]:
    """Shares of right guesses by the largest number: with the best threshold, and with far / 2 as
    the threshold."""
    ratio = math.exp(-rate)

    def right(point: int) -> float:
        others = below(point, ratio) ** (users - 1)
        return (others * below(point, ratio) + 1 - others * below(point - far, ratio)) / 2

    return max(map(right, range(1, far + 1))), right(far // 2 + 1)


def sum_law(users: int, rate: float) -> NDArray[np.float64]:
    """P(S = j - 2^13) of the sum of so many noises, by a discrete Fourier transform."""
    size, ratio = 2**14, math.exp(-rate)
    places = np.arange(size)
    one = (1 - ratio) / (1 + ratio) * ratio ** np.minimum(places, size - places)
    return np.roll(np.fft.irfft(np.fft.rfft(one) ** users, size), size // 2)


def of_bits(users: int, far: int, rate: float) -> tuple[float, float]:
    """As `of_numbers`, by the sum."""
    cumulated = np.cumsum(sum_law(users, rate))

    def right(point: int) -> float:
        near, distant = cumulated[2**13 + point - 1], cumulated[2**13 + point - far - 1]
        return float(near + 1 - distant) / 2

    return max(map(right, range(-far, 2 * far))), right(far // 2 + 1)


def shares(board: instances.ShuffledBoard) -> tuple[float, float]:
    public = board.public
    of = of_bits if public["shuffled"] == "bits" else of_numbers
    return of(int(public["users"]), int(public["far"]), float(public["rate"]))


@pytest.mark.parametrize("number", range(6))
def test_rounds_tell_nearly_always_or_hardly_at_all(number: int) -> None:
    own = draws(number)
    for tells in (
        instances.telling_numbers(own),
        instances.telling_bits(own),
        instances.telling_crowd_bits(own),
    ):
        assert 1 - shares(tells)[1] < 1e-6
    for silent in (
        instances.silent_numbers(own),
        instances.silent_bits(own),
        instances.silent_few_bits(own),
    ):
        assert shares(silent)[0] < 2 / 3


def test_a_right_rule_fails_with_less_than_the_stated_chance() -> None:
    """Three errors in forty rounds, each with a probability below 1e-6, by the union bound."""
    assert math.comb(40, 3) * 1e-6**3 < 1e-9


def test_bits_say_the_numbers_and_nothing_else() -> None:
    board = instances.silent_bits(draws(3))
    users, messages = int(board.public["users"]), int(board.public["messages"])
    assert isinstance(board.board, bytes)
    assert len(board.board) == users * messages
    assert set(board.board) == {0, 1}
    padding, rate = int(board.public["padding"]), Fraction(board.public["rate"])
    assert (
        padding * rate >= 30
    )  # one of the users is clamped with a probability below users * e^-30


def test_the_numbers_of_the_texts() -> None:
    handout, instructor = text("handout.md"), text("instructor.md")
    record = 17 + 2 * 48
    assert (
        f"a record has {record} bytes, and an envelope of 20 messages {20 * record + 48:,}"
        in handout
    )
    assert f"m = 40 messages a user are {40 * record + 48:,} bytes" in handout
    assert f"({20 * record + 48:,} bytes for m = 20)" in instructor
    assert f"a record has {17 + 2 * 1136:,}" in instructor
    target = Target(1.0, 1e-6, 2000, 2000, max_value=20)
    spec = calibrate_spec(GeoShuffle, target)
    assert spec.messages_per_user == 40
    limit = guess_limit(epsilon_bounds(spec, Setting(2000, 2000), 1e-6).certified, 1e-6)
    assert f"a certificate of ε = 1 allows at most {limit:.0%}".lower() in handout.lower()
    assert f"the certificate allows {100 * limit:.1f}% at most" in instructor
    rate = float(spec.epsilon_geo)
    assert f"right in {100 * of_numbers(2000, 20, rate)[0]:.1f}% of the rounds" in instructor
    assert f"right in {100 * of_bits(2000, 20, rate)[0]:.1f}%" in instructor
    small = calibrate_spec(GeoShuffle, Target(1.0, 1e-6, 1000, 1000, max_value=20))
    local = corrupted_bounds(small, Setting(1000, 1000), 1e-6).epsilon
    assert f"ε_L = {local:.2f}, where 1.00 was certified" in instructor
    assert f"a record had {17 + 3 * 48} bytes" in instructor
    ratio = math.exp(-1)
    assert (
        f"standard deviation of {math.sqrt(2 * 1800 * ratio) / (1 - ratio):.0f} against"
        in instructor
    )


def test_a_wrong_answer_is_described_by_what_is_in_it() -> None:
    assert kind_of((1, b"", 2)) == "a list with bytes, int"
    assert (kind_of(()), kind_of(None)) == ("an empty list", "NoneType")
    assert is_list_of_bytes((b"", b"1"))
    assert not is_list_of_bytes(b"12")


class Sayings:
    """A student's program that gives the same answer to every call."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def call(self, _function: str, *_given: object) -> object:
        return self.answer


def attempt(answer: object) -> Any:
    return SimpleNamespace(draws=draws(6), program=Sayings(answer))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"client-01": "3"}, "whole number, .*: infer_answers gave str for client-01"),
        ({"client-01": 3.0}, "infer_answers gave float for client-01"),
        ({"client-01": True}, "infer_answers gave bool for client-01"),
    ],
)
def test_answers_of_another_type_are_told_from_a_wrong_formula(answer: object, said: str) -> None:
    with pytest.raises(CheckFailure, match=said):
        checks.check_read(attempt(answer))


def test_a_rule_that_is_always_silent_hears_how_often_it_was_and_passes_for_silence() -> None:
    with pytest.raises(CheckFailure, match="said None in 40 of them"):
        checks.check_far(attempt(None))
    said = checks.check_silence(attempt(None))
    found = re.search(
        r"first: (\d+) users, bits, far value (\d+), rate (\S+), sum of the noisy numbers (\S+), "
        r"the user held (\d+)",
        said,
    )
    assert found
    board = instances.silent_bits(draws(6).child("silent 0"))
    assert found[1] == str(board.public["users"])
    assert int(found[4].replace(",", "")) == sum(board.board) - int(found[1]) * int(
        board.public["padding"]
    )
    assert found[5] == str(board.public["far"] if board.far else 0)


def test_a_round_that_tells_is_shown_with_the_number_that_tells() -> None:
    board = instances.telling_numbers(draws(6).child("numbers 0"))
    told = [
        instances.telling_numbers(draws(6).child(f"numbers {number}")).far for number in range(30)
    ]
    makers = (instances.telling_bits, instances.telling_crowd_bits)
    told += [makers[number % 2](draws(6).child(f"bits {number}")).far for number in range(10)]
    program = SimpleNamespace(call=lambda *_: told.pop(0))
    said = checks.check_far(SimpleNamespace(draws=draws(6), program=program))  # type: ignore[arg-type]
    assert f"{board.title}, largest number {max(board.board)}, the user held" in said


async def test_the_proxy_counts_what_callers_send_and_leaves_nothing_open() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(2 * data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    free = await asyncio.start_server(echo, "127.0.0.1", 0)
    target, listen = (f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in (server, free))
    free.close()
    await free.wait_closed()
    async with server, Proxy(listen, target) as proxy:
        for caller, size in (("a", 10), ("b", 30)):
            proxy.caller = caller
            reader, writer = await asyncio.open_connection(*listen.split(":"))
            writer.write(bytes(size))
            assert await reader.readexactly(2 * size) == bytes(2 * size)
            writer.close()
            await writer.wait_closed()
        assert proxy.of({"a", "b"}) == (("a", 10), ("b", 30))
        assert proxy.of({"b"}) == (("b", 30),)


def test_the_picture_can_be_drawn(tmp_path: Path) -> None:
    points = show.ones_only_points(draws(4))
    assert len({size for _, size in points}) > 1
    file = show.draw([("ones", points), ("all", [(0, 100), (3, 101)])], tmp_path / "bytes.png")
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_solution_gets_every_point_in_a_running_system() -> None:
    result = run_checks(LabRun(lab(2), SOLUTION, draws(5)), Watcher())
    assert [check.message for check in result.checks if check.outcome != "passed"] == []
    assert result.points == 75


def test_a_connection_that_broke_off_is_not_the_length_of_its_client() -> None:
    flows = (("client-01", 3_079), ("client-02", 14_115), ("client-01", 14_136), ("client-02", 200))
    assert instances.longest(flows) == {"client-01": 14_136, "client-02": 14_115}
