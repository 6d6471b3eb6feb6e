"""Documents of a round, as frozen values. Field meanings and checks: docs/protocol.md.

Times are whole milliseconds since 1970 (UTC); keys, digests and identifiers are lower-case hex.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec

from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.documents.signed import Document, Signed
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import ForeignDocumentError
from shuffledp_core.mechanisms import MECHANISMS, Answers, Mechanism
from shuffledp_core.onion.geometry import Geometry, MixField, refuse_plain
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix, Role

HexKey: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""A 32-byte key in its only spelling, 64 lower-case hex digits: it is compared as text and as
bytes.

Parsing a document enforces it; `bytes.fromhex` alone would also accept capitals and white space.
"""

_SHARED: Final = frozenset({Role.CLIENT, Role.OPERATOR, Role.VIEWER, "gateway"})
"""Names in TLS certificates that stand for many callers and for no party (`transport.tls`)."""

MAX_WITNESSES: Final = 16
"""Most witnesses of a public log."""

WordingField: TypeAlias = QuestionWording | msgspec.UnsetType
"""The field `wording` of a document, left out where the round has none, as in earlier versions."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of a roster are compared as text, and name files, topics and TLS certificates."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the structured parts of documents."""


class Party(_Part, frozen=True, kw_only=True):
    """One service of the deployment.

    `role` is "node", "analyst" or "accountant"; `operator` names who runs it (a client may ask for
    several); `address` is host:port; `identity_key` is the Ed25519 public key of its documents.
    """

    name: str
    role: str
    operator: str
    address: str
    identity_key: HexKey


class Population(_Part, frozen=True, kw_only=True):
    """A group of users with one enrolment key and one privacy budget."""

    name: str
    enrolment_key: HexKey


class Witness(_Part, frozen=True, kw_only=True):
    """A witness of the public log, which signs only checkpoints of a log that grows.

    `name` and `public_key` (Ed25519) are those of its cosignatures, `address` the URL below which
    it answers.
    """

    name: str
    operator: str
    address: str
    public_key: HexKey


class EndedLog(_Part, frozen=True, kw_only=True):
    """The last checkpoint of a public log that has ended: number of entries, and root in hex.

    `public_key` is the identity key of the accountant that signed it; left out: the present one.
    """

    size: int
    root: HexKey
    public_key: HexKey | msgspec.UnsetType = msgspec.UNSET


class LogTerms(_Part, frozen=True, kw_only=True):
    """What devices require of the public log: the signatures of `threshold` of these witnesses.

    `ended` are the deployment's earlier logs, each of which ended with the loss of its ledger, or
    with an identity key of the accountant.
    """

    witnesses: tuple[Witness, ...]
    threshold: int
    ended: tuple[EndedLog, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= len(self.witnesses) <= MAX_WITNESSES:
            raise ValueError(
                f"the threshold of a log must be 1 to the number of its witnesses, at most "
                f"{MAX_WITNESSES}, not {self.threshold} of {len(self.witnesses)}"
            )
        _check_names("witness", [witness.name for witness in self.witnesses])
        if len({witness.public_key for witness in self.witnesses}) < len(self.witnesses):
            raise ValueError("two witnesses have the same key: each could sign as the other")
        if any(ended.size < 0 for ended in self.ended):
            raise ValueError("the size of an ended log must be 0 or more")


class Roster(Document, frozen=True, kw_only=True):
    """Parties, populations and authorities of one deployment; signed by the deployment's root key.

    `serial` counts the rosters of the deployment from 1: a later one replaces all before it, until
    it expires itself. A roster without these three is of an older version and is refused
    (`shuffledp_core.runtime.keys`).
    """

    label: ClassVar[str] = "roster"
    serial: int = 0
    issued_at: int = 0
    expires_at: int = 0
    deployment: str
    parties: tuple[Party, ...]
    populations: tuple[Population, ...]
    tls_authority: str
    broker: str | None = None
    # Left out where there is none, so that readers of earlier versions accept such a roster.
    log: LogTerms | msgspec.UnsetType = msgspec.UNSET

    @property
    def log_terms(self) -> LogTerms | None:
        """What devices require of the public log; None if they require nothing."""
        return self.log if isinstance(self.log, LogTerms) else None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_names("deployment", [self.deployment])
        _check_names("party", [party.name for party in self.parties])
        for party in self.parties:
            if party.name.lower() in _SHARED:  # every holder of it would be this party
                raise ValueError(
                    f"a party cannot be called {party.name!r}: every caller whose TLS certificate "
                    "has this name would count as the party"
                )
        _check_names("population", [population.name for population in self.populations])
        if len({party.identity_key for party in self.parties}) < len(self.parties):
            raise ValueError("two parties have the same identity key: each could sign as the other")
        signers = {party.identity_key for party in self.parties}
        terms = self.log_terms
        if terms and signers & {witness.public_key for witness in terms.witnesses}:
            raise ValueError(
                "a witness has the identity key of a party, so it could sign as that party"
            )

    def party(self, name: str) -> Party:
        """The party of that name; raises `ForeignDocumentError` if the roster has none."""
        for party in self.parties:
            if party.name == name:
                return party
        raise ForeignDocumentError(f"the roster of {self.deployment!r} has no party {name!r}")

    @property
    def analyst(self) -> Party:
        """The analyst; errors as `only`."""
        return self.only(Role.ANALYST)

    @property
    def accountant(self) -> Party:
        """The accountant; errors as `only`."""
        return self.only(Role.ACCOUNTANT)

    def only(self, role: str) -> Party:
        """The only party with that role; `ForeignDocumentError` where there is none, or several."""
        parties = [party for party in self.parties if party.role == role]
        if len(parties) != 1:
            raise ForeignDocumentError(
                f"the roster of {self.deployment!r} has {len(parties)} parties of role {role!r}"
            )
        return parties[0]

    def nodes(self) -> tuple[Party, ...]:
        """The mix nodes, in roster order."""
        return tuple(party for party in self.parties if party.role == Role.NODE)

    def population(self, name: str) -> Population:
        """The population of that name; raises `ForeignDocumentError` if the roster has none."""
        for population in self.populations:
            if population.name == name:
                return population
        raise ForeignDocumentError(f"the roster of {self.deployment!r} has no population {name!r}")


def _check_names(what: str, names: Iterable[str]) -> None:
    """Checks that names cannot be mistaken for each other. Raises `ValueError`."""
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:80]!r} is not a valid {what} name: use 1 to 64 of a-z, A-Z, 0-9, '.', '_' "
                "and '-', and begin with a letter or digit"
            )
        # Lower-cased: TLS and some file systems ignore case.
        if name.lower() in seen:
            raise ValueError(
                f"the {what} name {name!r} occurs twice, or two names differ only in case"
            )
        seen.add(name.lower())


