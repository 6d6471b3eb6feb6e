"""The gateway's OpenAPI document, from the same paths and structs that the program uses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shuffledp_client.http_api import (
    ANNOUNCEMENT,
    BOARD,
    BYTES,
    CURRENT,
    HEALTH,
    JSON,
    OPENAPI,
    PROBLEM,
    RESULT,
    SUBMISSIONS,
    Problem,
    ResultBody,
    SubmissionBody,
)
from shuffledp_core.documents.models import Announcement
from shuffledp_core.documents.signed import Signed
from shuffledp_core.vocabulary import ROUND_ID

_BODIES: Final = (Announcement, Signed, SubmissionBody, ResultBody, Problem)


def openapi() -> dict[str, Any]:
    """The document, as JSON values.

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
                        "content": {JSON: {"schema": _reference("SubmissionBody")}},
                    },
                }
            },
            RESULT: {
                "get": _of_round("result", "Signed result of a round that has ended", "ResultBody")
            },
            BOARD: {"get": _of_round("board", "The board: every plain message, packed", None)},
            HEALTH: {
                "get": _call("health", "Whether the gateway's process answers", {"type": "object"})
            },
            OPENAPI: {"get": _call("openapi", "This document", {"type": "object"})},
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


def _of_round(operation: str, summary: str, answer: str | None) -> dict[str, Any]:
    parameter = {
        "name": "round_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{ROUND_ID.pattern}$"},
    }
    return {**_call(operation, summary, answer), "parameters": [parameter]}
