"""The command line: the list of its commands, and how an error becomes a message and an exit code.

Each command imports its libraries when it is called, so that ``--help`` is fast.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from pipeline import __version__
from pipeline.cli import certificate, diagnose, quarantine, run, schema, train
from pipeline.errors import CleanroomError, Exit
from pipeline.process import Stopped, raise_on_stops

app = typer.Typer(
    name="pipeline",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run_command)
app.command("plan")(run.plan_command)
app.command("verify")(certificate.verify_command)
app.command("keygen")(certificate.keygen_command)
app.command("sign")(certificate.sign_command)
app.add_typer(schema.schema_app, name="schema")
app.add_typer(schema.template_app, name="template")
app.add_typer(quarantine.quarantine_app, name="quarantine")
app.command("train")(train.train_command)
app.command("preflight")(train.preflight_command)
app.command("explain")(diagnose.explain_command)
app.command("audit")(diagnose.audit_command)
app.command("doctor")(diagnose.doctor_command)
app.command("reasons")(quarantine.reasons_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit(Exit.OK)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Raw Excel, CSV and JSON in, certified Arrow shards that train on the GPU out."""


def main() -> NoReturn:
    """Run the command line and exit with a code of ``Exit``."""
    raise_on_stops()
    try:
        app(standalone_mode=True)
    except CleanroomError as error:
        _print_error(f"error: {error}")
        sys.exit(error.exit)
    except Stopped as stop:
        _print_error(f"{stop.exit.name.lower()}; the output folder holds its last certificate")
        sys.exit(stop.exit)
    except BrokenPipeError:
        # The reader of the output is gone (`| head`). This is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.OK)
    except Exception as error:
        if os.environ.get("CLEANROOM_DEBUG"):
            raise
        _print_error(
            f"error: an error of this program: {type(error).__name__}\n"
            "  to do: please report it with the output of the same command under CLEANROOM_DEBUG=1"
        )
        sys.exit(Exit.BUG)
    sys.exit(Exit.OK)


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
