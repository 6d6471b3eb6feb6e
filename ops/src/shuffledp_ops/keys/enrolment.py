"""Enrolment and withdrawal of users: `shuffledp keys enrol`, `keys bundle`, `keys withdraw`.

    clients/<user>/         identity.pem  credential.json  tls.pem  tls-key.pem  settings.toml
    clients/<user>.bundle   all of it in one file, for the device: shuffledp_client.bundle
    withdrawals/<population>.json    the signed list, for the nodes that take submissions

The enrolment key must be here, the root key need not.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shuffledp_client.bundle import Bundle, check_settings
from shuffledp_core.documents.models import Credential, Withdrawals
from shuffledp_core.documents.signed import Signed, from_json, verify
from shuffledp_core.documents.submission import credential_id
from shuffledp_core.errors import ConfigError, DocumentError, UsageError
from shuffledp_core.runtime.addresses import host_and_port, is_address
from shuffledp_core.runtime.files import read_file, sync
from shuffledp_core.runtime.keys import Identity
from shuffledp_ops.keys.authority import write_secret
from shuffledp_ops.keys.names import check_names
from shuffledp_ops.keys.pki import Deployment, replace_addresses, write_client
from shuffledp_ops.keys.renewal import alone

MESSAGES: Final = 100_000
"""Default of a device's `messages`: every mechanism of ours that can be certified for its round."""

EPSILON_CORRUPTED: Final = math.inf
"""Default of a device's `epsilon_corrupted`: the guarantee rests on one honest node.

Noise of nodes, the default of `shuffledp demo`, leaves nothing when every node is corrupt, and what
sums leave (up to 40) protects no better.
"""

SETTINGS: Final = f"""\
[policy]                  # what a round may ask for; deploy/config/client.toml explains every key
epsilon = 2.0
delta = 1e-6
epsilon_corrupted = {EPSILON_CORRUPTED}   # any: one of the nodes must be honest
nodes = 2
operators = 2
messages = {MESSAGES}
"""
"""Default settings of a device."""

MAX_WITHDRAWN: Final = 50_000
"""Most withdrawn credentials of a population: their list stays below the 4 MiB of a document."""

_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Outside:
    """Addresses (host:port) at which outside devices reach parties, broker and gateway."""

    addresses: dict[str, str]
    broker: str | None = None
    gateway: str | None = None

    def settings(self) -> str:
        """The tables of a device's configuration that have these addresses, as TOML."""
        text = ""
        if self.broker is not None:
            host, port = host_and_port(self.broker)
            text += f'\n[broker]\nhost = "{host}"\nport = {port}\n'
        if self.gateway is not None:
            text += f'\n[gateway]\naddress = "{self.gateway}"\n'
        if self.addresses:
            text += "\n[addresses]\n" + "".join(
                f'{name} = "{where}"\n' for name, where in self.addresses.items()
            )
        return text


def parse_addresses(
    deployment: Deployment, addresses: Sequence[str], broker: str | None, gateway: str | None = None
) -> Outside:
    """Parses addresses given as "PARTY=HOST:PORT" and "HOST:PORT".

    Raises `UsageError` for invalid ones.
    """
    parties = {party.name: "" for party in deployment.roster.parties}
    given = {name: where for name, where in replace_addresses(parties, addresses).items() if where}
    for name, where in (("broker", broker), ("gateway", gateway)):
        if where is not None and not is_address(where):
            raise UsageError(
                f"--{name} {where[:80]!r} is not HOST:PORT, that is a host name or address (IPv6 "
                "in brackets) and a port from 1 to 65535"
            )
    return Outside(given, broker, gateway)


def sole_population(deployment: Deployment, population: str | None) -> str:
    """The named population; without a name, the only one. Raises `UsageError`."""
    names = [population_entry.name for population_entry in deployment.roster.populations]
    if population is None and len(names) == 1:
        return names[0]
    if population not in names:
        raise UsageError(f"name a population of the roster with --population: {', '.join(names)}")
    return str(population)


