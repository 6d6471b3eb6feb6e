"""What somebody can do to what others signed, on its way: damage it, cut it elsewhere, keep a part
back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mixing_cheats import flipped
from small_search import Moot

from shuffledp_core.mixproof.claims import Claim
from shuffledp_core.mixproof.evidence import Passage, Transcript
from shuffledp_core.mixproof.group import WIDTH, Element, Scalar, multiply
from shuffledp_core.mixproof.headers import Header

if TYPE_CHECKING:
    from small_table import Table

Play: TypeAlias = Callable[[], object]

DELIVERED = (
    "a damaged record",
    "one record less",
    "a damaged sum",
    "no transcripts",
    "one header less",
)
PUBLISHED = (
    "a damaged message",
    "no message",
    "no transcripts",
    "one header less",
    "a damaged sum",
)
STRANGER = ("somebody else's passage",)


def damaged_claim(move: str, claim: Claim) -> Claim:
    if move == "a claim cut elsewhere":
        return replace(claim, root=claim.root + claim.proof[:1], proof=claim.proof[1:])
    return replace(claim, proof=flipped(claim.proof))


def _on_the_way(
    move: str, headers: Sequence[Header], transcripts: Sequence[Transcript]
) -> tuple[Sequence[Header], Sequence[Transcript]]:
    if move == "no transcripts":
        if not transcripts:
            raise Moot
        return headers, ()
    if move == "one header less":
        return headers[:-1], transcripts
    if move == "a damaged sum":
        total = multiply(Scalar(b"\x02".ljust(WIDTH, b"\x00")), Element(headers[0].total))
        return (replace(headers[0], total=total), *headers[1:]), transcripts
    return headers, transcripts


def delivered(
    move: str,
    headers: Sequence[Header],
    transcripts: Sequence[Transcript],
    records: tuple[bytes, ...],
) -> tuple[Sequence[Header], Sequence[Transcript], tuple[bytes, ...]]:
    """A batch with what led to it."""
    if move == "a damaged record":
        records = (flipped(records[0]), *records[1:])
    if move == "one record less":
        records = records[1:]
    return *_on_the_way(move, headers, transcripts), records


def published(
    move: str,
    headers: Sequence[Header],
    transcripts: Sequence[Transcript],
    board: tuple[bytes, ...],
) -> tuple[Sequence[Header], Sequence[Transcript], tuple[bytes, ...]]:
    """A board with what led to it."""
    if move == "a damaged message":
        board = (flipped(board[0]), *board[1:])
    if move == "no message":
        board = ()
    return *_on_the_way(move, headers, transcripts), board


HOW = (
    "with a damaged proof",
    "with a longer path",
    "with a path in one piece",
    "with a number that is none",
)


def answered(transcript: Transcript) -> tuple[str, ...]:
    """What can be done to a transcript."""
    parts = ("accusation", *(("step",) if transcript.traces[0].steps else ()), "origin", "moves")
    damage = tuple(f"{part} {how}" for part in parts for how in HOW)
    return damage + (("no trace of the last record",) if len(transcript.traces) > 1 else ())


def damaged_transcript(game: Table, move: str, transcript: Transcript) -> Transcript:
    """A transcript after a move."""
    if move == "no trace of the last record":
        traces = transcript.traces[:-1]
        named = {trace.origin.credential for trace in traces if trace.origin}
        left = tuple(passage for passage in transcript.passages if passage.credential in named)
        return replace(transcript, traces=traces, passages=left)
    if move in STRANGER:
        honest = next(
            claim
            for claim in game.listed.claims
            if claim == game.sent[game.honest_users()[0]].claim
        )
        hop: Any = game.parties[0]
        shown = hop.shown_of(transcript, Passage(honest.credential), game.random)
        return replace(transcript, passages=(shown, *transcript.passages[1:]))
    part, how = move.split(" ", 1)
    trace, passage = transcript.traces[0], transcript.passages[0]
    if part == "accusation":
        traces = (
            replace(trace, accused=_damaged(trace.accused, "proof", how)),
            *transcript.traces[1:],
        )
        return replace(transcript, traces=traces)
    if part == "step":
        steps = (_damaged(trace.steps[0], "blinding_proof", how), *trace.steps[1:])
        return replace(transcript, traces=(replace(trace, steps=steps), *transcript.traces[1:]))
    if part == "origin":
        origin = _damaged(trace.origin, "blinding_proof", how)
        return replace(transcript, traces=(replace(trace, origin=origin), *transcript.traces[1:]))
    moves = passage.hops[0].moves
    hops = (
        replace(passage.hops[0], moves=(_damaged(moves[0], "blinding_proof", how), *moves[1:])),
        *passage.hops[1:],
    )
    return replace(transcript, passages=(replace(passage, hops=hops), *transcript.passages[1:]))


def _damaged(part: Any, proof: str, how: str) -> Any:
    if how == "with a damaged proof":
        if not getattr(part, proof):
            return replace(part, index=part.index + 1)
        return replace(part, **{proof: flipped(getattr(part, proof))})
    if how == "with a longer path":
        return replace(part, path=(*part.path, b""))
    if how == "with a path in one piece":
        if len(part.path) < 2:
            raise Moot
        return replace(part, path=(b"".join(part.path),))
    return replace(part, index=2**40)
