"""The analyst's part in rounds with provable mixing (docs/mixing.md, "Analyst" and "Blame")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shuffledp_analyst.blame import once_more, trace_accusation
from shuffledp_analyst.peers import Peers
from shuffledp_core.documents.models import BatchHeader, Certificate, Manifest, RoundKey
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    BadBatchError,
    MalformedDocumentError,
    ShuffleDPError,
    TooFewReportsError,
    UnansweredError,
)
from shuffledp_core.mixproof.chain import Chain, follow
from shuffledp_core.mixproof.claims import ClaimList
from shuffledp_core.mixproof.history import (
    Accusation,
    History,
    Inquiry,
    check_history,
    most_accused,
    most_read,
    pack_document,
    unpack_document,
)
from shuffledp_core.mixproof.hops import Analyst
from shuffledp_core.mixproof.manifests import check_keys, check_mix, mix_terms, mixing_part
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import system_random


@dataclass(frozen=True)
class OpenedBatch:
    """A decoded batch: packed board, history that proves it, and number of remaining users."""

    board: bytes
    history: bytes
    users: int


def check_route_keys(certificate: Certificate, signed: Signed, keys: Sequence[Signed]) -> None:
    """Check the mixing keys of a whole route, whose round keys are already verified.

    In a plain round, check that the round keys contain no mixing keys.

    Raises:
        RoundKeyError: a key does not verify; the message names its node.
    """
    route = [from_json(key.body, RoundKey) for key in keys]
    check_mix(certificate, route)
    if certificate.verified:
        check_keys(certificate.deployment, certificate.round_id, signed, route)


class ProvableMixing:
    """A verified round at the analyst: its terms, and inquiries to its nodes."""

    def __init__(
        self, announced: tuple[Signed, Manifest], certificate: Certificate, peers: Peers
    ) -> None:
        """Derive the terms of the round; raises `RoundKeyError` for invalid mixing keys.

        `announced`: the manifest, as a signed document and decoded.
        """
        signed, self._manifest = announced
        self._certificate = certificate
        self._peers = peers
        self._keys = [from_json(key.body, RoundKey) for key in self._manifest.route]
        self._terms = mix_terms(signed, self._manifest, certificate, self._keys, peers.roster)
        self._most = most_read(self._manifest, peers.history_memory)

    async def settle(self, name: str) -> None:
        """Trace the accusation of the node with this name, and send it the transcript.

        Raises:
            BadBlameError, BadHopError, BadListError, TooFewReportsError: a check failed; the
                message names the party at fault.
            UnansweredError: a node does not continue; no party is proved guilty.
            RoundStateError: the node accuses no record (any more).
        """
        round_id = self._manifest.round_id
        data = await self._peers.persistently(
            lambda: self._peers.accusation(name, round_id, self._most)
        )
        accusation = await in_thread(_accusation_of, name, data)
        if len(accusation.accused) > most_accused(self._manifest):
            raise UnansweredError(
                f"no answer: {name} accuses {len(accusation.accused)} records, more than the "
                f"{most_accused(self._manifest)} that may be traced"
            )
        chain = await in_thread(self._chain, accusation.history)
        position = len(chain.case.headers) + 1
        if position > len(self._keys) or self._keys[position - 1].node != name:
            raise UnansweredError(
                f"no answer: the history that {name} sent with its accusation does not end at "
                f"{name}'s position"
            )
        transcript = await trace_accusation(chain, position, accusation.accused, self._ask)
        await in_thread(
            chain.without, transcript
        )  # judged here first: it says who is named where too few are left
        answer = pack_document(transcript)
        await once_more(
            lambda: self._peers.persistently(
                lambda: self._peers.settle_accusation(name, round_id, answer)
            )
        )

    async def open(self, header: BatchHeader, batch: bytes, identity: Identity) -> OpenedBatch:
        """Check and decrypt the last node's batch: H1 to H6 and F1 to F4 of docs/mixing.md.

        Records that fail to decrypt are traced to their users.

        Args:
            header: the last node's header, which states the length of the history.
            batch: history and records, whose digest is already checked.
            identity: the analyst's own identity.

        Raises:
            BadListError, BadHopError, BadBlameError, UnansweredError, TooFewReportsError: the batch
                does not verify; the message names the party at fault, if there is one.
            BadBatchError: the header counts more or fewer reports than remain of the list after the
                exclusions.
        """
        analyst, history = await in_thread(self._receive, header, batch, identity)
        accused = await in_thread(analyst.accuse, system_random)
        if len(accused) > most_accused(self._manifest):
            raise TooFewReportsError(
                f"{len(accused)} records failed to decrypt, more than may be left out; no party "
                "can be blamed"
            )
        if accused:
            transcript = await trace_accusation(
                analyst.chain, len(self._keys) + 1, accused, self._ask
            )
            await in_thread(analyst.settle, transcript)
            history = replace(history, transcripts=(*history.transcripts, transcript))
        board, signature = await in_thread(analyst.board)
        published = replace(history, board_signature=signature).to_bytes()
        return OpenedBatch(b"".join(board), published, analyst.chain.users)

    def _receive(
        self, header: BatchHeader, batch: bytes, identity: Identity
    ) -> tuple[Analyst, History]:
        length = header.history if isinstance(header.history, int) else 0
        history = History.signed_by(self._keys[-1].node, batch[:length], self._manifest)
        analyst = Analyst(self._terms, self._check_list(history), identity.sign_bytes)
        width = self._manifest.geometry.record_bytes(len(self._keys) + 1)
        records = [batch[at : at + width] for at in range(length, len(batch), width)]
        analyst.receive(history.headers, history.transcripts, records)
        if analyst.chain.users != header.users:
            raise BadBatchError(
                f"the last node signed for {header.users} reports, but the signed list and the "
                f"exclusions leave {analyst.chain.users}"
            )
        return analyst, history

    def _check_list(self, history: History) -> ClaimList:
        population = self._peers.roster.population(self._certificate.population)
        return check_history(
            history, self._manifest, self._terms, population, mixing_part(self._keys[0])
        )

    def _chain(self, history: History) -> Chain:
        return follow(self._terms, self._check_list(history), history.headers, history.transcripts)

    async def _ask(self, position: int, inquiry: Inquiry) -> Inquiry:
        name = self._keys[position - 1].node
        data = pack_document(inquiry)
        round_id = self._manifest.round_id
        try:
            answer = await self._peers.persistently(
                lambda: self._peers.answer(name, round_id, data, self._most)
            )
            return await in_thread(unpack_document, answer, Inquiry)
        except ShuffleDPError as error:  # an unsigned answer proves no guilt
            raise UnansweredError(f"no answer from {name}: {error}") from error


def _accusation_of(name: str, data: bytes) -> Accusation:
    try:
        return unpack_document(data, Accusation)
    except MalformedDocumentError as error:  # unsigned as a whole, so it is evidence against no one
        raise UnansweredError(
            f"no answer: the accusation of {name} cannot be read: {error}"
        ) from error
