"""A party of the route in one round, as a state machine without I/O.

docs/mixing.md, "Hop i", "Analyst", "Blame".

Legal order of calls: `receive` (node 1: `Hop.take`), then `accuse`; if that gave records, `settle`;
then `Hop.release` or `Analyst.board`; `Hop.show` and its like from then on until `erase`. After a
refusal all calls raise errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from shuffledp_core.errors import BadHopError, RoundStateError, ShuffleDPError, UnansweredError
from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.blame import (
    Case,
    check_passage,
    check_trace,
    is_complete,
    opening_context,
    signed_accused,
    signed_answer,
    signed_moves,
)
from shuffledp_core.mixproof.chain import Chain, check_batch, follow, signed_board
from shuffledp_core.mixproof.claims import ClaimList, commitments_of, open_submission, salt
from shuffledp_core.mixproof.evidence import (
    AccusedRecord,
    MovedKey,
    Moves,
    Origin,
    Passage,
    Step,
    Trace,
    Transcript,
)
from shuffledp_core.mixproof.faults import node
from shuffledp_core.mixproof.group import Element, multiply
from shuffledp_core.mixproof.headers import Header, Signer, make_header
from shuffledp_core.mixproof.keys import NodeSecret
from shuffledp_core.mixproof.proofs import prove_equal
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.sampling.randomness import RandomBytes, RandomIntegers

AnswerT = TypeVar("AnswerT", Step, Origin)


@dataclass(frozen=True)
class TraceQuestion:
    """A request to continue the trace of an accused record, with the accuser's input.

    `position` is the accuser's; `headers` and `transcripts` are all before it.
    """

    position: int
    headers: tuple[Header, ...]
    transcripts: tuple[Transcript, ...]
    trace: Trace


@dataclass(frozen=True)
class DecryptedBatch:
    """A received batch: records with keys, shares, and contents (None: failed to decrypt)."""

    records: tuple[bytes, ...]
    keys: Elements
    shares: tuple[Element, ...]
    contents: tuple[bytes | None, ...]

    @cached_property
    def tree(self) -> Tree:
        """The tree over the records."""
        return Tree(self.records)

    @cached_property
    def index_of(self) -> dict[Element, int]:
        """The index of each key."""
        return {key: index for index, key in enumerate(self.keys)}


@dataclass(frozen=True)
class _SentRecords:
    """The records of an output, with an index for looking up many of them."""

    records: tuple[bytes, ...]

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.records)

    @cached_property
    def index_of(self) -> dict[bytes, int]:
        return {record: index for index, record in enumerate(self.records)}


class Receiver:
    """Node 2 to L, or the analyst: decrypts one batch, and accuses records that do not decrypt."""

    def __init__(self, terms: MixTerms, listed: ClaimList, position: int, sign: Signer) -> None:
        self._terms, self._listed, self.position, self._sign = terms, listed, position, sign
        self._header: Header | None = None
        self._chain: Chain | None = None
        self._batch: DecryptedBatch | None = None
        self._accusation: tuple[AccusedRecord, ...] | None = None
        self._settled = False

    def receive(
        self, headers: Sequence[Header], transcripts: Sequence[Transcript], records: Sequence[bytes]
    ) -> None:
        """Receive the batch of the last header, and decrypt every record.

        1. H6: the headers lead here from this party's own list (`follow`).
        2. H1: this party has received no other batch in this round.
        3. H2 to H5: the records match the header (`check_batch`).

        Raises:
            BadHopError, BadBlameError, UnansweredError, TooFewReportsError: a check failed; the
                message names the party at fault, if there is one.
        """
        chain = follow(self._terms, self._listed, headers, transcripts)  # 1
        before = node(self.position - 1, self._terms.hops)
        if not headers or len(headers) != self.position - 1 or self.position in chain.case.deleted:
            raise UnansweredError(
                f"no answer: there are {len(headers)} headers, not one for each node before "
                f"position {self.position}"
            )
        if self._header is not None and self._header.parts() != headers[-1].parts():  # H1 once
            raise BadHopError(f"{before}: sent a second batch; only one is ever decrypted")
        self._header = headers[-1]  # 2
        keys = check_batch(chain, records)  # 3
        if self._chain is None:
            self._chain, self._batch = chain, self._open(records, keys)

    def _open(self, records: Sequence[bytes], keys: Elements) -> DecryptedBatch:
        shares = self._shares(keys)
        boxes = [split_record(record)[1] for record in records]
        return DecryptedBatch(
            tuple(records), keys, shares, self._terms.contents(self.position, keys, shares, boxes)
        )

    def _shares(self, keys: Elements) -> tuple[Element, ...]:
        """The shared secrets that decrypt records with these keys; for the analyst, the keys."""
        return tuple(keys)

    def accuse(self, random: RandomBytes) -> tuple[AccusedRecord, ...]:
        """The one accusation of all records that do not decrypt, T1 and T2; empty if all do.

        If nodes add dummies, only the first `MixTerms.most_accused` records are accused. If there
        are more, then either one of these is a dummy, or they come from more users than may be
        excluded; in both cases the round ends, and a party is named.

        Raises:
            RoundStateError: there is no batch.
        """
        batch = self._input_batch
        if self._accusation is None:
            failing = [index for index, content in enumerate(batch.contents) if content is None]
            if self._terms.dummies:
                failing = failing[: self._terms.most_accused]
            self._accusation = tuple(
                self._sign_accused(self._accuse(index, random)) for index in failing
            )
            self._settled = not failing
        return self._accusation

    def _sign_accused(self, accused: AccusedRecord) -> AccusedRecord:
        return replace(
            accused, signature=self._sign(signed_accused(self.chain.case, self.position, accused))
        )

    def _accuse(self, index: int, random: RandomBytes) -> AccusedRecord:  # noqa: ARG002 - nodes prove shares
        return AccusedRecord(
            index, self._input_batch.records[index], self._input_batch.tree.path(index)
        )

    def resume_accusation(self, accused: Sequence[AccusedRecord]) -> None:
        """Restore, after a restart, the only accusation that was made of this batch."""
        if self._batch is None:
            raise RoundStateError(f"position {self.position} has no batch to accuse records of")
        self._accusation, self._settled = tuple(accused), not accused

    def settle(self, transcript: Transcript | None) -> None:
        """End the accusation (H7): check that every record was traced, and delete the users' keys.

        None means that a node did not continue a trace. A damaged or incomplete transcript settles
        nothing: ask for another one until the deadline. In all other cases this party erases its
        secrets. In both cases nothing leaves the node.

        Raises:
            UnansweredError: the transcript does not settle the accusation; for None the round has
                failed.
            BadBlameError, TooFewReportsError: the round has failed.
            RoundStateError: there is no accusation to settle, or this party refused.
        """
        if self._batch is None or not self._accusation or self._settled:
            raise RoundStateError("there is no accusation to settle, or it was settled already")
        try:
            self._chain = self._follow_transcript(transcript)
        except UnansweredError:
            if transcript is None:
                self.erase()
            raise
        except ShuffleDPError:
            self.erase()
            raise
        self._settled = True

    def _follow_transcript(self, transcript: Transcript | None) -> Chain:
        accused = tuple(trace.accused for trace in transcript.traces) if transcript else ()
        if (
            transcript is None
            or transcript.position != self.position
            or accused != self._accusation
        ):  # H7
            raise UnansweredError(
                "no answer: the transcript does not trace every accused record to a claim"
            )
        return self.chain.without(transcript)

    def erase(self) -> None:
        """Erase secrets, input and order, after a refusal or at the end of the round."""
        self._batch, self._settled = None, False

    @property
    def chain(self) -> Chain:
        """The chain up to this party's input, without the users whom the party excluded.

        Raises `RoundStateError` before there is one.
        """
        if self._chain is None:
            raise RoundStateError(f"the party at position {self.position} has no batch")
        return self._chain

    @property
    def _input_batch(self) -> DecryptedBatch:
        if self._batch is None:
            raise RoundStateError(
                f"the party at position {self.position} has no batch: none arrived, or it "
                "refused and erased it"
            )
        return self._batch

    def _remaining(self) -> list[int]:
        """Indices of the input's records that were not deleted."""
        batch = self._input_batch
        if not self._settled:  # H7 left
            raise RoundStateError(
                "the batch may not leave yet: call `accuse`, and settle the accusation if there "
                "is one"
            )
        gone = self.chain.case.deleted.get(self.position, frozenset())
        return [index for index, key in enumerate(batch.keys) if key not in gone]


