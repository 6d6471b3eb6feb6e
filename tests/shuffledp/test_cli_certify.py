"""`shuffledp certify` through its own front door: numbers, words, refusals and pictures."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from shuffledp import cli, progress
from shuffledp.commands.options import OutputFormat, Presentation, spread
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, epsilon_bounds

KRR = "krr-histogram --users 10000 --symbols 10 --epsilon0 1 --delta 1e-6"
LOCAL = "local --users 10000 --epsilon0 1 --delta 1e-6"
RR = "rr-shuffle --users 1000 --max-value 20 --randomise 0.1 --delta 1e-6 --adjacency metric"
SMALL_GEO = "geo-shuffle --users 50 --max-value 4 --epsilon-geo 0.5 --delta 1e-4"

KEYS = {
    "mechanism",
    "parameters",
    "users",
    "honest",
    "adjacency",
    "max_distance",
    "rounds",
    "delta",
    "epsilon",
    "corrupted",
    "messages_per_user",
    "standard_error",
    "standard_error_of_one_node",
    "basis",
}


class Shell:
    """`shuffledp` in this process, from arguments to exit code, as `main` runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(
            progress, "PATIENCE_SECONDS", 3600.0
        )  # how slow this machine is must not show in the output

    def run(self, line: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["shuffledp", *line.split()])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = self._capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    def certify(self, line: str) -> dict[str, Any]:
        code, out, err = self.run(f"certify {line} --format json")
        assert (code, err) == (0, "")
        answer: dict[str, Any] = json.loads(out)
        assert set(answer) == KEYS
        return answer


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_a_histogram_of_ten_symbols_meets_the_known_bracket(shell: Shell) -> None:
    answer = shell.certify(KRR)
    epsilon = answer["epsilon"]
    assert 0.02324 <= epsilon["attained"] <= epsilon["certified"] <= 0.02326
    assert answer["messages_per_user"] == 1
    # ε_L is the local parameter asked for, at most rounded down by the blanket's last bit.
    assert 0.9999 < answer["corrupted"]["epsilon"] <= 1.0
    assert answer["corrupted"]["delta"] == 0


def test_the_blanket_is_the_exact_rational_that_clients_sample(shell: Shell) -> None:
    blanket = Fraction(shell.certify(KRR)["parameters"]["blanket"])
    likely, other = 1 - blanket + blanket / 10, blanket / 10
    assert math.log(likely / other) <= 1.0
    assert math.log(likely / other) > 1.0 - 1e-5


def test_any_local_randomiser_meets_the_known_number(shell: Shell) -> None:
    answer = shell.certify(LOCAL)
    assert 0.0356 <= answer["epsilon"]["attained"] < answer["epsilon"]["certified"] <= 0.05302
    assert answer["epsilon"]["certified"] < answer["epsilon"]["published"]
    assert answer["max_distance"] is None
    assert answer["standard_error"] is None


def test_randomised_bits_are_certified_between_attained_and_the_pure_guarantee(
    shell: Shell,
) -> None:
    answer = shell.certify(RR)
    epsilon = answer["epsilon"]
    assert 0 < epsilon["attained"] <= epsilon["certified"] < answer["corrupted"]["epsilon"]
    assert answer["corrupted"]["epsilon"] == pytest.approx(math.log(1.9 / 0.1), rel=1e-9)
    assert answer["messages_per_user"] == 20
    # Each of 20,000 bits is flipped with probability 1/20, and the sum is divided by 0.9.
    assert answer["standard_error"] == pytest.approx(math.sqrt(20000 * 0.05 * 0.95) / 0.9, rel=1e-6)
    assert any(line.startswith("published:") for line in answer["basis"])


