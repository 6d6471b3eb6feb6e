"""Vectors of the checks before a device touches its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import msgspec
from client_rounds import NOW, POPULATION, ROUND_ID, Draft
from vector_cases import (
    ASKED,
    GENEROUS,
    HYBRID,
    LABELLED,
    SMALL_ORDER_32,
    Case,
    Fields,
    make_case,
    mechanism_named,
    text_of,
)
from vector_world import (
    identity,
    make_draft,
    make_roster,
    sign_roster,
)

from shuffledp_core.documents.models import (
    CorruptedGuarantee,
    EpsilonBounds,
    Manifest,
)
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.mechanisms import (
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import SUITES
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import ROOT, Identity


def rounds() -> Iterator[Case]:
    """Everything that a device checks before it touches its value, each defect by itself."""
    root_key = identity(ROOT).public_key.hex()

    def case(name: str, draft: Draft, error: str | None = None, **changes: Any) -> Case:
        announcement = changes.pop("announcement", None) or draft.announcement()
        roster = changes.pop("roster", draft.deployment.roster)
        policy = GENEROUS | changes.pop("policy", {})
        fields = {
            "roster": text_of(sign_roster(roster)),
            "root_key": root_key,
            "announcement": to_json(announcement).decode(),
            "policy": policy,
            "population": POPULATION,
            "now": NOW,
            "round_id": ROUND_ID,
        }
        return make_case(name, "round", fields | changes, error)

    for suite in SUITES:
        yield case(f"a genuine round in {suite}", make_draft(ASKED, suite))
    for label, mechanism in LABELLED.items():
        delta = 1e-6 if mechanism.needs_crowd else 0.5  # these have few dummies
        lenient = {"epsilon": 1e9, "epsilon_corrupted": "inf", "delta": delta}
        bounds = EpsilonBounds(certified=50.0, attained=0.4)
        draft = make_draft(mechanism, certificate={"epsilon": bounds, "delta": delta})
        yield case(f"a genuine round of {label}", draft, policy=lenient)
    for mechanism in (mechanism_named("sgdl-shuffle"), mechanism_named("split-mix")):
        slow = msgspec.structs.replace(mechanism, noise_epsilon=Fraction(1, 2**63))
        yield case(
            f"{mechanism.kind} whose noise takes practically endless steps to draw",
            make_draft(mechanism, certificate={"mechanism": slow}),
            "MalformedDocumentError",
            policy={"epsilon": 1e9, "epsilon_corrupted": "inf"},
        )
    yield case("any round will do", make_draft(ASKED), round_id=None)
    yield from round_documents(case)
    yield from round_policies(case)
    yield from round_claims(case)
    genuine = make_draft(ASKED)
    fields = case("", genuine)["input"]
    yield make_case(
        "a roster of another root key",
        "round",
        fields | {"root_key": identity("x").public_key.hex()},
        "SignatureError",
    )
    expired = make_roster(expires_at=NOW)
    yield case("a roster that has expired", make_draft(ASKED, roster=expired), "StaleRosterError")
    unnumbered = make_roster(serial=0)
    yield case(
        "a roster without a serial number", make_draft(ASKED, roster=unnumbered), "StaleRosterError"
    )
    text = fields["announcement"]
    for name, spelled in {
        "an announcement with a field twice": text[:-1] + ',"countersignatures":[]}',
        "an announcement with an unknown field": text[:-1] + ',"more":1}',
        "an announcement cut short": text[:-1],
        "an announcement that is null": "null",
    }.items():
        yield make_case(name, "round", fields | {"announcement": spelled}, "MalformedDocumentError")


def round_documents(case: Callable[..., Case]) -> Iterator[Case]:
    """Signers, and documents that do not belong together."""
    for name in ("analyst", "accountant", "node-1", "node-2", "node-3"):
        impostor = Identity(name, identity("an impostor").key)
        yield case(
            f"{name} under another key",
            make_draft(ASKED, signers={name: impostor}),
            "SignatureError",
        )
    spare = identity("node-4")
    for name, error in (
        ("analyst", "ForeignDocumentError"),
        ("accountant", "ForeignDocumentError"),
        ("node-2", "RoundKeyError"),
    ):
        yield case(f"node-4 in place of {name}", make_draft(ASKED, signers={name: spare}), error)
    foreign, malformed, bad_key = "ForeignDocumentError", "MalformedDocumentError", "RoundKeyError"
    other = "f" * 32
    wide = Geometry(suite="hpke", hops=3, messages_per_user=1, symbol_bytes=2)
    more = Geometry(suite="hpke", hops=3, messages_per_user=2, symbol_bytes=1)
    dummies = msgspec.structs.replace(Geometry.of(ASKED, "hpke", 3), dummies_per_node=5)
    of_manifest: list[tuple[Fields, str]] = [
        ({"deployment": "other"}, foreign),
        ({"round_id": other}, foreign),
        ({"round_id": "../../etc/passwd"}, malformed),
        ({"min_reports": 99}, malformed),
        ({"geometry": Geometry.of(ASKED, HYBRID, 3)}, bad_key),
        ({"geometry": Geometry.of(ASKED, "hpke", 2)}, malformed),
        ({"geometry": wide}, malformed),
        ({"geometry": more}, malformed),
        ({"geometry": dummies}, malformed),
        ({"opens_at": NOW + 1}, "SubmissionClosedError"),
        ({"closes_at": NOW}, "SubmissionClosedError"),
    ]
    for changes, error in of_manifest:
        yield case(f"the manifest's {changes}", make_draft(ASKED, manifest=changes), error)
    of_certificate: list[tuple[Fields, str]] = [
        ({"deployment": "other"}, foreign),
        ({"round_id": other}, foreign),
        ({"population": "other"}, foreign),
        ({"stage": "final"}, foreign),
        ({"holds": False}, malformed),
        ({"expires_at": NOW}, "ExpiredDocumentError"),
        ({"route": ("node-1", "node-2")}, bad_key),
        ({"route": ("node-1", "node-2", "node-4")}, bad_key),
        ({"route": ("node-2", "node-1", "node-3")}, bad_key),
        ({"users": 101}, malformed),
        ({"honest": 0}, malformed),
        ({"honest": 101}, malformed),
        ({"max_distance": 4}, malformed),
        ({"max_distance": 0}, malformed),
    ]
    for changes, error in of_certificate:
        yield case(f"the certificate's {changes}", make_draft(ASKED, certificate=changes), error)
    of_keys: list[tuple[Fields, str]] = [
        ({"deployment": "other"}, foreign),
        ({"round_id": other}, foreign),
        ({"node": "node-4"}, bad_key),
        ({"position": 3}, bad_key),
        ({"suite": HYBRID}, bad_key),
        ({"certificate_digest": "0" * 64}, bad_key),
        ({"public_key": "AB" * 32}, bad_key),
        ({"public_key": "zz" * 32}, bad_key),
        ({"public_key": "00" * 31}, bad_key),
        ({"public_key": "00" * 32}, bad_key),
        ({"corrupt": True}, "ClientPolicyRefusal"),
    ]
    for changes, error in of_keys:
        yield case(
            f"the second round key's {changes}", make_draft(ASKED, round_keys={2: changes}), error
        )
    draft = make_draft(ASKED, HYBRID)
    draft.public_keys[1] = draft.public_keys[1][:-32] + SMALL_ORDER_32
    yield case("a hybrid round key whose X25519 half is of small order", draft, bad_key)
    draft = make_draft(ASKED, HYBRID)
    draft.public_keys[1] = b"\xff" * 1184 + draft.public_keys[1][-32:]
    yield case("a hybrid round key whose ML-KEM half is not reduced", draft, bad_key)
    unknown = {"geometry": Geometry(suite="rot13", hops=3, messages_per_user=1, symbol_bytes=1)}
    renamed = {position: {"suite": "rot13"} for position in (1, 2, 3)}
    yield case("an unknown suite", make_draft(ASKED, manifest=unknown, round_keys=renamed), bad_key)
    first, second, third = from_json(make_draft(ASKED).announcement().manifest.body, Manifest).route
    yield case(
        "round keys in another order",
        make_draft(ASKED, manifest={"route": (second, first, third)}),
        bad_key,
    )
    yield case("a node twice", make_draft(ASKED, route=("node-1", "node-2", "node-1")), bad_key)
    yield case(
        "an accountant on the route",
        make_draft(ASKED, route=("node-1", "node-2", "accountant")),
        bad_key,
    )
    yield case(
        "one node alone",
        make_draft(ASKED, certificate={"route": ("node-1",)}, manifest={"route": (first,)}),
        bad_key,
    )
    for signers, error in (
        (("node-1", "node-3"), "SignatureError"),
        (("node-1", "node-2", "node-3", "node-3"), foreign),
        (("node-1", "node-2", "node-3", "node-4"), foreign),
    ):
        yield case(f"countersigned by {signers}", make_draft(ASKED, countersigners=signers), error)
    for changes in ({"round_id": other}, {"node": "node-3"}, {"manifest_digest": "0" * 64}):
        yield case(
            f"a countersignature's {changes}",
            make_draft(ASKED, countersignatures={"node-2": changes}),
            foreign,
        )
    yield case("another round than the one asked for", make_draft(ASKED), foreign, round_id=other)
    yield case("another population", make_draft(ASKED), foreign, population="elsewhere")


def round_policies(case: Callable[..., Case]) -> Iterator[Case]:
    """Each field of a policy refuses by itself, and allows what is just within it."""
    refusal = "ClientPolicyRefusal"
    certified = {"epsilon": EpsilonBounds(certified=1.7, attained=0.4)}
    for policy, error in (
        ({"epsilon": 1.7}, None),
        ({"epsilon": 1.69}, refusal),
        ({"delta": 9e-7}, refusal),
        ({"epsilon_corrupted": 5.0}, None),
        ({"epsilon_corrupted": 4.9}, refusal),
        ({"nodes": 3}, None),
        ({"nodes": 4}, refusal),
        ({"operators": 3}, None),
        ({"operators": 4}, refusal),
        ({"suites": [HYBRID]}, refusal),
        ({"suites": []}, refusal),
        ({"mixes": ["verified"]}, refusal),
        ({"messages": 1}, None),
        ({"messages": 0}, refusal),
        ({"min_colluding": 10}, None),
        ({"min_colluding": 11}, refusal),
        ({"min_colluding_share": 0.1}, None),
        ({"min_colluding_share": 0.11}, refusal),
        ({"require_crowd_free": True}, refusal),
    ):
        yield case(
            f"the policy {policy}", make_draft(ASKED, certificate=certified), error, policy=policy
        )
    none = {"epsilon": EpsilonBounds(certified=None, attained=None)}
    yield case("no guarantee", make_draft(ASKED, certificate=none), refusal)
    corrupt = {"corrupted": CorruptedGuarantee(epsilon=None, delta=0.0)}
    yield case(
        "no guarantee with every node corrupt", make_draft(ASKED, certificate=corrupt), refusal
    )
    later = {"corrupted": CorruptedGuarantee(epsilon=0.1, delta=1e-7)}
    noisy = KRRHistogram(symbols=4, blanket=Fraction(1, 10_000))
    wide = EpsilonBounds(certified=11.0, attained=0.1)
    yield case(
        "a small claim at δ for a large computed ε_L",
        make_draft(noisy, certificate=later | {"epsilon": wide}),
        refusal,
        policy={"epsilon": 12.0},
    )
    summed = RRShuffle(max_value=4, randomise=Fraction(1, 2))
    metric = {
        "adjacency": Adjacency.METRIC,
        "epsilon": EpsilonBounds(certified=1.2, attained=0.2),
        "corrupted": CorruptedGuarantee(epsilon=1.2, delta=0.0),
    }
    yield case("ε per unit, compared as a total", make_draft(summed, certificate=metric), refusal)
    near = {"distance": 1}
    yield case(
        "ε per unit, for a policy per unit",
        make_draft(summed, certificate=metric),
        None,
        policy=near,
    )
    small = metric | {"max_distance": 2}
    yield case(
        "protection of changes up to 2",
        make_draft(summed, certificate=small),
        None,
        policy={"distance": 2, "epsilon": 5.0},
    )
    yield case(
        "protection of too small changes",
        make_draft(summed, certificate=small),
        refusal,
        policy={"epsilon": 9.0},
    )
    spelled = {
        "node-1": "Universit\u00e9 A",
        "node-2": "universite\u0301  a",
        "node-3": "UNIVERSIT\u00c9 A ",
    }
    parties = tuple(
        msgspec.structs.replace(party, operator=spelled.get(party.name, party.operator))
        for party in make_roster().parties
    )
    yield case(
        "one operator in three spellings",
        make_draft(ASKED, roster=make_roster(parties=parties)),
        refusal,
    )


def round_claims(case: Callable[..., Case]) -> Iterator[Case]:
    """Numbers in a certificate that its own mechanism refutes."""
    error = "FalseCertificateError"
    open_to_all = {"epsilon": 100.0, "epsilon_corrupted": "inf"}
    noiseless: dict[str, Mechanism] = {
        **{mechanism.kind: mechanism for mechanism in NOISELESS},
        "dummy-histogram with a blanket": DummyHistogram(
            symbols=5, slots=1, fill=HARDLY, blanket=HARDLY
        ),
        "dummy-histogram of 2 symbols with a blanket": DummyHistogram(
            symbols=2, slots=1, fill=HARDLY, blanket=HARDLY
        ),
        "node-histogram with a blanket": NodeHistogram(
            symbols=5, noise_epsilon=Fraction(50), mean=1, dummies=5, blanket=HARDLY
        ),
    }
    for label, mechanism in noiseless.items():
        lie = {
            "epsilon": EpsilonBounds(certified=0.1, attained=0.1),
            "corrupted": CorruptedGuarantee(epsilon=None, delta=0.0),
        }
        yield case(
            f"a false ε of {label}",
            make_draft(mechanism, certificate=lie),
            error,
            policy=open_to_all,
        )
    yield from false_local_claims(case)


def false_local_claims(case: Callable[..., Case]) -> Iterator[Case]:
    """ε_L just below the mechanism's, and just not."""
    error = "FalseCertificateError"
    lenient = {"epsilon": 1e9, "epsilon_corrupted": "inf", "delta": 0.5}
    bounds = EpsilonBounds(certified=50.0, attained=0.4)
    for label, mechanism in {
        "": ASKED,
        " of local-laplace": mechanism_named("local-laplace"),
        " of dummy-histogram with a blanket": LABELLED["dummy-histogram with a blanket"],
        " of node-histogram with a blanket": LABELLED["node-histogram with a blanket"],
    }.items():
        local = mechanism.local_epsilon(mechanism.domain - 1)
        for factor, expected in ((0.999, error), (1.0, None)):
            claimed: Fields = {"corrupted": CorruptedGuarantee(epsilon=local * factor, delta=0.0)}
            policy: Fields = {}
            if label:
                claimed |= {"epsilon": bounds, "delta": 0.5}
                policy = lenient
            yield case(
                f"ε_L, {factor} of the mechanism's{label}",
                make_draft(mechanism, certificate=claimed),
                expected,
                policy=policy,
            )


