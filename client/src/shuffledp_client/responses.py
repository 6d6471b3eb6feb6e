"""Responses that a device draws once and keeps, for mechanisms with memoised responses.

The guarantee over all rounds of a question rests on this: the response is never drawn again, even
if the user's value changes. A response drawn for a new value would reveal the change, and both
values, without limit (docs/accounting.md, K14). It is on disk before anything that depends on it
leaves the device, and the first one written wins. The file holds the response, which is randomised
already, and no value.

The folder belongs to one user; mode 0700, files 0600. Its lock is held while something in it is
read or changed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec

from shuffledp_client.state import lock_folder
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    ConfigError,
    MalformedDocumentError,
    RoundStateError,
)
from shuffledp_core.runtime.files import PART, erase, make_folder, sync, write_new

MOST_RESPONSES: Final = 1000
"""Most responses that are kept: each belongs to a question that others thought of."""

MOST_BYTES: Final = 4096
"""Most bytes of a file; ours have a few hundred."""


class KeptResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A memoised response, with its deployment, population and question.

    `scope`: deployment and population, `name`: of the response there.
    """

    scope: str
    name: str
    response: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

    def __repr__(self) -> str:
        return f"<KeptResponse of {self.name!r}>"  # the response is the user's, and no log's


class ResponseStore:
    """The memoised responses of one device, for one population of one deployment.

    Args:
        folder: folder of the responses; created when it is first needed.
        scope: deployment and population.
    """

    def __init__(self, folder: Path, scope: str) -> None:
        self._folder = folder
        self._scope = scope

    def recall(self, name: str, draw: Callable[[], int]) -> int:
        """The memoised response of this name; `draw` creates it at first use.

        Raises:
            RoundStateError: the file of this name is damaged; no other response is drawn in its
                place.
            ClientPolicyRefusal: the device already keeps the largest allowed number of responses.
            ConfigError: the folder cannot be used.
        """
        path = self._path(name)
        try:
            make_folder(self._folder)
            with lock_folder(self._folder):
                self._sweep()
                if not path.exists():
                    self._keep(
                        path, to_json(KeptResponse(scope=self._scope, name=name, response=draw()))
                    )
                # What is on disk counts, also where another process wrote it, and was killed before
                # it synced.
                response = self._read_response(path, name)
                sync(self._folder)
        except OSError as error:
            raise ConfigError(
                f"cannot save a memoised response in {self._folder}: {error.strerror}"
            ) from error
        return response

    def _keep(self, path: Path, data: bytes) -> None:
        if sum(1 for _ in self._folder.glob("*.json")) >= MOST_RESPONSES:
            raise ClientPolicyRefusal(
                f"{self._folder} already holds {MOST_RESPONSES} memoised responses, the maximum: "
                "this device answers no further question of this kind"
            )
        part = path.with_name(f"{path.stem}-{secrets.token_hex(8)}{PART}")
        try:
            write_new(part, data)
            with suppress(FileExistsError):
                # A link, not a rename, which would replace the response that another process wrote
                # meanwhile.
                os.link(part, path)
        finally:
            part.unlink(missing_ok=True)  # also what a full disk has cut off

    def _sweep(self) -> None:
        """Remove partial files of a killed process; a live process would hold the lock."""
        for part in self._folder.glob(f"*{PART}"):
            if (
                part.stat().st_nlink > 1
            ):  # killed behind the link: to overwrite it would wipe the response itself
                part.unlink()
            else:
                erase(part)

    def _read_response(self, path: Path, name: str) -> int:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
        try:
            stored = from_json(data, KeptResponse)
        except MalformedDocumentError as error:
            raise _damage_error(path) from error
        if (stored.scope, stored.name) != (self._scope, name):
            raise _damage_error(path)
        return stored.response

    def _path(self, name: str) -> Path:
        scoped = f"{self._scope} {name}".encode()
        return self._folder / f"{sha256(scoped).hexdigest()[:32]}.json"


def _damage_error(path: Path) -> RoundStateError:
    return RoundStateError(
        f"{path} is damaged, or belongs to another question: restore it from a backup, or do not "
        "answer this question again; a newly drawn response would reveal more of your value "
        "than was promised"
    )
