"""A node's answers to inquiries about its output: docs/mixing.md, T3 to T7."""

from __future__ import annotations

from dataclasses import replace

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import RoundStateError, UnansweredError
from shuffledp_core.mixproof.evidence import Passage, Trace
from shuffledp_core.mixproof.history import Inquiry, pack_document, unpack_document
from shuffledp_core.mixproof.hops import Hop, TraceQuestion
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.mixing import resume_output


def accusation_of(live: LiveRound) -> bytes:
    """The node's open accusation, packed, for which no transcript has come yet.

    Raises `RoundStateError` if there is none.
    """
    if not live.settlement.accused:
        raise RoundStateError(f"this node has no open accusation in round {live.record.round_id}")
    return live.folder.accusation.read_bytes()


def answer_inquiry(
    live: LiveRound, identity: Identity, roster: Roster, received: bytes, last_hop: Hop | None
) -> tuple[bytes, Hop]:
    """Add this node's step to every trace of an inquiry, or to every passage if there are any.

    T7 is checked in core: a node reveals nothing before it has verified all earlier steps.

    `last_hop` is the hop that answered the last inquiry about this round. If it is None, as after a
    restart, it is rebuilt from the files on disk: all claims are verified and the whole batch is
    opened again. The answers are the same.

    Returns: The answer, packed; and the hop that made it, for the next inquiry.

    Raises:
        MalformedDocumentError: the inquiry cannot be read.
        BadHopError, BadBlameError, UnansweredError, RoundStateError: see `Hop.show` and
            `Hop.show_passage`.
    """
    inquiry = unpack_document(received, Inquiry)
    hop = last_hop or resume_output(live, identity, roster)
    if inquiry.passages:
        return pack_document(
            replace(
                inquiry,
                passages=tuple(_passage(hop, inquiry, passage) for passage in inquiry.passages),
            )
        ), hop
    shown = tuple(hop.show(_question(inquiry, trace), system_random) for trace in inquiry.traces)
    return pack_document(replace(inquiry, traces=shown)), hop


def _question(inquiry: Inquiry, trace: Trace) -> TraceQuestion:
    return TraceQuestion(inquiry.position, inquiry.headers, inquiry.transcripts, trace)


def _passage(hop: Hop, inquiry: Inquiry, passage: Passage) -> Passage:
    for trace in inquiry.traces:
        if trace.origin is not None and trace.origin.credential == passage.credential:
            return hop.show_passage(_question(inquiry, trace), passage, system_random)
    raise UnansweredError(
        "no answer: the inquiry asks for keys of a user whom no complete trace names"
    )
