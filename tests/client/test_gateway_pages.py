"""The gateway's address for pages: named origins, callers behind proxies, one-time codes, and the
module."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_rounds import NOW, POPULATION, ROUND_ID
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gateway_world import gateway, http, server_of
from simulated_round import SimulatedRound
from test_gateway import DOCUMENT, body, prepared

from shuffledp_client.gateway.app import Gateway, to_bytes
from shuffledp_client.gateway.config import EnrolmentConfig, GatewayConfig, WebConfig
from shuffledp_client.gateway.enrolments import EnrolmentDesk
from shuffledp_client.gateway.openapi import example_submission, openapi
from shuffledp_client.gateway.web import CONTENT_POLICY, NamedOrigins, PageRoutes
from shuffledp_client.http_api import EnrolmentBody
from shuffledp_client.web import MODULE, SCRIPTS, integrity_of, read_web_file
from shuffledp_core.documents.codes import code_digest, make_code, parse_code_list
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signed import Signed, verify
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.errors import AccessDenied, ConfigError
from shuffledp_core.runtime.config import Limits
from shuffledp_ops.keys.codes import add_codes, code_list
from shuffledp_ops.keys.pki import Deployment

ORIGIN = "https://www.example.org"


def key_of(number: int) -> str:
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return key.public_key().public_bytes_raw().hex()


def desk_config(deployment: Deployment) -> EnrolmentConfig:
    return EnrolmentConfig(
        population=POPULATION,
        key=deployment.folder / "enrolment" / POPULATION,
        codes=code_list(deployment, POPULATION),
    )


@asynccontextmanager
async def pages(
    deployment: Deployment, state: Path, *, web: dict[str, Any] | None = None, **changes: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with an address for pages, and a client that is no device."""
    config = WebConfig(listen="127.0.0.1:0", origins=(ORIGIN,), **(web or {}))
    server = server_of(deployment, state, web=config, **changes)
    await server.start()
    try:
        base = f"http://127.0.0.1:{server.web_port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=20) as client:
            yield client
    finally:
        await server.stop()


