"""An attack's report on the screen, as a table for people or as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.commands.options import OutputFormat
from shuffledp.commands.respond import print_json, print_rich
from shuffledp.drawing import check_plot
from shuffledp_adversary.attacks.attack import Attack
from shuffledp_adversary.attacks.findings import AttackReport, Finding, Verdict
from shuffledp_adversary.attacks.picture import draw_chart


def present(report: AttackReport, output: OutputFormat) -> None:
    """Prints claim, measurement with its interval, and verdict of every finding."""
    if output is OutputFormat.JSON:
        print_json(report.to_dict())
        return
    table = Table(title=f"[bold]{report.attack}[/bold]", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("scenario", "measured", "claim", "verdict"):
        table.add_column(heading, overflow="fold")
    for one in report.findings:
        table.add_row(_scenario(one), _measured(one), _claim(one), verdict_words(one))
    print_rich(table, escape(report.lesson), f"[dim]{report.seconds:.1f} s[/dim]")


def run_and_present(attack: Attack, asked: Mapping[str, Any], output: OutputFormat, plot: Path | None) -> None:
    """Runs an attack, prints its report and draws its curve. A plot that cannot be drawn is refused before the run.

    Raises:
        UsageError: the picture's file name has no known ending; or what the attack raises.
        ConfigError: the picture cannot be written.
    """
    if plot is not None:
        check_plot(plot)
    report = attack.run(**asked)
    if plot is not None and attack.chart is not None:
        draw_chart(attack.chart(report), plot)
    present(report, output)
    if plot is not None and output is OutputFormat.TEXT:
        typer.echo(f"drawn into {plot}")


def _scenario(one: Finding) -> str:
    note = f"\n[dim]{escape(one.note)}[/dim]" if one.note else ""
    return f"{escape(one.scenario)}{note}"


def _measured(one: Finding) -> str:
    if one.trials == 0:
        interval = "computed, no trials"
    elif one.low == one.high:
        interval = f"counted, {one.trials:,} trials"
    else:
        high = "∞" if math.isinf(one.high) else f"{one.high:.4g}"
        interval = f"{100 * one.confidence:.6g} % interval {one.low:.4g} .. {high}, {one.trials:,} trials"
    return f"{one.measured:.4g} {escape(one.quantity)}\n[dim]{interval}[/dim]"


def _claim(one: Finding) -> str:
    sign = "≥" if one.claim.at_least else "≤"
    return f"{sign} {one.claim.value:.4g}\n[dim]{escape(one.claim.source)}[/dim]"


def _chance(one: Finding) -> str:
    """Why a claim holds that the estimate alone contradicts."""
    if not one.beyond_by_chance:
        return ""
    end, value = ("up", one.high) if one.claim.at_least else ("down", one.low)
    return f"\n[dim]the estimate is beyond it by chance: the interval reaches {end} to {value:.4g}[/dim]"


def verdict_words(one: Finding) -> str:
    """Whether the claim holds, and what a reader might stumble over."""
    word = f"claim {one.verdict.value}"
    if one.verdict is Verdict.HOLDS:
        return f"[green]{word}[/green]{_chance(one)}"
    return f"[bold red]{word}[/bold red]" if one.defended else f"[yellow]{word}[/yellow] (no defence)"
