"""Verified rounds around the nodes under test: the test plays the analyst, and users who may
cheat."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shuffler_world import MECHANISM, POPULATION, Round, User, World

from shuffledp_analyst.blame import trace_accusation
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Certificate, Credential, Manifest, RoundKey
from shuffledp_core.documents.signed import Signed, from_json, sign
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.mixproof.chain import follow
from shuffledp_core.mixproof.claiming import enrolled_claim, pack_claim
from shuffledp_core.mixproof.claims import PreparedClaim, make_claim
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.history import (
    Accusation,
    Inquiry,
    check_history,
    pack_document,
    unpack_document,
)
from shuffledp_core.mixproof.manifests import mix_terms, mixing_part
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.sampling.randomness import system_random
from shuffledp_core.transport.chunks import chunks
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.vocabulary import Mix
from shuffledp_proto.v1 import batch_pb2, node_pb2

Sent = tuple[node_pb2.SubmissionHeader, bytes]


@dataclass
class MixproofRound:
    """An open verified round, with its terms."""

    world: World
    round: Round
    terms: MixTerms

    def made(self, user: User) -> PreparedClaim:
        return make_claim(
            self.terms,
            [0] * self.terms.messages_per_user,
            user.key.private_bytes_raw(),
            system_random,
        )

    def submission(self, user: User, made: PreparedClaim | None = None) -> Sent:
        """What a user sends: its claim, and behind it the sealed records."""
        made = made or self.made(user)
        sealed = suite_named("sealed-box").sealer(
            self.round.public_keys()[0], binding(self.round.round_id, 1)
        )
        envelope = pack_claim(enrolled_claim(made.claim, user.credential)) + sealed(made.submission)
        name = user.key.public_key().public_bytes_raw().hex()
        claim = SubmissionClaim(
            round_id=self.round.round_id, credential=name, envelope_digest=digest(envelope)
        )
        header = node_pb2.SubmissionHeader(
            round_id=self.round.round_id,
            credential=user.credential.to_bytes(),
            claim=sign(claim, name, user.key).to_bytes(),
        )
        return header, envelope

    async def send(self, sent: Sent) -> Signed:
        return await self.world.send_whole(
            node_pb2.SubmitWholeRequest(header=sent[0], envelope=sent[1])
        )

    async def dummies(self, name: str) -> bytes:
        request = node_pb2.GetDummiesRequest(round_id=self.round.round_id)
        async with translate_errors(name):
            return await joined(self.world.node(name).GetDummies(request))

    async def bring(self, data: bytes, entry: str = "node-1") -> None:
        parts = [node_pb2.SetDummiesRequest(round_id=self.round.round_id)]
        parts += [node_pb2.SetDummiesRequest(chunk=chunk) for chunk in chunked(data)]
        async with translate_errors(entry):
            await self.world.node(entry).SetDummies(iter(parts))

    async def accusation(self, name: str) -> bytes:
        request = node_pb2.GetAccusationRequest(round_id=self.round.round_id)
        async with translate_errors(name):
            return await joined(self.world.node(name).GetAccusation(request))

    async def ask(self, position: int, inquiry: Inquiry) -> Inquiry:
        name = self.world.names[position - 1]
        parts = [node_pb2.AnswerRequest(round_id=self.round.round_id)]
        parts += [node_pb2.AnswerRequest(chunk=chunk) for chunk in chunked(pack_document(inquiry))]
        async with translate_errors(name):
            return unpack_document(await joined(self.world.node(name).Answer(iter(parts))), Inquiry)

    async def settle(self, name: str, transcript: Transcript) -> None:
        parts = [node_pb2.SettleAccusationRequest(round_id=self.round.round_id)]
        parts += [
            node_pb2.SettleAccusationRequest(chunk=chunk)
            for chunk in chunked(pack_document(transcript))
        ]
        async with translate_errors(name):
            await self.world.node(name).SettleAccusation(iter(parts))

    async def transcript(self, accusation: bytes) -> Transcript:
        """What the nodes answer to an accusation."""
        accused = unpack_document(accusation, Accusation)
        assert self.round.manifest is not None
        manifest = from_json(self.round.manifest.body, Manifest)
        population = self.world.roster.population(POPULATION)
        entry = from_json(self.round.keys[0].body, RoundKey)
        known = check_history(accused.history, manifest, self.terms, population, mixing_part(entry))
        chain = follow(self.terms, known, accused.history.headers, accused.history.transcripts)
        return await trace_accusation(
            chain, len(accused.history.headers) + 1, accused.accused, self.ask
        )


def chunked(data: bytes) -> list[batch_pb2.Chunk]:
    return [batch_pb2.Chunk(offset=offset, data=piece) for offset, piece in chunks(data)]


async def joined(answers: AsyncIterable[Any]) -> bytes:
    return b"".join([answer.chunk.data async for answer in answers])


async def prepare(
    world: World, name: str, certificate: Signed, position: int, before: tuple[Signed, ...]
) -> Signed:
    request = node_pb2.PrepareRoundRequest(
        certificate=certificate.to_bytes(),
        position=position,
        suite="sealed-box",
        route=[key.to_bytes() for key in before],
    )
    async with translate_errors(name):
        return Signed.from_bytes((await world.node(name).PrepareRound(request)).round_key)


def planned(world: World, mechanism: Mechanism = MECHANISM) -> Round:
    """A certified verified round without any keys."""
    round_ = world.round(mechanism, mix="verified")
    mechanism = from_json(round_.certificate.body, Certificate).mechanism
    return replace(
        round_, geometry=Geometry.of(mechanism, "sealed-box", len(world.names), Mix.VERIFIED)
    )


async def keys_in_turn(world: World, round_: Round) -> Round:
    for position, name in enumerate(world.names, start=1):
        round_.keys = (
            *round_.keys,
            await prepare(world, name, round_.certificate, position, round_.keys),
        )
    return round_


async def open_mixproof(
    world: World, mechanism: Mechanism = MECHANISM, **changes: Any
) -> MixproofRound:
    """A verified round that every node has countersigned; `changes` are of the manifest."""
    round_ = await keys_in_turn(world, planned(world, mechanism))
    round_.manifest = world.manifest(round_, **({"max_reports": 20} | changes))
    for name in world.names:
        await world.set_manifest(name, round_.manifest)
    manifest, certificate = (
        from_json(round_.manifest.body, Manifest),
        from_json(round_.certificate.body, Certificate),
    )
    keys = [from_json(key.body, RoundKey) for key in round_.keys]
    return MixproofRound(
        world, round_, mix_terms(round_.manifest, manifest, certificate, keys, world.roster)
    )


def expiring(world: World, expires_at: int) -> User:
    """A user whose credential counts until then."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    credential = Credential(population=POPULATION, public_key=public, expires_at=expires_at)
    return User(key, world.deployment.enrolment_of(POPULATION).sign(credential))


def soon() -> int:
    """Within the life of every round here."""
    return system_clock() + 60_000
