"""The commands report, viva, doctor, and the instructor's course, grade and bundle."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, OutputFormat
from shuffledp_labs.installed import LABS

Number = Annotated[
    int, typer.Argument(min=1, max=max(LABS), metavar="LAB", help="Number of the lab.")
]
Folder = Annotated[
    Path | None, typer.Option(help="The lab's folder; default: lab-N here, or the current folder.")
]
Result = Annotated[
    Path | None,
    typer.Option(
        help="A result.json, for instance from `lab grade`; default: that of the last `lab check`."
    ),
]
Key = Annotated[Path | None, typer.Option(help="The course's key, from `lab course init`.")]
System = Annotated[
    bool, typer.Option("--system/--no-system", help="Include the checks that start a real system.")
]

course_app = typer.Typer(no_args_is_help=True, help="Manage a course's key and schedule.")


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module to an app."""
    for command in (report, viva, doctor, grade, gradebook, bundle, instructor):
        app.command()(command)
    app.add_typer(course_app, name="course")


def report(
    lab: Number,
    *,
    folder: Folder = None,
    result: Result = None,
    to: Annotated[
        Path | None, typer.Option(help="File to write; default: report.html in the folder.")
    ] = None,
) -> None:
    """Write one HTML file with predictions and results, figure, code, explanations and points."""
    from shuffledp_labs.teaching.report import write_report

    typer.echo(write_report(lab, folder, result, to))


def viva(
    lab: Number,
    *,
    folder: Folder = None,
    result: Result = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Also print what a good answer contains.")
    ] = False,
) -> None:
    """Print three oral-exam questions about a student's own run and code."""
    from shuffledp_labs.teaching.report import viva_of

    for number, question in enumerate(viva_of(lab, folder, result), start=1):
        typer.echo(f"{number}. {question.text}")
        if answers:
            typer.echo(f"   Listen for: {question.listen_for}.")
        typer.echo("")


def doctor(*, output: Format = OutputFormat.TEXT) -> None:
    """Check whether this machine can run the labs, and what to fix."""
    from shuffledp_labs.teaching.doctor import examine, show

    if not show(tuple(examine(Path())), as_json=output is OutputFormat.JSON):
        raise typer.Exit(code=1)


def grade(
    lab: Number,
    *,
    submissions: Annotated[
        Path, typer.Option(help="Folder with one subfolder per student, named after the student.")
    ],
    key: Key = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("graded"),
    jobs: Annotated[
        int, typer.Option(min=1, max=256, help="Submissions to grade in parallel.")
    ] = 2,
    replay: Annotated[
        str | None,
        typer.Option(help="Regrade with the instance of this nonce, in a separate result."),
    ] = None,
    student: Annotated[
        list[str] | None, typer.Option(help="Grade only this student; repeatable.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also regrade submissions that have not changed.")
    ] = False,
    reports: Annotated[
        bool, typer.Option("--reports", help="Also write a report.html per student.")
    ] = False,
    unconfined: Annotated[
        bool,
        typer.Option(
            "--unconfined",
            help="Grade without a sandbox; students' programs then run with your privileges.",
        ),
    ] = False,
    system: System = True,
) -> None:
    """Grade a class: a table, and results.json per student. An interrupted run resumes."""
    from shuffledp_labs.teaching.grading import GradeRequest, grade_class

    request = GradeRequest(
        lab,
        submissions,
        key,
        out,
        jobs,
        replay,
        tuple(student or ()),
        again,
        reports,
        unconfined,
        system,
    )
    if not grade_class(request, typer.echo):
        raise typer.Exit(code=1)


def gradebook(
    lab: Number,
    *,
    gradebook: Annotated[Path, typer.Option(help="CSV file exported by Canvas or Moodle.")],
    column: Annotated[str, typer.Option(help="Column for the points; added if it is not there.")],
    results: Annotated[Path, typer.Option(help="Table of `lab grade`.")] = Path(
        "graded/results.csv"
    ),
    to: Annotated[Path, typer.Option(help="CSV file to write, for the import.")] = Path(
        "gradebook.csv"
    ),
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column with the names of the submissions' folders."),
    ] = None,
    course: Annotated[
        Path | None, typer.Option(help="The course's folder, for due dates and late days.")
    ] = None,
    submitted: Annotated[
        Path | None,
        typer.Option(help="CSV file with the columns student and submitted, for late days."),
    ] = None,
) -> None:
    """Fill a gradebook of Canvas or Moodle with the points of a graded class."""
    from shuffledp_core.errors import UsageError
    from shuffledp_labs.teaching import gradebook as books
    from shuffledp_labs.teaching.course import load_course

    if (course is None) != (submitted is None):
        raise UsageError("late days need both --course and --submitted")
    points = books.points_of_class(
        books.read_table(results),
        load_course(course) if course else None,
        lab,
        books.read_submission_days(submitted) if submitted else {},
    )
    filled = books.fill_gradebook(books.read_table(gradebook), points, column, id_column)
    books.write_gradebook(to, filled)
    for student in filled.missing:
        typer.echo(f"{student}: not in the gradebook")
    typer.echo(f"{filled.filled} of {len(points)} students: {to}")


