"""Following the sums of keys from the claim list to a batch, through all exclusions.

Also the check of the board that anyone can do at the end.

docs/mixing.md, "Hop i" (H2 to H6), "Analyst" and P3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shuffledp_core.errors import BadHopError, ProofError, TooFewReportsError, UnansweredError
from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.blame import Case, judge
from shuffledp_core.mixproof.claims import ClaimList
from shuffledp_core.mixproof.evidence import ExcludedUser, Transcript, exclusion_parts
from shuffledp_core.mixproof.faults import at_fault
from shuffledp_core.mixproof.group import WIDTH, Element, digest_parts, less, number
from shuffledp_core.mixproof.headers import Header, link, signed_header, verify_sum
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.mixproof.trees import root


@dataclass(frozen=True)
class Chain:
    """The claim list, followed through checked headers: it determines the next batch.

    `total` is Σ, `users` the number of remaining users, `excluded` the others; `case` judges later
    accusations.
    """

    case: Case
    transcripts: tuple[Transcript, ...]
    total: Element
    users: int
    excluded: tuple[ExcludedUser, ...] = ()
    exclusions: tuple[bytes, ...] = ()

    @classmethod
    def start(cls, terms: MixTerms, listed: ClaimList) -> Chain:
        """The chain before the first hop."""
        return cls(Case(terms, listed, ()), (), listed.total, listed.users)

    def without(self, transcript: Transcript) -> Chain:
        """Judge an accusation by the next position; return the chain without the excluded users.

        Raises:
            BadBlameError, UnansweredError: as `judge`; the latter also if the remaining keys add up
            to the identity.
            TooFewReportsError: too few users are left (H2, F3).
        """
        if transcript.position != len(self.case.headers) + 1:
            raise UnansweredError(
                f"no answer: an accusation by position {transcript.position} comes out of order"
            )
        gone = judge(self.case, transcript)
        keys = [key for user in gone for key in user.keys]
        users, case = self.left_without(len(gone)), self.case
        try:
            left = less(self.total, keys)
        except ProofError as error:
            raise UnansweredError(
                f"no answer: {error}; after the exclusions no honest user is left"
            ) from error
        return replace(
            self,
            case=replace(case, deleted={**case.deleted, transcript.position: frozenset(keys)}),
            transcripts=(*self.transcripts, transcript),
            total=left,
            users=users,
            excluded=self.excluded + gone,
            exclusions=self.exclusions + exclusion_parts(transcript, gone),
        )

    def left_without(self, named: int) -> int:
        """Number of users left if `named` more are excluded.

        Raises `TooFewReportsError` (H2, F3).
        """
        users = self.users - named
        if users < self.case.terms.min_reports:  # F3
            raise TooFewReportsError(
                f"{users} users are left after exclusions, fewer than the minimum, "
                f"{self.case.terms.min_reports}"
            )
        return users

    def behind(self, header: Header) -> Chain:
        """Check the next node's header; return the chain after it.

        1. H1: it is signed by the next position's node, and refers to this header, this list and
           these exclusions.
        2. H2: it counts m records for every remaining user, and the dummies of every node.
        3. H6: its sum is the one before times the node's secret.

        Raises:
            UnansweredError: step 1. A party with another list cannot judge a header; two lists
                convict node 1.
            BadHopError: a check failed; the message names the node.
        """
        case, position = self.case, len(self.case.headers) + 1
        terms, party = case.terms, self.case.party(position)
        if position > terms.hops:
            raise UnansweredError(
                f"no answer: a header for position {position} came, but the route has "
                f"{terms.hops} nodes"
            )
        terms.require_signed(position, signed_header(terms, header), header.signature)  # H1 signed
        seen = (position, self.link, case.listed.digest, self.digest)
        # H1 list
        if (header.position, header.previous, header.list_digest, header.exclusions) != seen:
            raise UnansweredError(
                f"no answer: {party} signed a header for another list, previous header or "
                "exclusion; compare the signed documents"
            )
        with at_fault(BadHopError, party):
            if header.count != terms.count_messages(self.users) or len(header.root) != WIDTH:  # H2
                raise ProofError(
                    f"the header states {header.count} records, which does not match "
                    f"{self.users} users"
                )
            outgoing = verify_sum(terms, header, self.total)  # H6
        return replace(self, case=replace(case, headers=(*case.headers, header)), total=outgoing)

    @property
    def link(self) -> bytes:
        """Digest by which the next header refers to the last header, or to the list before any."""
        return (
            link(self.case.terms, self.case.headers[-1])
            if self.case.headers
            else self.case.listed.digest
        )

    @property
    def digest(self) -> bytes:
        """The exclusions digest of the next header, over all users excluded so far."""
        return digest_parts("excluded", self.case.terms.manifest, *self.exclusions)


def follow(
    terms: MixTerms, listed: ClaimList, headers: Sequence[Header], transcripts: Sequence[Transcript]
) -> Chain:
    """Follow the list through these headers and exclusions, in the order of positions.

    Raises:
        BadHopError, BadBlameError, UnansweredError, TooFewReportsError: as `Chain.behind` and
            `Chain.without`.
    """
    chain = Chain.start(terms, listed)
    waiting = list(transcripts)
    for header in headers:
        chain = _excluding(chain, waiting).behind(header)
    chain = _excluding(chain, waiting)
    if waiting:
        raise UnansweredError(
            f"no answer: the accusation by position {waiting[0].position} concerns no batch in "
            "this history"
        )
    return chain


def _excluding(chain: Chain, waiting: list[Transcript]) -> Chain:
    if waiting and waiting[0].position == len(chain.case.headers) + 1:
        return chain.without(waiting.pop(0))
    return chain


def check_batch(chain: Chain, records: Sequence[bytes]) -> Elements:
    """Check that records are the batch that the chain's last header commits to; return their keys.

    1. H4: they have the signed root.
    2. H2: that many records, of this hop's length.
    3. H3: all keys are elements, and different.
    4. H5: the keys add up to the signed sum.

    Raises:
        UnansweredError: step 1. These bytes have no signer; fetch them again.
        BadHopError: a check failed; the message names the node whose output they are.
    """
    header = chain.case.headers[-1]
    width = chain.case.terms.record_bytes(header.position + 1)
    if not records or root(records) != header.root:  # H4
        raise UnansweredError(
            "no answer: the batch does not have the hash tree root that its header states; "
            "fetch it again"
        )
    with at_fault(BadHopError, chain.case.party(header.position)):
        if len(records) != header.count or any(len(record) != width for record in records):  # H2
            raise ProofError(
                f"the batch does not consist of {header.count} records of {width} bytes, as its "
                "header states"
            )
        keys = Elements(split_record(record)[0] for record in records)
        if len(set(keys)) != len(keys):  # H3
            raise ProofError("a key occurs twice in the batch")
        if keys.total != chain.total:  # H5
            raise ProofError("the keys of the batch do not add up to the sum that was signed")
    return keys


def signed_board(chain: Chain, board: Sequence[bytes]) -> bytes:
    """The bytes that the analyst signs, F4: the last header, the exclusions, count and root.

    Raises `UnansweredError` for no board.
    """
    if not board:
        raise UnansweredError("no answer: the board is empty")
    return chain.case.terms.statement(
        "board", chain.case.terms.analyst, chain.link, chain.digest, number(len(board)), root(board)
    )


def check_board(
    terms: MixTerms,
    listed: ClaimList,
    headers: Sequence[Header],
    transcripts: Sequence[Transcript],
    board: Sequence[bytes],
    signature: bytes,
) -> Chain:
    """Check a published board, P3, of messages key || symbol || proof; return its chain.

    It then holds every message of every listed honest user once and unchanged, even with all nodes
    corrupt.

    1. The headers lead from the list to it (H1, H2, H6; T1 to T6 of every exclusion).
    2. F4: the analyst signed this board after these headers and exclusions.
    3. It has m messages for every remaining user, and the dummies of every node, each with a symbol
       and its proof (F1, F2, F3).
    4. The keys are different, and add up to the signed sum (H3, H5).

    Raises:
        BadHopError: a check failed; the message names the node of the hop that fails, or the
            analyst for the board itself.
        BadBlameError, TooFewReportsError: as `follow`.
        UnansweredError: as `follow`; and step 2, which names no party.
    """
    chain = follow(terms, listed, headers, transcripts)  # 1
    if len(headers) != terms.hops:
        raise UnansweredError(
            f"no answer: there are {len(headers)} headers, not one for each node of the route"
        )
    terms.require_signed(terms.analyst, signed_board(chain, board), signature)  # F4
    with at_fault(BadHopError, chain.case.party(terms.analyst)):
        if len(board) != terms.count_messages(chain.users):  # H2 board
            raise ProofError(
                f"the board has {len(board)} messages, which does not match {chain.users} users"
            )
        keys = Elements(split_record(message)[0] for message in board)
        for fault in filter(
            None, terms.faults(keys, [split_record(message)[1] for message in board])
        ):  # F1, F2
            raise ProofError(fault)
        if len(set(keys)) != len(keys):  # H3
            raise ProofError("a key occurs twice on the board")
        if keys.total != chain.total:  # H5
            raise ProofError(
                "the keys of the board do not add up to the sum that the last node signed"
            )
    return chain
