"""The audit contradicts no certificate of the real sampler, and contradicts those of broken ones.

Every audit here asks for a confidence of 1 - 1e-9, so that a true claim is called broken with at
most that probability a test. A broken sampler is missed with less: at these numbers of trials the
expected bound is ten standard deviations and more beyond the claim."""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from broken_samplers import blanket_halved, coin_halved, coin_not_flipped, fake_halved, noise_halved

from shuffledp import cli
from shuffledp.commands import questions
from shuffledp.commands.asking import ask
from shuffledp.commands.options import Scenario, decimal
from shuffledp.plans import Plan
from shuffledp_adversary.audit import command
from shuffledp_adversary.audit.audit import (
    AuditReport,
    ClaimBroken,
    Effort,
    audit,
    neighbours_of,
    spec_of,
)
from shuffledp_adversary.audit.mixnet import audit_through_mixnet
from shuffledp_adversary.audit.neighbours import outcomes, rank_answers, worst_looking
from shuffledp_adversary.audit.sampling import Sampler, shuffled_counts
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import ShuffleDPError, UsageError
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.privacy import Adjacency

STRICT = 1 - 1e-9
TRIALS = 20_000


def krr(users: int = 8, symbols: int = 3, epsilon0: float = 1.0, delta: float = 1e-2) -> Plan:
    spec, _ = questions.krr_histogram(symbols, epsilon0)
    return questions.question(spec, Scenario(users, delta))


def hadamard(users: int = 8, symbols: int = 3, blanket: str = "0.4", delta: float = 1e-2) -> Plan:
    return ask(
        "hadamard-histogram", Scenario(users, delta), symbols=symbols, blanket=decimal(blanket)
    )


def rappor(users: int = 8, symbols: int = 3, fake: str = "0.5", when_one: str = "0.75") -> Plan:
    ones, zeros = decimal(when_one), 1 - decimal(when_one)
    parameters = {"symbols": symbols, "fake": decimal(fake), "when_zero": zeros, "when_one": ones}
    return ask("rappor-histogram", Scenario(users, 1e-2), **parameters)


def dummies(users: int = 8, slots: int = 8, fill: str = "0.5") -> Plan:
    parameters = {"symbols": 3, "slots": slots, "fill": decimal(fill)}
    return ask("dummy-histogram", Scenario(users, 1e-2), **parameters)


def node_counts(users: int = 8, mean: int = 7, dummies: int = 26) -> Plan:
    parameters = {"symbols": 3, "noise_epsilon": decimal("1"), "mean": mean, "dummies": dummies}
    return ask("node-histogram", Scenario(users, 1e-2), **parameters)


def node_columns(users: int = 8) -> Plan:
    parameters = {"symbols": 4, "noise_epsilon": decimal("1"), "mean": 7, "spare": 14}
    return ask("node-columns", Scenario(users, 1e-2), columns=(2, 2), **parameters)


def node_tree(users: int = 8) -> Plan:
    parameters = {"symbols": 4, "noise_epsilon": decimal("1"), "mean": 7, "spare": 14, "width": 2}
    return ask("node-tree", Scenario(users, 1e-2), **parameters)


def node_sum(users: int = 8, base: int = 4, mean: int = 20, **circumstances: object) -> Plan:
    parameters = {"max_value": 3, "noise_epsilon": decimal("1"), "base": base, "mean": mean}
    return ask("node-sum", around(users, **circumstances), **parameters)


def bloom(users: int = 8, symbols: int = 3, fake: str = "0.5") -> Plan:
    filters = {"bits": 6, "hashes": 1, "cohorts": 2}
    parameters = {"symbols": symbols, "fake": decimal(fake), **filters}
    return ask("bloom-rappor", Scenario(users, 1e-2), **parameters)


def local_laplace(users: int = 8, largest: int = 3, epsilon: str = "1") -> Plan:
    parameters = {"max_value": largest, "epsilon_geo": decimal(epsilon)}
    return ask("local-laplace", Scenario(users, 1e-2), **parameters)


def one_bit(users: int = 8, largest: int = 3, p: str = "0.4", **circumstances: object) -> Plan:
    return ask(
        "one-bit-mean", around(users, **circumstances), max_value=largest, randomise=decimal(p)
    )


def quantised(
    users: int = 8, largest: int = 6, few: int = 2, p: str = "0.5", **circumstances: object
) -> Plan:
    parameters = {"max_value": largest, "bits": few, "randomise": decimal(p)}
    return ask("quantised-rr", around(users, **circumstances), **parameters)


def bits(users: int = 8, largest: int = 3, p: str = "0.5", **circumstances: object) -> Plan:
    return questions.question(
        questions.rr_shuffle(largest, decimal(p)), around(users, **circumstances)
    )