def new_names(deployment: Deployment, count: int, prefix: str) -> list[str]:
    """The first `count` unused names among "prefix-1", "prefix-2", ..."""
    taken = {path.name for path in (deployment.folder / "clients").glob("*")}
    names: list[str] = []
    number = 0
    while len(names) < count:
        number += 1
        if f"{prefix}-{number}" not in taken:
            names.append(f"{prefix}-{number}")
    return names


def names_in(file: Path) -> list[str]:
    """Reads the column "name" of a CSV file. Raises `UsageError` unless there is exactly one."""
    try:
        rows = csv.DictReader(read_file(file, "list of names").decode("utf-8-sig").splitlines())
        times = list(rows.fieldnames or ()).count("name")
        if times > 1:
            raise UsageError(f"{file} has the column `name` {times} times; rename all but one")
        return [row["name"].strip() for row in rows]
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text; save it as CSV in UTF-8") from error
    except (KeyError, AttributeError) as error:
        raise UsageError(
            f"{file} has no column `name` with a name in each row; its first line must name the "
            "columns"
        ) from error


def enrol(
    deployment: Deployment,
    names: Sequence[str],
    *,
    population: str | None = None,
    expires: dt.datetime | None = None,
    settings: str = SETTINGS,
) -> list[Path]:
    """Enrol users, each with keys, credential and bundle: all users or, after an error, none.

    Returns the bundles.

    Args:
        deployment: with the enrolment key.
        names: names of the users; none is in use yet.
        population: the population in which to enrol them; None for the only one.
        expires: until when the credentials count; None: until they are withdrawn.
        settings: settings of the devices, TOML; without keys, roster, root_key and state.

    Raises:
        UsageError: a name is invalid or taken, or there is no such population.
        ConfigError: the enrolment key is not here, the settings are invalid, or nothing can be
            written.
    """
    check_names(names, "client")
    where = sole_population(deployment, population)
    enrolment_of(deployment, where)
    check_settings(settings)
    clients = deployment.folder / "clients"
    with alone(deployment.folder), _all_or_none(clients) as (new, done):
        taken = [
            name
            for name in names
            if (clients / name).exists() or (clients / f"{name}.bundle").exists()
        ]
        if taken:
            raise UsageError(
                f"a client named {taken[0]!r} already exists; choose another name, or use "
                "`shuffledp keys bundle`"
            )
        for name in names:
            write_client(new / name, deployment, where, expires)
            (new / name / "settings.toml").write_text(settings)
            write_secret(new / f"{name}.bundle", make_bundle(deployment, new / name).to_bytes())
        for name in names:
            for part in (name, f"{name}.bundle"):
                # Noted before the rename, so that a failure right behind it takes this one back as
                # well.
                done.append(clients / part)
                (new / part).rename(clients / part)
    return [clients / f"{name}.bundle" for name in names]


def bundle(deployment: Deployment, names: Sequence[str]) -> list[Path]:
    """Make new bundles for the named users, as after a renewal; for all users without names.

    Raises:
        UsageError: there is no such user.
    """
    clients = deployment.folder / "clients"
    enrolled = sorted(path.parent.name for path in clients.glob("*/credential.json"))
    for name in names:
        if name not in enrolled:
            raise UsageError(
                f"this deployment has no client {name[:80]!r}; enrol it with `shuffledp keys enrol`"
            )
    bundles = []
    with alone(deployment.folder):
        for name in names or enrolled:
            part = clients / f".{name}-{secrets.token_hex(8)}"
            write_secret(part, make_bundle(deployment, clients / name).to_bytes())
            bundles.append(part.replace(clients / f"{name}.bundle"))
    return bundles


