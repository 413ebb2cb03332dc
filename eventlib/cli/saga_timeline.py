"""A saga as JSON, a headline, a timeline and a tree of causes."""

from datetime import datetime

from rich.text import Text
from rich.tree import Tree

from eventlib.cli._common import output
from eventlib.model.record import key_text
from eventlib.model.saga import Saga, SagaEvent
from eventlib.model.saga_folds import Fold, branches, rows
from eventlib.values import iso, iso_ms

Facts = dict[tuple[str, int, int], str]


STYLES = {"step": "", "failure": "red", "compensation": "yellow"}


MARKS = {"step": " ", "failure": "✗", "compensation": "↩"}


def saga_json(saga: Saga) -> dict[str, object]:
    """Return a saga as JSON: its events in order, each with its cause and its role."""
    ending = saga.ending
    return {
        "key": saga.key,
        "ended": saga.ended,
        "ending": None if ending is None else ending.type,
        "started_at": iso(saga.started_at),
        "duration_ms": saga.duration_ms,
        "events": [event_json(event) for event in saga.events],
    }


def event_json(event: SagaEvent) -> dict[str, object]:
    """Return an event of a saga as JSON: with its cause and its role."""
    record = event.record
    line: dict[str, object] = {
        "recorded_at": iso_ms(record.timestamp_ms),
        "after_ms": event.after_ms,
        "service": event.service,
        "source": record.source,
        "type": record.type,
        "key": None if record.key is None else key_text(record),
        "id": record.event_id,
        "correlation_id": record.correlation_id,
        "causation_id": record.causation_id,
        "cause": None if event.cause is None else event.cause.type,
        "role": event.role,
        "ends": event.ends,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "data": event.event,
    }
    return line if event.error is None else {**line, "error": event.error}


def headline(saga: Saga, at: datetime | None = None) -> Text:
    """Return one line on the progress of a saga, now or as of a time."""
    count = output.counted(len(saga.events), "event")
    ending = saga.ending
    if ending is not None:
        end = Text(f"ended with {ending.type}", style="yellow" if ending.role == "compensation" else "green")
        how_long = f"after {output.duration(saga.duration_ms)}"
    else:
        by = "" if at is None else f" by {iso(at)}"
        end = Text(
            f"not ended{by}" if saga.ended is False else "no ending is declared for this kind of key", style="bold"
        )
        how_long = f"over {output.duration(saga.duration_ms)} so far" if saga.ended is False else ""
    parts: list[Text | str] = [
        Text(output.printable(saga.key), style="bold"),
        "  ",
        end,
        f" {how_long}" if how_long else "",
    ]
    return Text.assemble(*parts, f", {count}, from {iso(saga.started_at)}")


def print_timeline(saga: Saga, *, fold: bool) -> None:
    """Print a line for each event, or for several of one type."""
    columns = ["time (UTC)", "ms", "service", "", "event", "facts", "cause"]
    shown = output.table(
        *columns, right=["ms"], whole=["event"], spare=["cause", "ms"]
    )  # which the tree below has, too
    facts = _facts_of(saga, every=not fold)
    for row in rows(saga, fold=fold):
        first = row.first
        cause = "outside" if first.cause is None else (first.cause.type or "")
        shown.add_row(
            iso_ms(first.record.timestamp_ms)[11:23],
            f"+{first.after_ms:,}",
            first.service,
            "■" if first.ends else MARKS[first.role],
            Text(row.title, style=f"bold {STYLES[first.role]}".strip()),
            _facts(row, facts),
            Text(cause, style="dim"),
        )
    output.terminal().print(shown)


def print_tree(saga: Saga, *, fold: bool, with_facts: bool) -> None:
    """Print the tree of causes."""
    facts = _facts_of(saga, every=not fold) if with_facts else {}
    whole = Tree(Text(output.printable(saga.key), style="bold"), guide_style="dim")
    pending = [(whole, branch) for branch in reversed(branches(saga.roots, fold=fold))]
    while pending:
        parent, row = pending.pop()
        node = parent.add(_node(row, facts))
        below = [child for event in row.events for child in saga.caused_by(event)]
        pending += [(node, branch) for branch in reversed(branches(below, fold=fold))]
    output.terminal().print(whole)


def _node(row: Fold, all_facts: Facts) -> Text:
    first = row.first
    mark = "■ " if first.ends else f"{MARKS[first.role]} ".lstrip()
    facts = _facts(row, all_facts)
    label = Text.assemble((f"{mark}{row.title}", f"bold {STYLES[first.role]}".strip()))
    label.append(f"  {first.service} +{first.after_ms:,} ms", style="dim")
    label.append(f"  {facts}" if facts.plain else "")
    label.no_wrap, label.overflow = True, "ellipsis"
    return label


def _facts_of(saga: Saga, *, every: bool) -> Facts:
    """Return each event's new fields, or all of them, by its record's location."""
    facts = [event.facts for event in saga.events] if every else saga.news()
    return {location_of(event): output.facts_text(each) for event, each in zip(saga.events, facts, strict=True)}


def _facts(row: Fold, facts: Facts) -> Text:
    first = row.first
    if first.error is not None:
        return Text(output.printable(first.error), style="red")
    if len(row.events) > 1:
        return Text(row.span, style="dim")
    return Text(facts.get(location_of(first), ""))


def location_of(event: SagaEvent) -> tuple[str, int, int]:
    """Return an event's location on the log."""
    return event.record.topic, event.record.partition, event.record.offset
