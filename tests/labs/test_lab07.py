"""Lab 7: its rounds, boards, documents and plans against the product, and every number of its
texts."""

from __future__ import annotations

import asyncio
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from shuffledp_adversary.attacks.exchange.framing import second_spelling
from shuffledp_adversary.attacks.exchange.mixproof import SCENARIOS
from shuffledp_adversary.attacks.exchange.rounds import LARGEST, Observation
from shuffledp_adversary.attacks.exchange.tampering import Pool, substitute
from shuffledp_client.board import changed_messages
from shuffledp_client.evidence import check_evidence
from shuffledp_client.verification import verify_documents
from shuffledp_core.documents.digests import digest
from shuffledp_core.errors import DocumentError, EvidenceError, MalformedDocumentError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.mixproof.group import GENERATOR, multiply, random_scalar
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.vocabulary import Mix
from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import StudentFault
from shuffledp_labs.installed import lab
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab07_cheats import show
from shuffledp_labs.lab07_cheats.asking import Answerer, ask
from shuffledp_labs.lab07_cheats.cases import Cases, DeviceCase
from shuffledp_labs.lab07_cheats.documents import BUNDLE, POPULATION, Documents, parse_bundle
from shuffledp_labs.lab07_cheats.hops import Cheat, Hops, add_keys, draw_hop_inputs, exchange
from shuffledp_labs.lab07_cheats.instances import cheating, complaints, user_name
from shuffledp_labs.lab07_cheats.system import noticed_by
from shuffledp_labs.price import measure_price

SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab07.py"


def text(name: str) -> str:
    """One of the lab's texts, in one line."""
    return " ".join(lab(7).file(name).read_text(encoding="utf-8").split())


def draws(number: int) -> Draws:
    return Draws(number.to_bytes(32, "big"))


@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_round_played_again_is_the_same_round(position: int) -> None:
    instance = cheating(draws(position), position, 3)
    first, again = instance.play(), instance.play()
    assert (first.batches, first.envelopes) == (again.batches, again.envelopes)
    pool = instance.pool_of_node()
    assert b"".join(pool.records) == first.batches[position]
    assert len(instance.pool(pool)["keys"]) == 3 - position


@pytest.mark.parametrize("number", range(5))
def test_any_exchange_as_it_is_asked_for_changes_the_answer(number: int) -> None:
    """Fewer messages than are exchanged carry the symbol, so that one of those that go carried
    another."""
    instance = cheating(draws(number), 1, 2)
    width = instance.geometry.symbol_bytes
    having = sum(
        int.from_bytes(one[:width], "big") == instance.symbol
        for own in instance.messages
        for one in own
    )
    assert having < instance.exchanges <= instance.records


@pytest.mark.parametrize("number", range(4))
def test_complaints_agree_with_the_client_s_own_search(number: int) -> None:
    instance = complaints(draws(number))
    per_user = len(next(iter(instance.mine.values()))[1])
    length = len(instance.mine[user_name(0)][1][0])
    geometry = Geometry(
        suite="sealed-box", hops=3, messages_per_user=per_user, symbol_bytes=length - 16
    )
    packed = b"".join(message for _, messages in instance.mine.values() for message in messages)
    wrong = changed_messages(geometry, instance.board, packed).reshape(len(instance.mine), per_user)
    for (user, (envelope, _)), places in zip(instance.mine.items(), wrong, strict=True):
        promised = instance.receipts.get(user) == digest(envelope)
        assert set(instance.due.get(user, {})) == (
            set(np.flatnonzero(places)) if promised else set()
        )
    words = Counter(word for own in instance.due.values() for word in own.values())
    assert set(words) == {"missing", "changed", "doubled"}
    assert any(
        wrong[place].any() and user_name(place) not in instance.due for place in range(len(wrong))
    )


def test_one_missing_message_is_found_by_whoever_does_not_cut_the_board_into_messages() -> None:
    instance = complaints(draws(3))
    missing = [
        instance.mine[user][1][place]
        for user, own in instance.due.items()
        for place in own
        if own[place] == "missing"
    ]
    assert sum(message in instance.board for message in missing) == 1


def convicts(case: DeviceCase, cases: Cases) -> bool:
    """Whether a stranger is convinced by whatever this user's device kept."""
    if case.stored["receipt"] is None:
        return False
    bundle = parse_bundle({name: case.stored[name] for name in BUNDLE})
    try:
        return check_evidence(bundle, cases.roster, case.board).missing > 0
    except (EvidenceError, DocumentError):
        return False


@pytest.mark.parametrize("number", range(5))
def test_the_stranger_convicts_the_guilty_and_nobody_else(number: int) -> None:
    cases = Cases(draws(number))
    assert [convicts(case, cases) for case in cases.guilty()] == [True] * 4
    assert [case.what for case in cases.innocent() if convicts(case, cases)] == []
    assert {case.guilty for case in cases.guilty()} == {True}
    assert {case.guilty for case in cases.innocent()} == {False}


def test_the_documents_are_genuine_and_the_bundle_takes_nothing_else() -> None:
    made = Documents(draws(1), users=5)
    verified = verify_documents(made.announcement, made.roster, POPULATION, made.round_id)
    assert verified.manifest.geometry == made.geometry
    device = made.device()
    kept = made.device_data(device, made.receipt(device), made.failed_result())
    with pytest.raises(MalformedDocumentError):
        parse_bundle({name: kept[name] for name in BUNDLE} | {"seed": 10**12})


async def test_a_node_is_told_what_to_send_and_sends_honestly_where_that_fails() -> None:
    instance = cheating(draws(5), 1, 3)
    pool = instance.pool_of_node()
    async with Answerer(substitute) as answerer:
        said = await ask(answerer.address, pool)
    assert len(said) == len(pool.records)
    assert set(said) != set(pool.records)
    assert answerer.failure is None

    def fails(_: Pool) -> list[bytes]:
        raise ValueError("no idea")

    async with Answerer(fails) as answerer:
        assert (
            await asyncio.gather(*(ask(answerer.address, pool) for _ in range(2)))
            == [pool.records] * 2
        )
    assert str(answerer.failure) == "no idea"


def test_the_picture_says_who_notices(tmp_path: Path) -> None:
    rows = {row.what: row.noticed for row in show.known_rows(draws(6))}
    nodes, analyst, users = rows["copies an onion"]
    assert (nodes, analyst) == ("drops 2", "")
    assert users
    assert rows["exchanges the victim's"][:2] == ("", "")
    assert rows["exchanges the victim's"][2]
    assert rows["sends more"] == ("", "counts wrong", "")
    assert rows["turns all but one away"] == ("", "", "")
    file = show.draw([show.TamperingRow("nothing", 1, ("", "", ""))], tmp_path / "grid.png")
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("stopped_by", "users", "error", "words"),
    [
        (
            None,
            4,
            "ReceiptMissingError",
            "4 of 12 users, whose devices look for their tags and raise ReceiptMissingError",
        ),
        (None, 0, None, "nobody"),
        ("node-2", 0, "BadBatchError", "node-2, with BadBatchError"),
    ],
    ids=["users", "nobody", "a node"],
)
def test_who_noticed_is_told_for_a_step_that_knows_no_victim(
    stopped_by: str | None, users: int, error: str | None, words: str
) -> None:
    for victim in (False, bool(users)):
        seen = Observation(
            "exchange", 1, stopped_by, users, victim, error, "published", "settled", 36, 4, 36, 0
        )
        assert noticed_by(seen) == words


def test_verdicts_are_due_for_every_kind_of_fault() -> None:
    for number in range(3):
        cases = draw_hop_inputs(draws(number))
        by_kind = {case.what: case.due for case in cases}
        assert set(by_kind.values()) >= {None, 0, 1}
        assert all((due == 0) == what.endswith("on its way") for what, due in by_kind.items())
        assert all((due is None) == (what == "nothing is wrong") for what, due in by_kind.items())
        for case in cases:
            if "list" in case.what and case.due:
                assert case.due == 1
            if case.what.startswith("the node before"):
                assert case.due == case.position - 1
            # Whoever took such a batch and went on is at fault for what it sends; a false proof is
            # its signer's.
            if case.what.startswith("an earlier node exchanged"):
                assert case.due is not None
                assert (case.due < case.position - 1) == case.what.endswith("signed their sum")


