"""Presentation of a round: tables, the signed documents as files, a picture."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from shuffledp import map_page, open_lists
from shuffledp.crosstab_page import remarks as table_remarks
from shuffledp.crosstab_page import text_table
from shuffledp.total_page import remarks as total_remarks
from shuffledp.total_page import text_table as totals_table
from shuffledp_core.answering.strings import FrequentText
from shuffledp_core.documents.models import Certificate
from shuffledp_core.errors import NotInstalledError
from shuffledp_ops.rounds import wording
from shuffledp_ops.rounds.report import (
    RoundReport,
    TracedPerson,
    TraceOutcome,
    is_open,
    show,
    true_quantile,
)

TRACED: Final = "traced.csv"
"""File with everyone whom corrupt nodes traced, in the folder of a simulated round."""

TEXTS: Final = "texts.csv"
"""File with the frequent texts of an open list, in the folder of a round."""

MAP: Final = "map.geojson"
"""File with the cells of a map, in the folder of its round."""

SHOWN_PEOPLE: Final = 10
"""Traced people whom the terminal lists; the rest are in `TRACED`."""


def write_documents(report: RoundReport, folder: Path, keys: dict[str, bytes]) -> None:
    """Write the signed documents, other published files, and verification keys into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, signed in report.documents.items():
        (folder / f"{name}.json").write_bytes(signed.to_bytes() + b"\n")
    for name, data in (keys | report.published).items():
        (folder / name).write_bytes(data)


def write_report(report: RoundReport, folder: Path) -> None:
    """Write the report into `folder`: as JSON, as a picture, and as a page with links.

    Without matplotlib, the extra `plot`, there is no picture.
    """
    from shuffledp_ops.rounds.picture import draw_report

    (folder / "report.json").write_text(json.dumps(report.to_dict(), indent=2) + "\n")
    if report.table is not None and map_page.edges_of(report.table) is not None:
        (folder / MAP).write_text(json.dumps(map_page.geojson(report.table)) + "\n")
    if report.trace is not None:
        _write_traced(report.trace, folder / TRACED)
    write_texts(report, folder)
    with suppress(NotInstalledError):
        draw_report(report, folder / "plot.png")
    write_page(report, folder)


def _write_traced(trace: TraceOutcome, file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened)
        rows.writerow(TracedPerson._fields)
        rows.writerows(trace.people())


def write_texts(report: RoundReport, folder: Path) -> None:
    """Write the frequent texts of an open list as CSV into `folder`; nothing for other answers."""
    if report.open_list is None:
        return
    names = [field.name for field in fields(FrequentText)]
    with (folder / TEXTS).open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened)
        rows.writerow(names)
        rows.writerows([getattr(text, name) for name in names] for text in report.open_list.texts)


def write_page(report: RoundReport, folder: Path) -> Path:
    """Write the page into `folder` atomically; return its path."""
    from shuffledp_ops.rounds.page import PAGE, page

    file = folder / PAGE
    part = folder / f".{PAGE}.part"
    try:
        part.write_text(
            page(report, {file_beside.name for file_beside in folder.iterdir()}), encoding="utf-8"
        )
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return file


def print_answer(report: RoundReport, *, as_json: bool) -> None:
    """Print the report as one JSON object or for people, and flush standard output."""
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(report, Console())
    sys.stdout.flush()


def print_folder(folder: Path) -> None:
    """Print the paths of the report and the documents unwrapped, so that they can be copied."""
    for words, path in (("Report", folder / "report.html"), ("Documents", folder)):
        Console(soft_wrap=True).print(f"{words}: [bold]{escape(str(path))}[/bold]")


def print_report(report: RoundReport, console: Console) -> None:
    """Print the answer, the guarantee and the time of each stage, for people."""
    if report.table is not None and map_page.edges_of(report.table) is not None:
        console.print(*map_page.text_map(report.table), sep="\n", markup=False, highlight=False)
    console.print(_answer_table(report))
    for remark in _remarks(report):
        console.print(f"[dim]{remark}[/dim]\n")
    console.print(_guarantee_table(report))
    if report.corrupt:
        console.print(_corruption_table(report))
    people = [] if report.trace is None else list(islice(report.trace.people(), SHOWN_PEOPLE))
    if report.trace is not None and people:
        console.print(_traced_table(report, people, report.trace.traced))
    if report.seconds:
        console.print(_seconds_table(report))


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=False, pad_edge=False
    )


