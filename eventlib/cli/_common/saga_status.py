"""A saga's state under each of its deciders, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import fields

from rich.text import Text

from eventlib.cli._common import output
from eventlib.queries.state import KnownState
from eventlib.replay.point_in_time import SagaSnapshot
from eventlib.values import iso, iso_or_none


def state_json(known: KnownState) -> dict[str, object]:
    """Return a state as JSON."""
    return {
        "service": known.service,
        "decider": known.decider,
        "key": known.key,
        "partition": known.partition,
        "recorded_at": iso(known.recorded_at),
        "state": known.state,
        "sequence": known.sequence,
        "changed_by": known.changed_by,
        "correlation_id": known.correlation_id,
        "deadlines": {name: iso(at) for name, at in known.deadlines.items()},
        "forgotten_at": iso_or_none(known.forgotten_at),
        "requests_answered": known.answered,
    }


def snapshots_json(snapshots: Sequence[SagaSnapshot]) -> list[dict[str, object]]:
    """Return each decider's state, and its reason to be parked, if it was."""
    return [
        {
            "decider": each.decider,
            **({"state": None} if each.known is None else state_json(each.known)),
            "waits": each.waits or None,
        }
        for each in snapshots
    ]


def snapshots_table(snapshots: Sequence[SagaSnapshot]) -> output.Rows:
    """Return a line for each decider: its state's values other than the initial ones, and its deadlines."""
    table = output.table(
        "decider",
        "since (UTC)",
        "state",
    )
    for each in snapshots:
        since = "-" if each.known is None else iso(each.known.recorded_at)[11:23]
        table.add_row(Text(each.decider, style="bold"), since, _state(each))
    return table


def _state(snapshot: SagaSnapshot) -> Text:
    text = Text() if snapshot.known is None else _known(snapshot.known)
    if snapshot.waits:
        text.append("\n" if text.plain else "")
        text.append(f"waits: {output.printable(snapshot.waits)}", style="red")
    return text


def _known(known: KnownState) -> Text:
    if known.state is None:
        return Text("forgotten", style="dim")
    initial = type(known.state)()
    facts = {field.name: getattr(known.state, field.name) for field in fields(known.state)}
    news = {name: value for name, value in facts.items() if value != getattr(initial, name)}
    text = Text(output.facts_text(news, limit=len(news)))
    for name, at in known.deadlines.items():
        text.append(f"\ndeadline {name}: {iso(at)}", style="dim")
    return text