def test_what_stands_in_no_proof_is_not_proved_and_nonsense_is_the_students_fault() -> None:
    given = draw_hop_inputs(draws(2))[0]
    keys = [key for claim in given.claims for key in claim.key_list]
    before = [add_keys(keys), *(header.total for header in given.headers)]
    for place in range(1, given.position):
        assert given.is_signed(place)
        assert [given.is_proved(place, one) for one in before] == [
            at == place - 1 for at in range(len(before))
        ]
    told = given.as_student_data
    for name, arguments in [
        ("signed", ()),
        ("signed", (given.position,)),
        ("signed", (True,)),
        ("proved", (1,)),
        ("proved", (0, before[0])),
        ("proved", (1, b"no element")),
        ("proved", (1, "no bytes")),
        ("add", ([],)),
        ("add", (keys[0],)),
        ("add", ([keys[0], bytes(32)],)),
        ("root", ([],)),
        ("root", ([1],)),
    ]:
        with pytest.raises(StudentFault):
            told[name](*arguments)


def test_the_price_is_that_of_the_round_in_the_texts() -> None:
    spec = RRShuffle(max_value=LARGEST, randomise=Fraction(1, 2))
    plain, verified = (Geometry.of(spec, "sealed-box", 3, mix) for mix in (Mix.PLAIN, Mix.VERIFIED))
    price = measure_price(plain)
    assert price.sent == (plain.envelope_bytes, verified.envelope_bytes)
    assert price.board == (plain.plain_bytes, verified.plain_bytes)
    assert min(*price.device, *price.node) > 0
    bytes_of = (
        "a user sends {} and {} bytes, a message on the board has {} and {}, and the history has "
        "{} for the claim"
    )
    assert bytes_of.format(*price.sent, *price.board, verified.claim_bytes) in text("instructor.md")
    assert f"({price.sent[0]} to {price.sent[1]} bytes)" in str(price)
    with pytest.raises(ValueError, match="verified"):
        measure_price(verified)
    assert f"plays {sum(map(len, SCENARIOS.values()))} such rounds" in text("handout.md")


async def test_a_node_of_a_verified_round_brings_records_of_its_own() -> None:
    pool = cheating(draws(5), 1, 3).pool_of_node()
    spare = [bytes([number]) * 7 for number in range(len(pool.records))]
    async with Answerer(lambda asked: [*asked.spare[:2], *asked.records[2:]]) as answerer:
        assert await ask(answerer.address, pool, spare) == [*spare[:2], *pool.records[2:]]
    assert answerer.failure is None


def test_a_key_in_a_second_spelling_is_the_same_key_to_the_library_that_adds() -> None:
    """Otherwise a program that compares bytes would fail on the library's word, and not on its own
    verdict."""
    key = multiply(random_scalar(draws(3).bytes), GENERATOR)
    assert add_keys([second_spelling(key)]) == add_keys([key]) == key
    spelled = [case for case in draw_hop_inputs(draws(4)) if "spell" in case.what]
    assert [case.due for case in spelled] == [1, spelled[1].position - 1]
    assert len(draw_hop_inputs(draws(4))) == 18
    assert "eighteen verified rounds" in text("handout.md")


def test_the_picture_has_verified_rounds_in_which_the_next_party_names_the_node() -> None:
    assert show.made_up_list(draws(8)).noticed == ("names node 1", "", "")
    assert show.framing(draws(8)).noticed == ("", "names node 3", "")

    rows = show.exchange_rows(draws(9))
    assert [row.noticed for row in rows] == [("names node 1", "", ""), ("", "names node 3", "")]
    honest = Hops(draws(9), 3).input_at("", 2, {1: Cheat(exchange(0))})
    assert honest.due is None


@pytest.mark.slow
def test_the_solution_gets_every_point_in_a_running_system() -> None:
    result = run_checks(LabRun(lab(7), SOLUTION, draws(5)), Watcher())
    assert [check.message for check in result.checks if check.outcome != "passed"] == []
    assert result.points == 75
