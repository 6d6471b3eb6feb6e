"""`import shuffledp as sdp`: what its names do, in the words that its page uses."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

import shuffledp as sdp
from shuffledp import cli, notebook, plans, simulation
from shuffledp.simulation import BLOCK
from shuffledp_core.errors import NotInstalledError, UsageError
from shuffledp_core.mechanisms import Mechanism, PaddedSpec
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise_in_bulk
from shuffledp_privacy import bounds

GROUP = sdp.Setting(users=2000, honest=1900)
KRR = sdp.KRRHistogram(symbols=4, blanket=Fraction(1, 2))
DUMMIES = sdp.DummyHistogram(symbols=6, slots=2, fill=Fraction(1, 3))
BLANKETED = sdp.DummyHistogram(symbols=6, slots=2, fill=Fraction(1, 3), blanket=Fraction(2, 5))
HADAMARD = sdp.HadamardHistogram(symbols=6, blanket=Fraction(1, 2))
RAPPOR = sdp.RapporHistogram(
    symbols=4, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
)
ONE_BIT = sdp.OneBitShuffle(max_value=3, randomise=Fraction(1, 4))
QUANTISED = sdp.QuantisedRR(max_value=3, bits=2, randomise=Fraction(1, 4))
RR = sdp.RRShuffle(max_value=3, randomise=Fraction(1, 4))
GEO = sdp.GeoShuffle(max_value=3, epsilon_geo=Fraction(1, 2), padding=30)
SGDL = sdp.SGDLShuffle(max_value=3, noise_epsilon=Fraction(1, 2), shares=50, padding=30)
SPLIT = sdp.SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=50, modulus=2**11, pieces=14)
WIDE_SPLIT = msgspec.structs.replace(SPLIT, modulus=2**20)
"""For the sum of 200,000 users."""
SMALL = sdp.Setting(users=300, honest=300)

MODULES = ("choosing", "composed", "curves", "guarantees", "simulation", "views")
"""Those with examples in their docstrings."""


def run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["shuffledp", *line.split()])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"shuffledp.{name}"))
    assert (found.failed, found.attempted > 2) == (0, True)


def test_every_public_name_is_there_typed_and_documented() -> None:
    tree = ast.parse(inspect.getsource(sdp))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen_by_checkers = {
        alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen_by_checkers) == sorted(sdp.__all__)
    for name in sdp.__all__:
        found = getattr(sdp, name)
        assert found.__module__.startswith(str(seen_by_checkers[name]))
        assert (found.__doc__ or "").split("\n")[0].rstrip().endswith((".", ")"))
    assert set(sdp.__all__) <= set(dir(sdp))
    assert sdp.Setting is bounds.Setting
    with pytest.raises(AttributeError, match="sertify"):
        _ = sdp.sertify


def test_importing_the_library_costs_nothing() -> None:
    code = (
        "import sys, shuffledp; print(sorted({'numpy', 'scipy', 'msgspec', 'typer', 'rich'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plan_keeps_the_target_that_it_was_calibrated_for() -> None:
    plan = sdp.calibrate(sdp.RRShuffle, max_value=3, epsilon=1, delta=1e-6, setting=GROUP)
    assert plan == sdp.calibrate("rr-shuffle", max_value=3, epsilon=1, delta=1e-6, setting=GROUP)
    found = sdp.certify(plan)
    assert found == sdp.certify(plan, GROUP, delta=1e-6)
    assert found.attained is not None
    assert found.certified is not None
    assert 0.9 < found.attained <= found.certified <= 1
    assert found.plan.parameters["target_epsilon"] == 1
    assert any("calibrated" in line for line in found.basis)
    other = sdp.certify(plan, rounds=2)
    assert "target_epsilon" not in other.plan.parameters
    assert not any("calibrated" in line for line in other.basis)


def test_the_setting_and_delta_that_are_named_take_the_place_of_the_plans_own() -> None:
    plan = sdp.Plan(KRR, SMALL, 1e-6)
    larger = sdp.certify(plan, GROUP, delta=1e-4)
    assert larger == sdp.certify(KRR, GROUP, delta=1e-4)
    assert (larger.certified or 9) < (sdp.certify(plan).certified or 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sdp.certify(KRR), "not state a setting"),
        (lambda: sdp.certify(KRR, SMALL), "not state a delta"),
        (lambda: sdp.certify(KRR, SMALL, delta=2.0), "delta must be"),
        (lambda: sdp.certify(KRR, SMALL, delta=1e-6, rounds=0), "rounds must be"),
        (lambda: sdp.certify("krr-histogram", SMALL, delta=1e-6), "calibrate"),  # type: ignore[arg-type]
        (
            lambda: sdp.certify(RR, sdp.Setting(9, 9, max_distance=4), delta=1e-6),
            "max-distance must be from 1 to 3",
        ),
        (
            lambda: sdp.calibrate("laplace", epsilon=1, delta=1e-6, setting=SMALL),
            "unknown mechanism",
        ),
        (lambda: sdp.compose([], SMALL, delta=1e-6), "at least one round"),
        (
            lambda: sdp.compose([RR, sdp.Plan(RR, sdp.Setting(9, 9), 0)], delta=1e-6),
            "not state a setting",
        ),
        (lambda: sdp.curve(KRR, SMALL, [0.2, 0.1]), "must be in ascending order"),
        (lambda: sdp.curve(KRR, SMALL, [-0.1]), "at least 0"),
        (lambda: sdp.simulate(KRR, [4]), "from 0 to 3"),
        (lambda: sdp.simulate(KRR, [0.5]), "whole numbers"),
        (lambda: sdp.simulate(KRR, [1], seed=-1), "seed must be"),
        (lambda: sdp.simulate(KRR, [1], estimator="em"), "inverted, projected, ibu"),
        (lambda: sdp.simulate(RR, [1], estimator="ibu"), "answers a sum, which is always inverted"),
        (lambda: sdp.simulate(KRR, []), "one whole number per user"),
        (lambda: sdp.simulate(sdp.KRRHistogram(symbols=2, blanket=Fraction(1)), [1]), "pure noise"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(UsageError, match=words):
        call()


def test_equal_rounds_compose_to_what_a_plan_of_many_rounds_costs() -> None:
    year = sdp.compose([KRR] * 12, SMALL, delta=1e-6)
    alone = sdp.certify(KRR, SMALL, delta=1e-6, rounds=12)
    assert (year.rounds, len(year.parts)) == (12, 1)
    assert (year.certified, year.attained, year.corrupted) == (
        alone.certified,
        alone.attained,
        alone.corrupted,
    )
    assert year == sdp.compose([sdp.Plan(KRR, SMALL, 0.5, rounds=6)] * 2, delta=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_round_composes_to_itself(delta: float) -> None:
    for spec in (KRR, RR):
        once, alone = sdp.compose([spec], SMALL, delta=delta), sdp.certify(spec, SMALL, delta=delta)
        assert (once.certified, once.attained, once.corrupted) == (
            alone.certified,
            alone.attained,
            alone.corrupted,
        )


def test_different_rounds_cost_less_than_the_sum_and_more_than_each() -> None:
    both = sdp.compose([KRR, RR, RR], SMALL, delta=1e-6)
    each = [sdp.certify(spec, SMALL, delta=1e-6 / 3).certified or 0 for spec in (KRR, RR, RR)]
    assert max(each) < (both.certified or 0) <= sum(each) * (1 + 1e-9)
    local = [sdp.certify(spec, SMALL, delta=1e-6).corrupted or 0 for spec in (KRR, RR, RR)]
    assert both.corrupted == pytest.approx(sum(local))
    assert (both.corrupted or 0) >= sum(local)


def test_a_round_whose_nodes_are_all_corrupt_does_not_compose() -> None:
    with pytest.raises(UsageError, match="nothing is shuffled"):
        sdp.compose([sdp.Plan(KRR, SMALL, 1e-6, corrupt=frozenset({1}), nodes=1)], delta=1e-6)
    mixed = [
        sdp.Plan(RR, SMALL, 1e-6),
        sdp.Plan(RR, sdp.Setting(300, 300, sdp.Adjacency.METRIC), 1e-6),
    ]
    with pytest.raises(UsageError, match="same adjacency"):
        sdp.compose(mixed, delta=1e-6)


def test_a_curve_at_given_points_is_what_the_analysis_says_there() -> None:
    found = sdp.curve(KRR, SMALL, [0.2, 0.5])
    for index, epsilon in enumerate([0.2, 0.5]):
        said = bounds.delta_bounds(KRR, SMALL, epsilon)
        assert (found.certified[index], found.attained[index]) == (said.certified, said.attained)
    several = sdp.curve(KRR, SMALL, [0.2, 0.5], rounds=5)
    assert (several.certified > found.certified).all()
    whole = sdp.curve(KRR, SMALL)
    assert (whole.attained <= whole.certified).all()
    assert whole.guarantee.delta == plans.DEFAULT_DELTA


def test_views_of_repeated_rappor_are_of_the_kept_response_once() -> None:
    one, many = (sdp.renyi(RAPPOR, SMALL, [2, np.inf], rounds=rounds) for rounds in (1, 40))
    assert (one.columns["divergence"] == many.columns["divergence"]).all()
    several = [sdp.group(RAPPOR, 2, SMALL, delta=1e-6, rounds=rounds) for rounds in (1, 40)]
    assert several[0].numbers == several[1].numbers
    drawn = sdp.subsampled(RAPPOR, Fraction(1, 10), SMALL, delta=1e-6, rounds=40)
    assert drawn.numbers["epsilon"] == pytest.approx(
        2 * np.log(3)
    )  # being drawn seldom hides nothing of it
    for view in (many, *several, drawn, sdp.trade_off(RAPPOR, SMALL, [0.1], rounds=40)):
        assert view.basis[-1].startswith("K14: of the kept response")
        assert "rounds added" not in view.basis
        assert not any(line.startswith("C5") for line in view.basis)
    assert "rounds added" in sdp.renyi(KRR, SMALL, [2], rounds=40).basis


def test_a_curve_of_repeated_rappor_is_of_the_kept_response_once() -> None:
    spec = sdp.RapporHistogram(
        symbols=2, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    )
    found = sdp.certify(spec, SMALL, delta=0.05, rounds=40)
    assert found.certified is not None
    epsilons = [0.5, 1.0, found.certified]
    many = sdp.curve(spec, SMALL, epsilons, delta=0.05, rounds=40)
    assert many.certified[-1] == pytest.approx(0.05, rel=0.02)
    assert (
        many.certified == sdp.curve(spec, SMALL, epsilons, delta=0.05, rounds=2).certified
    ).all()
    assert any(line.startswith("K14: 40 rounds") for line in found.basis)
    assert not any("privacy loss distributions" in line for line in found.basis)


def law(spec: Mechanism, value: int) -> NDArray[np.float64]:  # noqa: PLR0911 - a law each
    """P(answer = 0), P(answer = 1), .. of one user, from the definitions, by scipy."""
    from scipy import linalg, stats

    if isinstance(spec, sdp.DummyHistogram | sdp.KRRHistogram):
        uniform = float(spec.blanket) / spec.symbols
        return np.array(
            [uniform + (1 - float(spec.blanket)) * (s == value) for s in range(spec.symbols)]
        )
    if isinstance(spec, sdp.HadamardHistogram):
        inside = linalg.hadamard(spec.alphabet)[value + 1] == 1
        return np.asarray(
            (float(spec.blanket) + 2 * (1 - float(spec.blanket)) * inside) / spec.alphabet
        )
    if isinstance(spec, sdp.RapporHistogram):
        chances = [float(spec.report_chances[symbol == value]) for symbol in range(spec.symbols)]
        bits = np.arange(spec.alphabet)[:, None] >> np.arange(spec.symbols) & 1
        return np.asarray(np.where(bits == 1, chances, 1 - np.array(chances)).prod(axis=1))
    if isinstance(spec, sdp.OneBitShuffle):
        one = float(spec.randomise) / 2 + (1 - float(spec.randomise)) * value / spec.max_value
        return np.array([1 - one, one])
    if isinstance(spec, sdp.QuantisedRR):
        rounded = np.clip(value * spec.bits / spec.max_value - np.arange(spec.bits), 0, 1)
        found = np.ones(1)
        for chance in (float(spec.randomise) / 2 + (1 - float(spec.randomise)) * rounded).tolist():
            found = np.convolve(found, np.array([1 - chance, chance]))
        return found
    if isinstance(spec, sdp.RRShuffle):
        flip, ones, zeros = float(spec.randomise) / 2, value, spec.max_value - value
        kept = stats.binom.pmf(np.arange(ones + 1), ones, 1 - flip)
        return np.asarray(
            np.convolve(kept, stats.binom.pmf(np.arange(zeros + 1), zeros, flip)), dtype=np.float64
        )
    assert isinstance(spec, PaddedSpec | sdp.SplitMix)
    if isinstance(spec, sdp.SplitMix):
        rate, shares = spec.noise_epsilon, spec.shares
    else:
        rate, shares = spec.noise_rate, spec.noise_shares
    part = stats.nbinom.pmf(np.arange(400), 1 / shares, -np.expm1(-float(rate)))
    noise = np.convolve(part, part[::-1])  # on -399..399
    moved = value + np.arange(-399, 400)
    if isinstance(spec, sdp.SplitMix):
        said = moved % spec.modulus
    else:
        said = np.clip(moved + spec.padding, 0, spec.messages_per_user)
    return np.asarray(
        np.bincount(said, weights=noise, minlength=spec.largest_answer + 1), dtype=np.float64
    )


@pytest.mark.parametrize(
    "spec",
    [DUMMIES, BLANKETED, KRR, HADAMARD, RAPPOR, ONE_BIT, QUANTISED, RR, GEO, SGDL, WIDE_SPLIT],
    ids=lambda spec: spec.kind,
)
@pytest.mark.parametrize("value", [0, 2, 3])
def test_a_seeded_simulation_draws_the_clients_law(
    spec: Mechanism, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed is a seed: this passes always or never.

    The distance of 200,000 true draws is about 0.005.
    """
    drawn: list[NDArray[np.int64]] = []

    def kept(spec: Mechanism, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        drawn.append(randomise_in_bulk(spec, values, arrays))
        return drawn[-1]

    monkeypatch.setattr("shuffledp.simulation.randomise_in_bulk", kept)
    draws = 200_000
    sdp.simulate(spec, np.full(draws, value), seed=5)
    expected = law(spec, value)
    seen = np.bincount(np.concatenate(drawn), minlength=expected.size) / draws
    assert np.abs(seen - expected).sum() / 2 < 0.01


@pytest.mark.parametrize("estimator", ["projected", "ibu"])
def test_a_histogram_may_be_kept_possible(estimator: str) -> None:
    spec = sdp.KRRHistogram(symbols=9, blanket=Fraction(9, 10))
    plain, kept = (
        sdp.simulate(spec, [0] * 50, seed=1, estimator=how) for how in ("inverted", estimator)
    )
    assert np.min(plain.total) < 0 <= np.min(kept.total)
    assert np.sum(kept.total) == pytest.approx(50)
    assert kept.to_dict()["estimator"] == estimator


@pytest.mark.parametrize("block", [BLOCK, 150])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("spec", [KRR, RR, GEO, SGDL, SPLIT], ids=lambda spec: spec.kind)
def test_a_simulated_answer_is_near_the_truth(
    spec: Mechanism, seed: int | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within ten standard errors, of users drawn at once or in blocks: no sound interval is ever
    missed by so much."""
    monkeypatch.setattr(simulation, "BLOCK", block)
    values = np.arange(400) % 4
    answer = sdp.simulate(spec, values, seed)
    assert np.all(
        np.abs(np.subtract(answer.mean, answer.truth))
        <= 10 * np.asarray(answer.mean_standard_error)
    )
    assert np.allclose(np.multiply(answer.mean, 400), answer.total)
    assert np.all(answer.mean_interval[..., 0] <= answer.mean_interval[..., 1])
    assert np.asarray(answer.truth).tolist() == ([0.25] * 4 if spec is KRR else 1.5)
    if seed is not None:
        assert sdp.simulate(sdp.Plan(spec, SMALL, 1e-6), values, seed).to_dict() == answer.to_dict()


def results() -> list[object]:
    plan = sdp.Plan(KRR, SMALL, 1e-6)
    advice = sdp.advise(epsilon=2, delta=1e-6, setting=SMALL, symbols=4)
    answers = [sdp.simulate(spec, [0, 1, 2, 3], seed=1) for spec in (KRR, RR)]
    return [
        sdp.certify(plan),
        sdp.compose([plan, plan], delta=1e-6),
        sdp.curve(plan, None, [0.5]),
        advice,
        *answers,
    ]


def test_results_show_themselves_in_a_notebook_and_convert(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "<th" in sdp.Plan(KRR, SMALL, 1e-6)._repr_html_()
    everything = results()
    assert str(everything[0]).startswith("krr-histogram: ")
    assert str(everything[1]).startswith("2 rounds: ")
    assert str(everything[-1]).startswith("sum: ")
    for found in everything:
        shown = found._repr_html_()  # type: ignore[attr-defined]
        assert shown.startswith("<table") or "<svg" in shown
        json.dumps(found.to_dict(), allow_nan=False)  # type: ignore[attr-defined]
        with pytest.raises(NotInstalledError, match="pip install 'pandas'"):
            found.to_pandas()  # type: ignore[attr-defined]
    (tmp_path / "pandas.py").write_text("class DataFrame(dict): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for found in everything:
            columns = found.to_pandas()  # type: ignore[attr-defined]
            assert len({len(column) for column in columns.values()}) == 1
    finally:
        sys.modules.pop("pandas", None)
    assert "&lt;b&gt;" in notebook.html_table("<b>", [("<b>", "<b>", "<b>")], ("<b>",))
    assert "<b>" not in notebook.html_table("<b>", [("<b>", "<b>", "<b>")], ("<b>",))


def test_results_draw_themselves_on_given_axes_and_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from matplotlib.figure import Figure

    curve, answer = sdp.curve(KRR, SMALL, [0.1, 0.5]), sdp.simulate(RR, [0, 3], seed=1)
    for found in (curve, answer):
        axes = Figure().subplots()
        assert found.plot(axes) is axes
        assert axes.get_legend() is not None
    monkeypatch.setattr(notebook, "find_spec", lambda _: None)
    for found in (curve, answer):
        with pytest.raises(NotInstalledError, match=r"pip install 'shuffledp\[plot\]'"):
            found.plot()
    assert curve._repr_html_().startswith("<table")


def test_a_plan_that_a_command_wrote_composes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "weekly.json"
    asked = (
        "certify rr-shuffle --users 300 --max-value 3 --randomise 1/4 --delta 1e-6 --format json"
    )
    code, out, _ = run(asked, monkeypatch, capsys)
    assert code == 0
    file.write_text(out)
    code, out, _ = run(
        f"compose {file} {file} --times 3 --times 4 --delta 1e-6 --format json", monkeypatch, capsys
    )
    told = json.loads(out)
    assert (code, told["rounds"], told["parts"][0]["times"]) == (0, 7, 7)
    assert told["epsilon"]["certified"] == sdp.compose([RR] * 7, SMALL, delta=1e-6).certified
    code, out, _ = run(f"compose {file} --delta 1e-6", monkeypatch, capsys)
    assert (code, "What this rests on" in out) == (0, True)
    for line, words in (
        (f"compose {file} --times 1 --times 2 --delta 1e-6", "once for each of the 1 files"),
        (f"compose {file} --times 0 --delta 1e-6", "rounds must be from 1"),
        (f"compose {tmp_path}/none.json --delta 1e-6", "none.json"),
    ):
        code, _, err = run(line, monkeypatch, capsys)
        assert (code, words in err) == (2, True)
    file.write_text('{"parameters": {}, "mechanism": "rr-shuffle"}')
    code, _, err = run(f"compose {file} --delta 1e-6", monkeypatch, capsys)
    assert (code, "not JSON output of certify" in err) == (1, True)


def test_the_simulated_answer_is_printed_with_its_guarantee(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(str(n % 7) for n in range(300)))
    about = (
        f"--users 300 --mechanism krr-histogram --data {tmp_path}/people.csv --max-value 3 --seed 1"
    )
    code, out, _ = run(f"simulate {about} --format json", monkeypatch, capsys)
    told = json.loads(out)
    assert (code, told["quantity"], told["capped"]) == (0, "histogram", 128)
    assert sum(told["true_value"]) == told["users"] == told["guarantee"]["users"] == 300
    assert 0.9 < told["guarantee"]["epsilon"]["certified"] <= 1
    code, out, _ = run(
        f"simulate {about} --mechanism rr-shuffle --plot {tmp_path}/a.png", monkeypatch, capsys
    )
    assert (code, "mean" in out, (tmp_path / "a.png").read_bytes()[:4]) == (0, True, b"\x89PNG")


def test_the_help_shows_the_commands_in_their_panels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run("--help", monkeypatch, capsys)
    places = [out.index(f" {panel} ") for panel in cli.PANELS]
    assert places == sorted(places)
    for names in cli.PANELS.values():
        assert all(f" {name} " in out for name in names)
    assert "Other packages" not in out