def instructor(
    lab: Number,
    *,
    html: Annotated[
        Path | None,
        typer.Option(help="Folder to write the guide to, as a page for its owner only."),
    ] = None,
) -> None:
    """Show the instructor's guide: plan by the minute, common mistakes, rubric, sample answers.

    The guide exists only in a checkout of the repository.
    """
    from shuffledp_labs.teaching.guide import guide, write_page

    typer.echo(guide(lab) if html is None else write_page(lab, html))


class BundleKind(StrEnum):
    """Purpose of an archive: for students, or for a grading service."""

    STUDENT = "student"
    GRADESCOPE = "gradescope"
    CLASSROOM50 = "classroom50"
    ACTIONS = "actions"


def bundle(
    lab: Number,
    *,
    student: Annotated[
        bool,
        typer.Option("--student", help="Archive of the student's folder, for a learning platform."),
    ] = False,
    gradescope: Annotated[
        bool, typer.Option("--gradescope", help="A Gradescope autograder that installs offline.")
    ] = False,
    classroom50: Annotated[
        bool,
        typer.Option(
            "--classroom50", help="Autograder and template for Classroom 50, for practice."
        ),
    ] = False,
    actions: Annotated[
        bool,
        typer.Option(
            "--actions", help="A repository with a GitHub Actions workflow, for practice."
        ),
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Archive to write; default: lab-N-KIND.zip.")
    ] = None,
    key: Key = None,
    wheels: Annotated[
        list[Path] | None, typer.Option(help="Folder with wheels from `make wheels`; repeatable.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use only the wheels in these folders.")
    ] = False,
    machine: Annotated[
        str, typer.Option(help="Processor architecture of Gradescope's wheels.")
    ] = "x86_64",
    requirement: Annotated[
        str | None,
        typer.Option(help="Requirement that pip installs on GitHub; default: this version."),
    ] = None,
    system: System = True,
) -> None:
    """Package a lab for students or for a grading service.

    No archive contains an instance or a solution.
    """
    from shuffledp_core.errors import UsageError
    from shuffledp_labs.teaching.bundles import Packing, pack

    requested = {
        BundleKind.STUDENT: student,
        BundleKind.GRADESCOPE: gradescope,
        BundleKind.CLASSROOM50: classroom50,
        BundleKind.ACTIONS: actions,
    }
    kinds = [kind for kind, chosen in requested.items() if chosen]
    if len(kinds) != 1:
        raise UsageError(f"say for whom, by one of {', '.join(f'--{kind}' for kind in BundleKind)}")
    packing = Packing(
        lab, kinds[0].value, to, key, tuple(wheels or ()), offline, machine, requirement, system
    )
    typer.echo(pack(packing))


@course_app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create.")] = Path("course"),
    *,
    name: Annotated[str, typer.Option(help="Name of the course.")] = "Shuffle model",
    labs: Annotated[
        str, typer.Option(help="all, security, privacy, or numbers such as 1,3,7.")
    ] = "all",
    first: Annotated[
        dt.datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Date on which the first lab opens; default: today."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=365, help="Days between one lab and the next.")
    ] = 7,
) -> None:
    """Create a course: a secret key (course.key) and a schedule (course.toml)."""
    from shuffledp_labs.teaching.course import init_course, numbers_of, plan

    opens = (first or dt.datetime.now(dt.UTC)).date()
    init_course(folder, name, plan(numbers_of(labs), opens, days))
    typer.echo(
        f"{folder / 'course.key'} is secret: back it up, and show it to no one. The plan: "
        f"{folder / 'course.toml'}"
    )


@course_app.command("plan")
def plan_(
    folder: Annotated[Path, typer.Argument(help="The course's folder.")] = Path("course"),
) -> None:
    """Show the labs of a course with their dates."""
    from rich.console import Console
    from rich.table import Table

    from shuffledp_labs.installed import lab as lab_of
    from shuffledp_labs.teaching.course import load_course

    course = load_course(folder)
    table = Table(
        "lab",
        "title",
        "level",
        "minutes",
        "opens",
        "due",
        box=None,
        title=course.name,
        title_justify="left",
    )
    for planned in course.labs:
        lab = lab_of(planned.number)
        table.add_row(
            str(lab.number),
            lab.title,
            str(lab.level),
            str(lab.minutes),
            str(planned.opens),
            str(planned.due),
        )
    Console().print(table)
