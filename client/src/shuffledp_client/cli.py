"""`shuffledp-client`: submit a value, verify that it arrived, show evidence, import a bundle.

Exit codes: 2 for usage and configuration, 3 for a refusal by the user's policy, 1 otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_client.board import CheckedResult
from shuffledp_client.bundle import CONFIG, install, read_bundle
from shuffledp_client.bundle import renew as renew_device
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.evidence import Evidence, check_evidence
from shuffledp_client.outcomes import describe_question
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.models import Manifest
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import FieldValue
from shuffledp_core.errors import OutputError, ShuffleDPError, UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.interruption import unwinding
from shuffledp_core.runtime.keys import read_roster, verify_from
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.runtime.terminal import explain, prepare_terminal

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigOption = Annotated[Path, typer.Option("--config", help="The device's configuration (TOML).")]
RoundOption = Annotated[str | None, typer.Option("--round", help="Round id.")]


def _show_version(is_set: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if is_set:
        typer.echo(f"shuffledp-client {version('shuffledp-client')}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]


@app.callback(help=__doc__)
def _options(*, _: VersionOption = False) -> None:
    """Options common to all commands."""


@app.command()
def submit(
    config: ConfigOption,
    value: Annotated[
        str | None,
        typer.Option(
            help="Your answer: a name or a number in the question's unit; - reads it from standard "
            "input. Default: ask for it, after showing the question."
        ),
    ] = None,
    round_id: RoundOption = None,
    *,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a value: a JSON file with your data by field, from which the signed "
            "question finds the answer."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the result and verify it.")
    ] = False,
) -> None:
    """Verify a round (default: the one that is open now), randomise, encrypt and submit."""
    device = _device(config)
    answer = _read_answer(value) if record is None else read_record(record, value)

    async def submit_and_report() -> None:
        verified, chosen = None, round_id
        if round_id is None or device.store.find(round_id) is None:
            verified = await device.find_round(round_id)
            chosen = verified.round_id
            if answer is None or verified.certificate.question_wording is not None:
                _show_question(verified)
        value_sent: str | int | Mapping[str, FieldValue] = 0 if answer is None else answer
        is_new = verified is not None and device.store.find(verified.round_id) is None
        if answer is None and is_new:
            value_sent = _prompt_answer()
            verified = None  # time has passed: `submit` verifies the round again
        acknowledged = await device.submit(value_sent, chosen, verified=verified)
        if acknowledged.repeated:
            typer.echo(
                "An earlier submission to this round was kept and sent; this value was not used."
            )
        messages = (
            "1 message" if acknowledged.messages == 1 else f"{acknowledged.messages} messages"
        )
        typer.echo(
            f"Submitted {messages} to round {acknowledged.round_id}; "
            f"receipt of {acknowledged.entry} kept."
        )
        if wait:
            _report(await device.verify(acknowledged.round_id, wait=True))

    asyncio.run(submit_and_report())


@app.command()
def question(config: ConfigOption, round_id: RoundOption = None) -> None:
    """Verify a round (default: the one that is open now) and show its question, without answering.

    It also shows the guarantee.
    """
    verified = asyncio.run(_device(config).find_round(round_id))
    _show_question(verified)
    certificate = verified.certificate
    unit = " per unit" if certificate.adjacency is Adjacency.METRIC else ""
    epsilon, corrupted = certificate.epsilon.certified, certificate.corrupted.epsilon
    typer.echo(
        f"Guarantee: ε = {_number(epsilon)}{unit}, δ = {certificate.delta:.3g}, while "
        f"{certificate.condition}; ε = {_number(corrupted)}{unit} if every node is corrupt."
    )


@app.command()
def verify(
    config: ConfigOption,
    round_id: RoundOption = None,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the result if it is not published yet.")
    ] = False,
) -> None:
    """Check that your messages are unchanged on the published board; default: the pending round."""
    device = _device(config)
    _report(asyncio.run(device.verify(round_id or device.only_round(), wait=wait)))


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="The device's bundle, as written by `shuffledp keys enrol`.")
    ],
    folder: Annotated[
        Path, typer.Argument(help="A new or empty folder; with --renew, the device's own.")
    ],
    *,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="Update only the roster and TLS pair, from a later bundle of the same device.",
        ),
    ] = False,
) -> None:
    """Create a device's folder from its bundle, and show its initial policy."""
    bundle = read_bundle(file)
    if renew:
        roster = renew_device(bundle, folder)
        typer.echo(
            f"{bundle.name} has roster {roster.serial} of {roster.deployment} and its TLS pair now."
        )
        return
    config, roster = install(bundle, folder)
    typer.echo(
        f"{bundle.name} is a device of {roster.deployment}. Compare its root key with a trusted "
        "copy:"
    )
    typer.echo(config.root_key)
    typer.echo(f"Its policy, yours to change in {folder / CONFIG}:")
    for name in config.policy.__struct_fields__:
        value = getattr(config.policy, name)
        typer.echo(f"  {name} = {'any' if value is None else value}")
    typer.echo(f"The bundle is a secret and no longer needed: erase {file}.")


