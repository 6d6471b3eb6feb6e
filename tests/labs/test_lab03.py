"""Lab 3: its batches against the product's own opener, its chance of error computed exactly, the
handout's numbers."""

from __future__ import annotations

import asyncio
import math
from fractions import Fraction
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from shuffledp_adversary.attacks.exchange.tampering import COPIES
from shuffledp_core.errors import BadBatchError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import suite_named
from shuffledp_labs.errors import CheckFailure, LabError, StudentException
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab03_node import LAB, checks, onions
from shuffledp_labs.lab03_node.checks import _mix
from shuffledp_labs.lab03_node.joining import (
    DROPS,
    MESSAGES,
    TAMPERINGS,
    TOO_MANY_IN_PLACE,
    USERS,
    JoinOutcome,
    TamperOutcome,
    join,
    judge_tampered,
    withstand,
)
from shuffledp_labs.lab03_node.onions import (
    DAMAGES,
    BoxKeys,
    arrangements,
    damage,
    distance,
    flipped_bits,
    surplus,
)
from shuffledp_labs.lab03_node.show import draw
from shuffledp_labs.lab03_node.student_node import SystemCoins, _check_records
from shuffledp_labs.student.laws import BranchLaw

SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab03.py"


def draws(seed: int = 1) -> Draws:
    return Draws(seed.to_bytes(32, "big"))


def handout() -> str:
    return " ".join(files("shuffledp_labs.lab03_node").joinpath("handout.md").read_text().split())


# -------------------------------------------------------------------- numbers


def test_the_lengths_in_the_handout_are_the_product_s() -> None:
    geometry = Geometry.of(RRShuffle(max_value=MESSAGES, randomise=Fraction(1, 2)), onions.SUITE, 3)
    text, instructor = handout(), LAB.file("instructor.md").read_text()
    assert f"two layers of {onions.OVERHEAD} bytes" in text
    assert f"{2 * onions.OVERHEAD} bytes more than the message" in text
    assert f"again on the public board: {geometry.plain_bytes} bytes" in text
    assert (
        f"node 2's onions have {geometry.record_bytes(2)}, node 3's {geometry.record_bytes(3)}"
        in instructor
    )
    assert f"two messages each, {USERS * MESSAGES} in all" in text
    assert (geometry.plain_bytes, USERS * MESSAGES) == (onions.PLAIN_BYTES, checks.REAL_BATCH)
    keys, batch, inner = onions.real_batch(draws(), 2)
    assert [len(layer) for layer in (batch[0], inner[0])] == [
        geometry.record_bytes(2),
        geometry.record_bytes(3),
    ]
    assert onions.BoxKeys(keys.private, keys.public).seal(inner[0], bytes(32)) != batch[0]
    assert f"in each of the {math.factorial(4)} possible ways" in text


def test_guessing_by_place_is_right_for_two_of_24_on_average() -> None:
    law = hits(USERS, MESSAGES)
    assert sum(law) == 1
    assert sum(number * mass for number, mass in enumerate(law)) == 2
    assert "get about 2 of 24 right" in handout()


def test_an_honest_node_is_taken_for_one_that_keeps_the_order_with_probability_below_1e_9() -> None:
    (check,) = [check for check in LAB.checks if check.name == "D-joins"]
    law = hits(USERS, MESSAGES)
    assert sum(law[TOO_MANY_IN_PLACE:]) <= check.chance <= 1e-9
    assert law[-1] == Fraction(math.factorial(MESSAGES) ** USERS, math.factorial(USERS * MESSAGES))


def hits(users: int, each: int) -> list[Fraction]:
    """Exact law of the number of messages that a uniform order leaves at a place of their own
    sender: rook polynomials.

    A user's messages may stand at that many places of its own: `each` x `each` squares, which hold
    k rooks in C(each, k)^2 k! ways. Of `total` messages, r placed rooks leave (total - r)! orders
    for the rest."""
    total = users * each
    one = [math.comb(each, k) ** 2 * math.factorial(k) for k in range(each + 1)]
    rooks = [1]
    for _ in range(users):
        longer = [0] * (len(rooks) + each)
        for left, a in enumerate(rooks):
            for right, b in enumerate(one):
                longer[left + right] += a * b
        rooks = longer
    orders = math.factorial(total)
    return [
        Fraction(
            sum(
                (-1) ** (r - hit) * math.comb(r, hit) * rooks[r] * math.factorial(total - r)
                for r in range(hit, total + 1)
            ),
            orders,
        )
        for hit in range(total + 1)
    ]


