"""The report of a round as one self-contained HTML file, `report.html`. Pure.

The file loads and runs nothing. Names can come from other parties, so every name is escaped where
it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Final

from shuffledp import crosstab_page, map_page, total_page
from shuffledp.log_proofs import LOG_PROOF, RESULT_PROOF, LogPosition
from shuffledp.pages import as_html, self_contained
from shuffledp.published import BOARD, HISTORY
from shuffledp_core.answering.totals import FieldTotals
from shuffledp_ops.rounds import charts, column_parts, quantile_parts, string_parts, wording
from shuffledp_ops.rounds.present import MAP, TEXTS, TRACED, describe_parameters
from shuffledp_ops.rounds.report import RoundReport, is_open, show

PAGE: Final = "report.html"
"""Name of the file, next to the documents that it links to."""

MOST_ROWS: Final = 1000
"""Most rows in the table of all numbers; `report.json` has all of them."""

_FEW: Final = 30
"""Tables with at most this many rows are shown unfolded."""

_MOST_MILLISECONDS: Final = 2**47
"""Latest time, since 1970, that a page shows: a calendar ends, and others may write any number."""

_SPENT_OF: Final = 1000.0
"""A budget ε above this is no effective limit, so the report omits it."""

_DOCUMENTS: Final = {
    "certificate.json": "the final guarantee, signed by the accountant after the round",
    "plan-certificate.json": "the guarantee promised before anyone answered",
    "manifest.json": "the announcement that devices received, signed by the analyst and all nodes",
    "result.json": "the answer, signed by the analyst",
    LOG_PROOF: "the proof that the promise was in the public log, signed by the log's witnesses",
    RESULT_PROOF: "the proof that the answer was in the public log, signed by the log's witnesses",
    "roster.json": "the parties and their public keys",
    "root.pub": "the root key, which signs the roster",
    BOARD: "the messages in the order in which the last node published them",
    HISTORY: "the proof that they are exactly the messages of the listed people",
    "report.json": "all numbers in machine-readable form (not signed)",
    "plot.png": "the chart (not signed)",
    MAP: "the map's cells for geographic programs, as GeoJSON (not signed)",
    TEXTS: "the frequent texts as a table (not signed)",
    TRACED: "everyone whom the corrupt nodes of a simulation traced (not signed)",
}


def page(report: RoundReport, beside: Collection[str]) -> str:
    """The report as a whole HTML file.

    Args:
        report: a round whose documents were verified; for a simulation also with the true values.
        beside: names of the files next to it; the page links to the documents among them.
    """
    return self_contained(
        f"{title(report)}: round {report.round_id[:8]}", style(), "\n".join(body(report, beside))
    )


def body(
    report: RoundReport, beside: Collection[str], where: str = "In the folder of this file"
) -> list[str]:
    """The report's parts as HTML, for a page that has `style`.

    `where` states where the documents can be checked; the other arguments are those of `page`.
    """
    sections = (_head, answer, _guarantee, _honest, _numbers)
    parts = [part for section in sections for part in section(report)]
    return [*parts, *_documents(report, beside, where), *_small(report)]


def style() -> str:
    """The style sheet of the parts, in addition to the one that all pages share."""
    return files("shuffledp_ops.rounds").joinpath("files", "report.css").read_text(encoding="utf-8")


def title(report: RoundReport) -> str:
    """A title: what was counted, and in which population or column."""
    subject = report.column or report.final.population
    if is_open(report):
        return f"Frequent texts of {subject}"
    if report.is_sum or report.totals is not None:
        kind = "Sum"
    elif report.table is not None:
        kind = "Table"
    else:
        kind = "Distribution" if report.quantiles else "Histogram"
        kind = "Counts" if column_parts.fields_of(report) else kind
    return f"{kind} of {subject}"


def _head(report: RoundReport) -> Iterator[str]:
    final = report.final
    when = datetime.fromtimestamp(final.issued_at / 1000, UTC)
    of = "simulated people" if report.truth is not None else "people"
    yield f"<header><h1>{as_html(title(report))}</h1>"
    people = f"{report.accepted:,} {of} of “{as_html(final.population)}”"
    yield f'<p class="fine">{people}, {when:%Y-%m-%d %H:%M} UTC</p></header>'
    yield f'<p class="asked">{as_html(wording.question(report))}</p>'
    yield from (f'<p class="note">{as_html(words)}</p>' for words in _warnings(report))


def _warnings(report: RoundReport) -> Iterator[str]:
    if not report.final.holds:
        yield (
            "The planned guarantee does NOT hold for this round; the guarantee that does hold is "
            "stated below."
        )
    if report.all_corrupt:
        yield (
            "All nodes of this round declared themselves corrupt: only the guarantee without an "
            "honest node holds."
        )
    elif report.corrupt:
        numbers = ", ".join(map(str, report.corrupt))
        themselves = (
            "node declared itself" if len(report.corrupt) == 1 else "nodes declared themselves"
        )
        yield (
            f"{len(report.corrupt):,} of {report.final.nodes:,} {themselves} corrupt "
            f"({numbers}): a laboratory round."
        )


def answer(report: RoundReport) -> Iterator[str]:
    """The section with the answer: a sentence, the chart, remarks."""
    yield "<section><h2>The answer</h2>"
    yield f'<p class="answer">{_in_a_sentence(report)}</p>'
    if is_open(report):
        yield from string_parts.chart_and_table(report, _legend(report))
    elif report.totals is not None:
        yield from _sums(report, report.totals)
    elif report.table is not None:
        if map_page.edges_of(report.table) is not None:
            yield f"<figure>{map_page.picture(report.table)}</figure>"
            for words in map_page.remarks(report.table):
                yield f'<p class="fine">{as_html(words)}</p>'
        yield from crosstab_page.html_table(report.table)
        yield from (
            f'<p class="fine">{as_html(words)}</p>' for words in crosstab_page.remarks(report.table)
        )
    elif column_parts.fields_of(report):
        fields = column_parts.fields_of(report)
        yield from column_parts.draw_fields(report, fields, _legend(report))
    else:
        yield f"<figure>{_chart(report)}"
        yield f'<figcaption class="legend">{_legend(report)}</figcaption></figure>'
        yield from quantile_parts.table(report)
    yield from (f'<p class="fine">{as_html(words)}</p>' for words in _remarks(report))
    yield "</section>"


def _sums(report: RoundReport, totals: FieldTotals) -> Iterator[str]:
    """A table of the groups' sums; for a single sum, the histogram up to twice the cut."""
    yield from total_page.html_table(totals)
    if len(totals.groups) == 1:
        names = total_page.shown_amounts(totals, report.final.question_wording)
        yield f"<figure>{_bars(report, names, named=False)}"
        yield f'<figcaption class="legend">{_legend(report)}</figcaption></figure>'
    yield from (f'<p class="fine">{as_html(words)}</p>' for words in total_page.remarks(totals))


