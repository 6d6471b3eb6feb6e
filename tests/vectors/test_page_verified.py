"""Pages in verified rounds, in Debian's Chromium: the part that they load, and what nodes see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import POPULATION, ROUND_ID, Draft
from page_world import CODE, PageGateway, attempt, open_device
from playwright.sync_api import Browser, BrowserContext, Page
from vector_world import coins, derive, identity
from verified_vectors import context_of, fields_of_result, verified_draft, with_keys

from shuffledp_client.gateway.web import CONTENT_POLICY
from shuffledp_client.web import PARTS, read_web_file
from shuffledp_core.documents.models import Certificate, Credential, Manifest, RoundKey
from shuffledp_core.documents.signed import from_json, verify
from shuffledp_core.mechanisms import Mechanism, RRShuffle
from shuffledp_core.mixproof.claiming import unpack_claim
from shuffledp_core.mixproof.claims import check_claim, open_submission
from shuffledp_core.mixproof.group import GENERATOR, Element, multiply
from shuffledp_core.mixproof.keys import NodeSecret, make_key
from shuffledp_core.mixproof.manifests import mix_terms
from shuffledp_core.mixproof.terms import MixTerms, key_of, split_record
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.vocabulary import Mix

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

LOG_PART, _, VERIFIED_PART = PARTS
BITS = RRShuffle(max_value=5, randomise=Fraction(1, 2))
ENROL = f"device.enrol('{CODE}')"
ANSWER = "await device.answer(await device.question(), 2)"
CHECK = f"(await device.check('{ROUND_ID}')).found"


@dataclass
class VerifiedGateway(PageGateway):
    """A gateway in a verified round, whose nodes check claims and open records as real ones do."""

    mechanism: Mechanism = BITS
    secrets: list[NodeSecret] = field(default_factory=list)

    @property
    def geometry(self) -> Geometry:
        """Lengths of the round."""
        return Geometry.of(self.mechanism, self.suite, 3, Mix.VERIFIED)

    def make_draft(self) -> Draft:
        """The round's documents, with keys of its nodes."""
        draft = verified_draft(self.mechanism)
        base, keys = GENERATOR, []
        for position, name in enumerate(draft.route, start=1):
            source = coins(derive("mixing key", name))
            secret, key = make_key(context_of(draft), name, position, base, source)
            base = Element(key.blinding)
            self.secrets.append(secret)
            keys.append(key)
        return with_keys(draft, keys)

    def terms(self) -> MixTerms:
        """The terms of the round, from its documents."""
        signed = self.draft.announcement().manifest
        manifest = from_json(signed.body, Manifest)
        certificate = from_json(manifest.certificate.body, Certificate)
        keys = [from_json(key.body, RoundKey) for key in manifest.route]
        return mix_terms(signed, manifest, certificate, keys, self.roster)

    def messages(self) -> list[bytes]:
        """The board's messages of all accepted claims, which every check of node 1 accepts."""
        geometry, terms = self.geometry, self.terms()
        opener = suite_named(self.suite).opener(self.draft.private_keys[0], binding(ROUND_ID, 1))
        messages = []
        for name, envelope in self.accepted.items():
            enrolled = unpack_claim(geometry, envelope[: geometry.claim_bytes])
            verify(
                enrolled.credential(POPULATION),
                Credential,
                POPULATION,
                identity("enrolment").public_key,
            )
            check_claim(terms, enrolled.claim, {bytes.fromhex(name)})
            sealed = opener(envelope[geometry.claim_bytes :])
            _, records = open_submission(terms, enrolled.claim, sealed)
            messages += [self._open(terms, record) for record in records]
        return messages

    def _open(self, terms: MixTerms, record: bytes) -> bytes:
        """What all nodes and the analyst make of one record."""
        key, box = key_of(record), split_record(record)[1]
        for position, secret in enumerate(self.secrets, start=1):
            if position > 1:
                inner = terms.open(position, multiply(secret.opening, key), box)
                assert inner is not None
                box = inner
            key = multiply(secret.blinding, key)
        content = terms.content(terms.analyst, key, key, box)
        assert content is not None
        return key + content

    def outcome_of(self, users: int) -> dict[str, Any]:
        """What an honest analyst publishes of the board."""
        return fields_of_result(self.draft, self.geometry, self.board, (users,) * 3)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own."""
    opened = browser.new_context()
    yield opened
    opened.close()


def enrolled_page(context: BrowserContext, gateway: PageGateway) -> Page:
    gateway.serve(context)
    page = open_device(context)
    assert len(attempt(page, ENROL)) == 64
    return page


def test_a_page_claims_its_messages_and_finds_them_on_the_board(context: BrowserContext) -> None:
    """Under the content policy of the example page; the part is loaded once."""
    gateway = VerifiedGateway(policy_header=CONTENT_POLICY)
    page = enrolled_page(context, gateway)
    assert VERIFIED_PART not in gateway.scripts
    assert attempt(page, ANSWER)["messages"] == 5
    assert gateway.scripts.count(VERIFIED_PART) == 1
    assert LOG_PART not in gateway.scripts
    assert attempt(page, CHECK) == "UnknownRoundError"
    gateway.end()
    assert attempt(page, CHECK) == 5
    assert len(gateway.board) == 5 * (32 + 1 + 64)


def test_a_page_finds_its_messages_in_a_tile(context: BrowserContext) -> None:
    gateway = VerifiedGateway()
    gateway.serve(context)
    page = open_device(context, "sample")
    attempt(page, ENROL)
    attempt(page, ANSWER)
    gateway.end()
    assert attempt(page, CHECK) == 5
    assert (gateway.tiles, gateway.boards) == ([0], 0)


def test_a_message_that_was_changed_is_missed(context: BrowserContext) -> None:
    gateway = VerifiedGateway()
    page = enrolled_page(context, gateway)
    attempt(page, ANSWER)
    gateway.end(lambda rows: [rows[0][:32] + bytes([rows[0][32] ^ 1]) + rows[0][33:], *rows[1:]])
    assert attempt(page, CHECK) == "ReceiptMissingError"


def test_plain_rounds_load_no_part(context: BrowserContext) -> None:
    gateway = PageGateway()
    page = enrolled_page(context, gateway)
    attempt(page, ANSWER)
    gateway.end()
    assert attempt(page, CHECK) == 1
    assert not set(gateway.scripts) & set(PARTS)


@pytest.mark.parametrize(
    "changed",
    [
        read_web_file(VERIFIED_PART) + b"\n",
        read_web_file(VERIFIED_PART).replace(b"51", b"52", 1),
        b"export const start = () => ({});\n",
    ],
    ids=["a byte more", "another number", "another program"],
)
def test_another_part_than_the_pinned_one_is_not_run(
    context: BrowserContext, changed: bytes
) -> None:
    assert changed != read_web_file(VERIFIED_PART)
    gateway = VerifiedGateway(changed={VERIFIED_PART: changed})
    page = enrolled_page(context, gateway)
    assert attempt(page, ANSWER) == "ConfigError"
    assert gateway.bodies == []
