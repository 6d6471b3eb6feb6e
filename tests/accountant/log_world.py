"""A deployment with a public log and two real witnesses: real accountant, ledgers, rounds and
devices.

An accountant is opened on a folder; a lying one is opened twice, on folders that part."""

from __future__ import annotations

import datetime as dt
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from accountant_world import NODES, PLAN
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from shuffledp_accountant.config import AccountantConfig, PopulationConfig
from shuffledp_accountant.service import Accountant, open_accountant
from shuffledp_accountant.witnesses import CountAnswer, ignore_answer
from shuffledp_analyst.opening import make_manifest
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.links import Link
from shuffledp_client.policy import Policy
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Certificate,
    Countersignature,
    Roster,
    RoundKey,
)
from shuffledp_core.documents.signed import Signed, to_json, verify
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import ROOT, load_identity
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_ops.keys.pki import (
    ACCOUNTANT,
    ANALYST,
    create_deployment,
    next_roster,
    open_deployment,
    write_client,
)
from shuffledp_ops.witness import WitnessServer, WitnessState
from shuffledp_sim.system.ports import Ports

WITNESSES = ("witness-1", "witness-2")


@dataclass
class Branch:
    """An accountant with its own ledger and log folder."""

    world: LogWorld
    folder: Path
    accountant: Accountant

    def reserve(self) -> tuple[str, Signed]:
        """Charges a round."""
        round_id = secrets.token_hex(16)
        certificate = self.accountant.certify(round_id, to_json(PLAN))
        return round_id, Signed.from_bytes(certificate)

    def publish(self) -> None:
        """Writes the log's files, and has the witnesses sign."""
        self.accountant.publish_log()

    def certify(self) -> tuple[str, Signed]:
        """Charges a round and publishes it."""
        round_id, certificate = self.reserve()
        self.publish()
        return round_id, certificate

    def settle(self, round_id: str, accepted: int) -> Certificate:
        """Settles a round by headers of all nodes, and publishes it."""
        headers = [
            self.world.deployment.identity_of(node)
            .sign(
                BatchHeader(
                    round_id=round_id,
                    position=position,
                    users=accepted,
                    records=accepted,
                    digest="00" * 32,
                )
            )
            .to_bytes()
            for position, node in enumerate(NODES, start=2)
        ]
        final = self.accountant.settle(round_id, accepted, headers)
        self.publish()
        key = bytes.fromhex(self.world.roster.accountant.identity_key)
        return verify(Signed.from_bytes(final), Certificate, ACCOUNTANT, key)

    def proof(self, round_id: str, certificate: Signed) -> str:
        return self.accountant.log_proof(round_id, certificate.to_bytes()).decode()

    def announce(self) -> bytes:
        """A round as it is announced."""
        round_id, certificate = self.certify()
        return self.world.announcement(certificate, self.proof(round_id, certificate))


