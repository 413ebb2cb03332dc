"""Differences that a change declares: in a file beside the code, which is reviewed and merged with it."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eventlib.errors import WiringError
from eventlib.proof.differing import DifferenceGroup, Signature

FILE = "expected-differences.toml"
_TEXTS = ("handler", "input", "kind", "reason")


@dataclass(frozen=True, slots=True)
class Expected:
    """The declared differences in an application's directory, each with its reason."""

    path: Path
    reasons: Mapping[Signature, str]

    @classmethod
    def read(cls, directory: Path) -> "Expected":
        """Read them; none when there is no file. Raises: WiringError for a file that says something else."""
        path = directory / FILE
        if not path.exists():
            return cls(path, {})
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise WiringError(f"{path} is not valid TOML, please fix it: {error}") from error
        reasons = dict[Signature, str]()
        for number, entry in enumerate(found.get("difference", ()), 1):
            signature, reason = _entry(entry, f"{path}: difference {number}")
            reasons[signature] = reason
        return cls(path, reasons)

    def mark(self, groups: Sequence[DifferenceGroup]) -> tuple[DifferenceGroup, ...]:
        """Return the groups, each with its reason if it is declared."""
        return tuple(replace(group, reason=self.reasons.get(group.signature, "")) for group in groups)

    def stale(self, groups: Iterable[DifferenceGroup]) -> tuple[str, ...]:
        """Return the declared differences that are not there."""
        there = {group.signature for group in groups}
        return tuple(
            f"{each.handler} on {each.input}, {each.kind} {' '.join(each.delta)}".rstrip()
            for each in self.reasons
            if each not in there
        )

    def accept(self, groups: Sequence[DifferenceGroup], reason: str) -> int:
        """Declare the groups that are not declared yet, and return how many these are."""
        new = [group for group in groups if group.signature not in self.reasons]
        with self.path.open("a", encoding="utf-8") as file:
            for group in new:
                file.write(_text(group.signature, reason))
        return len(new)


def _entry(entry: Any, where: str) -> tuple[Signature, str]:
    if not isinstance(entry, dict):
        raise WiringError(f"{where} is no table: write [[difference]]")
    for name in _TEXTS:
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            raise WiringError(
                f"{where} needs {name!r}, a text; `eventlib prove diff --accept REASON` writes whole entries"
            )
    unknown = sorted(entry.keys() - {*_TEXTS, "events"})
    events = entry.get("events", [])
    if unknown or not isinstance(events, list) or not all(isinstance(each, str) for each in events):
        raise WiringError(f"{where}: {unknown[0] + ' is not known' if unknown else 'events is a list of texts'}")
    return Signature(entry["handler"], entry["input"], entry["kind"], tuple(events)), entry["reason"]


def _text(signature: Signature, reason: str) -> str:
    rows = {**signature._asdict(), "reason": reason}
    rows["events"] = [*rows.pop("delta")]
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in rows.items())
    return "\n[[difference]]\n" + "".join(lines)
