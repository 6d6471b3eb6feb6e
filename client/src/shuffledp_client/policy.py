"""A user's own policy: limits that apply to every round, however well it is signed.

Every ε here is *total*: for a change of the user's value by up to `distance` units. A certificate
under metric adjacency states ε per unit, so it is multiplied by that distance before it is
compared; the small per-unit number is never mistaken for a total. A per-unit policy is an explicit
`distance = 1`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable

from shuffledp_core.documents.models import Certificate, Party
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import ClientPolicyRefusal
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.config import Section
from shuffledp_core.vocabulary import Mix


class Policy(Section, frozen=True, kw_only=True):
    """The `[policy]` table of a client's configuration.

    No field that decides about privacy has a default.

    Attributes:
        epsilon: largest total ε (nats) while one node and enough users are honest.
        delta: largest δ, of the shuffled guarantee and of the corrupted one.
        epsilon_corrupted: largest total ε_L (nats) that is left when every node is corrupt, as the
            certificate states it and as the device computes it; `inf` accepts any.
        distance: largest change of the own value that is to be protected, in units; None: any
            change.
        nodes: fewest mix nodes on the route.
        operators: fewest different operators among them.
        suites: suites that may seal; None: every one this software knows.
        mixes: ways of mixing that may be used, "plain" and "verified"; None: both.
        messages: most messages of one submission.
        allow_corrupt: whether to accept nodes that declare themselves corrupt; only for
            experiments.
        min_colluding: fewest reports that the guarantee must not count on: from users who help the
            adversary, and from an entry node that makes them up.
        min_colluding_share: the same as a share of the certificate's users, from 0 to below 1.
        require_crowd_free: whether to refuse rounds whose guarantee rests on other people's
            reports, so that one honest node is enough.
        require_log: whether to refuse rounds that are not in the public log, where the roster names
            witnesses of it.
        questions: identifiers of questions that may be asked; None: any.
        refuse_questions: identifiers of questions that may not be asked.
        fields: fields that may be asked for; None: any.
        refuse_fields: fields that may not be asked for. With any of these four, rounds without a
            question in words are refused.
    """

    epsilon: float
    delta: float
    epsilon_corrupted: float
    distance: int | None = None
    nodes: int = 2
    operators: int = 2
    suites: tuple[str, ...] | None = None
    mixes: tuple[Mix, ...] | None = None
    messages: int = 100_000
    allow_corrupt: bool = False
    min_colluding: int = 0
    min_colluding_share: float = 0.0
    require_crowd_free: bool = False
    require_log: bool = True
    questions: tuple[str, ...] | None = None
    refuse_questions: tuple[str, ...] = ()
    fields: tuple[str, ...] | None = None
    refuse_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise ValueError(f"policy.epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"policy.delta must be from 0 to below 1, not {self.delta}")
        if not self.epsilon_corrupted >= 0:
            raise ValueError(
                "policy.epsilon_corrupted must be 0 or more (inf accepts any value), not "
                f"{self.epsilon_corrupted}"
            )
        if self.distance is not None and self.distance < 1:
            raise ValueError(f"policy.distance must be at least 1, not {self.distance}")
        if self.min_colluding < 0:
            raise ValueError(f"policy.min_colluding must be 0 or more, not {self.min_colluding}")
        if not 0 <= self.min_colluding_share < 1:
            raise ValueError(
                "policy.min_colluding_share must be from 0 to below 1, not "
                f"{self.min_colluding_share}"
            )


def check_policy(
    policy: Policy,
    certificate: Certificate,
    geometry: Geometry,
    route: tuple[Party, ...],
    corrupt: tuple[str, ...] = (),
) -> None:
    """Checks a verified round against the policy.

    docs/protocol.md, section "Submit", step 8 of the client.

    1. The guarantee covers every change of the value that the user wants protected.
    2. Total ε and δ of the shuffled guarantee.
    3. Total ε_L and δ when every node is corrupt, unless the policy accepts any: the certificate's,
       and the pure ε_L that this device computes from the mechanism.
    4. Number of nodes, number of distinct operators.
    5. Suite, and way of mixing.
    6. Messages of one submission.
    7. No node of `corrupt` (those that declare themselves corrupt), unless the policy allows it.
    8. The guarantee tolerates as many dishonest reports as the policy requires; one that needs no
       honest people always does.
    9. The question, by its identifier and its fields.

    Raises:
        ClientPolicyRefusal: names the violated limit and the round's value.
    """
    distance = _protected_distance(policy, certificate)  # 1
    # By the definition of metric adjacency: at distance d the certificate has ε d and the same δ,
    # every d at once.
    factor = 1 if certificate.adjacency is Adjacency.STANDARD else distance
    _at_most("ε", _total(certificate.epsilon.certified, factor), policy.epsilon)  # 2
    _at_most("δ", certificate.delta, policy.delta)
    if not math.isinf(policy.epsilon_corrupted):  # 3
        corrupted = certificate.corrupted
        _at_most(
            "ε with every node corrupt", _total(corrupted.epsilon, factor), policy.epsilon_corrupted
        )
        _at_most("δ with every node corrupt", corrupted.delta, policy.delta)
        computed = certificate.mechanism.local_epsilon(distance)
        _at_most("ε with every node corrupt, computed here,", computed, policy.epsilon_corrupted)
    _at_least("mix nodes", len(route), policy.nodes)  # 4
    operators = {_normalise(party.operator) for party in route}
    _at_least("different operators", len(operators), policy.operators)
    if policy.suites is not None and geometry.suite not in policy.suites:  # 5
        raise ClientPolicyRefusal(
            f"the round seals with {geometry.suite!r}, but your policy allows "
            f"{', '.join(policy.suites) or 'none'}"
        )
    mixing = Mix.VERIFIED if certificate.verified else Mix.PLAIN
    if policy.mixes is not None and mixing not in policy.mixes:
        raise ClientPolicyRefusal(
            f"the round's mixing is {mixing.value}, but your policy allows "
            f"{', '.join(policy.mixes) or 'none'}"
        )
    _at_most("messages per user", geometry.messages_per_user, policy.messages)  # 6
    if corrupt and not policy.allow_corrupt:  # 7
        raise ClientPolicyRefusal(
            f"{', '.join(corrupt)}: corrupt by the node's own declaration, and logs who sent "
            "what; your policy allows no such node (allow_corrupt = false): do not take part"
        )
    _check_crowd(policy, certificate)  # 8
    check_question(policy, certificate.question_wording)  # 9


def check_question(policy: Policy, wording: QuestionWording | None) -> None:
    """Check a wording against the policy; `ClientPolicyRefusal` names what it refuses."""
    no_limits = policy.questions is None and policy.fields is None
    if no_limits and not policy.refuse_questions and not policy.refuse_fields:
        return
    if wording is None:
        raise ClientPolicyRefusal(
            "the round has no question in words, but your policy restricts questions or fields"
        )
    _check_allowed("question", (wording.id,), policy.questions, policy.refuse_questions)
    _check_allowed("field", wording.fields, policy.fields, policy.refuse_fields)


def _check_allowed(
    what: str, names: Iterable[str], allowed: tuple[str, ...] | None, refused: tuple[str, ...]
) -> None:
    for name in names:
        if name in refused:
            raise ClientPolicyRefusal(f"your policy refuses the {what} {name!r}")
        if allowed is not None and name not in allowed:
            raise ClientPolicyRefusal(
                f"the {what} {name!r} is not among those that your policy allows: "
                f"{', '.join(allowed) or 'none'}"
            )


def _check_crowd(policy: Policy, certificate: Certificate) -> None:
    """Check the certificate's assumptions about other people."""
    # What an entry node makes up counts as colluding: a margin of 0 trusts it not to make up a
    # single report.
    if not certificate.mechanism.needs_crowd:
        return
    if policy.require_crowd_free:
        raise ClientPolicyRefusal(
            f"the guarantee of {certificate.mechanism.kind} depends on {certificate.honest} "
            "honest people, but your policy takes part only where one honest node is enough "
            "(require_crowd_free = true)"
        )
    margin = certificate.users - certificate.honest
    _at_least("colluding users to spare", margin, policy.min_colluding)
    if margin / max(1, certificate.users) < policy.min_colluding_share:
        raise ClientPolicyRefusal(
            f"the round's guarantee tolerates {margin} colluding users of {certificate.users}, "
            f"but your policy requires a share of at least {policy.min_colluding_share:g}"
        )


def _normalise(operator: str) -> str:
    """Normalise an operator's name: case, white space and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", operator).casefold().split())


def _protected_distance(policy: Policy, certificate: Certificate) -> int:
    """Largest change of a value that the policy wants protected and the certificate must cover."""
    full = certificate.mechanism.domain - 1
    distance = full if policy.distance is None else min(policy.distance, full)
    if distance > certificate.max_distance:
        raise ClientPolicyRefusal(
            f"the round protects changes of up to {certificate.max_distance} units, but your "
            f"policy requires {distance}"
        )
    return distance


def _total(epsilon: float | None, factor: int) -> float:
    # No number means no finite bound, which every limit must refuse; read as 0 it would pass them
    # all.
    return math.inf if epsilon is None else epsilon * factor


def _at_most(what: str, value: float, limit: float) -> None:
    if not 0 <= value <= limit:  # written so that NaN is refused
        raise ClientPolicyRefusal(
            f"the round's {what} is {value:.6g}, but your policy allows from 0 to {limit:.6g}"
        )


def _at_least(what: str, value: int, limit: int) -> None:
    if value < limit:
        raise ClientPolicyRefusal(
            f"the round has {value} {what}, but your policy requires at least {limit}"
        )