async def test_pages_of_named_origins_read_and_others_do_not(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with pages(deployment, tmp_path) as client:
        answer = await client.get("/v1/roster", headers={"origin": ORIGIN})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert "access-control-allow-credentials" not in answer.headers
        assert "origin" in answer.headers["vary"]
        assert answer.content == deployment.roster_file.read_bytes()
        for origin in (
            "https://evil.example",
            "null",
            ORIGIN + ".evil.example",
            "http://www.example.org",
        ):
            refused = await client.get("/v1/roster", headers={"origin": origin})
            assert refused.status_code == 403
            assert refused.json()["code"] == "AccessDenied"
            assert "access-control-allow-origin" not in refused.headers
        own = await client.get("/v1/roster", headers={"origin": str(client.base_url).rstrip("/")})
        assert own.status_code == 200
        assert "access-control-allow-origin" not in own.headers
        behind_proxy = {"host": "answers.example.org", "origin": "https://answers.example.org"}
        assert (await client.get("/v1/roster", headers=behind_proxy)).status_code == 200


async def test_a_browser_may_ask_before_it_sends(tmp_path: Path, deployment: Deployment) -> None:
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    path = f"/v1/rounds/{ROUND_ID}/submissions"
    async with pages(deployment, tmp_path) as client:
        answer = await client.options(path, headers={"origin": ORIGIN} | asks)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["access-control-allow-methods"] == "GET, POST"
        assert answer.headers["access-control-allow-headers"] == "content-type"
        refused = await client.options(path, headers={"origin": "https://evil.example"} | asks)
        assert refused.status_code == 403


async def test_the_devices_own_address_has_no_routes_for_pages(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with gateway(deployment, tmp_path) as address, http(deployment) as client:
        base = f"https://localhost:{address.rpartition(':')[2]}"
        for path in ("/v1/roster", f"/v1/web/{MODULE}"):
            assert (await client.get(base + path)).status_code == 404
        assert (await client.post(base + "/v1/enrolments", content=b"{}")).status_code == 404


@pytest.mark.parametrize("name", SCRIPTS)
async def test_files_come_as_they_are_and_compressed_with_one_digest(
    tmp_path: Path, deployment: Deployment, name: str
) -> None:
    async with pages(deployment, tmp_path) as client:
        for encoding in ("identity", "gzip"):
            answer = await client.get(f"/v1/web/{name}", headers={"accept-encoding": encoding})
            assert answer.headers["content-type"].startswith("text/javascript")
            assert answer.content == read_web_file(name)
            assert answer.headers.get("content-encoding", "identity") == encoding
        digest = base64.b64encode(hashlib.sha384(read_web_file(name)).digest()).decode()
        assert integrity_of(name) == f"sha384-{digest}"
        for other in ("example.html", "__init__.py", "../gateway/app.py", "%2e%2e/x"):
            assert (await client.get(f"/v1/web/{other}")).status_code == 404


async def test_the_example_page_has_the_question_and_may_load_nothing_from_elsewhere(
    tmp_path: Path, deployment: Deployment
) -> None:
    question = tmp_path / "question.html"
    question.write_text("<shuffledp-question></shuffledp-question>")
    async with pages(deployment, tmp_path, web={"question": question}) as client:
        answer = await client.get("/v1/web/example.html")
        assert answer.headers["content-security-policy"] == CONTENT_POLICY
        assert "<shuffledp-question>" in answer.text
        assert "@QUESTION@" not in answer.text


async def test_a_submission_arrives_by_way_of_the_address_for_pages(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    async with pages(deployment, tmp_path / "gateway") as client:
        answer = await client.get("/v1/announcement", headers={"origin": ORIGIN})
        assert answer.content == simulated.announcement
        submission = prepared(deployment, simulated)
        path = f"/v1/rounds/{ROUND_ID}/submissions"
        answer = await client.post(path, json=body(submission), headers={"origin": ORIGIN})
        assert answer.status_code == 200
        assert Signed.from_bytes(answer.content).label == "receipt"


# Limits behind a proxy


def caller(peer: str, *forwarded: str, proxies: tuple[str, ...] = ("10.0.0.1", "10.0.0.2")) -> str:
    config = WebConfig(listen="127.0.0.1:0", proxies=proxies)
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]

    async def nothing(*_: Any) -> None: ...

    named = NamedOrigins(nothing, config)
    return named.caller_of({"client": (peer, 1), "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.7", (), "192.0.2.7"),
        ("192.0.2.7", ("198.51.100.1",), "192.0.2.7"),
        ("10.0.0.1", ("198.51.100.1",), "198.51.100.1"),
        ("10.0.0.1", ("203.0.113.9, 198.51.100.1",), "198.51.100.1"),
        ("10.0.0.1", ("203.0.113.9", "198.51.100.1"), "198.51.100.1"),
        ("10.0.0.1", ("198.51.100.1, 10.0.0.2",), "198.51.100.1"),
        ("10.0.0.1", ("2001:db8::1",), "2001:db8::1"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("198.51.100.1, unknown",), "10.0.0.1"),
        ("10.0.0.1", ("10.0.0.2",), "10.0.0.1"),
    ],
)
def test_only_a_named_proxy_says_who_calls(
    peer: str, forwarded: tuple[str, ...], expected: str
) -> None:
    assert caller(peer, *forwarded) == expected


async def test_callers_behind_a_proxy_have_limits_of_their_own(
    tmp_path: Path, deployment: Deployment
) -> None:
    web = {"proxies": ("127.0.0.1",)}
    async with pages(deployment, tmp_path, web=web, requests_per_minute=3) as client:

        async def ask(address: str) -> int:
            headers = {"x-forwarded-for": address}
            return (await client.get("/healthz", headers=headers)).status_code

        assert [await ask("198.51.100.1") for _ in range(4)] == [200, 200, 200, 429]
        assert await ask("198.51.100.2") == 200
        # What stands before the proxy's own entry is the caller's word.
        assert await ask("203.0.113.1, 198.51.100.1") == 429


# Codes


def test_a_code_is_listed_by_its_digest_alone(deployment: Deployment) -> None:
    expires = dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC)
    codes = add_codes(deployment, 3, expires)
    text = code_list(deployment, POPULATION).read_bytes()
    listed = parse_code_list(text)
    assert {code_digest(code) for code in codes} <= set(listed)
    assert not any(code.replace("-", "").encode() in text.upper() for code in codes)
    assert code_digest(codes[0].lower().replace("-", " ")) == code_digest(codes[0])
    assert len({make_code() for _ in range(1000)}) == 1000
    for line in (b"x 1\n", b"ab" * 32 + b"\n", b"AB" * 32 + b" 1\n", b"ab" * 32 + b" -1\n"):
        with pytest.raises(ConfigError, match="line 1"):
            parse_code_list(line)


