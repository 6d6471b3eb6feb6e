"""The report of a lab, and the questions of a viva: about this student's run, and harmless to
whoever opens them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from offline import from_elsewhere
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.results import CheckResult, LabResult
from shuffledp_labs.student.source import digest_of_program
from shuffledp_labs.teaching.report import (
    PredictedAnswer,
    Report,
    as_html,
    data_address,
    page,
    report_of,
    viva_of,
    write_report,
)
from shuffledp_labs.teaching.starting import start
from shuffledp_labs.teaching.viva import viva

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c6360f8cfc0000003010100c9fe92"
    "ef0000000049454e44ae426082"
)
SOURCE = """\
def below(n, coins):
    if n < 1:
        raise ValueError("nothing to draw from")
    return coins.below(n) + 1
"""
CHECKS = (
    CheckResult("B-law", 25, 25, "passed", "5 laws <equal>", 1.0),
    CheckResult("C-mean", 0, 50, "failed", "off by 1/3", 1.0),
)
RESULT = LabResult(1, "ada", "17" * 16, "ab" * 32, 25, CHECKS, finished=True)


WHOLE = Report(
    number=1,
    title="Lie well",
    student="ada",
    titles={"B-law": "the law is exact"},
    result=RESULT,
    predicted=[PredictedAnswer("How far off?", "<b>3</b> people")],
    prediction_points=5,
    pictures=(),
    explained="**Mine.**",
    explanations=("Why?",),
    source=SOURCE,
)


def test_a_report_shows_points_predictions_beside_results_words_and_code() -> None:
    text = page(WHOLE)
    for shown in (
        "<strong>30</strong>",
        "the law is exact",
        "off by 1/3",
        "How far off?",
        "<th>before the lab</th>",
        "<th>what it saw</th>",
        "<strong>Mine.</strong>",
    ):
        assert shown in text
    assert 'class="k">def</span>' in text
    assert "17" * 16 in text


def test_a_report_before_any_run_says_what_to_do() -> None:
    assert "shuffledp lab check" in page(replace(WHOLE, result=None))


def test_nothing_of_a_student_is_more_than_text(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script><img src="https://example.org/a.png">'
    words = f"{hostile}\n\n![there](https://example.org/b.png)\n\n[here](javascript:alert(1))"
    everywhere = replace(
        WHOLE,
        student=hostile,
        source=f"# {hostile}",
        explained=words,
        predicted=[PredictedAnswer("?", hostile)],
        notes=(hostile,),
    )
    text = page(everywhere)
    assert "<script" not in text
    assert 'href="javascript' not in text
    assert "default-src 'none'" in text
    (tmp_path / "report.html").write_text(text)
    assert from_elsewhere(tmp_path) == []


def test_a_picture_is_in_the_file_and_nothing_else_passes_for_one(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(PIXEL)
    (tmp_path / "page.png").write_text("<html>")
    (tmp_path / "link.png").symlink_to(tmp_path / "good.png")
    assert data_address(tmp_path / "good.png").startswith("data:image/png;base64,")
    assert [data_address(tmp_path / name) for name in ("page.png", "link.png", "none.png")] == [
        "",
        "",
        "",
    ]
    assert 'src="data:image/png' in page(replace(WHOLE, pictures=[tmp_path / "good.png"]))


def test_a_report_is_read_in_the_dark_and_on_paper_too() -> None:
    text = page(WHOLE)
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text


def test_what_stands_between_backticks_is_code_and_still_only_text() -> None:
    check = CheckResult("B-law", 25, 25, "passed", "3 bytes of `random<b>`, and a ` alone", 1.0)
    result = LabResult(1, "ada", "17" * 16, "ab" * 32, 25, (check,), finished=True)
    text = page(replace(WHOLE, result=result))
    assert "3 bytes of <code>random&lt;b&gt;</code>, and a ` alone" in text


def test_tables_of_a_students_words_are_tables() -> None:
    assert "<td>1</td>" in as_html("| a |\n|---|\n| 1 |\n")


def test_the_report_of_a_folder_says_when_code_and_points_do_not_belong_together(
    tmp_path: Path,
) -> None:
    lab = lab_of(1)
    place = start(lab, tmp_path / "lab-1", "ada")
    result = msgspec.structs.replace(RESULT, digest=digest_of_program(place.work), finished=False)
    assert report_of(lab, place.path, result, "?").notes == (
        ["This run was broken off; the checks that are not listed have not run."]
    )
    place.work.write_text("# changed\n")
    assert any("changed since" in note for note in report_of(lab, place.path, result, "?").notes)
    assert write_report(1, place.path, None, None) == place.path / "report.html"


def test_a_viva_asks_about_this_run_this_prediction_and_this_line() -> None:
    first, second, third = viva(
        RESULT, {"B-law": "the law is exact."}, [("How far off?", "3")], SOURCE, ""
    )
    assert "5 laws <equal>" in first.text or "off by 1/3" in first.text
    assert '"3"' in second.text
    assert any(line.strip() in third.text for line in SOURCE.splitlines()[1:])
    assert all(question.listen_for for question in (first, second, third))


def test_two_examiners_ask_the_same_and_another_run_is_asked_otherwise() -> None:
    def asked(nonce: str) -> tuple[object, ...]:
        return viva(
            msgspec.structs.replace(RESULT, nonce=nonce), {}, [("a", "1"), ("b", "2")], SOURCE, ""
        )

    assert asked("00") == asked("00")
    assert (
        len({asked(f"{nonce:02x}") for nonce in range(64)}) > 8
    )  # of 2 * 2 * 5 trios, drawn by SHA-256


def test_nobody_is_asked_about_a_line_that_was_handed_out() -> None:
    *_, third = viva(RESULT, {}, [], SOURCE, SOURCE)
    assert "as it was handed out" in third.text


@pytest.mark.parametrize(
    "source", ["def (", "", "x = 1\0", "(" * 5000], ids=["syntax", "empty", "nul", "nested"]
)
def test_a_program_that_is_none_is_asked_about_all_the_same(source: str) -> None:
    assert len(viva(msgspec.structs.replace(RESULT, checks=()), {}, [], source, "")) == 3


def test_a_viva_of_a_folder_needs_a_run(tmp_path: Path) -> None:
    place = start(lab_of(1), tmp_path / "lab-1", "ada")
    with pytest.raises(LabUsageError, match="shuffledp lab check"):
        viva_of(1, place.path, None)
    file = tmp_path / "result.json"
    file.write_bytes(msgspec.json.encode(RESULT))
    assert len(viva_of(1, place.path, file)) == 3


@pytest.mark.parametrize(
    "line",
    [
        "(1,) - o",
        "o + (1,)",
        "[0] * o",
        "o[1:] + o[:1]",
        "b'' + o",
        "'%s' % o",
        "list(o) + o",
        "f'{o}' + o",
        "o + [1] + o",
    ],
)
def test_a_viva_does_not_ask_what_a_type_error_would_do(line: str) -> None:
    *_, third = viva(RESULT, {}, [], f"def f(o):\n    return {line}\n", "")
    assert "as it was handed out" in third.text  # no line to ask about
    *_, third = viva(RESULT, {}, [], "def f(o):\n    return o + 1\n", "")
    assert "`o + 1` were `o - 1`" in third.text
