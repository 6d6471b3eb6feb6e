"""The C library of `crates/shuffledp-device`: built from its sources, and called by ctypes."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

CRATE: Final = Path(__file__).parents[2] / "crates" / "shuffledp-device"


def build_library() -> Path:
    """Build the shared library; skips where there is no cargo, or its crates cannot be fetched."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo here")
    fetched = subprocess.run(
        ["cargo", "fetch", "--locked", "--quiet"],  # noqa: S607
        cwd=CRATE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Cargo.lock" not in fetched.stderr, fetched.stderr
    if fetched.returncode:
        pytest.skip("the crates of crates/shuffledp-device cannot be had here")
    subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--package", "shuffledp-device-abi"],  # noqa: S607
        cwd=CRATE,
        check=True,
    )
    return CRATE / "target" / "debug" / "libshuffledp.so"


def compile_example(library: Path, folder: Path) -> Path:
    """Compile `examples/answer.c` against the library; skips where there is no C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")
    program = folder / "answer"
    options = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I", str(CRATE / "abi" / "include")]
    linked = ["-L", str(library.parent), "-lshuffledp", f"-Wl,-rpath,{library.parent}"]
    source = str(CRATE / "examples" / "answer.c")
    command = ["cc", *options, source, "-o", str(program), *linked]
    subprocess.run(command, check=True)
    return program


class CodedError(Exception):
    """A refusal of the library, by its code."""


@dataclass(frozen=True)
class CLibrary:
    """The functions of `shuffledp.h`, each with bytes for its inputs and its parts as bytes."""

    library: ctypes.CDLL

    @classmethod
    def load(cls, path: Path) -> CLibrary:
        """Load the shared library."""
        return cls(ctypes.CDLL(str(path)))

    def check_round(self, request: dict[str, Any]) -> dict[str, Any]:
        """`shuffledp_check_round`."""
        (shown,) = self._call("check_round", json.dumps(request).encode())
        described: dict[str, Any] = json.loads(shown)
        return described

    def answer(
        self, request: dict[str, Any], key: bytes, value: int, response: int = -1
    ) -> tuple[bytes, bytes, bytes]:
        """`shuffledp_answer`: the body to post, what to keep, the response to keep."""
        numbers = (ctypes.c_uint64(value), ctypes.c_int64(response))
        body, record, response_bytes = self._call(
            "answer", json.dumps(request).encode(), key, numbers=numbers
        )
        return body, record, response_bytes

    def check_receipt(self, roster: bytes, root_key: bytes, record: bytes, receipt: bytes) -> None:
        """`shuffledp_check_receipt`."""
        self._call("check_receipt", roster, root_key, record, receipt)

    def find_messages(
        self, roster: bytes, root_key: bytes, record: bytes, result: bytes, board: bytes
    ) -> int:
        """`shuffledp_find_messages`."""
        (count,) = self._call("find_messages", roster, root_key, record, result, board)
        return int(count)

    def sample_tile(self, roster: bytes, root_key: bytes, record: bytes, result: bytes) -> int:
        """`shuffledp_sample_tile`."""
        (index,) = self._call("sample_tile", roster, root_key, record, result)
        return int(index)

    def find_in_tile(
        self, roster: bytes, root_key: bytes, record: bytes, result: bytes, tile: bytes
    ) -> int:
        """`shuffledp_find_in_tile`."""
        (count,) = self._call("find_in_tile", roster, root_key, record, result, tile)
        return int(count)

    def _call(
        self, name: str, *inputs: bytes, numbers: tuple[ctypes.c_uint64 | ctypes.c_int64, ...] = ()
    ) -> list[bytes]:
        function = getattr(self.library, f"shuffledp_{name}")
        function.restype = ctypes.c_void_p
        arguments: list[Any] = []
        for data in inputs:
            arguments += [ctypes.c_char_p(data), ctypes.c_size_t(len(data))]
        result = ctypes.c_void_p(function(*arguments, *numbers))
        try:
            parts = list(self._parts(result))
            if self.library.shuffledp_status(result):
                raise CodedError(json.loads(parts[0])["code"])
        finally:
            self.library.shuffledp_free(result)
        return parts

    def _parts(self, result: ctypes.c_void_p) -> list[bytes]:
        part = self.library.shuffledp_part
        part.restype = ctypes.c_void_p
        parts: list[bytes] = []
        length = ctypes.c_size_t()
        while (data := part(result, ctypes.c_size_t(len(parts)), ctypes.byref(length))) is not None:
            parts.append(ctypes.string_at(data, length.value))
        return parts
