"""Presentation of an attack's report, as a table for people or as JSON."""

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
from shuffledp_adversary.attacks.findings import AttackReport, ClaimVerdict, Finding
from shuffledp_adversary.attacks.picture import draw_chart


def present(report: AttackReport, output: OutputFormat) -> None:
    """Print claim, measurement with its interval, and verdict of every finding."""
    if output is OutputFormat.JSON:
        print_json(report.to_dict())
        return
    table = Table(
        title=f"[bold]{report.attack}[/bold]",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading in ("scenario", "measured", "claim", "verdict"):
        table.add_column(heading, overflow="fold")
    for finding in report.findings:
        table.add_row(
            _scenario(finding), _measurement(finding), _claim(finding), verdict_words(finding)
        )
    print_rich(table, escape(report.lesson), f"[dim]{report.seconds:.1f} s[/dim]")


def run_and_present(
    attack: Attack, options: Mapping[str, Any], output: OutputFormat, plot: Path | None
) -> None:
    """Run an attack, print its report, and draw its curve.

    A plot that cannot be drawn is refused before the run.

    Raises:
        UsageError: the picture's file name has no known ending; or what the attack raises.
        ConfigError: the picture cannot be written.
        NotInstalledError: a picture needs matplotlib, the extra `plot`.
    """
    if plot is not None:
        check_plot(plot)
    report = attack.run(**options)
    if plot is not None and attack.chart is not None:
        draw_chart(attack.chart(report), plot)
    present(report, output)
    if plot is not None and output is OutputFormat.TEXT:
        typer.echo(f"drawn into {plot}")


def _scenario(finding: Finding) -> str:
    note = f"\n[dim]{escape(finding.note)}[/dim]" if finding.note else ""
    return f"{escape(finding.scenario)}{note}"


def _measurement(finding: Finding) -> str:
    if finding.trials == 0:
        interval = "computed, no trials"
    elif finding.low == finding.high:
        interval = f"counted, {finding.trials:,} trials"
    else:
        low, high = f"{finding.low:.4g}", "∞" if math.isinf(finding.high) else f"{finding.high:.4g}"
        interval = (
            f"{100 * finding.confidence:.6g}% interval {low} .. {high}, {finding.trials:,} trials"
        )
    return f"{finding.measured:.4g} {escape(finding.quantity)}\n[dim]{interval}[/dim]"


def _claim(finding: Finding) -> str:
    sign = "≥" if finding.claim.at_least else "≤"
    return f"{sign} {finding.claim.value:.4g}\n[dim]{escape(finding.claim.source)}[/dim]"


def _chance(finding: Finding) -> str:
    """Explain why a claim holds although the estimate alone contradicts it."""
    if not finding.beyond_by_chance:
        return ""
    end, value = ("up", finding.high) if finding.claim.at_least else ("down", finding.low)
    return (
        f"\n[dim]the estimate is beyond it by chance: the interval reaches {end} to "
        f"{value:.4g}[/dim]"
    )


def verdict_words(finding: Finding) -> str:
    """Verdict on a finding's claim for people, with a necessary remark."""
    word = f"claim {finding.verdict.value}"
    if finding.verdict is ClaimVerdict.HOLDS:
        return f"[green]{word}[/green]{_chance(finding)}"
    return (
        f"[bold red]{word}[/bold red]"
        if finding.defended
        else f"[yellow]{word}[/yellow] (no defence)"
    )