def make_bundle(deployment: Deployment, client: Path) -> Bundle:
    """Make the bundle of the user whose folder this is."""

    def text(name: str) -> str:
        return read_file(client / name, "client's file").decode()

    settings = client / "settings.toml"
    return Bundle(
        name=client.name,
        root_key=deployment.root_key,
        roster=Signed.from_bytes(read_file(deployment.roster_file, "roster")),
        credential=Signed.from_bytes(read_file(client / "credential.json", "credential")),
        identity=text("identity.pem"),
        tls=text("tls.pem"),
        tls_key=text("tls-key.pem"),
        settings=settings.read_text() if settings.exists() else SETTINGS,
    )


def withdraw(
    deployment: Deployment, who: Sequence[str], *, population: str | None = None
) -> Withdrawals:
    """Sign the next list of withdrawn credentials, with those of `who` added.

    They are given as clients' names, or as credentials (64 hex digits).

    Raises:
        UsageError: an unknown user, none, or too many.
        ConfigError: the enrolment key is not here, or the present list is damaged.
    """
    if not who:
        raise UsageError(
            "name the clients of this deployment whose credentials to withdraw, or give the "
            "credentials in hex"
        )
    where = sole_population(deployment, population)
    key = enrolment_of(deployment, where)
    file = deployment.folder / "withdrawals" / f"{where}.json"
    with alone(deployment.folder):
        serial, present = _present_list(file, key)
        # The present ones, too: each list replaces those before it, and one without them would
        # bring them back.
        withdrawn = dict.fromkeys(
            [*present, *(_credential_of(deployment, name, where) for name in who)]
        )
        if len(withdrawn) > MAX_WITHDRAWN:
            raise UsageError(
                f"the list would have {len(withdrawn)} withdrawn credentials, but may have at "
                f"most {MAX_WITHDRAWN}: make a new enrolment key"
            )
        now = round(dt.datetime.now(dt.UTC).timestamp() * 1000)
        withdrawals = Withdrawals(
            population=where, serial=serial + 1, issued_at=now, credentials=tuple(withdrawn)
        )
        file.parent.mkdir(exist_ok=True)
        part = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
        part.write_bytes(key.sign(withdrawals).to_bytes())
        sync(part)
        # At once: entry nodes may read the list at any moment, and must find the old or the new
        # one.
        part.replace(file)
        sync(file.parent)
    return withdrawals


def enrolment_of(deployment: Deployment, population: str) -> Identity:
    """Load the enrolment key of a population.

    Raises `ConfigError` if it is not here, or not the roster's.
    """
    key = deployment.enrolment_of(population)
    if key.public_key.hex() != deployment.roster.population(population).enrolment_key:
        raise ConfigError(
            f"the enrolment key of {population!r} in this folder is not the one in the roster"
        )
    return key


def _present_list(file: Path, key: Identity) -> tuple[int, tuple[str, ...]]:
    if not file.exists():
        return 0, ()
    try:
        present = verify(
            Signed.from_bytes(read_file(file, "withdrawals")), Withdrawals, key.name, key.public_key
        )
    except DocumentError as error:
        raise ConfigError(
            f"{file} cannot be extended ({error}); restore the last valid list"
        ) from error
    return present.serial, present.credentials


def _credential_of(deployment: Deployment, who: str, population: str) -> str:
    if _KEY.fullmatch(who):
        return who
    check_names([who], "client")
    file = deployment.folder / "clients" / who / "credential.json"
    if not file.exists():
        raise UsageError(
            f"this deployment has no client {who!r}; to withdraw a credential without its "
            "client, give it as 64 hex digits"
        )
    credential = from_json(Signed.from_bytes(read_file(file, "credential")).body, Credential)
    if credential.population != population:
        raise UsageError(f"{who!r} is enrolled in {credential.population!r}, not in {population!r}")
    return credential_id(credential)


@contextmanager
def _all_or_none(clients: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Context with a folder for new files, and a list of final paths to remove after an error."""
    new = clients / f".new-{secrets.token_hex(8)}"
    done: list[Path] = []
    try:
        new.mkdir(mode=0o700, parents=True)
        try:
            yield new, done
        except BaseException:
            for path in done:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {clients} ({error.strerror}); no one was enrolled"
        ) from error
