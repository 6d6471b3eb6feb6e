"""Judging an accusation, which any party can do: docs/mixing.md, "Blame".

Every error names the party whose statement does not verify.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shuffledp_core.errors import BadBlameError, ProofError, UnansweredError
from shuffledp_core.mixproof.claims import ClaimList, commitment
from shuffledp_core.mixproof.evidence import (
    AccusedRecord,
    ExcludedUser,
    MovedKey,
    Moves,
    Origin,
    Passage,
    Step,
    Trace,
    Transcript,
)
from shuffledp_core.mixproof.faults import at_fault, node
from shuffledp_core.mixproof.group import Element, digest_parts, element, number
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.proofs import verify_equal
from shuffledp_core.mixproof.terms import MixTerms, key_of, split_record
from shuffledp_core.mixproof.trees import verify_path


@dataclass(frozen=True)
class Case:
    """The basis of every judgement: terms, list of claims, checked headers, and deleted keys.

    `deleted` maps a position to the keys that were deleted from its input.
    """

    terms: MixTerms
    listed: ClaimList
    headers: Sequence[Header]
    deleted: Mapping[int, frozenset[bytes]] = field(default_factory=dict)

    def party(self, position: int) -> str:
        """Name of the party at a position."""
        return node(position, self.terms.hops)

    def question_parts(self, *parts: bytes) -> tuple[bytes, ...]:
        """Data to which an answer is bound: the list, all headers, and all earlier answers."""
        seen = digest_parts(
            "asked",
            self.listed.digest,
            *(part for header in self.headers for part in header.parts()),
        )
        return (seen, *parts)

    def verify_in_output(
        self, position: int, index: int, record: bytes, path: tuple[bytes, ...]
    ) -> None:
        """Check that a record is in the output of node `position`. Raises `ProofError`."""
        header = self.headers[position - 1]
        verify_path(header.root, record, index, header.count, path)


def opening_context(terms: MixTerms, position: int) -> tuple[bytes, ...]:
    """Context to which proofs about shares and steps at a position are bound."""
    return (terms.manifest, number(position))


def check_accused(case: Case, position: int, accused: AccusedRecord) -> None:
    """Check that a record which the accuser received does not decrypt.

    The accusation must be signed for this batch.

    1. T1: the record is in the output of the node before the accuser.
    2. T2: the accuser's share is correct, and the record does not decrypt with it.

    Raises:
        BadBlameError: a check failed; the message names the accuser.
    """
    party, terms = case.party(position), case.terms
    # T0 accused
    terms.require_signed(position, signed_accused(case, position, accused), accused.signature)
    key_bytes, box = split_record(accused.record)
    with at_fault(BadBlameError, party):
        case.verify_in_output(position - 1, accused.index, accused.record, accused.path)  # T1
        share = key = element(key_bytes)
        if position <= terms.hops:
            share = _share(terms, position, key, accused.share, accused.proof)
        elif accused.share or accused.proof:
            raise ProofError(
                "states a share of the key exchange, but at the analyst the record's key "
                "decrypts without one"
            )
    if terms.content(position, key, share, box) is not None:  # T2 opens
        raise BadBlameError(f"{party}: accuses a record that decrypts")


def _share(terms: MixTerms, position: int, key: Element, share: bytes, proof: bytes) -> Element:
    base, opener = terms.route.opener(position)
    opened = element(share)
    verify_equal(
        "opening", opening_context(terms, position), (base, opener), (key, opened), proof
    )  # T2 share
    return opened


def signed_accused(case: Case, position: int, accused: AccusedRecord) -> bytes:
    """The bytes that the accuser signs for one record."""
    return case.terms.statement("accused", position, *case.question_parts(), *accused.parts())


def signed_answer(case: Case, position: int, trace: Trace, answer: Step | Origin) -> bytes:
    """The bytes that a node signs for its part of a trace; they include the trace before it.

    So a step that was signed for one record cannot be moved into another record's trace to
    incriminate its node.
    """
    return case.terms.statement(
        "answer", position, *case.question_parts(*trace.parts()), *answer.parts()
    )


def signed_moves(case: Case, position: int, passage: Passage, moves: Moves) -> bytes:
    """The bytes that a node signs for its part of a passage; they include the passage before it."""
    return case.terms.statement(
        "moves", position, *case.question_parts(*passage.parts()), *moves.parts()
    )


def check_step(case: Case, position: int, outgoing: bytes, step: Step) -> bytes:
    """Check the step that node `position` >= 2 states for a record of its output.

    Returns the incoming record.

    1. T3: the incoming record is in the node's input, was not deleted there, and its key times b_i
       is the outgoing key.
    2. T4: with the correct share, the incoming record decrypts to exactly the outgoing box.

    Raises:
        BadBlameError: a check failed; the message names the node.
    """
    party, terms = case.party(position), case.terms
    key_bytes, box = split_record(step.record)
    with at_fault(BadBlameError, party):
        case.verify_in_output(position - 1, step.index, step.record, step.path)  # T3 path
        key = element(key_bytes)
        _check_blinded(terms, position, key, key_of(outgoing), step.blinding_proof)  # T3 blinding
        share = _share(terms, position, key, step.share, step.share_proof)
    if key in case.deleted.get(position, ()):  # T3 deleted
        raise BadBlameError(f"{party}: sent a record of a user who was excluded")
    if terms.open(position, share, box) != split_record(outgoing)[1]:  # T4
        raise BadBlameError(
            f"{party}: sent a box that differs from the one inside the record it decrypted"
        )
    return step.record


def _check_blinded(
    terms: MixTerms, position: int, incoming: Element, outgoing: Element, proof: bytes
) -> None:
    context = opening_context(terms, position)
    verify_equal("blinding", context, terms.route.blinder(position), (incoming, outgoing), proof)


def check_origin(case: Case, outgoing: bytes, origin: Origin) -> None:
    """Check node 1's statement of the claim from which it took a record, T5.

    Raises:
        BadBlameError: a check failed; the message names node 1.
    """
    party, terms = case.party(1), case.terms
    claim = case.listed.by_credential.get(origin.credential)
    if claim is None or not 0 <= origin.index < terms.messages_of(origin.credential):
        raise BadBlameError(f"{party}: names a claim that is not on its list")
    key = element(claim.key_list[origin.index])
    leaf = commitment(terms, origin.salt, origin.index, key + split_record(outgoing)[1])
    with at_fault(BadBlameError, party):
        messages = terms.messages_of(origin.credential)
        verify_path(claim.root, leaf, origin.index, messages, origin.path)  # T5 path
        _check_blinded(terms, 1, key, key_of(outgoing), origin.blinding_proof)  # T5 blinding


def check_moves(
    case: Case, position: int, keys: Sequence[Element], moves: Sequence[MovedKey]
) -> tuple[Element, ...]:
    """Check node `position`'s statement of where a named user's keys went, T6.

    Returns the keys after this hop.

    Raises:
        BadBlameError: a check failed; the message names the node.
    """
    party = case.party(position)
    if len(moves) != len(keys):
        raise BadBlameError(
            f"{party}: states where {len(moves)} of the user's {len(keys)} keys went; it must "
            "state all"
        )
    with at_fault(BadBlameError, party):
        for key, moved in zip(keys, moves, strict=True):
            _check_blinded(
                case.terms, position, key, key_of(moved.record), moved.blinding_proof
            )  # T6
            case.verify_in_output(position, moved.index, moved.record, moved.path)  # T6 path
    return tuple(key_of(moved.record) for moved in moves)


def check_trace(case: Case, position: int, trace: Trace) -> bytes:
    """Check the accused record, steps and origin of a trace, as far as the trace goes.

    Returns the last record shown.

    Raises:
        BadBlameError: a check failed; the message names the party whose statement does not verify,
            or the node whose dummy was accused.
        UnansweredError: a part is not signed by its node for this trace, or is at a position
            without a node.
    """
    if not 2 <= position <= min(case.terms.analyst, len(case.headers) + 1):
        raise UnansweredError(f"no answer: position {position} has no record to accuse")
    check_accused(case, position, trace.accused)
    if len(trace.steps) > position - 2 or (trace.origin and not is_complete(position, trace)):
        raise UnansweredError("no answer: the trace has steps at positions without a node")
    record = trace.accused.record
    for taken, step in enumerate(trace.steps):
        at = position - 1 - taken
        so_far = Trace(trace.accused, trace.steps[:taken])
        # T0 step
        case.terms.require_signed(at, signed_answer(case, at, so_far, step), step.signature)
        record = check_step(case, at, record, step)
    if trace.origin is not None:
        so_far = Trace(trace.accused, trace.steps)
        case.terms.require_signed(
            1, signed_answer(case, 1, so_far, trace.origin), trace.origin.signature
        )  # T0 origin
        check_origin(case, record, trace.origin)
        # A node is not excluded as a user is: it lied like one that mixes wrongly.
        if trace.origin.credential in case.terms.node_credentials:  # T5 dummies
            raise BadBlameError(
                f"{case.terms.name_of(trace.origin.credential)}: one of its own dummies does not "
                "decrypt"
            )
    return record


def is_complete(position: int, trace: Trace) -> bool:
    """True for a trace that ends at a claim."""
    return trace.origin is not None and len(trace.steps) == position - 2


def check_passage(case: Case, passage: Passage) -> tuple[Element, ...]:
    """Check a named user's keys as far as they are traced; return the keys at that point.

    Raises:
        BadBlameError: a check failed; the message names the node whose statement does not verify.
        UnansweredError: a part is not signed by its node for this passage, or the passage is not of
            a listed user.
    """
    claim = case.listed.by_credential.get(passage.credential)
    if claim is None or len(passage.hops) > len(case.headers):
        raise UnansweredError(
            "no answer: the traced keys belong to no user on the list, or the trace is longer "
            "than the route"
        )
    keys = tuple(map(element, claim.key_list))
    for position, hop in enumerate(passage.hops, start=1):
        so_far = Passage(passage.credential, passage.hops[: position - 1])
        case.terms.require_signed(
            position, signed_moves(case, position, so_far, hop), hop.signature
        )  # T0 moves
        keys = check_moves(case, position, keys, hop.moves)
    return keys


def judge(case: Case, transcript: Transcript) -> tuple[ExcludedUser, ...]:
    """Judge a whole accusation; return the users that it excludes, by ascending credential.

    1. Every record is accused once, and its trace verifies and ends at a claim (T1 to T5).
    2. T6: there is one passage for each user named and none for others, and it leads to the
       accuser's input.

    Raises:
        BadBlameError: a check failed; the message names the party whose statement does not verify.
        UnansweredError: a trace or passage ends early; no party is to blame.
    """
    position = transcript.position
    indices = [trace.accused.index for trace in transcript.traces]
    if not indices or not all(left < right for left, right in pairwise(indices)):
        raise UnansweredError(
            "no answer: an accusation must name each record once, in ascending order"
        )
    for trace in transcript.traces:  # 1
        check_trace(case, position, trace)
        if not is_complete(position, trace):
            raise UnansweredError(
                f"no answer: the trace of record {trace.accused.index} does not end at a claim"
            )
    named = sorted({trace.origin.credential for trace in transcript.traces if trace.origin})
    shown = [passage.credential for passage in transcript.passages]
    if shown != named or any(
        len(passage.hops) != position - 1 for passage in transcript.passages
    ):  # 2
        raise UnansweredError(
            "no answer: the keys of the named users are not traced to the accuser"
        )
    return tuple(
        ExcludedUser(position, passage.credential, check_passage(case, passage))
        for passage in transcript.passages
    )
