"""`shuffledp simulate`: a round's answer to a column of a file, without nodes or network."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shuffledp.commands.options import (
    Candidates,
    Format,
    OptionalMechanism,
    OutputFormat,
    QuestionFile,
    TableOfColumns,
    parse_integer,
)
from shuffledp_core.answering.estimation import Estimator
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from shuffledp.crosstab import CrossTable
    from shuffledp.simulation import Answer
    from shuffledp_core.answering.quantiles import BinDistribution
    from shuffledp_core.answering.strings import OpenListAnswer
    from shuffledp_core.answering.totals import FieldTotals
    from shuffledp_core.documents.wording import QuestionWording


DEFAULT_MECHANISM: Final = "geo-shuffle"
"""Without a question; a question has one of its own."""


def simulate(
    *,
    users: Annotated[int, typer.Option(min=2, help="Number of simulated users.")] = 2000,
    mechanism: OptionalMechanism = None,
    epsilon: Annotated[
        float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[
        Adjacency,
        typer.Option(
            help="Neighbouring inputs: standard (any change of a value) or metric (ε per unit)."
        ),
    ] = Adjacency.STANDARD,
    max_distance: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest change of a value that the guarantee covers; default: any change."
        ),
    ] = None,
    honest: Annotated[
        int | None,
        typer.Option(
            parser=parse_integer,
            metavar="INTEGER",
            help="Users who follow the protocol; default: 95%.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column to use: non-negative integers.")
    ] = None,
    max_value: Annotated[
        int, typer.Option(min=1, help="Largest value; larger ones are capped.")
    ] = 20,
    question: QuestionFile = None,
    table: TableOfColumns = None,
    candidates: Candidates = None,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=parse_integer,
            metavar="INTEGER",
            help="Seed for fast, repeatable noise; default: the clients' exact samplers.",
        ),
    ] = None,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help="Histogram estimator: inverted (unbiased), projected (nearest valid histogram) "
            "or ibu (maximum "
            "likelihood). The standard error is always that of the inverted one."
        ),
    ] = Estimator.INVERTED,
    plot: Annotated[
        Path | None, typer.Option(help="Also plot the answer into this file (.png, .svg or .pdf).")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Simulate the answer of one round and its error, without nodes, keys or network."""
    from shuffledp.choosing import calibrate
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.guarantees import guarantee_of, number
    from shuffledp.progress import working
    from shuffledp.question_files import ask, choose_mechanism
    from shuffledp.records import load_answers
    from shuffledp.simulation import simulate as simulate_round
    from shuffledp_core.mechanisms import MECHANISMS
    from shuffledp_core.questions import MECHANISM
    from shuffledp_privacy.bounds import Setting

    if plot is not None:
        from shuffledp.drawing import check_plot

        check_plot(plot)
    group = Setting(
        users, users - users // 20 if honest is None else honest, adjacency, max_distance
    )
    mechanism = choose_mechanism(mechanism, question, MECHANISM if table else DEFAULT_MECHANISM)
    wording = ask(question, table, data, mechanism)
    max_value = max_value if wording is None else wording.size - 1
    data_column = load_answers(data, column, wording, users=users, max_value=max_value)
    with working(f"calibrating {mechanism}"):
        by_axis = wording is not None and MECHANISMS[mechanism].counts_columns
        plan = calibrate(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            setting=group,
            max_value=None if by_axis else max_value,
            columns=wording.columns if wording is not None and by_axis else None,
        )
        bounds = guarantee_of(plan)
    with working("simulating"):
        answer = simulate_round(plan, data_column.values, seed, estimator)
    open_list = None
    if wording is not None and wording.is_open and data is not None:
        from shuffledp.open_lists import find_in_simulation

        open_list = find_in_simulation(
            wording, answer.estimate.values, data_column.values, candidates, data
        )
    if plot is not None:
        from shuffledp.drawing import save

        save(answer.plot(), plot)
    if output is OutputFormat.JSON:
        entries = {} if wording is None else _question_entries(answer, wording, open_list)
        more = {"capped": data_column.capped, "guarantee": bounds.to_dict()}
        print_json({**answer.to_dict(), **entries, **more})
        return
    print_rich(
        *_render(answer, wording, data_column.capped, open_list),
        f"ε certified {number(bounds.certified)} at δ = {delta:g}",
    )
    if plot is not None:
        typer.echo(f"drawn into {plot}")


def _distribution(answer: Answer, wording: QuestionWording | None) -> BinDistribution | None:
    """Quantiles of an answer, without the others of its question; None if there are none."""
    from dataclasses import replace

    distribution = answer.distribution
    if distribution is None or wording is None or not wording.others:
        return distribution
    return replace(distribution, outside=1)


