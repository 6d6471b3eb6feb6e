"""Nothing that others write ends in anything but a typed error: documents, bundles, state files,
configurations, calls.

Each input is genuine at first; then one thing in it is changed, in its text or in its structure,
and what is signed is signed again by who may sign it: a party that lies has a key. 1,150,000 such
documents once gave 18 untyped errors."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_rounds import (
    LENIENT,
    NOW,
    POPULATION,
    ROUND_ID,
    ROUTE,
    Draft,
    make_deployment,
    make_members,
    settled,
)
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_accountant import plans as accountant_plans
from shuffledp_accountant.config import AccountantConfig
from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.opening import (
    check_final_certificate,
    check_plan_certificate,
    check_round_key,
)
from shuffledp_analyst.opening import read_plan as analyst_plan
from shuffledp_client.board import check_board, check_result
from shuffledp_client.config import ClientConfig, load_member
from shuffledp_client.evidence import Evidence, check_evidence, gather, still_open
from shuffledp_client.state import SubmissionStore
from shuffledp_client.submission import check_receipt, prepare
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    Discard,
    Manifest,
    Receipt,
    Result,
    Roster,
    RoundKey,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json, to_json, verify
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.errors import EvidenceError, ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import Identity, load_identity, load_roster
from shuffledp_core.transport.requests import _tolerant
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.keys.pki import write_client
from shuffledp_proto.v1 import accountant_pb2, analyst_pb2, batch_pb2, node_pb2
from shuffledp_shuffler.checks import (
    Terms,
    check_batch,
    check_certificate,
    check_claims,
    check_header,
    check_manifest,
)
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.round_state import RoundRecord
from shuffledp_shuffler.store import RoundFolder

REPOSITORY = Path(__file__).parents[2]

HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400,
    0.0, -0.5, 1e308, 5e-324,
    "", "x", "0", "00", "zz", "00" * 32, "ff" * 32, "0" * 64, "0" * 128, "../../etc", "a\x00b",
    "é" * 40, "x" * 5000,
    "1/0", "1/3", "0/1", "9223372036854775808/1", "node-1", "analyst", "accountant", "sealed-box",
    "krr-histogram",
    "metric", "final", [], {}, [[]], [None], ["node-1", "node-1"], {"mechanism": "rr-shuffle"},
    [1] * 50,
]  # fmt: skip
"""What stands in place of a value."""

INSERTED = [
    b"\x00",
    b"\xff",
    b'"',
    b"[" * 2000,
    b"{",
    b"\\ud800",
    b"\\u0000",
    b"1e999",
    b"9" * 5000,
]
"""What stands between two bytes."""

Consumer = Callable[[bytes], object]


@dataclass(frozen=True)
class Target:
    """An input: its genuine bytes, and who reads them."""

    genuine: bytes
    read: Consumer


class World:
    """One round with everything that is ever read of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deployment = make_deployment(folder / "keys")
        self.roster = self.deployment.roster
        self.draft = Draft(self.deployment)
        self.announcement = self.draft.announcement()
        self.manifest = from_json(self.announcement.manifest.body, Manifest)
        verified = verify_round(self.announcement, self.roster, LENIENT, POPULATION, NOW)
        self.sent = prepare(verified, 3, make_members(self.deployment, 1)[0])
        self.board = self.sent.messages
        receipt = Receipt(
            round_id=ROUND_ID,
            credential=self.sent.claim.signer,
            submission_digest=digest(self.sent.envelope),
        )
        self.receipt = self.signed("node-1", receipt)
        fields = settled(self.draft, self.board, 1)
        self.result = self.signed(
            "analyst", Result(deployment=self.roster.deployment, round_id=ROUND_ID, **fields)
        )
        self.headers = fields["headers"]
        self.final = fields["final_certificate"]
        self.member = folder / "member"
        write_client(self.member, self.deployment, POPULATION)
        self.plan = RoundPlan(
            population=POPULATION, mechanism="sgdl-shuffle", size=4, epsilon=1.0, delta=1e-6,
            min_reports=100,
            max_reports=1000, colluding=10, route=ROUTE,
        )  # fmt: skip
        self.record = RoundRecord(
            round_id=ROUND_ID,
            position=1,
            certificate=self.manifest.certificate,
            round_key=self.manifest.route[0],
        )

    def signed(self, name: str, document: Any) -> Signed:
        return self.draft.signed_by(name, document)

    def again(
        self, signer: str, label: str, read: Callable[[Signed], object], body: bytes
    ) -> object:
        """Reads a body that its party has signed as it is."""
        key = (
            load_identity(self.deployment.folder / "root", "root")
            if signer == "root"
            else self.deployment.identity_of(signer)
        )
        return read(signed_text(key, signer, label, body.decode()))


