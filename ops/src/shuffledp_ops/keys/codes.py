"""One-time codes for people who take part with a browser: `shuffledp keys codes`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from shuffledp_core.documents.codes import code_digest, make_code, parse_code_list
from shuffledp_core.runtime.files import read_file, write_atomic
from shuffledp_ops.keys.enrolment import enrolment_of, sole_population
from shuffledp_ops.keys.pki import Deployment
from shuffledp_ops.keys.renewal import alone


def code_list(deployment: Deployment, population: str) -> Path:
    """File with the digests of a population's codes, for the gateway that exchanges them."""
    return deployment.folder / "enrolment" / population / "codes"


def add_codes(
    deployment: Deployment, count: int, expires: dt.datetime, population: str | None = None
) -> list[str]:
    """Make codes, and add their digests to the population's list; codes themselves are not saved.

    Raises:
        UsageError: there is no such population.
        ConfigError: the enrolment key is not here, or the list is damaged.
    """
    name = sole_population(deployment, population)
    enrolment_of(deployment, name)
    codes = [make_code() for _ in range(count)]
    file = code_list(deployment, name)
    until = round(expires.timestamp() * 1000)
    with alone(deployment.folder):
        present = read_file(file, "list of codes") if file.exists() else b""
        parse_code_list(present)
        lines = "".join(f"{code_digest(code)} {until}\n" for code in codes)
        write_atomic(file, present + lines.encode())
    return codes