HARDLY: Final = Fraction(1, 10**9)
NOISELESS: Final[tuple[Mechanism, ...]] = (
    BloomRappor(symbols=5, bits=8, hashes=1, cohorts=4, fake=HARDLY),
    KRRHistogram(symbols=5, blanket=HARDLY),
    DummyHistogram(symbols=5, slots=1, fill=HARDLY),
    HadamardHistogram(symbols=5, blanket=HARDLY),
    RapporHistogram(symbols=5, fake=HARDLY, when_zero=HARDLY, when_one=1 - HARDLY),
    LocalLaplace(max_value=4, epsilon_geo=Fraction(50)),
    OneBitShuffle(max_value=4, randomise=HARDLY),
    QuantisedRR(max_value=4, bits=2, randomise=HARDLY),
    RRShuffle(max_value=4, randomise=HARDLY),
    GeoShuffle(max_value=4, epsilon_geo=Fraction(50), padding=1),
    SGDLShuffle(max_value=4, noise_epsilon=Fraction(50), shares=100, padding=1),
    SplitMix(max_value=4, noise_epsilon=Fraction(50), shares=100, modulus=1000, pieces=3),
    NodeColumns(symbols=6, noise_epsilon=Fraction(50), mean=1, spare=0, columns=(3, 2)),
    NodeHistogram(symbols=5, noise_epsilon=Fraction(50), mean=1, dummies=5),
    NodeSum(max_value=4, noise_epsilon=Fraction(50), base=5, mean=4),
    NodeTree(symbols=5, noise_epsilon=Fraction(50), mean=1, spare=0, width=2),
)
