"""Step F: the fewest honest reports that a round can leave a victim, by exhaustive search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from shuffledp_core.vocabulary import Mix
from shuffledp_labs.instance import Draws

HONEST: Final = "honest"
CORRUPT: Final = "corrupt"

ROUTES: Final = (
    (HONEST, CORRUPT, CORRUPT),
    (CORRUPT, CORRUPT, HONEST),
    (CORRUPT, HONEST, CORRUPT),
    (CORRUPT, CORRUPT, CORRUPT),
)
"""Routes of the cases: node 1 alone honest, one behind it, none."""


@dataclass(frozen=True)
class Situation:
    """The parties of a published round, and which of them are corrupt.

    Attributes:
        mix: the kind of mixing.
        nodes: `HONEST` or `CORRUPT`, in the order of the route.
        people: honest people who want to take part, the victim among them.
        accounts: enrolled accounts of the adversary.
        min_reports: fewest reports of which a result is published.
    """

    mix: Mix
    nodes: tuple[str, ...]
    people: int
    accounts: int
    min_reports: int

    @property
    def as_student_data(self) -> dict[str, Any]:
        """The situation as the arguments of the student's function."""
        return {
            "mix": str(self.mix),
            "nodes": self.nodes,
            "people": self.people,
            "accounts": self.accounts,
            "min_reports": self.min_reports,
        }

    @property
    def least(self) -> int:
        """Least number of honest reports, the victim's included, among which a round shuffles it.

        0: no node shuffles them.

        1. Who is admitted: an honest node 1 admits everyone; a corrupt one admits the victim and
           any others it chooses.
        2. What is made up: in a plain round a corrupt node 1 may add any number of reports; in a
           verified round, or after an honest node 1, every report needs an enrolled account.
        """
        if HONEST not in self.nodes:
            return 0
        chooses = self.nodes[0] == CORRUPT
        let_in = range(1, self.people + 1) if chooses else (self.people,)  # 1
        made_up = range(self.min_reports + 1) if chooses and self.mix == Mix.PLAIN else (0,)  # 2
        return min(
            honest
            for honest, accounts_used, invented in product(
                let_in, range(self.accounts + 1), made_up
            )
            if honest + accounts_used + invented >= self.min_reports
        )


def draw_situations(draws: Draws) -> list[Situation]:
    """Draw situations with every mix and route, and with no, some, and too many accounts.

    More people come than it needs.
    """
    cases = []
    for mix, nodes, accounts in product(
        (Mix.PLAIN, Mix.VERIFIED), ROUTES, ("none", "some", "many")
    ):
        least = draws.integer(8, 20)
        account_count = {
            "none": 0,
            "some": draws.integer(2, least - 3),
            "many": least + draws.below(4),
        }[accounts]
        cases.append(Situation(mix, nodes, least + draws.integer(3, 12), account_count, least))
    return cases
