"""The accountant as a service: certify, settle, release, log results, budget.

docs/protocol.md, "Opening" and "Close".

`Accountant` does the work, without network and event loop; `AccountantServicer` puts it on gRPC,
with the numerics in threads so that the loop answers health checks and queries meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

import structlog

from shuffledp_accountant.certificates import (
    CertificateHeader,
    analyse_final,
    certificate,
    charged_cost,
)
from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.ledger.charges import (
    Account,
    Budget,
    Reservation,
    Settlement,
    Statement,
    stored_final_certificate,
    stored_plan_certificate,
)
from shuffledp_accountant.ledger.ledger import MOST_ENTRIES, Ledger
from shuffledp_accountant.ledger.rows import LedgerEntry
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.plans import check_messages, check_round_id, read_plan
from shuffledp_accountant.public_log import PublicLog
from shuffledp_accountant.witnesses import CountAnswer, ignore_answer
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import Discard, Roster, RoundPlan
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import (
    CannotCertify,
    ConfigError,
    LedgerAwayError,
    LedgerError,
    MalformedDocumentError,
    MalformedRequestError,
    RoundStateError,
    TooFewReportsError,
)
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.keys import Identity, load_party, verify_from
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transport.rpc_errors import Context
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import CLIENT, OPERATOR, VIEWER
from shuffledp_core.vocabulary import CertificateStage, Mix, Role
from shuffledp_privacy.analysis import analyse, calibrated, cost_of, largest_distance
from shuffledp_proto.v1 import accountant_pb2, accountant_pb2_grpc

NAME: Final = "shuffledp_proto.v1.Accountant"

MOST_READERS: Final = 4
"""Most budget queries at a time; others wait in the event loop, for as long as their callers do."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")

_ANALYST: Final = frozenset({Role.ANALYST})

RULES: Final = {
    f"/{NAME}/Certify": _ANALYST,
    f"/{NAME}/Settle": _ANALYST,
    f"/{NAME}/Release": _ANALYST,
    f"/{NAME}/LogResult": _ANALYST,
    f"/{NAME}/GetBudget": frozenset({Role.ANALYST, OPERATOR, VIEWER, CLIENT}),
}
"""Roles that may call each method."""


