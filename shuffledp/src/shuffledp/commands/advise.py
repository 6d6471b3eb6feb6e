"""`shuffledp advise`: compare and recommend mechanisms for a target."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import typer

from shuffledp.commands.options import (
    Epsilon,
    EpsilonLocal,
    Format,
    FrontPlot,
    Honest,
    MaxDistance,
    MaxError,
    MaxMessages,
    Neighbours,
    Nodes,
    OutputFormat,
    QuestionFile,
    Rounds,
    Scenario,
    TargetDelta,
    TargetMaxValue,
    TargetSymbols,
    Users,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from shuffledp.choosing import Comparison
    from shuffledp.question_files import QuestionFromFile
    from shuffledp.recommending import Recommendation
    from shuffledp_core.documents.wording import QuestionWording


def advise(
    *,
    users: Users,
    epsilon: Epsilon,
    delta: TargetDelta,
    max_value: TargetMaxValue = None,
    symbols: TargetSymbols = None,
    question: QuestionFile = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    nodes: Nodes = 3,
    max_error: MaxError = None,
    max_messages: MaxMessages = None,
    epsilon_local: EpsilonLocal = None,
    plot: FrontPlot = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Compare mechanisms for a target (ε, δ) with local and central model, and recommend one."""
    from shuffledp.commands import targets
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.progress import working

    if plot is not None:
        from shuffledp.drawing import check_plot

        check_plot(plot)
    scenario = Scenario(users, delta, adjacency, max_distance, honest, rounds, nodes=nodes)
    sizes = targets.Sizes(max_value, symbols)
    wording = None
    if question is not None:
        from shuffledp.question_files import load_question

        if max_value is not None or symbols is not None:
            raise UsageError(
                "--question already states the domain: leave out --max-value and --symbols"
            )
        asked = load_question(question)
        if _look_ahead(asked, scenario, epsilon, plot, output):
            return
        wording = asked.wording
        largest = None if wording.scale is None else wording.size - 1
        sizes = targets.Sizes(largest, wording.size)
    limits = targets.SearchLimits(max_error, max_messages, epsilon_local)
    with working("comparing mechanisms"):
        comparison = targets.compare_mechanisms(scenario, sizes, epsilon, limits)
    if plot is not None:
        from shuffledp.front import draw_fronts

        draw_fronts(comparison, plot)
    if output is OutputFormat.JSON:
        print_json(comparison.to_dict())
    else:
        if wording is not None:
            typer.echo(describe(wording))
        print_rich(*_answer(comparison))


def _look_ahead(
    question: QuestionFromFile,
    scenario: Scenario,
    epsilon: float,
    plot: Path | None,
    output: OutputFormat,
) -> bool:
    """Print the outlook of a question's plans; return False if mechanisms are to be compared."""
    from shuffledp.commands.questions import setting_of
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.outlooks import DrawnOutlook
    from shuffledp.outlooks import outlook as outlook_of
    from shuffledp.progress import working

    wording = question.wording
    with working("comparing plans"):
        outlook = outlook_of(
            question,
            epsilon=epsilon,
            delta=scenario.delta,
            setting=setting_of(scenario, wording.size),
            nodes=scenario.nodes,
            rounds=scenario.rounds,
        )
    if outlook is None:
        return False
    if plot is not None:
        if not isinstance(outlook, DrawnOutlook):
            raise UsageError("--plot has no picture of this question: leave it out")
        outlook.draw(plot)
    if output is OutputFormat.JSON:
        print_json(outlook.to_dict())
        return True
    typer.echo(describe(wording))
    print_rich(*outlook.render())
    if plot is not None:
        typer.echo(f"drawn into {plot}")
    return True


def describe(wording: QuestionWording) -> str:
    """Describe the question's cells in one line."""
    if wording.is_open:
        cells = f"{len(wording.columns)} columns of {wording.columns[0]:,} cells"
        return f"{wording.text} (any text, hashed into {cells})"
    cells = " x ".join(f"{size:,}" for size in wording.shape)
    others = f", and one for “{wording.others}”" if wording.others else ""
    return f"{wording.text} ({cells} cells{others})"


def _answer(comparison: Comparison) -> Iterator[RenderableType]:
    """For each kind of answer a table and a recommendation, then notes on the columns."""
    for recommendation in comparison.recommendations:
        yield _table(comparison, recommendation)
        yield f"Take [bold cyan]{recommendation.choice.kind}[/bold cyan]: {recommendation.reason}."
        yield from (
            f"[bold yellow]Note:[/bold yellow] {words}." for words in recommendation.warnings
        )
        yield ""
    yield _notes(comparison)


def _table(comparison: Comparison, recommendation: Recommendation) -> Table:
    from rich import box
    from rich.table import Table

    from shuffledp.guarantees import number
    from shuffledp_core.mechanisms import Answers

    target = comparison.target
    unit = " per unit" if target.adjacency is Adjacency.METRIC else ""
    over = f", {target.rounds:,} rounds" if target.rounds > 1 else ""
    counts = recommendation.answers is Answers.HISTOGRAM
    what = f"Histogram of {target.bins:,} values" if counts else f"Sum of 0..{target.max_value:,}"
    table = Table(
        title=f"{what}: ε = {target.epsilon:g}{unit}, δ = {target.delta:g}, {target.users:,} "
        f"users{over}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("mechanism", no_wrap=True)
    for heading in ("error", "messages", "ε_L", "ε certified", "ε attained"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in recommendation.rows:
        numbers = (row.corrupted_epsilon, row.certified, row.attained)
        name = f"[{'bold ' if row is recommendation.choice else ''}cyan]{row.kind}[/]"
        table.add_row(
            name, f"{row.error:,.4g}", f"{row.messages:,}", *(number(value) for value in numbers)
        )
    for name, error in (
        ("no shuffler", recommendation.beside.local),
        ("trusted party", recommendation.beside.central),
    ):
        table.add_row(f"[dim]{name}[/]", f"[dim]{error:,.4g}[/]", *[""] * 4)
    return table


def _notes(comparison: Comparison) -> Table:
    """Explain the table's columns, and list each mechanism's exact parameters."""
    from rich.table import Table

    from shuffledp.plans import exact

    notes = Table.grid(padding=(0, 1))
    notes.add_row(
        "error", "standard error of one round: of the sum, or of one count of a histogram at worst"
    )
    with_nodes = [row for row in comparison if row.error_of_one_node < row.error]
    if with_nodes:
        errors = ", ".join(f"{row.error_of_one_node:,.4g} ({row.kind})" for row in with_nodes)
        notes.add_row(
            "", f"with the noise of all {comparison.nodes} nodes; with that of one node {errors}"
        )
    notes.add_row("messages", "per user and round")
    notes.add_row("ε_L", "left to each user in one round if every node is corrupt")
    local, central = (
        ", ".join(
            sorted({name(recommendation.beside) for recommendation in comparison.recommendations})
        )
        for name in (attrgetter("local_by"), attrgetter("central_by"))
    )
    notes.add_row("no shuffler", f"the same target in the local model, by {local}")
    notes.add_row("trusted party", f"who sees every value and adds noise once, by {central}")
    for row in comparison:
        notes.add_row(
            f"[cyan]{row.kind}[/cyan]",
            ", ".join(f"{name} = {value}" for name, value in exact(row.mechanism).items()),
        )
    return notes
