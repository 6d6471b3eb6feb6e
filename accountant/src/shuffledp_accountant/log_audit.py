"""Replays the public log of a ledger: checks every charge, and composes them.

Anyone with the roster can do it; only signed documents are believed. docs/log.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from shuffledp_accountant.ledger.charges import Budget, total
from shuffledp_accountant.ledger.restoring import charged_cost_of, planned_cost
from shuffledp_core.documents.models import Certificate, Discard, LedgerPosition, Roster
from shuffledp_core.documents.signed import Signed, verify
from shuffledp_core.errors import FalseCertificateError, LogProofError, SignatureError
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry, log_keys_of
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_privacy.analysis import Cost

_TOLERANCE: Final = 1e-6
"""Relative difference between ε of two builds that is not called a contradiction."""

MOST_MISSING: Final = 1_000_000
"""Most charges in a row that a restored account can lack."""


@dataclass
class AccountReplay:
    """Account of a population, computed from its log entries.

    `spent` and `limit` are ε at `delta`, of the newest certificate, or composed here after a
    restore, which no certificate counts yet; `unexplained` are the rounds that were released before
    the log began, whose discards it does not have; `missing` are the numbers before `entry` of
    charges that were lost in a restore and not found again. `final` are the settled rounds, and
    `results` those of them whose result is in the log.
    """

    entry: int = 0
    spent: float = 0.0
    limit: float = 0.0
    delta: float = 0.0
    settled: int = 0
    released: int = 0
    restored: int = 0
    unexplained: list[str] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)
    final: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    open: dict[str, Certificate] = field(default_factory=dict)
    costs: Counter[Cost] = field(default_factory=Counter)


@dataclass
class LogAudit:
    """Replays a log's entries in order."""

    roster: Roster
    accounts: dict[str, AccountReplay] = field(default_factory=dict)
    rounds: set[str] = field(default_factory=set)
    number: int = 0

    def replay(
        self, entries: Iterable[LedgerLogEntry], report: Callable[[int], None] = lambda _: None
    ) -> None:
        """Check entries, and add their charges up.

        Args:
            entries: the next ones.
            report: called with the number of entries done.

        Raises:
            LogProofError: an entry contradicts an earlier one, or lacks the documents behind it.
            FalseCertificateError: a certificate states less than all charges add up to, or a
                charge went beyond the budget.
            DocumentError: a document in an entry does not verify.
        """
        steps = {
            LedgerEvent.RESERVED: self._reserve,
            LedgerEvent.SETTLED: self._settle,
            LedgerEvent.RELEASED: self._release,
            LedgerEvent.RESTORED: self._restore,
            LedgerEvent.PUBLISHED: self._publish,
        }
        for entry in entries:
            steps[entry.event](entry)
            self.number += 1
            report(self.number)

    def _reserve(self, entry: LedgerLogEntry) -> None:
        plan = self._certificate(entry, 0, CertificateStage.PLAN)
        account = self._begin(entry, plan)
        if plan.ledger.entry != account.entry + 1:
            raise self._contradiction(
                f"round {plan.round_id} is entry {plan.ledger.entry} of {plan.population}, and "
                f"{account.entry + 1} comes next"
            )
        account.entry += 1
        account.costs[planned_cost(plan)] += 1
        self._compose(account, plan, may_exceed=False)

    def _settle(self, entry: LedgerLogEntry) -> None:
        final = self._certificate(entry, 0, CertificateStage.FINAL)
        account, plan = self._end(entry)
        self._replace_cost(account, plan, final)
        account.settled += 1
        account.final.add(plan.round_id)
        # A settlement may go beyond the budget: the reports exist.
        self._compose(account, final, may_exceed=True)

    def _release(self, entry: LedgerLogEntry) -> None:
        account, plan = self._end(entry)
        if entry.documents:
            self._check_discards(entry, plan)
        else:
            account.unexplained.append(plan.round_id)
        account.costs -= Counter([planned_cost(plan)])
        account.released += 1

    def _restore(self, entry: LedgerLogEntry) -> None:
        plan = self._certificate(entry, 0, CertificateStage.PLAN)
        account = self.accounts.setdefault(entry.population, AccountReplay())
        if plan.round_id not in account.open:
            self._begin(entry, plan)
            self._take_position(account, plan, entry.position)
            account.costs[planned_cost(plan)] += 1
        account.restored += 1
        if len(entry.documents) > 1:
            final = self._certificate(entry, 1, CertificateStage.FINAL)
            self._replace_cost(account, account.open.pop(plan.round_id), final)
            account.settled += 1
            account.final.add(plan.round_id)
        # No certificate signed so far counts this charge.
        position = plan.ledger
        account.spent = _composed_epsilon(account, position)
        account.limit, account.delta = position.limit, position.delta

    def _publish(self, entry: LedgerLogEntry) -> None:
        account = self.accounts.setdefault(entry.population, AccountReplay())
        if entry.digest is msgspec.UNSET or entry.documents:
            raise self._contradiction(f"the result of round {entry.round_id} has no digest alone")
        if entry.round_id in account.results:
            raise self._contradiction(f"round {entry.round_id} has a second result")
        if entry.round_id not in account.final:
            raise self._contradiction(
                f"round {entry.round_id} has a result, but its charge is not settled"
            )
        account.results.add(entry.round_id)

    def _take_position(
        self, account: AccountReplay, plan: Certificate, position: int | msgspec.UnsetType
    ) -> None:
        if isinstance(position, msgspec.UnsetType):  # of an earlier build, which did not say
            position = max(account.entry + 1, plan.ledger.entry)
        if position > account.entry:
            if position > account.entry + MOST_MISSING:
                raise self._contradiction(f"round {plan.round_id} is entry {position:,}")
            account.missing.update(range(account.entry + 1, position))
            account.entry = position
        elif position in account.missing:
            account.missing.remove(position)
        else:
            raise self._contradiction(
                f"round {plan.round_id} is entry {position} of {plan.population}, as another one"
            )

    def _certificate(
        self, entry: LedgerLogEntry, position: int, stage: CertificateStage
    ) -> Certificate:
        if position >= len(entry.documents):
            raise self._contradiction(f"round {entry.round_id} has no {stage} certificate")
        signed = Signed.from_bytes(entry.documents[position].encode())
        certificate = self._verify_certificate(signed)
        shown = (certificate.deployment, certificate.stage)
        about = (certificate.round_id, certificate.population)
        if shown != (self.roster.deployment, stage) or about != (entry.round_id, entry.population):
            raise self._contradiction(
                f"the certificate of round {entry.round_id} is another round's, or of another stage"
            )
        return certificate

    def _verify_certificate(self, signed: Signed) -> Certificate:
        """Verify a certificate of the accountant, by its current or an earlier log's key."""
        keys = {key.public_key for key in log_keys_of(self.roster)}
        keys.discard(present := bytes.fromhex(self.roster.accountant.identity_key))
        name = self.roster.accountant.name
        for former in keys:
            with suppress(SignatureError):
                return verify(signed, Certificate, name, former)
        return verify(signed, Certificate, name, present)

    def _begin(self, entry: LedgerLogEntry, plan: Certificate) -> AccountReplay:
        if plan.round_id in self.rounds:
            raise self._contradiction(f"round {plan.round_id} is charged twice")
        self.rounds.add(plan.round_id)
        account = self.accounts.setdefault(entry.population, AccountReplay())
        account.open[plan.round_id] = plan
        return account

    def _end(self, entry: LedgerLogEntry) -> tuple[AccountReplay, Certificate]:
        account = self.accounts.setdefault(entry.population, AccountReplay())
        plan = account.open.pop(entry.round_id, None)
        if plan is None:
            raise self._contradiction(
                f"round {entry.round_id} is {entry.event}, but it is not reserved"
            )
        return account, plan

    def _replace_cost(self, account: AccountReplay, plan: Certificate, final: Certificate) -> None:
        account.costs -= Counter([planned_cost(plan)])
        account.costs[charged_cost_of(plan, final)] += 1

    def _check_discards(self, entry: LedgerLogEntry, plan: Certificate) -> None:
        missing = set(plan.route)
        for text in entry.documents:
            signed = Signed.from_bytes(text.encode())
            if signed.signer not in plan.route:
                raise self._contradiction(f"{signed.signer!r} is not on the route")
            discard = verify_from(self.roster.party(signed.signer), signed, Discard)
            forged = discard.node != signed.signer or discard.round_id != plan.round_id
            if forged or discard.forwarded:
                raise self._contradiction(
                    f"round {plan.round_id} was released although {signed.signer} does not say "
                    "that nothing left it"
                )
            missing.discard(discard.node)
        if missing:
            raise self._contradiction(
                f"round {plan.round_id} was released without {', '.join(sorted(missing))}"
            )

    def _compose(
        self, account: AccountReplay, certificate: Certificate, *, may_exceed: bool
    ) -> None:
        position = certificate.ledger
        composed = _composed_epsilon(account, position)
        stated = float("inf") if position.spent is None else position.spent
        if stated < composed * (1 - _TOLERANCE):
            raise FalseCertificateError(
                f"log entry {self.number}: the certificate of round {certificate.round_id} "
                f"states a spent epsilon of {stated:.6g}, but the logged charges compose to "
                f"{composed:.6g}"
            )
        if not may_exceed and composed > position.limit * (1 + _TOLERANCE):
            raise FalseCertificateError(
                f"log entry {self.number}: the charge of round {certificate.round_id} exceeds "
                f"the population's budget: the charges compose to epsilon {composed:.6g}, the "
                f"limit is {position.limit:g}"
            )
        account.spent, account.limit, account.delta = stated, position.limit, position.delta

    def _contradiction(self, what: str) -> LogProofError:
        return LogProofError(f"log entry {self.number}: {what}")


def _composed_epsilon(account: AccountReplay, position: LedgerPosition) -> float:
    """ε of all charges together, at the δ and composition that a position states."""
    return min(
        total(
            Budget(position.limit, position.delta, adjacency, position.composition),
            account.costs,
        ).certified
        for adjacency in _adjacencies(account.costs)
    )


def _adjacencies(costs: Counter[Cost]) -> tuple[Adjacency, ...]:
    """Possible adjacencies of the budget, which certificates do not state."""
    metric = all(cost.setting.adjacency is Adjacency.METRIC for cost in costs)
    return (Adjacency.STANDARD, Adjacency.METRIC) if metric else (Adjacency.STANDARD,)