def geo(users: int = 8, largest: int = 3, epsilon: str = "0.5", **circumstances: object) -> Plan:
    return questions.geo_question(largest, decimal(epsilon), None, around(users, **circumstances))


def shares(
    users: int = 8,
    largest: int = 3,
    epsilon: str = "0.5",
    padding: int | None = None,
    **circumstances: object,
) -> Plan:
    return questions.sgdl_question(
        largest, decimal(epsilon), None, padding, around(users, **circumstances)
    )


def pieces(users: int = 8, largest: int = 3, epsilon: str = "0.5", **circumstances: object) -> Plan:
    return questions.split_question(
        largest, decimal(epsilon), None, (None, None), around(users, **circumstances)
    )


def around(users: int, **circumstances: object) -> Scenario:
    return Scenario(users, **({"delta": 1e-2} | circumstances))  # type: ignore[arg-type]


IN_THE_OPEN = {"dummy-histogram", "node-columns", "node-histogram", "node-sum", "node-tree"}
"""Mechanisms whose values nothing hides while every node is corrupt: no claim to refute."""

METRIC: dict[str, Any] = {"adjacency": Adjacency.METRIC}

QUESTIONS: dict[str, Plan] = {
    "krr, three symbols": krr(),
    "krr, two symbols": krr(users=5, symbols=2, epsilon0=2.0),
    "krr, ten symbols": krr(users=4, symbols=10, epsilon0=3.0, delta=1e-3),
    "hadamard, three symbols": hadamard(),
    "hadamard, six symbols": hadamard(users=4, symbols=6, delta=1e-3),
    "rappor, three symbols": rappor(),
    "rappor, two symbols, hardly blurred": rappor(users=4, symbols=2, when_one="0.99"),
    "dummies of users": dummies(),
    "noise of a node": node_counts(),
    "noise of a node, one user": node_counts(users=1),
    "noise of a node in a sum": node_sum(),
    "noise of a node in digits": node_sum(users=1, base=2),
    "noise of a node in two columns": node_columns(),
    "noise of a node in a tree": node_tree(),
    "bloom filters": bloom(),
    "local laplace": local_laplace(),
    "one bit": one_bit(),
    "one bit, per unit": one_bit(users=4, largest=2, p="0.8", **METRIC),
    "quantised": quantised(),
    "quantised, below a step, per unit": quantised(
        users=4, largest=5, max_distance=2, p="0.8", **METRIC
    ),
    "rr": bits(),
    "rr, per unit": bits(users=4, largest=2, p="0.8", **METRIC),
    "rr, one bit": bits(users=10, largest=1, p="0.3", delta=1e-3),
    "geo": geo(),
    "geo, per unit": geo(users=3, largest=5, epsilon="1", **METRIC),
    "sgdl": shares(),
    "sgdl, per unit": shares(users=3, largest=5, epsilon="1", **METRIC),
    "split": pieces(),
    "split, per unit": pieces(users=3, largest=5, epsilon="1", **METRIC),
}


def strictly(
    asked: Plan,
    pool: ProcessPoolExecutor,
    *,
    local: bool = False,
    trials: int = TRIALS,
    sampler: Sampler | None = None,
) -> AuditReport:
    return audit(asked, Effort(trials, STRICT, local=local), pool, sampler=sampler)


def test_every_mechanism_is_audited() -> None:
    assert {asked.kind for asked in QUESTIONS.values()} == set(MECHANISMS)


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_the_real_sampler_contradicts_no_certificate(
    asked: Plan, pool: ProcessPoolExecutor
) -> None:
    report = strictly(asked, pool)
    certified = report.answer.certified
    assert certified is not None
    assert report.bound.hits[0] > 0
    assert report.lower <= certified
    assert not report.broken
    report.check()


@pytest.mark.parametrize("asked", [krr(), geo()], ids=lambda asked: asked.kind)
def test_the_clients_own_code_contradicts_nothing_either(
    asked: Plan, pool: ProcessPoolExecutor
) -> None:
    report = audit(asked, Effort(2000, STRICT, one_by_one=True), pool)
    assert not report.broken
    assert "drawn by the clients' own code" in report.notes
    assert "drawn in bulk, by the law of the clients' code" in strictly(asked, pool).notes


@pytest.mark.parametrize(
    "asked",
    [asked for asked in QUESTIONS.values() if asked.kind not in IN_THE_OPEN],
    ids=str,
)
def test_one_users_messages_contradict_no_local_guarantee(
    asked: Plan, pool: ProcessPoolExecutor
) -> None:
    report = strictly(asked, pool, local=True)
    left = report.answer.corrupted
    assert left is not None
    assert report.bound.hits[0] > 0
    assert report.lower <= left
    assert report.pair.users == 1