def test_the_law_of_hits_is_that_of_all_orders() -> None:
    from itertools import permutations

    counts = [0] * 5
    for order in permutations(range(4)):
        counts[sum(place // 2 == message // 2 for place, message in enumerate(order))] += 1
    assert hits(2, 2) == [Fraction(count, 24) for count in counts]


def test_the_tamperings_drop_what_the_product_s_own_repeat() -> None:
    assert DROPS["copy"] == COPIES - 1
    assert set(DROPS) == set(TAMPERINGS)
    assert "one of the first user's onions three times" in handout()


# -------------------------------------------------------------------- batches


def test_an_arrangement_gives_every_onion_the_same_ephemeral_key_and_another_message() -> None:
    keys, messages = BoxKeys.of(draws()), [b"one", b"two", b"six"]
    opens = suite_named(onions.SUITE).opener(keys.private, b"")
    batches = list(arrangements(keys, messages, draws(2), copies=1))
    assert len(batches) == 6
    assert len({tuple(record[:32] for record in batch) for batch in batches}) == 1
    assert len({tuple(opens(record) for record in batch) for batch in batches}) == 6
    assert all(batch[-1] == batch[0] for batch in batches)


@pytest.mark.parametrize("kind", DAMAGES)
def test_what_is_damaged_has_the_right_length_and_does_not_open(kind: str) -> None:
    chance, keys, stranger = draws(3), BoxKeys.of(draws(4)), BoxKeys.of(draws(5))
    opens = suite_named(onions.SUITE).opener(keys.private, b"")
    for _ in range(50):
        record = damage(keys, stranger, bytes(17), kind, chance)
        assert len(record) == 17 + onions.OVERHEAD
        with pytest.raises(BadBatchError):
            opens(record)


def test_no_flipped_bit_opens_under_the_product_s_own_opener() -> None:
    keys = BoxKeys.of(draws())
    opens = suite_named(onions.SUITE).opener(keys.private, b"")
    record = keys.seal(b"message", draws(2).bytes(32))
    assert opens(record) == b"message"
    changed = list(flipped_bits(record))
    assert len({each for _, _, each in changed}) == 8 * len(record)
    for _, _, each in changed:
        with pytest.raises(BadBatchError):
            opens(each)


def test_a_distance_is_the_total_variation_less_what_was_not_followed() -> None:
    def law(lost: Fraction = Fraction(0), **of: Fraction) -> BranchLaw:
        return BranchLaw(dict(of), lost, exact=True, leaves=1)

    half = Fraction(1, 2)
    assert distance(law(a=half, b=half), law(a=half, b=half)) == 0
    assert distance(law(a=Fraction(1)), law(b=Fraction(1))) == 1
    assert distance(law(a=Fraction(2, 3), b=Fraction(1, 3)), law(a=half, b=half)) == Fraction(1, 6)
    assert distance(law(a=half, b=Fraction(1, 3), lost=Fraction(1, 6)), law(a=half, b=half)) == 0


def test_a_surplus_tells_missing_repeated_and_foreign_messages_apart() -> None:
    assert surplus([b"a", b"b"], [b"b", b"a"]) == (0, 0, 0)
    assert surplus([b"a", b"a", b"x"], [b"a", b"b"]) == (1, 1, 1)


# -------------------------------------------------------------------- the node


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "NoneType"),
        ([b"a", 1], "list of bytes"),
        ([bytes(17)] * 3, "never add"),
        ([bytes(17), bytes(16)], "1 of the 2"),
    ],
)
def test_what_a_student_s_mix_gives_is_looked_at_before_it_is_sent(
    found: object, said: str
) -> None:
    with pytest.raises(BadBatchError, match=said):
        _check_records(found, 2, 17)