class LogWorld:
    """Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._ports = Ports(len(NODES) + 2 + len(WITNESSES))
        names = [*NODES, ANALYST, ACCOUNTANT]
        addresses = {
            name: f"127.0.0.1:{port}"
            for name, port in zip(names, self._ports.numbers, strict=False)
        }
        ports = self._ports.numbers[len(names) :]
        self.folder = folder
        self.deployment = create_deployment(
            folder / "keys",
            addresses,
            witnesses={
                name: f"http://127.0.0.1:{port}"
                for name, port in zip(WITNESSES, ports, strict=True)
            },
        )
        self.servers = {
            name: WitnessServer(f"127.0.0.1:{port}", self.witness_state(name))
            for name, port in zip(WITNESSES, ports, strict=True)
        }
        self._threads = [
            threading.Thread(target=server.serve_forever) for server in self.servers.values()
        ]

    @property
    def roster(self) -> Roster:
        return self.deployment.roster

    def witness_state(self, name: str, folder: Path | None = None) -> WitnessState:
        """What a witness knows; from another folder: one that has forgotten everything."""
        return WitnessState(
            self.deployment.identity_of(name),
            [log_key_of(self.roster)],
            folder or self.folder / name,
            system_clock,
        )

    def corrupt(self, *names: str) -> None:
        """From now on these witnesses know nothing of what they have signed."""
        for name in names:
            folder = self.folder / f"{name}-{secrets.token_hex(4)}"
            self.servers[name].state = self.witness_state(name, folder)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server, thread in zip(self.servers.values(), self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
        self._ports.close()

    @contextmanager
    def branch(
        self,
        name: str,
        of: str | None = None,
        *,
        log: bool = True,
        count_answer: CountAnswer = ignore_answer,
    ) -> Iterator[Branch]:
        """An accountant on its own folder; `of` another one: on a copy of what that one has now,
        with its `log` folder or without."""
        folder = self.folder / name
        if of is not None:
            shutil.copytree(self.folder / of, folder)
        if not log:
            shutil.rmtree(folder / "log")
        config = AccountantConfig(
            name=ACCOUNTANT,
            keys=self.deployment.keys_of(ACCOUNTANT),
            roster=self.deployment.roster_file,
            root_key=self.deployment.root_key,
            listen=self.roster.accountant.address,
            state=folder,
            populations={"demo": PopulationConfig(epsilon=500.0, delta=1e-6)},
        )
        accountant, ledger = open_accountant(config, self.roster, count_answer)
        try:
            yield Branch(self, folder, accountant)
        finally:
            ledger.close()

    def device(
        self, name: str, *, require_log: bool = True, link: Link | None = None
    ) -> DeviceSteps:
        """A user's device with its own keys and state folder; the same one at the next call."""
        home = self.folder / name
        if not home.exists():
            write_client(home / "keys", self.deployment, "demo")
        return DeviceSteps(
            ClientConfig(
                keys=home / "keys",
                roster=self.deployment.roster_file,
                root_key=self.deployment.root_key,
                state=home / "state",
                policy=Policy(
                    epsilon=1.0, delta=1e-6, epsilon_corrupted=10.0, require_log=require_log
                ),
            ),
            link=link,
        )

    def announcement(self, certificate: Signed, proof: str | None) -> bytes:
        """A round with this certificate, which every party signed."""
        key = bytes.fromhex(self.roster.accountant.identity_key)
        certified = verify(certificate, Certificate, ACCOUNTANT, key)
        keys = [
            self.deployment.identity_of(node).sign(
                RoundKey(
                    deployment=self.roster.deployment,
                    round_id=certified.round_id,
                    node=node,
                    position=position,
                    suite=PLAN.suite,
                    public_key=suite_named(PLAN.suite).generate()[1].hex(),
                    certificate_digest=document_digest(certificate),
                )
            )
            for position, node in enumerate(NODES, start=1)
        ]
        now = system_clock()
        manifest = self.deployment.identity_of(ANALYST).sign(
            make_manifest(
                self.roster.deployment, certified, certificate, keys, PLAN, (now - 1, now + 60_000)
            )
        )
        signed = tuple(
            self.deployment.identity_of(node).sign(
                Countersignature(
                    round_id=certified.round_id,
                    node=node,
                    manifest_digest=document_digest(manifest),
                )
            )
            for node in NODES
        )
        log = msgspec.UNSET if proof is None else proof
        return to_json(Announcement(manifest=manifest, countersignatures=signed, log=log))

    def change_roster(self, **changes: object) -> None:
        """A new roster, signed by the root."""
        newer = next_roster(self.roster, dt.datetime.now(dt.UTC), **changes)
        root = load_identity(self.deployment.folder / ROOT, ROOT)
        self.deployment.roster_file.write_bytes(root.sign(newer).to_bytes())
        self.reload_roster()

    def change_accountant_key(self, key: Ed25519PrivateKey) -> None:
        """Another identity key of the accountant, in its folder and in the next roster."""
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.deployment.keys_of(ACCOUNTANT) / "identity.pem").write_bytes(pem)
        public_key = key.public_key().public_bytes_raw().hex()
        parties = tuple(
            msgspec.structs.replace(party, identity_key=public_key)
            if party.name == ACCOUNTANT
            else party
            for party in self.roster.parties
        )
        self.change_roster(parties=parties)

    def reload_roster(self) -> None:
        """What a restart of every process does after the roster has changed."""
        self.deployment = open_deployment(self.deployment.folder)
        for name, server in self.servers.items():
            server.state = self.witness_state(name)