def _answer_table(report: RoundReport) -> Table:
    if is_open(report):
        return _texts_table(report)
    if report.totals is not None:
        return totals_table(report.totals, f"The answer: sum over {report.accepted:,} users")
    if report.table is not None:
        return text_table(report.table, f"The answer: table over {report.accepted:,} users")
    if report.quantiles:
        return _quantile_table(report)
    return _sum_table(report) if report.is_sum else _histogram_table(report)


def _texts_table(report: RoundReport) -> Table:
    title = f"The answer: frequent texts over {report.accepted:,} users"
    if report.open_list is not None:
        return open_lists.text_table(report.open_list, title)
    table = _table(title)
    table.add_row("no candidates were looked up", f"run: {open_lists.COMMAND}")
    return table


def _sum_table(report: RoundReport) -> Table:
    answer, digits, truth = report.answer, report.decimals, report.true_answer
    value, spread = answer.values[0], answer.standard_errors[0]
    unit = f" {escape(report.unit)}".rstrip()
    table = _table(f"The answer: sum over {report.accepted:,} users")
    table.add_row("estimate", f"{value:,.{digits}f} ± {spread:,.{digits}f}{unit} (standard error)")
    table.add_row(
        "95% interval", f"{answer.lows[0]:,.{digits}f} .. {answer.highs[0]:,.{digits}f}{unit}"
    )
    if answer.mean is not None and answer.mean_standard_error is not None:
        error = answer.mean_standard_error
        table.add_row("mean", f"{answer.mean:.4f} ± {error:.4f}{unit}")
    if truth is not None:
        error = value - truth[0]
        table.add_row(
            "true value [dim](simulation only)[/dim]", f"{truth[0]:,.{digits - 1}f}{unit}"
        )
        table.add_row(
            "actual error", f"{error:+,.{digits}f}{unit} = {error / spread:+.2f} standard errors"
        )
    return table


def _remarks(report: RoundReport) -> list[str]:
    """Remarks on the answer besides its numbers."""
    remarks = [] if report.table is None else [*table_remarks(report.table)][1:]
    remarks += [] if report.table is None else [*map_page.remarks(report.table)]
    remarks += [] if report.totals is None else [*total_remarks(report.totals)]
    if report.open_list is not None:
        remarks += open_lists.remarks(report.open_list)
    if not report.estimate_in_interval and not is_open(report):
        remarks.append(
            "unbiased estimates can be negative or exceed the total; intervals are clipped to "
            "possible values"
        )
    remarks += wording.noise_of_nodes(report)
    remarks += wording.liars(report)
    if report.capped:
        remarks.append(f"{report.capped:,} values above the largest were capped")
    if report.drawn_from is not None:
        remarks.append(
            f"simulation: {report.users:,} users drawn with replacement from "
            f"{report.drawn_from:,} rows"
        )
    return remarks


def _quantile_table(report: RoundReport) -> Table:
    table = _table(f"The answer: quantiles over {report.accepted:,} users")
    table.show_header = True
    headings = ["share of people", "up to", "95% interval"]
    if report.truth is not None:
        headings.append("true [dim](simulation only)[/dim]")
    for heading in headings:
        table.add_column(heading, justify="right")
    for quantile in report.quantiles:
        names = [
            escape(report.label(symbol)) for symbol in (quantile.bin, quantile.low, quantile.high)
        ]
        row = [f"{quantile.share:.0%}", names[0], f"{names[1]} .. {names[2]}"]
        true = true_quantile(report, quantile.share)
        if true is not None:
            row.append(escape(report.label(true)))
        table.add_row(*row)
    return table


def _histogram_table(report: RoundReport) -> Table:
    table = _table(f"The answer: histogram over {report.accepted:,} users")
    table.show_header = True
    headings = ["value", "estimate", "± s.e."]
    if report.truth is not None:
        headings += ["true [dim](simulation only)[/dim]", "error"]
    for heading in headings:
        table.add_column(heading, justify="right")
    estimate = report.estimate
    for symbol, (value, error) in enumerate(
        zip(estimate.values, estimate.standard_errors, strict=True)
    ):
        row = [escape(report.label(symbol)), f"{value:,.1f}", f"{error:,.1f}"]
        if report.truth is not None:
            true = int(report.truth[symbol])
            row += [f"{true:,}", f"{value - true:+,.1f}"]
        table.add_row(*row)
    return table


