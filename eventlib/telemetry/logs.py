"""Logs of a process: text for people, or one JSON object a line for machines, with the saga that a line is about.

What an event holds is never in them by itself: ids, types and names are. In a process whose application has personal fields,
errors that others log are without their texts.
"""

import json
import logging
import os
import sys
from copy import copy
from datetime import UTC, datetime
from typing import Any, Literal, TypeGuard

from eventlib.errors import EventlibError
from eventlib.eventlog import CALLER, SAGA
from eventlib.model.kept_error import KeptError, kept_reason

LogFormat = Literal["text", "json"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TOLD = logging.getLogger("eventlib.told")
"""Messages of commands to their users."""
TALKATIVE = ("aiokafka", "boto3", "botocore", "django.db.backends", "faust", "httpcore", "sse_starlette", "urllib3")
"""Loggers that write at DEBUG what passes: events, rows, and the key of the keys of personal data."""


class _Withholding(logging.Formatter):
    """Formats a record without the texts of errors, which may quote personal data; errors of ours keep their sentence."""

    def __init__(self, form: str | None = None, *, personal: bool = False) -> None:
        super().__init__(form)
        self.personal = personal

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        return self.line_of(_withheld(record) if self.personal else record)

    def line_of(self, record: logging.LogRecord) -> str:
        """Return a record as a line, when its arguments may be shown."""
        return super().format(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """Return an error with its traceback."""
        if self.personal and _may_quote(ei[1]):
            return KeptError.of(ei[1], personal=True).traceback
        return super().formatException(ei)


def _withheld(record: logging.LogRecord) -> logging.LogRecord:
    found = copy(record)
    if isinstance(record.args, tuple):
        found.args = tuple(map(_without_text, record.args))
    if record.exc_info and record.name == "asyncio":
        found.msg = str(record.msg).partition("\n")[0]  # the lines behind it show the error
    return found


def _without_text(value: object) -> object:
    return kept_reason(value, personal=True) if _may_quote(value) else value


def _may_quote(value: object) -> TypeGuard[BaseException]:
    return isinstance(value, BaseException) and not isinstance(value, EventlibError)


class JsonFormatter(_Withholding):
    """One line of JSON for each record; `trace_id`, `span_id` and `correlation_id` where something is done for a saga."""

    def line_of(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": os.getpid(),
        }
        traceparent, saga = CALLER.get(), SAGA.get()
        if traceparent is not None:
            found |= {"trace_id": traceparent[3:35], "span_id": traceparent[36:52]}
        if saga is not None:
            found["correlation_id"] = saga
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


class TextFormatter(_Withholding):
    """A line for each record; a traceback below it, but for errors of ours: their sentence is what helps."""

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """Return what stands below a record's line."""
        return "" if isinstance(ei[1], EventlibError) else super().formatException(ei)


def set_up_logging(form: LogFormat, level: LogLevel, *, personal: bool) -> None:
    """Let this process log to stderr; with `personal`, its application has personal fields."""
    handler = logging.StreamHandler()
    made = JsonFormatter(personal=personal) if form == "json" else TextFormatter(_TEXT, personal=personal)
    handler.setFormatter(made)
    logging.basicConfig(level=level, handlers=[handler])
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.INFO)
    if form == "json":
        _TOLD.setLevel(logging.INFO)


def withholds() -> bool:
    """Tell whether this process logs for an application with personal fields."""
    return any(getattr(handler.formatter, "personal", False) for handler in logging.getLogger().handlers)


def is_json() -> bool:
    """Tell whether this process logs for machines."""
    return _TOLD.level == logging.INFO


def tell(sentence: str) -> None:
    """Print a sentence on stderr for the user of a command."""
    if is_json():
        _TOLD.info(sentence)
    else:
        sys.stderr.write(sentence + "\n")
        sys.stderr.flush()
