"""How a command ends: its exit code, and one sentence about an error."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

import typer

from eventlib.cli._common.extras import lacking
from eventlib.cli._common.typer_ext import ReaderGone, let_go_of_stdout
from eventlib.errors import EventlibError
from eventlib.ground.short_process import look_for_cycles_seldom
from eventlib.ground.url import without_userinfo
from eventlib.values import escaped_lines

# --- the streams that commands print to: no control character reaches the terminal


class SafeStream:
    """A stream that lets no text written to it control the terminal; external text ends up here.

    Bytes pass unchanged, and so does the text of a Rich console: `output.terminal` makes those.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where Rich writes to instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write text, with control characters escaped except line breaks and tabs."""
        return self.rich_proxied_file.write(escaped_lines(text))


@contextmanager
def safe_streams() -> Iterator[None]:
    """Print everything through `SafeStream` until the context is left."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells (128 + SIGINT)."""


_EXPECTED = (EventlibError, OSError)


def run_command(app: typer.Typer, program: str, arguments: Sequence[str], *, interrupted: str = "") -> int:
    """Run one command of `program`, and return its exit code: 0 fine, 1 an error, 2 a wrong option, 130 interrupted.

    An error is one sentence on stderr, never a traceback (EVENTLIB_TRACEBACK=1 raises unexpected ones);
    `interrupted` is printed after Ctrl-C.
    """
    look_for_cycles_seldom()
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
    except Exception as error:  # noqa: BLE001  any error becomes a sentence
        code = _code_before(error)
        lacks = lacking(error) if isinstance(error, ModuleNotFoundError) else None
        if code is None:
            return _complain(program, lacks or _foreseen(error) or _unforeseen(error), 1)
    if code == INTERRUPTED:
        return _complain(program, interrupted, INTERRUPTED)
    return code if isinstance(code, int) else 0


def _code_before(error: BaseException) -> int | None:
    """Return the exit code of the signal that a command was cleaning up after when this error occurred, if any."""
    before = error.__context__
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(before, SystemExit):
            return before.code if isinstance(before.code, int) else 1
        before = before.__context__
    return None


def _foreseen(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return f"the text {error.object!a:.60} has bytes that are not UTF-8: keys and other texts on a log are UTF-8"
    return str(error) or type(error).__name__ if isinstance(error, _EXPECTED) else ""


def _unforeseen(error: Exception) -> str:
    """Return what is said of an error that no command raises. Raises: it, if where it came from is wanted, and may be shown."""
    from eventlib.config.settings import wants_traceback
    from eventlib.model.kept_error import KeptError
    from eventlib.telemetry.logs import withholds

    is_withheld = withholds()
    if wants_traceback() and not is_withheld:
        raise error
    kept = KeptError.of(error, personal=is_withheld)
    return (
        kept.traceback if wants_traceback() else f"unexpected error: {kept.reason} (EVENTLIB_TRACEBACK=1 shows where)"
    )


def _complain(program: str, sentence: str, code: int) -> int:
    if sentence:
        sys.stderr.write(f"{program.rsplit(maxsplit=1)[-1]}: {without_userinfo(sentence)}\n")
    return code


def _usage(error: typer.TyperException, program: str) -> str:
    """Return what is wrong with the arguments, or nothing when the help is printed already."""
    command = getattr(getattr(error, "ctx", None), "command_path", program)
    message = error.format_message().strip().rstrip(".")
    return message and f"{message[:1].lower()}{message[1:]} (see `{command} --help`)"


def _survive_any_character() -> None:
    """Print an escape for a character that the terminal cannot encode, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