def _in_a_sentence(report: RoundReport) -> str:
    estimate = report.answer
    if report.totals is not None:
        return total_page.in_a_sentence(report.totals)
    if report.is_sum:
        numbers = [
            charts.figure(number)
            for number in (estimate.values[0], estimate.lows[0], estimate.highs[0])
        ]
        unit = f" {as_html(report.unit)}".rstrip()
        words = (
            f"Sum: <strong>{numbers[0]}{unit}</strong> (95% interval {numbers[1]} to "
            f"{numbers[2]}{unit})"
        )
        if estimate.mean is None or estimate.mean_standard_error is None:
            return f"{words}."
        error = f"{estimate.mean_standard_error:.2g}{unit}"
        return f"{words}; mean: <strong>{estimate.mean:.4g}</strong> ± {error}."
    if is_open(report):
        return string_parts.in_a_sentence(report)
    if report.quantiles:
        return quantile_parts.in_a_sentence(report)
    fields = column_parts.fields_of(report)
    return column_parts.in_a_sentence(report, fields) if fields else _most_frequent(report)


def _most_frequent(report: RoundReport) -> str:
    estimate = report.answer
    if report.table is not None:
        estimate = report.table.fitted.cells  # the numbers of the table below
    top = max(range(len(estimate.values)), key=estimate.values.__getitem__)
    numbers = [
        charts.figure(number)
        for number in (estimate.values[top], estimate.lows[top], estimate.highs[top])
    ]
    return (
        f"Most frequent: <strong>{as_html(report.label(top))}</strong>: about {numbers[0]} of "
        f"{report.accepted:,} people (95% interval {numbers[1]} to {numbers[2]})."
    )


def _chart(report: RoundReport) -> str:
    estimate, truths = report.answer, report.true_answer
    if report.is_sum:
        least, most = 0.0, float(report.accepted * (report.final.mechanism.domain - 1))
        if report.scale is not None:
            least = report.scale.convert(0.0, report.accepted)
            most = report.scale.convert(most, report.accepted)
        span = charts.Span(
            estimate.values[0],
            estimate.lows[0],
            estimate.highs[0],
            most,
            None if truths is None else truths[0],
            least,
        )
        return charts.interval(span, "The estimated sum with its 95% interval")
    if report.distribution is not None:
        return quantile_parts.chart(report, report.distribution)
    labels = [report.label(symbol) for symbol in range(len(estimate.values))]
    return _bars(report, labels, named=bool(report.labels))


