"""Exchange of one-time codes for credentials, for people who take part with a browser.

A code is good for one key: asked again for that key, it gives the same credential again, so that a
lost answer does not use up a code. The list has digests of codes only; `shuffledp keys codes` makes
both. The gateway that does this holds the population's enrolment key and decides who is in the
population: docs/threat-model.md, "Pages".
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path

from shuffledp_client.gateway.config import EnrolmentConfig
from shuffledp_client.http_api import EnrolmentBody
from shuffledp_core.documents.codes import code_digest, parse_code_list
from shuffledp_core.documents.models import Credential, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import AccessDenied, ConfigError
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.files import make_folder, read_file, sync, write_new
from shuffledp_core.runtime.keys import load_identity


class EnrolmentDesk:
    """Issues one population's credentials. Raises `ConfigError` unless its key is the roster's."""

    def __init__(
        self, config: EnrolmentConfig, roster: Roster, state: Path, clock: Clock = system_clock
    ) -> None:
        self._population = config.population
        self._codes = config.codes
        self._folder = state / "enrolments"
        self._clock = clock
        self._identity = load_identity(config.key, config.population)
        if self._identity.public_key.hex() != roster.population(config.population).enrolment_key:
            raise ConfigError(
                f"the enrolment key in {config.key} is not the key that the roster has for "
                f"{config.population!r}"
            )
        make_folder(self._folder)

    async def exchange(self, body: EnrolmentBody) -> Signed:
        """Exchange a one-time code and a public key for a credential.

        Raises:
            AccessDenied: there is no such code, it has expired, or it was exchanged for another
                key.
        """
        return await asyncio.to_thread(self._exchange, body)

    def _exchange(self, body: EnrolmentBody) -> Signed:
        name = code_digest(body.code)
        path = self._folder / f"{name}.json"
        # Which of the reasons it is would tell a guesser of codes more than it should know.
        refusal = AccessDenied(
            "there is no such code for this population, it has expired, or another browser has "
            "used it: ask for a new one"
        )
        if body.population != self._population:
            raise refusal
        if not path.exists():
            expires = parse_code_list(read_file(self._codes, "list of codes")).get(name)
            if expires is None or self._clock() >= expires:
                raise refusal
            credential = Credential(population=self._population, public_key=body.public_key)
            self._keep(path, self._identity.sign(credential).to_bytes())
        signed = Signed.from_bytes(read_file(path, "credential"))
        if from_json(signed.body, Credential).public_key != body.public_key:
            raise refusal
        return signed

    def _keep(self, path: Path, data: bytes) -> None:
        part = path.with_name(f"{path.stem}-{secrets.token_hex(8)}")
        write_new(part, data)
        try:
            with suppress(FileExistsError):
                # A link, not a rename: of two keys that come with one code the first stays.
                os.link(part, path)
        finally:
            part.unlink()
        sync(self._folder)