@app.command()
def evidence(
    config: ConfigOption,
    out: Annotated[
        Path, typer.Option("--out", help="A new folder for evidence.json and board.bin.")
    ],
    round_id: RoundOption = None,
    *,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask for confirmation before the report is written."),
    ] = False,
) -> None:
    """Write evidence that messages with a receipt are missing from the board.

    It reveals your randomised report.
    """
    device = _device(config)
    bundle, board = asyncio.run(device.evidence(round_id or device.only_round()))
    if not yes:
        typer.confirm(
            "Whoever reads this evidence learns your randomised report of this round, and that it "
            "is yours; the mixing does not protect it any more, the noise that you added still "
            "does. Write it?",
            abort=True,
            err=True,
        )
    _write_new(out, {"evidence.json": to_json(bundle), "board.bin": board})
    typer.echo(
        f"Evidence and board are in {out}; anybody checks them with `shuffledp-client "
        f"check-evidence {out}`."
    )


@app.command("check-evidence")
def check_evidence_(
    folder: Annotated[Path, typer.Argument(help="Folder with evidence.json and board.bin.")],
    roster: Annotated[Path, typer.Option("--roster", help="The deployment's signed roster.")],
    root_key: Annotated[
        str,
        typer.Option(
            "--root-key", help="The deployment's root key in hex, from a source that you trust."
        ),
    ],
) -> None:
    """Check a user's evidence against roster and board. Needs no keys and no network."""
    bundle = from_json(read_file(folder / "evidence.json", "evidence"), Evidence)
    trusted = read_roster(roster, root_key)
    # The folder may be anyone's: only a manifest that the analyst signed says how much of it is
    # read.
    manifest = verify_from(trusted.analyst, bundle.announcement.manifest, Manifest)
    shown = check_evidence(
        bundle, trusted, read_file(folder / "board.bin", "board", manifest.most_board_bytes)
    )
    typer.echo(
        f"It holds. {shown.missing} of {shown.messages} messages of a submission that was "
        f"acknowledged for round {shown.round_id} are not on its board. One of these did it, and "
        f"nothing here says which: {', '.join(shown.suspects)}."
    )


def _write_new(folder: Path, files: dict[str, bytes]) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
        for name, data in files.items():
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError as error:
        raise UsageError(
            f"cannot write evidence to {folder} ({error.strerror}); name a new folder"
        ) from error


def _device(config: Path) -> DeviceSteps:
    loaded = load_config(config, ClientConfig)
    configure_logs(loaded.log_level)
    return DeviceSteps(loaded)


def _read_answer(text: str | None) -> str | None:
    """The answer on the command line or standard input; None to ask the user later."""
    return sys.stdin.readline().strip() if text == "-" else text


def read_record(file: Path, value: str | None = None) -> dict[str, FieldValue]:
    """Read the record in a JSON file.

    Raises:
        UsageError: the file is not a JSON object of texts, numbers, true, false and null, or a
            value is given in addition. The message does not repeat what it holds.
        ConfigError: the file cannot be read.
    """
    if value is not None:
        raise UsageError("--value and --record both answer: leave one out")
    try:
        record = json.loads(read_file(file, "record"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the record {file} is not JSON; see docs/how-to/device-kit.md") from error
    plain = str | int | float | None
    if not isinstance(record, dict) or not all(isinstance(v, plain) for v in record.values()):
        raise UsageError(
            f"the record {file} must be an object of texts, numbers, true, false and null, such "
            'as {"age": 37}'
        )
    return record


def _prompt_answer() -> str:
    try:
        return str(typer.prompt("Your answer", hide_input=False, err=True))
    except typer.Abort as error:
        raise UsageError("no answer was given; nothing was sent") from error


def _show_question(verified: CheckedRound) -> None:
    for line in describe_question(verified.certificate):
        typer.echo(line)


def _number(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:.4g}"


def _report(verified: CheckedResult) -> None:
    result, final = verified.result, verified.final
    epsilon = _number(final.epsilon.certified)
    unit = " per unit" if final.adjacency is Adjacency.METRIC else ""
    typer.echo(f"All your messages are on the board of round {result.round_id}, unchanged.")
    sys.stdout.write(
        f"{result.accepted} reports; certified ε = {epsilon}{unit}, δ = {final.delta:.3g}.\n"
    )
    if final.dropped or final.invalid:
        typer.echo(
            f"Not counted: {final.dropped} messages that nodes dropped, {result.outside_alphabet} "
            f"with a symbol outside the alphabet, {result.repeated_tags} with a repeated tag."
        )
    if not final.holds:
        typer.echo(
            "The round stayed below its certified target: fewer honest reports than planned."
        )


def main() -> None:
    """Entry point: an error becomes one line on standard error and an exit code.

    A signal ends the command through its cleanup, so no half-written folder is left.
    """
    forbid_core_dumps()
    prepare_terminal()
    with unwinding() as interruption:
        try:
            app()
        except ShuffleDPError as error:
            typer.echo(f"shuffledp-client: {error}", err=True)
            sys.exit(interruption.exit_code or error.exit_code)
        except OSError as error:  # of a file that no one has looked at more closely
            typer.echo(f"shuffledp-client: {explain(error)}", err=True)
            sys.exit(interruption.exit_code or OutputError.exit_code)
        except asyncio.CancelledError:  # by a signal
            sys.exit(interruption.exit_code)
        except SystemExit as end:
            sys.exit(interruption.exit_code or end.code)


if __name__ == "__main__":
    main()
