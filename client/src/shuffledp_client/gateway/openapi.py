"""The gateway's OpenAPI document, from the same paths and structs that the program uses."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_client.http_api import (
    ANNOUNCEMENT,
    BOARD,
    BYTES,
    CURRENT,
    ENROLMENTS,
    HEALTH,
    JSON,
    OPENAPI,
    PROBLEM,
    RESULT,
    ROSTER,
    SUBMISSIONS,
    TILE,
    WEB_FILES,
    EnrolmentBody,
    Problem,
    ResultBody,
    SubmissionBody,
)
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Announcement, Credential
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.vocabulary import ROUND_ID

_BODIES: Final = (
    Announcement,
    Signed,
    SubmissionBody,
    ResultBody,
    EnrolmentBody,
    Problem,
    # Contents of the documents that a device sends.
    SubmissionClaim,
    Credential,
)

_TILE_INDEX: Final = {
    "name": "index",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,7})$"},
}

ROUND: Final = "0123456789abcdef" * 2
"""Of the examples."""


def example_submission() -> SubmissionBody:
    """An example submission with a few bytes in place of the sealed envelope."""
    enrolment = Identity("demo", Ed25519PrivateKey.from_private_bytes(bytes(32)))
    device = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    name = device.public_key().public_bytes_raw().hex()
    envelope = b"sealed to node 1"
    claim = SubmissionClaim(round_id=ROUND, credential=name, envelope_digest=digest(envelope))
    return SubmissionBody(
        credential=enrolment.sign(Credential(population="demo", public_key=name)),
        claim=Identity(name, device).sign(claim),
        envelope=envelope,
    )


def openapi() -> dict[str, Any]:
    """The OpenAPI document, as JSON values.

    Bodies are those of docs/reference/documents.md, where their signatures are.
    """
    (_, *_), components = msgspec.json.schema_components(
        _BODIES, ref_template="#/components/schemas/{name}"
    )
    for component in components.values():
        if "description" in component:  # a docstring, broken into lines and indented
            component["description"] = " ".join(component["description"].split())
    components["SubmissionBody"]["properties"]["envelope"] = {
        "type": "string",
        "contentEncoding": "base64",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "shuffledp gateway",
            "version": "1",  # of these calls, not of the program
            "description": (
                "Carries devices' sealed submissions to the entry node, and the analyst's signed "
                "documents to devices. Mutual TLS under the deployment's own authority; ask for "
                "the TLS name `gateway`. Verify every document: the gateway is not trusted."
            ),
        },
        "paths": {
            CURRENT: {
                "get": _call(
                    "currentAnnouncement", "Announcement of the newest open round", "Announcement"
                )
            },
            ANNOUNCEMENT: {
                "get": _of_round("announcement", "Announcement of a round", "Announcement")
            },
            SUBMISSIONS: {
                "post": {
                    **_of_round(
                        "submit",
                        "Submit a sealed envelope; again, if the receipt was lost",
                        "Signed",
                    ),
                    "requestBody": {
                        "required": True,
                        "content": {
                            JSON: {
                                "schema": _reference("SubmissionBody"),
                                "example": msgspec.to_builtins(example_submission()),
                            }
                        },
                    },
                }
            },
            RESULT: {
                "get": _of_round("result", "Signed result of a round that has ended", "ResultBody")
            },
            BOARD: {"get": _of_round("board", "The board: every plain message, packed", None)},
            TILE: {
                "get": _of_round("tile", "A tile of the board: docs/tiles.md", None, _TILE_INDEX)
            },
            HEALTH: {
                "get": _call("health", "Whether the gateway's process answers", {"type": "object"})
            },
            OPENAPI: {"get": _call("openapi", "This document", {"type": "object"})},
            ROSTER: {"get": _call("roster", "The signed roster; for pages", "Signed")},
            ENROLMENTS: {
                "post": {
                    **_call(
                        "enrol", "Exchange a one-time code for a credential; for pages", "Signed"
                    ),
                    "requestBody": {
                        "required": True,
                        "content": {JSON: {"schema": _reference("EnrolmentBody")}},
                    },
                }
            },
            WEB_FILES: {"get": _of_file()},
        },
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _call(operation: str, summary: str, answer: str | dict[str, str] | None) -> dict[str, Any]:
    schema = _reference(answer) if isinstance(answer, str) else answer
    content = (
        {BYTES: {"schema": {"type": "string", "format": "binary"}}}
        if schema is None
        else {JSON: {"schema": schema}}
    )
    problem = {
        "description": "An error; `code` is its class",
        "content": {PROBLEM: {"schema": _reference("Problem")}},
    }
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}, "default": problem},
    }


def _of_file() -> dict[str, Any]:
    summary = "The module, the element and the example page; for pages"
    parameter = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {**_call("webFile", summary, {"type": "string"}), "parameters": [parameter]}


def _of_round(
    operation: str, summary: str, answer: str | None, *parameters: dict[str, Any]
) -> dict[str, Any]:
    parameter = {
        "name": "round_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{ROUND_ID.pattern}$"},
    }
    return {**_call(operation, summary, answer), "parameters": [parameter, *parameters]}
