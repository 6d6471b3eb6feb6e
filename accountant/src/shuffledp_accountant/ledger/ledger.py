"""Transactions of the privacy ledger, such as reserve, settle and release.

Each happens exactly once under concurrency and crashes.

Composition takes up to seconds, so it is not done while the database is locked. A change is
computed on a snapshot and commits only if the population's revision is still the snapshot's
(compare and swap in one transaction); otherwise it is computed again. The signed certificate is
stored in the transaction that charges for it: there is never a certificate without its charge, and
a repeated call gets the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from sqlalchemy import Connection, Engine, Update, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from shuffledp_accountant.ledger import charges as rules
from shuffledp_accountant.ledger.charges import (
    Account,
    AccountStanding,
    Budget,
    Charge,
    ChargeState,
    Reservation,
    Settlement,
    Statement,
)
from shuffledp_accountant.ledger.curves import StoredCurves
from shuffledp_accountant.ledger.database import failures, open_database
from shuffledp_accountant.ledger.rows import (
    COST_COLUMNS,
    LedgerEntry,
    append_to_log,
    cost_columns,
    ledger_log_entry,
    read_charge,
    read_cost,
    read_entry,
    restored_log_entry,
    row_of_charge,
    row_of_reservation,
)
from shuffledp_accountant.ledger.schema import charges, log_entries, populations
from shuffledp_core.errors import UnknownRoundError, UsageError
from shuffledp_core.runtime.clock import Clock
from shuffledp_core.transparency.entries import LedgerEvent, result_entry
from shuffledp_privacy.analysis import Cost

Certify = Callable[[Account], bytes]
"""A function that signs the certificate for a charge's place in the account."""

MOST_ENTRIES: Final = 1000
"""Most charges in one page, which stays far below gRPC's 4 MiB."""