@pytest.mark.parametrize(
    ("asked", "sampler"),
    [
        (krr(), blanket_halved),
        (hadamard(), blanket_halved),
        (rappor(users=2, symbols=3, when_one="0.99"), fake_halved),
        (bloom(), fake_halved),
        (one_bit(), coin_halved),
        (quantised(), coin_halved),
        (bits(), coin_not_flipped),
        (local_laplace(), noise_halved),
        (geo(users=2, largest=4, epsilon="1"), noise_halved),
        (shares(), noise_halved),
        (pieces(), noise_halved),
    ],
    ids=[
        "krr-histogram",
        "hadamard-histogram",
        "rappor-histogram",
        "bloom-rappor",
        "one-bit-mean",
        "quantised-rr",
        "rr-shuffle",
        "local-laplace",
        "geo-shuffle",
        "sgdl-shuffle",
        "split-mix",
    ],
)
@pytest.mark.parametrize("local", [False, True], ids=["shuffled", "local"])
def test_a_broken_sampler_is_found(
    asked: Plan,
    sampler: Sampler,
    local: bool,  # noqa: FBT001 - a pytest parameter
    pool: ProcessPoolExecutor,
) -> None:
    report = strictly(asked, pool, local=local, trials=2 * TRIALS, sampler=sampler)
    assert report.claimed is not None
    assert report.lower > report.claimed
    assert report.broken
    with pytest.raises(ClaimBroken, match="CLAIM BROKEN") as caught:
        report.check()
    assert caught.value.exit_code == 1


def test_the_printed_padding_is_found_although_our_own_claim_for_it_stands(
    pool: ProcessPoolExecutor,
) -> None:
    asked = shares(users=20, largest=20, epsilon="0.1", padding=3, delta=1e-4, **METRIC)
    report = strictly(asked, pool, trials=4000)
    assert report.answer.published == pytest.approx(0.1)
    assert report.published_broken
    assert not report.broken


def test_the_datasets_are_the_accountants_and_differ_in_one_value() -> None:
    for asked in QUESTIONS.values():
        pair = neighbours_of(asked, Effort(2), asked.setting.users)
        first, second = pair.datasets
        assert len(first) == len(second) == asked.setting.users
        assert [a != b for a, b in zip(first, second, strict=True)] == [True] + [False] * (
            len(first) - 1
        )
    assert worst_looking(spec_of(krr(symbols=4)), 3, 2, 0).datasets == ((2, 1, 1), (0, 1, 1))
    assert worst_looking(spec_of(krr(symbols=2)), 3, 0, 1).datasets == ((0, 0, 0), (1, 0, 0))
    assert worst_looking(spec_of(bits()), 3, 1, 3).datasets == ((1, 0, 0), (3, 0, 0))


def test_counts_are_those_of_the_answers() -> None:
    answers = np.array([[0, 1, 1], [2, 2, 2]])
    assert spec_of(krr()).count(answers).tolist() == [[1, 2, 0], [0, 0, 3]]
    assert spec_of(bits()).count(answers).tolist() == [[7, 2], [3, 6]]


def test_every_trial_is_new_and_every_user_takes_part(pool: ProcessPoolExecutor) -> None:
    """Without noise to speak of the counts are the datasets.

    With noise trials differ (equal: below 1e-300).
    """
    almost_silent = spec_of(shares(users=5, epsilon="40"))
    told: list[tuple[int, int]] = []
    first, second = shuffled_counts(
        almost_silent,
        ((1, 2, 3, 0, 0), (3, 2, 3, 0, 0)),
        50,
        pool,
        progress=lambda *at: told.append(at),
    )
    shift = 5 * getattr(almost_silent, "padding")  # noqa: B009 - one mechanism of the union
    assert (first[:, 1] - shift).tolist() == [6] * 50
    assert (second[:, 1] - shift).tolist() == [8] * 50
    assert told[-1] == (100, 100)
    noisy = shuffled_counts(spec_of(geo()), ((0,) * 8,), 30_001, pool)[0][:, 1]
    assert len(noisy) == 30_001
    assert not np.array_equal(noisy[:12_500], noisy[12_500:25_000])


