"""Sentences in the sources become plainer: each form below is hard for a reader to whom English is foreign.

Write subject, verb and object, and name the class. A figure here may go down, and never up.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

KEPT = {
    r"\b(is|are) no (?!longer|more)": 192,  # not an event, without a key, missing
    r"\bgo(es)? on\b": 111,  # continues
    r"\bfor ever\b": 3,  # permanently, without end
    r"\b(told|tells)\b": 194,  # returns, reports, gets, knows
    r"\bsaid\b": 114,  # emitted, recorded, declared
    r"\bstands?\b": 150,  # is, is written
    r"(?i)\b(nobody|somebody|whoever)\b": 22,  # no process, an operator, the caller
    r"\blest\b": 1,  # so that … not
    r'"""(What|Whatever|Who|Those|Other)\b': 287,  # the noun
}


@cache
def sources() -> dict[Path, list[str]]:
    """The lines of each file."""
    files = [path for folder in ("eventlib", "analytics", "services") for path in Path(folder).rglob("*.py")]
    return {path: path.read_text(encoding="utf-8").splitlines() for path in files}


@pytest.mark.parametrize("form", KEPT)
def test_a_form_that_is_hard_to_read_becomes_rarer(form: str) -> None:
    found = re.compile(form)
    by_file = Counter({path: sum(map(bool, map(found.search, lines))) for path, lines in sources().items()})
    most = ", ".join(f"{path} ({count})" for path, count in by_file.most_common(5))
    assert by_file.total() <= KEPT[form], f"{form} is on {by_file.total()} lines, above all of {most}"
