"""docs/library.md and the README: their code runs, block after block, as a reader would run it."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.models import LedgerPosition, RoundPlan
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_privacy.analysis import analyse, cost_of

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def sign_certificate(folder: Path) -> None:
    """A deployment's roster and root key, and a certificate by its accountant, in one folder."""
    names = ("node-1", "node-2", "analyst", "accountant")
    deployment = create_deployment(folder, dict.fromkeys(names, "127.0.0.1:7000"))
    plan = RoundPlan(
        population="demo",
        mechanism="krr-histogram",
        size=4,
        epsilon=1.0,
        delta=1e-6,
        min_reports=200,
        max_reports=1000,
        route=("node-1", "node-2"),
    )
    cost = cost_of(plan, KRRHistogram(symbols=4, blanket=Fraction(1, 2)), 200)
    account = Account(LedgerPosition(entry=1, spent=0.5, delta=1e-5, limit=4.0), ("C1-C4",))
    header = CertificateHeader(CertificateStage.FINAL, "demo", "ab" * 16, 0, 1000)
    document = certificate(header, plan, analyse(cost, len(plan.route)), account)
    (folder / "certificate.json").write_bytes(
        deployment.identity_of("accountant").sign(document).to_bytes()
    )


def test_the_code_of_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_certificate(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    told: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) > 6
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), told)  # noqa: S102 - the page is ours
    assert told["bounds"].certified <= 1
    assert told["week"].certified > told["bounds"].certified < told["half"].certified
    assert told["year"].certified < 52 * told["bounds"].certified
    assert (
        abs(sum(told["errors"]) / len(told["errors"])) <= told["answer"].mean_standard_error
    )  # ten of its own
    assert told["checked"].certificate.stage == CertificateStage.FINAL


def test_the_lines_of_the_front_page_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.with_name("index.md")
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    exec(compile(block, str(page), "exec"), {})  # noqa: S102 - the page is ours
    certified, _, total = capsys.readouterr().out.partition("\n")
    assert 0.9 < float(certified) <= 1
    assert len(total.strip("[]\n ").split()) == 5


def test_the_lines_about_percentiles_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.with_name("how-to") / "percentiles.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    told: dict[str, Any] = {}
    exec(compile(block, str(page), "exec"), told)  # noqa: S102 - the page is ours
    assert told["distribution"].quantile(0.5).low <= 45
    assert "RangeEstimate(people=" in capsys.readouterr().out


def test_the_lines_about_several_questions_run_as_they_stand() -> None:
    page = PAGE.with_name("how-to") / "several-questions.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    told: dict[str, Any] = {}
    exec(compile(block, str(page), "exec"), told)  # noqa: S102 - the page is ours
    assert (len(told["first"]), len(told["second"])) == (3, 2)


def test_the_lines_of_the_readme_run_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(
        r"```python\n(.*?)```", (PAGE.parents[1] / "README.md").read_text(), flags=re.DOTALL
    )
    told: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), told)  # noqa: S102 - the page is ours
    assert told["bounds"].attained <= told["bounds"].certified <= 1
    assert len(capsys.readouterr().out.splitlines()) == 3