def test_outcomes_are_ordered_by_what_the_estimate_says() -> None:
    spec, pair = spec_of(krr(symbols=12)), worst_looking(spec_of(krr(symbols=12)), 9, 4, 7)
    generator = np.random.default_rng(1)
    counts = [generator.multinomial(9, np.full(12, 1 / 12), size=200) for _ in range(2)]
    left, right = outcomes(spec, pair, counts)
    rows, codes = np.concatenate(counts), np.concatenate((left, right))
    said = [answer[7] - answer[4] for answer in (estimate(spec, row, 9).values for row in rows)]
    order = np.argsort(codes, kind="stable")
    assert np.all(np.diff(np.array(said)[order]) >= -1e-9)
    for one, other in ((0, 1), (5, 300), (17, 17)):
        assert (codes[one] == codes[other]) == np.array_equal(rows[one], rows[other])
    assert rank_answers(np.array([[3.0], [1.0], [3.0], [2.0]]), pair).tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize(
    ("effort", "words"),
    [
        (lambda: Effort(1), "trials"),
        (lambda: Effort(10, 1.0), "confidence"),
        (lambda: neighbours_of(bits(), Effort(10, distance=4), 8), "values must be from 0 to 3"),
        (lambda: neighbours_of(bits(max_distance=2), Effort(10, distance=3), 8), "changes up to 2"),
        (lambda: neighbours_of(bits(), Effort(10, values=(2, 2)), 8), "differ"),
        (lambda: neighbours_of(bits(), Effort(10, values=(0, -1)), 8), "from 0 to 3"),
        (
            lambda: spec_of(questions.question(questions.local(1.0), Scenario(10, 1e-3))),
            "no sampler",
        ),
    ],
)
def test_bad_parameters_are_refused(effort: object, words: str) -> None:
    assert callable(effort)
    with pytest.raises(UsageError, match=words):
        effort()


def test_more_trials_than_memory_are_refused(pool: ProcessPoolExecutor) -> None:
    with pytest.raises(UsageError, match="trials must be from 1 to"):
        shuffled_counts(spec_of(krr()), ((0,), (1,)), 10**9, pool)


def run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["shuffledp", *line.split()])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_the_command_prints_bound_claim_and_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"audit geo-shuffle --trials 2000 --confidence {STRICT} --values 3 1 --format json"
    code, out, err = run(line, monkeypatch, capsys)
    told = json.loads(out)
    assert code == 0
    assert err.splitlines() == ["trials: 2,000 of 4,000", "trials: 4,000 of 4,000"]
    assert told["verdict"] == "no contradiction"
    assert told["datasets"] == {"changed": [3, 1], "others": 0}
    assert (
        told["audited"]["epsilon_lower"] <= told["epsilon"]["certified"] == told["claim"]["epsilon"]
    )
    code, out, _ = run(
        f"audit rr-shuffle --trials 2000 --local --confidence {STRICT}", monkeypatch, capsys
    )
    assert code == 0
    assert "verdict" in out


def test_the_command_ends_with_1_and_says_so_when_a_claim_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "audit", partial(audit, sampler=coin_not_flipped))
    code, out, err = run(
        f"audit rr-shuffle --trials 20000 --confidence {STRICT} --format json", monkeypatch, capsys
    )
    assert code == 1
    assert json.loads(out)["broken"] is True
    assert err.splitlines()[-1].startswith(
        "error: CLAIM BROKEN: at delta 0.01 epsilon is at least "
    )


@pytest.mark.parametrize(
    ("line", "trials"),
    [
        ("rr-shuffle --quick", 500_000),
        ("rr-shuffle", 10_000_000),
        ("rr-shuffle --one-by-one", 1_000_000),
        ("krr-histogram --symbols 64", 2**20),
        ("krr-histogram --symbols 64 --trials 7", 7),
        ("rr-shuffle --through-mixnet --quick", 4),
    ],
)
def test_a_quick_audit_takes_a_twentieth_of_the_trials(
    line: str, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def started(_: object, effort: Effort, **__: object) -> None:
        asked.append(effort.trials)

    monkeypatch.setattr(command, "run_audit_command", started)
    monkeypatch.setattr(sys, "argv", ["shuffledp", "audit", *line.split()])
    with pytest.raises(SystemExit):
        cli.main()
    assert asked == [trials]


def test_refusals_of_the_command_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, words in (
        ("audit rr-shuffle --trials 1", "trials"),
        ("audit rr-shuffle --trials 100 --quick", "leave out --trials"),
        ("audit rr-shuffle --distance 9", "from 0 to 3"),
        ("audit rr-shuffle --through-mixnet --local", "local"),
        ("audit rr-shuffle --through-mixnet --one-by-one", "leave out --one-by-one"),
    ):
        code, _, err = run(line, monkeypatch, capsys)
        assert code == 2
        assert err.startswith("error: ")
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.slow
def test_rounds_over_real_processes_contradict_nothing(pool: ProcessPoolExecutor) -> None:
    """Ten rounds, 15 s.

    The smallest false-alarm rate there is, and no power: see the module's docstring.
    """
    report = audit_through_mixnet(bits(users=10, largest=1), Effort(5, STRICT), pool)
    assert report.bound.trials == 5
    assert not report.broken
    assert report.claimed is not None
    assert 0 < report.claimed <= (report.answer.certified or 0) * (1 + 1e-6)
    assert any("a weak test" in note for note in report.notes)


def test_a_claim_broken_is_one_of_our_errors() -> None:
    assert issubclass(ClaimBroken, ShuffleDPError)
