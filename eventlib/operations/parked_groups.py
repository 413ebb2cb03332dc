"""Parked keys and effects, grouped by cause: the same failure at the same place of the same code is one group."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from eventlib.queries.parked import Parking
from eventlib.runtime.parking.causes import cause_of


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    """What is parked for one cause, the oldest first; `fingerprint` names the cause.

    `reasons` are the texts that its members have, the most frequent first; `inputs` counts the inputs that wait.
    """

    fingerprint: str
    service: str
    about: str
    members: Sequence[Parking]
    reasons: Sequence[str]
    code_versions: Sequence[str]

    @property
    def first(self) -> datetime:
        """Since when the oldest waits."""
        return self.members[0].since

    @property
    def last(self) -> datetime:
        """Since when the newest waits."""
        return self.members[-1].since

    @property
    def inputs(self) -> int:
        """How many inputs, and effects, wait."""
        return sum(max(each.waiting, 1) for each in self.members)

    @property
    def remedy(self) -> str:
        """The remedy, as a sentence without its end: `command` follows."""
        first = self.members[0]
        if first.is_paused:
            return "resume it when its time has come"
        if first.is_of_past:
            return "let them run, or leave them"
        return f"mend {'what it calls' if first.effect else 'the code, start the services with it'}, and retry"

    @property
    def command(self) -> str:
        """The command that lets its members continue; what failed is tried without consequences first."""
        first = self.members[0]
        if first.is_paused:
            return f"eventlib resume {quote(first.service)} --key {quote(first.key)}"
        return f"eventlib parked retry --all --cause {self.fingerprint}{'' if first.is_of_past else ' --dry-run'}"

    @property
    def traceback(self) -> str:
        """Where in the code it was, of the newest member that says so."""
        return next((each.traceback for each in reversed(self.members) if each.traceback), "")


def fingerprint_of(parking: Parking) -> str:
    """Return what names the cause of a parking: its service, decider or effect, where in the code, and the kind of reason.

    Texts in quotes and numbers of the reason do not count: `KeyError: 'MT'` and `KeyError: 'IS'` are one cause.
    """
    return cause_of(parking.service, parking.effect or parking.decider, parking.traceback, parking.reason)


def grouped(found: Iterable[Parking]) -> list[ParkedGroup]:
    """Return what is parked in groups, the largest first."""
    groups: dict[str, list[Parking]] = {}
    for each in sorted(found, key=lambda parking: parking.since):
        groups.setdefault(fingerprint_of(each), []).append(each)
    return sorted((_group(name, members) for name, members in groups.items()), key=lambda group: -len(group.members))


def _group(fingerprint: str, members: Sequence[Parking]) -> ParkedGroup:
    counts: dict[str, int] = {}
    for each in members:
        counts[each.reason] = counts.get(each.reason, 0) + 1
    reasons = sorted(counts, key=lambda reason: -counts[reason])
    versions = [*dict.fromkeys(each.code_version for each in members if each.code_version)]
    first = members[0]
    return ParkedGroup(fingerprint, first.service, first.effect or first.decider, members, reasons, versions)