def _bars(report: RoundReport, labels: Sequence[str], *, named: bool) -> str:
    """The histogram of the symbols that have a label, which are the first ones."""
    estimate, truths, shown = report.answer, report.true_answer, len(labels)
    bars = charts.Bars(
        labels,
        estimate.values[:shown],
        estimate.lows[:shown],
        estimate.highs[:shown],
        None if truths is None else truths[:shown],
        named=named,
    )
    return charts.histogram(bars, "Estimated number of people for each value, with 95% intervals")


def _legend(report: RoundReport) -> str:
    filled = '<rect class="{}" width="24" height="16"/>'
    lines = {"estimate": filled.format("bar"), "95% interval": '<path class="span" d="M12 0V16"/>'}
    truth = '<path class="truth" d="M0 8H24"/>'
    if report.quantiles:
        lines = {
            "estimated share up to each value": '<path class="estimate" d="M0 8H24"/>',
            "95% interval": filled.format("band"),
        }
        truth = '<path class="truth thin" d="M0 8H24"/>'
    if report.is_sum:
        lines = {
            "estimate": '<path class="estimate" d="M12 0V16"/>',
            "95% interval": filled.format("band"),
        }
        truth = '<path class="truth" d="M12 0V16"/>'
    if report.truth is not None:
        lines["true value (known only in a simulation)"] = truth
    return "".join(
        f'<span><svg class="chart" viewBox="0 0 24 16" '
        f'aria-hidden="true">{drawn}</svg>{name}</span>'
        for name, drawn in lines.items()
    )


def _remarks(report: RoundReport) -> Iterator[str]:
    if is_open(report):
        yield from string_parts.remarks(report)
    elif not report.is_sum:
        yield from quantile_parts.remarks(report)
        counts = "number of people or quantile" if report.quantiles else "count"
        yield (
            f"Each interval contains its true {counts} with probability 95%; with many values, "
            "some intervals miss."
        )
    if not report.estimate_in_interval and not is_open(report):
        yield (
            "Unbiased estimates can be negative or exceed the total, because noise is corrected "
            "only on average; intervals are clipped to possible values."
        )
    yield from wording.noise_of_nodes(report)
    yield from wording.liars(report)
    largest = report.final.mechanism.domain - 1
    if report.capped:
        yield (
            f"Values above {largest:,} are counted as {largest:,}; this affected "
            f"{report.capped:,} people."
        )
    if report.drawn_from is not None:
        yield (
            f"Simulation: {report.users:,} people sampled with replacement from "
            f"{report.drawn_from:,} rows."
        )


def _guarantee(report: RoundReport) -> Iterator[str]:
    final = report.final
    unit = " per unit of distance" if final.adjacency == "metric" else ""
    sentences = [wording.promise(final), wording.promise_without_nodes(final)]
    if report.all_corrupt:  # the first sentence does not apply to this round
        del sentences[0]
    yield '<section><h2>Guarantee</h2><div class="promise">'
    yield from (f"<p>{as_html(sentence)}</p>" for sentence in sentences)
    yield "</div><dl>"
    if not report.all_corrupt:
        yield _fact("ε certified", final.epsilon.certified, f"{unit}: proved upper bound")
        yield _fact(
            "ε attained",
            final.epsilon.attained,
            f"{unit}: reached in a known case; the true ε is in between",
        )
        yield _fact("δ", final.delta, "")
    delta = f", with δ = {final.corrupted.delta:g}" if final.corrupted.delta else ""
    yield _fact("ε_L", final.corrupted.epsilon, f"{unit}: remains if every node is corrupt{delta}")
    yield "</dl>"
    yield from _corruption(report)
    yield "</section>"


def _fact(name: str, value: float | None, words: str) -> str:
    return f"<dt>{name}</dt><dd><strong>{show(value)}</strong>{words}</dd>"


def _corruption(report: RoundReport) -> Iterator[str]:
    trace = report.trace
    if trace is None:
        return
    words = (
        f"The logs of the corrupt nodes trace {trace.traced:,} of {trace.users:,} people to "
        "their messages"
    )
    if trace.success is not None and trace.baseline is not None:
        words += (
            f". Guesses from them are right for {trace.success:.1%} of the people, compared with "
            f"{trace.baseline:.1%} for always guessing the most frequent value"
        )
    yield f'<p class="note">{words}.</p>'


def _honest(report: RoundReport) -> Iterator[str]:
    if report.all_corrupt:  # its first assumption did not hold
        return
    yield "<section><h2>Trust assumptions</h2><p>These had to be honest:</p><ul>"
    yield from (f"<li>{as_html(words)}</li>" for words in wording.honest(report.final))
    yield (
        '</ul><p class="fine">Not protected: who took part, and what people reveal '
        "elsewhere.</p></section>"
    )


