"""Instances of step E: a party's input in a verified round with one error, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from shuffledp_adversary.attacks.exchange.framing import second_spelling
from shuffledp_adversary.attacks.exchange.mixproof_node import MixproofPool
from shuffledp_adversary.in_process_mixproof import Parties, claims_of
from shuffledp_core.errors import BadHopError, BadListError, ProofError, UnansweredError
from shuffledp_core.mixproof.chain import Chain, check_batch, follow
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_list,
    list_digest,
    make_claim,
    open_submission,
    seal_record,
    sign_claim,
    signed_list,
)
from shuffledp_core.mixproof.group import WIDTH, Element, element, multiply, total
from shuffledp_core.mixproof.headers import Header, link, make_header, signed_header, verify_sum
from shuffledp_core.mixproof.proofs import prove_equal
from shuffledp_core.mixproof.terms import MixTerms, split_record, verifies
from shuffledp_core.mixproof.trees import root
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.vocabulary import Mix
from shuffledp_labs.errors import StudentFault
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab07_cheats.instances import ALPHABET

Change: TypeAlias = Callable[[MixproofPool], list[bytes]]
"""What a node puts out in place of its honest output."""


@dataclass(frozen=True)
class Cheat:
    """A cheating node: the change that it makes, and the sum that it signs.

    It signs the sum of what it sends, or that of its input, blinded.
    """

    change: Change
    sum_of_sent: bool = False


@dataclass(frozen=True)
class HopInput:
    """Input of the party at `position`: list, node 1's signature, earlier headers, last batch.

    `what` describes the error, for messages.
    """

    what: str
    terms: MixTerms
    enrolled: frozenset[bytes]
    claims: tuple[Claim, ...]
    list_signature: bytes
    headers: tuple[Header, ...]
    records: tuple[bytes, ...]

    @property
    def position(self) -> int:
        """Position of the party that receives the input; the analyst comes after the last node."""
        return len(self.headers) + 1

    @property
    def due(self) -> int | None:
        """The right verdict: None to continue, 0 to blame no one, else the node to blame."""
        try:
            listed = check_list(self.terms, self.claims, self.enrolled, self.list_signature)
            check_batch(follow(self.terms, listed, self.headers, ()), self.records)
        except UnansweredError:
            return 0
        except (BadListError, BadHopError) as error:
            return int(str(error).partition(":")[0].removeprefix("node "))
        return None

    @property
    def as_student_data(self) -> dict[str, Any]:
        """The input as arguments of the student's function, with the arithmetic as functions."""
        return {
            "enrolled": tuple(sorted(self.enrolled)),
            "min_reports": self.terms.min_reports,
            "messages": self.terms.messages_per_user,
            "claims": tuple(
                {"credential": claim.credential, "keys": tuple(claim.key_list)}
                for claim in self.claims
            ),
            "headers": tuple(
                {"count": header.count, "root": header.root, "sum": header.total}
                for header in self.headers
            ),
            "records": self.records,
            "signed": self.is_signed,
            "proved": self.is_proved,
            "add": add_keys,
            "root": root_of,
        }

    def is_signed(self, *arguments: Any) -> bool:
        """Return True if the list (0) or a header is signed and refers to its predecessor."""
        if (
            len(arguments) != 1
            or type(arguments[0]) is not int
            or not 0 <= arguments[0] <= len(self.headers)
        ):
            raise StudentFault(
                "signed takes 0 for the list, or the place of a header, from 1 to "
                f"{len(self.headers)}"
            )
        terms, digest = self.terms, list_digest(self.terms, self.claims)
        if arguments[0] == 0:
            return verifies(terms.identities[0], signed_list(terms, digest), self.list_signature)
        header, at = self.headers[arguments[0] - 1], arguments[0]
        before = digest if at == 1 else link(terms, self.headers[at - 2])
        genuine = verifies(terms.identities[at - 1], signed_header(terms, header), header.signature)
        return genuine and header.previous == before

    def is_proved(self, *arguments: Any) -> bool:
        """Return True if a header proves that its sum is the blinded sum before it."""
        if (
            len(arguments) != 2
            or type(arguments[0]) is not int
            or not 1 <= arguments[0] <= len(self.headers)
        ):
            raise StudentFault(
                f"proved takes the number of a header, from 1 to {len(self.headers)}, and a sum"
            )
        try:
            verify_sum(self.terms, self.headers[arguments[0] - 1], _element(arguments[1], "a sum"))
        except ProofError:
            return False
        return True


