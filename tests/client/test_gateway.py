"""The HTTPS gateway, as whoever writes a device for it would meet it, and as whoever attacks it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, Draft, make_deployment, make_members
from gateway_world import (
    answer,
    connected,
    device_config,
    gateway,
    http,
    liar,
    server_of,
    slow_reader,
)
from simulated_round import SimulatedRound
from structlog.testing import capture_logs

from shuffledp_client.device import DeviceSteps
from shuffledp_client.gateway.cli import roster_of
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_client.gateway.probe import probe
from shuffledp_client.gateway.upstream import Upstream
from shuffledp_client.http_api import PROBLEM, Problem
from shuffledp_client.submission import PreparedSubmission, check_receipt, prepare
from shuffledp_client.transport import Backoff
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core import errors
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BusyError, ConfigError, PortInUseError, UnreachableError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.pki import Deployment

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "gateway.json"
IMPATIENT = Limits(handshake_seconds=0.5, request_seconds=0.5, answer_seconds=0.5, idle_seconds=1.0)


@pytest.fixture
async def address(tmp_path: Path, deployment: Deployment) -> AsyncIterator[str]:
    async with gateway(deployment, tmp_path / "gateway", body_bytes=100_000) as running:
        yield f"https://localhost:{running.rpartition(':')[2]}"


def prepared(deployment: Deployment, simulated: SimulatedRound) -> PreparedSubmission:
    (member,) = make_members(deployment, 1)
    announcement = parse_announcement(simulated.announcement)
    return prepare(
        verify_round(announcement, deployment.roster, LENIENT, POPULATION, NOW), 1, member
    )


def body(submission: PreparedSubmission, **changes: Any) -> dict[str, Any]:
    """A submission as somebody writes it who reads the OpenAPI document, without our structs."""
    return {
        "credential": msgspec.to_builtins(submission.credential),
        "claim": msgspec.to_builtins(submission.claim),
        "envelope": base64.b64encode(submission.envelope).decode(),
    } | changes


def problem(answer: httpx.Response) -> Problem:
    assert answer.headers["content-type"] == PROBLEM
    assert answer.headers["cache-control"] == "no-store"
    found = msgspec.json.decode(answer.content, type=Problem)
    assert found.status == answer.status_code
    return found


# ------------------------------------------------------- what it is for


async def test_a_round_is_played_by_hand_over_https(
    deployment: Deployment, simulated: SimulatedRound, address: str
) -> None:
    async with http(deployment) as client:
        assert (await client.get(f"{address}/healthz")).json() == {"status": "ok"}
        for path in ("/v1/announcement", f"/v1/rounds/{ROUND_ID}/announcement"):
            assert (await client.get(address + path)).content == simulated.announcement
        mine = prepared(deployment, simulated)
        where = f"{address}/v1/rounds/{ROUND_ID}"
        for _ in range(2):  # a lost receipt is asked for again
            answer = await client.post(f"{where}/submissions", json=body(mine))
            assert answer.status_code == 200, answer.text
            check_receipt(
                mine, deployment.roster.party("node-1"), Signed.from_bytes(answer.content)
            )
        waiting = problem(await client.get(f"{where}/result"))
        assert (waiting.status, waiting.code) == (404, "UnknownRoundError")
        simulated.end()
        result = (await client.get(f"{where}/result")).json()
        assert Signed(**result["result"]) == simulated.result
        board = await client.get(f"{where}/board")
        assert (board.content, board.headers["content-type"]) == (
            simulated.board,
            "application/octet-stream",
        )
        tile = await client.get(f"{where}/tiles/0")
        assert tile.content == simulated.tiles().tile(0)
        for lasting in (board, tile):
            assert "immutable" in lasting.headers["cache-control"]
            assert "no-store" not in lasting.headers["cache-control"]
        for index, error in (
            ("1", "UnknownRoundError"),
            ("01", "UnknownRoundError"),
            ("-1", "UnknownRoundError"),
            ("1" * 9, "UnknownRoundError"),
        ):
            refused = await client.get(f"{where}/tiles/{index}")
            assert problem(refused).code == error
            assert refused.headers["cache-control"] == "no-store"
    assert list(simulated.accepted.values()) == [mine.envelope]


async def test_the_openapi_document_is_served(deployment: Deployment, address: str) -> None:
    async with http(deployment) as client:
        assert (await client.get(f"{address}/v1/openapi.json")).content == DOCUMENT.read_bytes()


# --------------------------------------------------------- wrong inputs


WRONG: dict[str, tuple[dict[str, Any] | bytes, dict[str, str], int, str]] = {
    "garbage": (b"\xff\xfe{", {}, 400, "MalformedDocumentError"),
    "nothing": (b"", {}, 400, "MalformedDocumentError"),
    "deeply nested": (b"[" * 50_000, {}, 400, "MalformedDocumentError"),
    "another field": ({"surprise": 1}, {}, 400, "MalformedDocumentError"),
    "no base64": ({"envelope": "%%%"}, {}, 400, "MalformedDocumentError"),
    "an envelope too short": ({"envelope": "AAAA"}, {}, 422, "InvalidSubmissionError"),
    "a number for a document": ({"claim": 7}, {}, 400, "MalformedDocumentError"),
    "a form": (
        {},
        {"content-type": "application/x-www-form-urlencoded"},
        400,
        "MalformedRequestError",
    ),
    "too long": (b" " * 100_001, {}, 413, "MalformedRequestError"),
    "too long and no length": (
        b" " * 100_001,
        {"transfer-encoding": "chunked"},
        413,
        "MalformedRequestError",
    ),
    "a field twice": (b'{"claim":{},"claim":{}}', {}, 400, "MalformedDocumentError"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_body_is_a_problem_and_nothing_is_accepted(
    name: str, deployment: Deployment, simulated: SimulatedRound, address: str
) -> None:
    content, headers, status, code = WRONG[name]
    if isinstance(content, dict):
        content = json.dumps(body(prepared(deployment, simulated), **content)).encode()
    sent: Any = content
    if "transfer-encoding" in headers:

        async def pieces() -> AsyncIterator[bytes]:
            yield content[:50_000]
            yield content[50_000:]

        sent = pieces()
    async with http(deployment) as client:
        where = f"{address}/v1/rounds/{ROUND_ID}/submissions"
        answer = await client.post(
            where, content=sent, headers={"content-type": "application/json"} | headers
        )
        assert (problem(answer).status, problem(answer).code) == (status, code)
        assert (await client.get(f"{address}/healthz")).status_code == 200
    assert simulated.accepted == {}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "MalformedRequestError"),
        ("GET", "/v1/announcement/", 404, "MalformedRequestError"),
        ("DELETE", "/v1/announcement", 405, "MalformedRequestError"),
        ("GET", f"/v1/rounds/{ROUND_ID}/submissions", 405, "MalformedRequestError"),
        ("GET", f"/v1/rounds/{'f' * 32}/announcement", 404, "UnknownRoundError"),
        ("GET", f"/v1/rounds/{'f' * 32}/board", 404, "UnknownRoundError"),
        ("GET", "/v1/rounds/..%2f..%2fetc/board", 404, "MalformedRequestError"),
        ("GET", f"/v1/rounds/{ROUND_ID.upper()}/result", 404, "UnknownRoundError"),
        ("GET", f"/v1/rounds/{'a' * 9000}/result", 404, "UnknownRoundError"),
    ],
)
async def test_a_wrong_path_or_method_is_a_problem(
    deployment: Deployment,
    simulated: SimulatedRound,
    address: str,
    method: str,
    path: str,
    status: int,
    code: str,
) -> None:
    assert simulated.result is None
    async with http(deployment) as client:
        found = problem(await client.request(method, address + path))
    assert (found.status, found.code) == (status, code)


async def test_asking_for_the_head_alone_downloads_no_board(
    deployment: Deployment, simulated: SimulatedRound, address: str
) -> None:
    simulated.board = bytes(1000)
    async with http(deployment) as client:
        assert (await client.head(f"{address}/v1/rounds/{ROUND_ID}/board")).status_code == 405
    assert simulated.boards == 0


async def test_a_second_different_submission_is_refused_with_the_nodes_own_reason(
    deployment: Deployment, simulated: SimulatedRound, address: str
) -> None:
    (member,) = make_members(deployment, 1)
    announcement = parse_announcement(simulated.announcement)
    verified = verify_round(announcement, deployment.roster, LENIENT, POPULATION, NOW)
    first, second = (prepare(verified, 1, member) for _ in range(2))
    async with http(deployment) as client:
        where = f"{address}/v1/rounds/{ROUND_ID}/submissions"
        assert (await client.post(where, json=body(first))).status_code == 200
        refused = problem(await client.post(where, json=body(second)))
        assert (refused.status, refused.code) == (409, "DifferentSubmissionError")
        mixed = problem(await client.post(where, json=body(second, claim=body(first)["claim"])))
        assert (mixed.status, mixed.code) == (422, "InvalidSubmissionError")
        elsewhere = problem(
            await client.post(f"{address}/v1/rounds/{'e' * 32}/submissions", json=body(first))
        )
        assert (elsewhere.status, elsewhere.code) == (404, "UnknownRoundError")
    assert list(simulated.accepted.values()) == [first.envelope]


async def test_parties_that_are_away_are_a_bad_gateway(
    deployment: Deployment, address: str
) -> None:
    async with http(deployment) as client:
        found = problem(await client.get(f"{address}/v1/announcement"))
    assert (found.status, found.code) == (502, "UnreachableError")


async def test_nobody_without_a_certificate_of_the_deployment_speaks_to_it(
    tmp_path: Path, deployment: Deployment, address: str
) -> None:
    other = make_deployment(tmp_path / "other")
    async with http(deployment, keys=other.keys_of("client")) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"{address}/healthz")
    context = ssl.create_default_context(cadata=deployment.roster.tls_authority)
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"{address}/healthz")


# ----------------------------------------------- those who take too much


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the gateway hangs up, in whichever way.

    A hang-up that never comes is the failure.
    """
    async with asyncio.timeout(240):
        data = b""
        try:
            while piece := await reader.read(2**16):
                data += piece
        except (ConnectionError, ssl.SSLError):
            pass
        return data