def _numbers(report: RoundReport) -> Iterator[str]:
    if report.is_sum or is_open(report):
        return
    count = len(report.estimate.values)
    yield (
        "<section><h2>All "
        f"numbers</h2><details{' open' if count <= _FEW else ''}><summary>{count:,} "
        "values</summary>"
    )
    headings = ["value", "estimated people", "± standard error", "95% interval"]
    truth = [] if report.truth is None else ["true count"]
    cells = "".join(f'<th scope="col">{heading}</th>' for heading in headings + truth)
    yield f'<table class="numbers"><thead><tr>{cells}</tr></thead><tbody>'
    yield from (_row(report, symbol) for symbol in range(min(count, MOST_ROWS)))
    yield "</tbody></table>"
    if count > MOST_ROWS:
        yield f'<p class="fine">report.json has the other {count - MOST_ROWS:,}.</p>'
    yield "</details></section>"


def _row(report: RoundReport, symbol: int) -> str:
    estimate = report.estimate
    cells = [
        f"{estimate.values[symbol]:,.1f}",
        f"{estimate.standard_errors[symbol]:,.1f}",
        f"{estimate.lows[symbol]:,.1f} .. {estimate.highs[symbol]:,.1f}",
    ]
    if report.truth is not None:
        cells.append(f"{int(report.truth[symbol]):,}")
    data = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{as_html(report.label(symbol))}</th>{data}</tr>'


def _documents(report: RoundReport, beside: Collection[str], where: str) -> Iterator[str]:
    yield "<section><h2>Verify it yourself</h2>"
    # With verified mixing the whole folder is checked; a console has only the documents.
    complete = {BOARD, HISTORY} <= set(beside)
    computed = " and recomputes every number of the guarantee"
    if complete:
        computed = (
            ", recomputes every number of the guarantee, and follows the messages from the list "
            "of people through every node to the board"
        )
    yield (
        f"<p>A page can be forged; a signature cannot. {where}, this command verifies the "
        f"signatures{computed}:</p>"
    )
    target = "." if complete or LOG_PROOF in beside else "result.json"
    yield f"<pre>shuffledp verify {target}</pre>"
    yield (
        "<p>It trusts the root key in <code>root.pub</code>. Compare that key with the one "
        f"published by the deployment “{as_html(report.final.deployment)}”, or pass that one with "
        "<code>--root-key</code>.</p><ul>"
    )
    for name, words in _DOCUMENTS.items():
        if name in beside:
            yield f'<li><a href="{name}">{name}</a>: {words}</li>'
    yield "</ul></section>"


def _log_position(logged: LogPosition) -> str:
    times = [
        (name, datetime.fromtimestamp(min(at, _MOST_MILLISECONDS) / 1000, UTC))
        for name, at in logged.cosigned_at
    ]
    signed = ", ".join(f"{name} ({when:%Y-%m-%d %H:%M} UTC)" for name, when in times)
    return (
        f"entry {logged.entry:,} of {logged.origin}; checkpoint of {logged.size:,} entries, root "
        f"{logged.root}, signed by {signed}"
    )


def _small(report: RoundReport) -> Iterator[str]:
    final, ledger = report.final, report.final.ledger
    rows = {
        "round": report.round_id,
        "mechanism": f"{final.mechanism.kind}, {describe_parameters(final)}",
        "neighbours": f"{final.adjacency.value}: one value changes by at most "
        f"{final.max_distance:,}",
        "messages": f"{report.messages:,}, {final.mechanism.messages_per_user:,} per person; "
        f"suite {report.suite}",
        "mixing": "verified: anyone can check its correctness" if final.verified else "",
        "not counted": (
            f"{report.dropped:,} dropped by nodes, {report.outside_alphabet:,} outside the "
            f"alphabet, {report.repeated_tags:,} repeated"
        ),
        "budget": f"charge {ledger.entry:,} of this population, total spent ε = "
        f"{show(ledger.spent)}"
        + (f" of {ledger.limit:g}" if ledger.limit <= _SPENT_OF else "")
        + f" at δ = {ledger.delta:g}",
        "public log": "" if report.logged is None else _log_position(report.logged),
        "result in it": "" if report.result_logged is None else _log_position(report.result_logged),
        # Rounded to milliseconds as in `report.json`, so that a page regenerated from it is
        # identical.
        "seconds": ", ".join(
            f"{stage} {round(value, 3):.2f}" for stage, value in report.seconds.items()
        ),
    }
    yield '<section class="small"><h2>Details</h2><dl>'
    yield from (
        f"<dt>{name}</dt><dd>{as_html(words)}</dd>" for name, words in rows.items() if words
    )
    yield "</dl>"
    if final.assumptions:
        yield "<p>The certificate assumes:</p><ul>"
        yield from (f"<li>{as_html(words)}</li>" for words in final.assumptions)
        yield "</ul>"
    yield "</section>"