def add_keys(*keys: Any) -> bytes:
    """Add keys, for the student's function."""
    if len(keys) != 1 or not isinstance(keys[0], tuple | list) or not keys[0]:
        raise StudentFault("add takes a list of keys, one at least")
    return total(_element(key, "a key") for key in keys[0])


def root_of(*records: Any) -> bytes:
    """Root of the tree over records, for the student's function."""
    if len(records) != 1 or not isinstance(records[0], tuple | list) or not records[0]:
        raise StudentFault("root takes the list of records, one at least")
    if not all(isinstance(record, bytes) for record in records[0]):
        raise StudentFault("root takes records, which are bytes")
    return root(list(records[0]))


def _element(value: Any, what: str) -> Element:
    """Decode an element and ignore bit 255, as some libraries do: the student must check it."""
    data = value if isinstance(value, bytes) else b""
    try:
        return element(data[:-1] + bytes([data[-1] & 0x7F]) if data else data)
    except ProofError:
        raise StudentFault(
            f"{what} must be {WIDTH} bytes that encode an element of the group; see step E"
        ) from None


class Hops:
    """Small verified rounds of one instance, with honest users and given cheats of nodes."""

    def __init__(self, draws: Draws, hops: int) -> None:
        self.draws, self.messages = draws, 2 + draws.below(2)
        number = 5 + draws.below(3)
        self.parties = Parties.fresh(
            hops, self.messages, ALPHABET, (number - 1, number + 1), draws.bytes
        )
        self.terms = self.parties.terms
        self.users = [self.user() for _ in range(number)]
        self.enrolled = frozenset(user.claim.credential for user in self.users)

    def user(self) -> PreparedClaim:
        """A new user with drawn symbols, and the user's claim.

        Enrolled only if it is made before the list of those who are.
        """
        symbols = [self.draws.below(ALPHABET) for _ in range(self.messages)]
        return make_claim(self.terms, symbols, self.draws.bytes(32), self.draws.bytes)

    def twin(self) -> tuple[PreparedClaim, PreparedClaim]:
        """Two users who share a key, each with a proof that it knows it."""
        shared = self.user()
        return shared, self._claiming(shared)

    def _claiming(self, of: PreparedClaim) -> PreparedClaim:
        other = self.user()
        secrets = (of.secrets[0], *other.secrets[1:])
        records = [seal_record(self.terms, secret, 0) for secret in secrets]
        return sign_claim(self.terms, records, secrets, self.draws.bytes(32), self.draws.bytes)

    def respelled_users(self) -> tuple[PreparedClaim, PreparedClaim]:
        """Two users, one of whom claims a key twice, in two encodings.

        Returns the user as mixed, and as listed with the second key respelled.
        """
        other = self.user()
        seed = self.draws.bytes(32)
        secrets = (other.secrets[0], *other.secrets[:-1])
        records = [seal_record(self.terms, secret, 0) for secret in secrets]
        listed = [records[0], _respell_key(records[1]), *records[2:]]
        random = self.draws.bytes
        mixed = sign_claim(self.terms, records, secrets, seed, random)
        return mixed, sign_claim(self.terms, listed, secrets, seed, random)

    def input_at(
        self,
        what: str,
        position: int,
        cheats: Mapping[int, Cheat] | None = None,
        *,
        users: Sequence[PreparedClaim] | None = None,
        enrolled: frozenset[bytes] | None = None,
        listed_as: Sequence[PreparedClaim] | None = None,
    ) -> HopInput:
        """Input of the party at `position` if nodes cheat as given, and others check nothing.

        `listed_as` are the users on node 1's list where their keys are spelled otherwise than
        mixed.
        """
        users = self.users if users is None else users
        claims = claims_of(users if listed_as is None else listed_as)
        signature = self.parties.list_signature(claims)
        digest = list_digest(self.terms, claims)
        keys = (key for user in users for key in user.claim.key_list)
        listed = ClaimList(digest, tuple(claims), total(keys), len(claims))
        exclusions = Chain.start(self.terms, listed).digest
        headers = list[Header]()
        records, incoming = _records(self.terms, users), listed.total
        for at in range(1, position):
            cheat = (cheats or {}).get(at)
            records = self._mix(at, records, None if cheat is None else cheat.change)
            previous = link(self.terms, headers[-1]) if headers else digest
            stated = Header(at, previous, digest, exclusions, len(records), root(records))
            lied = cheat is not None and cheat.sum_of_sent
            headers.append(
                self._lying(stated, incoming, records) if lied else self._header(stated, incoming)
            )
            incoming = Element(headers[-1].total)
        enrolled_credentials = self.enrolled if enrolled is None else enrolled
        return HopInput(
            what,
            self.terms,
            enrolled_credentials,
            tuple(claims),
            signature,
            tuple(headers),
            tuple(records),
        )

    def _mix(self, at: int, records: Sequence[bytes], change: Change | None) -> list[bytes]:
        secret, mixed = self.parties.secrets[at - 1], []
        for record in records:
            key, box = split_record(record)
            if at > 1:
                box = self.terms.open(at, multiply(secret.opening, Element(key)), box) or b""
            mixed.append(multiply(secret.blinding, Element(key)) + box)
        mixed = self.draws.permute(mixed)
        return mixed if change is None else change(self.pool(at, mixed))

    def pool(self, at: int, records: list[bytes]) -> MixproofPool:
        """The pool of the node at a position: all that it knows."""
        geometry = Geometry(
            suite="sealed-box",
            hops=self.terms.hops,
            messages_per_user=self.messages,
            symbol_bytes=self.terms.symbol_bytes,
            mix=Mix.VERIFIED,
        )
        return MixproofPool(geometry, "00" * 16, [], at, records, records[:1], mixing=self.terms)

    def _header(self, stated: Header, incoming: Element) -> Header:
        at = stated.position - 1
        secret, sign = self.parties.secrets[at].blinding, self.parties.signers[at]
        return make_header(self.terms, stated, incoming, secret, sign, self.draws.bytes)

    def _lying(self, stated: Header, incoming: Element, records: Sequence[bytes]) -> Header:
        """A header with the sum of the records that are sent, and an invalid proof.

        The sum is no multiple of the input's.
        """
        at, secret = stated.position, self.parties.secrets[stated.position - 1].blinding
        header = replace(
            stated, total=total(Element(split_record(record)[0]) for record in records)
        )
        pairs = self.terms.route.blinder(at), (incoming, Element(header.total))
        context = (self.terms.manifest, *header.parts())
        proved_header = replace(
            header, proof=prove_equal("hop", context, *pairs, secret, self.draws.bytes)
        )
        return replace(
            proved_header,
            signature=self.parties.signers[at - 1](signed_header(self.terms, proved_header)),
        )