async def test_a_code_is_exchanged_for_one_key_again_and_again(
    tmp_path: Path, deployment: Deployment
) -> None:
    (code,) = add_codes(deployment, 1, dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC))
    now = [NOW]
    desk = EnrolmentDesk(desk_config(deployment), deployment.roster, tmp_path, lambda: now[0])

    def request(**changes: str) -> EnrolmentBody:
        fields = {"code": code, "population": POPULATION, "public_key": key_of(1)} | changes
        return EnrolmentBody(**fields)

    for changes in ({"code": make_code()}, {"population": "other"}):
        with pytest.raises(AccessDenied, match="ask for a new one"):
            await desk.exchange(request(**changes))
    signed = await desk.exchange(request())
    key = bytes.fromhex(deployment.roster.population(POPULATION).enrolment_key)
    assert verify(signed, Credential, POPULATION, key).public_key == key_of(1)
    now[0] = NOW + 3_600_000
    again = EnrolmentDesk(desk_config(deployment), deployment.roster, tmp_path, lambda: now[0])
    assert await again.exchange(request()) == signed
    with pytest.raises(AccessDenied, match="ask for a new one"):
        await again.exchange(request(public_key=key_of(2)))
    (late,) = add_codes(deployment, 1, dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC))
    with pytest.raises(AccessDenied, match="ask for a new one"):
        await again.exchange(request(code=late))


async def test_two_browsers_with_one_code_get_one_credential(
    tmp_path: Path, deployment: Deployment
) -> None:
    (code,) = add_codes(deployment, 1, dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC))
    desk = EnrolmentDesk(desk_config(deployment), deployment.roster, tmp_path, lambda: NOW)
    requests = (
        EnrolmentBody(code=code, population=POPULATION, public_key=key_of(number))
        for number in range(1, 9)
    )
    outcomes = await asyncio.gather(*map(desk.exchange, requests), return_exceptions=True)
    credentials = [outcome for outcome in outcomes if isinstance(outcome, Signed)]
    assert len(credentials) == 1
    assert all(isinstance(outcome, Signed | AccessDenied) for outcome in outcomes)
    assert len(list((tmp_path / "enrolments").iterdir())) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"code": "x"}',
        b'{"code": "x", "population": "demo", "public_key": "AB"}',
        b'{"code": "", "population": "demo", "public_key": "' + b"ab" * 32 + b'"}',
        b'{"code": "' + b"x" * 5000 + b'"}',
    ],
)
async def test_any_other_request_for_a_credential_is_a_problem(
    tmp_path: Path, deployment: Deployment, body: bytes
) -> None:
    add_codes(deployment, 1, dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC))
    web = {"enrolment": desk_config(deployment)}
    async with pages(deployment, tmp_path, web=web) as client:
        answer = await client.post("/v1/enrolments", content=body)
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_request_for_a_credential_that_does_not_arrive_is_given_up(
    tmp_path: Path, deployment: Deployment
) -> None:
    add_codes(deployment, 1, dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.UTC))
    web = {"enrolment": desk_config(deployment)}
    limits = Limits(request_seconds=0.5)
    async with pages(deployment, tmp_path, web=web, limits=limits) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"POST /v1/enrolments HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        async with asyncio.timeout(120):
            answer = await reader.readuntil(b"\r\n")
        assert b"503" in answer
        writer.transport.abort()


def test_a_desk_has_the_key_of_its_population(tmp_path: Path, deployment: Deployment) -> None:
    other = desk_config(deployment)
    wrong = EnrolmentConfig(
        population=other.population, key=deployment.keys_of("analyst"), codes=other.codes
    )
    with pytest.raises(ConfigError, match="not the key that the roster has"):
        EnrolmentDesk(wrong, deployment.roster, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"listen": "nowhere"}, "web.listen"),
        ({"origins": ("*",)}, "web.origins"),
        ({"origins": ("https://www.example.org/",)}, "web.origins"),
        ({"proxies": ("proxy.example",)}, "web.proxies"),
        ({"proxies": ("010.0.0.1",)}, "web.proxies"),
        ({"certificate": Path("x")}, "must be given together"),
    ],
)
def test_a_setting_for_pages_that_means_nothing_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        WebConfig(**({"listen": "127.0.0.1:0"} | changes))


def test_the_documented_submission_is_one_that_an_entry_node_checks() -> None:
    example = example_submission()
    round_id = json.loads(example.claim.body)["round_id"]
    enrolment_key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    parts = (example.credential, example.claim, example.envelope)
    assert check_submission(round_id, "demo", enrolment_key, *parts) == example.claim.signer


def test_the_openapi_document_is_the_program() -> None:
    document = openapi()
    config = GatewayConfig(
        keys=Path(), roster=Path(), root_key="", listen="localhost:1", state=Path()
    )
    web = WebConfig(listen="localhost:1")
    desk: Any = object()
    routes = [
        *Gateway(config, None).routes(),  # type: ignore[arg-type] # nothing is called
        *PageRoutes(web, b"", desk, 1.0).routes(),
    ]
    served = {(route.path, method.lower()) for route in routes for method in (route.methods or ())}
    assert served == {
        (path, method) for path, methods in document["paths"].items() for method in methods
    }
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(document["components"]["schemas"])
    assert DOCUMENT.read_bytes() == to_bytes(document), (
        "write it anew: docs/reference/gateway.md says how"
    )
