"""The element in rounds whose mechanism or words are in a part, in Debian's Chromium."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import page_world
import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import NOW, make_certificate
from page_world import CODE, PageGateway
from playwright.sync_api import Browser, BrowserContext, Page, expect
from test_page_element import MINUTE, PHONE, check_page
from vector_world import coins, derive
from wording_vectors import MEDICINE, SPENT

from shuffledp_client.web import PARTS, read_web_file
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.wording import (
    QuestionAxis,
    QuestionWording,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
)
from shuffledp_core.mechanisms import (
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeTree,
)
from shuffledp_core.sampling.randomness import RandomIntegers

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

PART = "shuffledp-mechanisms.min.js"
TRAVEL = QuestionWording(
    id="travel",
    text="How do you travel, and how long?",
    axes=(
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("bike", "train"))),
        QuestionAxis(
            field="time", unit="min", symbols=SymbolRanges(edges=("0", "15", "60", "inf"))
        ),
    ),
)
AGE = QuestionWording(
    id="age",
    text="How old are you?",
    axes=(
        QuestionAxis(
            field="age",
            unit="years",
            symbols=SymbolRanges(edges=tuple(map(str, range(0, 121, 2)))),
        ),
    ),
)
WEIGHT = QuestionWording(
    id="weight",
    text="How heavy is your bag?",
    axes=(
        QuestionAxis(
            field="weight", unit="kg", symbols=SymbolScale(start="0", step="0.1", size=201)
        ),
    ),
)
RATE = Fraction(1, 2)
HIDDEN: Any = {"noise_epsilon": RATE, "mean": 12, "spare": 40}
SPENT_SYMBOLS = SPENT.size


@dataclass
class NoisyGateway(PageGateway):
    """A gateway in a round whose nodes add dummies."""

    rows: list[bytes] = field(default_factory=list)
    """The messages of users and nodes."""

    def _renamed(self) -> dict[str, Any]:
        certificate = {} if self.wording is None else {"wording": self.wording}
        return {"certificate": {**certificate, "delta": 0.5}}

    def messages(self) -> list[bytes]:
        """The board's messages: those of users, and of every node's dummies."""
        rows = super().messages()
        for node in range(self.geometry.hops if self.mechanism.dummies_per_node else 0):
            drawn = RandomIntegers(coins(derive("page dummies", node)))
            source = coins(derive("page tags", node))
            for symbol in self.mechanism.sample_dummies(drawn).tolist():
                rows.append(symbol.to_bytes(self.geometry.symbol_bytes, "big") + source(16))
        self.rows = rows
        return rows

    def outcome_of(self, users: int) -> dict[str, Any]:
        """What an honest analyst publishes of the board."""
        users = len(self.accepted)
        draft, geometry, mechanism = self.draft, self.geometry, self.mechanism
        symbols = [int.from_bytes(row[: geometry.symbol_bytes], "big") for row in self.rows]
        counts = mechanism.counts_of(np.array(symbols, dtype=np.int64))
        headers = [
            BatchHeader(
                round_id=self.round_id,
                position=position,
                users=users,
                records=geometry.count_records(position, users),
                digest=digest(self.board),
            )
            for position in range(2, geometry.hops + 2)
        ]
        words = {} if self.wording is None else {"wording": self.wording}
        final = make_certificate(
            draft.deployment, mechanism, stage="final", users=users, route=draft.route, **words
        )
        return {
            "outcome": "published",
            "accepted": users,
            "messages": len(self.rows),
            "board_digest": digest(self.board),
            "estimate": estimate(mechanism, counts, users, nodes=geometry.hops),
            "plan_certificate": draft.signed_certificate(),
            "final_certificate": draft.signed_by("accountant", final),
            "headers": tuple(
                draft.signed_by(*pair) for pair in zip(draft.route, headers, strict=True)
            ),
        }


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own, at the time of the documents."""
    opened = browser.new_context(viewport=PHONE)
    opened.clock.set_fixed_time(NOW / 1000)
    yield opened
    opened.close()


def asked_page(context: BrowserContext, gateway: PageGateway) -> Page:
    """A page that asks the question, after its code was used."""
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_role("button", name="Prepare my answer")).to_be_visible()
    check_page(page)
    return page


def send_and_look(page: Page, gateway: NoisyGateway) -> None:
    """Prepare and send the answer, end the round, and look for the result."""
    page.get_by_role("button", name="Prepare my answer").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    check_page(page)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Your answer has arrived")).to_be_visible()
    gateway.end()
    page.get_by_role("button", name="Look for the result").click()
    expect(page.get_by_text("1 person took part.")).to_be_visible()
    check_page(page)
    assert gateway.scripts.count(PART) == 1


def sent_symbols(gateway: NoisyGateway) -> list[int]:
    """The symbols of the user's messages, in the order of the board's."""
    users = PageGateway.messages(gateway)
    return sorted(int.from_bytes(row[:-16], "big") for row in users)


def noisy_gateway(mechanism: Mechanism, wording: QuestionWording | None = None) -> NoisyGateway:
    return NoisyGateway(mechanism=mechanism, wording=wording)


