"""`shuffledp verify`: genuine and right certificates pass, altered or boastful ones do not."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

import shuffledp as sdp
from shuffledp import cli
from shuffledp.log_proofs import LOG_PROOF, RESULT_PROOF
from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    Countersignature,
    EndedLog,
    EpsilonBounds,
    LedgerPosition,
    Manifest,
    Result,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import DocumentError, LogProofError
from shuffledp_core.mechanisms import (
    GeoShuffle,
    KRRHistogram,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_core.transparency.cosignatures import cosign, witness_key
from shuffledp_core.transparency.entries import log_key_of, reservation_entry, result_entry
from shuffledp_core.transparency.logged import check_logged_once
from shuffledp_core.transparency.notes import (
    Checkpoint,
    parse_checkpoint,
    parse_note,
    sign_note,
)
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_core.transparency.windows import LogWindow
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_privacy import rechecking
from shuffledp_privacy.analysis import analyse, cost_of
from shuffledp_privacy.tabulated import certified_epsilon_of

ROUND = "ab" * 16
YEAR_3000 = 32_503_680_000_000


def run(
    line: list[str | Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["shuffledp", *map(str, line)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out + printed.err


class Desk:
    """A deployment's documents on disk, and `shuffledp verify` in this process."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def verify(self, *arguments: str | Path) -> tuple[int, str]:
        return run(["verify", *arguments], self._monkeypatch, self._capsys)

    def compose(self, *arguments: str | Path) -> tuple[int, str]:
        return run(["compose", *arguments, "--delta", "1e-6"], self._monkeypatch, self._capsys)

    def write(self, document: Signed | Announcement, name: str = "document.json") -> Path:
        file = self.folder / name
        file.write_bytes(msgspec.json.encode(document) + b"\n")
        return file


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    names = ("node-1", "node-2", "analyst", "accountant")
    return create_deployment(
        tmp_path_factory.mktemp("keys") / "demo", dict.fromkeys(names, "127.0.0.1:7000")
    )


