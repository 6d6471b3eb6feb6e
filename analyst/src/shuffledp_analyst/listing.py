"""Paged list of an analyst's rounds, for its operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shuffledp_analyst.records import Records
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import ShuffleDPError, UnknownRoundError

MOST_ROUNDS: Final = 100
"""Most rounds of a page: at some 200 bytes each it stays far below gRPC's largest message, 4 MiB.
"""

MOST_LETTERS: Final = 100
"""Longest name in a summary, in characters."""

RUNNING: Final = "running"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True)
class Summary:
    """Summary of one round; see `RoundSummary` in analyst.proto."""

    round_id: str
    opened_at: int
    population: str = ""
    mechanism: str = ""
    outcome: str = RUNNING
    error: str = ""
    accepted: int = 0


def page_of_rounds(records: Records, after: str, limit: int) -> tuple[list[Summary], bool]:
    """A page of rounds, newest first, and True if there are older rounds.

    Args:
        records: all rounds of this analyst.
        after: the last round of the previous page; empty to begin with the newest.
        limit: most rounds of the page; 0 or more than `MOST_ROUNDS` means `MOST_ROUNDS`.

    Raises:
        UnknownRoundError: `after` is not a round of this analyst.
    """
    rounds = records.newest_first()
    if after:
        starts = [start for start, (_, round_id) in enumerate(rounds, start=1) if round_id == after]
        if not starts:
            raise UnknownRoundError(
                f"{after[:40]!r} is not a round of this analyst; start with the first page"
            )
        rounds = rounds[starts[0] :]
    size = min(limit or MOST_ROUNDS, MOST_ROUNDS)
    page = [_summary(records, round_id, opened // 10**6) for opened, round_id in rounds[:size]]
    return page, len(rounds) > size


def _summary(records: Records, round_id: str, opened_at: int) -> Summary:
    try:
        plan = records.files(round_id).plan()
        summary = Summary(
            round_id, opened_at, plan.population[:MOST_LETTERS], plan.mechanism[:MOST_LETTERS]
        )
        if not records.files(round_id).has_ended():
            return summary
        result = from_json(Signed.from_bytes(records.files(round_id).result()).body, Result)
    except (ShuffleDPError, OSError):  # one bad record hides no other round
        return Summary(round_id, opened_at, outcome=UNREADABLE)
    return Summary(
        round_id,
        opened_at,
        summary.population,
        summary.mechanism,
        result.outcome,
        (result.error or "")[:MOST_LETTERS],
        result.accepted,
    )
