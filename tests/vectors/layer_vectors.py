"""Vectors of lengths, layers and envelopes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction

import hpke_by_hand
from client_rounds import ROUND_ID
from vector_cases import (
    ASKED,
    HYBRID,
    LABELLED,
    OPEN_LIST,
    Case,
    Fields,
    make_case,
    mechanism_named,
    plain,
)
from vector_runner import FOLDER
from vector_world import (
    coins,
    derive,
    round_key_pair,
)

from shuffledp_client.encoding import encode
from shuffledp_core.mechanisms import (
    RRShuffle,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import SUITES


def geometries() -> Iterator[Case]:
    """Lengths that follow from public parameters."""
    for label, mechanism in (LABELLED | {"node-columns of an open list": OPEN_LIST}).items():
        for suite, hops in (("hpke", 2), (HYBRID, 3), ("sealed-box", 5)):
            fields = {"mechanism": plain(mechanism), "suite": suite, "hops": hops}
            yield make_case(f"{label} over {hops} hops, {suite}", "geometry", fields)
    asked = plain(ASKED)
    for hops in (1, 0, 17):
        fields = {"mechanism": asked, "suite": "hpke", "hops": hops}
        yield make_case(f"{hops} hops", "geometry", fields, "MalformedDocumentError")
    yield from impossible_parameters()
    yield from dummies_without_end()
    for mechanism in (mechanism_named("sgdl-shuffle"), mechanism_named("split-mix")):
        for rate, error in (
            (f"1/{2**21}", None),
            (f"1/{2**21 + 1}", "MalformedDocumentError"),
            (f"1/{2**63}", "MalformedDocumentError"),
        ):
            slow = {**plain(mechanism), "noise_epsilon": rate}
            fields = {"mechanism": slow, "suite": "hpke", "hops": 3}
            yield make_case(
                f"{mechanism.kind} whose noise has rate {rate}", "geometry", fields, error
            )


def dummies_without_end() -> Iterator[Case]:
    """Noise of nodes that is drawn until it is within bounds: in useful time, or never."""
    for kind in ("node-histogram", "node-sum", "node-columns", "node-tree"):
        mechanism = plain(mechanism_named(kind))
        for rate, error in (("1/10000", None), (f"1/{2**63}", "MalformedDocumentError")):
            fields = {
                "mechanism": {**mechanism, "noise_epsilon": rate},
                "suite": "hpke",
                "hops": 3,
            }
            yield make_case(f"{kind} whose dummies have rate {rate}", "geometry", fields, error)


def impossible_parameters() -> Iterator[Case]:
    """Parameters that no mechanism has."""
    for name, (kind, changes) in {
        "pieces beyond the most": ("split-mix", {"pieces": 100_001}),
        "a digit whose mean is below its largest value": ("node-sum", {"mean": 1}),
        "when_one below when_zero": ("rappor-histogram", {"when_one": "1/6"}),
        "more bits than units": ("quantised-rr", {"bits": 101}),
        "too few dummies": ("node-histogram", {"dummies": 47}),
        "a negative padding": ("geo-shuffle", {"padding": -1}),
        "too many slots": ("dummy-histogram", {"slots": 10_000}),
        "too many symbols for bits": ("rappor-histogram", {"symbols": 32}),
        "a modulus below the largest value": ("split-mix", {"modulus": 10}),
        "columns of another number of combinations": ("node-columns", {"symbols": 16}),
        "no columns": ("node-columns", {"columns": [], "symbols": 2}),
        "17 columns": ("node-columns", {"columns": [2] * 17, "symbols": 2**17}),
        "a column of one cell": ("node-columns", {"columns": [15, 1]}),
        "columns that are a number": ("node-columns", {"columns": 15}),
        "a column that is no whole number": ("node-columns", {"columns": [5.5, 3]}),
        "combinations beyond 53 bits": (
            "node-columns",
            {"columns": [2**27, 2**26], "symbols": 2**53},
        ),
        "spare dummies beyond use, of columns": ("node-columns", {"spare": 241}),
        "spare dummies below 0": ("node-columns", {"spare": -1}),
        "dummies beyond 31 bits": (
            "node-columns",
            {"columns": [2**18, 3], "symbols": 3 * 2**18, "mean": 2**13},
        ),
        "a mean beyond the largest": ("node-columns", {"mean": 2**14 + 1}),
        "spare dummies beyond use, of a tree": ("node-tree", {"spare": 433}),
        "too many bins": ("node-tree", {"symbols": 2**12 + 1}),
        "groups of all bins": ("node-tree", {"width": 9}),
        "groups of no bins": ("node-tree", {"width": 0}),
        "a largest value of 0": ("local-laplace", {"max_value": 0}),
        "noise of rate 0": ("local-laplace", {"epsilon_geo": "0/1"}),
        "a blanket of 1 among dummies of users": ("dummy-histogram", {"blanket": "1/1"}),
        "a blanket of 1 among dummies of nodes": ("node-histogram", {"blanket": "1/1"}),
        "a blanket above 1": ("node-histogram", {"blanket": "3/2"}),
        "a blanket that is null": ("dummy-histogram", {"blanket": None}),
        "a blanket of columns": ("node-columns", {"blanket": "1/2"}),
    }.items():
        parameters = plain(mechanism_named(kind)) | changes
        fields = {"mechanism": parameters, "suite": "hpke", "hops": 3}
        yield make_case(name, "geometry", fields, "MalformedDocumentError")
    for kind in ("dummy-histogram", "node-histogram"):
        parameters = plain(mechanism_named(kind)) | {"blanket": "0/1"}
        fields = {"mechanism": parameters, "suite": "hpke", "hops": 3}
        yield make_case(f"{kind} with a blanket of 0", "geometry", fields)


def encapsulations() -> Iterator[dict[str, str]]:
    """ML-KEM ciphertexts and secrets for the hybrid round keys, kept from run to run."""
    file = FOLDER / "layers.json"
    before = json.loads(file.read_text(encoding="utf-8"))["cases"] if file.exists() else []
    earlier = [
        case["input"]["encapsulation"] for case in before if "encapsulation" in case["input"]
    ]
    if earlier:
        yield from earlier
        return
    from cryptography.hazmat.primitives.asymmetric import mlkem

    for position in (1, 2, 3):
        _, public = round_key_pair(HYBRID, position)
        secret, ciphertext = mlkem.MLKEM768PublicKey.from_public_bytes(public[:-32]).encapsulate()
        yield {"ciphertext": ciphertext.hex(), "secret": secret.hex()}


def layers() -> Iterator[Case]:
    """Single layers of every suite with given ephemeral keys, and layers that do not open."""
    given = list(encapsulations())
    for suite in SUITES:
        for position, size in ((1, 0), (2, 17), (3, 1000)):
            private, public = round_key_pair(suite, position)
            fields: Fields = {
                "suite": suite,
                "round_id": ROUND_ID,
                "position": position,
                "public_key": public.hex(),
                "plaintext": derive("plaintext", suite, position, size=size).hex(),
                "ephemeral": derive("ephemeral", suite, position).hex(),
            }
            if suite == HYBRID:
                fields["encapsulation"] = given[position - 1]
            case = make_case(f"{suite}, {size} bytes for position {position}", "seal", fields)
            yield case
            sealed = case["expect"]["ok"]["sealed"]
            opened = {
                "suite": suite,
                "round_id": ROUND_ID,
                "position": position,
                "private_key": private.hex(),
                "sealed": sealed,
            }
            yield make_case(f"{suite} at position {position}, opened", "open", opened)
            if position != 2:
                continue
            other, _ = round_key_pair(suite, 3)
            flipped = f"{int(sealed[-2:], 16) ^ 1:02x}"
            for name, changes in {
                "altered": {"sealed": sealed[:-2] + flipped},
                "cut short": {"sealed": sealed[:-2]},
                "empty": {"sealed": ""},
                "for another key": {"private_key": other.hex()},
                "for another round": {"round_id": "f" * 32},
                "for another position": {"position": 3},
            }.items():
                # The sealed box binds neither: its keys are fresh for one round and position.
                bound = suite != "sealed-box" or name in {
                    "altered",
                    "cut short",
                    "empty",
                    "for another key",
                }
                error = "BadBatchError" if bound else None
                yield make_case(f"{suite}, {name}", "open", opened | changes, error)


def seal_by_hand(geometry: Geometry, messages: list[bytes], name: str) -> tuple[bytes, list[str]]:
    """An HPKE envelope with derived ephemeral keys, and those keys in the order of their use."""
    publics = [round_key_pair(geometry.suite, hop)[1] for hop in range(1, geometry.hops + 1)]
    used: list[str] = []

    def seal(hop: int, plaintext: bytes) -> bytes:
        ephemeral = derive("ephemeral", name, len(used))
        used.append(ephemeral.hex())
        info = binding(ROUND_ID, hop)
        return hpke_by_hand.seal(geometry.suite, publics[hop - 1], info, plaintext, ephemeral)

    records = messages
    for hop in range(geometry.hops, 1, -1):
        records = [seal(hop, record) for record in records]
    return seal(1, b"".join(records)), used


def envelopes() -> Iterator[Case]:
    """Whole envelopes: all layers of all messages, in their order."""
    for mechanism, hops in (
        (ASKED, 2),
        (RRShuffle(max_value=3, randomise=Fraction(1, 2)), 3),
        (mechanism_named("hadamard-histogram"), 4),
    ):
        geometry = Geometry.of(mechanism, "hpke", hops)
        name = f"{mechanism.kind} over {hops} hops"
        messages = encode(geometry, mechanism, 1, coins(derive("messages", name)))
        envelope, ephemerals = seal_by_hand(geometry, messages, name)
        fields = {
            "geometry": plain(geometry),
            "round_id": ROUND_ID,
            "public_keys": [round_key_pair("hpke", hop)[1].hex() for hop in range(1, hops + 1)],
            "private_keys": [round_key_pair("hpke", hop)[0].hex() for hop in range(1, hops + 1)],
            "ephemerals": ephemerals,
            "envelope": envelope.hex(),
        }
        yield make_case(f"hpke, {name}", "envelope", fields)
        for defect, changed in {
            "a byte too long": envelope + b"\x00",
            "a byte too short": envelope[:-1],
            "altered": envelope[:-1] + bytes([envelope[-1] ^ 1]),
        }.items():
            wrong = fields | {"envelope": changed.hex()}
            yield make_case(f"hpke, {name}, {defect}", "envelope", wrong, "InvalidSubmissionError")
    for hops in (2, 3):
        mechanism = RRShuffle(max_value=3, randomise=Fraction(1, 2))
        geometry = Geometry.of(mechanism, "sealed-box", hops)
        keys = [round_key_pair("sealed-box", hop)[1].hex() for hop in range(1, hops + 1)]
        fields = {
            "geometry": plain(geometry),
            "round_id": ROUND_ID,
            "public_keys": keys,
            "symbols": "010000",
            "seed": derive("seed", hops).hex(),
        }
        yield make_case(f"sealed-box over {hops} hops, from a seed", "seeded", fields)