def test_laplace_noise_per_user_meets_the_exact_metric_number(shell: Shell) -> None:
    line = (
        "geo-shuffle --users 100 --max-value 1000 --epsilon-geo 0.2 --delta 1e-4 --adjacency "
        "metric --max-distance 1000"
    )
    answer = shell.certify(line)
    # ε* of unclamped noise is .1033 at d = 1000; clamping may cost a hundredth of it.
    assert 0.1030 < answer["epsilon"]["attained"] <= answer["epsilon"]["certified"] <= 0.10435
    assert answer["epsilon"]["published"] == pytest.approx(0.0665, abs=5e-5)
    assert answer["corrupted"]["epsilon"] == pytest.approx(0.2)
    padding = answer["parameters"]["padding"]
    assert answer["messages_per_user"] == 1000 + 2 * padding
    assert any(f"padding = {padding} was chosen" in line for line in answer["basis"])


def test_shared_noise_with_the_papers_padding_gains_nothing_and_says_so(shell: Shell) -> None:
    line = (
        "sgdl-shuffle --users 1000 --max-value 1000 --noise-epsilon 0.1 --padding 4 --delta 1e-4 "
        "--adjacency metric"
    )
    answer = shell.certify(line)
    epsilon, local = answer["epsilon"], answer["corrupted"]["epsilon"]
    assert epsilon["published"] == pytest.approx(0.1)
    assert epsilon["attained"] > 0.1
    assert epsilon["certified"] == pytest.approx(local)
    assert local == pytest.approx(math.log(1000) + 0.1, abs=0.01)
    assert any("padding = 4 is too little" in line for line in answer["basis"])


def test_shared_noise_with_a_chosen_padding_keeps_its_epsilon(shell: Shell) -> None:
    answer = shell.certify(
        "sgdl-shuffle --users 200 --max-value 20 --noise-epsilon 0.5 --delta 1e-4 --adjacency "
        "metric"
    )
    assert answer["parameters"]["shares"] == 200
    assert answer["epsilon"]["certified"] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_chosen_padding_is_nearly_as_good_as_no_clamping_and_a_smaller_one_is_not(
    shell: Shell, adjacency: Adjacency
) -> None:
    answer = shell.certify(f"{SMALL_GEO} --adjacency {adjacency}")
    padding = answer["parameters"]["padding"]
    setting = Setting(50, 50, adjacency)

    def certified(size: int, delta: float) -> float:
        spec = GeoShuffle(max_value=4, epsilon_geo=Fraction(1, 2), padding=size)
        return epsilon_bounds(spec, setting, delta).certified

    assert answer["epsilon"]["certified"] <= certified(4000, 1e-4) * 1.01
    assert certified(padding - 1, 1e-4) > certified(4000, 1e-4) * 1.01


def test_the_chosen_padding_of_shared_noise_is_as_good_as_no_clamping(shell: Shell) -> None:
    answer = shell.certify(
        "sgdl-shuffle --users 50 --max-value 4 --noise-epsilon 1/2 --delta 1e-4 --honest 40"
    )
    assert answer["parameters"]["shares"] == 40
    spec = SGDLShuffle(max_value=4, noise_epsilon=Fraction(1, 2), shares=40, padding=4000)
    unclamped = epsilon_bounds(spec, Setting(50, 40), 0.75e-4).certified
    assert answer["epsilon"]["certified"] <= unclamped * (1 + 1e-3)


def test_fewer_honest_users_weaken_the_guarantee(shell: Shell) -> None:
    all_honest, half = (
        shell.certify(f"{KRR}{option}")["epsilon"] for option in ("", " --honest 5000")
    )
    assert half["attained"] > all_honest["certified"]


def test_rounds_compose_and_one_round_is_what_they_attain(shell: Shell) -> None:
    one, ten = shell.certify(KRR), shell.certify(f"{KRR} --rounds 10")
    assert ten["rounds"] == 10
    assert 0.0795 < ten["epsilon"]["certified"] <= 0.0804
    assert ten["epsilon"]["attained"] == one["epsilon"]["attained"]
    assert ten["corrupted"]["epsilon"] == pytest.approx(10 * one["corrupted"]["epsilon"])
    assert any(line.startswith("attained: computed for a single round") for line in ten["basis"])


