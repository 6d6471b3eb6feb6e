"""From the counts of the shuffled messages to an unbiased estimate with an interval.

One estimator per mechanism.

A mechanism's own class has its estimator (`shuffledp_core.mechanisms`); here is what holds for all
of them.

Every estimator is a function only of the counts: shuffling loses nothing here. Intervals cover the
truth with probability 0.95 or more over the randomness of the clients, whatever the values are, if
every accepted report follows the protocol (proved for counted bits, computed for summed noise:
docs/accounting.md, S21). They are clipped to the possible answers (0 to n, or 0 to n k), which
cannot exclude the truth. An unbiased estimate may lie outside of what is possible, hence outside
its interval; for histograms there are estimators that stay inside (`Estimator`), at the price of a
bias where counts are small.

Messages that a round lost (docs/protocol.md, "Lost messages") make n smaller: n = messages that
count / messages per user, not always whole. A report that is lost entirely counts as never sent. A
report that lost d of its m messages counts, on average over the choice of these d, for the share 1
- d/m of its value. A user gains nothing by spoiling its own messages: its contribution to a sum
  stays within -c .. k + c, as with any messages. A mechanism whose answer needs every message
  (`Spec.bears_losses`) gives no answer after any loss. Only users' messages may be lost: a round
  without one of a node's dummies has no answer.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

import msgspec

from shuffledp_core.answering.estimates import COVERAGE, Counts, Estimate, Present
from shuffledp_core.errors import CountMismatchError, LostMessagesError, UsageError
from shuffledp_core.mechanisms import Answers, Mechanism

__all__ = [
    "COVERAGE",
    "Counts",
    "Estimate",
    "Estimator",
    "Present",
    "check_informative",
    "estimate",
]


class Estimator(StrEnum):
    """Method of estimation.

    Sums are always `inverted`; histograms may also be restricted to possible ones.

    inverted: unbiased; counts may be negative or above n. projected: the nearest histogram to it
    without negative counts and with the known total. ibu: the most likely histogram, to which the
    iterative Bayesian update tends.
    """

    INVERTED = "inverted"
    PROJECTED = "projected"
    IBU = "ibu"


def estimate(
    spec: Mechanism,
    counts: Counts,
    users: int,
    lost: int = 0,
    estimator: Estimator = Estimator.INVERTED,
    nodes: int = 0,
) -> Estimate:
    """The debiased answer to a round: a histogram, or a sum and a mean, over the valid reports.

    Args:
        spec: the mechanism that every client ran.
        counts: the board's, of length `spec.cells`: messages per symbol, unless the mechanism keeps
            less.
        users: number of accepted reports, at least 1.
        lost: messages of theirs that do not count.
        estimator: estimator of a histogram; what is signed is inverted. Whichever it is, standard
            errors and intervals are those of the inverted counts, the only ones for which they
            hold.
        nodes: number of nodes that added their dummies, all of which count.

    Raises:
        CountMismatchError: the counts do not fit the number of users, or nothing is left to count.
        LostMessagesError: some are lost, and the mechanism's answer needs them all.
        UsageError: the mechanism sends only noise, cannot count that number of users, or has no
            such estimator.
    """
    if estimator is not Estimator.INVERTED and spec.answers is not Answers.HISTOGRAM:
        raise UsageError(
            f"the estimator {estimator} is for histograms; {spec.kind} answers a sum, which is "
            "always inverted"
        )
    check_informative(spec)
    if len(counts) != spec.cells or min(counts) < 0:
        raise ValueError(f"expected {spec.cells} counts, each 0 or more")
    if lost and not spec.bears_losses:
        raise LostMessagesError(
            f"{lost} messages are lost or invalid, but {spec.kind} needs all of them: the rest "
            "add up to a random number. Run the round again; if messages are often lost, choose "
            "a mechanism that tolerates it"
        )
    total = spec.messages_of(counts)
    # After the shuffle no one can tell which report is short or long: a wrong count would silently
    # bias the rest.
    dummies = nodes * spec.dummies_per_node
    remaining = users * spec.messages_per_user - lost
    if users < 1 or remaining < 1 or total != remaining + dummies:
        raise CountMismatchError(
            f"{total} messages are not {users} reports of {spec.messages_per_user}"
            + (f" and {dummies} dummies of {nodes} nodes" if dummies else "")
            + f", less {lost} lost ones; the round cannot be evaluated"
        )
    present = Present(Fraction(remaining, spec.messages_per_user), nodes, lost)
    unbiased = spec.estimate(counts, present)
    return (
        unbiased
        if estimator is Estimator.INVERTED
        else _possible(spec, counts, int(present.reports), unbiased, estimator)
    )


def _possible(
    spec: Mechanism, counts: Counts, users: int, unbiased: Estimate, estimator: Estimator
) -> Estimate:
    from shuffledp_core.answering.postprocessing import project

    values = (
        project(unbiased.values, users)
        if estimator is Estimator.PROJECTED
        else spec.most_likely(counts)
    )
    return msgspec.structs.replace(unbiased, values=tuple(values.tolist()))


def check_informative(spec: Mechanism) -> None:
    """Raise `UsageError` for parameters under which messages do not depend on values."""
    spec.check_informative()