class Analyst(Receiver):
    """The last party of the route, which reads the messages."""

    def __init__(self, terms: MixTerms, listed: ClaimList, sign: Signer) -> None:
        super().__init__(terms, listed, terms.analyst, sign)

    def board(self) -> tuple[tuple[bytes, ...], bytes]:
        """The board to publish, each remaining key || symbol || proof, and the signature (F4).

        Raises:
            RoundStateError: a record may be accused (H7).
        """
        left, batch = self._remaining(), self._input_batch
        board = tuple(batch.keys[index] + (batch.contents[index] or b"") for index in left)
        return board, self._sign(signed_board(self.chain, board))


class Hop(Receiver):
    """A mix node of the route.

    Its secrets, input and order stay until `erase`: a later accusation may need a step.
    """

    def __init__(
        self, terms: MixTerms, listed: ClaimList, position: int, secret: NodeSecret, sign: Signer
    ) -> None:
        super().__init__(terms, listed, position, sign)
        self._secret: NodeSecret | None = secret
        self._seeds: dict[bytes, bytes] = {}
        self._order: list[int] = []
        self._output: tuple[Header, tuple[bytes, ...]] | None = None
        self._sent: _SentRecords | None = None
        self._history: tuple[tuple[tuple[Header, ...], tuple[Transcript, ...]], Case] | None = None

    def take(self, submissions: Mapping[bytes, bytes]) -> None:
        """At node 1, take in the records of all listed claims, by credential.

        Raises:
            BadClaimError: C4; an honest node 1 finds this before it signs a receipt
                (`open_submission`).
        """
        records: list[bytes] = []
        for claim in self._listed.claims:
            seed, records_of_user = open_submission(
                self._terms, claim, submissions[claim.credential]
            )
            self._seeds[claim.credential] = seed
            records += records_of_user
        keys = Elements(split_record(record)[0] for record in records)
        self._batch = DecryptedBatch(
            tuple(records), keys, (), tuple(split_record(record)[1] for record in records)
        )
        self._chain = Chain.start(self._terms, self._listed)

    def _shares(self, keys: Elements) -> tuple[Element, ...]:
        return keys.times(self._secrets.opening)

    def _accuse(self, index: int, random: RandomBytes) -> AccusedRecord:
        share, proof = self._proved_share(index, random)
        return AccusedRecord(
            index,
            self._input_batch.records[index],
            self._input_batch.tree.path(index),
            share,
            proof,
        )

    def _proved_share(self, index: int, random: RandomBytes) -> tuple[bytes, bytes]:
        key, share = self._input_batch.keys[index], self._input_batch.shares[index]
        pairs = self._terms.route.opener(self.position), (key, share)
        context = opening_context(self._terms, self.position)
        return share, prove_equal("opening", context, *pairs, self._secrets.opening, random)

    def release(self, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        """The only output, H8: blinded keys and decrypted boxes in uniform order, and the header.

        Repeated calls return the same output.

        Raises:
            RoundStateError: this node refused, or records may be accused (H7).
        """
        if self._output is None:  # H8
            order, batch = _shuffle(self._remaining(), random), self._input_batch
            keys = batch.keys.times(self._secrets.blinding)
            records = tuple(keys[at] + (batch.contents[at] or b"") for at in order)
            chain, root = self.chain, Tree(records).root
            stated = Header(
                self.position, chain.link, self._listed.digest, chain.digest, len(records), root
            )
            header = make_header(
                self._terms, stated, self.chain.total, self._secrets.blinding, self._sign, random
            )
            self._order, self._output = order, (header, records)
        return self._output

    @property
    def order(self) -> tuple[int, ...]:
        """The input's indices in the order of the output: as secret as the keys."""
        return tuple(self._order)

    def resume_output(self, order: Sequence[int], header: Header, records: Sequence[bytes]) -> None:
        """Restore, after a restart, the only committed output, so that its steps can be shown."""
        self._order, self._output = list(order), (header, tuple(records))

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        """Continue a trace by this node's step or, at node 1, by the record's claim (T3 to T5).

        T7: the accusation and every earlier step are checked first.

        Raises:
            BadHopError, BadBlameError, UnansweredError: an earlier step does not verify; the
                error names its party.
            RoundStateError: it is not this node's turn, or it has no output.
        """
        case, last = self._check_question(question)  # T7
        trace = question.trace
        if question.position - 1 - len(trace.steps) != self.position or trace.origin is not None:
            raise RoundStateError(f"the trace's next step is not node {self.position}'s")
        at = self._order[self._asked_about.index_of[last]]
        if self.position == 1:
            return replace(trace, origin=self._sign_answer(case, trace, self._origin(at, random)))
        share, share_proof = self._proved_share(at, random)
        record, path = self._input_batch.records[at], self._input_batch.tree.path(at)
        step = Step(at, record, path, self._blinding_proof(at, random), share, share_proof)
        return replace(trace, steps=(*trace.steps, self._sign_answer(case, trace, step)))

    def _sign_answer(self, case: Case, trace: Trace, answer: AnswerT) -> AnswerT:
        return replace(
            answer, signature=self._sign(signed_answer(case, self.position, trace, answer))
        )

    def _check_question(self, question: TraceQuestion) -> tuple[Case, bytes]:
        """Verify all answers so far to a question; return the case and the record to trace next."""
        own_header, at = self._output_records[0], self.position - 1
        if (
            not self.position < question.position == len(question.headers) + 1
            or question.headers[at] != own_header
        ):
            raise UnansweredError("no answer: the inquiry is not about this node's own output")
        case = self._history_of(question)
        return case, check_trace(case, question.position, question.trace)

    def _history_of(self, question: TraceQuestion) -> Case:
        """The case at the accuser's input: list, headers and deletions up to there.

        It is cached, because the questions about all accused records and named users share it.
        """
        history = question.headers, question.transcripts
        if self._history is None or self._history[0] != history:
            self._history = history, follow(self._terms, self._listed, *history).case
        return self._history[1]

    def _origin(self, at: int, random: RandomBytes) -> Origin:
        claim, index = self._listed.find_message(at, self._terms)
        seed, first = self._seeds[claim.credential], at - index
        messages = self._terms.messages_of(claim.credential)
        records = self._input_batch.records[first : first + messages]
        path = Tree(commitments_of(self._terms, seed, records)).path(index)
        proof = self._blinding_proof(at, random)
        return Origin(claim.credential, index, salt(self._terms, seed, index), path, proof)

    def show_passage(
        self, question: TraceQuestion, passage: Passage, random: RandomBytes
    ) -> Passage:
        """Continue the passage of a user whom a complete trace names (T6); check both first (T7).

        Raises:
            BadHopError, BadBlameError, UnansweredError, RoundStateError: as `show`.
        """
        case, _ = self._check_question(question)  # T7
        origin = question.trace.origin
        if origin is None or not is_complete(question.position, question.trace):  # T7
            raise UnansweredError(
                "no answer: the inquiry asks for keys of a user whom no complete trace names"
            )
        if origin.credential != passage.credential or len(passage.hops) != self.position - 1:
            raise RoundStateError(
                f"the passage is about another user, or its next step is not node {self.position}'s"
            )
        keys = check_passage(case, passage)  # T7
        sent, places = self._asked_about, {at: position for position, at in enumerate(self._order)}
        incoming = [self._input_batch.index_of[key] for key in keys]
        moved = tuple(
            MovedKey(
                places[at],
                sent.records[places[at]],
                sent.tree.path(places[at]),
                self._blinding_proof(at, random),
            )
            for at in incoming
        )
        return self._sign_moves(case, passage, Moves(moved))

    def _sign_moves(self, case: Case, passage: Passage, moves: Moves) -> Passage:
        signed = replace(
            moves, signature=self._sign(signed_moves(case, self.position, passage, moves))
        )
        return replace(passage, hops=(*passage.hops, signed))

    def _blinding_proof(self, at: int, random: RandomBytes) -> bytes:
        key = self._input_batch.keys[at]
        pairs = self._terms.route.blinder(self.position), (key, self._blind(key))
        context = opening_context(self._terms, self.position)
        return prove_equal("blinding", context, *pairs, self._secrets.blinding, random)

    def _blind(self, key: Element) -> Element:
        return multiply(self._secrets.blinding, key)

    @property
    def _output_records(self) -> tuple[Header, tuple[bytes, ...]]:
        if self._output is None:
            raise RoundStateError(
                f"node {self.position} has not mixed the batch yet, or has erased its output, so "
                "nothing can be traced"
            )
        return self._output

    @property
    def _asked_about(self) -> _SentRecords:
        """The output's records with their index, cached: the tree of a large batch takes 0.25 s."""
        records = self._output_records[1]
        if self._sent is None or self._sent.records is not records:
            self._sent = _SentRecords(records)
        return self._sent

    @property
    def _secrets(self) -> NodeSecret:
        if self._secret is None:
            raise RoundStateError(f"the secrets of node {self.position} are erased")
        return self._secret

    def erase(self) -> None:
        """See `Receiver.erase`."""
        super().erase()
        self._secret, self._order, self._seeds, self._output, self._history = (
            None,
            [],
            {},
            None,
            None,
        )  # after a discard
        self._sent = None


def _shuffle(indices: list[int], random: RandomBytes) -> list[int]:
    """A uniform permutation (Fisher and Yates)."""
    draw = RandomIntegers(random)
    for last in range(len(indices) - 1, 0, -1):
        other = draw.below(last + 1)
        indices[last], indices[other] = indices[other], indices[last]
    return indices
