"""The command line: its commands, and how an error becomes a message and an exit code.

Nothing heavy is imported here or in the command modules: each command imports what it needs when it is called.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from pipeline.cli import explain, plan, quarantine, reasons, run, schema, template, train, verify
from pipeline.errors import CleanroomError
from pipeline.exits import Exit
from pipeline.signals import Stopped, raise_on_stops

app = typer.Typer(
    name="pipeline",
    help="Raw Excel, CSV and JSON in, certified Arrow shards that train on the GPU out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run_command)
app.command("plan")(plan.plan_command)
app.command("verify")(verify.verify_command)
app.command("keygen")(verify.keygen_command)
app.command("sign")(verify.sign_command)
app.add_typer(schema.app, name="schema")
app.add_typer(template.app, name="template")
app.add_typer(quarantine.app, name="quarantine")
app.command("train")(train.train_command)
app.command("preflight")(train.preflight_command)
app.command("explain")(explain.explain_command)
app.command("audit")(explain.audit_command)
app.command("doctor")(explain.doctor_command)
app.command("reasons")(reasons.reasons_command)


def main() -> NoReturn:
    """Run the command line and exit with a code of ``Exit``."""
    raise_on_stops()
    try:
        app(standalone_mode=True)
    except CleanroomError as error:
        _say(f"error: {error}")
        sys.exit(error.exit)
    except Stopped as stop:
        _say(f"{stop.exit.name.lower()}; the output folder holds its last certificate")
        sys.exit(stop.exit)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.OK)
    except Exception as error:
        if os.environ.get("CLEANROOM_DEBUG"):
            raise
        _say(
            f"error: an error of this program: {type(error).__name__}\n"
            "  to do: please report it with the output of the same command under CLEANROOM_DEBUG=1"
        )
        sys.exit(Exit.BUG)
    sys.exit(Exit.OK)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
