"""A node's answers for what it put out: docs/mixing.md, T3 to T7."""

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
from shuffledp_shuffler.mixproof.mixing import resumed


def accusation_of(live: LiveRound) -> bytes:
    """The accusation that waits for a transcript, packed.

    Raises `RoundStateError` where none does.
    """
    if not live.settlement.accused:
        raise RoundStateError(f"this node accuses nobody in round {live.record.round_id}")
    return live.folder.accusation.read_bytes()


def answered(
    live: LiveRound, identity: Identity, roster: Roster, inquiry: bytes, kept: Hop | None
) -> tuple[bytes, Hop]:
    """Goes on with every trace of an inquiry, or with every passage where there are some.

    T7 is the core's: nothing is shown before all that was shown is checked.

    `kept` is what the last inquiry about this round was answered from. None: the disk, as after a
    restart; all claims are then verified, and the whole batch is opened, again. The answers are the
    same.

    Returns:
        The answer, packed; and what it was made from, for the next inquiry.

    Raises:
        MalformedDocumentError: the inquiry cannot be read.
        BadHopError, BadBlameError, UnansweredError, RoundStateError: as `Hop.show` and
            `Hop.show_passage`.
    """
    asked = unpack_document(inquiry, Inquiry)
    hop = kept or resumed(live, identity, roster)
    if asked.passages:
        return pack_document(
            replace(asked, passages=tuple(_passage(hop, asked, each) for each in asked.passages))
        ), hop
    shown = tuple(hop.show(_question(asked, each), system_random) for each in asked.traces)
    return pack_document(replace(asked, traces=shown)), hop


def _question(asked: Inquiry, trace: Trace) -> TraceQuestion:
    return TraceQuestion(asked.position, asked.headers, asked.transcripts, trace)


def _passage(hop: Hop, asked: Inquiry, passage: Passage) -> Passage:
    for trace in asked.traces:
        if trace.origin is not None and trace.origin.credential == passage.credential:
            return hop.show_passage(_question(asked, trace), passage, system_random)
    raise UnansweredError("no answer: the question is for keys before a trace names anybody")
