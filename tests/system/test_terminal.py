"""What commands write on terminals that lack letters, into pipes, and while something takes its
time."""

from __future__ import annotations

import importlib
import io
import os
import re
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from commands import Shell
from rich.console import Console

from shuffledp import progress
from shuffledp.progress import Stages
from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_adversary.attacks.findings import ClaimedLimit, ClaimVerdict, Finding
from shuffledp_adversary.attacks.present import verdict_words
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.documents.models import LedgerPosition, RoundPlan
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.runtime.terminal import prepare_terminal
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_ops.rounds.present import print_report
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_privacy.analysis import analyse, cost_of

CERTIFY = [
    "certify",
    "krr-histogram",
    "--users",
    "1000",
    "--symbols",
    "3",
    "--epsilon0",
    "1",
    "--delta",
    "1e-6",
]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PYTHONIOENCODING": "ascii"}, CERTIFY),
        ({"PYTHONIOENCODING": "latin-1"}, ["calibrate", "--help"]),
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, CERTIFY),
    ],
    ids=["ascii", "latin-1", "C"],
)
def test_a_terminal_without_greek_gets_words_and_no_traceback(
    tmp_path: Path, environment: dict[str, str], words: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp.cli", *words], cwd=tmp_path, env={**os.environ,
        **environment},
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode("ascii")
    assert "eps" in said
    assert "delta" in said
    assert words is not CERTIFY or "?" not in said


def test_letters_of_the_field_become_words_and_others_lose_their_accents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    prepare_terminal()
    sys.stdout.write("ε ≤ 1 ± .5, δ ≥ 0 │ José ─ 語")
    sys.stdout.flush()
    assert written.getvalue() == b"eps <= 1 +/- .5, delta >= 0 | Jose - ?"


def test_a_terminal_with_all_letters_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    prepare_terminal()
    sys.stdout.write("ε ≤ 1")
    sys.stdout.flush()
    assert written.getvalue().decode() == "ε ≤ 1"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_an_output_that_takes_nothing_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "shuffledp.cli", *CERTIFY], stdout=full,
            stderr=subprocess.PIPE, text=True,
            timeout=240, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


class Listening(io.StringIO):
    """Text that somebody waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


def test_in_a_pipe_a_line_says_how_far_the_newest_stage_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    pipe = Listening()
    stages = Stages(Console(file=pipe))
    stages.update("start", 6, 6)  # before the first line, which is said as soon as they are shown
    stages.update("sealing", 1234, 20_000)
    with stages:
        assert pipe.written.wait(60)
    assert re.fullmatch(r"sealing: 1,234 of 20,000 \(\d+ s\)\n", pipe.getvalue())


def test_in_a_pipe_a_stage_that_nobody_can_count_has_no_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    pipe = Listening()
    stages = Stages(Console(file=pipe))
    stages.begin("computing again")
    with stages:
        assert pipe.written.wait(60)
    assert re.fullmatch(r"computing again \(\d+ s\)\n", pipe.getvalue())


def test_what_is_over_soon_says_nothing_in_a_pipe() -> None:
    pipe = Listening()
    with Stages(Console(file=pipe)) as stages:
        stages.update("start", 1, 6)
        stages.finish()
    assert pipe.getvalue() == ""


def test_on_a_terminal_there_are_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Listening()
    with Stages(Console(file=terminal, force_terminal=True, width=100)) as stages:
        stages.update("sealing", 3, 7)
        stages.begin("certifying")
        stages.finish()
    for words in ("sealing", "7/7", "certifying"):
        assert words in terminal.getvalue()
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 3600.0)
    late = Listening()
    with Stages(Console(file=late, force_terminal=True), after=3600.0) as stages:
        stages.begin("certifying")
    assert "certifying" not in late.getvalue()


UNDER_ANY_SHELL = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""Typer looks for the shell among the processes above; under make there may be none that it knows.
"""


def test_the_version_help_and_completion_are_there(
    shuffledp: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNDER_ANY_SHELL, "1")
    code, out, _ = shuffledp("--version")
    assert code == 0
    assert out.split()[0] == "shuffledp"
    for words in (
        ["-h"],
        ["demo", "-h"],
        ["results", "list", "-h"],
        ["certify", "geo-shuffle", "-h"],
    ):
        code, out, _ = shuffledp(*words)
        assert code == 0
        assert "Usage:" in out
    code, out, _ = shuffledp("--show-completion", "bash")
    assert code == 0
    assert "complete -o default" in out


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("shuffledp_client", "shuffledp-client"),
        ("shuffledp_shuffler", "shuffledp-shuffler"),
        ("shuffledp_analyst", "shuffledp-analyst"),
        ("shuffledp_accountant", "shuffledp-accountant"),
    ],
)
def test_so_they_are_for_every_party(
    module: str, program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(f"{module}.cli").main
    monkeypatch.setenv(UNDER_ANY_SHELL, "1")

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", [program, *words])
        with pytest.raises(SystemExit) as stop:
            sys.exit(main())
        assert not stop.value.code
        return capsys.readouterr().out

    assert run("--version").split()[0] == program
    assert "Usage:" in run("-h")
    assert "_COMPLETE=" in run("--show-completion", "bash")


def test_a_claim_that_holds_although_the_estimate_is_beyond_it_is_explained() -> None:
    def finding(measured: float, low: float) -> Finding:
        return Finding(
            "s",
            "ε",
            ClaimedLimit("certificate", 2.096),
            measured,
            low,
            float("inf"),
            20_000,
            defended=True,
        )

    chance = finding(2.134, 1.98)
    assert chance.verdict is ClaimVerdict.HOLDS
    assert chance.beyond_by_chance
    assert not finding(2.05, 1.98).beyond_by_chance
    assert not finding(2.2, 2.1).beyond_by_chance
    table = Listening()
    Console(file=table, width=200).print(verdict_words(chance))
    assert (
        "the estimate is beyond it by chance: the interval reaches down to 1.98" in table.getvalue()
    )


def test_an_estimate_outside_its_interval_is_said_to_be_noise() -> None:
    def report(value: float) -> RoundReport:
        estimate = Estimate(
            quantity="sum", values=(value,), standard_errors=(36.6,), lows=(0.0,), highs=(40.0,)
        )
        plan = RoundPlan(population="demo", mechanism="rr-shuffle", size=20, epsilon=1.0,
        delta=1e-3, min_reports=2,
                         max_reports=2, route=("node-1", "node-2"))  # fmt: skip
        cost = cost_of(plan, RRShuffle(max_value=20, randomise=Fraction(1, 2)), 2)
        account = Account(LedgerPosition(entry=1, spent=None, delta=1e-3, limit=1.0), ())
        header = CertificateHeader(CertificateStage.FINAL, "demo", "ab" * 16, 0, 1)
        final = certificate(header, plan, analyse(cost, len(plan.route)), account)
        return RoundReport("ab" * 16, 2, 2, 40, estimate, final, "sealed-box", {}, {}, drawn_from=1)

    noisy, usual = report(-29.0), report(12.0)
    assert not noisy.estimate_in_interval
    assert noisy.to_dict()["estimate_in_interval"] is False
    assert usual.estimate_in_interval
    for shown, said in ((noisy, True), (usual, False)):
        written = Listening()
        print_report(shown, Console(file=written, width=200))
        assert ("intervals are clipped to possible values" in written.getvalue()) is said
        assert "2 users drawn with replacement from 1 rows" in written.getvalue()