def _guarantee_table(report: RoundReport) -> Table:
    final = report.final
    per_unit = " per unit of distance" if final.adjacency == "metric" else ""
    table = _table("The guarantee, signed by the accountant")
    table.add_row("mechanism", f"{final.mechanism.kind}, {describe_parameters(final)}")
    if not report.all_corrupt:
        attained = f"(attained: {show(final.epsilon.attained)})"
        table.add_row("ε certified", f"{show(final.epsilon.certified)}{per_unit}  {attained}")
        table.add_row("δ", f"{final.delta:g}")
    table.add_row(
        "neighbours",
        f"{final.adjacency.value}: one value changes by at most {final.max_distance:,}",
    )
    if not report.all_corrupt:
        table.add_row("holds while", final.condition)
    table.add_row(
        "ε_L, all nodes corrupt",
        f"{show(final.corrupted.epsilon)}{per_unit}  (δ = {final.corrupted.delta:g})",
    )
    mixing = ", verified mixing" if final.verified else ""
    number = final.mechanism.dummies_per_node
    dummies = f", {number:,} a node" if number else ""
    table.add_row(
        "messages",
        f"{report.messages:,} ({final.mechanism.messages_per_user:,} a user{dummies}), suite "
        f"{report.suite}{mixing}",
    )
    if final.dropped or final.invalid:
        table.add_row(
            "not counted",
            f"{report.dropped:,} dropped by nodes, {report.outside_alphabet:,} with a symbol "
            f"outside the alphabet, {report.repeated_tags:,} with a repeated tag",
        )
    if not final.holds:
        table.add_row("the plan's target", "does NOT hold: see the certificate's basis")
    return table


def _corruption_table(report: RoundReport) -> Table:
    final, trace = report.final, report.trace
    per_unit = " per unit of distance" if final.adjacency == "metric" else ""
    table = _table("What the corrupt nodes learned")
    table.add_row("corrupt nodes", f"{', '.join(map(str, report.corrupt))} of {final.nodes}")
    if trace is not None:
        table.add_row(
            "users traced", f"{trace.traced:,} of {trace.users:,} = {trace.traced_share:.0%}"
        )
    table.add_row(
        "ε for this corruption",
        f"{show(report.epsilon_here)}{per_unit}  (δ = {report.delta_here:g})",
    )
    table.add_row("ε_L, all nodes corrupt", f"{show(final.corrupted.epsilon)}{per_unit}")
    if (
        trace is not None
        and trace.success is not None
        and trace.interval is not None
        and trace.baseline is not None
    ):
        low, high = trace.interval
        table.add_row(
            "values guessed",
            f"{trace.success:.1%}  ({low:.1%} .. {high:.1%}, {trace.confidence:.0%} interval)",
        )
        table.add_row("baseline", f"{trace.baseline:.1%}, always guessing the most frequent value")
    return table


def _traced_table(report: RoundReport, people: Sequence[TracedPerson], total: int) -> Table:
    table = _table("Who sent what, from the logs of the corrupt nodes")
    table.show_header = True
    table.add_column("credential")
    headings = ["sent", "most likely value"]
    if people[0].value is not None:
        headings.append("true value [dim](simulation only)[/dim]")
    for heading in headings:
        table.add_column(heading, justify="right")
    for person in people:
        row = [person.credential[:16], str(person.sent), escape(report.value_name(person.guess))]
        if person.value is not None:
            row.append(escape(report.value_name(person.value)))
        table.add_row(*row)
    if total > len(people):
        table.caption = f"and {total - len(people):,} more, in {TRACED}"
        table.caption_justify = "left"
    return table


def _seconds_table(report: RoundReport) -> Table:
    table = _table("Seconds by stage")
    table.show_header = False
    for stage, value in report.seconds.items():
        table.add_row(stage, f"{value:8.2f}")
    return table


def describe_parameters(certificate: Certificate) -> str:
    """The mechanism's parameters in one line, with the names of the mechanism's class."""
    spec = certificate.mechanism
    return ", ".join(f"{name} = {getattr(spec, name)}" for name in spec.__struct_fields__)