def signed_text(identity: Identity, signer: str, label: str, body: str) -> Signed:
    covered = b"shuffledp/v1/" + label.encode() + b"\x00" + body.encode()
    return Signed(label=label, signer=signer, body=body, signature=identity.key.sign(covered).hex())


def body_targets(world: World) -> dict[str, Target]:
    """Bodies that a lying party signs."""
    roster, sent, draft = world.roster, world.sent, world.draft
    nodes = [roster.party(name) for name in ROUTE]
    plan_certificate = world.manifest.certificate
    certified = from_json(plan_certificate.body, Certificate)
    terms = check_manifest(world.announcement.manifest, world.record, roster)

    def announced(signed: Signed) -> object:
        said = msgspec.structs.replace(world.announcement, manifest=signed)
        return verify_round(said, roster, LENIENT, POPULATION, NOW)

    def certificate(signed: Signed) -> None:
        for check in (
            lambda: check_certificate(signed, roster, "node-1", 1, "sealed-box", NOW),
            lambda: check_plan_certificate(
                signed, roster.accountant, roster.deployment, ROUND_ID, world.plan, NOW + 60_000
            ),
            lambda: check_final_certificate(signed, roster.accountant, certified, 1, Losses()),
            lambda: announced(with_certificate(world, signed)),
        ):
            typed(check)

    def header(signed: Signed) -> None:
        typed(lambda: check_batch(check_header(signed, "node-1", roster), "node-1", terms))
        typed(lambda: check_headers((signed, *world.headers[1:]), nodes, ROUND_ID, 10, 1))

    def result(signed: Signed) -> None:
        typed(
            lambda: check_board(
                check_result(sent, roster, signed), sent.geometry, world.board, [sent.messages]
            )
        )
        typed(lambda: check_evidence(bundle(world, result=signed), roster, world.board))

    def manifest(signed: Signed) -> None:
        typed(lambda: announced(signed))
        typed(lambda: check_manifest(signed, world.record, roster))

    def round_key(signed: Signed) -> None:
        accountant = world.manifest.certificate
        typed(lambda: check_round_key(signed, nodes[0], 1, "sealed-box", accountant, ROUND_ID))
        changed = msgspec.structs.replace(world.manifest, route=(signed, *world.manifest.route[1:]))
        typed(lambda: announced(draft.signed_by("analyst", changed)))
        typed(lambda: check_manifest(draft.signed_by("analyst", changed), world.record, roster))

    def countersigned(signed: Signed) -> object:
        said = msgspec.structs.replace(
            world.announcement,
            countersignatures=(signed, *world.announcement.countersignatures[1:]),
        )
        return verify_round(said, roster, LENIENT, POPULATION, NOW)

    def other_roster(signed: Signed) -> None:
        path = world.folder / "roster.json"
        path.write_bytes(signed.to_bytes())
        own = load_roster(path, world.deployment.root_key)
        typed(lambda: verify_round(world.announcement, own, LENIENT, POPULATION, NOW))
        typed(
            lambda: check_board(
                check_result(sent, own, world.result), sent.geometry, world.board, [sent.messages]
            )
        )
        typed(lambda: check_evidence(bundle(world), own, world.board))
        typed(lambda: check_claim(terms, own, sent.credential, sent.claim))
        typed(lambda: check_manifest(world.announcement.manifest, world.record, own))
        typed(lambda: analyst_plan(to_json(world.plan), own))
        typed(lambda: load_member(world.member, own))
        typed(
            lambda: TLSFiles.load(
                world.deployment.keys_of("node-1"), own.tls_authority
            ).require_valid()
        )

    discard = world.signed("node-1", Discard(round_id=ROUND_ID, node="node-1", forwarded=False))
    parts: dict[str, tuple[Signed, str, Callable[[Signed], object]]] = {
        "roster": (
            Signed.from_bytes(world.deployment.roster_file.read_bytes()),
            "root",
            other_roster,
        ),
        "manifest": (world.announcement.manifest, "analyst", manifest),
        "certificate": (plan_certificate, "accountant", certificate),
        "final certificate": (world.final, "accountant", certificate),
        "round-key": (world.manifest.route[0], "node-1", round_key),
        "countersignature": (world.announcement.countersignatures[0], "node-1", countersigned),
        "receipt": (world.receipt, "node-1", lambda signed: check_receipt(sent, nodes[0], signed)),
        "batch": (world.headers[0], "node-1", header),
        "discard": (
            discard,
            "node-1",
            lambda signed: still_open(world.announcement, roster, (signed,)),
        ),
        "result": (world.result, "analyst", result),
    }
    return {
        name: Target(one.body.encode(), partial(world.again, signer, one.label, read))
        for name, (one, signer, read) in parts.items()
    } | {"credential": Target(sent.credential.body.encode(), partial(_credential, world, terms))}