class Ledger:
    """Accounts of all populations with a budget. Safe to use from threads and processes."""

    def __init__(self, engine: Engine, budgets: Mapping[str, Budget], clock: Clock) -> None:
        self._engine = engine
        self._budgets = dict(budgets)
        self._clock = clock
        self._curves = StoredCurves(engine, clock)
        self._curves.load()

    @classmethod
    def open(cls, url: str, budgets: Mapping[str, Budget], clock: Clock) -> Self:
        """Open the ledger at a database URL, creating or upgrading it as needed.

        Args:
            url: sqlite:///FILE or postgresql://...
            budgets: budget of each population. If a limit is changed later, only later requests are
                judged by it; no charge changes.
            clock: milliseconds since 1970.

        Raises:
            ConfigError: the URL cannot be used.
            LedgerError: the database is damaged, of another version, or away.
        """
        return cls(open_database(url), budgets, clock)

    @property
    def populations(self) -> frozenset[str]:
        """Populations with a budget."""
        return frozenset(self._budgets)

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def reserve(self, reservation: Reservation, certify: Certify) -> bytes:
        """Charge the population for a planned round; return the certificate.

        A repeated call returns the stored certificate.

        Args:
            reservation: the round, its plan and its cost.
            certify: function that signs the certificate. It may be called several times; only the
                stored result is ever returned.

        Raises:
            BudgetExceeded: the budget does not cover the cost; nothing is charged.
            CannotCertify: the cost has no finite bound under the budget.
            RoundStateError: the round id was used for another plan, or released.
            UsageError: there is no budget for the population.
            LedgerError: the database failed; nothing was charged.
        """
        budget = self._budget(reservation.population)
        while True:  # ends: whenever we start again, someone else's change was committed
            # The snapshot first: a charge made after it changes the revision, so that the commit
            # below fails.
            revision, standing = self._snapshot(reservation.population)
            charge = self.find(reservation.round_id)
            if charge is not None:
                return rules.stored_plan_certificate(charge, reservation.plan)
            account = rules.account_for_reservation(budget, standing, reservation)
            # Signed before the commit, which stores it with the charge: a crash in between leaves
            # neither.
            certificate = certify(account)
            row = row_of_reservation(
                reservation, account.position.entry, certificate, self._clock()
            )
            entry = ledger_log_entry(
                LedgerEvent.RESERVED, reservation.population, reservation.round_id, certificate
            )
            if self._commit(
                reservation.population,
                revision,
                lambda db: db.execute(insert(charges).values(row)),  # noqa: B023
                [entry],
            ):
                return certificate

    def settle(
        self, round_id: str, real: Settlement, certify: Certify, *, is_restored: bool = False
    ) -> bytes:
        """Settle a reservation for the reports that arrived; return the final certificate.

        A repetition for the same reports returns the same certificate.

        The charge never falls (`charges.settled_cost`). If fewer honest users are left than were
        reserved for, it rises, even beyond the budget, because the reports exist.

        Args:
            round_id: reserved before.
            real: the reports that arrived, and their cost.
            certify: signs the certificate; see `reserve`.
            is_restored: whether the certificate was signed before a restore from a backup, so that
                it does not count what was charged since.

        Raises:
            RoundStateError: settled before for another count, or released.
            UnknownRoundError: never reserved here.
            LedgerError: the database failed; nothing was changed.
        """
        while True:
            charge = self.charge(round_id)
            stored = rules.stored_final_certificate(charge, real.accepted)
            if stored is not None:
                return stored
            revision, standing = self._snapshot(charge.population)
            account = rules.account_for_settlement(
                self._budget(charge.population), standing, charge, real
            )
            certificate = certify(account)
            values = {
                "state": ChargeState.SETTLED.value,
                "accepted": real.accepted,
                "final_certificate": certificate,
                **cost_columns(*rules.settled_cost(charge, real)),
            }
            entry = (
                restored_log_entry(replace(charge, final_certificate=certificate))
                if is_restored
                else ledger_log_entry(
                    LedgerEvent.SETTLED, charge.population, charge.round_id, certificate
                )
            )
            if self._change(charge, revision, values, entry):
                return certificate

    def release(self, round_id: str, discards: Sequence[bytes] = ()) -> None:
        """Release a reservation; repeating it has no effect.

        The caller has checked that nothing was forwarded, which `discards` show to others.

        Raises:
            RoundStateError: the round was settled.
            UnknownRoundError: never reserved here.
            LedgerError: the database failed; nothing was changed.
        """
        while True:
            charge = self.charge(round_id)
            if not rules.check_release(charge):
                return
            revision, _ = self._snapshot(charge.population)
            entry = ledger_log_entry(LedgerEvent.RELEASED, charge.population, round_id, *discards)
            if self._change(charge, revision, {"state": ChargeState.RELEASED.value}, entry):
                return

    def add_result(self, round_id: str, digest: str) -> None:
        """Add the result of a settled round to the public log; repeating it has no effect.

        Raises:
            RoundStateError: the round is not settled, or the log has another result of it.
            UnknownRoundError: never reserved here.
            LedgerError: the database failed; nothing was changed.
        """
        while True:
            charge = self.charge(round_id)
            if rules.has_result(charge, digest):
                return
            revision, _ = self._snapshot(charge.population)
            entry = result_entry(charge.population, round_id, digest).to_bytes()
            values = {"result_digest": digest}
            if self._change(charge, revision, values, entry, ChargeState.SETTLED):
                return

    def positions(self, population: str) -> dict[int, int]:
        """For every entry of the population, the time of its reservation (ms since 1970)."""
        self._budget(population)
        mine = select(charges.c.entry, charges.c.reserved_at).where(
            charges.c.population == population
        )
        with failures(), self._engine.begin() as db:
            return {int(row.entry): int(row.reserved_at) for row in db.execute(mine)}

    def readmit(self, population: str, lost: Sequence[Charge], reconciled: int) -> None:
        """Charge rounds again that a restored ledger has lost, even beyond the budget.

        Either all of them are charged or none.

        Args:
            population: a population with a budget.
            lost: charges of this population that are not in the ledger; a charge whose entry number
                is taken gets the next free number.
            reconciled: every entry up to this one has been charged; 0 if some are still missing.

        Raises:
            LedgerError: the database failed; nothing was changed.
        """
        while True:
            revision, standing = self._snapshot(population)
            taken = self.positions(population)
            last = max(standing.last_entry, reconciled, *(charge.entry for charge in lost), 0)
            placed = []
            for charge in lost:
                entry = charge.entry
                if entry in taken:
                    last = entry = last + 1
                placed.append(replace(charge, entry=entry))
            rows = [row_of_charge(charge) for charge in placed]
            mark = update(populations).where(populations.c.name == population)
            mark = mark.values(reconciled=max(standing.reconciled, reconciled))

            def change(
                db: Connection, rows: list[dict[str, object]] = rows, mark: Update = mark
            ) -> None:
                if rows:
                    db.execute(insert(charges), rows)
                db.execute(mark)

            entries = [restored_log_entry(charge) for charge in placed]
            if self._commit(population, revision, change, entries):
                return

    def charge(self, round_id: str) -> Charge:
        """A round's charge; raises `UnknownRoundError` if it was never reserved in this ledger."""
        charge = self.find(round_id)
        if charge is None:
            raise UnknownRoundError(f"round {round_id!r} was never certified by this accountant")
        return charge

    def statement(self, population: str) -> Statement:
        """The statement of a population: budget, spent and left.

        Raises `UsageError` for an unknown population, `LedgerError`.
        """
        budget = self._budget(population)
        states = select(charges.c.state, func.count()).where(charges.c.population == population)
        with failures(), self._engine.begin() as db:
            charges_by_state = {
                str(state): int(count)
                for state, count in db.execute(states.group_by(charges.c.state))
            }
        _, standing = self._snapshot(population)
        return rules.state_account(
            budget,
            standing.counted,
            {state: charges_by_state.get(state.value, 0) for state in ChargeState},
        )

    def entries(
        self, population: str, after: int = 0, most: int = MOST_ENTRIES
    ) -> list[LedgerEntry]:
        """A page of the population's charges, in order of entry.

        Args:
            population: a population with a budget.
            after: the page begins behind this entry.
            most: largest number of charges, at most `MOST_ENTRIES`.

        Raises:
            UsageError: there is no budget for the population.
            LedgerError: the database failed.
        """
        self._budget(population)
        page = (
            select(
                charges.c.entry,
                charges.c.round_id,
                charges.c.state,
                charges.c.epsilon,
                *COST_COLUMNS,
            )
            .where(charges.c.population == population, charges.c.entry > after)
            .order_by(charges.c.entry)
            .limit(max(1, min(most, MOST_ENTRIES)))
        )
        with failures(), self._engine.begin() as db:
            rows = db.execute(page).mappings().all()
        return [read_entry(row) for row in rows]

    def _budget(self, population: str) -> Budget:
        if population not in self._budgets:
            populations = ", ".join(sorted(self._budgets)) or "none"
            raise UsageError(
                f"population {population!r} has no budget here; those with one: {populations}"
            )
        return self._budgets[population]

    def _snapshot(self, population: str) -> tuple[int, AccountStanding]:
        """The population's revision and the state of its account, read in one transaction.

        The rounds are counted by the database: as many rows as there are different costs, however
        many rounds.
        """
        mine = charges.c.population == population
        counting = charges.c.state.in_([ChargeState.RESERVED.value, ChargeState.SETTLED.value])
        alike = (
            select(*COST_COLUMNS, func.count().label("times"))
            .where(mine, counting)
            .group_by(*COST_COLUMNS)
        )
        with failures(), self._engine.begin() as db:
            # Read first: on PostgreSQL each statement sees what is committed by then, and a change
            # between them must make the later swap fail.
            population_row = select(populations.c.revision, populations.c.reconciled).where(
                populations.c.name == population
            )
            row = db.execute(population_row).one_or_none()
            last = db.execute(select(func.max(charges.c.entry)).where(mine)).scalar()
            rows = db.execute(alike).mappings().all()
        counted: Counter[Cost] = Counter()
        for cost in rows:
            counted[read_cost(cost)] += cost["times"]
        if row is None:
            return -1, AccountStanding(counted, int(last or 0), 0)
        return int(row.revision), AccountStanding(counted, int(last or 0), int(row.reconciled))

    def find(self, round_id: str) -> Charge | None:
        """A round's charge; None if it was never reserved in this ledger. Raises `LedgerError`."""
        with failures(), self._engine.begin() as db:
            row = (
                db.execute(select(charges).where(charges.c.round_id == round_id))
                .mappings()
                .one_or_none()
            )
        return None if row is None else read_charge(row)

    def log_leaves(self, begin: int = 0) -> list[bytes]:
        """Hashes of the public log's entries with numbers from `begin` on."""
        newer = select(log_entries.c.leaf).where(log_entries.c.number >= begin)
        with failures(), self._engine.begin() as db:
            leaves = db.execute(newer.order_by(log_entries.c.number)).scalars()
            return [bytes(leaf) for leaf in leaves]

    def log_entries(self, begin: int, end: int) -> list[bytes]:
        """Entries `begin` to `end` (exclusive) of the public log."""
        number = log_entries.c.number
        page = select(log_entries.c.data).where(number >= begin, number < end).order_by(number)
        with failures(), self._engine.begin() as db:
            return [bytes(data) for data in db.execute(page).scalars()]

    def _change(
        self,
        charge: Charge,
        revision: int,
        values: Mapping[str, object],
        entry: bytes,
        state: ChargeState = ChargeState.RESERVED,
    ) -> bool:
        """Commit new values of a charge that is still in state `state`, and their log entry.

        False where another process changed it meanwhile.
        """
        statement = (
            update(charges)
            .where(
                charges.c.round_id == charge.round_id,
                charges.c.state == state.value,
                charges.c.result_digest.is_(None),
            )
            .values(**values, changed_at=self._clock())
        )

        def change(db: Connection) -> None:
            if db.execute(statement).rowcount != 1:
                # The charge was read before the snapshot and changed between both: the revision
                # cannot show that.
                raise _NothingChangedError

        return self._commit(charge.population, revision, change, [entry])

    def _commit(
        self,
        population: str,
        revision: int,
        change: Callable[[Connection], object],
        entries: Sequence[bytes],
    ) -> bool:
        """Commit a change and log entries if the population is still at revision `revision`.

        False, and no change, if it is not.
        """
        with failures():
            try:
                with self._engine.begin() as db:
                    if (
                        revision < 0
                        # the first change of a population: of two at once the primary key refuses
                        # one
                    ):
                        db.execute(insert(populations).values(name=population, revision=0))
                    else:
                        swapped = db.execute(
                            update(populations)
                            .where(
                                populations.c.name == population, populations.c.revision == revision
                            )
                            .values(revision=revision + 1)
                        )
                        if swapped.rowcount != 1:
                            return False
                    change(db)
                    append_to_log(db, entries)
            except _NothingChangedError:
                return False
            except IntegrityError:
                # Someone else made the population, this very round under another population, or
                # an entry of the log meanwhile.
                return False
        # in a transaction of its own: curves can be computed again, a charge must not wait
        self._curves.store()
        return True


class _NothingChangedError(Exception):
    """Rolls back a transaction whose change matched no row."""
