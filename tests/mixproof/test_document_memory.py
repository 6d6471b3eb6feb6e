"""The memory that documents of verified rounds take when they are read, honest and hostile ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mixing_cheats import spoiled_user
from mixing_model import NODES, World, honest_users

from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.mixproof import frames
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.history import (
    MEMORY_PER_BYTE,
    Accusation,
    History,
    Inquiry,
    pack_document,
    unpack_document,
)

ITEMS = 2**13
EMPTY = {"withdrawals": b"", "list_signature": b"", "enrolment_signature": b"", "claims": []}
ACCUSED = {"index": 0, "record": b"", "path": [], "share": b"", "proof": b"", "signature": b""}
ENDS = {"headers": [], "transcripts": [], "board_signature": b""}
STEP = {
    "index": 0,
    "record": b"",
    "path": [],
    "blinding_proof": b"",
    "share": b"",
    "share_proof": b"",
    "signature": b"",
}


def history_of(claim: bytes) -> Any:
    return EMPTY | {"claims": [claim] * ITEMS} | ENDS


def accusation_of(**fields: Any) -> Any:
    return {"history": EMPTY | ENDS, "accused": [ACCUSED | fields] * ITEMS}


def inquiry_of(trace: Any, passages: list[Any]) -> Any:
    return {
        "position": 2,
        "headers": [],
        "transcripts": [],
        "traces": [trace] * ITEMS,
        "passages": passages,
    }


TRACE: Any = {"accused": ACCUSED, "steps": [], "origin": None}

HOSTILE: dict[str, tuple[type[Any], Any]] = {
    "claims without bytes": (History, history_of(b"")),
    "claims of two bytes": (History, history_of(b"ab")),
    "accused records of which only the index is there": (Accusation, accusation_of()),
    "a path of empty partners": (
        Accusation,
        accusation_of() | {"accused": [ACCUSED | {"path": [b""] * ITEMS}]},
    ),
    "traces without records": (Inquiry, inquiry_of(TRACE, [])),
    "passages without moves": (
        Inquiry,
        inquiry_of(TRACE, [{"credential": b"", "hops": []}] * ITEMS),
    ),
    "steps of nothing": (
        Transcript,
        {"position": 2, "traces": [TRACE | {"steps": [STEP] * ITEMS}], "passages": []},
    ),
}


def peak_of(read: Callable[[], object]) -> int:
    """Most memory that is allocated at a time while this runs, in bytes."""
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_document_of_many_small_values_is_refused_before_any_is_built(name: str) -> None:
    kind, content = HOSTILE[name]
    data = msgspec.msgpack.encode(content)

    def read() -> None:
        with pytest.raises(MalformedDocumentError, match="values in"):
            unpack_document(data, kind)

    assert len(data) > ITEMS
    assert peak_of(read) < 4 * ITEMS  # decoded, they take 8 bytes each at least


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_read_takes_a_small_constant_times_its_bytes(name: str) -> None:
    """The same documents, whose values are as short as they can be to be let through."""
    kind, content = HOSTILE[name]
    documents = (msgspec.msgpack.encode(padded(content, size)) for size in range(0, 200, 4))
    data = next(filter(_is_let_through, documents))
    # The comparison with what was read, in `unpack_document`, takes these bytes once more.
    assert peak_of(lambda: msgspec.msgpack.decode(data, type=kind)) < (MEMORY_PER_BYTE - 1) * len(
        data
    )


def padded(content: Any, size: int) -> Any:
    """The document with this many bytes in every field of bytes."""
    if isinstance(content, bytes):
        return content.ljust(size, b"x")
    if isinstance(content, dict):
        return {key: padded(each, size) for key, each in content.items()}
    if isinstance(content, list) and content:
        return [padded(content[0], size)] * len(content)
    return content


def _is_let_through(data: bytes) -> bool:
    try:
        frames.check_frame(data)
    except MalformedDocumentError:
        return False
    return True


def test_honest_documents_have_far_fewer_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two thirds of the values that are let through: a round in which two users were
    excluded."""
    users = (*honest_users()[:-2], spoiled_user(6, NODES), spoiled_user(7, NODES + 1))
    world = World(users=users).play()
    assert [transcript.position for transcript in world.transcripts] == [NODES, NODES + 1]
    claims = tuple(bytes(264 + len(user.claim.keys)) for user in users)
    history = History(
        b"", bytes(64), bytes(64), claims, tuple(world.headers), tuple(world.transcripts), bytes(64)
    )
    monkeypatch.setattr(frames, "_FREE_VALUES", 0)
    monkeypatch.setattr(frames, "_BYTES_OF_A_VALUE", 24)
    frames.check_frame(pack_document(history))
    for transcript in world.transcripts:
        frames.check_frame(pack_document(transcript))
        before = tuple(world.headers[: transcript.position - 1])
        frames.check_frame(
            pack_document(
                Inquiry(transcript.position, before, (), transcript.traces, transcript.passages)
            )
        )
        accused = tuple(trace.accused for trace in transcript.traces)
        frames.check_frame(pack_document(Accusation(history, accused)))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=300)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20)
    ),
    max_leaves=40,
)


@given(VALUES)
@example([bytes(2**16), "x" * 300, list(range(3000)), dict.fromkeys("ab", 1)])
def test_the_frame_of_everything_that_is_well_written_is_followed_to_its_end(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    frames.check_frame(data)
    with pytest.raises(MalformedDocumentError, match="the document ends"):
        frames.check_frame(data[:-1])


@given(st.binary(max_size=300))
def test_any_bytes_are_followed_or_refused(data: bytes) -> None:
    try:
        frames.check_frame(data)
    except MalformedDocumentError:
        with pytest.raises(MalformedDocumentError):
            unpack_document(data, History)


@pytest.mark.parametrize(
    "head", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdc\xff\xff"]
)
def test_an_array_that_names_more_items_than_there_can_be_is_not_followed(head: bytes) -> None:
    with pytest.raises(MalformedDocumentError, match="more than 1,024 values"):
        frames.check_frame(head + b"\xc4\x00")


def test_extension_types_are_refused() -> None:
    with pytest.raises(MalformedDocumentError, match="type 0xc7"):
        frames.check_frame(b"\xc7\x01\x05x")
