"""The report of a deployment's preview, as it is kept on the log: the verdict, counts, and the first differences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eventlib.log.base import Log
from eventlib.operations.shared_notes import SharedNote, SharedNotes

_KIND = "report"
_KEPT = 100
"""Of how many versions of the code a report is kept: of each its newest."""
_SHOWN, _LONGEST = 10, 300
"""How many differences are kept, and how many characters of a text."""


async def keep_report(log: Log, preview: Mapping[str, Any], by: str) -> None:
    """Keep what `eventlib prove deploy --json` prints, shortened, in the place of what was kept for the same version of the code.

    Guarantee: no event's data is kept: types of events, counts, keys of sagas, and reasons. Raises: LogReadOnly and the like.
    """
    notes = SharedNotes(log)
    await notes.put(_KIND, str(preview["code_version"]), shortened(preview), by)
    known = sorted((await notes.all(_KIND)).items(), key=lambda each: each[1].at_ms)
    for name, _ in known[: max(len(known) - _KEPT, 0)]:
        await notes.delete(_KIND, name, by)


async def report_of(log: Log, code_version: str, revision: str = "") -> SharedNote | None:
    """Return the newest report on a version of the code, or on its revision; None when none is kept."""
    every = (await SharedNotes(log).all(_KIND)).values()
    found = [
        each
        for each in every
        if each.value["code_version"] == code_version or (revision and each.value["revision"] == revision)
    ]
    return max(found, key=lambda each: each.at_ms, default=None)


def shortened(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a preview, of a bounded size."""
    past, ahead = preview["past"], preview["in_flight"]
    return {
        **{name: preview[name] for name in ("code_version", "revision", "holds")},
        "objections": _texts(preview["objections"]),
        "contracts": _texts(f"{each['name']}: {each['what']}" for each in preview["contracts"]),
        **{name: past[name] for name in ("base", "head", "decisions", "differences")},
        "kinds": len(past["groups"]),
        "groups": [_group(each) for each in past["groups"][:_SHOWN]],
        **{name: ahead[name] for name in ("in_flight", "shapes")},
        "unlawful": [_in_flight(each) for each in ahead["unlawful"][:_SHOWN]],
        "unexplored": len(ahead["unexplored"]),
        "damaged": _texts(sorted({*past["damaged"], *ahead["damaged"]})),
    }


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: _text(group[name]) for name in ("handler", "input", "kind", "reason")},
        "delta": _texts(group["delta"]),
        "decisions": group["decisions"],
        "sagas": len(group["sagas"]),
        "saga": group["example"]["saga"],
    }


def _in_flight(proved: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": proved["key"], "like_it": len(proved["keys"]) - 1, "why": _text(proved["why"])}


def _texts(found: Iterable[object]) -> Sequence[str | None]:
    return [_text(each) for each in [*found][:_SHOWN]]


def _text(found: object) -> str | None:
    text = None if found is None else str(found)
    return text if text is None or len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