async def test_slow_and_silent_callers_are_hung_up_on(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with gateway(
        deployment, tmp_path / "gateway", limits=IMPATIENT, submission_seconds=0.5
    ) as address:
        host, _, port = address.rpartition(":")
        silent_tcp, silent_writer = await asyncio.open_connection(host, int(port))
        begun = {
            "silent": b"",
            "half a head": b"GET /healthz HTTP/1.1\r\nho",
            "half a body": f"POST /v1/rounds/{ROUND_ID}/submissions HTTP/1.1\r\nhost: "
            f"gateway\r\ncontent-type: "
            "application/json\r\ncontent-length: 5000\r\n\r\n{".encode(),
        }
        callers = {}
        for name, data in begun.items():
            callers[name] = await connected(deployment, address)
            callers[name][1].write(data)
        assert await ended(silent_tcp) == b""
        assert await ended(callers["silent"][0]) == b""
        assert await ended(callers["half a head"][0]) == b""
        answer = await ended(callers["half a body"][0])
        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b'"code":"BusyError"' in answer
        for writer in (silent_writer, *(writer for _, writer in callers.values())):
            writer.transport.abort()


async def test_a_caller_that_sends_a_byte_now_and_then_does_not_keep_its_connection(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with gateway(deployment, tmp_path / "gateway", limits=IMPATIENT) as address:
        reader, writer = await connected(deployment, address)

        async def drip() -> None:
            writer.write(b"GET /healthz HTTP/1.1\r\n")
            for number in range(10_000):
                writer.write(f"x-{number}: y\r\n".encode())
                await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        assert await ended(reader) == b""
        dripping.cancel()
        writer.transport.abort()


async def test_what_is_no_http_is_a_problem_and_the_end(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with gateway(deployment, tmp_path / "gateway") as address:
        for data in (
            b"\0\1\2\3\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000,
            b"GET /\r\n\r\n",
        ):
            reader, writer = await connected(deployment, address)
            writer.write(data)
            answer = await ended(reader)
            assert answer.startswith(b"HTTP/1.1 400 "), answer[:80]
            assert b'"code":"MalformedRequestError"' in answer
            writer.transport.abort()


async def test_a_reader_that_stalls_is_hung_up_on_and_the_others_are_served(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    simulated.board, simulated.piece = bytes(2**23), 2**18
    limits = Limits(answer_seconds=0.5)
    async with gateway(deployment, tmp_path / "gateway", limits=limits, boards=1) as address:
        reader, writer = await slow_reader(deployment, address)
        writer.write(f"GET /v1/rounds/{ROUND_ID}/board HTTP/1.1\r\nhost: gateway\r\n\r\n".encode())
        await reader.readline()
        async with http(deployment) as client, asyncio.timeout(240):
            where = f"https://localhost:{address.rpartition(':')[2]}/v1/rounds/{ROUND_ID}/board"
            full = problem(await client.get(where))
            assert (full.status, full.code) == (503, "BusyError")
            while True:  # until the one that stalls is sent away
                answer = await client.get(where)
                if answer.status_code != 503:
                    break
            assert answer.content == simulated.board
        writer.transport.abort()


async def test_an_address_that_asks_too_often_is_told_when_to_come_back(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with (
        gateway(deployment, tmp_path / "gateway", requests_per_minute=3) as address,
        http(deployment) as client,
    ):
        where = f"https://localhost:{address.rpartition(':')[2]}/healthz"
        answers = [await client.get(where) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert (problem(answers[3]).code, answers[3].headers["retry-after"]) == ("BusyError", "60")


async def test_bodies_on_their_way_share_a_budget(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    assert simulated.accepted == {}
    async with gateway(
        deployment, tmp_path / "gateway", body_bytes=2**20, waiting_bytes=2**20
    ) as address:
        head = (
            f"POST /v1/rounds/{ROUND_ID}/submissions HTTP/1.1\r\nhost: gateway\r\ncontent-type: "
            f"application/json\r\n"
            f"content-length: {2**20}\r\n\r\n"
        ).encode()
        _, first = await connected(deployment, address)
        first.write(head + b" " * (2**20 - 1000))
        await first.drain()
        async with http(deployment) as client, asyncio.timeout(240):
            where = (
                f"https://localhost:{address.rpartition(':')[2]}/v1/rounds/{ROUND_ID}/submissions"
            )
            while True:  # until the first one's bytes are there
                answer = await client.post(
                    where, content=b" " * 2000, headers={"content-type": "application/json"}
                )
                if answer.status_code == 503:
                    break
        assert problem(answer).code == "BusyError"
        first.transport.abort()


# ---------------------------------------------------- its configuration


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "node-1"}, "name must be"),
        ({"listen": "nowhere"}, "listen must be"),
        ({"listen": "a..b:7443"}, "listen must be"),
        ({"listen": f"{'a' * 64}.example.org:0"}, "listen must be"),
        ({"listen": "some where:0"}, "listen must be"),
        ({"addresses": {"node-1": "host"}}, "addresses.node-1"),
        ({"body_bytes": 1}, "body_bytes"),
        ({"waiting_bytes": 10}, "body_bytes"),
        ({"submission_seconds": float("nan")}, "submission_seconds"),
        ({"boards": 0}, "boards"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
    ],
)
def test_a_wrong_setting_is_refused(change: dict[str, Any], says: str) -> None:
    fields: dict[str, Any] = {
        "keys": Path(), "roster": Path(), "root_key": "", "listen": "localhost:7443",
        "state": Path(),
    }  # fmt: skip
    with pytest.raises(ValueError, match=says):
        GatewayConfig(**(fields | change))


async def test_a_gateway_without_its_keys_or_its_port_does_not_start(
    tmp_path: Path, deployment: Deployment
) -> None:
    with pytest.raises(ConfigError, match="tls"):
        async with gateway(deployment, tmp_path, keys=tmp_path / "nothing"):
            pass
    async with gateway(deployment, tmp_path) as address:
        with pytest.raises(PortInUseError):
            async with gateway(deployment, tmp_path, listen=address):
                pass
    with pytest.raises(PortInUseError):
        async with gateway(deployment, tmp_path, listen="192.0.2.1:1"):
            pass


def test_a_gateway_with_another_partys_keys_is_not_started(
    tmp_path: Path, deployment: Deployment
) -> None:
    fields: dict[str, Any] = {
        "roster": deployment.roster_file, "root_key": deployment.root_key,
        "listen": "127.0.0.1:0", "state": tmp_path,
    }  # fmt: skip
    for name in ("node-1", "client"):
        with pytest.raises(ConfigError, match=f"names '{name}', but devices expect 'gateway'"):
            roster_of(GatewayConfig(keys=deployment.keys_of(name), **fields))
    assert roster_of(GatewayConfig(keys=deployment.keys_of(GATEWAY), **fields)) == deployment.roster


async def test_it_never_writes_down_who_asked_for_what(
    tmp_path: Path,
    deployment: Deployment,
    simulated: SimulatedRound,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mine = prepared(deployment, simulated)
    with capture_logs() as entries:
        async with gateway(deployment, tmp_path / "gateway") as address, http(deployment) as client:
            where = (
                f"https://localhost:{address.rpartition(':')[2]}/v1/rounds/{ROUND_ID}/submissions"
            )
            await client.post(where, json=body(mine))
            await client.post(where, json=body(mine, envelope="AAAA"))
            await client.post(
                where, content=b"secret garbage", headers={"content-type": "application/json"}
            )
    logged = "".join([*capfd.readouterr(), *map(str, entries)])
    assert "listening" in logged
    for word in (mine.claim.signer, ROUND_ID, "127.0.0.1", "secret", mine.claim.signature):
        assert word not in logged.replace("127.0.0.1:0", "")


async def test_of_an_unforeseen_failure_the_log_says_where_and_not_what_was_sent(
    tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> bytes:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(Upstream, "announcement", fails)
    with capture_logs() as entries:
        async with gateway(deployment, tmp_path / "gateway") as address, http(deployment) as client:
            found = problem(
                await client.get(f"https://localhost:{address.rpartition(':')[2]}/v1/announcement")
            )
    assert (found.status, found.code) == (500, "BusyError")
    (entry,) = [entry for entry in entries if entry["log_level"] == "error"]
    assert entry["where"][-1].startswith("test_gateway.py:")
    assert any(line.startswith("app.py:") for line in entry["where"])
    assert "secret" not in str(entries)
    assert "secret" not in found.detail


def test_every_error_has_a_status() -> None:
    from shuffledp_client.http_api import problem_of

    for code in errors.codes():
        if not errors.by_code(code).__module__.startswith("shuffledp_core"):
            continue  # of a package that other tests have loaded, and no party's
        found = problem_of(errors.by_code(code)("words"))
        assert 400 <= found.status < 600
        # The page tells callers to mend a request with 400, which they can only if it was theirs.
        assert (found.status == 400) == (
            code in {"MalformedRequestError", "MalformedDocumentError"}
        )
        assert found.title
        assert found.code == code


async def test_an_upstream_that_names_a_stranger_as_entry_node_gets_no_envelope(
    tmp_path: Path, deployment: Deployment
) -> None:
    draft = Draft(deployment)
    draft.signers = {"analyst": make_deployment(tmp_path / "other").identity_of("analyst")}
    async with SimulatedRound(draft, tmp_path) as forged:
        upstream = Upstream(deployment.keys_of(GATEWAY), deployment.roster)
        with pytest.raises(errors.SignatureError):
            await upstream._entry(ROUND_ID)
        await upstream.close()
        assert forged.calls == 0


def test_a_server_that_was_never_started_stops(tmp_path: Path, deployment: Deployment) -> None:
    async def run() -> None:
        await server_of(deployment, tmp_path).stop()

    asyncio.run(run())


# ------------------------------------------------------------------------ Retry-After


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("9" * 5000, float("inf")),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        ("-1", 0.0),
        ("²", 0.0),
    ],
    ids=["seconds", "for ever", "date", "negative", "no digit"],
)
async def test_a_device_reads_how_long_a_gateway_asks_to_be_left_alone(
    tmp_path: Path, deployment: Deployment, header: str, seconds: float
) -> None:
    said = answer(b"", "429 Too Many Requests", "text/plain", f"retry-after: {header}")
    async with liar(deployment, said) as elsewhere:
        once = DeviceSteps(
            device_config(tmp_path / "user", deployment, address=elsewhere),
            backoff=Backoff(attempts=1),
        )
        with pytest.raises(BusyError) as refusal:
            await once.fetch_announcement()
    assert refusal.value.wait_seconds == seconds


# ------------------------------------------------------------------------ probe


async def test_the_probe_asks_the_gateway_of_a_configuration_and_says_when_none_answers(
    tmp_path: Path, deployment: Deployment
) -> None:
    fields: dict[str, Any] = {
        "keys": deployment.keys_of(GATEWAY), "roster": deployment.roster_file,
        "root_key": deployment.root_key,
        "state": tmp_path / "state",
    }  # fmt: skip
    async with gateway(deployment, tmp_path / "gateway") as running:
        # As in a container: the service listens on every address.
        config = GatewayConfig(**fields, listen=f"0.0.0.0:{running.rpartition(':')[2]}")
        await asyncio.to_thread(probe, config)
    with pytest.raises(UnreachableError, match="no gateway answers at"):
        await asyncio.to_thread(probe, config)
    async with liar(deployment, answer(b"", "503 Service Unavailable")) as elsewhere:
        with pytest.raises(UnreachableError, match="answered with 503"):
            await asyncio.to_thread(probe, msgspec.structs.replace(config, listen=elsewhere))
    assert not (tmp_path / "state").exists()
