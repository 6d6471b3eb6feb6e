"""The labs' commands, `shuffledp lab ...`. Each command's code is imported when it runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_labs.installed import LABS
from shuffledp_labs.teaching import app as teaching

app = typer.Typer()
lab_app = typer.Typer(
    no_args_is_help=True,
    help="A course of eleven labs: predict, attack, write the defence, explain.",
)
app.add_typer(lab_app, name="lab")

Number = Annotated[
    int, typer.Argument(min=1, max=max(LABS), metavar="LAB", help="Number of the lab.")
]
Folder = Annotated[
    Path | None, typer.Option(help="The lab's folder; default: lab-N here, or the current folder.")
]


@lab_app.command("list")
def list_labs() -> None:
    """List the labs with their level and duration."""
    from rich.console import Console
    from rich.table import Table

    from shuffledp_labs.installed import all_labs

    table = Table("lab", "title", "level", "minutes", "checks", box=None)
    for lab in all_labs():
        table.add_row(
            str(lab.number), lab.title, str(lab.level), str(lab.minutes), str(len(lab.checks))
        )
    Console().print(table)


@lab_app.command()
def start(
    lab: Number,
    *,
    student: Annotated[str, typer.Option(help="Your name or number in the course.")] = "",
    folder: Annotated[
        Path | None, typer.Option(help="Folder to create; default: lab-N here.")
    ] = None,
) -> None:
    """Create a folder with the handout, a program to complete, and predictions to make."""
    from shuffledp_labs.installed import lab as lab_of
    from shuffledp_labs.teaching import starting

    created = starting.start(lab_of(lab), folder, student)
    typer.echo(
        f"{created.path} is made. Read {created.path / 'README.md'}, predict in "
        f"{created.path / 'predict.toml'}."
    )
    typer.echo(
        f"Then: shuffledp lab check {lab}"
        + (f" --folder {shlex.quote(str(folder))}" if folder else "")
    )


@lab_app.command("run")
def run_lab(lab: Number, *, folder: Folder = None) -> None:
    """Run the lab's system with your code in it, and draw a figure.

    Figures need `pip install 'shuffledp[plot]'`; the rest runs without.
    """
    from shuffledp_labs.teaching.practice import show

    picture = show(lab, folder, typer.echo)
    if picture is not None:
        typer.echo(f"the picture: {picture}")


@lab_app.command()
def check(
    lab: Number,
    *,
    step: Annotated[
        str | None, typer.Option(help="Run only the checks of this step and their prerequisites.")
    ] = None,
    system: Annotated[
        bool,
        typer.Option("--system/--no-system", help="Include the checks that start a real system."),
    ] = True,
    folder: Folder = None,
) -> None:
    """Check and grade your program; every run draws a fresh instance.

    The exit code is 1 if any check that was run lost points.
    """
    from shuffledp_labs.teaching.practice import check as check_lab

    result = check_lab(lab, folder, step, system=system)
    if result.points < result.possible:
        raise typer.Exit(code=1)


teaching.add_to(lab_app)