def test_a_matrix_of_chances_is_certified_as_the_mechanism_that_it_is(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "krr.csv"
    file.write_text(
        "# 4-RR\n"
        + "\n".join(",".join("5/8" if x == y else "1/8" for y in range(4)) for x in range(4))
    )
    answer = shell.certify(f"local --users 10000 --matrix {file} --delta 1e-6")
    assert set(answer) == KEYS
    assert answer["parameters"] | {"digest": ""} == {"inputs": 4, "outputs": 4, "digest": ""}
    own = shell.certify(
        f"krr-histogram --users 10000 --symbols 4 --epsilon0 {math.log(5)} --delta 1e-6"
    )
    assert answer["epsilon"]["certified"] == pytest.approx(own["epsilon"]["certified"], rel=1e-3)
    assert answer["corrupted"]["epsilon"] == pytest.approx(math.log(5), rel=1e-9)


def test_a_file_that_is_no_matrix_is_refused_with_its_name_and_line(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("1/2,1/2\n1/2,1/3\n")
    code, _, words = shell.run(f"certify local --users 10 --matrix {file} --delta 1e-6")
    assert code != 0
    assert "bad.csv: line 2 adds up to" in " ".join(words.split())
    file.write_bytes(b"\xff\xfe")
    assert (
        "not a text file" in shell.run(f"certify local --users 10 --matrix {file} --delta 1e-6")[2]
    )
    assert shell.run(f"certify local --users 10 --matrix {tmp_path}/none.csv --delta 1e-6")[0] != 0
    both = shell.run(f"certify local --users 10 --epsilon0 1 --matrix {file} --delta 1e-6")
    assert "--epsilon0, or --matrix" in " ".join(both[2].split())


def test_with_every_node_corrupt_the_certified_epsilon_is_the_local_one(shell: Shell) -> None:
    answer = shell.certify(f"{RR} --corrupt-nodes 2,1 --nodes 2")
    assert answer["epsilon"]["certified"] == answer["corrupted"]["epsilon"]
    assert answer["epsilon"]["published"] is None
    assert answer["epsilon"]["attained"] <= answer["epsilon"]["certified"]
    assert any("nothing is shuffled" in line for line in answer["basis"])


def test_one_report_alone_attains_the_local_epsilon(shell: Shell) -> None:
    answer = shell.certify(f"{KRR} --corrupt-nodes 1,2,3")
    likely = math.e / (math.e + 9)
    # p - e^ε q = δ for the report itself.
    exact = math.log((likely - 1e-6) / (likely / math.e))
    assert answer["epsilon"]["attained"] == pytest.approx(exact, rel=1e-4)
    assert answer["epsilon"]["attained"] <= answer["epsilon"]["certified"]


def test_one_bit_alone_attains_the_local_epsilon(shell: Shell) -> None:
    """The report is the bit, so that no order of bits is lost: 1 - a - e^ε a = δ, a = p/2."""
    answer = shell.certify(
        "rr-shuffle --max-value 1 --users 50 --randomise 0.4 --delta 0.01 --corrupt-nodes 1,2,3"
    )
    exact = math.log((0.8 - 0.01) / 0.2)
    assert answer["epsilon"]["attained"] == pytest.approx(exact, rel=1e-4)
    assert answer["epsilon"]["attained"] <= answer["epsilon"]["certified"]


def test_with_one_honest_node_the_shuffle_guarantee_stands(shell: Shell) -> None:
    plain, partly = shell.certify(KRR), shell.certify(f"{KRR} --corrupt-nodes 1,3")
    assert partly["epsilon"] == plain["epsilon"]
    assert any("shuffle guarantee stands" in line for line in partly["basis"])


def test_a_pure_guarantee_is_asked_for_with_delta_zero(shell: Shell) -> None:
    answer = shell.certify("krr-histogram --users 100 --symbols 4 --epsilon0 2 --delta 0")
    assert answer["epsilon"]["certified"] == answer["corrupted"]["epsilon"]
    code, _, err = shell.run(
        "certify geo-shuffle --users 100 --max-value 4 --epsilon-geo 1 --delta 0"
    )
    assert code == 2
    assert "padding" in err


def test_impossible_guarantees_are_null_with_a_sentence_and_no_failure(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shuffledp import guarantees
    from shuffledp_core.errors import CannotCertify

    def refuse(*_: object) -> None:
        raise CannotCertify("the reason")

    monkeypatch.setattr(guarantees, "epsilon_bounds", refuse)
    monkeypatch.setattr(guarantees, "corrupted_bounds", refuse)
    answer = shell.certify(KRR)
    assert answer["epsilon"] == {"certified": None, "attained": None, "published": None}
    assert answer["corrupted"]["epsilon"] is None
    assert "no finite epsilon can be certified: the reason" in answer["basis"]


def test_people_get_a_table_with_both_sides_of_the_truth(shell: Shell) -> None:
    code, out, _ = shell.run(f"certify {RR}")
    assert code == 0
    for word in (
        "ε certified",
        "ε attained",
        "ε published",
        "ε_L",
        "messages",
        "standard error",
        "What this rests on",
    ):
        assert word in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "krr-histogram --users 100 --symbols 10 --epsilon0 0 --delta 1e-6",
            "epsilon0 must be a finite number above 0",
        ),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 -1 --delta 1e-6", "not -1.0"),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 nan --delta 1e-6", "not nan"),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 inf --delta 1e-6", "not inf"),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 1 --delta 1", "below 1, not 1.0"),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 1 --delta nan", "not nan"),
        ("krr-histogram --users 100 --symbols 10 --epsilon0 1 --delta -1e-6", "not -1e-06"),
        (
            "krr-histogram --users 100 --symbols 1 --epsilon0 1 --delta 1e-6",
            "symbols must be from 2 to",
        ),
        (
            "krr-histogram --users 0 --symbols 10 --epsilon0 1 --delta 1e-6",
            "users must be from 1 to 1,000,000,000, not 0",
        ),
        (
            "krr-histogram --users 1.5 --symbols 10 --epsilon0 1 --delta 1e-6",
            "'1.5' is not a whole number",
        ),
        (f"{KRR} --honest 10001", "honest must be from 1 to the number of users, 10000, not 10001"),
        (f"{KRR} --honest 0", "not 0"),
        (f"{KRR} --max-distance 10", "max-distance must be from 1 to 9"),
        (f"{KRR} --max-distance 0", "not 0"),
        (f"{KRR} --rounds 0", "rounds must be from 1 to 1,000,000, not 0"),
        (f"{KRR} --nodes 0", "nodes must be from 1 to 16, not 0"),
        (f"{KRR} --corrupt-nodes 4", "from 1 to 3, the number of nodes, not 4"),
        (f"{KRR} --corrupt-nodes 0", "not 0"),
        (f"{KRR} --corrupt-nodes one", "'one'"),
        (f"{KRR} --corrupt-nodes 1,1", "node 1 more than once"),
        (f"{KRR} --plot curve.gif", "'curve.gif'"),
        (f"{KRR} --plot nowhere/curve.png", "nowhere"),
        (f"{KRR} --adjacency far", "far"),
        (f"{RR} --max-distance 21", "max-distance must be from 1 to 20"),
        (
            "rr-shuffle --users 10 --max-value 5 --randomise 1.1 --delta 1e-6",
            "randomise must be above 0 and at most 1",
        ),
        (
            "rr-shuffle --users 10 --max-value 5 --randomise 0 --delta 1e-6",
            "randomise must be above 0",
        ),
        ("rr-shuffle --users 10 --max-value 5 --randomise a --delta 1e-6", "'a' is not a decimal"),
        ("rr-shuffle --users 10 --max-value 5 --randomise 1/0 --delta 1e-6", "divides by zero"),
        (
            "rr-shuffle --users 10 --max-value 0 --randomise 0.5 --delta 1e-6",
            "max_value must be a whole number from 1",
        ),
        (
            "geo-shuffle --users 10 --max-value 5 --epsilon-geo 0 --delta 1e-6",
            "epsilon_geo must be above 0",
        ),
        (
            "geo-shuffle --users 10 --max-value 5 --epsilon-geo 1 --padding -1 --delta 1e-6",
            "padding",
        ),
        (
            "sgdl-shuffle --users 10 --max-value 5 --noise-epsilon 1 --shares 0 --delta 1e-6",
            "shares must be",
        ),
        (
            "sgdl-shuffle --users 10 --max-value 5 --noise-epsilon 1 --honest 0 --delta 1e-6",
            "honest must be from 1",
        ),
        ("magic --users 10", "magic"),
        ("local --users 10 --delta 1e-6", "--epsilon0"),
    ],
)
def test_bad_input_is_refused_with_the_value_and_what_is_allowed(
    shell: Shell, line: str, words: str
) -> None:
    code, out, err = shell.run(f"certify {line}")
    assert (code, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())