@pytest.mark.parametrize(
    ("kind", "said"), [("SyntaxError", "^SyntaxError: no"), ("KeyError", "mix raised KeyError")]
)
def test_a_file_that_is_no_program_is_not_blamed_on_a_bad_onion(kind: str, said: str) -> None:
    def sample(*_: object, **__: object) -> None:
        raise StudentException(kind, "no")

    attempt: Any = SimpleNamespace(program=SimpleNamespace(sample=sample), draws=Draws(bytes(32)))
    keys: Any = SimpleNamespace(private=bytes(32))
    with pytest.raises(LabError, match=said):
        _mix(attempt, keys, [b""])


def test_a_batch_that_lacks_some_is_sent_on() -> None:
    assert list(_check_records((bytes(17),), 2, 17)) == [bytes(17)]


def test_the_coins_of_a_real_round_are_the_operating_system_s() -> None:
    coins = SystemCoins()
    assert {coins.below(3) for _ in range(300)} == {
        0,
        1,
        2,
    }  # all but never otherwise: 3 (2/3)^300 < 1e-50
    assert coins.flip(Fraction(1)) is True
    assert coins.flip_exp(Fraction(0)) is True


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (TamperOutcome("mark", "node-2: mix gave nothing"), "ended the round for all"),
        (TamperOutcome("copy", None, (0, 0, 2)), "node 3 had to drop"),
        (TamperOutcome("copy", None, (0, 3, 0)), "another number"),
        (TamperOutcome("copy", None, (0, 2, 0), identified=1), "found on the board"),
    ],
)
def test_a_node_that_lets_something_pass_is_told_what(seen: TamperOutcome, said: str) -> None:
    with pytest.raises(CheckFailure, match=said):
        judge_tampered(seen)


def test_a_node_that_drops_what_it_must_passes() -> None:
    for tampering, own in DROPS.items():
        judge_tampered(TamperOutcome(tampering, None, (0, own, 0), missed=2))


def test_the_picture_is_drawn_for_good_and_bad_rounds(tmp_path: Path) -> None:
    good = [TamperOutcome(name, None, (0, own, 0), missed=own) for name, own in DROPS.items()]
    draw(JoinOutcome(None, by_place=2), good, tmp_path / "good.png")
    draw(
        JoinOutcome("no result"),
        [TamperOutcome("copy", None, (0, 0, 2)), TamperOutcome("mark", "refused")],
        tmp_path / "bad.png",
    )
    assert (tmp_path / "good.png").stat().st_size > 10_000
    assert (tmp_path / "bad.png").stat().st_size > 10_000


def test_a_deployment_in_containers_can_take_a_student_s_node_and_stays_confined() -> None:
    folder = Path(__file__).parents[2] / "deploy"
    overlay = yaml.safe_load((folder / "compose.student.yaml").read_text())["services"]
    assert list(overlay) == ["node-2"]
    # What it does not say stays as it is: no root, no capabilities, read-only, no network but node
    # 2's.
    assert overlay["node-2"].keys() == {"image", "entrypoint", "command", "volumes", "healthcheck"}
    assert overlay["node-2"]["volumes"][0].endswith(":/student/work.py:ro")
    assert find_spec(overlay["node-2"]["entrypoint"][2]) is not None
    # An operator has to consent to a node that says it is corrupt.
    assert '*" student "*) set -- --allow-corrupt' in (folder / "round.sh").read_text()


@pytest.mark.slow
def test_the_reference_s_node_joins_a_real_mixnet_and_withstands_a_malicious_neighbour(
    tmp_path: Path,
) -> None:
    joined = asyncio.run(join(SOLUTION, tmp_path / "join"))
    assert (joined.failed, joined.missed, joined.traced, joined.dropped) == (None, 0, 0, 0)
    assert joined.by_place < TOO_MANY_IN_PLACE
    for seen in asyncio.run(withstand(SOLUTION, tmp_path / "withstand", TAMPERINGS)):
        judge_tampered(seen)


@pytest.mark.slow
def test_a_student_s_node_that_cannot_mix_ends_its_round_with_a_reason(tmp_path: Path) -> None:
    stub = files("shuffledp_labs.lab03_node").joinpath("work.py").read_text()
    (tmp_path / "work.py").write_text(stub)
    joined = asyncio.run(join(tmp_path / "work.py", tmp_path / "join"))
    assert joined.failed is not None
    assert "not written yet" in joined.failed
