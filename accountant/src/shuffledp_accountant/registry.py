"""An entry for a public registry of deployments, computed from a ledger's public log.

Dwork, Kohli, Mulligan 2019, "Differential Privacy in Practice: Expose your Epsilons!", propose such
registries. The groups of fields are those of the registry that OpenDP keeps; what is in no log (who
runs the deployment, its purpose, why these parameters) is a person's input. docs/log.md.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from shuffledp_accountant.log_audit import AccountReplay, LogAudit
from shuffledp_core.documents.models import Certificate, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.transparency.entries import LedgerLogEntry
from shuffledp_core.transparency.notes import Checkpoint
from shuffledp_core.vocabulary import CertificateStage

FORMAT: Final = "shuffledp-registry/1"


@dataclass
class MechanismSummary:
    """The settled rounds of one mechanism in one population: number, and worst values.

    `epsilon` and `local_epsilon` are the largest of all rounds, `math.inf` where one has no bound.
    """

    rounds: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    local_epsilon: float = 0.0
    fewest_reports: int = 0
    most_reports: int = 0
    largest_share_colluding: float = 0.0

    def add(self, final: Certificate) -> None:
        """Include a settled round: count it, and update worst values and the range of reports."""
        reports = final.users
        self.fewest_reports = min(self.fewest_reports, reports) if self.rounds else reports
        self.most_reports = max(self.most_reports, reports)
        self.rounds += 1
        self.epsilon = max(self.epsilon, _or_infinity(final.epsilon.certified))
        self.delta = max(self.delta, final.delta, final.corrupted.delta)
        self.local_epsilon = max(self.local_epsilon, _or_infinity(final.corrupted.epsilon))
        share = (final.users - final.honest) / max(1, final.users)
        self.largest_share_colluding = max(self.largest_share_colluding, share)


@dataclass
class PopulationSummary:
    """Facts about a population for a registry, in addition to its account.

    Times are in milliseconds since 1970.
    """

    first: int = 0
    last: int = 0
    nodes: set[str] = field(default_factory=set)
    fewest_nodes: int = 0
    adjacencies: set[str] = field(default_factory=set)
    compositions: set[str] = field(default_factory=set)
    mechanisms: dict[str, MechanismSummary] = field(default_factory=dict)

    def add(self, certificate: Certificate) -> None:
        """Add a verified certificate of this population."""
        issued = certificate.issued_at
        self.first = min(self.first, issued) if self.first else issued
        self.last = max(self.last, issued)
        nodes = len(certificate.route)
        self.fewest_nodes = min(self.fewest_nodes, nodes) if self.nodes else nodes
        self.nodes |= set(certificate.route)
        self.adjacencies.add(str(certificate.adjacency))
        self.compositions.add(str(certificate.ledger.composition))
        if certificate.stage == CertificateStage.FINAL:
            kind = certificate.mechanism.kind
            self.mechanisms.setdefault(kind, MechanismSummary()).add(certificate)


@dataclass
class RegistryReplay:
    """Audits a log, and collects facts about its deployment for a registry."""

    audit: LogAudit
    populations: dict[str, PopulationSummary] = field(default_factory=dict)

    def replay(self, entries: Iterable[LedgerLogEntry]) -> None:
        """Check entries and add their charges up; raises as `LogAudit.replay`."""
        for entry in entries:
            self.audit.replay([entry])
            summary = self.populations.setdefault(entry.population, PopulationSummary())
            for text in entry.documents:
                signed = Signed.from_bytes(text.encode())
                if signed.label == Certificate.label:  # verified by the audit
                    summary.add(from_json(signed.body, Certificate))


@dataclass(frozen=True)
class RegistryWords:
    """Facts that only the operators of a deployment can state; None if they do not."""

    curator: str | None = None
    intended_use: str | None = None
    data_product: str | None = None
    justification: str | None = None


def registry_entry(
    replay: RegistryReplay, roster: Roster, checkpoint: Checkpoint, words: RegistryWords
) -> dict[str, Any]:
    """The registry's entry as a JSON object.

    ε is in nats; null stands for no bound, and for what was not stated.
    """
    return {
        "format": FORMAT,
        "deployment": roster.deployment,
        "curator": words.curator,
        "intended_use": words.intended_use,
        "data_product": words.data_product,
        "justification": words.justification,
        "populations": [
            _population_entry(name, replay.populations[name], account, roster)
            for name, account in sorted(replay.audit.accounts.items())
        ],
        "evidence": {
            "log": checkpoint.origin,
            "entries": checkpoint.size,
            "root": checkpoint.root.hex(),
            "accountant_key": roster.accountant.identity_key,
            "witnesses": _witnesses(roster),
            "roster_serial": roster.serial,
        },
    }


def _population_entry(
    name: str, summary: PopulationSummary, account: AccountReplay, roster: Roster
) -> dict[str, Any]:
    # A node of an earlier roster may be gone from this one.
    operators = {party.operator for party in roster.nodes() if party.name in summary.nodes}
    return {
        "population": name,
        "first_certificate": _day(summary.first),
        "last_certificate": _day(summary.last),
        "flavor": "approximate differential privacy, shuffle model",
        "privacy_unit": "one person's report in each round",
        "adjacency": sorted(summary.adjacencies),
        "unprotected": ["who takes part in a round", "number of reports of a round"],
        "privacy_loss": {
            "budget_epsilon": account.limit,
            "delta": account.delta,
            "spent_epsilon": _finite(account.spent),
            "composition": sorted(summary.compositions),
            "rounds_charged": account.entry - len(account.missing),
            "rounds_settled": account.settled,
            "rounds_released": account.released,
            "rounds_open": len(account.open),
            "charges_lost": len(account.missing),
        },
        "mechanisms": [
            {
                "mechanism": kind,
                "rounds": mechanism.rounds,
                "largest_epsilon": _finite(mechanism.epsilon),
                "largest_delta": mechanism.delta,
                "largest_epsilon_if_all_nodes_are_corrupt": _finite(mechanism.local_epsilon),
                "reports": [mechanism.fewest_reports, mechanism.most_reports],
                "largest_share_colluding": mechanism.largest_share_colluding,
            }
            for kind, mechanism in sorted(summary.mechanisms.items())
        ],
        "model": {
            "trust": "at least one node of each round is honest",
            "nodes": sorted(summary.nodes),
            "fewest_nodes": summary.fewest_nodes,
            "operators": sorted(operators),
        },
    }


def _witnesses(roster: Roster) -> list[str]:
    terms = roster.log_terms
    return [] if terms is None else [witness.name for witness in terms.witnesses]


def _or_infinity(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _day(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).date().isoformat()
