"""The console's data, as values from which pages are rendered. Pure.

Its sources (`watching`, `saved`) replace a `Snapshot` as a whole, so that a page shows one
moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from shuffledp.log_proofs import LogPosition
from shuffledp_core.documents.models import Certificate
from shuffledp_ops.rounds.report import RoundReport

RUNNING: Final = "running"
PUBLISHED: Final = "published"
FAILED: Final = "failed"
UNREADABLE: Final = "unreadable"

MOST_ROUNDS: Final = 100
"""Rounds on the pages, the newest; `shuffledp results list` has all."""


@dataclass(frozen=True)
class StageProgress:
    """Progress of one stage of a round at one party (`node`, "" for the analyst).

    `done` of `total` are reports for the stage "accepting" and messages elsewhere; `seconds` is 0
    until it is over.
    """

    stage: str
    node: str
    done: int
    total: int
    seconds: float

    @property
    def over(self) -> bool:
        """True once the party has finished the stage."""
        return self.seconds > 0


@dataclass(frozen=True)
class RoundAnnouncement:
    """A round's announcement to devices, read from its verified manifest.

    Times in milliseconds since 1970.
    """

    min_reports: int
    max_reports: int
    opens_at: int
    closes_at: int
    plan: Certificate


@dataclass(frozen=True)
class RoundEnding:
    """End of a round, read from its verified result; `final` only if it was published."""

    outcome: str
    error: str = ""
    reason: str = ""
    final: Certificate | None = None


@dataclass(frozen=True)
class RoundInfo:
    """One round; fields that are not known yet are empty. `opened_at` is in ms since 1970.

    `all_corrupt`: every node of the route declares that it is corrupt, so that only ε_L holds;
    None until the manifest, which has the declarations, is verified.

    `logged` is the round's verified position in the public log, `log_error` the name and words of
    the error if its announcement does not prove one; neither where the roster names no witnesses.
    """

    round_id: str
    opened_at: int
    population: str
    mechanism: str
    outcome: str
    error: str = ""
    accepted: int = 0
    announced: RoundAnnouncement | None = None
    steps: Mapping[tuple[str, str], StageProgress] = field(default_factory=dict)
    ending: RoundEnding | None = None
    all_corrupt: bool | None = None
    logged: LogPosition | None = None
    log_error: tuple[str, str] | None = None

    @property
    def running(self) -> bool:
        """True until the round has ended."""
        return self.outcome == RUNNING

    @property
    def question_id(self) -> str:
        """Identifier of the question in words; empty if the round has none, or it is not known."""
        final = None if self.ending is None else self.ending.final
        plan = None if self.announced is None else self.announced.plan
        certificate = final or plan
        wording = None if certificate is None else certificate.question_wording
        return "" if wording is None else wording.id

    def step(self, stage: str, node: str = "") -> StageProgress | None:
        """Progress of a stage at a party; None before the stage began there."""
        return self.steps.get((stage, node))


@dataclass(frozen=True)
class BudgetCharge:
    """One entry of the accountant's ledger.

    `epsilon` is infinite where no finite bound is known.
    """

    entry: int
    round_id: str
    state: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class PopulationBudget:
    """A population's account, as reported by the accountant.

    Every ε is at `delta`, under the budget's rule of composition.

    `charges` are the newest ones; `counts` the number of all charges by state.
    """

    population: str
    limit: float
    delta: float
    spent: float
    left: float
    composition: str
    counts: Mapping[str, int]
    charges: tuple[BudgetCharge, ...]


@dataclass(frozen=True)
class Trouble:
    """A failure to fetch something: its subject, and the error's name and message."""

    what: str
    error: str
    words: str


@dataclass(frozen=True, eq=False)
class PublishedRound:
    """A published round to show: its verified report, and the files next to it by name.

    Equal only to itself.
    """

    report: RoundReport
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class ConsoleSnapshot:
    """All data shown on pages, at one moment.

    `at` in milliseconds since 1970, 0 before the first query.

    `more` is True if there are older rounds than those listed. `troubles` are the failures of
    parties that did not answer; their last data is still shown. `newest` is the last answer, once
    it has been verified.
    """

    at: int = 0
    rounds: tuple[RoundInfo, ...] = ()
    more: bool = False
    budgets: tuple[PopulationBudget, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    newest: PublishedRound | None = None

    def round(self, round_id: str) -> RoundInfo | None:
        """The round with this id; None if it is not listed."""
        return next(
            (round_info for round_info in self.rounds if round_info.round_id == round_id), None
        )

    def charge(self, round_id: str) -> BudgetCharge | None:
        """The ledger's entry for a round; None if it is not among the newest."""
        return next(
            (
                charge
                for budget in self.budgets
                for charge in budget.charges
                if charge.round_id == round_id
            ),
            None,
        )


class ConsoleSource(Protocol):
    """Source of the console's data: a running deployment, or a folder of saved rounds."""

    @property
    def title(self) -> str:
        """Name of the deployment or folder whose rounds are shown."""

    @property
    def live(self) -> bool:
        """True for a deployment, False for saved rounds."""

    @property
    def snapshot(self) -> ConsoleSnapshot:
        """The newest snapshot."""

    @property
    def version(self) -> int:
        """Version of the snapshot, which grows with every change."""

    async def wait_for_change(self, since: int) -> int:
        """Return the version as soon as it differs from `since`."""

    async def check(self) -> None:
        """Check before serving pages that the source can be read.

        Raises the error otherwise.
        """

    async def keep_current(self) -> None:
        """Keep the snapshot up to date until cancelled."""

    async def open(self, round_id: str) -> PublishedRound:
        """Verify and return a published round. Raises `UnknownRoundError` or the fault's error."""
