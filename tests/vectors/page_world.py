"""A gateway for pages, played inside the test: real documents and checks, and lies on demand."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import msgspec
from client_rounds import NOW, POPULATION, ROUND_ID, Draft, settled
from playwright.sync_api import BrowserContext, Page, Route
from vector_world import identity, make_draft, make_roster, sign_roster

from shuffledp_client.http_api import ResultBody, problem_of
from shuffledp_client.web import SCRIPTS, WIDGET, read_web_file
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import Announcement, Credential, Receipt, Result, Roster
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import (
    AccessDenied,
    DifferentSubmissionError,
    ShuffleDPError,
    UnknownRoundError,
)
from shuffledp_core.mechanisms import KRRHistogram, Mechanism
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import open_envelope, peel
from shuffledp_core.runtime.keys import ROOT, Identity
from shuffledp_core.transparency.board_tiles import TiledBoard

Answer = tuple[int, str, bytes]
"""Status, content type, body."""

JSON: Final = "application/json"
CODE: Final = "ABCD-EFGH"
ASKED: Final = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
POLICY: Final = {"epsilon": 100.0, "delta": 1e-6, "epsilon_corrupted": "inf"}

QUESTION: Final = f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>A question</title>
<script type="module" src="/v1/web/{WIDGET}"></script></head>
<body><main><h1>A private question</h1>
<shuffledp-question root-key="{identity(ROOT).public_key.hex()}" population="{POPULATION}"
  policy='{json.dumps(POLICY)}'>
<p slot="question">How did you sleep last night?</p>
<option value="0">Very well</option><option value="1">Well</option>
<option value="2">Badly</option><option value="3">Hardly at all</option>
</shuffledp-question></main></body></html>"""
"""A page with the element. Its device asks the real clock."""

OPEN: Final = """async ([policy, population, rootKey, now, receipts]) => {
    const {Device} = await import('/shuffledp.min.js');
    window.device = await Device.open({
        gateway: location.origin, rootKey, population, policy, receipts, clock: () => now,
    });
    window.attempt = async (action) => {
        try { return await action(); } catch (error) {
            if (error.code === undefined) throw error;
            return error.code;
        }
    };
}"""


