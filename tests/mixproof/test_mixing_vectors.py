"""tests/vectors/mixing.json, read by a decoder of its own: the page, hashlib, rbcl, PyNaCl, and no
package of ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import rbcl
from nacl import bindings
from nacl.exceptions import CryptoError

FILE = Path(__file__).parents[1] / "vectors" / "mixing.json"
V: dict[str, Any] = json.loads(FILE.read_text())
MU, HOPS, M = (
    bytes.fromhex(V["manifest_digest"]),
    len(V["names"]),
    V["parameters"]["messages_per_user"],
)
ORDER = 2**252 + 27742317777372353535851937790883648493
G = rbcl.crypto_scalarmult_ristretto255_base((1).to_bytes(32, "little"))
ZERO = bytes(32)


class RefusedError(Exception):
    """A check of the page does not hold."""


def require(holds: bool, check: str) -> None:  # noqa: FBT001
    if not holds:
        raise RefusedError(check)


def big_hash(label: str, *parts: bytes) -> bytes:
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha512(b"shuffledp/v2/mix/" + label.encode() + b"\x00" + framed).digest()


def digest(label: str, *parts: bytes) -> bytes:
    return big_hash(label, *parts)[:32]


def to_scalar(value: int) -> bytes:
    return (value % ORDER).to_bytes(32, "little")


def challenge(label: str, *parts: bytes) -> int:
    return int.from_bytes(big_hash(label, *parts), "little") % ORDER


def n4(value: int) -> bytes:
    return value.to_bytes(4, "big")


def element(data: bytes) -> bytes:
    valid = len(data) == 32 and data != ZERO and rbcl.crypto_core_ristretto255_is_valid_point(data)
    # rbcl ignores bit 255 when it decodes.
    require(valid and rbcl.crypto_core_ristretto255_add(data, ZERO) == data, "element")
    return data


def times(factor: int, point: bytes) -> bytes:
    require(factor % ORDER != 0, "factor 0")
    product: bytes = rbcl.crypto_scalarmult_ristretto255(to_scalar(factor), point)
    return product


def plus(points: Sequence[bytes]) -> bytes:
    found = ZERO
    for point in points:
        found = rbcl.crypto_core_ristretto255_add(found, point)
    return found


def minus(left: bytes, right: bytes) -> bytes:
    found: bytes = rbcl.crypto_core_ristretto255_sub(left, right)
    return found


def proof(
    label: str, context: Sequence[bytes], pairs: Sequence[tuple[bytes, bytes]], shown: bytes
) -> None:
    """Knowledge for one pair, equal logarithms for two."""
    c, z = (int.from_bytes(half, "little") for half in (shown[:32], shown[32:]))
    require(len(shown) == 64 and 0 < c < ORDER and 0 < z < ORDER, f"{label}: numbers")
    commitments = [minus(times(z, base), times(c, point)) for base, point in pairs]
    require(ZERO not in commitments, f"{label}: identity")
    points = [point for pair in pairs for point in pair]
    require(c == challenge(label, *context, *points, *commitments), f"{label}: proof")


def signed(public: bytes, message: bytes, signature: bytes) -> None:
    try:
        bindings.crypto_sign_open(signature + message, public)
    except (CryptoError, ValueError) as error:
        raise RefusedError("signature") from error


def statement(what: str, position: int, *parts: bytes) -> bytes:
    return b"shuffledp/v2/mixing\x00" + digest(f"signed/{what}", MU, n4(position), *parts)


def by_party(what: str, position: int, parts: Sequence[bytes], signature: bytes) -> None:
    signed(
        bytes.fromhex(V["identities"][position - 1]), statement(what, position, *parts), signature
    )


def opened(position: int, share: bytes, box: bytes) -> bytes | None:
    try:
        found: bytes = bindings.crypto_aead_chacha20poly1305_ietf_decrypt(
            box, None, bytes(12), digest("layer", MU, n4(position), share)
        )
    except CryptoError:
        return None
    return found


def tree(leaves: Sequence[bytes]) -> bytes:
    level = [digest("leaf", leaf) for leaf in leaves]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [digest("node", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def on_path(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> None:
    node, rest = digest("leaf", leaf), list(path)
    while count > 1:
        if index % 2:
            node = digest("node", rest.pop(0), node)
        elif index + 1 < count:
            node = digest("node", node, rest.pop(0))
        index, count = index // 2, (count + 1) // 2
    require(node == root and not rest, "path")


def raw(value: Any) -> Any:
    """Hex as bytes, objects as they are."""
    if isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(value, dict):
        return {name: raw(each) for name, each in value.items()}
    return [raw(each) for each in value] if isinstance(value, list) else value


def route(keys: Sequence[dict[str, bytes]]) -> tuple[list[bytes], list[bytes]]:
    """K1 to K3: B_0..B_L and M_1..M_L, the first one empty."""
    context = digest("route", *(part.encode() for part in V["route_context"]["parts"]))
    require(context.hex() == V["route_context"]["digest"], "route context")
    blinding, opening = [G], [b""]
    for position, (name, key) in enumerate(zip(V["names"], keys, strict=True), start=1):
        bound, base = (context, name.encode(), n4(position)), blinding[-1]
        blinding.append(element(key["blinding"]))
        proof("knows/blinding", bound, [(base, blinding[-1])], key["blinding_proof"])
        if position > 1:
            opening.append(element(key["opening"]))
            proof("knows/opening", bound, [(base, opening[-1])], key["opening_proof"])
    return blinding, opening


B, MS = route(raw(V["node_keys"]))
CLAIMS = raw(V["claims"])


def keys_of(claim: dict[str, bytes]) -> list[bytes]:
    return [claim["keys"][at : at + 32] for at in range(0, len(claim["keys"]), 32)]


def check_claim(claim: dict[str, bytes]) -> None:
    """C1 (without enrolment) to C3."""
    require(
        (len(claim["root"]), len(claim["proof"]), len(claim["keys"])) == (32, 64, 32 * M),
        "C1 lengths",
    )
    body = b"".join(claim[name] for name in ("credential", "root", "proof", "keys"))
    signed(claim["credential"], b"shuffledp/v2/claim\x00" + MU + body, claim["signature"])
    keys = [element(key) for key in keys_of(claim)]
    require(len(keys) == M == len(set(keys)), "C2")
    c, z = (int.from_bytes(half, "little") for half in (claim["proof"][:32], claim["proof"][32:]))
    require(0 < c < ORDER and 0 < z < ORDER, "C3 numbers")
    weighted = plus([times(pow(c, j, ORDER), key) for j, key in enumerate(keys, start=1)])
    commitment = minus(times(z, G), weighted)
    require(
        c == challenge("claim", MU, claim["credential"], claim["root"], claim["keys"], commitment),
        "C3",
    )


def header_parts(header: dict[str, Any]) -> list[bytes]:
    return [
        n4(header["position"]),
        header["previous"],
        header["list_digest"],
        header["exclusions"],
        n4(header["count"]),
        header["root"],
        header["total"],
    ]


def check_header(header: dict[str, Any], incoming: bytes) -> None:
    """The signature, and H6."""
    position = header["position"]
    by_party("header", position, [*header_parts(header), header["proof"]], header["signature"])
    pairs = [(B[position - 1], B[position]), (incoming, element(header["total"]))]
    proof("equal/hop", [MU, *header_parts(header)], pairs, header["proof"])


HEADERS = [{name: raw(value) for name, value in header.items()} for header in V["headers"]]
SUM_0 = plus([key for claim in CLAIMS for key in keys_of(claim)])


def message(key: bytes, content: bytes) -> None:
    """F1 and F2."""
    symbol, shown = (
        content[: V["parameters"]["symbol_bytes"]],
        content[V["parameters"]["symbol_bytes"] :],
    )
    require(int.from_bytes(symbol, "big") < V["parameters"]["alphabet"], "F1")
    proof("knows/message", [MU, symbol], [(B[-1], key)], shown)


def excluded_parts() -> list[bytes]:
    """What headers and the analyst say of all exclusions: here one, of one user for one record."""
    indices = [[trace["accused"]["index"] for trace in each["traces"]] for each in V["transcripts"]]
    (excluded,) = raw(V["excluded"])
    return [
        n4(excluded["position"]),
        n4(indices[0][0]),
        excluded["credential"],
        b"".join(excluded["keys"]),
    ]


def check_board(board: Sequence[bytes], signature: bytes, last_sum: bytes, users: int) -> None:
    """F4, then F1 to F3 and H2, H3, H5."""
    require(len(board) > 0, "F4 empty")
    link, gone = (
        digest("header", MU, *header_parts(HEADERS[-1])),
        digest("excluded", MU, *excluded_parts()),
    )
    by_party("board", HOPS + 1, [link, gone, n4(len(board)), tree(board)], signature)
    keys = [element(each[:32]) for each in board]
    require(len(board) == M * users and len(set(keys)) == len(keys), "H2, H3")
    for key, each in zip(keys, board, strict=True):
        message(key, each[32:])
    require(plus(keys) == last_sum, "H5")


def test_the_claims_and_their_list_hold() -> None:
    for claim in CLAIMS:
        check_claim(claim)
    names = ("credential", "root", "proof", "keys", "signature")
    assert (
        digest("list", MU, *(claim[name] for claim in CLAIMS for name in names)).hex()
        == V["list_digest"]
    )
    by_party("list", 1, [raw(V["list_digest"])], raw(V["list_signature"]))
    assert [claim["credential"] for claim in CLAIMS] == sorted(
        claim["credential"] for claim in CLAIMS
    )


def test_the_submissions_are_those_that_the_claims_commit_to() -> None:
    for claim in CLAIMS:
        submission = bytes.fromhex(V["submissions"][claim["credential"].hex()])
        seed, packed = submission[:32], submission[32:]
        width = len(packed) // M
        layers = 16 * (HOPS - 1) + 16
        assert width == 32 + layers + V["parameters"]["symbol_bytes"] + 64
        records = [packed[at : at + width] for at in range(0, len(packed), width)]
        salts = [digest("salt", MU, seed, n4(j)) for j in range(M)]
        leaves = [
            digest("commitment", MU, salt, n4(j), record[:32], record[32:])
            for j, (salt, record) in enumerate(zip(salts, records, strict=True))
        ]
        assert tree(leaves) == claim["root"]


def test_every_hop_opens_blinds_and_says_so() -> None:
    incoming = [bytes.fromhex(V["submissions"][claim["credential"].hex()])[32:] for claim in CLAIMS]
    records = [
        packed[at : at + len(packed) // M]
        for packed in incoming
        for at in range(0, len(packed), len(packed) // M)
    ]
    previous = bytes.fromhex(V["list_digest"])
    total, gone = SUM_0, {key for each in raw_excluded() for key in each["keys"]}
    for header, batch, secret in zip(
        HEADERS, raw(V["batches"]), raw(V["node_secrets"]), strict=True
    ):
        position = header["position"]
        if position == raw_excluded()[0]["position"]:
            total = minus(total, plus(list(gone)))
            records = [record for record in records if record[:32] not in gone]
        b, m = (int.from_bytes(secret[name], "little") for name in ("blinding", "opening"))
        boxes = [
            record[32:] if position == 1 else opened(position, times(m, record[:32]), record[32:])
            for record in records
        ]
        assert {
            times(b, record[:32]) + (box or b"") for record, box in zip(records, boxes, strict=True)
        } == set(batch)
        assert tree(batch) == header["root"]
        assert len(batch) == header["count"]
        check_header(header, total)
        assert header["previous"] == previous
        previous = digest("header", MU, *header_parts(header))
        total, records = header["total"], batch
        assert plus([record[:32] for record in batch]) == total
    said = {record[:32] + (opened(HOPS + 1, record[:32], record[32:]) or b"") for record in records}
    assert said == set(raw(V["board"]))
    check_board(raw(V["board"]), raw(V["board_signature"]), total, len(CLAIMS) - 1)


def raw_excluded() -> list[dict[str, Any]]:
    return [{name: raw(value) for name, value in each.items()} for each in V["excluded"]]


def fields(value: dict[str, Any], *names: str) -> list[bytes]:
    """The fields as they are signed: a number in 4 bytes, a path as one field of 32 bytes a
    partner."""
    require(all(len(partner) == 32 for partner in value["path"]), "path of partners of 32 bytes")
    signed_as = {**value, "index": n4(value["index"]), "path": b"".join(value["path"])}
    return [signed_as[name] for name in names]


def test_the_blame_leads_from_the_failing_record_to_the_named_user() -> None:
    (transcript,) = raw(V["transcripts"])
    claim, keys = judge(transcript)
    assert raw_excluded() == [{"position": 3, "credential": claim["credential"], "keys": keys}]
    assert HEADERS[2]["exclusions"] == digest("excluded", MU, *excluded_parts())
    assert HEADERS[1]["exclusions"] == digest("excluded", MU)


def judge(transcript: dict[str, Any]) -> tuple[dict[str, bytes], list[bytes]]:
    """T1 to T6 of the one trace of the file: the named user's claim, and its keys in the accuser's
    input."""
    accuser = transcript["position"]
    require(accuser == raw_excluded()[0]["position"] == 3, "accuser")
    seen = [part for header in HEADERS[: accuser - 1] for part in header_parts(header)]
    asked = digest("asked", bytes.fromhex(V["list_digest"]), *seen)
    (trace,) = transcript["traces"]
    accused, (step,), origin = trace["accused"], trace["steps"], trace["origin"]
    of_accused = fields(accused, "index", "record", "path", "share", "proof")
    of_step = fields(step, "index", "record", "path", "blinding_proof", "share", "share_proof")
    by_party("accused", 3, [asked, *of_accused], accused["signature"])
    by_party("answer", 2, [asked, *of_accused, *of_step], step["signature"])
    of_origin = fields(origin, "credential", "index", "salt", "path", "blinding_proof")
    by_party("answer", 1, [asked, *of_accused, *of_step, *of_origin], origin["signature"])
    # T1, T2
    on_path(
        HEADERS[1]["root"],
        accused["record"],
        accused["index"],
        HEADERS[1]["count"],
        accused["path"],
    )
    key, box = element(accused["record"][:32]), accused["record"][32:]
    proof(
        "equal/opening",
        [MU, n4(3)],
        [(B[2], MS[2]), (key, element(accused["share"]))],
        accused["proof"],
    )
    require(opened(3, accused["share"], box) is None, "T2")
    # T3, T4
    on_path(HEADERS[0]["root"], step["record"], step["index"], HEADERS[0]["count"], step["path"])
    incoming, share = element(step["record"][:32]), element(step["share"])
    proof("equal/blinding", [MU, n4(2)], [(B[1], B[2]), (incoming, key)], step["blinding_proof"])
    proof("equal/opening", [MU, n4(2)], [(B[1], MS[1]), (incoming, share)], step["share_proof"])
    require(opened(2, share, step["record"][32:]) == box, "T4")
    # T5
    claim = next(each for each in CLAIMS if each["credential"] == origin["credential"])
    own = element(keys_of(claim)[origin["index"]])
    leaf = digest("commitment", MU, origin["salt"], n4(origin["index"]), own, step["record"][32:])
    on_path(claim["root"], leaf, origin["index"], M, origin["path"])
    proof(
        "equal/blinding",
        [MU, n4(1)],
        [(G, B[1]), (own, step["record"][:32])],
        origin["blinding_proof"],
    )
    # T6
    (passage,) = transcript["passages"]
    require(
        passage["credential"] == origin["credential"], "T6: the named user's passage, and no other"
    )
    keys, so_far = keys_of(claim), [passage["credential"]]
    for position, hop in enumerate(passage["hops"], start=1):
        header, parts = HEADERS[position - 1], []
        for at, moved in enumerate(hop["moves"]):
            on_path(header["root"], moved["record"], moved["index"], header["count"], moved["path"])
            pairs = [(B[position - 1], B[position]), (keys[at], element(moved["record"][:32]))]
            proof("equal/blinding", [MU, n4(position)], pairs, moved["blinding_proof"])
            parts += fields(moved, "index", "record", "path", "blinding_proof")
        by_party("moves", position, [asked, *so_far, *parts], hop["signature"])
        so_far += parts
        keys = [moved["record"][:32] for moved in hop["moves"]]
    return claim, keys


@pytest.mark.parametrize(
    "defect", V["defects"], ids=[f"{each['of']}: {each['what']}" for each in V["defects"]]
)
def test_the_decoder_of_the_page_refuses_every_defect(defect: dict[str, Any]) -> None:
    value: Any = defect["value"]
    value = (
        {name: raw(each) for name, each in value.items()} if isinstance(value, dict) else raw(value)
    )
    read: dict[str, Callable[[], object]] = {
        "claim": lambda: check_claim(value),
        "header": lambda: check_header(value, HEADERS[0]["total"]),
        "board": lambda: check_board(
            value["board"], value["board_signature"], HEADERS[-1]["total"], len(CLAIMS) - 1
        ),
        "blame": lambda: judge(value),
        "key": lambda: route([value, *raw(V["node_keys"])[1:]]),
    }
    with pytest.raises(RefusedError):
        read[defect["of"]]()