@pytest.fixture(autouse=True)
def _lenient_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that allows the δ that a few dummies give."""
    question = page_world.QUESTION.replace('"delta": 1e-06', '"delta": 0.6')
    assert question != page_world.QUESTION
    monkeypatch.setattr(page_world, "QUESTION", question)


def test_several_questions_are_asked_and_counted_by_themselves(context: BrowserContext) -> None:
    columns = NodeColumns(symbols=6, columns=(2, 3), **(HIDDEN | {"spare": 30}))
    gateway = noisy_gateway(columns, TRAVEL)
    page = asked_page(context, gateway)
    expect(page.get_by_role("group", name="transport")).to_be_visible()
    page.get_by_label("train").check()
    page.get_by_label("15–60 min").check()
    send_and_look(page, gateway)
    assert sent_symbols(gateway) == [1, 3 + 1]
    expect(page.get_by_role("row", name="transport: train")).to_be_visible()
    expect(page.get_by_role("row", name="time: 15–60 min")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(1 + 5)


def test_a_number_is_typed_where_there_are_many_bins(context: BrowserContext) -> None:
    tree = NodeTree(symbols=60, width=8, **HIDDEN)
    gateway = noisy_gateway(tree, AGE)
    page = asked_page(context, gateway)
    page.get_by_label("age (years)").fill("130")
    page.get_by_role("button", name="Prepare my answer").click()
    expect(page.get_by_role("status")).to_contain_text("no possible answer to this question")
    page.get_by_label("age (years)").fill("37.5")
    send_and_look(page, gateway)
    assert sent_symbols(gateway) == [2, 9 + 18]
    expect(page.get_by_role("row", name="36–38 years")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(1 + 60)


def test_any_text_is_an_answer_to_an_open_list(context: BrowserContext) -> None:
    columns = NodeColumns(symbols=256, columns=(16, 16), **HIDDEN)
    gateway = noisy_gateway(columns, MEDICINE)
    page = asked_page(context, gateway)
    expect(page.get_by_text("in 2 lists of 16 cells")).to_be_visible()
    page.get_by_label("medicine").fill(" Cafe\u0301 ")
    send_and_look(page, gateway)
    salt = bytes.fromhex("0123456789abcdef" * 2)
    text = b"shuffledp/v1/open-list\0" + salt + "Caf\u00e9".encode()
    first = hashlib.sha256(text).digest()[0]
    assert sent_symbols(gateway) == [first // 16, 17 + first % 16]
    expect(page.get_by_text("anyone who has a list of texts can look them up")).to_be_visible()


def test_a_number_that_is_added_up_is_rounded_to_a_magnitude(context: BrowserContext) -> None:
    gateway = noisy_gateway(
        NodeHistogram(symbols=SPENT_SYMBOLS, noise_epsilon=RATE, mean=12, dummies=260), SPENT
    )
    page = asked_page(context, gateway)
    page.get_by_label("Bahn").check()
    page.get_by_label("spent (€)").fill("0.35")
    send_and_look(page, gateway)
    assert sent_symbols(gateway)[0] in {7 + 5, 7 + 6}
    expect(page.get_by_role("row", name="Bahn, about 0.4 €")).to_be_visible()


def test_others_take_the_place_of_all_fields(context: BrowserContext) -> None:
    gateway = noisy_gateway(
        NodeHistogram(symbols=SPENT_SYMBOLS, noise_epsilon=RATE, mean=12, dummies=260), SPENT
    )
    page = asked_page(context, gateway)
    page.get_by_label("no answer").check()
    expect(page.get_by_label("spent (€)")).to_be_disabled()
    send_and_look(page, gateway)
    assert sent_symbols(gateway) == [14]


def test_a_page_with_a_sample_checks_one_tile(
    context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board of one tile, so that all messages belong into the one that is drawn."""
    sampled = page_world.QUESTION.replace("policy=", 'receipts="sample" policy=')
    monkeypatch.setattr(page_world, "QUESTION", sampled)
    gateway = noisy_gateway(NodeColumns(symbols=256, columns=(16, 16), **HIDDEN), MEDICINE)
    page = asked_page(context, gateway)
    page.get_by_label("medicine").fill("Aspirin")
    send_and_look(page, gateway)
    expect(page.get_by_text("was checked: 2 of yours belong into it")).to_be_visible()
    assert (gateway.tiles, gateway.boards) == ([0], 0)


def test_a_number_with_laplace_noise(context: BrowserContext) -> None:
    gateway = noisy_gateway(LocalLaplace(max_value=200, epsilon_geo=Fraction(1, 4)), WEIGHT)
    page = asked_page(context, gateway)
    page.get_by_label("a number from 0 to 20 kg").fill("3.5")
    send_and_look(page, gateway)
    expect(page.get_by_role("row", name="Mean kg")).to_be_visible()


def test_a_blanket_among_dummies_of_nodes(context: BrowserContext) -> None:
    histogram = NodeHistogram(
        symbols=4, noise_epsilon=RATE, mean=12, dummies=60, blanket=Fraction(1, 4)
    )
    gateway = noisy_gateway(histogram)
    page = asked_page(context, gateway)
    page.get_by_label("Badly").check()
    send_and_look(page, gateway)
    expect(page.get_by_role("row")).to_have_count(5)


def test_a_changed_part_is_not_run(context: BrowserContext) -> None:
    gateway = noisy_gateway(LocalLaplace(max_value=200, epsilon_geo=Fraction(1, 4)), WEIGHT)
    gateway.changed = {PART: read_web_file(PART) + b"\n"}
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_role("status")).to_contain_text("ConfigError")
    assert gateway.bodies == []


def test_rounds_of_other_mechanisms_load_no_part(context: BrowserContext) -> None:
    gateway = noisy_gateway(KRRHistogram(symbols=4, blanket=RATE))
    page = asked_page(context, gateway)
    page.get_by_label("Badly").check()
    page.get_by_role("button", name="Prepare my answer").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert not set(gateway.scripts) & set(PARTS)
