"""A node's keys for a verified round: docs/mixing.md, "Keys"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import BatchHeader, Certificate, MixingKey, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BusyError, NodeFault, PolicyRefusal, RoundKeyError
from shuffledp_core.mixproof.group import Scalar
from shuffledp_core.mixproof.history import check_readable
from shuffledp_core.mixproof.keys import NodeSecret, make_key, route_context
from shuffledp_core.mixproof.manifests import (
    check_enrolment_key,
    check_keys,
    mixing_key,
    mixing_part,
)
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.admission import Admission
from shuffledp_shuffler.checks import Terms, check_round_keys

SECRET_BYTES = 64
"""Length in bytes of both secrets, which follow the round key on disk."""

RECORD_MEMORY = 2048
"""Bytes of memory assumed per record in addition to twice its length. Measured: 890 in all for
records of 145 bytes.
"""


@dataclass(frozen=True)
class MixingPart:
    """A node's secrets, their public part, and the withdrawal list that the entry node uses."""

    secret: bytes = field(default=b"", repr=False)
    public: MixingKey | None = None
    withdrawals: bytes = b""


def read_secret(packed: bytes) -> NodeSecret:
    """Parse a node's secrets from the bytes after the round key on disk."""
    return NodeSecret(Scalar(packed[:32]), Scalar(packed[32:]))


def make_mixing_part(
    signed: Signed,
    certificate: Certificate,
    before: Sequence[bytes],
    name: str,
    position: int,
    suite: str,
    roster: Roster,
    admission: Admission,
    *,
    writes_down: bool,
) -> MixingPart:
    """Create a node's fresh keys for a verified round; an empty part for a plain round.

    1. A corrupt node that logs what it learns does not take part: such logs exist for plain rounds
       only.
    2. The round keys of all nodes before this one are present and valid (K1 to K3).
    3. The entry node uses the enrolment key of this node's roster, and a list of withdrawals that
       is not older than this node's.

    Args:
        signed: the certificate as a signed document.
        certificate: the certificate, decoded.
        before: signed round keys of the nodes before this one, in route order.
        name: name of this node.
        position: position of this node on the route.
        suite: suite of the round.
        roster: roster of the deployment.
        admission: the lists of withdrawals that this node knows.
        writes_down: whether this node is corrupt and keeps a log.

    Raises:
        PolicyRefusal: step 1.
        RoundKeyError: step 2; the message names the node.
        ForeignDocumentError, NodeFault: step 3.
    """
    if not certificate.verified:
        if before:
            raise RoundKeyError(
                "keys of earlier nodes belong to verified rounds, but this round's mixing is plain"
            )
        return MixingPart()
    if writes_down:  # 1
        raise PolicyRefusal(
            f"{name} is a corrupt node, which logs what it learns in plain rounds; it cannot "
            "take part in verified ones"
        )
    if len(before) != position - 1:  # 2
        raise RoundKeyError(
            f"the node at position {position} needs the keys of the {position - 1} nodes before "
            f"it, not of {len(before)}"
        )
    digest = document_digest(signed)
    documents = tuple(Signed.from_bytes(key) for key in before)
    if tuple(key.signer for key in documents) != certificate.route[: position - 1]:
        raise RoundKeyError("the keys of the earlier nodes are not those of the certified route")
    keys = check_round_keys(documents, certificate.round_id, suite, digest, roster)
    base = check_keys(roster.deployment, certificate.round_id, signed, keys).blinding[-1]
    serial, named, document = admission.newest(certificate.population)
    if keys:  # 3
        check_enrolment_key(certificate, keys[0], roster)
        _check_newest(mixing_part(keys[0]), serial, named)
    context = route_context(roster.deployment, certificate.round_id, digest)
    secret, public = make_key(context, name, position, base, system_random)
    packed = bytes(secret.blinding) + bytes(secret.opening)
    enrolment = roster.population(certificate.population).enrolment_key
    return MixingPart(
        packed, mixing_key(public, enrolment, serial, named), document if position == 1 else b""
    )


def _check_newest(entry: MixingKey, serial: int, digest: str) -> None:
    if entry.withdrawals < serial:
        raise BusyError(
            f"the entry node uses list {entry.withdrawals} of withdrawn credentials, but this "
            f"node has list {serial}: give all nodes the newest one, then open the round again"
        )
    if entry.withdrawals == serial and entry.withdrawals_digest != digest:
        raise NodeFault(
            f"list {serial} of withdrawn credentials on the entry node differs from the one on "
            "this node"
        )


def check_memory(terms: Terms, memory: int) -> None:
    """Raise `PolicyRefusal` for a verified round that may need more than `memory` bytes.

    Such a round is mixed in memory.
    """
    if terms.mixing is None:
        return
    records = terms.mixing.count_messages(terms.manifest.max_reports)
    need = records * (RECORD_MEMORY + 2 * terms.geometry.record_bytes(2))
    if need > memory:
        dummies = terms.mixing.hops * terms.mixing.dummies
        among = f", {dummies:,} dummies of nodes among them," if dummies else ""
        fewer = "fewer symbols or reports" if dummies else "fewer reports"
        raise PolicyRefusal(
            f"a verified round of up to {records:,} messages{among} may need {need:,} bytes of "
            f"memory, but this node may use only {memory:,}: raise `[mixing] memory` to "
            f"{need:,}, or plan for {fewer}"
        )


def check_history_memory(terms: Terms, header: BatchHeader, memory: int) -> None:
    """Raise `PolicyRefusal` for a batch whose history is longer than this node can read.

    See `most_read`.
    """
    if terms.mixing is not None and isinstance(header.history, int):
        check_readable(
            terms.manifest, header.history, memory, "[mixing] memory"
        )  # beyond that it fits no node