@dataclass
class PageGateway:
    """All that a page asks for, answered from real documents."""

    mechanism: Mechanism = ASKED
    suite: str = "hpke"
    roster: Roster = field(default_factory=make_roster)
    draft: Draft = field(init=False)
    announcement: bytes = b""
    accepted: dict[str, bytes] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=lambda: {CODE: ""})
    """One-time codes, and the keys that they were exchanged for."""
    bodies: list[bytes] = field(default_factory=list)
    """Every submission that was sent, accepted or not."""
    lies: dict[str, Callable[[Answer], Answer]] = field(default_factory=dict)
    """By the last part of a path: what is done to a genuine answer."""
    scripts: list[str] = field(default_factory=list)
    """Every file of JavaScript that was asked for."""
    changed: dict[str, bytes] = field(default_factory=dict)
    """Files of JavaScript that differ from the package's."""
    policy_header: str = ""
    """The content security policy of every page; none where empty."""
    tiles: list[int] = field(default_factory=list)
    """Every tile that was asked for."""
    boards: int = 0
    losing: bool = False
    """Whether connections end before submissions and enrolments are answered."""
    result: Signed | None = None
    discards: tuple[Signed, ...] = ()
    log: str | msgspec.UnsetType = msgspec.UNSET
    """The proof that the result is in the public log."""
    board: bytes = b""
    round_id: str = ROUND_ID
    wording: QuestionWording | None = None

    def __post_init__(self) -> None:
        self.draft = self.make_draft()
        self.announcement = to_json(self.draft.announcement())

    def make_draft(self) -> Draft:
        """The round's documents."""
        return make_draft(self.mechanism, self.suite, roster=self.roster, **self._renamed())

    @property
    def geometry(self) -> Geometry:
        """Lengths of the round."""
        return Geometry.of(self.mechanism, self.suite, 3)

    def _renamed(self) -> dict[str, Any]:
        if self.wording is not None:
            return {"certificate": {"wording": self.wording}}
        if self.round_id == ROUND_ID:
            return {}
        named = {"round_id": self.round_id}
        return {
            "manifest": named,
            "certificate": named,
            "round_keys": {1: named, 2: named, 3: named},
            "countersignatures": dict.fromkeys(("node-1", "node-2", "node-3"), named),
        }

    def serve(self, context: BrowserContext) -> None:
        """Answer every request of a browser's context."""
        context.route("**/*", self._handle)

    def _handle(self, route: Route) -> None:
        path = route.request.url.removeprefix("http://localhost")
        name = path.rpartition("/")[2]
        if name in SCRIPTS:
            self.scripts.append(name)
            body = self.changed.get(name, read_web_file(name))
            route.fulfill(body=body, content_type="text/javascript")
            return
        if path == "/question":
            route.fulfill(body=QUESTION, content_type="text/html")
            return
        if not path.startswith("/v1/"):
            headers = {"content-type": "text/html"}
            if self.policy_header:
                headers["content-security-policy"] = self.policy_header
            route.fulfill(body="<!doctype html><title>A page</title>", headers=headers)
            return
        try:
            answer = self._answer(path, route.request.post_data_buffer or b"")
        except ShuffleDPError as error:
            problem = problem_of(error)
            answer = (problem.status, "application/problem+json", to_json(problem))
        if self.losing and route.request.method == "POST":
            route.abort()
            return
        lie = self.lies.get(path.rpartition("/")[2])
        status, kind, body = answer if lie is None else lie(answer)
        route.fulfill(status=status, content_type=kind, body=body)

    def _answer(self, path: str, body: bytes) -> Answer:
        last = path.rpartition("/")[2]
        if last == "roster":
            return 200, JSON, sign_roster(self.roster).to_bytes()
        if last == "announcement":
            return 200, JSON, self.announcement
        if last == "enrolments":
            return 200, JSON, self._enrol(json.loads(body)).to_bytes()
        if last == "submissions":
            self.bodies.append(body)
            return 200, JSON, self._accept(json.loads(body)).to_bytes()
        if self.result is None:
            raise UnknownRoundError("the round has not ended yet")
        if last == "result":
            return (
                200,
                JSON,
                to_json(ResultBody(result=self.result, discards=self.discards, log=self.log)),
            )
        return 200, "application/octet-stream", self._board_or_tile(last)

    def _board_or_tile(self, name: str) -> bytes:
        if name == "board":
            self.boards += 1
            return self.board
        self.tiles.append(int(name))
        tiled = TiledBoard.of(self.board, self.geometry)
        return tiled.tile(int(name))

    def _enrol(self, request: dict[str, str]) -> Signed:
        public_key = request["public_key"]
        if self.codes.get(request["code"], "-") not in {"", public_key}:
            raise AccessDenied("no such code, or it was used")
        self.codes[request["code"]] = public_key
        credential = Credential(population=request["population"], public_key=public_key)
        return Identity(POPULATION, identity("enrolment").key).sign(credential)

    def _accept(self, body: dict[str, Any]) -> Signed:
        envelope = base64.b64decode(body["envelope"], validate=True)
        credential, claim = (
            Signed.from_bytes(json.dumps(body[name]).encode()) for name in ("credential", "claim")
        )
        enrolment_key = identity("enrolment").public_key
        name = check_submission(
            self.round_id, POPULATION, enrolment_key, credential, claim, envelope
        )
        if self.accepted.setdefault(name, envelope) != envelope:
            raise DifferentSubmissionError("another submission was accepted")
        receipt = Receipt(
            round_id=self.round_id, credential=name, submission_digest=digest(envelope)
        )
        return identity("node-1").sign(receipt)

    def messages(self) -> list[bytes]:
        """The messages of all accepted envelopes, every layer opened by its node's key."""
        geometry = self.geometry
        plain = b""
        for envelope in self.accepted.values():
            packed = open_envelope(geometry, self.round_id, self.draft.private_keys[0], envelope)
            for position in (2, 3):
                key = self.draft.private_keys[position - 1]
                packed = peel(geometry, self.round_id, position, key, packed)
            plain += packed
        width = geometry.plain_bytes
        return [plain[start : start + width] for start in range(0, len(plain), width)]

    def end(self, change: Callable[[list[bytes]], list[bytes]] = sorted, **fields: Any) -> None:
        """Publish the result of what was accepted."""
        self.board = b"".join(change(self.messages()))
        manifest = from_json(self.announcement, Announcement).manifest
        geometry = self.geometry
        users = len(self.board) // geometry.plain_bytes // geometry.messages_per_user
        outcome = self.outcome_of(users)
        outcome["manifest_digest"] = document_digest(manifest)
        outcome["tiles_root"] = TiledBoard.of(self.board, geometry).root.hex()
        outcome |= fields
        document = Result(deployment="demo", round_id=self.round_id, **outcome)
        self.result = identity("analyst").sign(document)

    def outcome_of(self, users: int) -> dict[str, Any]:
        """What an honest analyst publishes of the board."""
        return settled(self.draft, self.board, users)


def open_device(context: BrowserContext, receipts: str = "board") -> Page:
    """A new tab with a device, and `attempt`, which gives the code of an error of ours."""
    page = context.new_page()
    page.goto("http://localhost/")
    page.evaluate(OPEN, [POLICY, POPULATION, identity(ROOT).public_key.hex(), NOW, receipts])
    return page


def attempt(page: Page, action: str) -> Any:
    """What an expression gives, or the code of the error that it raises."""
    return page.evaluate(f"async () => await attempt(async () => {{ return {action}; }})")