def _credential(world: World, terms: Any, body: bytes) -> None:
    """An enrolment authority that signs nonsense; then what a client may claim under it."""
    credential = signed_text(
        world.deployment.enrolment_of(POPULATION), POPULATION, "credential", body.decode()
    )
    enrolment, sent = world.deployment.enrolment_of(POPULATION).public_key, world.sent
    typed(
        lambda: check_submission(
            ROUND_ID, POPULATION, enrolment, credential, sent.claim, sent.envelope
        )
    )
    typed(lambda: check_claim(terms, world.roster, credential, sent.claim))


def check_claim(terms: Terms, roster: Roster, credential: Signed, claim: Signed) -> None:
    """Raise what an entry node refuses this claim with."""
    (outcome,) = check_claims(terms, roster, [(credential, claim)])
    if isinstance(outcome, Exception):
        raise outcome


def with_certificate(world: World, certificate: Signed) -> Signed:
    """A manifest and round keys that fit another certificate."""
    keys = []
    for one in world.manifest.route:
        key = msgspec.structs.replace(
            from_json(one.body, RoundKey), certificate_digest=document_digest(certificate)
        )
        keys.append(world.signed(one.signer, key))
    return world.signed(
        "analyst",
        msgspec.structs.replace(world.manifest, certificate=certificate, route=tuple(keys)),
    )


def bundle(world: World, **changes: Any) -> Evidence:
    genuine = gather(world.sent, world.announcement, world.receipt, world.result)
    return msgspec.structs.replace(genuine, **changes)


def file_targets(world: World) -> dict[str, Target]:
    """Frames, bundles and files, whose text anybody may have changed."""
    folder, roster = world.folder / "files", world.roster
    folder.mkdir()

    def frame(data: bytes) -> None:
        signed = Signed.from_bytes(data)
        Signed.from_bytes(signed.to_bytes())
        document_digest(signed)
        verify(signed, Receipt, "node-1", world.deployment.identity_of("node-1").public_key)

    def announcement(data: bytes) -> object:
        return verify_round(parse_announcement(data), roster, LENIENT, POPULATION, NOW)

    def state(data: bytes) -> None:
        shutil.rmtree(folder / "state", ignore_errors=True)
        store = SubmissionStore(folder / "state")
        (folder / "state" / f"{ROUND_ID}.json").write_bytes(data)
        kept = store.load(ROUND_ID)
        still_open(kept.announcement, roster, ())
        store.expire(NOW, 60)

    def record(data: bytes) -> None:
        path = folder / ROUND_ID
        path.mkdir(exist_ok=True)
        (path / "record.json").write_bytes(data)
        RoundFolder(path).read()

    def roster_file(data: bytes) -> None:
        (folder / "roster.json").write_bytes(data)
        load_roster(folder / "roster.json", world.deployment.root_key)

    def identity(data: bytes) -> None:
        (folder / "identity.pem").write_bytes(data)
        load_identity(folder, "node-1")

    def chain(data: bytes) -> None:
        shutil.copy(world.deployment.keys_of("node-1") / "tls-key.pem", folder / "tls-key.pem")
        (folder / "tls.pem").write_bytes(data)
        TLSFiles.load(folder, roster.tls_authority).require_valid()

    def config(model: Any, data: bytes) -> None:
        (folder / "config.toml").write_bytes(data)
        load_config(folder / "config.toml", model)

    kept = folder / "kept"
    store = SubmissionStore(kept)
    store.keep(world.sent, world.announcement)
    store.add_receipt(ROUND_ID, world.receipt)
    keys, samples = world.deployment.keys_of("node-1"), REPOSITORY / "deploy" / "config"
    configs = {
        "node-1": NodeConfig,
        "analyst": AnalystConfig,
        "accountant": AccountantConfig,
        "client": ClientConfig,
    }
    return {
        "signed frame": Target(world.receipt.to_bytes(), frame),
        "announcement": Target(to_json(world.announcement), announcement),
        "evidence": Target(
            to_json(bundle(world)),
            lambda data: check_evidence(from_json(data, Evidence), roster, world.board),
        ),
        "plan at the analyst": Target(to_json(world.plan), lambda data: analyst_plan(data, roster)),
        "plan at the accountant": Target(
            to_json(world.plan), lambda data: accountant_plans.read_plan(data, roster, [POPULATION])
        ),
        "client state": Target((kept / f"{ROUND_ID}.json").read_bytes(), state),
        "node state": Target(to_json(world.record), record),
        "roster file": Target(world.deployment.roster_file.read_bytes(), roster_file),
        "identity": Target((keys / "identity.pem").read_bytes(), identity),
        "TLS chain": Target((keys / "tls.pem").read_bytes(), chain),
    } | {
        f"{name}.toml": Target((samples / f"{name}.toml").read_bytes(), partial(config, model))
        for name, model in configs.items()
    }


