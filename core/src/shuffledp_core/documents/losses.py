"""Messages that a round lost, and the number of complete honest reports that remain. Pure.

docs/protocol.md, section "Lost messages". Nodes, analyst, accountant and clients compute with the
same functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp_core.mechanisms import Spec


@dataclass(frozen=True, slots=True)
class Losses:
    """Messages of accepted reports that do not count.

    Attributes:
        dropped: onions that the nodes dropped, and signed for, because they failed to decrypt or
            were repeated in a batch.
        invalid: messages on the board that no honest client sends: a symbol outside the alphabet,
            or a tag that occurs more than once.
    """

    dropped: int = 0
    invalid: int = 0

    def dishonest(self, messages_per_user: int) -> int:
        """Least number of users who broke the protocol; each sends at most `messages_per_user`."""
        # Rounded up: one spoiled message is already one user who broke the protocol.
        return -(-self.invalid // messages_per_user)

    def count_spoiled(self, messages_per_user: int) -> int:
        """Least number of incomplete reports, whether a user or a node made them so."""
        return -(-(self.invalid + self.dropped) // messages_per_user)


NO_LOSSES = Losses()


def most_dropped(accepted: int, planned_honest: int, messages_per_user: int) -> int:
    """Most onions that the nodes of a route may drop together.

    If they drop more, the planned number of honest users may be missing.

    Args:
        accepted: reports that the entry node accepted.
        planned_honest: whole reports of honest users that the plan's certificate counts on.
        messages_per_user: onions of one report, all of which one dishonest user can spoil.
    """
    # In whole reports: a bound in messages alone would let one credential with m bad onions stop
    # the round.
    return messages_per_user * max(0, accepted - planned_honest)


def honest_reports(
    accepted: int,
    planned_users: int,
    planned_honest: int,
    mechanism: Spec,
    losses: Losses = NO_LOSSES,
    *,
    verified: bool,
) -> int:
    """Number of whole honest reports that a final certificate may count on.

    Below 1 if there are none.

    Dropped messages are honest users' in the worst case. docs/accounting.md, Definitions and C17.

    1. The number of dishonest reports, including those that nodes make up or replace, is the
       plan's, or the number observed to break the protocol if that is larger.
    2. Every dropped message may have cost another honest user's report: a malicious node may drop
       one of each. The protected user's own report is left.
    3. In a plain round the reports beyond those of the plan may be made up by the entry node, so
       that no more than the planned honest ones count. In a verified round every report has a
       credential.

    A mechanism that needs no crowd counts only on the protected user, whatever was lost.

    Args:
        accepted: reports that the entry node accepted, at least `planned_users`.
        planned_users: reports that the plan's certificate was computed for.
        planned_honest: reports of honest users among them.
        mechanism: the certified one.
        losses: the messages that do not count.
        verified: whether the round has provable mixing.
    """
    if not mechanism.needs_crowd:
        return 1
    dishonest = losses.dishonest(mechanism.messages_per_user)
    colluding = max(planned_users - planned_honest, dishonest)  # 1
    honest = accepted - colluding
    left = max(honest - losses.dropped, min(honest, 1))  # 2
    return left if verified else min(left, planned_honest)  # 3


def charged_reports(
    accepted: int, planned_users: int, planned_honest: int, mechanism: Spec, losses: Losses
) -> int:
    """Number of honest reports that a round is charged for, if the plan's assumption may hold.

    Like `honest_reports`, but dropped messages reduce only the reports in excess of the plan: the
    plan assumes that `planned_honest` complete reports are mixed, and otherwise a single credential
    with bad onions could spend the population's budget. The reports that lost messages are not
    complete.
    """
    if not mechanism.needs_crowd:
        return 1
    messages = mechanism.messages_per_user
    colluding = max(planned_users - planned_honest, losses.dishonest(messages))
    spared = min(losses.dropped, max(0, accepted - planned_users))
    return min(accepted - max(colluding + spared, losses.count_spoiled(messages)), planned_honest)
