"""What plans for a question cost and give: each error again, by linear algebra written out here."""

from __future__ import annotations

import itertools
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp import cli, outlook, progress
from shuffledp.commands import targets
from shuffledp.commands.advise import advise
from shuffledp.crosstab import table_of
from shuffledp.outlooks import ColumnsOutlook, DrawnOutlook, QuantileOutlook, TotalOutlook
from shuffledp_core.answering.estimates import Present
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import NodeHistogram, NodeTree
from shuffledp_core.questions import (
    AmountField,
    CategoryField,
    RangeField,
    RecordQuestion,
    RecordSchema,
    columns,
    counts,
    quantiles,
    total,
)
from shuffledp_privacy.bounds import Setting

SCHEMA = RecordSchema(
    {
        "age": RangeField.steps(0, 70, 1, unit="years"),
        "sex": CategoryField(["female", "male", "other"]),
        "country": CategoryField(["DE", "FR"]),
        "spent": AmountField(1, most=1000, unit="EUR"),
    }
)
NODES = 2


def look(question: RecordQuestion) -> Any:
    people = Setting(users=5000, honest=1)
    return outlook(question, epsilon=1, delta=1e-6, setting=people, nodes=NODES)


def deviation(spec: NodeHistogram | NodeTree) -> float:
    """Standard deviation of the noise of all nodes in one count."""
    law = bounded_laplace_law(spec.noise_epsilon, spec.mean)
    values = np.arange(law.size) - law.size // 2
    return float(np.sqrt(NODES * law @ values**2))