def typed(read: Callable[[], object]) -> None:
    """Lets only our own errors be raised."""
    try:
        read()
    except ShuffleDPError as error:
        str(error).encode()  # fit for a log and for the wire


# What is changed.


def wounded_text(chance: random.Random, genuine: bytes) -> bytes:
    """One flip, cut, repetition or insertion somewhere in the bytes."""
    place = chance.randint(0, max(len(genuine) - 1, 0))
    size = chance.choice([1, 2, 7, 60, 1000])
    kind = chance.choice(["flip", "cut", "end", "repeat", "insert"])
    head, piece, tail = genuine[:place], genuine[place : place + size], genuine[place + size :]
    if kind == "flip":
        return head + bytes([genuine[place] ^ (1 << chance.randint(0, 7))]) + genuine[place + 1 :]
    if kind == "insert":
        return head + chance.choice(INSERTED) + genuine[place:]
    return {"cut": head + tail, "end": head, "repeat": head + piece + piece + tail}[kind]


def wounded_structure(chance: random.Random, genuine: bytes) -> bytes:
    """One value replaced, one key removed, added or doubled.

    At any depth, also inside of texts that are JSON.
    """
    value = json.loads(genuine)
    places = list(_places(value))
    holder, key = chance.choice(places)
    kind = chance.choice(["value", "value", "value", "remove", "add", "double"])
    if kind == "value":
        holder[key] = chance.choice(HOSTILE)
    elif kind == "remove":
        del holder[key]
    elif kind == "add" and isinstance(holder, dict):
        holder["extra"] = chance.choice(HOSTILE)
    elif isinstance(holder, list):
        holder.append(holder[key])
    text = json.dumps(value)
    if kind == "double" and isinstance(holder, dict):
        once = json.dumps({key: holder[key]})[1:-1]
        text = text.replace(once, f"{once}, {once}", 1)
    return text.encode()


def _places(value: Any) -> Any:
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


# The tests.


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("mutated"))


@pytest.fixture(scope="module")
def bodies(world: World) -> dict[str, Target]:
    return body_targets(world)


@pytest.fixture(scope="module")
def files(world: World) -> dict[str, Target]:
    return file_targets(world)


def test_every_input_is_read_as_it_is(bodies: dict[str, Target], files: dict[str, Target]) -> None:
    """Otherwise the changes below would change what is refused anyway."""
    for name, target in (bodies | files).items():
        if name != "evidence":
            target.read(target.genuine)
    with pytest.raises(EvidenceError, match="nothing proves that this user was cheated"):
        files["evidence"].read(files["evidence"].genuine)


@given(seed=st.integers(0, 2**48))
@settings(max_examples=400, deadline=None)
def test_a_body_changed_by_its_own_signer_is_a_typed_error(
    seed: int, bodies: dict[str, Target]
) -> None:
    chance = random.Random(seed)  # noqa: S311 - what is changed, reproducibly
    target = bodies[chance.choice(sorted(bodies))]
    changed = wounded_structure(chance, target.genuine)
    typed(lambda: target.read(changed))


@given(seed=st.integers(0, 2**48))
@settings(max_examples=400, deadline=None)
def test_a_file_or_frame_changed_by_anybody_is_a_typed_error(
    seed: int, files: dict[str, Target]
) -> None:
    chance = random.Random(seed)  # noqa: S311
    name = chance.choice(sorted(files))
    target = files[name]
    json_like = target.genuine.startswith(b"{")
    structural = json_like and chance.random() < 0.5
    changed = (
        wounded_structure(chance, target.genuine)
        if structural
        else wounded_text(chance, target.genuine)
    )
    typed(lambda: target.read(changed))


REQUESTS: list[type[Message]] = [
    getattr(module, name)
    for module in (accountant_pb2, analyst_pb2, batch_pb2, node_pb2)
    for name in dir(module)
    if name.endswith(("Request", "Response")) and isinstance(getattr(module, name), type)
]


@given(kind=st.sampled_from(REQUESTS), noise=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_bytes_make_a_request_parser_raise(kind: type[Message], noise: bytes) -> None:
    read = _tolerant(kind.FromString)
    assert read is not None
    assert read(noise).ByteSize() >= 0


def test_the_mutations_reach_every_message_of_the_wire() -> None:
    assert len(REQUESTS) > 25
    assert BatchHeader.label == "batch"
    assert Roster.label == "roster"