def _records(terms: MixTerms, users: Sequence[PreparedClaim]) -> list[bytes]:
    by_credential = {user.claim.credential: user for user in users}
    ordered = (by_credential[claim.credential] for claim in claims_of(users))
    return [
        record
        for user in ordered
        for record in open_submission(terms, user.claim, user.submission)[1]
    ]


def exchange(count: int) -> Change:
    """A change that replaces `count` records by the node's own, which decrypt at all later hops."""
    return lambda pool: pool.replace(range(count), lambda: pool.forge(1))


def _copy(pool: MixproofPool) -> list[bytes]:
    return pool.replace([1], lambda: pool.records[0])


def _respell(pool: MixproofPool) -> list[bytes]:
    return pool.replace([0], lambda: _respell_key(pool.records[0]))


def _respell_key(record: bytes) -> bytes:
    """The record with its key in a second encoding."""
    key, box = split_record(record)
    return second_spelling(Element(key)) + box


def _more(pool: MixproofPool) -> list[bytes]:
    return [*pool.records, pool.forge(1)]


def _fewer(pool: MixproofPool) -> list[bytes]:
    return pool.records[:-1]


def draw_hop_inputs(draws: Draws) -> list[HopInput]:
    """One input of each kind, in rounds of four nodes; who checks and who cheats is drawn."""
    hops = Hops(draws, 4)
    last = 5
    """The analyst's position."""

    def looks() -> int:
        return draws.integer(3, last)

    def before(position: int) -> int:
        return draws.integer(1, position - 2)

    return [
        hops.input_at("nothing is wrong", draws.integer(2, 4)),
        hops.input_at("nothing is wrong", last),
        *_lists(hops, looks),
        *_batches(hops, looks, before),
        *_on_the_way(hops, looks),
    ]