@pytest.fixture
def desk(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    return Desk(deployment.folder, monkeypatch, capsys)


def issued(stage: str = CertificateStage.PLAN, expires_at: int = YEAR_3000) -> Certificate:
    plan = RoundPlan(
        population="demo",
        mechanism="krr-histogram",
        size=4,
        epsilon=1.0,
        delta=1e-6,
        min_reports=200,
        max_reports=1000,
        colluding=20,
        route=("node-1", "node-2"),
    )
    cost = cost_of(plan, KRRHistogram(symbols=4, blanket=Fraction(1, 2)), 200)
    account = Account(LedgerPosition(entry=1, spent=0.5, delta=1e-5, limit=4.0), ("C1-C4",))
    header = CertificateHeader(stage, "demo", ROUND, issued_at=0, lifetime=expires_at)
    return certificate(header, plan, analyse(cost, len(plan.route)), account)


def by(deployment: Deployment, who: str, document: Any) -> Signed:
    return deployment.identity_of(who).sign(document)


def boast(document: Certificate) -> Certificate:
    """The same certificate with an ε that its own parameters do not support."""
    honest = document.epsilon.certified
    assert honest is not None
    attained = document.epsilon.attained
    better = EpsilonBounds(certified=honest * 0.999, attained=min(attained or 0.0, honest * 0.99))
    return msgspec.structs.replace(document, epsilon=better)


def test_a_certificate_passes_with_the_roster_beside_it_and_is_not_called_genuine(
    desk: Desk, deployment: Deployment
) -> None:
    code, words = desk.verify(desk.write(by(deployment, "accountant", issued())))
    assert code == 0
    for said in (
        "numbers right, origin NOT shown",
        "signature: holds",
        "computed again",
        "valid until 3000",
    ):
        assert said in words
    assert (
        f"root key used: {deployment.root_key}, only because it is in "
        f"{desk.folder / 'root.pub'}" in words
    )
    assert "genuine" not in words


def test_a_folder_with_a_made_up_root_key_is_not_called_genuine(
    desk: Desk, deployment: Deployment, tmp_path: Path
) -> None:
    """Anyone can sign a certificate with keys of their own, and put their roster and root key
    beside it."""
    names = ("node-1", "node-2", "analyst", "accountant")
    forger = create_deployment(tmp_path / "demo", dict.fromkeys(names, "127.0.0.1:7000"))
    file = tmp_path / "demo" / "certificate.json"
    file.write_bytes(by(forger, "accountant", issued()).to_bytes())
    code, words = desk.verify(file)
    assert (code, "genuine" in words, forger.root_key in words) == (0, False, True)
    (report,) = json.loads(desk.verify(file, "--format", "json")[1])
    assert report["genuine"] is False
    assert not sdp.verify(file)[0].genuine
    for root in (deployment.root_key, desk.folder / "root.pub"):
        assert desk.verify(file, "--root-key", root)[0] == 1


def test_a_named_root_key_makes_it_genuine(desk: Desk, deployment: Deployment) -> None:
    file = desk.write(by(deployment, "accountant", issued()))
    for root in (deployment.root_key, desk.folder / "root.pub"):
        code, words = desk.verify(file, "--root-key", root)
        assert code == 0
        assert "genuine and right" in words
        assert f"root key used: {deployment.root_key}, as you named it" in words
    accountant = deployment.identity_of("accountant").public_key.hex()
    assert (
        f"accountant's key used: {accountant}, as you named it"
        in desk.verify(file, "--key", accountant)[1]
    )
    code, words = desk.verify(file, "--root-key", "no such file")
    assert (code, "cannot read the root key no such file" in words) == (2, True)


def test_the_roster_the_root_key_or_the_accountants_key_may_be_named(
    desk: Desk, deployment: Deployment, tmp_path: Path
) -> None:
    file = tmp_path / "certificate.json"
    file.write_bytes(by(deployment, "accountant", issued()).to_bytes())
    key = deployment.identity_of("accountant").public_key.hex()
    assert (
        desk.verify(file, "--roster", deployment.roster_file, "--root-key", deployment.root_key)[0]
        == 0
    )
    assert desk.verify(file, "--roster", deployment.roster_file)[0] == 0
    assert desk.verify(file, "--key", key)[0] == 0
    assert desk.verify(file)[0] == 2  # no roster beside it


def test_json_says_what_was_checked(desk: Desk, deployment: Deployment) -> None:
    code, words = desk.verify(
        desk.write(by(deployment, "accountant", issued())), "--format", "json"
    )
    (report,) = json.loads(words)
    assert code == 0
    assert report["round"] == ROUND
    assert report["holds"] is True
    assert report["epsilon"] == issued().epsilon.certified
    assert len(report["checked"]) >= 5


def test_any_flipped_bit_is_found(desk: Desk, deployment: Deployment) -> None:
    original = desk.write(by(deployment, "accountant", issued())).read_bytes()
    for place in range(0, len(original), 29):
        altered = bytearray(original)
        altered[place] ^= 1
        file = desk.folder / "altered.json"
        file.write_bytes(altered)
        code, words = desk.verify(file)
        assert code == 1, f"byte {place}"
        assert words.startswith("error: ")


@pytest.mark.parametrize("who", ["analyst", "node-1"])
def test_a_certificate_signed_by_somebody_else_is_refused(
    desk: Desk, deployment: Deployment, who: str
) -> None:
    forged = msgspec.structs.replace(by(deployment, who, issued()), signer="accountant")
    code, words = desk.verify(desk.write(forged))
    assert code == 1
    assert "valid signature of 'accountant'" in words


def test_a_wrong_key_is_refused(desk: Desk, deployment: Deployment) -> None:
    file = desk.write(by(deployment, "accountant", issued()))
    other = deployment.identity_of("analyst").public_key.hex()
    assert desk.verify(file, "--key", other)[0] == 1
    assert desk.verify(file, "--root-key", other)[0] == 1
    code, words = desk.verify(file, "--key", "abcd")
    assert (code, "2 bytes instead of 32" in words) == (2, True)
    assert desk.verify(file, "--key", other, "--root-key", other)[0] == 2


def test_a_number_better_than_the_truth_is_refused_though_signed(
    desk: Desk, deployment: Deployment
) -> None:
    code, words = desk.verify(desk.write(by(deployment, "accountant", boast(issued()))))
    assert code == 1
    assert "claims epsilon" in words


HOSTILE: dict[str, tuple[Any, str]] = {
    "rr-shuffle": (
        RRShuffle(max_value=2**31 - 1, randomise=Fraction(1, 10**9)),
        "a round has at most 1,000,000",
    ),
    "quantised-rr": (
        QuantisedRR(max_value=2**31 - 2, bits=2**31 - 2, randomise=Fraction(1, 10**9)),
        "a round has at most 1,000,000",
    ),
    "geo-shuffle": (
        GeoShuffle(max_value=2**30, epsilon_geo=Fraction(1), padding=2**30),
        "a round has at most 1,000,000",
    ),
    "noise": (
        SGDLShuffle(max_value=1, noise_epsilon=Fraction(1, 2**62), shares=10, padding=1000),
        "noise of scale",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_numbers_that_no_round_has_are_refused_before_anything_is_computed(
    desk: Desk, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec, said = HOSTILE[name]
    hostile = msgspec.structs.replace(
        issued(), mechanism=spec, users=10**9, honest=10**9, max_distance=spec.max_value
    )
    file = desk.write(by(deployment, "accountant", hostile))

    def computed(*_: object) -> None:
        pytest.fail("computed from hostile numbers")

    for function in ("certified_epsilon_of", "corrupted_bounds", "standard_error"):
        monkeypatch.setattr(rechecking, function, computed)
    code, words = desk.verify(file, "--root-key", deployment.root_key)
    assert (code, said in words) == (1, True)


SLOW: dict[str, tuple[Any, int]] = {
    "hardly any padding": (
        GeoShuffle(max_value=65_101, epsilon_geo=Fraction(1385, 10_000), padding=5),
        1000,
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_numbers_that_take_too_long_to_compute_are_refused_after_bounded_work(
    desk: Desk, deployment: Deployment, name: str
) -> None:
    spec, users = SLOW[name]
    hostile = msgspec.structs.replace(
        issued(),
        mechanism=spec,
        users=users,
        honest=users,
        adjacency=Adjacency.METRIC,
        max_distance=spec.max_value,
        delta=1e-12,
    )
    code, words = desk.verify(desk.write(by(deployment, "accountant", hostile)))
    assert (code != 0, "more than 1.1e+07 evaluations" in words) == (True, True)
    assert "--patient" in words


def test_a_patient_check_has_no_limit(
    desk: Desk, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused for its work under a limit is answered with `--patient`."""
    monkeypatch.setattr(rechecking, "MOST_WORK", 1.0)
    certified_epsilon_of.cache_clear()
    genuine = desk.write(by(deployment, "accountant", issued()))
    refused, words = desk.verify(genuine, "--root-key", deployment.root_key)
    assert (refused != 0, "--patient" in words) == (True, True)
    code, words = desk.verify(genuine, "--root-key", deployment.root_key, "--patient")
    assert (code, "computed again, not better than the truth" in words) == (0, True)


def test_a_certificate_of_another_deployment_is_refused(desk: Desk, deployment: Deployment) -> None:
    foreign = msgspec.structs.replace(issued(), deployment="elsewhere")
    code, words = desk.verify(desk.write(by(deployment, "accountant", foreign)))
    assert (code, "elsewhere" in words) == (1, True)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (CertificateStage.PLAN, "note: this plan expired"),
        (CertificateStage.FINAL, "final: what happened"),
    ],
)
def test_the_past_is_a_note_and_no_failure(
    desk: Desk, deployment: Deployment, stage: str, said: str
) -> None:
    code, words = desk.verify(
        desk.write(by(deployment, "accountant", issued(stage, expires_at=1000)))
    )
    assert (code, said in words) == (0, True)


def result(
    deployment: Deployment, final: Certificate, round_id: str = ROUND, **fields: Any
) -> Signed:
    document = Result(
        deployment="demo",
        round_id=round_id,
        outcome="published",
        plan_certificate=by(deployment, "accountant", issued()),
        final_certificate=by(deployment, "accountant", final),
        **fields,
    )
    return by(deployment, "analyst", document)


def test_both_certificates_in_a_result_are_checked(desk: Desk, deployment: Deployment) -> None:
    code, words = desk.verify(desk.write(result(deployment, issued(CertificateStage.FINAL))))
    assert code == 0
    assert "plan certificate in the result" in words
    assert "final certificate in the result" in words
    assert (
        desk.verify(desk.write(result(deployment, boast(issued(CertificateStage.FINAL)))))[0] == 1
    )
    assert (
        desk.verify(desk.write(result(deployment, issued(CertificateStage.FINAL), "cd" * 16)))[0]
        == 1
    )


def manifest(deployment: Deployment) -> Signed:
    document = Manifest(
        deployment="demo",
        round_id=ROUND,
        certificate=by(deployment, "accountant", issued()),
        route=(),
        geometry=Geometry(suite="sealed-box", hops=2, messages_per_user=1, symbol_bytes=1),
        min_reports=200,
        max_reports=1000,
        opens_at=0,
        closes_at=1,
    )
    return by(deployment, "analyst", document)


def test_the_certificate_in_a_manifest_and_in_an_announcement_is_checked(
    desk: Desk, deployment: Deployment
) -> None:
    signed = manifest(deployment)
    code, printed = desk.verify(desk.write(signed))
    assert (code, "certificate in the manifest" in printed) == (0, True)
    said = Countersignature(round_id=ROUND, node="node-1", manifest_digest=document_digest(signed))
    other = msgspec.structs.replace(said, manifest_digest="00" * 32)
    for who, words, code in (
        ("node-1", said, 0),
        ("analyst", said, 1),
        ("node-2", said, 1),
        ("node-1", other, 1),
    ):
        announced = Announcement(manifest=signed, countersignatures=(by(deployment, who, words),))
        assert desk.verify(desk.write(announced))[0] == code
    key = deployment.identity_of("accountant").public_key.hex()
    assert desk.verify(desk.write(signed), "--key", key)[0] == 2


def test_what_holds_no_certificate_is_refused(desk: Desk, deployment: Deployment) -> None:
    empty = by(deployment, "analyst", Result(deployment="demo", round_id=ROUND, outcome="failed"))
    assert desk.verify(desk.write(empty))[0] == 1
    assert desk.verify(deployment.roster_file)[0] == 1
    (desk.folder / "text.json").write_text("not json")
    code, words = desk.verify(desk.folder / "text.json")
    assert (code, "not a signed document" in words) == (1, True)
    assert desk.verify(desk.folder / "missing.json")[0] == 2


def test_kept_responses_of_two_populations_are_added_up() -> None:
    """Each population of each deployment has a response of its own: who is in two of them shows
    both (K14)."""
    rappor = RapporHistogram(
        symbols=4, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    )
    here = msgspec.structs.replace(issued(), mechanism=rappor)
    one = sdp.compose([here] * 3, delta=1e-6)
    assert one.corrupted == pytest.approx(2 * math.log(3))
    for there in (
        msgspec.structs.replace(here, population="old"),
        msgspec.structs.replace(here, deployment="other"),
    ):
        both = sdp.compose([here, here, there], delta=1e-6)
        assert both.rounds == 3
        assert both.corrupted == pytest.approx(4 * math.log(3))
        assert both.certified is not None
        assert both.certified > 1.5 * (one.certified or 9)
    # Of rounds that draw anew those of two populations are alike.
    assert (
        len(
            sdp.compose(
                [issued(), msgspec.structs.replace(issued(), population="old")], delta=1e-6
            ).parts
        )
        == 1
    )


def test_signed_certificates_compose_once_they_are_checked(
    desk: Desk, deployment: Deployment
) -> None:
    file = desk.write(by(deployment, "accountant", issued()))
    code, out = desk.compose(file, "--times", "5", "--format", "json")
    told = json.loads(out)
    five = sdp.compose([issued()] * 5, delta=1e-6)
    assert (code, told["rounds"], told["epsilon"]["certified"]) == (0, 5, five.certified)
    assert told["parts"][0]["honest"] == 180
    code, words = desk.compose(desk.write(by(deployment, "accountant", boast(issued()))))
    assert (code, "claims epsilon" in words) == (1, True)
    assert desk.compose(file, "--key", "ab" * 32)[0] == 1


def test_the_library_verifies_as_the_command_does(desk: Desk, deployment: Deployment) -> None:
    file = desk.write(by(deployment, "accountant", issued()))
    accountant = deployment.identity_of("accountant").public_key
    (checked,) = sdp.verify(file)
    assert checked.certificate == issued()
    (named,) = sdp.verify(str(file), root_key=(desk.folder / "root.pub").read_text().strip())
    assert (named.genuine, named.lines[1:]) == (True, checked.lines[1:])
    assert sdp.verify(file, root_key=str(desk.folder / "root.pub")) == (named,)
    (by_key,) = sdp.verify(file, key=accountant)
    assert sdp.verify(file, key=accountant.hex()) == (by_key,)
    assert (by_key.genuine, by_key.lines[1:]) == (True, checked.lines[1:])
    assert sdp.certify(checked.certificate).certified is not None
    assert "genuine and right" in named._repr_html_()
    with pytest.raises(DocumentError, match="claims epsilon"):
        sdp.verify(desk.write(by(deployment, "accountant", boast(issued()))))


def logged(deployment: Deployment, signed: Signed, witnesses: tuple[str, ...]) -> str:
    """The proof of a log whose second of three entries is of this certificate or result."""
    if signed.label == Result.label:
        entry = result_entry("demo", ROUND, document_digest(signed)).to_bytes()
    else:
        entry = reservation_entry("demo", ROUND, signed).to_bytes()
    tree = MerkleTree(leaf_hash(data) for data in (b"first", entry, b"third"))
    key = log_key_of(deployment.roster)
    text = Checkpoint(key.name, tree.size, tree.root()).to_text()
    note = sign_note(text, key, deployment.identity_of("accountant").key.sign)
    for name in witnesses:
        identity = deployment.identity_of(name)
        note += cosign(text, witness_key(name, identity.public_key), identity.key.sign, 1)
    window = LogWindow.of(tree, tree.size).to_bytes()
    hashes = tuple(tree.inclusion_proof(1))
    return InclusionProof(1, hashes, note.encode(), window).to_bytes().decode()


@pytest.fixture(scope="module")
def witnessed(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    names = ("node-1", "node-2", "analyst", "accountant")
    return create_deployment(
        tmp_path_factory.mktemp("witnessed") / "demo",
        dict.fromkeys(names, "127.0.0.1:7000"),
        witnesses=dict.fromkeys(("witness-1", "witness-2"), "http://127.0.0.1:7000"),
    )


def test_a_folder_of_a_witnessed_deployment_is_verified_with_its_proof(
    witnessed: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(witnessed.folder, monkeypatch, capsys)
    plan = by(witnessed, "accountant", issued())
    final, both = issued(CertificateStage.FINAL), ("witness-1", "witness-2")
    (desk.folder / "manifest.json").write_bytes(manifest(witnessed).to_bytes())
    signed = result(witnessed, final, manifest_digest=document_digest(manifest(witnessed)))
    for named, why in ((msgspec.UNSET, "does not name its"), ("ab" * 32, "a different manifest")):
        desk.write(result(witnessed, final, manifest_digest=named), "result.json")
        code, words = desk.verify(desk.folder)
        assert (code, why in words) == (1, True), words
    file = desk.write(signed, "result.json")
    code, words = desk.verify(file)
    assert (code, "public log: NOT checked" in words) == (0, True)
    code, words = desk.verify(desk.folder)
    assert (code, f"has no {LOG_PROOF}" in words) == (1, True)
    proof = desk.folder / LOG_PROOF
    proof.write_text(logged(witnessed, plan, both))
    code, words = desk.verify(desk.folder)
    assert (code, f"has no {RESULT_PROOF}" in words) == (1, True)
    beside = desk.folder / RESULT_PROOF
    for mine, why in (
        (logged(witnessed, plan, both), "does not show"),
        (logged(witnessed, signed, ("witness-1",)), "1 of the log's 2 witnesses"),
    ):
        beside.write_text(mine)
        code, words = desk.verify(desk.folder)
        assert (code, why in words) == (1, True), words
    beside.write_text(logged(witnessed, signed, both))
    code, words = desk.verify(desk.folder)
    assert (code, "public log: it has the result, too" in words) == (0, True)
    assert (
        "public log: the plan certificate is in shuffledp-ledger/demo at size 3, signed by "
        "witness-1, witness-2 (2 of 2 witnesses are needed)" in words
    )
    other = by(witnessed, "accountant", msgspec.structs.replace(issued(), issued_at=1))
    for wrong, why in (
        (logged(witnessed, other, both), "does not show"),
        (logged(witnessed, plan, ("witness-2",)), "1 of the log's 2 witnesses"),
        ("nothing", "proof"),
    ):
        proof.write_text(wrong)
        code, words = desk.verify(desk.folder)
        assert (code, why in words) == (1, True), words


def test_an_announcement_of_a_witnessed_deployment_is_verified_with_its_proof(
    witnessed: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(witnessed.folder, monkeypatch, capsys)
    plan = by(witnessed, "accountant", issued())
    proof = logged(witnessed, plan, ("witness-1", "witness-2"))
    signed = manifest(witnessed)
    bare = Announcement(manifest=signed, countersignatures=())
    code, words = desk.verify(desk.write(bare))
    assert (code, "has no proof" in words) == (1, True)
    code, words = desk.verify(desk.write(msgspec.structs.replace(bare, log=proof)))
    assert (code, "at size 3, signed by witness-1, witness-2" in words) == (0, True)


def test_a_saved_proof_holds_after_its_log_has_ended_as_it_was(witnessed: Deployment) -> None:
    plan = by(witnessed, "accountant", issued())
    proof = logged(witnessed, plan, ("witness-1", "witness-2")).encode()
    root = parse_checkpoint(parse_note(InclusionProof.from_bytes(proof).note).text).root.hex()
    terms = witnessed.roster.log_terms
    assert terms is not None
    for size, ending, holds in ((3, root, True), (9, "00" * 32, True), (3, "00" * 32, False)):
        ended = msgspec.structs.replace(terms, ended=(EndedLog(size=size, root=ending),))
        roster = msgspec.structs.replace(witnessed.roster, log=ended)
        if holds:
            logged_once = check_logged_once(proof, roster, "demo", ROUND, plan)
            assert logged_once.checkpoint.origin == "shuffledp-ledger/demo"
        else:
            with pytest.raises(LogProofError, match="ended at size 3"):
                check_logged_once(proof, roster, "demo", ROUND, plan)
