"""Keys, claims and list of a small round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import small_carriers as carriers
import small_users as users
from mixing_cheats import minus_secret
from mixing_spellings import respelled
from nacl import bindings
from small_cheats import fresh
from small_search import Broken, Moot, Over
from small_table import (
    ALPHABET,
    CLAIMED,
    CONTEXT,
    DUMMIES_LIST,
    KEYS,
    LIST,
    PASSED_ON,
    STRANGER,
    Drawn,
    Table,
    checked_list,
    checked_route,
    node_key,
    signer,
)

from shuffledp_core.errors import BadClaimError, ShuffleDPError
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_claim,
    check_dummies_claim,
    check_list,
    list_digest,
    open_submission,
    seal_record,
    sign_claim,
    signed_list,
)
from shuffledp_core.mixproof.group import GENERATOR, WIDTH, Scalar, multiply, number
from shuffledp_core.mixproof.keys import NodeKey, NodeSecret, Route
from shuffledp_core.mixproof.proofs import prove_knowledge
from shuffledp_core.mixproof.terms import MixTerms


class Opening(Table):
    """What happens before anything is mixed."""

    def make_keys(self) -> None:
        secrets: list[NodeSecret] = []
        keys: list[NodeKey] = []
        for position in range(1, self.setting.nodes + 1):
            route = checked_route(tuple(keys))
            secret, key = node_key(position, route)
            move = self.pick(f"node {position}", KEYS if position > 1 else ())
            if move:
                self.odd_keys = True
                secret, key = self.corrupt_key(move, position, route, secret, key)
            if self.is_corrupt(f"node {position}"):
                self.known += [secret.blinding, secret.opening]
            secrets.append(secret)
            keys.append(key)
            checked_route(tuple(keys))
        identities = tuple(
            bindings.crypto_sign_seed_keypair(users.identity_seed(at))[0]
            for at in range(1, self.setting.nodes + 2)
        )
        most = self.setting.people
        self.terms = MixTerms(
            bytes(WIDTH), checked_route(tuple(keys)), identities, self.setting.messages, 1,
            ALPHABET,
            self.setting.min_reports, most, self.setting.dummies,
        )  # fmt: skip
        self.secrets = secrets

    @staticmethod
    def corrupt_key(
        move: str, position: int, route: Route, secret: NodeSecret, key: NodeKey
    ) -> tuple[NodeSecret, NodeKey]:
        bound, own = (CONTEXT, f"mix-{position}".encode(), number(position)), fresh(move)
        if move == "the identity":
            return secret, replace(key, blinding=bytes(WIDTH))
        if move == "a key in a second spelling":
            point, base = respelled(key.blinding), route.blinding[-1]
            proof = prove_knowledge("blinding", bound, base, point, secret.blinding, Drawn("proof"))
            return secret, replace(key, blinding=point, blinding_proof=proof)
        if move == "cancels the key before it":
            point = multiply(own, route.blinding[-2])
            proof = prove_knowledge(
                "blinding", bound, route.blinding[-2], point, own, Drawn("proof")
            )
            return replace(secret, blinding=own), replace(key, blinding=point, blinding_proof=proof)
        base = GENERATOR if move == "an opening key of another base" else route.blinding[-1]
        point = multiply(own, base) if base == GENERATOR else route.blinding[-1]
        proof = prove_knowledge("opening", bound, base, point, own, Drawn("proof"))
        return replace(secret, opening=own), replace(key, opening=point, opening_proof=proof)

    def take_claims(self) -> None:
        """All users claim; an honest node 1 takes what holds, in this order."""
        taken: list[Claim] = []
        for user in range(self.setting.people):
            move = self.pick(f"user {user}", users.MOVES)
            if move == "no claim":
                continue
            corrupt = self.is_corrupt(f"user {user}")
            sent = (
                users.corrupt(self.terms, user, move) if corrupt else users.honest(self.terms, user)
            )
            if self.is_corrupt("node 1") or self.accepted(user, sent, taken):
                self.sent[user] = sent
                taken.append(sent.claim)
        self.take_dummies(taken)
        for who in ("node 1", "carrier"):
            move = self.pick(who, PASSED_ON)
            if move:
                claim = self.sent[self.honest_users()[0]].claim
                damaged = carriers.damaged_claim(move, claim)
                with suppress(BadClaimError):
                    self.judge_claim(damaged)

    def take_dummies(self, taken: list[Claim]) -> None:
        """All nodes claim their dummies; an honest node 1 goes on only if all of them hold."""
        if not self.setting.dummies:
            return
        seen = {key for claim in taken for key in claim.key_list}
        for position in range(1, self.setting.nodes + 1):
            who = f"node {position}"
            move = self.pick(who, users.DUMMY_MOVES)
            sent = (
                users.corrupt_dummies(self.terms, position, move)
                if self.is_corrupt(who)
                else users.honest(self.terms, users.dummies_of(position))
            )
            if not self.is_corrupt("node 1"):
                check_dummies_claim(self.terms, position, sent.claim)
                open_submission(self.terms, sent.claim, sent.submission)
                if not seen.isdisjoint(sent.claim.key_list):
                    raise Over
            seen.update(sent.claim.key_list)
            self.dummies[position] = sent

    def judge_claim(self, claim: Claim) -> None:
        try:
            check_claim(self.terms, claim, self.enrolled)
        except BadClaimError as error:
            self.check_named(error)

    def accepted(self, user: int, sent: PreparedClaim, taken: list[Claim]) -> bool:
        """Whether an honest node 1 gives a receipt: C1 to C4 hold, and no key is in a claim before
        it (L4)."""
        try:
            check_claim(self.terms, sent.claim, self.enrolled)
            open_submission(self.terms, sent.claim, sent.submission)
        except ShuffleDPError as error:
            self.check_named(error)
            return False
        before = {key for claim in taken for key in claim.key_list}
        if before & set(sent.claim.key_list) and not self.setting.shared_keys:
            if not self.is_corrupt(f"user {user}"):
                raise Broken("P2: an honest node 1 refuses an honest user")
            return False
        return True

    def make_list(self) -> None:
        claims = sorted(
            (sent.claim for sent in self.sent.values()), key=lambda claim: claim.credential
        )
        if not self.is_corrupt("node 1") and len(claims) < self.setting.min_reports:
            raise Over
        claims += [sent.claim for sent in self.dummies.values()]
        move = self.pick("node 1", LIST + DUMMIES_LIST if self.dummies else LIST)
        if move == "two lists":
            self.excused = True
            self.second_list = self.listed_by_node_1(self.other_claims(claims))
        elif move in DUMMIES_LIST:
            claims = self.without_dummies_of_last(move, claims)
        elif move:
            claims = self.corrupt_list(move, claims)
        damage = self.pick("carrier", CLAIMED)
        if damage:
            signature = signer(1)(signed_list(self.terms, list_digest(self.terms, claims)))
            shown = (
                claims[1:]
                if damage == CLAIMED[0]
                else [carriers.damaged_claim(PASSED_ON[1], claims[0]), *claims[1:]]
            )
            self.harmless(lambda: check_list(self.terms, shown, self.enrolled, signature))
        self.listed = self.listed_by_node_1(claims)

    def listed_by_node_1(self, claims: Sequence[Claim]) -> ClaimList:
        signature = signer(1)(signed_list(self.terms, list_digest(self.terms, claims)))
        return checked_list(self.terms, tuple(claims), self.enrolled, signature)

    def corrupt_list(self, move: str, claims: list[Claim]) -> list[Claim]:
        if move == "lists somebody made up":
            self.sent[STRANGER] = users.corrupt(self.terms, STRANGER, "")
            return sorted(
                [*claims[1:], self.sent[STRANGER].claim], key=lambda claim: claim.credential
            )
        if move == "lists user 0 alone":
            return [claim for claim in claims if claim.credential == users.credential(0)]
        if move == "lists a damaged claim":
            return [carriers.damaged_claim(PASSED_ON[1], claims[0]), *claims[1:]]
        return [claims[0], *claims]

    def without_dummies_of_last(self, move: str, claims: list[Claim]) -> list[Claim]:
        last = self.setting.nodes
        if move == "lists no dummies of the last node":
            del self.dummies[last]
            return claims[:-1]
        secrets = [fresh(f"dummy {index}") for index in range(self.setting.dummies)]
        records = [seal_record(self.terms, secret, 1) for secret in secrets]
        forged = sign_claim(
            self.terms, records, secrets, users.identity_seed(1), Drawn("in the last one's name")
        )
        named = replace(forged.claim, credential=users.credential(users.dummies_of(last)))
        self.dummies[last] = replace(forged, claim=named)
        return [*claims[:-1], named]

    def other_claims(self, claims: list[Claim]) -> list[Claim]:
        """The claims with another one of a colluder's, whose keys have the same sum."""
        corrupt = [user for user in range(self.setting.people) if self.is_corrupt(f"user {user}")]
        if not corrupt or self.setting.messages < 2:
            raise Moot
        own = users.secrets_of(corrupt[-1], self.setting.messages)
        moved = [
            minus_secret([own[0]], fresh("shift")),
            minus_secret([own[1], fresh("shift")], Scalar(bytes(WIDTH))),
        ]
        records = [seal_record(self.terms, secret, 0) for secret in moved]
        made = sign_claim(
            self.terms, records, moved, users.credential_seed(corrupt[-1]), Drawn("second")
        )
        self.second_submission = made.claim.credential, made.submission
        return [
            made.claim if claim.credential == made.claim.credential else claim for claim in claims
        ]