def _is_png(file: Path) -> bool:
    data = file.read_bytes()
    return (
        data.startswith(b"\x89PNG\r\n\x1a\n")
        and data.endswith(b"IEND\xaeB`\x82")
        and len(data) > 20_000
    )


@pytest.mark.parametrize(
    "line",
    [
        "krr-histogram --users 300 --symbols 4 --epsilon0 2 --delta 1e-6",
        "krr-histogram --users 300 --symbols 4 --epsilon0 2 --delta 1e-6 --corrupt-nodes 1,2,3",
        "local --users 1000 --epsilon0 1 --delta 1e-6 --rounds 3",
        f"{SMALL_GEO} --adjacency metric",
    ],
)
def test_a_plot_is_a_real_picture(shell: Shell, tmp_path: Path, line: str) -> None:
    file = tmp_path / "curve.png"
    code, out, _ = shell.run(f"certify {line} --plot {file}")
    assert code == 0
    assert str(file.name) in out.replace("\n", "")
    assert _is_png(file)


def test_the_drawn_curves_keep_the_order_of_their_names(shell: Shell) -> None:
    del shell
    from shuffledp.commands.options import Scenario
    from shuffledp.commands.questions import geo_question, krr_histogram, question
    from shuffledp.curves import curve_of
    from shuffledp.guarantees import guarantee_of

    spec, _ = krr_histogram(4, 2.0)
    for asked in (
        question(spec, Scenario(300, 1e-6)),
        question(spec, Scenario(300, 1e-6, rounds=4)),
        question(spec, Scenario(300, 1e-6, corrupt_nodes="1,2,3")),
        geo_question(4, Fraction(1, 2), None, Scenario(50, 1e-4, Adjacency.METRIC)),
    ):
        found = guarantee_of(asked)
        lines = curve_of(found)
        assert (lines.attained <= lines.certified).all()
        assert (lines.epsilons[1:] > lines.epsilons[:-1]).all()
        assert found.certified in lines.epsilons
        # The asked point lies on the certified curve.
        at = lines.certified[list(lines.epsilons).index(found.certified)]
        assert at <= asked.delta * (1 + 1e-3)


