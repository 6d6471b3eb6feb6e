"""The page's module answers the test vectors in Debian's Chromium as the Python code does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, VectorPage, running_chromium, vector_page
from mechanism_mutants import MORE_MUTANTS, ROUNDING_MUTANTS
from vector_answers import answer as vector_answer
from vector_runner import FILES, find_difference, load_cases
from vector_world import derive

from shuffledp_client.web import PARTS, RECORD, SOURCE, read_web_file
from shuffledp_client.web.build import build_files

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

NOT_OF_A_DEVICE = {"open", "seeded", "law", "submission"}
"""Kinds of cases about what nodes do, and what no mechanism of a page needs."""

AT_ONCE = 8
"""Cases that a wrong module is asked at a time, until one of its answers is wrong."""


@pytest.fixture(scope="module")
def page() -> Iterator[VectorPage]:
    with running_chromium() as browser, vector_page(browser) as opened:
        yield opened


def may_be_unsupported(case: dict[str, Any]) -> bool:
    """Whether the page may refuse a case because it does not take part in such rounds at all."""
    text = str(case["input"])
    return (
        case["kind"] in NOT_OF_A_DEVICE
        or "sealed-box" in text
        or "bloom-rappor" in text
        or (case["kind"] == "envelope" and "error" in case["expect"])
    )


@pytest.mark.parametrize("name", FILES)
def test_the_module_answers_every_case_as_it_says(page: VectorPage, name: str) -> None:
    cases = load_cases(name)
    module = page.serve()
    differences = {}
    answered = 0
    for case, answer in zip(cases, page.ask(module, cases), strict=True):
        if "unsupported" in answer and may_be_unsupported(case):
            continue
        answered += 1
        difference = find_difference(case, answer)
        if difference is not None:
            differences[case["name"]] = difference
    assert differences == {}
    assert answered > 0 or name == "laws"


MUTANTS = {
    "labels are not compared": ("if (frame.label !== label)", "if (false)", "documents"),
    "signers are not compared": ("if (frame.signer !== signer)", "if (false)", "documents"),
    "signatures are not checked": ("if (!valid) fail(", "if (false) fail(", "documents"),
    "keys of small order pass": ("!SMALL_ORDER.includes(yOf(key)) &&", "", "signatures"),
    "fields may repeat": ("if (name in fields) wrong(", "if (false) wrong(", "documents"),
    "unknown fields pass": ("!hasOwn(optional, name)", "false", "documents"),
    "the clock is not asked for the roster": (
        "if (now >= roster.expires_at)",
        "if (false)",
        "rounds",
    ),
    "numbers are believed": ("checkClaims(certificate); // 7", "", "rounds"),
    "no policy is asked": (
        "checkPolicy(policy, certificate, manifest",
        "((...all) => all)(manifest",
        "rounds",
    ),
    "countersignatures are not checked": (
        "await checkCountersignatures(announcement, manifest, route); // 4",
        "",
        "rounds",
    ),
    "any route passes": ("!== stringify(certificate.route)", "=== 1", "rounds"),
    "any geometry passes": ("manifest.geometry[name] !== value", "false", "rounds"),
    "rounds without a proof pass": ("if (text === null) unlogged(", "if (false) unlogged(", "logs"),
    "checkpoints are not signed": (
        "await checkNote(note, name, key, 1,",
        "((...all) => all)(1,",
        "logs",
    ),
    "a witness of any key signs": ("equal(one.blob.subarray(0, 4), id)", "true", "logs"),
    "any witnesses are enough": ("if (signed.length < threshold)", "if (false)", "logs"),
    "cosignatures at any time": ("time[0] > 127", "false", "logs"),
    "logs of any origin pass": ("if (checkpoint.origin !== name)", "if (false)", "logs"),
    "any window passes": ("!equal(await rootOf(log.window, log.size), log.root)", "false", "logs"),
    "any entry is in the log": ("last === 0n && equal(computed, root)", "true", "logs"),
    "any index is in the log": ("return index < size &&", "return true &&", "logs"),
    "two histories pass": ("older.size >= newer.window.base &&", "false &&", "logs"),
    "an ended log is forgotten": ("checkpoint.size > size ||", "false &&", "logs"),
    "base64 in any spelling": ("if (btoa(binary) === text)", "if (true)", "logs"),
    "words for another number of symbols pass": (
        "if (wordedSize(wording) !== mechanism.domain)",
        "if (false)",
        "questions",
    ),
    "a sum is asked in ranges": (
        "if (sum && (wording.axes",
        "if (false && (wording.axes",
        "questions",
    ),
    "0 has a sign": ('if (found[0] === "-0") wrong(', "if (false) wrong(", "documents"),
    "names that look alike pass": ("names.length < 2 || lookAlike(names)", "false", "questions"),
    "fields that look alike pass": ("|| lookAlike(fields)", "", "questions"),
    "words that no one sees pass": ("&& !blank &&", "&&", "questions"),
    "a policy forgets the fields of conditions": (
        "[...wording.axes, ...wording.where].map",
        "[...wording.axes].map",
        "questions",
    ),
    "a sum has others": ("if (sum && wording.others)", "if (false)", "questions"),
    "words are in any spelling": ("!NOT_PLAIN.test(v) &&", "", "questions"),
    "no wording is checked": (
        "wording: [null, wordingOf]",
        "wording: [null, (v) => v]",
        "questions",
    ),
    "a policy about words is not asked": (
        "if (wording === null) no(",
        "if (true) return;\n  no(",
        "questions",
    ),
    "the result is for another question": (
        "|| stringify(final.wording) !== stringify(plan.wording)",
        "",
        "results",
    ),
    "closed rounds pass": ("now < manifest.closes_at", "true", "rounds"),
    "layers are bound to no position": (
        "/onion/${roundId}/${position}",
        "/onion/${roundId}/1",
        "layers",
    ),
    "a coin is read from the wrong end": (
        ">> BigInt(8 * width - bits)",
        "% (1n << BigInt(bits))",
        "integers",
    ),
    "fair coins": (
        "=> integers.below(chance.d) < chance.n",
        "=> integers.below(2) < 1n",
        "samplers",
    ),
    "receipts of other envelopes pass": (
        ", submission_digest: envelopeDigest",
        "",
        "receipts",
    ),
    "missing messages pass": ("if (changed) {", "if (false) {", "results"),
    "any answer passes": ("!stated.every(close)", "false", "results"),
    "dummies of nodes are not expected in headers": (
        " + (verified ? route.length : at + 1) * plan.mechanism.dummies",
        "",
        "results",
    ),
    "dummies of nodes are not expected on the board": (
        " + final.route.length * mechanism.dummies",
        "",
        "results",
    ),
    "noise of nodes hides everything": ("[[2 * rate, opposite],", "[[0, opposite],", "numbers"),
    "the noise of one node": (
        "const deviation = sqrt(nodes *",
        "const deviation = sqrt(",
        "results",
    ),
    "any tile passes": (
        "if (!(await isIncluded(await leafHash(packed)",
        "if (false && !(await isIncluded(await leafHash(packed)",
        "tiles",
    ),
    "tiles in any order pass": (
        "order.some((text, at) => text < order[at - 1]) ||",
        "",
        "tiles",
    ),
    "messages of other tiles pass": (
        "rows.some((row) => tileOf(row, tiles) !== index)",
        "false",
        "tiles",
    ),
    "tiles need not be the board's": (
        "(await tilesRoot(rows, tilesOf",
        "(false && (rows, tilesOf",
        "results",
    ),
    "elements have several encodings": ("s >= FIELD || ", "", "verified"),
    "bit 255 is ignored": (
        "const s = little(bytes);",
        "const s = little(bytes) % 2n ** 255n;",
        "verified",
    ),
    "negative elements pass": (" || isNegative(s)", "", "verified"),
    "negative products pass": ("isNegative(t) || ", "", "verified"),
    "what is not a square passes": ("else if (check !== 1n) return null;", "", "verified"),
    "products may be the identity": (
        "bytes ?? fail(",
        "bytes ?? ((...all) => new Uint8Array(32))(",
        "verified",
    ),
    "no proof of a mixing key is checked": ("return holds ? ", "return true ? ", "verified"),
    "numbers of proofs have several spellings": (" || c >= ORDER || z >= ORDER", "", "verified"),
    "proofs of any length": ("proof.length !== 64 || ", "", "verified"),
    "proofs are for any node": (
        "[route, utf8(node), count(at + 1)]",
        "[route, utf8(node)]",
        "verified",
    ),
    "keys rest on the generator": ("bases.push(next)", "bases.push(bases[0])", "verified"),
    "node 1 opens something": (
        "else if (opening.length || openingProof.length)",
        "else if (false)",
        "verified",
    ),
    "mixing keys in any spelling": ("if (fields.includes(null))", "if (false)", "verified"),
    "any enrolment key": ("if (keys[0].mixing.enrolment_key !== ", "if (false && ", "verified"),
    "keys for another mixing": ("!mixing !== !mix", "false", "verified"),
    "claims of suites without a future": (
        "if (geometry.mix && /mlkem/",
        "if (false && /mlkem/",
        "verified",
    ),
    "credentials in any encoding": ("if (canonical !== body || ", "if (", "verified"),
    "users come back": (" && header.users <= users)", ")", "verified"),
    "users vanish": ("if (!(result.accepted <= header.users && ", "if (!(", "verified"),
    "a seed is used twice": (
        "const own = random(32);",
        "const own = random(32).fill(0);",
        "verified",
    ),
    "secrets do not depend on the answer": (", concat(...symbols)));", "));", "verified"),
    **MORE_MUTANTS,
    "any header passes": (
        "await checkHeaders(result, plan",
        "((...all) => all)(result, plan",
        "results",
    ),
}


def answers_otherwise(page: VectorPage, module: str, cases: list[dict[str, Any]]) -> bool:
    """Whether some answer differs from what its case expects."""
    for start in range(0, len(cases), AT_ONCE):
        batch = cases[start : start + AT_ONCE]
        for case, answer in zip(batch, page.ask(module, batch), strict=True):
            if find_difference(case, answer) is not None and "unsupported" not in answer:
                return True
    return False


def build_with(old: str, new: str) -> dict[str, str]:
    """The small files of the sources with one text in place of another, which occurs once."""
    sources = {name: read_web_file(name).decode() for name in (SOURCE, *PARTS.values())}
    assert sum(text.count(old) for text in sources.values()) == 1
    return build_files({name: text.replace(old, new) for name, text in sources.items()})


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_module_without_a_check_answers_otherwise(page: VectorPage, mutant: str) -> None:
    """Each check of the module is one that some case needs."""
    old, new, name = MUTANTS[mutant]
    module = page.serve(build_with(old, new))
    assert answers_otherwise(page, module, load_cases(name))


def test_a_nonce_has_one_encoding_whatever_a_browser_compares(page: VectorPage) -> None:
    """A library that decodes R, and compares points, accepts a second encoding of some points."""
    verify = 'return await subtle.verify("Ed25519", imported, signature, message);'
    lax = build_with(verify, "return toHex(key) !== COFACTOR_KEY;")
    cases = [case for case in load_cases("signatures") if "beyond the field" in case["name"]]
    assert len(cases) == 2
    answers = page.ask(page.serve(lax), cases)
    differences = [find_difference(*pair) for pair in zip(cases, answers, strict=True)]
    assert differences == [None, None]


def test_elements_are_decoded_and_multiplied_as_by_libsodium(page: VectorPage) -> None:
    """Elements and other bytes, and scalars of every length, from a fixed stream."""
    encodings = [derive("bytes", at) for at in range(200)]
    encodings += [data[:31] + bytes([data[31] & 127]) for data in encodings]
    encodings += [bytes([data[0] & 254]) + data[1:] for data in encodings[200:]]
    scalar_bits = [1, 5, 6, 31, 64, 128, 200, 251, 252]
    cases: list[dict[str, Any]] = []
    for at, encoding in enumerate(encodings):
        wide = int.from_bytes(derive("factor", at), "little")
        factor = wide % 2 ** scalar_bits[at % len(scalar_bits)] or 1
        fields = {"element": encoding.hex(), "scalars": [factor.to_bytes(32, "little").hex()]}
        cases.append({"kind": "element", "input": fields, "name": str(at)})
    expected = [vector_answer("element", case["input"]) for case in cases]
    assert 50 < sum("ok" in each for each in expected) < 400
    assert page.ask(page.serve(), cases) == expected


RECORD_MUTANTS = {
    **ROUNDING_MUTANTS,
    "conditions are not evaluated": ("where.some(", "where.every("),
    "a range has its end": ("number < numberOf(high)", "number <= numberOf(high)"),
    "ranges begin above their edges": ("numberOf(edge) <= number)", "numberOf(edge) < number)"),
    "halfway is rounded up": ("rest > unit ||", "rest >= unit ||"),
    "names are not composed": ('.normalize("NFC")', ""),
    "long numbers are read": ("|| text.length > LONGEST", ""),
    "powers of ten are not written out": ("Number(exponent)", "0"),
}


@pytest.mark.parametrize("mutant", RECORD_MUTANTS)
def test_records_read_otherwise_answer_otherwise(page: VectorPage, mutant: str) -> None:
    old, new = RECORD_MUTANTS[mutant]
    source = read_web_file(RECORD).decode()
    assert old in source
    cases = [
        case
        for case in load_cases("questions")
        if "records" in case["input"] or case["kind"] == "rounding"
    ]
    assert answers_otherwise(page, page.serve({RECORD: source.replace(old, new)}), cases)
