"""A page that checks one random tile of the board, in Debian's Chromium; docs/tiles.md."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import msgspec
import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import ROUND_ID
from page_world import CODE, PageGateway, attempt, open_device
from playwright.sync_api import Browser, BrowserContext, Page

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.board_tiles import tile_bits, tile_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

CHECK = f"(await device.check('{ROUND_ID}')).found"
USERS = 5_000
BITS = 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context()
    yield opened
    opened.close()


def answered(context: BrowserContext, receipts: str = "sample") -> tuple[PageGateway, Page]:
    """A gateway and a page that has answered its round."""
    gateway = PageGateway()
    gateway.serve(context)
    page = open_device(context, receipts)
    attempt(page, f"device.enrol('{CODE}')")
    assert attempt(page, "device.answer(await device.question(), 2)")["messages"] == 1
    return gateway, page


def among_others(messages: list[bytes]) -> list[bytes]:
    """The messages and those of other people, enough for four tiles."""
    return [*messages, *(b"\x01" + secrets.token_bytes(16) for _ in range(USERS - 1))]


def altered(messages: list[bytes]) -> list[bytes]:
    return [bytes([message[0] ^ 1]) + message[1:] for message in messages]


def test_a_page_fetches_one_tile_and_finds_its_message_in_it(context: BrowserContext) -> None:
    gateway, page = answered(context)
    gateway.end(among_others)
    geometry = Geometry.of(gateway.mechanism, gateway.suite, 3)
    assert tile_bits(USERS, geometry) == BITS
    found = attempt(page, CHECK)
    assert (len(gateway.tiles), gateway.boards) == (1, 0)
    assert found == int(gateway.tiles == [tile_of(gateway.messages()[0], BITS, geometry)])
    assert attempt(page, CHECK) == "RoundStateError"  # settled


def test_a_page_draws_its_tile_once_however_often_it_is_refused(context: BrowserContext) -> None:
    gateway, page = answered(context)
    gateway.end(among_others)
    for index in range(1 << BITS):
        gateway.lies[str(index)] = lambda answer: (404, answer[1], b"")
    for _ in range(12):
        assert attempt(page, CHECK) == "NodeFault"
    page.close()
    again = open_device(context, "sample")
    gateway.lies.clear()
    assert attempt(again, CHECK) in {0, 1}
    assert len(gateway.tiles) == 13
    assert len(set(gateway.tiles)) == 1  # by chance with a probability of 4^-12


def test_a_page_notices_that_its_message_is_not_in_the_tile(context: BrowserContext) -> None:
    gateway, page = answered(context)
    gateway.end(altered)  # a short board is a single tile
    assert attempt(page, CHECK) == "ReceiptMissingError"
    assert gateway.tiles == [0]
    assert attempt(page, CHECK) == "ReceiptMissingError"  # everything is kept


@pytest.mark.parametrize("kept", [slice(-17), slice(0), slice(17, None)])
def test_a_tile_that_was_not_signed_is_refused(context: BrowserContext, kept: slice) -> None:
    gateway, page = answered(context)
    gateway.end(among_others)
    for index in range(1 << BITS):
        gateway.lies[str(index)] = lambda answer: (*answer[:2], answer[2][kept])
    assert attempt(page, CHECK) == "BadBatchError"
    gateway.lies.clear()
    assert attempt(page, CHECK) in {0, 1}


def test_a_tile_without_the_signed_root_shows_nothing(context: BrowserContext) -> None:
    gateway, page = answered(context)
    for root, expected in (("ab" * 32, "BadBatchError"), (msgspec.UNSET, "MalformedDocumentError")):
        gateway.end(tiles_root=root)
        assert attempt(page, CHECK) == expected


def test_a_page_with_the_whole_board_checks_the_tiles_of_everyone(context: BrowserContext) -> None:
    gateway, page = answered(context, "board")
    gateway.end(among_others, tiles_root="ab" * 32)
    assert attempt(page, CHECK) == "FalseResultError"
    gateway.end(among_others)
    assert attempt(page, CHECK) == 1
    assert (gateway.boards, gateway.tiles) == (2, [])


def test_a_page_offers_the_board_and_samples_only(context: BrowserContext) -> None:
    PageGateway().serve(context)
    page = open_device(context)
    opening = "device.constructor.open({receipts: 'tile'})"
    assert attempt(page, opening) == "ConfigError"