class Accountant:
    """Issues signed certificates for plans; every guarantee is charged before it is signed.

    Thread-safe.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        ledger: Ledger,
        lifetime: int,
        clock: Clock,
        log: PublicLog | None = None,
    ) -> None:
        """Create the accountant, without network.

        Args:
            identity: signs certificates.
            roster: the deployment's; its nodes sign batch headers and discards.
            ledger: open.
            lifetime: milliseconds for which a certificate holds after the round's planned end.
            clock: milliseconds since 1970.
            log: the public log, to which every change is added before it is answered; None for no
                log.
        """
        self._identity = identity
        self._roster = roster
        self._ledger = ledger
        self._lifetime = lifetime
        self._clock = clock
        self._log = log

    def publish_log(self) -> None:
        """Publish the entries that the ledger has committed; raises as `PublicLog.publish`."""
        if self._log is not None:
            self._log.publish()

    def log_proof(self, round_id: str, certificate: bytes) -> bytes:
        """Proof for devices that a round's reservation is in the log; empty without witnesses.

        Raises as `PublicLog.reservation_proof`.
        """
        if self._log is None or not self._log.has_witnesses:
            return b""
        population = self._ledger.charge(round_id).population
        return self._log.reservation_proof(population, round_id, certificate)

    def certify(self, round_id: str, plan_json: bytes) -> bytes:
        """Certify a plan, charge its budget, and return the signed certificate.

        The same plan always gets the same bytes.

        1. The plan is usable.
        2. A round that is known gets its stored answer.
        3. Calibrate, and certify what was calibrated.
        4. Charge the ledger and store the signed certificate, both or neither.

        Raises:
            UsageError: step 1.
            RoundStateError: step 2, the round has another plan or was released.
            CannotCertify: step 3, the target cannot be met.
            BudgetExceeded: step 4.
            LedgerError: the database failed.
        """
        check_round_id(round_id)  # 1
        plan = read_plan(plan_json, self._roster, self._ledger.populations)
        # Written afresh: a repeated plan may be spelt differently and is still the same plan.
        text = to_json(plan).decode()
        charge = self._ledger.find(round_id)  # 2
        if charge is not None:
            return stored_plan_certificate(charge, text)
        mechanism = calibrated(plan)  # 3
        check_messages(plan, mechanism)
        cost = cost_of(plan, mechanism, plan.min_reports)
        analysis = analyse(cost, len(plan.route))
        # `calibrate` has seen to it already; what is charged and signed rests on this comparison,
        # not on a search.
        if not analysis.bounds.certified <= plan.epsilon:
            raise CannotCertify(
                f"{plan.mechanism} with {plan.min_reports} reports reaches epsilon "
                f"{analysis.bounds.certified:.6g}, not {plan.epsilon:g}; ask for a larger epsilon "
                "or more reports"
            )
        reservation = Reservation(round_id, plan.population, text, cost, analysis.bounds.certified)

        def sign_certificate(account: Account) -> bytes:
            # A plan's certificate has to outlive the time in which its reports are collected.
            issued = self._clock()
            life = self._lifetime + round(plan.open_seconds * 1000)
            deployment = self._roster.deployment
            header = CertificateHeader(CertificateStage.PLAN, deployment, round_id, issued, life)
            document = certificate(header, plan, analysis, account)
            return self._identity.sign(document).to_bytes()

        return self._ledger.reserve(reservation, sign_certificate)  # 4

    def settle(
        self, round_id: str, accepted: int, headers: Sequence[bytes], invalid: int = 0
    ) -> bytes:
        """Settle a round for the reports that arrived; return the signed final certificate.

        1. A round that is settled for this number gets its stored answer.
        2. The plan allows that many reports.
        3. Every node of the route signed that it relayed exactly that many, and how many onions
           were dropped (core's `check_headers`).
        4. Certify what may be left, charge what the plan's assumption costs (`charged_cost`), and
           store the certificate; all or nothing.

        Raises:
            UnknownRoundError: this accountant never certified the round.
            RoundStateError: step 1, settled for another number, or released; step 2, more reports
                than the plan allows; step 3, headers are missing.
            TooFewReportsError: step 2, fewer than the plan's minimum.
            DocumentError: step 3, a header does not verify, or is for another round or position.
            CountMismatchError: step 3, a node counts otherwise.
            CannotCertify: step 4, no sound bound is known for that number.
            LedgerError: the database failed.
        """
        charge = self._ledger.charge(round_id)
        stored = stored_final_certificate(charge, accepted)  # 1
        if stored is not None:
            return stored
        plan = _stored_plan(charge.plan)
        _check_accepted(plan, accepted)  # 2
        mechanism = charge.cost.mechanism
        route = [self._roster.party(name) for name in plan.route]  # 3
        signed_headers = [Signed.from_bytes(header) for header in headers]
        messages, excluding = mechanism.messages_per_user, plan.mix == Mix.VERIFIED
        dropped = check_headers(
            signed_headers,
            route,
            round_id,
            messages,
            accepted,
            excluding=excluding,
            dummies_per_node=mechanism.dummies_per_node,
        )
        losses = Losses(dropped, invalid)
        analysis = analyse_final(plan, mechanism, accepted, charge.epsilon, losses)  # 4
        real = Settlement(accepted, *charged_cost(plan, mechanism, accepted, losses))

        def sign_certificate(account: Account) -> bytes:
            deployment, issued = self._roster.deployment, self._clock()
            header = CertificateHeader(
                CertificateStage.FINAL, deployment, round_id, issued, self._lifetime
            )
            document = certificate(header, plan, analysis, account, losses)
            return self._identity.sign(document).to_bytes()

        return self._ledger.settle(round_id, real, sign_certificate)

    def log_result(self, round_id: str, digest: str) -> None:
        """Add the result of a settled round to the public log.

        Devices and readers check the result itself; the log ensures that they all see the same one.

        Args:
            round_id: the settled round.
            digest: digest of the signed result, as `document_digest` gives it.

        Raises:
            MalformedRequestError: `digest` is not a digest.
            UnknownRoundError: this accountant never certified the round.
            RoundStateError: the round is not settled, or the log has another result of it.
            LedgerError: the database failed.
        """
        if not _DIGEST.fullmatch(digest):
            raise MalformedRequestError(
                f"a digest must be 64 lower-case hex digits, not {digest[:80]!r}"
            )
        self._ledger.add_result(round_id, digest)

    def result_proof(self, round_id: str, digest: str) -> bytes:
        """Proof that a result is in the published log; empty without witnesses.

        Raises as `PublicLog.result_proof`.
        """
        if self._log is None or not self._log.has_witnesses:
            return b""
        population = self._ledger.charge(round_id).population
        return self._log.result_proof(population, round_id, digest)

    def release(self, round_id: str, discards: Sequence[bytes]) -> None:
        """Releases a reservation. docs/adr/0003.

        1. Every discard is signed by the node of the route it names.
        2. It is for this round, and says that nothing was forwarded.
        3. No node of the route is missing.

        Raises:
            UnknownRoundError: this accountant never certified the round.
            DocumentError: a discard does not verify.
            RoundStateError: a wrong node, step 2 or 3; or the round was settled.
        """
        route = _stored_plan(self._ledger.charge(round_id).plan).route
        missing = set(route)
        for data in discards:
            discard = self._discard(Signed.from_bytes(data), route)  # 1
            # Another round's discard, sent again, would give back the charge of a round whose
            # messages were forwarded.
            if discard.round_id != round_id:  # 2
                raise RoundStateError(
                    f"{discard.node} discarded round {discard.round_id}, not {round_id}"
                )
            if discard.forwarded:
                raise RoundStateError(
                    f"{discard.node} has already forwarded messages of round {round_id}, so its "
                    "charge stays"
                )
            missing.discard(discard.node)
        if missing:  # 3
            names = ", ".join(sorted(missing))
            raise RoundStateError(
                f"{names} signed no discard of round {round_id}: its charge stays until every "
                "node of the route has signed one"
            )
        self._ledger.release(round_id, discards)

    def budget(self, population: str) -> Statement:
        """The statement of a population; raises `UsageError` for one without a budget."""
        return self._ledger.statement(population)

    def page(self, population: str, after: int, most: int) -> tuple[Statement, list[LedgerEntry]]:
        """The statement, and a page of the charges after entry `after`.

        Raises as `Ledger.entries`.
        """
        return self._ledger.statement(population), self._ledger.entries(population, after, most)

    def _discard(self, signed: Signed, route: Sequence[str]) -> Discard:
        if signed.signer not in route:
            raise RoundStateError(
                f"the discard signed by {signed.signer!r} is ignored: {signed.signer} is not on "
                f"this round's route, {', '.join(route)}"
            )
        # The signer's name is used only to find the key: nothing of the content is believed before
        # the signature holds.
        discard = verify_from(self._roster.party(signed.signer), signed, Discard)
        # Otherwise a single node could sign for the whole route, and undo the charge of a round
        # that went on.
        if discard.node != signed.signer:
            raise RoundStateError(
                f"{signed.signer} signed a discard that names {discard.node!r}; a node may only "
                "sign its own"
            )
        return discard


def _stored_plan(text: str) -> RoundPlan:
    try:
        return from_json(text, RoundPlan)
    except MalformedDocumentError as error:
        raise LedgerError(f"a plan in the ledger is damaged: {error}; restore a backup") from error


def _check_accepted(plan: RoundPlan, accepted: int) -> None:
    if accepted < plan.min_reports:
        raise TooFewReportsError(
            f"no final certificate: {accepted} reports are fewer than the round's minimum, "
            f"{plan.min_reports}"
        )
    if accepted > plan.max_reports:
        raise RoundStateError(
            f"no final certificate: {accepted} reports are more than the round's maximum, "
            f"{plan.max_reports}"
        )


class AccountantServicer(accountant_pb2_grpc.AccountantServicer):
    """gRPC service for an `Accountant`. The server's interceptor makes its errors typed."""

    def __init__(self, accountant: Accountant, metrics: AccountantMetrics) -> None:
        self._accountant = accountant
        self._metrics = metrics
        # One change at a time in this process: of two, one would compute its composition in vain.
        # Each finishes even when its caller hangs up: the release that follows must find what was
        # still charged.
        self._changing = asyncio.Lock()
        # Each query holds its place until its thread is done, so a database that is silent holds no
        # more threads.
        self._reading = asyncio.Semaphore(MOST_READERS)
        self._log = structlog.get_logger()

    def _count_certificate(self, stage: str) -> None:
        self._metrics.certificates.labels(stage).inc()
        self._metrics.mark_changed()

    async def Certify(  # noqa: N802 - the name in the .proto
        self,
        request: accountant_pb2.CertifyRequest,
        context: Context,  # noqa: ARG002
    ) -> accountant_pb2.CertifyResponse:
        """Calibrate a plan, reserve its cost, and sign its certificate; see accountant.proto."""
        async with self._changing:
            signed = await in_thread(self._accountant.certify, request.round_id, request.plan)
            await in_thread(self._accountant.publish_log)
            proof = await in_thread(self._accountant.log_proof, request.round_id, signed)
        self._log.info("plan certified", round=request.round_id)
        self._count_certificate(CertificateStage.PLAN)
        return accountant_pb2.CertifyResponse(certificate=signed, log_proof=proof)

    async def Settle(  # noqa: N802
        self,
        request: accountant_pb2.SettleRequest,
        context: Context,  # noqa: ARG002
    ) -> accountant_pb2.SettleResponse:
        """Charge a round for its reports, and sign the final certificate; see accountant.proto."""
        async with self._changing:
            signed = await in_thread(
                self._accountant.settle,
                request.round_id,
                request.accepted,
                tuple(request.headers),
                request.invalid,
            )
            await in_thread(self._accountant.publish_log)
        self._log.info("round settled", round=request.round_id, accepted=request.accepted)
        self._count_certificate(CertificateStage.FINAL)
        return accountant_pb2.SettleResponse(certificate=signed)

    async def LogResult(  # noqa: N802
        self,
        request: accountant_pb2.LogResultRequest,
        context: Context,  # noqa: ARG002
    ) -> accountant_pb2.LogResultResponse:
        """Add a settled round's result to the public log; see accountant.proto."""
        async with self._changing:
            await in_thread(self._accountant.log_result, request.round_id, request.digest)
            await in_thread(self._accountant.publish_log)
            proof = await in_thread(self._accountant.result_proof, request.round_id, request.digest)
        self._log.info("result added to the public log", round=request.round_id)
        return accountant_pb2.LogResultResponse(log_proof=proof)

    async def Release(  # noqa: N802
        self,
        request: accountant_pb2.ReleaseRequest,
        context: Context,  # noqa: ARG002
    ) -> accountant_pb2.ReleaseResponse:
        """Give a reservation back on discards of every node of the route; see accountant.proto."""
        async with self._changing:
            await in_thread(self._accountant.release, request.round_id, tuple(request.discards))
            await in_thread(self._accountant.publish_log)
        self._log.info("charge released", round=request.round_id)
        self._metrics.releases.inc()
        self._metrics.mark_changed()
        return accountant_pb2.ReleaseResponse()

    async def GetBudget(  # noqa: N802
        self,
        request: accountant_pb2.GetBudgetRequest,
        context: Context,  # noqa: ARG002
    ) -> accountant_pb2.GetBudgetResponse:
        """Return what a population has spent and has left, an ε of infinity for no finite bound."""
        most = request.most_entries or MOST_ENTRIES
        async with self._reading:
            statement, page = await in_thread(
                self._accountant.page, request.population, request.after_entry, most
            )
        return accountant_pb2.GetBudgetResponse(
            limit_epsilon=statement.budget.epsilon,
            delta=statement.budget.delta,
            spent_epsilon=statement.spent.certified,
            left_epsilon=statement.left,
            composition=statement.budget.composition.value,
            if_fixed_epsilon=statement.if_fixed,
            charges={state.value: count for state, count in statement.charges.items()},
            adjacency=statement.budget.adjacency.value,
            entries=[
                accountant_pb2.LedgerEntry(
                    entry=entry.entry,
                    round_id=entry.round_id,
                    state=entry.state.value,
                    epsilon=entry.epsilon,
                    delta=entry.cost.delta,
                    mechanism=to_json(entry.cost.mechanism).decode(),
                    users=entry.cost.setting.users,
                    honest=entry.cost.setting.honest,
                    adjacency=entry.cost.setting.adjacency.value,
                    max_distance=entry.cost.setting.max_distance
                    or largest_distance(entry.cost.mechanism),
                )
                for entry in page
            ],
        )


def open_ledger(config: AccountantConfig) -> Ledger:
    """Open the ledger of a configuration; the caller closes it. Errors as `Ledger.open`."""
    budgets = {
        name: Budget(limit.epsilon, limit.delta, limit.adjacency, limit.composition)
        for name, limit in config.populations.items()
    }
    return Ledger.open(config.ledger_url, budgets, system_clock)


def open_accountant(
    config: AccountantConfig, roster: Roster, count_answer: CountAnswer = ignore_answer
) -> tuple[Accountant, Ledger]:
    """Open the accountant of a configuration, and its ledger, which the caller closes.

    `count_answer` counts the answers of the public log's witnesses.

    Raises:
        ConfigError: keys, budgets or the ledger's URL are wrong.
        LedgerError: the ledger is damaged or of another version.
    """
    unknown = sorted(
        set(config.populations) - {population.name for population in roster.populations}
    )
    if unknown:
        raise ConfigError(
            "the configuration has budgets for populations that are not in the roster: "
            f"{', '.join(unknown)}; correct their names or remove them"
        )
    identity = load_party(roster, Role.ACCOUNTANT, config.name, config.keys)
    try:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the state folder {config.state}: {error.strerror}"
        ) from error
    ledger = open_ledger(config)
    lifetime = round(config.certificate_days * 86_400_000)
    log = PublicLog(config.log_folder, ledger, identity, roster, count_answer)
    try:
        log.publish()
    except LedgerAwayError as error:  # said again at every change of the ledger
        structlog.get_logger().warning("public log not written", reason=str(error))
    return Accountant(identity, roster, ledger, lifetime, system_clock, log), ledger


def create_service(
    config: AccountantConfig, roster: Roster, accountant: Accountant, metrics: AccountantMetrics
) -> Service:
    """Create the gRPC server, which does not listen yet."""
    servicer = AccountantServicer(accountant, metrics)
    return Service(
        config,
        roster,
        RULES,
        [NAME],
        lambda server: accountant_pb2_grpc.add_AccountantServicer_to_server(servicer, server),
        metrics,
    )
