"""Adds C libraries inside wheels to a bill of materials: native_libraries.py FILE.

`uv export` lists Python packages alone, and a wheel may carry OpenSSL or libsodium, which have
advisories of their own. Each library is listed below its package (CycloneDX `components`), with the
version that the library itself reports, by a function or by a text that its source compiles in. A
library that carries no version is listed without one. Packages are those of this interpreter's
environment; one that is not installed, or in another version, is named on stderr.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple


class Library(NamedTuple):
    """A C library: its name, its version if known, and where both were found."""

    name: str
    version: str | None
    source: str


BANNERS: Final = {
    "OpenSSL": rb"OpenSSL (\d+\.\d+\.\d+[a-z]?) \d+ \w+ \d{4}",
    "BoringSSL": rb"BoringSSL()",
    "zlib": rb"(?:deflate|inflate) (\d+\.\d+[\d.]*) Copyright",
    "OpenBLAS": rb"OpenBLAS (\d+\.\d+\.\d+)",
    "libpng": rb"libpng version (\d+\.\d+\.\d+)",
    "libjpeg-turbo": rb"libjpeg-turbo version (\d+\.\d+\.\d+)",
    "c-ares": rb"c-ares()",
}
"""Texts that these libraries carry; an empty group where they name no version."""

VENDORED: Final = re.compile(r"^(lib.+?)(?:-[0-9a-f]{8,})+\.so")
"""A library that auditwheel copied into a wheel."""


def openssl_of_cryptography() -> str:
    """OpenSSL's version as it states it, such as "OpenSSL 4.0.3 29 Sep 2026"."""
    backend = importlib.import_module("cryptography.hazmat.backends.openssl").backend
    return str(backend.openssl_version_text()).split()[1]


def libsodium_of_rbcl() -> str:
    """libsodium's version, as `sodium_version_string` states it."""
    sodium: Any = importlib.import_module("rbcl._sodium")._sodium  # noqa: SLF001 - the library that rbcl itself calls
    sodium.sodium_version_string.restype = ctypes.c_char_p
    return bytes(sodium.sodium_version_string()).decode()


def libsodium_of_pynacl() -> str | None:
    """libsodium's version as PyNaCl's changelog states it; the library does not."""
    text = importlib.metadata.distribution("pynacl").read_text("METADATA") or ""
    entry = re.search(
        r"Updated? .{0,40}?libsodium\W+(?:to\s+)?(?:version\s+)?(\d+\.\d+\.\d+[\w-]*)", text
    )
    return entry[1] if entry else None


def libpq_of_psycopg() -> str:
    """libpq's version, from `PQlibVersion`: 180006 is 18.6."""
    number = int(importlib.import_module("psycopg.pq").version())
    return f"{number // 10_000}.{number % 10_000}"


def freetype_of_matplotlib() -> str:
    """FreeType's version, as the library states it."""
    return str(importlib.import_module("matplotlib.ft2font").__freetype_version__)


ANSWERS: Final[dict[str, tuple[str, str, Callable[[], str | None]]]] = {
    "cryptography": ("OpenSSL", "openssl_version_text()", openssl_of_cryptography),
    "rbcl": ("libsodium", "sodium_version_string()", libsodium_of_rbcl),
    "pynacl": ("libsodium", "the changelog in METADATA", libsodium_of_pynacl),
    "psycopg-binary": ("libpq", "PQlibVersion()", libpq_of_psycopg),
    "matplotlib": ("FreeType", "ft2font.__freetype_version__", freetype_of_matplotlib),
}
"""By package: a library that answers for itself, what was asked, and how."""


def libraries_of(package: importlib.metadata.Distribution) -> list[Library]:
    """All C libraries that are known to be in a package, each version once."""
    libraries: dict[tuple[str, str], Library] = {}
    for library in (*_answering(package), *_in_files(package)):
        libraries.setdefault((library.name, library.version or ""), library)
    versioned = {name for name, version in libraries if version}
    return [
        libraries[name, version]
        for name, version in sorted(libraries)
        if version or name not in versioned
    ]


def _answering(package: importlib.metadata.Distribution) -> Iterator[Library]:
    answer = ANSWERS.get(normalise(package.name))
    if answer is not None:
        name, source, ask = answer
        yield Library(name, ask(), source)


def _in_files(package: importlib.metadata.Distribution) -> Iterator[Library]:
    for file in package.files or ():
        if ".so" not in file.suffixes:
            continue
        data = Path(str(file.locate())).read_bytes()
        banners = {name: re.search(pattern, data) for name, pattern in BANNERS.items()}
        named = [
            Library(name, hit[1].decode() or None, str(file))
            for name, hit in banners.items()
            if hit is not None
        ]
        yield from named
        vendored = VENDORED.match(file.name)
        if vendored is not None and not named:
            yield Library(vendored[1], None, str(file))


def normalise(name: str) -> str:
    """A package's name in the spelling of package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def add_libraries(bill: dict[str, Any]) -> list[str]:
    """Add the libraries to the packages of a bill of materials.

    Return the packages that are not installed here.
    """
    installed = {normalise(package.name): package for package in importlib.metadata.distributions()}
    missing = []
    for part in bill["components"]:
        package = installed.get(part["name"])
        if package is None or package.version != part["version"]:
            missing.append(f"{part['name']} {part['version']}")
            continue
        libraries = libraries_of(package)
        if libraries:
            part["components"] = [_component(part["bom-ref"], library) for library in libraries]
    return missing


def _component(owner: str, library: Library) -> dict[str, Any]:
    version = {} if library.version is None else {"version": library.version}
    return {
        "type": "library",
        "bom-ref": "/".join(filter(None, (owner, library.name, library.version))),
        "name": library.name,
        **version,
        "properties": [{"name": "shuffledp:read-from", "value": library.source}],
    }


def main(file: Path) -> None:
    """Add the libraries to the bill of materials in a file."""
    bill = json.loads(file.read_text())
    missing = add_libraries(bill)
    file.write_text(json.dumps(bill, indent=2) + "\n")
    if missing:
        sys.stderr.write(
            f"sbom: not installed here, so not searched for C libraries: {', '.join(missing)}\n"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
