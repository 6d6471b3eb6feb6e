"""A node's answers for what it put out: docs/mixing.md, T3 to T7."""

from __future__ import annotations

from dataclasses import replace

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import RoundStateError, UnansweredError
from shuffledp_core.keys import Identity
from shuffledp_core.randomness import system_random
from shuffledp_core.verified.evidence import Passage, Trace
from shuffledp_core.verified.history import Inquiry, packed, unpacked
from shuffledp_core.verified.hops import Hop, Question
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.verified.mixing import resumed


def accusation_of(live: LiveRound) -> bytes:
    """The accusation that waits for a transcript, packed. Raises `RoundStateError` where none does."""
    if not live.settlement.accused:
        raise RoundStateError(f"this node accuses nobody in round {live.record.round_id}")
    return live.folder.accusation.read_bytes()


def answered(live: LiveRound, identity: Identity, roster: Roster, inquiry: bytes) -> bytes:
    """Goes on with every trace of an inquiry, or with every passage where there are some.

    From the disk, as after a restart: an accusation is rare, and a node that keeps nothing else in memory for it is
    the same node after every crash. T7 is the core's: nothing is shown before all that was shown is checked.

    Raises:
        MalformedDocumentError: the inquiry cannot be read.
        BadHopError, BadBlameError, UnansweredError, RoundStateError: as `Hop.show` and `Hop.show_passage`.
    """
    asked = unpacked(inquiry, Inquiry)
    hop = resumed(live, identity, roster)
    if asked.passages:
        return packed(replace(asked, passages=tuple(_passage(hop, asked, each) for each in asked.passages)))
    shown = tuple(hop.show(_question(asked, each), system_random) for each in asked.traces)
    return packed(replace(asked, traces=shown))


def _question(asked: Inquiry, trace: Trace) -> Question:
    return Question(asked.position, asked.headers, asked.transcripts, trace)


def _passage(hop: Hop, asked: Inquiry, passage: Passage) -> Passage:
    for trace in asked.traces:
        if trace.origin is not None and trace.origin.credential == passage.credential:
            return hop.show_passage(_question(asked, trace), passage, system_random)
    raise UnansweredError("no answer: the question is for keys before a trace names anybody")