def errors_with_known_total(queries: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Standard errors of sums of independent counts whose total is known."""
    free = queries - queries.mean(axis=1, keepdims=True)
    return np.asarray(noise * np.sqrt((free**2).sum(axis=1)))


def test_quantiles_are_compared_with_a_plain_histogram() -> None:
    question = quantiles(SCHEMA, "age")
    found = look(question)
    assert isinstance(found, QuantileOutlook)
    tree, plain = found.plans
    assert (tree.mechanism, plain.mechanism) == ("node-tree", "node-histogram")
    assert (tree.messages, plain.messages) == (2, 1)
    assert found.best is tree

    spec = NodeTree(**_parameters("node-tree", question))
    bins = np.eye(71)
    groups = [bins[start : start + spec.width].sum(axis=0) for start in range(0, 71, spec.width)]
    shape = np.concatenate([groups, bins])
    # The variance of the least-squares estimate under the condition on the total, by its bordered
    # normal equations.
    ones = np.ones((71, 1))
    bordered = np.block([[shape.T @ shape, ones], [ones.T, np.zeros((1, 1))]])
    covariance = np.linalg.inv(bordered)[:71, :71] * deviation(spec) ** 2
    prefixes = np.tril(np.ones((71, 71)))[:70]
    variances = np.einsum("ij,jk,ik->i", prefixes, covariance, prefixes)
    assert tree.errors == pytest.approx(np.sqrt(variances))

    histogram = NodeHistogram(**_parameters("node-histogram", question))
    assert plain.errors == pytest.approx(errors_with_known_total(prefixes, deviation(histogram)))
    # A normal law of that deviation has 1.96 of it, a law with heavier tails a little more.
    for plan in found.plans:
        assert 1.9 * plan.errors.max() < plan.reach < 2.2 * plan.errors.max()
    assert tree.dummies == spec.dummies_per_node


def _parameters(kind: str, question: RecordQuestion) -> dict[str, Any]:
    import msgspec

    from shuffledp import calibrate

    people = Setting(users=5000, honest=1)
    plan = calibrate(kind, epsilon=1, delta=1e-6, setting=people, symbols=question.size)
    return msgspec.structs.asdict(plan.spec)  # type: ignore[arg-type]


def test_a_sum_of_unknown_range_has_an_error_for_each_cut() -> None:
    question = total(SCHEMA, "sex", "spent")
    found = look(question)
    assert isinstance(found, TotalOutlook)
    assert found.groups == 3
    spec = NodeHistogram(**_parameters("node-histogram", question))
    symbols = SCHEMA.field("spent").symbols
    numbers = np.array([float(symbols.value(at)) for at in range(symbols.size)])  # type: ignore[union-attr]
    assert [cut.cut for cut in found.cuts] == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    for cut in found.cuts:
        weights = numbers
        if cut.cut < numbers[-1]:
            weights = np.where(numbers <= cut.cut, numbers, np.maximum(2 * cut.cut - numbers, 0))
        query = np.zeros((1, question.size))
        query[0, : numbers.size] = weights
        error = errors_with_known_total(query, deviation(spec))
        assert cut.noise == pytest.approx(error[0])
    # Discrete Laplace noise for a change of the cut, with no noise of rounding.
    for cut, trusted in zip(found.cuts, found.trusted, strict=True):
        assert trusted == pytest.approx(found.trusted[0] * cut.cut / 2)
        assert trusted < cut.noise
    assert found.trusted[0] == pytest.approx(2 * np.sqrt(2 * np.exp(-1)) / (1 - np.exp(-1)))


def test_rounding_adds_no_more_than_is_said() -> None:
    found = look(total(SCHEMA, "spent"))
    # Of a value v between neighbours a and b: sqrt((v - a)(b - v)), relative to v.
    numbers = [2, 3, 4, 6, 8, 12, 16]
    largest = max(
        np.sqrt((value - low) * (high - value)) / value
        for low, high in itertools.pairwise(numbers)
        for value in np.linspace(low, high, 2001)
    )
    assert found.rounding_share == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize(("names", "best"), [(("sex", "country"), "table"), (("age", "sex"), "by")])
def test_several_fields_are_compared_with_one_table(names: tuple[str, ...], best: str) -> None:
    question = columns(SCHEMA, *names)
    found = look(question)
    assert isinstance(found, ColumnsOutlook)
    assert found.best is (found.table if best == "table" else found.columns)
    assert isinstance(found.table, NodeHistogram)
    cells = np.arange(question.size).reshape(question.shape)
    for axis, field in enumerate(found.fields):
        member = np.isin(cells.ravel(), np.take(cells, 0, axis=axis)).astype(float)
        error = errors_with_known_total(member[np.newaxis], deviation(found.table))
        # The condition on room lessens it, most of all with few cells.
        assert 0.9 * error[0] < field.by_table <= error[0] * (1 + 1e-9)
        assert field.by_column == pytest.approx(found.columns.node_noise * np.sqrt(NODES))


def test_errors_of_a_table_are_those_of_its_margins() -> None:
    question = columns(SCHEMA, "sex", "country")
    found = look(question)
    spec = found.table
    values = np.arange(6).repeat(10)
    present = Present(Fraction(60), NODES)
    board = np.bincount(values, minlength=spec.alphabet) + NODES * spec.mean
    answer = spec.estimate(board.tolist(), present)
    crosstab = table_of(spec, answer, question.wording, present)
    assert crosstab is not None
    by_table = [field.by_table for field in found.fields]
    assert by_table[0] == pytest.approx(crosstab.row_sums[0].error)
    assert by_table[1] == pytest.approx(crosstab.column_sums[0].error)


def test_counts_have_a_comparison_of_mechanisms_instead() -> None:
    assert look(counts(SCHEMA, "sex")) is None


DESCRIPTIONS = {
    "quantiles": (
        'ask = "quantiles"\nof = "age"\n[fields.age]\nunit = "years"\nfrom = 0\nto = 80\nstep = 1',
        "Take node-tree: the least error",
    ),
    "total": (
        'ask = "total"\nof = "spent"\n[fields.spent]\nunit = "EUR"\nleast = 1',
        "the trusted party knows the largest value",
    ),
    "columns": (
        'ask = "columns"\nof = ["a", "b"]\n[fields.a]\nnames = ["x", "y"]\n'
        '[fields.b]\nnames = ["x", "y"]',
        'it also counts combinations: ask = "table"',
    ),
}


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_advise_says_what_each_question_gives(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 3600.0)
    monkeypatch.setenv("COLUMNS", "200")
    text, words = DESCRIPTIONS[kind]
    file = tmp_path / "question.toml"
    file.write_text(text)
    target = ["advise", "--users", "1000", "--epsilon", "1", "--delta", "1e-6"]

    def run(*options: str) -> tuple[int, str, str]:
        arguments = ["shuffledp", *target, "--question", str(file), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    code, out, err = run()
    assert (code, err) == (0, "")
    assert words in " ".join(out.split())
    picture = tmp_path / "picture.png"
    code, out, err = run("--format", "json", "--plot", str(picture))
    if kind == "columns":
        assert (code, err) == (2, "error: --plot has no picture of this question: leave it out\n")
        return
    assert (code, err) == (0, "")
    assert json.loads(out)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_numbers_on_a_scale_are_compared_as_a_sum_and_as_a_histogram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the comparison, which takes seconds."""
    asked = []

    def compare(_scenario: object, sizes: targets.Sizes, *_: object) -> None:
        asked.append(sizes)
        raise UsageError("enough")

    monkeypatch.setattr(targets, "compare_mechanisms", compare)
    file = tmp_path / "question.toml"
    file.write_text(
        'id = "km"\ntext = "How far is it?"\n[[axes]]\nfield = "km"\nunit = "km"\n'
        'symbols = { kind = "scale", start = "0", step = "0.5", size = 9 }'
    )
    with pytest.raises(UsageError, match="enough"):
        advise(users=200, epsilon=1, delta=1e-6, question=file)
    assert asked == [targets.Sizes(max_value=8, symbols=9)]


def test_only_outlooks_with_a_curve_are_drawn() -> None:
    assert isinstance(look(total(SCHEMA, "spent")), DrawnOutlook)
    assert not isinstance(look(columns(SCHEMA, "sex", "country")), DrawnOutlook)
