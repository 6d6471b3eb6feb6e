"""A page's device in Debian's Chromium: one answer a round, kept before it is sent, against
gateways that lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import ROUND_ID
from page_world import ASKED, CODE, JSON, Answer, PageGateway, attempt, open_device
from playwright.sync_api import Browser, BrowserContext, Page
from vector_world import identity, make_draft, make_member, make_roster

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Discard, Receipt
from shuffledp_core.documents.signed import to_json
from shuffledp_core.mechanisms import RapporHistogram, RRShuffle

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

ENROL = f"device.enrol('{CODE}')"
ASK = "window.question = await device.question()"
ANSWER = "await device.answer(await device.question(), 2)"
CHECK = f"(await device.check('{ROUND_ID}')).found"


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


def enrolled(context: BrowserContext, gateway: PageGateway) -> Page:
    gateway.serve(context)
    page = open_device(context)
    assert len(attempt(page, ENROL)) == 64
    return page


@pytest.mark.parametrize("suite", ["hpke", "hpke-mlkem768-x25519"])
def test_a_page_enrols_answers_and_finds_its_messages(context: BrowserContext, suite: str) -> None:
    gateway = PageGateway(RRShuffle(max_value=5, randomise=Fraction(1, 2)), suite)
    page = enrolled(context, gateway)
    assert attempt(page, ANSWER)["messages"] == 5
    assert attempt(page, f"device.stateOf('{ROUND_ID}')") == "received"
    assert len(gateway.accepted) == 1
    assert attempt(page, CHECK) == "UnknownRoundError"
    gateway.end()
    assert attempt(page, CHECK) == 5
    assert attempt(page, f"device.stateOf('{ROUND_ID}')") == "over"
    assert attempt(page, ANSWER) == "RoundStateError"
    assert attempt(page, CHECK) == "RoundStateError"
    assert len(gateway.bodies) == 1


def test_nothing_is_sent_without_a_credential_or_for_another_value(context: BrowserContext) -> None:
    gateway = PageGateway()
    gateway.serve(context)
    page = open_device(context)
    assert attempt(page, ANSWER) == "UnknownCredentialError"
    attempt(page, ENROL)
    for value in ("4", "-1", "1.5", "'1'", "true", "null", "1n", "NaN"):
        assert attempt(page, f"device.answer(await device.question(), {value})") == "UsageError"
    assert gateway.bodies == []


def test_the_private_key_does_not_leave_the_browser(context: BrowserContext) -> None:
    page = enrolled(context, PageGateway())
    outcome = page.evaluate("""async () => {
        const opening = indexedDB.open('shuffledp');
        await new Promise((resolve) => { opening.onsuccess = resolve; });
        const settings = opening.result.transaction('settings').objectStore('settings').getAll();
        await new Promise((resolve) => { settings.onsuccess = resolve; });
        const member = settings.result.find((entry) => entry.privateKey);
        for (const format of ['pkcs8', 'jwk', 'raw']) {
            try { return await crypto.subtle.exportKey(format, member.privateKey); } catch { }
        }
        return member.privateKey.extractable;
    }""")
    assert outcome is False


def test_a_code_is_good_for_one_browser_and_a_lost_answer_costs_none(browser: Browser) -> None:
    gateway = PageGateway()
    first, second = browser.new_context(), browser.new_context()
    gateway.serve(first)
    gateway.serve(second)
    page = open_device(first)
    gateway.losing = True
    page.evaluate("() => { window.lost = attempt(() => device.enrol('ABCD-EFGH')); }")
    page.wait_for_function("() => performance.getEntriesByType('resource').length > 0")
    page.wait_for_event("requestfailed", lambda request: request.url.endswith("enrolments"))
    page.close()
    gateway.losing = False
    bound = gateway.codes[CODE]
    again = open_device(first)
    assert attempt(again, ENROL) == bound
    assert attempt(open_device(second), ENROL) == "AccessDenied"
    first.close()
    second.close()


def test_two_tabs_send_one_submission(context: BrowserContext) -> None:
    gateway = PageGateway()
    first = enrolled(context, gateway)
    second = open_device(context)
    for page, value in ((first, 0), (second, 3)):
        page.evaluate(f"""() => {{
            window.sent = attempt(async () => device.answer(await device.question(), {value}));
        }}""")
    outcomes = [page.evaluate("() => window.sent") for page in (first, second)]
    assert [outcome["messages"] for outcome in outcomes] == [1, 1]
    assert len(set(gateway.bodies)) == 1


def test_a_tab_that_is_closed_before_the_receipt_sends_the_same_again(
    context: BrowserContext,
) -> None:
    gateway = PageGateway()
    page = enrolled(context, gateway)
    gateway.losing = True
    with page.expect_event("requestfailed"):
        page.evaluate(f"() => {{ window.sent = attempt(async () => {ANSWER}); }}")
    page.close()
    gateway.losing = False
    again = open_device(context)
    assert attempt(again, f"device.stateOf('{ROUND_ID}')") == "sealed"
    assert attempt(again, "await device.answer(await device.question(), 0)")["messages"] == 1
    assert len(set(gateway.bodies)) == 1
    assert len(gateway.bodies) >= 2


def test_an_older_roster_or_another_of_the_same_number_is_refused(context: BrowserContext) -> None:
    gateway = PageGateway()
    gateway.serve(context)
    open_device(context)
    for changes in ({"serial": 2}, {"broker": "elsewhere:1"}):
        gateway.roster = make_roster(**changes)
        with pytest.raises(Exception, match="an older roster than one used here"):
            open_device(context)
    gateway.roster = make_roster(serial=4)
    open_device(context)
    gateway.roster = make_roster()
    with pytest.raises(Exception, match="an older roster than one used here"):
        open_device(context)


def test_rounds_of_one_question_share_one_response(context: BrowserContext) -> None:
    """With reports that say the kept response as it is, but for rare coins."""
    rare = Fraction(1, 10**15)
    mechanism = RapporHistogram(symbols=31, fake=Fraction(1, 2), when_zero=rare, when_one=1 - rare)
    reports = []
    gateway = PageGateway(mechanism)
    page = enrolled(context, gateway)
    for value, round_id in enumerate((ROUND_ID, "1" * 32, "2" * 32)):
        context.unroute("**/*")
        gateway = PageGateway(mechanism, round_id=round_id)
        gateway.serve(context)
        assert attempt(page, f"device.answer(await device.question(), {value})")["messages"] == 1
        (message,) = gateway.messages()
        reports.append(message[:4])
    # Three independent responses of 31 bits agree with probability below 1e-9, a report differs
    # from its response with probability below 1e-12.
    assert len(set(reports)) == 1


def replaced(old: bytes, new: bytes) -> Callable[[Answer], Answer]:
    def lie(answer: Answer) -> Answer:
        assert old in answer[2]
        return answer[0], answer[1], answer[2].replace(old, new, 1)

    return lie


def with_body(body: bytes, kind: str = JSON, status: int = 200) -> Callable[[Answer], Answer]:
    return lambda _: (status, kind, body)


def receipt_of(signer: str, **changes: Any) -> Callable[[Answer], Answer]:
    def lie(answer: Answer) -> Answer:
        fields = json.loads(json.loads(answer[2])["body"]) | changes
        fields.pop("version")
        return answer[0], answer[1], identity(signer).sign(Receipt(**fields)).to_bytes()

    return lie


OTHER = to_json(make_draft(ASKED, manifest={"deployment": "other"}).announcement())
SPOKEN = b'{"type":"x","title":"x","status":409,"detail":"x","code":"ReceiptMissingError"}'
PROBLEM = "application/problem+json"

LIES: dict[str, tuple[str, Callable[[Answer], Answer], str]] = {
    "a page of a hotel": ("announcement", with_body(b"<html>", "text/html"), "NodeFault"),
    "a page of a hotel, as JSON": ("announcement", with_body(b"<html>"), "MalformedDocumentError"),
    "no text": ("announcement", with_body(b"\xff\xfe"), "MalformedDocumentError"),
    "more than may be": ("announcement", with_body(b" " * (4 * 2**20 + 1)), "NodeFault"),
    "deep nesting": ("announcement", with_body(b"[" * 100_000), "MalformedDocumentError"),
    "another deployment's round": ("announcement", with_body(OTHER), "ForeignDocumentError"),
    "an altered manifest": (
        "announcement",
        replaced(b"min_reports", b"min_report5"),
        "SignatureError",
    ),
    "a failure that is a finding of the device": (
        "announcement",
        with_body(SPOKEN, PROBLEM, 409),
        "NodeFault",
    ),
    "an older protocol": ("announcement", with_body(b"{}"), "MalformedDocumentError"),
    "a receipt of another node": ("submissions", receipt_of("node-2"), "ForeignDocumentError"),
    "a receipt for another envelope": (
        "submissions",
        receipt_of("node-1", submission_digest="0" * 64),
        "ForeignDocumentError",
    ),
    "a receipt of another round": (
        "submissions",
        receipt_of("node-1", round_id="f" * 32),
        "ForeignDocumentError",
    ),
    "an altered receipt": (
        "submissions",
        replaced(b"submission_digest", b"submission_digesT"),
        "SignatureError",
    ),
    "no receipt": ("submissions", with_body(b"{}"), "MalformedDocumentError"),
    "a refusal in the entry node's name": ("submissions", with_body(b"{}", JSON, 422), "NodeFault"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_gateway_that_lies_about_a_round_is_found_out(context: BrowserContext, lie: str) -> None:
    gateway = PageGateway()
    page = enrolled(context, gateway)
    path, answer, code = LIES[lie]
    gateway.lies[path] = answer
    assert attempt(page, ANSWER) == code
    if path == "announcement":
        assert gateway.bodies == []
        assert attempt(page, f"device.stateOf('{ROUND_ID}')") is None
    else:
        assert attempt(page, f"device.stateOf('{ROUND_ID}')") == "sealed"
        gateway.lies.clear()
        assert attempt(page, ANSWER)["messages"] == 1
        assert len(set(gateway.bodies)) == 1


def test_a_credential_of_another_key_or_population_is_refused(context: BrowserContext) -> None:
    gateway = PageGateway()
    gateway.serve(context)
    page = open_device(context)
    other = make_member("somebody else").credential.to_bytes()
    gateway.lies["enrolments"] = with_body(other)
    assert attempt(page, ENROL) == "ForeignDocumentError"
    gateway.lies["enrolments"] = replaced(b"population", b"populatioN")
    assert attempt(page, ENROL) == "SignatureError"
    assert attempt(page, "device.credentialName()") is None
    gateway.lies.clear()
    assert len(attempt(page, ENROL)) == 64


def test_a_roster_under_another_root_key_is_refused(context: BrowserContext) -> None:
    gateway = PageGateway()
    gateway.serve(context)
    gateway.lies["roster"] = with_body(
        identity("root")
        .sign(make_roster())
        .to_bytes()
        .replace(b'"signer":"root"', b'"signer":"tree"')
    )
    with pytest.raises(Exception, match="expected a roster of root"):
        open_device(context)
    gateway.lies["roster"] = replaced(b"node-1.example", b"node-9.example")
    with pytest.raises(Exception, match="valid signature of root"):
        open_device(context)


@pytest.mark.parametrize(
    ("change", "fields", "code"),
    [
        (lambda rows: [bytes([rows[0][0] ^ 1]) + rows[0][1:]], {}, "ReceiptMissingError"),
        (lambda rows: [rows[0][:1] + bytes(16)], {}, "ReceiptMissingError"),
        (sorted, {"board_digest": digest(b"")}, "FalseResultError"),
        (sorted, {"accepted": 2}, "ForeignDocumentError"),
        (sorted, {"final_certificate": None}, "MalformedDocumentError"),
        (sorted, {"headers": ()}, "MalformedDocumentError"),
        (sorted, {"estimate": None}, "FalseResultError"),
    ],
)
def test_a_false_result_is_found_out_and_the_evidence_kept(
    context: BrowserContext,
    change: Callable[[list[bytes]], list[bytes]],
    fields: dict[str, Any],
    code: str,
) -> None:
    gateway = PageGateway()
    page = enrolled(context, gateway)
    attempt(page, ANSWER)
    gateway.end(change, **fields)
    assert attempt(page, CHECK) == code
    assert attempt(page, f"device.stateOf('{ROUND_ID}')") == "received"
    gateway.end()
    assert attempt(page, CHECK) == 1


def test_a_board_that_is_cut_or_altered_on_its_way_is_fetched_again(
    context: BrowserContext,
) -> None:
    gateway = PageGateway()
    page = enrolled(context, gateway)
    attempt(page, ANSWER)
    gateway.end()
    for cut in (slice(0, -1), slice(1, None)):
        gateway.lies["board"] = lambda answer, cut=cut: (200, answer[1], answer[2][cut])  # type: ignore[misc]
        assert attempt(page, CHECK) == "BadBatchError"
    gateway.lies["board"] = lambda answer: (200, answer[1], answer[2] + b"x")
    assert attempt(page, CHECK) == "NodeFault"
    gateway.lies.clear()
    assert attempt(page, CHECK) == 1


def test_a_failed_round_stays_kept_until_every_node_has_signed(context: BrowserContext) -> None:
    gateway = PageGateway()
    page = enrolled(context, gateway)
    attempt(page, ANSWER)
    gateway.end(outcome="failed", error="TooFewReportsError", board_digest=None)
    nodes = ("node-1", "node-2", "node-3")
    for forwarded, signers, state in (
        ({}, nodes[:2], "received"),
        ({"node-2": True}, nodes, "received"),
        ({}, nodes, "over"),
    ):
        gateway.discards = tuple(
            identity(node).sign(
                Discard(round_id=ROUND_ID, node=node, forwarded=forwarded.get(node, False))
            )
            for node in signers
        )
        assert attempt(page, CHECK) == "TooFewReportsError"
        assert attempt(page, f"device.stateOf('{ROUND_ID}')") == state
