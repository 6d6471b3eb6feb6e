"""The C library in rounds of real processes: a C program, a caller by ctypes, a Python device."""

from __future__ import annotations

import asyncio
import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from c_library import CLibrary, CodedError, build_library, compile_example
from gateway_world import http
from rounds_for_tests import ended, small_plan, submit_some
from test_columns_round import WORDING

from shuffledp_core.documents.models import Result
from shuffledp_core.runtime.keys import load_identity, verify_from
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import write_client
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.system.processes import LocalSystem

pytestmark = pytest.mark.slow

POLICY = {"epsilon": 5, "delta": 1e-2, "epsilon_corrupted": "inf"}
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "any-language.md"
LONGEST_LINE = 2**24


@pytest.fixture(scope="module")
def library() -> Path:
    return build_library()


@pytest.fixture(scope="module")
def program(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_example(library, tmp_path_factory.mktemp("program"))


class Caller:
    """What the library leaves to its caller: the network, the disk and the clock."""

    def __init__(self, system: LocalSystem, gateway: str, keys: Path) -> None:
        self.system = system
        self.gateway = f"https://localhost:{gateway.rpartition(':')[2]}/v1"
        self.keys = keys
        write_client(keys, system.deployment, system.population)

    @property
    def key(self) -> bytes:
        return load_identity(self.keys, "device").key.private_bytes_raw()

    @property
    def roster(self) -> bytes:
        return Path(self.system.deployment.roster_file).read_bytes()

    @property
    def root_key(self) -> bytes:
        return self.system.deployment.root_key.encode()

    async def get(self, path: str) -> bytes:
        async with http(self.system.deployment, self.keys) as client:
            return (await client.get(f"{self.gateway}/{path}")).raise_for_status().content

    async def post(self, round_id: str, body: bytes) -> httpx.Response:
        headers = {"content-type": "application/json"}
        async with http(self.system.deployment, self.keys) as client:
            url = f"{self.gateway}/rounds/{round_id}/submissions"
            return await client.post(url, content=body, headers=headers)

    async def request(self, round_id: str, **changes: Any) -> dict[str, Any]:
        announcement = await self.get(f"rounds/{round_id}/announcement")
        return {
            "roster": self.roster.decode(), "root_key": self.root_key.decode(),
            "announcement": announcement.decode(), "policy": POLICY,
            "population": self.system.population, "now": time.time_ns() // 10**6,
            "round_id": round_id, "credential": (self.keys / "credential.json").read_text(),
        } | changes  # fmt: skip


async def run_program(
    program: Path, caller: Caller, request: dict[str, Any], value: int, round_id: str
) -> tuple[int, bytes, str]:
    """Exit status, the line that was to be sent, and what it said on standard error."""
    key = caller.keys / "identity.raw"
    key.write_bytes(caller.key)
    process = await asyncio.create_subprocess_exec(
        program, key, str(value), caller.keys / "record",
        caller.system.deployment.roster_file, caller.root_key.decode(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, limit=LONGEST_LINE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    await process.stdin.drain()
    body = await process.stdout.readline()
    if body:
        process.stdin.write((await caller.post(round_id, body)).content + b"\n")
    _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, body, said.decode()


@pytest.mark.parametrize(
    ("suite", "plan", "messages"),
    [
        ("sealed-box", {}, 3),
        ("hpke", {"mechanism": "node-columns", "size": 4, "wording": WORDING}, 2),
        ("hpke-mlkem768-x25519", {"mechanism": "krr-histogram", "size": 4}, 1),
        ("hpke", {"mix": Mix.VERIFIED}, 3),
    ],
    ids=["sealed-box", "hpke", "hybrid", "verified"],
)
async def test_both_answer_a_round_and_their_messages_are_on_the_board(
    system: LocalSystem, gateway: str, tmp_path: Path, pool: ProcessPoolExecutor,
    library: Path, program: Path, suite: str, plan: dict[str, Any], messages: int,
) -> None:  # fmt: skip
    in_c = Caller(system, gateway, tmp_path / "in-c")
    by_ctypes = Caller(system, gateway, tmp_path / "by-ctypes")
    loaded = CLibrary.load(library)
    async with asyncio.timeout(240):
        async with control_of(system.deployment) as control:
            opening = small_plan(system, suite=suite, min_reports=3, max_reports=3, **plan)
            round_id = (await open_round(control, opening)).round_id
        request = await in_c.request(round_id)
        status, _, said = await run_program(program, in_c, request, 3, round_id)
        assert (status, said) == (0, "")
        request = await by_ctypes.request(round_id)
        shown = loaded.check_round(request)
        assert (shown["round_id"], shown["values"], shown["messages"]) == (round_id, 4, messages)
        body, record, _ = loaded.answer(request, by_ctypes.key, 1)
        for _ in range(2):  # to send again is to send the same
            receipt = (await by_ctypes.post(round_id, body)).raise_for_status().content
        loaded.check_receipt(by_ctypes.roster, by_ctypes.root_key, record, receipt)
        await submit_some(system, pool, round_id, 1)
        result = verify_from(
            system.deployment.roster.analyst, await ended(system, round_id), Result
        )
        assert (result.accepted, result.dropped) == (3, 0)
        published = await in_c.get(f"rounds/{round_id}/result")
        board = await in_c.get(f"rounds/{round_id}/board")
        tile = await in_c.get(f"rounds/{round_id}/tiles/0")
    record_in_c = (in_c.keys / "record").read_bytes()
    with pytest.raises(CodedError, match="ForeignDocumentError"):  # the receipt of the other
        loaded.check_receipt(in_c.roster, in_c.root_key, record_in_c, receipt)
    for memory in (record, record_in_c):
        evidence = (in_c.roster, in_c.root_key, memory, published)
        assert loaded.find_messages(*evidence, board) == messages
        assert loaded.sample_tile(*evidence) == 0  # a small board is a single tile
        assert loaded.find_in_tile(*evidence, tile) == messages
        with pytest.raises(CodedError, match="BadBatchError"):
            loaded.find_messages(*evidence, board[1:] + board[:1])


def test_the_page_calls_the_library_as_it_is_declared(library: Path) -> None:
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    page: dict[str, Any] = {}
    exec(block.replace("libshuffledp.so", str(library)), page)  # noqa: S102 - our own page
    with pytest.raises(ValueError, match=r"^MalformedDocumentError: the field roster is missing"):
        page["check_round"]({})


async def test_nothing_is_sent_in_a_round_that_the_device_refuses(
    system: LocalSystem, gateway: str, tmp_path: Path, library: Path, program: Path
) -> None:
    caller = Caller(system, gateway, tmp_path / "keys")
    loaded = CLibrary.load(library)
    async with asyncio.timeout(240):
        async with control_of(system.deployment) as control:
            opened = await open_round(control, small_plan(system, min_reports=2, max_reports=2))
        round_id = opened.round_id
        request = await caller.request(round_id)
        refusals: list[tuple[dict[str, Any], int, str]] = [
            ({"policy": {**POLICY, "epsilon": 0.1}}, 1, "ClientPolicyRefusal"),
            ({"round_id": "f" * 32}, 1, "ForeignDocumentError"),
            ({"root_key": "0" * 64}, 1, "SignatureError"),
            ({"now": 0}, 1, "SubmissionClosedError"),
            ({"credential": None}, 1, "UsageError"),
            ({}, 4, "UsageError"),
        ]
        for changes, value, code in refusals:
            with pytest.raises(CodedError, match=code):
                loaded.answer(request | changes, caller.key, value)
            status, body, said = await run_program(
                program, caller, request | changes, value, round_id
            )
            assert (status, body, json.loads(said)["code"]) == (1, b"", code)
        with pytest.raises(CodedError, match="UsageError"):
            loaded.answer(request, bytes(32), 1)
        (caller.keys / "record").write_bytes(b"an earlier record")
        status, body, _ = await run_program(program, caller, request, 1, round_id)
        assert (status, body) == (2, b"")
        assert (caller.keys / "record").read_bytes() == b"an earlier record"
