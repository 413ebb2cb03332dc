"""How a command ends: its exit code, and one sentence about what went wrong."""

import gc
import sys
from collections.abc import Sequence

import typer

from eventlib.cli._common.extras import lacking
from eventlib.cli._common.streams import safe_streams
from eventlib.cli._common.typer_ext import ReaderGone, let_go_of_stdout
from eventlib.errors import EventlibError
from eventlib.log.url import without_userinfo

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended, as shells count it (128 + SIGINT)."""


_GROWTH = 50_000
"""After how many new objects Python looks for cycles: what a command imports makes none, and looking is a sixth of that."""


_EXPECTED = (EventlibError, OSError)


def run_command(app: typer.Typer, program: str, arguments: Sequence[str], *, interrupted: str = "") -> int:
    """Run one command of `program`, and return its exit code: 0 fine, 1 an error, 2 a wrong option, 130 interrupted.

    What went wrong is one sentence on stderr, never a traceback (EVENTLIB_TRACEBACK=1 raises what was unforeseen);
    `interrupted` is what to say after Ctrl-C.
    """
    gc.set_threshold(_GROWTH)
    _survive_any_character()
    with safe_streams():
        return _run(app, program, arguments, interrupted)


def _run(app: typer.Typer, program: str, arguments: Sequence[str], interrupted: str) -> int:
    try:
        code = app([*arguments], prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _complain(program, _usage(error, program), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (BrokenPipeError, ReaderGone):
        let_go_of_stdout()
        return 0
    except Exception as error:  # whatever it is, a person at a terminal gets a sentence
        from eventlib.config.settings import wants_traceback

        code = _code_before(error)
        lacks = lacking(error) if isinstance(error, ModuleNotFoundError) else None
        if code is None and not isinstance(error, _EXPECTED) and wants_traceback():
            raise
        if code is None:
            return _complain(program, lacks or _sentence_of(error), 1)
    if code == INTERRUPTED:
        return _complain(program, interrupted, INTERRUPTED)
    return code if isinstance(code, int) else 0


def _code_before(error: BaseException) -> int | None:
    """Return the exit code of the signal that a command was cleaning up after when this went wrong, if there was one."""
    before = error.__context__
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(before, SystemExit):
            return before.code if isinstance(before.code, int) else 1
        before = before.__context__
    return None


def _sentence_of(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, _EXPECTED):
        return str(error) or name
    return f"something unforeseen: {name}: {error} (EVENTLIB_TRACEBACK=1 shows where)"


def _complain(program: str, sentence: str, code: int) -> int:
    if sentence:
        sys.stderr.write(f"{program.rsplit(maxsplit=1)[-1]}: {without_userinfo(sentence)}\n")
    return code


def _usage(error: typer.TyperException, program: str) -> str:
    """Return what was wrong with the arguments, or nothing, when the help is already there to be read."""
    command = getattr(getattr(error, "ctx", None), "command_path", program)
    message = error.format_message().strip().rstrip(".")
    return message and f"{message[:1].lower()}{message[1:]} (see `{command} --help`)"


def _survive_any_character() -> None:
    """Let a terminal that cannot show a character get an escape for it, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
