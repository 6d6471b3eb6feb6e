"""Messages that a round lost, and the number of whole honest reports that are left. Pure.

docs/protocol.md, section "Lost messages". Nodes, analyst, accountant and clients compute with the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Losses:
    """Messages of accepted reports that do not count.

    Attributes:
        dropped: by the nodes, which signed for them: onions that did not open, or stood in a batch again.
        invalid: on the board, but of no client that follows the protocol: a symbol outside the alphabet, or a tag that
            stands there more than once.
    """

    dropped: int = 0
    invalid: int = 0

    def dishonest(self, messages_per_user: int) -> int:
        """Least number of users who broke the protocol: each has sent `messages_per_user` messages at most."""
        # Rounded up: one spoiled message is already one user who broke the protocol.
        return -(-self.invalid // messages_per_user)

    def spoiled(self, messages_per_user: int) -> int:
        """Least number of reports that are not whole, whether user or node spoiled them."""
        return -(-(self.invalid + self.dropped) // messages_per_user)


NO_LOSSES = Losses()


def most_dropped(accepted: int, planned_honest: int, messages_per_user: int) -> int:
    """Most onions that the nodes of a route may drop together: with more, the planned crowd may be missing.

    Args:
        accepted: reports that the entry node accepted.
        planned_honest: whole reports of honest users that the plan's certificate counts on.
        messages_per_user: onions of one report, all of which one dishonest user can spoil.
    """
    # In whole reports: a bound in messages alone would let one credential with m bad onions stop the round.
    return messages_per_user * max(0, accepted - planned_honest)


def honest_reports(
    accepted: int, planned_users: int, planned_honest: int, messages_per_user: int, losses: Losses = NO_LOSSES
) -> int:
    """Number of whole honest reports that a final certificate may count on; below 1 where there may be none.

    1. As many users collude as the plan allows for, or as are seen to not follow the protocol if those are more.
    2. Every dropped message has cost another honest user's report, until the reports beyond the planned ones are used
       up: what the plan itself counts on was its own assumption, and stays one.
    3. At least as many reports as the lost messages come from are not whole, whatever was assumed.

    Args:
        accepted: reports that the entry node accepted, at least `planned_users`.
        planned_users: reports that the plan's certificate was computed for.
        planned_honest: of them, those of honest users.
        messages_per_user: messages of one report.
        losses: what does not count.
    """
    colluding = max(planned_users - planned_honest, losses.dishonest(messages_per_user))  # 1
    # A report for each message, not for every m of them: a malicious node may drop one message of as many users.
    spared = min(losses.dropped, max(0, accepted - planned_users))  # 2
    # The larger, not the sum: the spoiled reports may be those of the very users who are counted as colluding.
    return accepted - max(colluding + spared, losses.spoiled(messages_per_user))  # 3
