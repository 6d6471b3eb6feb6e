"""The labs' commands, `shuffledp lab ...`. Each command's code is imported when it runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_labs.teaching import app as teaching

app = typer.Typer()
lab_app = typer.Typer(no_args_is_help=True, help="Ten labs of a course: predict, attack, write the defence, explain.")
app.add_typer(lab_app, name="lab")

Number = Annotated[int, typer.Argument(min=1, max=10, metavar="LAB", help="Number of the lab.")]
Folder = Annotated[Path | None, typer.Option(help="The lab's folder; default: lab-N here, or this folder itself.")]


@lab_app.command("list")
def list_labs() -> None:
    """Lists the labs, with level and minutes."""
    from rich.console import Console
    from rich.table import Table

    from shuffledp_labs.installed import all_labs

    table = Table("lab", "title", "level", "minutes", "checks", box=None)
    for lab in all_labs():
        table.add_row(str(lab.number), lab.title, str(lab.level), str(lab.minutes), str(len(lab.checks)))
    Console().print(table)


@lab_app.command()
def start(
    lab: Number,
    *,
    student: Annotated[str, typer.Option(help="Your name or number in the course.")] = "",
    folder: Annotated[Path | None, typer.Option(help="The folder to make; default: lab-N here.")] = None,
) -> None:
    """Makes a folder with the handout, a file to fill in, and a prediction to make."""
    from shuffledp_labs.installed import lab as lab_of
    from shuffledp_labs.teaching import starting

    place = starting.start(lab_of(lab), folder, student)
    typer.echo(f"{place.path} is made. Read {place.path / 'README.md'}, predict in {place.path / 'predict.toml'}.")
    typer.echo(f"Then: shuffledp lab check {lab}" + (f" --folder {shlex.quote(str(folder))}" if folder else ""))


@lab_app.command()
def run(lab: Number, *, folder: Folder = None) -> None:
    """Runs the lab's system with your code in it, and draws a picture."""
    from shuffledp_labs.teaching.practice import show

    typer.echo(f"the picture: {show(lab, folder, typer.echo)}")


@lab_app.command()
def check(
    lab: Number,
    *,
    step: Annotated[str | None, typer.Option(help="Only the checks of this step, and what they need.")] = None,
    system: Annotated[
        bool, typer.Option("--system/--no-system", help="With the checks that start a real system.")
    ] = True,
    folder: Folder = None,
) -> None:
    """Says what your program does right, with points; every run draws a fresh instance."""
    from shuffledp_labs.teaching.practice import check as check_lab

    check_lab(lab, folder, step, system=system)


teaching.add_to(lab_app)