def test_a_cold_start_prints_json_and_one_line_for_an_error() -> None:
    program = Path(sys.executable).parent / "shuffledp"
    good = subprocess.run(
        [program, "certify", *KRR.split(), "--format", "json"], capture_output=True, check=True
    )
    assert json.loads(good.stdout)["mechanism"] == "krr-histogram"
    bad = subprocess.run(
        [program, "certify", *KRR.split(), "--honest", "0"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: honest must be")
    assert bad.stderr.count("\n") == 1


def test_a_certificate_starts_without_what_it_does_not_need() -> None:
    heavy = "matplotlib, pandas, dp_accounting, scipy.stats, grpc, sqlalchemy, asyncio"
    check = (
        "import sys; sys.argv = ['shuffledp', 'certify', *'"
        + KRR
        + "'.split(), '--format', 'json']\n"
        + "from shuffledp.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        + f"print([name for name in '{heavy}'.split(', ') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"  # before it progress, on a slow machine


@pytest.mark.parametrize(
    "line",
    [f"{LOCAL} --max-distance 3", "one-bit-local --users 9 --max-value 1 --epsilon0 1 --nodes 2"],
)
def test_an_option_that_makes_no_sense_for_a_mechanism_is_not_there(
    shell: Shell, line: str
) -> None:
    code, _, err = shell.run(f"certify {line}")
    assert code == 2
    assert "No such option" in err


def test_shared_options_stand_in_the_place_of_the_group_that_names_them() -> None:
    @spread
    def command(*, symbols: int = 2, view: Presentation, last: bool = False) -> None:
        told.append((symbols, view, last))

    told: list[tuple[int, Presentation, bool]] = []
    assert list(signature(command).parameters) == ["symbols", "output", "plot", "last"]
    command(symbols=3, output=OutputFormat.JSON, plot=None, last=True)
    assert told == [(3, Presentation(OutputFormat.JSON, None), True)]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ("--view rdp", {"order", "divergence"}),
        (
            "--view f-dp",
            {"false_positive", "false_negative", "mu_certified", "mu_attained", "leak"},
        ),
        ("--view group --reports 2", {"epsilon", "reports"}),
        ("--view subsampled --rate 1/10", {"epsilon", "rate"}),
        ("--view adversaries", {"epsilon", "weak", "strong"}),
        (
            "--users 500 --view primary --at-x0 10",
            {"at_x0", "epsilon", "published", "one_bin", "certified"},
        ),
        ("--view gaussian", {"sigma_optimal", "sigma_classical", "sensitivity"}),
        ("--view corrupt", {"delta", "any change"}),
    ],
)
def test_a_guarantee_in_other_words_follows_the_guarantee(
    shell: Shell, options: str, keys: set[str]
) -> None:
    found = json.loads(shell.run(f"certify {KRR} {options} --format json")[1])
    assert set(found) == KEYS | {"view"}
    assert set(found["view"]) == keys | {"name", "basis"}
    code, printed, _ = shell.run(f"certify {KRR} {options}")
    assert code == 0
    assert "What this rests on" in printed
    assert found["view"]["basis"][0].split(":")[0] in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{KRR} --reports 2", "--view group"),
        (f"{KRR} --rate 0.1", "--rate need each other"),
        (f"{KRR} --view subsampled", "--rate need each other"),
        (f"{KRR} --view primary", "--at-x0 need each other"),
        (f"{KRR} --view gaussian --changes 1", "--changes need each other"),
        (f"{KRR} --view datasets --changes 1,x", "--changes takes whole numbers"),
        (f"{KRR} --view group --reports 0", "1 to 100 reports"),
        (f"{KRR} --honest 1 --view group", "more than all 1 honest"),
        (f"{RR} --view rdp", "standard adjacency"),
        (f"{KRR} --corrupt-nodes 1,2,3 --view f-dp", "nothing is shuffled"),
    ],
)
def test_other_words_that_do_not_fit_are_refused_in_one_line(
    shell: Shell, line: str, words: str
) -> None:
    code, _, error = shell.run(f"certify {line}")
    assert code == 2
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_krr_takes_the_blanket_that_calibrate_prints(shell: Shell) -> None:
    target = "--users 1000 --symbols 10 --delta 1e-6 --format json"
    calibrated = json.loads(shell.run(f"calibrate krr-histogram --epsilon 1 {target}")[1])
    blanket = calibrated["parameters"]["blanket"]
    certified = json.loads(shell.run(f"certify krr-histogram --blanket {blanket} {target}")[1])
    assert certified["epsilon"]["certified"] == calibrated["epsilon"]["certified"]
    for named in ("", f"--blanket {blanket} --epsilon0 1"):
        code, _, errors = shell.run(f"certify krr-histogram {named} {target}")
        assert code == 2
        assert "give either --epsilon0 or --blanket" in errors
