"""A device's own check of the numbers in a certificate against its mechanism. Pure.

Analyst, accountant and nodes may collude. What a device computes itself needs no trust in any of
them: ε_L exactly, and a lower bound of the shuffled ε from two neighbouring datasets.
docs/threat-model.md says what is left to trust.
"""

from __future__ import annotations

import math
from typing import Final, NoReturn

from shuffledp_core.documents.models import Certificate
from shuffledp_core.errors import FalseCertificateError, MalformedDocumentError
from shuffledp_core.privacy import Adjacency

SLACK: Final = 2e-6
"""Relative difference that is forgiven: twice the tolerance to which the accountant searches for ε.
"""


def check_claims(certificate: Certificate) -> None:
    """Refuse a certificate that claims more privacy than its mechanism provides.

    docs/protocol.md, "Submit", step 7.

    1. The number of honest users and the largest distance are possible.
    2. A pure ε_L is not below the closed form (`Spec.local_epsilon`).
    3. (ε, δ) is not below what two neighbouring datasets attain (`Spec.witness`).

    Raises:
        MalformedDocumentError: step 1.
        FalseCertificateError: step 2 or 3.
    """
    largest = certificate.mechanism.domain - 1
    if not 1 <= certificate.honest <= certificate.users:  # 1
        raise MalformedDocumentError(
            f"the certificate counts on {certificate.honest} honest users of {certificate.users}; "
            "do not take part"
        )
    if not 1 <= certificate.max_distance <= largest:
        raise MalformedDocumentError(
            f"the certificate covers changes of up to {certificate.max_distance}, where the "
            f"values allow {largest}; do not take part"
        )
    _check_local(certificate)  # 2
    _check_shuffled(certificate)  # 3


def _check_local(certificate: Certificate) -> None:
    claimed = certificate.corrupted
    # No number claims nothing; one at δ > 0 is not comparable with a pure one, which the policy
    # limits anyway.
    if claimed.epsilon is None or claimed.delta > 0:
        return
    # Per unit of distance a single unit is the worst.
    distance = 1 if certificate.adjacency is Adjacency.METRIC else certificate.max_distance
    computed = certificate.mechanism.local_epsilon(distance)
    if math.isfinite(computed) and not claimed.epsilon >= computed * (1 - SLACK):
        _refuse(
            certificate, f"ε_L {claimed.epsilon:.6g}, but one report already has ε_L {computed:.6g}"
        )


def _check_shuffled(certificate: Certificate) -> None:
    claimed = certificate.epsilon.certified
    if claimed is None:
        return
    metric = certificate.adjacency is Adjacency.METRIC
    largest = certificate.max_distance
    # Under metric adjacency the worst distance may lie anywhere; a few are tried.
    tried = {1, max(1, largest // 4), max(1, largest // 2), largest} if metric else {largest}
    for distance in sorted(tried):
        witness = certificate.mechanism.witness(certificate.honest, distance)
        if witness is None:
            continue
        total = claimed * (1 + SLACK) * (distance if metric else 1)
        attained = witness.attained_delta(total)
        if attained > certificate.delta * (1 + SLACK):
            _refuse(
                certificate,
                f"ε {claimed:.6g} at δ {certificate.delta:.6g}, but two datasets at distance "
                f"{distance} attain δ {attained:.6g}",
            )


def _refuse(certificate: Certificate, what: str) -> NoReturn:
    raise FalseCertificateError(
        f"the certificate of round {certificate.round_id}, with {certificate.mechanism.kind}, "
        f"claims {what}: do not take part, and keep the announcement, which is evidence against "
        "the accountant"
    )
