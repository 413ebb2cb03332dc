"""The command line, `eventlib`: run an application's services, and look at its log."""

import sys
from collections.abc import Sequence

import typer

from eventlib.cli.commands import app
from eventlib.cli.typed import ReaderGone, let_go_of_stdout
from eventlib.errors import EventlibError

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended, as shells count it (128 + SIGINT)."""


def main() -> None:
    """Run the command line, and exit: 0 fine, 1 an error, 2 a wrong option, 130 interrupted."""
    code = run(sys.argv[1:])
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    _survive_any_character()
    try:
        code = app([*arguments], prog_name="eventlib", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _complain(_usage(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, ReaderGone):
        let_go_of_stdout()
        return 0
    except (EventlibError, OSError) as error:
        return _complain(str(error) or type(error).__name__, 1)
    except Exception as error:  # whatever it is, a person at a terminal gets a sentence
        from eventlib.settings import wants_traceback

        if wants_traceback():
            raise
        what = f"{type(error).__name__}: {error}"
        return _complain(f"something unforeseen: {what} (EVENTLIB_TRACEBACK=1 shows where)", 1)
    return code if isinstance(code, int) else 0


def _complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"eventlib: {sentence}\n")
    return code


def _usage(error: typer.TyperException) -> str:
    command = getattr(getattr(error, "ctx", None), "command_path", "eventlib")
    message = error.format_message().strip().rstrip(".")
    return f"{message[:1].lower()}{message[1:]} (see `{command} --help`)"


def _survive_any_character() -> None:
    """Let a terminal that cannot show a character get an escape for it, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
