"""Checks a certificate against its own parameters by computing every number again.

Pure: the caller checks the signature and supplies the time. docs/accounting.md says what each
`basis` rests on.
"""

from __future__ import annotations

import math
from typing import Final

from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import Certificate
from shuffledp_core.errors import DocumentError, ExpiredDocumentError
from shuffledp_core.mechanisms import PaddedSpec, Spec
from shuffledp_core.onion.geometry import MAX_MESSAGES_PER_USER
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analysis import largest_distance
from shuffledp_privacy.bounds import Setting, corrupted_bounds, standard_error
from shuffledp_privacy.primitives.work import limited_work
from shuffledp_privacy.tabulated import certified_epsilon_of

SLACK: Final = 2e-6
"""Relative difference that a recheck forgives: twice the tolerance to which the numerics search for
ε.
"""

LARGEST_SCALE: Final = 1000 * MAX_MESSAGES_PER_USER
"""Largest scale of a user's noise, in units of the sum; such noise is clamped to a thousandth of it
at most.
"""

MOST_WORK: Final = 1.1e7
"""Most work of one recheck, in nodes of contour sums: below a second of a core.

The dearest calibrated rounds are those of sums of flipped bits, up to 1e7 for a billion users with
900,000 messages each.
"""


def recheck(claimed: Certificate, now: int | None = None, *, patient: bool = False) -> None:
    """Recompute a certificate's numbers from its own parameters.

    docs/protocol.md, "Rechecking".

    1. It has not expired, and its round is possible: an accountant may be hostile, so the
       parameters are bounded before anything is computed from them.
    2. If it holds, ε is finite; the bounds are in order; a standard guarantee covers every change;
       and reports with lost messages are not counted as complete.
    3. ε certified, ε_L, its δ and the standard error are not better than what is computed here
       (`SLACK`).

    Args:
        claimed: its signature is verified already.
        now: milliseconds since 1970; None skips step 1, for the records of old rounds.
        patient: compute the numbers, however much work they take.

    Raises:
        ExpiredDocumentError: step 1.
        DocumentError: a claim is better than the known truth, or no round can have these
            parameters; the message names the claim.
        CannotCertify: no bound can be computed for these parameters at all, or only with more than
            `MOST_WORK` and without `patient`.
        UsageError: the parameters are outside the analysis' range.
    """
    if now is not None and now > claimed.expires_at:  # 1
        raise ExpiredDocumentError(
            f"the certificate expired at {claimed.expires_at} ms; the clock of this machine says "
            f"{now} ms"
        )
    _check_size(claimed.mechanism)
    epsilon = claimed.epsilon  # 2
    if claimed.holds and epsilon.certified is None:
        raise DocumentError(
            "the certificate states that its guarantee holds but has no finite epsilon; do not "
            "rely on it"
        )
    if _number(epsilon.attained) > _number(epsilon.certified) * (1 + SLACK):
        raise DocumentError(
            f"the certificate contradicts itself: its attained epsilon, {epsilon.attained}, is "
            f"above its certified one, {epsilon.certified}"
        )
    # Otherwise a guarantee for small changes could pass for one that covers them all.
    if claimed.adjacency is Adjacency.STANDARD and claimed.max_distance < largest_distance(
        claimed.mechanism
    ):
        raise DocumentError(
            "the certificate states a standard guarantee, but covers changes of up to "
            f"{claimed.max_distance} only, not up to {largest_distance(claimed.mechanism)}; do "
            "not rely on it"
        )
    losses = Losses(claimed.dropped, claimed.invalid)
    most = claimed.users
    if claimed.mechanism.needs_crowd:
        most -= losses.count_spoiled(claimed.mechanism.messages_per_user)
    if min(losses.dropped, losses.invalid) < 0 or claimed.honest > most:
        raise DocumentError(
            f"the certificate counts on {claimed.honest} honest reports, but of {claimed.users} "
            f"reports, with {losses.dropped} dropped and {losses.invalid} invalid messages, at "
            f"most {most} are complete; do not rely on it"
        )
    setting = Setting(claimed.users, claimed.honest, claimed.adjacency, claimed.max_distance)  # 3
    with limited_work(math.inf if patient else MOST_WORK):
        certified = certified_epsilon_of(claimed.mechanism, setting, claimed.delta)
        # A pure ε_L, or one at a smaller δ than is stated today, may be larger and true.
        corrupted = corrupted_bounds(
            claimed.mechanism, setting, min(claimed.corrupted.delta, claimed.delta)
        )
    for name, claim, truth in (
        ("epsilon", epsilon.certified, certified),
        ("epsilon with all nodes corrupt", claimed.corrupted.epsilon, corrupted.epsilon),
        ("delta with all nodes corrupt", claimed.corrupted.delta, corrupted.delta),
        (
            "standard error",
            claimed.standard_error,
            standard_error(claimed.mechanism, claimed.users, claimed.nodes),
        ),
    ):
        # Not `<`: a claim that is not a number must fail as well.
        if not _number(claim) >= truth * (1 - SLACK):
            raise DocumentError(
                f"the certificate claims {name} {claim}, but its own parameters give {truth:.9g}; "
                "do not rely on it"
            )


def _check_size(spec: Spec) -> None:
    """Raise `DocumentError` for a mechanism too large for any round, which could take minutes."""
    if spec.messages_per_user > MAX_MESSAGES_PER_USER:
        raise DocumentError(
            f"the certificate has {spec.messages_per_user:,} messages per user, but a round has "
            f"at most {MAX_MESSAGES_PER_USER:,}; do not rely on it"
        )
    if isinstance(spec, PaddedSpec) and spec.noise_rate * LARGEST_SCALE < 1:
        raise DocumentError(
            f"the certificate's mechanism has noise of scale {float(1 / spec.noise_rate):.3g}, "
            f"above the largest that can be checked, {LARGEST_SCALE:,}; no round has so many "
            "messages: do not rely on it"
        )


def _number(value: float | None) -> float:
    return math.inf if value is None else value