def _lists(hops: Hops, looks: Callable[[], int]) -> list[HopInput]:
    strangers = [hops.users[0], *(hops.user() for _ in hops.users[1:])]
    twins = hops.twin()
    twice = [*hops.users[2:], *twins]
    with_twins = hops.enrolled | {twin.claim.credential for twin in twins}
    mixed, claimed = hops.respelled_users()
    return [
        hops.input_at(
            "all on the list but one are people whom nobody enrolled", looks(), users=strangers
        ),
        hops.input_at(
            "two users on the list have the same key", looks(), users=twice, enrolled=with_twins
        ),
        hops.input_at(
            "the list has fewer users than the round needs", looks(), users=hops.users[2:]
        ),
        hops.input_at(
            "a user on the list has one key in two spellings",
            looks(),
            users=[*hops.users[1:], mixed],
            listed_as=[*hops.users[1:], claimed],
            enrolled=hops.enrolled | {claimed.claim.credential},
        ),
    ]


def _batches(hops: Hops, looks: Callable[[], int], before: Callable[[int], int]) -> list[HopInput]:
    def by_the_one_before(what: str, change: Change, *, sum_of_sent: bool = False) -> HopInput:
        position = looks()
        return hops.input_at(what, position, {position - 1: Cheat(change, sum_of_sent=sum_of_sent)})

    def by_an_earlier_one(what: str, change: Change, *, sum_of_sent: bool = False) -> HopInput:
        position = looks()
        return hops.input_at(
            what, position, {before(position): Cheat(change, sum_of_sent=sum_of_sent)}
        )

    few = exchange(1 + hops.draws.below(3))
    return [
        by_the_one_before(
            "the node before exchanged records, and signs the sum that it should have", few
        ),
        by_the_one_before(
            "the node before exchanged records, and signs their sum", few, sum_of_sent=True
        ),
        by_an_earlier_one(
            "an earlier node exchanged records, and signed their sum", few, sum_of_sent=True
        ),
        by_an_earlier_one(
            "an earlier node exchanged records, and the nodes behind it took them", few
        ),
        by_the_one_before("the node before sends a record twice, in the place of another", _copy),
        by_the_one_before("the node before spells a record's key in a second way", _respell),
        by_the_one_before("the node before sends a record more", _more),
        by_an_earlier_one("an earlier node sent a record less", _fewer),
    ]


def _on_the_way(hops: Hops, looks: Callable[[], int]) -> list[HopInput]:
    """Inputs damaged in transit: no party signed the data that arrived."""
    lost, other, bent, unsigned = (hops.input_at(f"{what} on its way", looks()) for what in _DAMAGE)
    claims = lost.claims[1:]
    at = hops.draws.below(len(other.headers))
    header = other.headers[at]
    foreign = multiply(hops.parties.secrets[0].blinding, Element(header.total))
    headers = (*other.headers[:at], replace(header, total=foreign), *other.headers[at + 1 :])
    record = bytearray(bent.records[0])
    record[-1] ^= 1
    return [
        replace(lost, claims=claims),
        replace(other, headers=headers),
        replace(bent, records=(bytes(record), *bent.records[1:])),
        replace(unsigned, list_signature=unsigned.list_signature[::-1]),
    ]


_DAMAGE: Final = (
    "a claim of the list is lost",
    "a header is changed",
    "a record is damaged",
    "the list's signature is changed",
)
