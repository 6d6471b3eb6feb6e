"""The command of an audit: progress bar, table, and an error if the claim is broken."""

from __future__ import annotations

from functools import partial

from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.commands.options import OutputFormat
from shuffledp.commands.respond import print_json, print_rich
from shuffledp.guarantees import number
from shuffledp.plans import Plan
from shuffledp_adversary.audit.audit import AuditReport, Effort, audit
from shuffledp_adversary.audit.trials import TrialProgress
from shuffledp_sim.users.sealing import sealing_pool


def run_audit_command(
    question: Plan, effort: Effort, *, through_mixnet: bool, output: OutputFormat
) -> None:
    """Run an audit, and print its report.

    Raises:
        ClaimBroken: the measurement contradicts the claim; raised after printing.
        ShuffleDPError: a parameter is invalid, or a round failed.
    """
    with TrialProgress() as shown, sealing_pool() as pool:
        try:
            if through_mixnet:
                from shuffledp_adversary.audit.mixnet import audit_through_mixnet

                report = audit_through_mixnet(
                    question, effort, pool, partial(shown.update, "rounds")
                )
            else:
                report = audit(question, effort, pool, progress=partial(shown.update, "trials"))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if output is OutputFormat.JSON:
        print_json(report.to_dict())
    else:
        print_rich(audit_table(report), *(f"[dim]{escape(note)}[/dim]" for note in report.notes))
    report.check()


def audit_table(report: AuditReport) -> Table:
    """Bound, claim and verdict, for people."""
    guarantee, bound, pair = report.answer, report.bound, report.pair
    unit = guarantee.plan.per_unit
    view = (
        "one user's own messages" if report.local else f"shuffled messages of {pair.users:,} users"
    )
    table = Table(
        title=f"[bold]audit: {guarantee.plan.kind}[/bold]",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=False,
        pad_edge=False,
    )
    table.add_row(
        "parameters",
        ", ".join(f"{name} = {value}" for name, value in guarantee.plan.parameters.items()),
    )
    others = "" if report.local else f", all others hold {pair.others}"
    table.add_row("seen", f"{view}: one user {pair.value} or {pair.changed}{others}")
    table.add_row(
        "trials",
        f"{bound.trials:,} on each dataset, half to choose the test, half to measure; "
        f"{report.seconds:.1f} s",
    )
    table.add_row(
        "measured event",
        f"{bound.hits[0]:,} and {bound.hits[1]:,} times in {bound.trials - bound.trials // 2:,}",
    )
    table.add_row("δ", f"{bound.delta:g}")
    table.add_row(
        "[bold]audited: ε at least[/bold]",
        f"[bold]{number(report.lower)}{unit}[/bold]  "
        f"(confidence {bound.confidence:.10g}; estimate {report.estimate:.4g})",
    )
    if not report.local:
        table.add_row(
            "ε attained", f"{number(guarantee.attained)}{unit}  (exact, on a dataset of this kind)"
        )
        table.add_row("ε certified", f"{number(guarantee.certified)}{unit}")
    table.add_row("ε_L, all nodes corrupt", f"{number(guarantee.corrupted)}{unit}")
    if guarantee.published is not None:
        words = (
            "a paper's formula, contradicted by this audit"
            if report.published_broken
            else "a paper's formula"
        )
        table.add_row("ε published", f"{number(guarantee.published)}{unit}  ({words})")
    colour = "bold red" if report.broken else "green"
    table.add_row(
        "verdict",
        f"[{colour}]{report.verdict}[/{colour}] of {number(report.claimed)}, "
        f"{escape(report.claim)}",
    )
    return table
