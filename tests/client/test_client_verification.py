"""A round is believed only if every document in it is: each single tampering has its typed
error."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, SUM, Draft, make_deployment
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_client.policy import Policy
from shuffledp_client.verification import CheckedRound, parse_announcement, verify_round
from shuffledp_core.documents.models import (
    Announcement,
    CorruptedGuarantee,
    EpsilonBounds,
    Manifest,
)
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    DocumentError,
    ExpiredDocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundKeyError,
    ShuffleDPError,
    SignatureError,
    SubmissionClosedError,
)
from shuffledp_core.mechanisms import NodeHistogram, RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import SUITES
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import Identity
from shuffledp_ops.keys.pki import Deployment

METRIC = {"adjacency": Adjacency.METRIC, "epsilon": EpsilonBounds(certified=0.3, attained=0.2)}


def verified(
    draft: Draft, policy: Policy = LENIENT, now: int = NOW, **options: Any
) -> CheckedRound:
    return verify_announcement(draft, draft.announcement(), policy, now, **options)


def verify_announcement(
    draft: Draft,
    announcement: Announcement,
    policy: Policy = LENIENT,
    now: int = NOW,
    **options: Any,
) -> CheckedRound:
    arrived = parse_announcement(to_json(announcement))
    population = options.pop("population", POPULATION)
    return verify_round(arrived, draft.deployment.roster, policy, population, now, **options)


@pytest.mark.parametrize("suite", SUITES)
def test_a_genuine_round_is_accepted(deployment: Deployment, suite: str) -> None:
    draft = Draft(deployment, suite=suite)
    found = verified(draft, round_id=ROUND_ID)
    assert found.mechanism == SUM
    assert found.entry.name == "node-1"
    assert found.public_keys == tuple(draft.public_keys)
    assert found.geometry == Geometry.of(SUM, suite, 3)


def test_a_verified_round_comes_from_verification_alone(deployment: Deployment) -> None:
    found = verified(Draft(deployment))
    with pytest.raises(ValueError, match="verify_round"):
        CheckedRound(**vars(found))


@pytest.mark.parametrize("name", ["analyst", "accountant", "node-1", "node-2", "node-3"])
def test_a_document_under_another_key_is_refused(deployment: Deployment, name: str) -> None:
    impostor = Identity(name, Ed25519PrivateKey.generate())
    with pytest.raises(SignatureError):
        verified(Draft(deployment, signers={name: impostor}))


@pytest.mark.parametrize("name", ["analyst", "accountant", "node-2"])
def test_another_party_cannot_sign_instead(deployment: Deployment, name: str) -> None:
    with pytest.raises((ForeignDocumentError, RoundKeyError)):
        verified(Draft(deployment, signers={name: deployment.identity_of("node-4")}))


@pytest.mark.parametrize(
    ("part", "changes", "error"),
    [
        ("manifest", {"deployment": "other"}, ForeignDocumentError),
        ("manifest", {"round_id": "f" * 32}, ForeignDocumentError),
        ("manifest", {"round_id": "../../etc/passwd"}, MalformedDocumentError),
        ("manifest", {"min_reports": 99}, MalformedDocumentError),
        ("manifest", {"geometry": Geometry.of(SUM, "hpke", 3)}, RoundKeyError),
        ("manifest", {"geometry": Geometry.of(SUM, "sealed-box", 2)}, MalformedDocumentError),
        (
            "manifest",
            {"geometry": Geometry(suite="sealed-box", hops=3, messages_per_user=9, symbol_bytes=1)},
            MalformedDocumentError,
        ),
        (
            "manifest",
            {
                "geometry": Geometry(
                    suite="sealed-box", hops=3, messages_per_user=10, symbol_bytes=2
                )
            },
            MalformedDocumentError,
        ),
        ("manifest", {"opens_at": NOW + 1}, SubmissionClosedError),
        ("manifest", {"closes_at": NOW}, SubmissionClosedError),
        ("certificate", {"deployment": "other"}, ForeignDocumentError),
        ("certificate", {"round_id": "f" * 32}, ForeignDocumentError),
        ("certificate", {"population": "other"}, ForeignDocumentError),
        ("certificate", {"stage": "final"}, ForeignDocumentError),
        ("certificate", {"holds": False}, MalformedDocumentError),
        ("certificate", {"expires_at": NOW}, ExpiredDocumentError),
        ("certificate", {"route": ("node-1", "node-2")}, RoundKeyError),
        ("certificate", {"route": ("node-1", "node-2", "node-4")}, RoundKeyError),
        ("certificate", {"route": ("node-2", "node-1", "node-3")}, RoundKeyError),
        (
            "certificate",
            {"mechanism": msgspec.structs.replace(SUM, padding=4)},
            MalformedDocumentError,
        ),
    ],
)
def test_a_foreign_stale_or_contradictory_document_is_refused(
    deployment: Deployment, part: str, changes: dict[str, Any], error: type[ShuffleDPError]
) -> None:
    draft = Draft(deployment)
    setattr(draft, part, changes)
    with pytest.raises(error):
        verified(draft)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"deployment": "other"}, ForeignDocumentError),
        ({"round_id": "f" * 32}, ForeignDocumentError),
        ({"node": "node-4"}, RoundKeyError),
        ({"public_key": "AB" * 32}, RoundKeyError),
        ({"public_key": "ab " * 32}, RoundKeyError),
        ({"position": 3}, RoundKeyError),
        ({"suite": "hpke"}, RoundKeyError),
        ({"certificate_digest": "0" * 64}, RoundKeyError),
        ({"public_key": "zz" * 32}, RoundKeyError),
        ({"public_key": "00" * 31}, RoundKeyError),
        ({"public_key": "00" * 32}, RoundKeyError),
    ],
)
@pytest.mark.parametrize("suite", ["sealed-box", "hpke-mlkem768-x25519"])
def test_a_round_key_that_is_not_for_this_place_is_refused(
    deployment: Deployment, changes: dict[str, Any], error: type[ShuffleDPError], suite: str
) -> None:
    with pytest.raises(error):
        verified(Draft(deployment, suite=suite, round_keys={2: changes}))


def test_a_key_of_small_order_is_refused_in_every_suite(deployment: Deployment) -> None:
    for suite in SUITES:
        draft = Draft(deployment, suite=suite)
        draft.public_keys[1] = draft.public_keys[1][:-32] + bytes(32)
        with pytest.raises(RoundKeyError, match="sealed"):
            verified(draft)


def test_an_unknown_suite_is_refused(deployment: Deployment) -> None:
    draft = Draft(deployment)
    draft.manifest = {
        "geometry": Geometry(suite="rot13", hops=3, messages_per_user=10, symbol_bytes=1)
    }
    draft.round_keys = {position: {"suite": "rot13"} for position in (1, 2, 3)}
    with pytest.raises(RoundKeyError, match="rot13"):
        verified(draft)


def test_swapped_round_keys_are_refused(deployment: Deployment) -> None:
    draft = Draft(deployment)
    manifest = from_json(draft.announcement().manifest.body, Manifest)
    one, two, three = manifest.route
    draft.manifest = {"route": (two, one, three)}
    with pytest.raises(RoundKeyError):
        verified(draft)


def test_a_node_twice_or_a_party_that_is_no_node_is_refused(deployment: Deployment) -> None:
    with pytest.raises(RoundKeyError, match="twice"):
        verified(Draft(deployment, route=("node-1", "node-2", "node-1")))
    with pytest.raises(RoundKeyError, match="accountant"):
        verified(Draft(deployment, route=("node-1", "node-2", "accountant")))


def test_the_route_must_have_nodes(deployment: Deployment) -> None:
    with pytest.raises(MalformedDocumentError):
        verified(
            Draft(deployment, certificate={"route": ()}, manifest={"route": ()}, countersigners=())
        )


@pytest.mark.parametrize(
    ("countersigners", "error"),
    [
        (("node-1", "node-3"), SignatureError),
        (("node-1", "node-2", "node-3", "node-3"), ForeignDocumentError),
        (("node-1", "node-2", "node-3", "node-4"), ForeignDocumentError),
    ],
)
def test_exactly_the_nodes_of_the_route_countersign(
    deployment: Deployment, countersigners: tuple[str, ...], error: type[ShuffleDPError]
) -> None:
    with pytest.raises(error):
        verified(Draft(deployment, countersigners=countersigners))


@pytest.mark.parametrize(
    "changes", [{"round_id": "f" * 32}, {"node": "node-3"}, {"manifest_digest": "0" * 64}]
)
def test_a_countersignature_of_something_else_is_refused(
    deployment: Deployment, changes: dict[str, Any]
) -> None:
    with pytest.raises(ForeignDocumentError):
        verified(Draft(deployment, countersignatures={"node-2": changes}))


def test_another_round_than_the_one_asked_for_or_another_population_is_refused(
    deployment: Deployment,
) -> None:
    with pytest.raises(ForeignDocumentError, match="round"):
        verified(Draft(deployment), round_id="f" * 32)
    with pytest.raises(ForeignDocumentError, match="population"):
        verified(Draft(deployment), population="elsewhere")


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"epsilon": 0.49}, "ε is 0.5"),
        ({"delta": 9e-7}, "δ is 1e-06"),
        ({"epsilon_corrupted": 4.9}, "ε with every node corrupt is 5"),
        ({"nodes": 4}, "3 mix nodes"),
        ({"operators": 4}, "3 different operators"),
        ({"suites": ("hpke",)}, "'sealed-box'"),
        ({"suites": ()}, "none"),
        ({"messages": 9}, "messages per user is 10"),
        (
            {"min_colluding": 11},
            "10 colluding users to spare, but your policy requires at least 11",
        ),
        (
            {"min_colluding_share": 0.11},
            r"10 colluding users of 100, but your policy requires a share of at least 0\.11",
        ),
        ({"require_crowd_free": True}, "depends on 90 honest people"),
    ],
)
def test_each_field_of_the_policy_refuses_by_itself(
    deployment: Deployment, limits: dict[str, Any], named: str
) -> None:
    with pytest.raises(ClientPolicyRefusal, match=named):
        verified(Draft(deployment), msgspec.structs.replace(LENIENT, **limits))


NODE_NOISE = NodeHistogram(symbols=5, noise_epsilon=Fraction(31, 128), mean=80, dummies=800)
NO_LOCAL_LIMIT = msgspec.structs.replace(LENIENT, epsilon=5.0, epsilon_corrupted=math.inf)


def node_noise_draft(deployment: Deployment, **certificate: Any) -> Draft:
    """A round of node-histogram, whose guarantee counts on one honest person."""
    fields = {"honest": 1, "corrupted": CorruptedGuarantee(epsilon=None, delta=0.0)}
    return Draft(deployment, mechanism=NODE_NOISE, certificate=fields | certificate)


def test_a_policy_that_wants_no_crowd_accepts_noise_of_nodes_and_refuses_noise_of_people(
    deployment: Deployment,
) -> None:
    policy = msgspec.structs.replace(NO_LOCAL_LIMIT, require_crowd_free=True)
    found = verified(node_noise_draft(deployment), policy)
    assert found.mechanism == NODE_NOISE
    flipped = RRShuffle(max_value=4, randomise=Fraction(1, 2))
    crowd = Draft(deployment, mechanism=flipped, certificate={"honest": 90})
    assert verified(crowd, NO_LOCAL_LIMIT).mechanism == flipped
    with pytest.raises(ClientPolicyRefusal, match=r"rr-shuffle depends on 90 honest people"):
        verified(crowd, policy)


def test_a_finite_epsilon_that_is_claimed_for_values_in_the_open_is_refused(
    deployment: Deployment,
) -> None:
    """Whatever the accountant signs: the device computes ε with every node corrupt by itself."""
    false = node_noise_draft(deployment, corrupted=CorruptedGuarantee(epsilon=5.0, delta=0.0))
    assert verified(false, NO_LOCAL_LIMIT).mechanism == NODE_NOISE
    with pytest.raises(ClientPolicyRefusal, match=r"with every node corrupt, computed here, is"):
        verified(false, msgspec.structs.replace(NO_LOCAL_LIMIT, epsilon_corrupted=10.0))


def test_an_operator_in_another_spelling_is_not_another_operator(deployment: Deployment) -> None:
    spelled = {
        "node-1": "Universit\u00e9 A",
        "node-2": "universite\u0301  a",
        "node-3": "UNIVERSIT\u00c9 A ",
    }
    parties = tuple(
        msgspec.structs.replace(party, operator=spelled.get(party.name, party.operator))
        for party in deployment.roster.parties
    )
    roster = msgspec.structs.replace(deployment.roster, parties=parties)
    draft = Draft(replace(deployment, roster=roster))
    with pytest.raises(ClientPolicyRefusal, match="1 different operators"):
        verified(draft, msgspec.structs.replace(LENIENT, operators=2))


def test_a_margin_for_colluders_that_is_just_there_is_enough(deployment: Deployment) -> None:
    draft = Draft(
        deployment, certificate={"users": 100, "honest": 93}
    )  # 0.07 times 100 is above 7 in floating point
    assert verified(
        draft, msgspec.structs.replace(LENIENT, min_colluding=7, min_colluding_share=0.07)
    )
    with pytest.raises(ClientPolicyRefusal, match="0 colluding users to spare"):
        verified(
            Draft(deployment, certificate={"honest": 100}),
            msgspec.structs.replace(LENIENT, min_colluding=1),
        )


def test_a_guarantee_per_unit_is_compared_as_a_total(deployment: Deployment) -> None:
    draft = Draft(deployment, certificate=METRIC)
    with pytest.raises(ClientPolicyRefusal, match=r"ε is 1\.2,"):  # 0.3 per unit, 4 units
        verified(draft)
    assert verified(draft, msgspec.structs.replace(LENIENT, epsilon=1.3, epsilon_corrupted=20.0))
    with pytest.raises(ClientPolicyRefusal, match="corrupt is 20"):  # 5 per unit
        verified(draft, msgspec.structs.replace(LENIENT, epsilon=1.3))


def test_a_user_may_ask_for_protection_of_smaller_changes_only(deployment: Deployment) -> None:
    per_unit = msgspec.structs.replace(LENIENT, distance=1, epsilon=0.3)
    assert verified(Draft(deployment, certificate=METRIC), per_unit)
    near = Draft(deployment, certificate=METRIC | {"max_distance": 2})
    assert verified(near, msgspec.structs.replace(LENIENT, distance=2))
    with pytest.raises(ClientPolicyRefusal, match="up to 2 units, but your policy requires 4"):
        verified(near, msgspec.structs.replace(LENIENT, epsilon=100.0, epsilon_corrupted=100.0))


def test_a_standard_guarantee_that_covers_only_small_changes_is_not_taken_for_one_of_every_change(
    deployment: Deployment,
) -> None:
    small = Draft(deployment, certificate={"max_distance": 1})
    with pytest.raises(ClientPolicyRefusal, match="up to 1 units, but your policy requires 4"):
        verified(small)
    assert verified(small, msgspec.structs.replace(LENIENT, distance=1))


def test_no_guarantee_counts_as_infinite(deployment: Deployment) -> None:
    none = Draft(deployment, certificate={"epsilon": EpsilonBounds(certified=None, attained=None)})
    with pytest.raises(ClientPolicyRefusal, match="ε is inf"):
        verified(none)
    corrupt = Draft(
        deployment, certificate={"corrupted": CorruptedGuarantee(epsilon=None, delta=0.0)}
    )
    with pytest.raises(ClientPolicyRefusal, match="corrupt is inf"):
        verified(corrupt)
    assert verified(corrupt, msgspec.structs.replace(LENIENT, epsilon_corrupted=float("inf")))


def test_numbers_that_are_no_guarantee_are_refused(deployment: Deployment) -> None:
    for epsilon in (-1.0, -1e-300):
        with pytest.raises(ClientPolicyRefusal):
            verified(
                Draft(
                    deployment,
                    certificate={"epsilon": EpsilonBounds(certified=epsilon, attained=None)},
                )
            )


def test_a_corrupt_node_is_refused_by_name_unless_the_policy_allows_it(
    deployment: Deployment,
) -> None:
    draft = Draft(deployment, round_keys={1: {"corrupt": True}, 3: {"corrupt": True}})
    with pytest.raises(ClientPolicyRefusal, match="node-1, node-3: corrupt"):
        verified(draft)
    lenient = msgspec.structs.replace(LENIENT, allow_corrupt=True)
    assert verified(draft, lenient).corrupt == ("node-1", "node-3")
    assert verified(Draft(deployment), lenient).corrupt == ()


@pytest.mark.parametrize(
    "limits",
    [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": 1.0}, {"epsilon_corrupted": -1.0},
    {"distance": 0},
     {"min_colluding": -1}, {"min_colluding_share": 1.0}, {"min_colluding_share": float("nan")}],
)  # fmt: skip
def test_a_policy_that_means_nothing_is_refused(limits: dict[str, Any]) -> None:
    fields = {"epsilon": 1.0, "delta": 0.0, "epsilon_corrupted": 1.0} | limits
    with pytest.raises(ValueError, match="policy"):
        Policy(**fields)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_as_an_announcement_are_a_typed_error(data: bytes) -> None:
    with pytest.raises(MalformedDocumentError):
        parse_announcement(data)


def test_a_huge_announcement_is_not_parsed() -> None:
    with pytest.raises(MalformedDocumentError, match="longer"):
        parse_announcement(b" " * (4 * 2**20 + 1))


def test_a_flipped_bit_anywhere_in_an_announcement_is_noticed(tmp_path: Path) -> None:
    draft = Draft(make_deployment(tmp_path / "keys"))
    genuine = draft.announcement()
    data = to_json(genuine)
    for position in range(0, len(data), 7):
        tampered = bytearray(data)
        tampered[position] ^= 1 << (position % 8)
        try:
            found = parse_announcement(bytes(tampered))
            accepted = verify_round(found, draft.deployment.roster, LENIENT, POPULATION, NOW)
        except (DocumentError, RoundKeyError):
            continue
        # Hexadecimal digits have two cases: the frame's signature text may change case and still be
        # the signature.
        assert to_json(found).lower() == data.lower()
        assert accepted.round_id == ROUND_ID