def _crosstab(answer: Answer, wording: QuestionWording) -> CrossTable | None:
    from fractions import Fraction

    import numpy as np

    from shuffledp.crosstab import table_of
    from shuffledp_core.answering.estimates import Present

    present = Present(Fraction(answer.users), 1 if answer.spec.dummies_per_node else 0)
    truth = np.atleast_1d(answer.true_total).astype(np.int64)
    return table_of(answer.spec, answer.estimate, wording, present, truth)


def _totals(answer: Answer, wording: QuestionWording) -> FieldTotals | None:
    from fractions import Fraction

    import numpy as np

    from shuffledp_core.answering.estimates import Present
    from shuffledp_core.answering.totals import totals_of

    truth = np.atleast_1d(answer.true_total).astype(np.int64)
    present = Present(Fraction(answer.users), answer.nodes)
    return totals_of(answer.spec, answer.estimate, wording, present, truth)


def _question_entries(
    answer: Answer, wording: QuestionWording, open_list: OpenListAnswer | None
) -> dict[str, Any]:
    from shuffledp.crosstab import names_of
    from shuffledp.map_page import centre_entry

    if open_list is not None:
        return {"question": wording.id, "open_list": asdict(open_list)}
    crosstab = _crosstab(answer, wording)
    totals = _totals(answer, wording)
    table: dict[str, Any] = {} if crosstab is None else {"table": crosstab.to_dict()}
    middle = centre_entry(crosstab)
    if middle is not None:
        table["centre"] = middle
    distribution = _distribution(answer, wording)
    if distribution is not None:
        table["quantiles"] = [quantile._asdict() for quantile in distribution.quantiles()]
    if totals is not None:
        table["totals"] = totals.to_dict()
    return {"question": wording.id, "labels": list(names_of(answer.spec, wording)), **table}


def _render(
    answer: Answer, wording: QuestionWording | None, capped: int, open_list: OpenListAnswer | None
) -> Iterator[RenderableType]:
    """Tables and remarks of an answer; a cross table if the question has several fields."""
    from rich.text import Text

    from shuffledp import map_page, open_lists, total_page
    from shuffledp.crosstab import names_of
    from shuffledp.crosstab_page import remarks, text_table

    if open_list is not None:
        title = f"[bold]{answer.spec.kind}[/bold]: frequent texts of {answer.users:,} users"
        yield open_lists.text_table(open_list, title)
        yield from open_lists.remarks(open_list)
        return
    crosstab = None if wording is None else _crosstab(answer, wording)
    totals = None if wording is None else _totals(answer, wording)
    if totals is not None:
        title = f"[bold]{answer.spec.kind}[/bold]: sum over {answer.users:,} users"
        yield total_page.text_table(totals, title)
        yield from total_page.remarks(totals)
        return
    if crosstab is None:
        names = (
            () if wording is None or answer.quantity == "sum" else names_of(answer.spec, wording)
        )
        yield _table(answer, capped, names, _distribution(answer, wording))
        return
    title = f"[bold]{answer.spec.kind}[/bold]: table over {answer.users:,} users"
    if map_page.edges_of(crosstab) is not None:
        yield Text("\n".join(map_page.text_map(crosstab)))
    yield text_table(crosstab, title)
    yield from list(remarks(crosstab))[1:]
    yield from map_page.remarks(crosstab)


def _table(
    answer: Answer, capped: int, names: Sequence[str], distribution: BinDistribution | None
) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=f"[bold]{answer.spec.kind}[/bold]: "
        f"{answer.quantity if distribution is None else 'quantiles'} over {answer.users:,} users",
        title_justify="left",
        caption=f"{capped:,} values above the largest were capped" if capped else None,
        box=box.SIMPLE_HEAD,
        show_header=False,
        pad_edge=False,
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    if distribution is not None:
        for row in _quantiles(answer, distribution, names):
            table.add_row(*row)
    for at, (name, *rest) in enumerate(answer.rows() if distribution is None else ()):
        table.add_row(escape(names[at]) if names else name, *rest)
    if answer.quantity == "sum":
        low, high = answer.mean_interval.tolist()
        mean = f"{answer.mean:,.4f} ± {answer.mean_standard_error:,.4f}"
        table.add_row("mean", mean, f"95% in {low:,.4f} .. {high:,.4f}; truth {answer.truth:,.4f}")
    return table


def _quantiles(
    answer: Answer, distribution: BinDistribution, names: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """A row for each quantile: name, estimate, remark."""
    import numpy as np
    from rich.markup import escape

    sums = np.cumsum(np.asarray(answer.true_total)[: distribution.counted])
    for quantile in distribution.quantiles():
        truth = int(np.searchsorted(sums, quantile.share * sums[-1]))
        places = (quantile.bin, quantile.low, quantile.high, truth)
        value, low, high, true = (escape(names[place]) if names else str(place) for place in places)
        yield f"{quantile.share:.0%} quantile", value, f"95% in {low} .. {high}; truth {true}"