class Credential(Document, frozen=True, kw_only=True):
    """A user's right to one submission per round: a public key signed by the enrolment key.

    It counts until `expires_at`, or, where that is None, until it is withdrawn.
    """

    label: ClassVar[str] = "credential"
    population: str
    public_key: HexKey
    expires_at: int | None = None


class Withdrawals(Document, frozen=True, kw_only=True):
    """All revoked credentials of a population, by their public keys; signed by its enrolment key.

    Each list is complete; `serial` counts them from 1, and a later one takes the place of all
    before it.
    """

    label: ClassVar[str] = "withdrawals"
    population: str
    serial: int
    issued_at: int
    credentials: tuple[HexKey, ...]


class RoundPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An operator's request for a round: a question, a target guarantee, and a route. Not signed.

    `size` is the number of symbols of a histogram, or the largest value of a sum. `colluding` users
    are assumed to help the adversary, so that a round of n reports has n - colluding honest ones.
    `allow_corrupt` admits nodes that declare themselves corrupt (docs/protocol.md, "Corrupt
    nodes"), only for experiments. With `mix` "verified" anyone can check the mixing; without the
    field it is plain. `question` is the number of a repeated question, for mechanisms whose devices
    keep a memoised response; otherwise 0. `epsilon_local` limits ε_L, the guarantee if every node
    is corrupt; without it there is no limit. `wording` is the question in words, which devices
    show; a plan of earlier versions has none.
    """

    population: str
    mechanism: str
    size: int
    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    min_reports: int
    max_reports: int
    colluding: int = 0
    route: tuple[str, ...]
    suite: str = DEFAULT_SUITE
    open_seconds: float = 600.0
    allow_corrupt: bool = False
    mix: Mix | msgspec.UnsetType = msgspec.UNSET
    question: int = 0
    epsilon_local: float | msgspec.UnsetType = msgspec.UNSET
    wording: WordingField = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.mix == Mix.PLAIN:  # one way to write it: a plan is compared as text
            msgspec.structs.force_setattr(self, "mix", msgspec.UNSET)
        if not 1 <= self.min_reports <= self.max_reports:
            raise ValueError(f"min_reports must be from 1 to max_reports, not {self.min_reports}")
        if not 0 <= self.colluding < self.min_reports:
            raise ValueError(f"colluding must be from 0 to min_reports - 1, not {self.colluding}")
        # The guarantee counts nodes as independent; one that stood twice would make the route look
        # longer than it is.
        if len(set(self.route)) != len(self.route):
            raise ValueError("a node may occur only once on the route")
        if not 0 < self.open_seconds <= 366 * 86400:
            raise ValueError(
                f"open_seconds must be above 0 and at most a year, not {self.open_seconds}"
            )
        if self.wording is not msgspec.UNSET and self.mechanism in MECHANISMS:
            spec = MECHANISMS[self.mechanism]
            self.wording.check_size(spec.domain_of(self.size), is_sum=spec.answers is Answers.SUM)

    @property
    def honest(self) -> int:
        """Number of honest users that the guarantee counts on if only `min_reports` reports come.

        Only the protected user, if the mechanism needs no crowd.
        """
        crowd = MECHANISMS[self.mechanism].needs_crowd
        return self.min_reports - self.colluding if crowd else 1


class LedgerPosition(_Part, frozen=True, kw_only=True):
    """A certificate's place in its population's account, with ε at `delta` of all charges so far.

    `entry` counts the charges of the population from 1; `spent` includes this one; None: no finite
    bound. `composition` is how the budget adds up; `if_fixed` is the same ε if all parameters had
    been fixed in advance. `reconciled` is there once the ledger was restored from a backup: every
    entry up to this one has been charged again.
    """

    entry: int
    spent: float | None
    delta: float
    limit: float
    composition: CompositionRule = CompositionRule.FIXED
    if_fixed: float | None = None
    reconciled: int | msgspec.UnsetType = msgspec.UNSET


class EpsilonBounds(_Part, frozen=True, kw_only=True):
    """Certified upper and attained lower bound of ε, and the published bound for comparison.

    None: infinite or not available.
    """

    certified: float | None
    attained: float | None
    published: float | None = None


class CorruptedGuarantee(_Part, frozen=True, kw_only=True):
    """The (ε_L, δ) that each user keeps if every node is corrupt; ε_L is None if there is none."""

    epsilon: float | None
    delta: float


class Certificate(Document, frozen=True, kw_only=True):
    """A round's privacy guarantee.

    `stage` is "plan" (before) or "final" (for the reports that arrived).

    Signed by the accountant. `mechanism` holds the exact parameters that clients sample from.
    `route` names the nodes on whose headers and discards the accountant settles or releases: the
    round may run over these and no others. `dropped` and `invalid` count the messages that the
    round lost (`losses.Losses`); a plan has none. `wording` is the question in words; certificates
    of earlier versions have none.
    """

    label: ClassVar[str] = "certificate"
    deployment: str
    round_id: str
    stage: str
    population: str
    mechanism: Mechanism
    users: int
    honest: int
    route: tuple[str, ...]
    adjacency: Adjacency
    max_distance: int
    delta: float
    epsilon: EpsilonBounds
    corrupted: CorruptedGuarantee
    standard_error: float
    assumptions: tuple[str, ...]
    basis: tuple[str, ...]
    holds: bool
    ledger: LedgerPosition
    issued_at: int
    expires_at: int
    dropped: int = 0
    invalid: int = 0
    mix: MixField = msgspec.UNSET
    wording: WordingField = msgspec.UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_plain(self.mix)
        if self.question_wording is not None:
            is_sum = self.mechanism.answers is Answers.SUM
            self.question_wording.check_size(self.mechanism.domain, is_sum=is_sum)

    @property
    def question_wording(self) -> QuestionWording | None:
        """The question in words; None in documents that have none."""
        return None if self.wording is msgspec.UNSET else self.wording

    @property
    def condition(self) -> str:
        """The trust that the shuffle guarantee needs, in words that follow "holds while"."""
        if not self.mechanism.needs_crowd:
            return f"one of these {self.nodes} nodes is honest; no honest people needed"
        return (
            f"one of these {self.nodes} nodes is honest, and {self.honest:,} of the "
            f"{self.users:,} reports are honest users'"
        )

    @property
    def verified(self) -> bool:
        """True if the round's mixing can be verified."""
        return self.mix == Mix.VERIFIED

    @property
    def nodes(self) -> int:
        """Number of nodes on the route."""
        return len(self.route)


class MixingKey(_Part, frozen=True, kw_only=True):
    """A node's keys for provable mixing, in hex: B_i and M_i with a proof each.

    docs/mixing.md, "Keys".

    Node 1 opens nothing, and has no M. `enrolment_key` is the population's in this node's roster;
    `withdrawals` is the serial of the list of withdrawn credentials that this node knows, 0 for
    none, and `withdrawals_digest` that document's digest. Those of node 1 count in the round.
    """

    blinding: str
    blinding_proof: str
    opening: str = ""
    opening_proof: str = ""
    enrolment_key: str = ""
    withdrawals: int = 0
    withdrawals_digest: str = ""


class RoundKey(Document, frozen=True, kw_only=True):
    """A node's fresh public key for one position of one round; signed by the node.

    `corrupt`: the node declares that it logs all it learns of the round. `mixing` is present only
    in verified rounds.
    """

    label: ClassVar[str] = "round-key"
    deployment: str
    round_id: str
    node: str
    position: int
    suite: str
    public_key: str
    certificate_digest: str
    corrupt: bool = False
    mixing: MixingKey | msgspec.UnsetType = msgspec.UNSET


class Manifest(Document, frozen=True, kw_only=True):
    """Public parameters of a round for its clients.

    Signed by the analyst, countersigned by every node.
    """

    label: ClassVar[str] = "manifest"
    deployment: str
    round_id: str
    certificate: Signed
    route: tuple[Signed, ...]
    geometry: Geometry
    min_reports: int
    max_reports: int
    opens_at: int
    closes_at: int

    @property
    def most_board_bytes(self) -> int:
        """Bytes of the longest board that a round with this manifest can have.

        It holds every message of every report, and the dummies of every node.
        """
        return (
            self.geometry.count_records(self.geometry.hops + 1, max(0, self.max_reports))
            * self.geometry.plain_bytes
        )


class Countersignature(Document, frozen=True, kw_only=True):
    """A node's statement that it takes part in exactly this manifest."""

    label: ClassVar[str] = "countersignature"
    round_id: str
    node: str
    manifest_digest: str


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A manifest with all its countersignatures, as it is announced.

    Every part is signed by itself.
    """

    manifest: Signed
    countersignatures: tuple[Signed, ...]
    log: str | msgspec.UnsetType = msgspec.UNSET
    """Proof that the plan's certificate is in the public log, C2SP tlog-proof."""


class Receipt(Document, frozen=True, kw_only=True):
    """The entry node's signed statement that it stored this submission and will relay it."""

    label: ClassVar[str] = "receipt"
    round_id: str
    credential: str
    submission_digest: str


class BatchHeader(Document, frozen=True, kw_only=True):
    """A node's commitment to the batch it relays, sent before the bytes.

    `position` is the receiver's.

    `dropped` counts the onions that this node and those before it left out: records = users x m +
    (position - 1) x dummies of a node - dropped. In a verified round the dummies of all nodes of
    the route are in every batch, which begins with this number of bytes of `history`, and `digest`
    covers both.
    """

    label: ClassVar[str] = "batch"
    round_id: str
    position: int
    users: int
    records: int
    digest: str
    dropped: int = 0
    history: int | msgspec.UnsetType = msgspec.UNSET


class Discard(Document, frozen=True, kw_only=True):
    """A node's statement that it erased its round key and forwards nothing more of this round.

    `forwarded` says whether anything left the node before. Discards of all nodes with `forwarded`
    false allow the accountant to release a reserved budget.
    """

    label: ClassVar[str] = "discard"
    round_id: str
    node: str
    forwarded: bool


class HistoryDigest(_Part, frozen=True, kw_only=True):
    """Digest and length of the history of a verified round: list, headers, exclusions."""

    digest: str
    length: int


class Result(Document, frozen=True, kw_only=True):
    """Outcome of a round; signed by the analyst. A failed round has only a reason.

    `messages` are those on the board: m for every accepted report and the dummies of every node,
    less the `dropped` ones. Of them
    the estimate leaves out those with a symbol outside the alphabet, and of the others those whose
    tag is on the board more than once. `headers` are the batch headers of all nodes, in the
    route's order, on which the final certificate rests. In a verified round `history` identifies
    the documents that prove the board. `tiles_root` is of the board in tiles (`board_tiles`), and
    `manifest_digest` is of the manifest that every node countersigned, so that who has logged the
    result has logged the manifest; results of earlier versions have neither.
    """

    label: ClassVar[str] = "result"
    deployment: str
    round_id: str
    outcome: str
    reason: str | None = None
    error: str | None = None
    accepted: int = 0
    messages: int = 0
    board_digest: str | None = None
    estimate: Estimate | None = None
    plan_certificate: Signed | None = None
    final_certificate: Signed | None = None
    dropped: int = 0
    outside_alphabet: int = 0
    repeated_tags: int = 0
    headers: tuple[Signed, ...] = ()
    history: HistoryDigest | msgspec.UnsetType = msgspec.UNSET
    tiles_root: HexKey | msgspec.UnsetType = msgspec.UNSET
    manifest_digest: HexKey | msgspec.UnsetType = msgspec.UNSET
