"""Ask a log of parcels in SQL by the command."""

import json
from collections.abc import Sequence
from typing import Any

from tests.commands import ended, said


def command(url: str, question: str, *options: str) -> Sequence[str]:
    return ("sql", question, "--log", url, "--app", "tests.integration.parcels_app:APP", *options)


def answer(url: str, question: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(*command(url, question, *options, "--json")))
    return found


def refused(url: str, question: str, *options: str) -> str:
    done = ended(*command(url, question, *options))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr
