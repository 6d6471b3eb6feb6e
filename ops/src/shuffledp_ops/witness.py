"""A witness of public logs: it signs a checkpoint only if the log has grown since the one before.

C2SP tlog-witness: `POST /add-checkpoint`. It keeps one file per log, and nothing else. An
organisation other than the deployment's should run it, and never restore its state from a backup.
"""

from __future__ import annotations

import hashlib
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import structlog

from shuffledp_core.errors import (
    ConfigError,
    DocumentError,
    LogProofError,
    MalformedDocumentError,
    SignatureError,
)
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.files import make_folder, read_file, write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.transparency.cosignatures import cosign, witness_key
from shuffledp_core.transparency.notes import (
    MAX_NOTE_BYTES,
    Checkpoint,
    NoteKey,
    check_note,
    is_signed_by_namesake,
    parse_checkpoint,
    parse_note,
)
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES, AddCheckpoint
from shuffledp_core.transparency.tree import EMPTY_ROOT, check_consistency

CONNECTION_SECONDS: Final = 10.0
"""Longest life of a connection, however slowly its bytes arrive."""

MOST_CONNECTIONS: Final = 32

_SIZE_TYPE: Final = "text/x.tlog.size"


class WitnessState:
    """The newest checkpoint of each log, saved before it is signed. Safe to use from threads."""

    def __init__(
        self, identity: Identity, logs: list[NoteKey], folder: Path, clock: Callable[[], int]
    ) -> None:
        """Load the state from `folder`, for these logs. `clock` returns ms since 1970."""
        make_folder(folder)
        self._identity = identity
        self._key = witness_key(identity.name, identity.public_key)
        self._logs = {log.name: log for log in logs}
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        for log in logs:
            self._newest(log)  # a damaged file is noticed at the start

    def add_checkpoint(self, body: bytes) -> tuple[HTTPStatus, str]:
        """Process a request to sign a checkpoint; return status and body (C2SP tlog-witness)."""
        try:
            request = AddCheckpoint.from_bytes(body)
            note = parse_note(request.note)
            log = self._logs.get(note.text.partition("\n")[0])
            if log is None:
                return HTTPStatus.NOT_FOUND, "unknown log\n"
            shown = parse_checkpoint(check_note(note, log))
        except SignatureError as error:
            return HTTPStatus.FORBIDDEN, f"{error}\n"
        except MalformedDocumentError as error:
            return HTTPStatus.BAD_REQUEST, f"{error}\n"
        if request.old > shown.size:
            return HTTPStatus.BAD_REQUEST, "the old size is above the checkpoint's\n"
        with self._lock:
            return self._extend(log, request, shown)

    def _extend(
        self, log: NoteKey, request: AddCheckpoint, shown: Checkpoint
    ) -> tuple[HTTPStatus, str]:
        newest = self._newest(log)
        is_fork = shown.size == newest.size and shown.root != newest.root
        if request.old != newest.size or is_fork:
            return HTTPStatus.CONFLICT, f"{newest.size}\n"
        try:
            check_consistency(newest.size, newest.root, shown.size, shown.root, request.hashes)
        except LogProofError as error:
            structlog.get_logger().error(
                "public log not cosigned: it contradicts its earlier checkpoint",
                log=log.name,
                reason=str(error),
            )
            return HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}\n"
        # Before it is signed: after a crash nothing smaller is ever signed again.
        write_atomic(self._file(log), request.note)
        now = self._clock() // 1000
        structlog.get_logger().info("checkpoint cosigned", log=log.name, size=shown.size)
        return HTTPStatus.OK, cosign(shown.to_text(), self._key, self._identity.sign_bytes, now)

    def _newest(self, log: NoteKey) -> Checkpoint:
        file = self._file(log)
        if not file.exists():
            return Checkpoint(log.name, 0, EMPTY_ROOT)
        data = read_file(file, "state of the witness", MAX_NOTE_BYTES)
        try:
            note = parse_note(data)
            if is_signed_by_namesake(note, log):
                raise ConfigError(
                    f"{file} is signed by another key than the one that the roster now has for "
                    f"{log.name}: the accountant has a new identity key, so this witness cannot "
                    "tell whether the log only grew; give this witness a new key and an empty "
                    "state folder, and put that key into the roster"
                )
            return parse_checkpoint(check_note(note, log))
        except DocumentError as error:
            raise ConfigError(
                f"{file} is damaged ({error}); without it this witness could sign a second "
                "history: give the witness a new key, and put that key into the roster"
            ) from error

    def _file(self, log: NoteKey) -> Path:
        return self._folder / f"{hashlib.sha256(log.name.encode()).hexdigest()[:32]}.checkpoint"


class WitnessServer(ThreadingHTTPServer):
    """A witness on HTTP. Checkpoints are signed, so the connection need not be secret."""

    daemon_threads = True

    def __init__(self, address: str, state: WitnessState) -> None:
        host, port = host_and_port(address)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.state = state
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error

    def process_request(self, request: Any, client_address: Any) -> None:
        """See `socketserver`; closes connections beyond the limit."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See `socketserver`; closes the connection when its time limit is reached."""
        watch = threading.Timer(CONNECTION_SECONDS, _shut, [request])
        watch.daemon = True
        watch.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            watch.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the interface
        """See `socketserver`; ignores callers that disconnect."""
        structlog.get_logger().debug("connection broken", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: WitnessServer
    timeout = CONNECTION_SECONDS

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/add-checkpoint":
            self._answer(HTTPStatus.NOT_FOUND, "only /add-checkpoint is answered\n")
        elif not (length.isascii() and length.isdigit()) or int(length[:9]) > MAX_PROOF_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long\n")
        else:
            self._answer(*self.server.state.add_checkpoint(self.rfile.read(int(length))))

    def _answer(self, status: HTTPStatus, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        plain = "text/plain; charset=utf-8"
        kind = _SIZE_TYPE if status is HTTPStatus.CONFLICT else plain
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the interface
        structlog.get_logger().debug("request", line=format % args)


def serve(server: WitnessServer) -> None:
    """Answer requests until SIGTERM or SIGINT."""

    def stop(*_: Any) -> None:
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with server:
        server.serve_forever()


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connected.shutdown(socket.SHUT_RDWR)
