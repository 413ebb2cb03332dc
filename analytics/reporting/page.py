"""Puts the parts of a report on one self-contained page: no network, no files."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from analytics.reporting.drawing import svg
from analytics.reporting.money import money
from analytics.reporting.part import Part, duration
from eventlib.log.base import TopicPartition

TITLE = "How the shop is doing"


class Made(NamedTuple):
    """How a report was made: from which log and offsets, by which code, when (UTC), and how long it took."""

    log: str
    read: Mapping[TopicPartition, range]
    code_version: str
    at: datetime
    seconds: float


class Section(NamedTuple):
    """Parts under one heading, that of the first of them."""

    name: str
    title: str
    parts: Sequence[Part]


class Tile(NamedTuple):
    """A figure at the top of a page; `mood` is `good`, `bad` or empty."""

    value: str
    label: str
    mood: str = ""


class _Picture(NamedTuple):
    wide: Markup
    narrow: Markup


class Head(NamedTuple):
    """The top of a page, and how it was made: facts, and the offsets read, by topic."""

    sentence: str
    tiles: Sequence[Tile]
    facts: Sequence[tuple[str, str]]
    read: Sequence[tuple[str, int, str]]


def page(parts: Mapping[str, Part], span: tuple[datetime, datetime] | None, made: Made) -> str:
    """Return the page as HTML; `span` is from the first event to the last.

    Guarantee: the same input gives the same text; external text is escaped.
    """
    sections = [
        Section(name, title, [parts[each] for each in names if each in parts]) for name, title, names in _SECTIONS
    ]
    return rendered(TITLE, _head(parts, span, made), [section for section in sections if section.parts])


def rendered(title: str, head: Head, sections: Sequence[Section]) -> str:
    """Return a page of sections as HTML. Guarantee: the same input gives the same text; external text is escaped."""
    pictures = {part.name: _picture(part) for section in sections for part in section.parts}
    return _template().render(title=title, head=head, sections=sections, pictures=pictures)


_SECTIONS = (
    ("sales", "Sales", ("over-time", "totals")),
    ("countries", "Countries", ("countries",)),
    ("products", "Products", ("products",)),
    ("outcomes", "Outcomes", ("funnel", "reasons")),
    ("time", "Time", ("waits", "steps")),
    ("undone", "Undone", ("compensations",)),
    ("shortages", "Shortages", ("stock-outs", "turned-away")),
    ("audit", "Audit", ("findings", "rules")),
)


@cache
def _template() -> Template:
    loader = PackageLoader("analytics.reporting", "")
    environment = Environment(
        autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def _picture(part: Part) -> _Picture | None:
    wide, narrow = part.plot(), part.plot(narrow=True)
    if wide is None or narrow is None:
        return None
    words = part.title, part.describe(part.rows)
    # Made by matplotlib, which has escaped its texts.
    return _Picture(Markup(svg(wide, part.name, *words)), Markup(svg(narrow, f"{part.name}-n", *words)))  # noqa: S704  as said


def _head(parts: Mapping[str, Part], span: tuple[datetime, datetime] | None, made: Made) -> Head:
    events = sum(map(len, made.read.values()))
    if span is None:
        sentence = "No order has been placed on this log yet."
    else:
        sentence = f"What its log says {_span(*span)} UTC, in {events:,} records."
    facts = [
        ("Log", made.log),
        ("Records", f"{events:,}, up to the offsets below"),
        ("Code", made.code_version),
        ("Made", f"{made.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, in {made.seconds:.1f} s"),
    ]
    return Head(sentence, _tiles(parts), facts, offsets_read(made.read))


def _span(first: datetime, last: datetime) -> str:
    day = "%-d %B %Y"
    if first.date() == last.date():
        return f"of {first:{day}}, from {first:%H:%M} to {last:%H:%M}"
    return f"from {first:{day}}, {first:%H:%M}, to {last:{day}}, {last:%H:%M}"


def _tiles(parts: Mapping[str, Part]) -> list[Tile]:
    totals = parts["totals"].rows
    orders = sum(row["orders"] for row in totals)
    tiles = [Tile(f"{orders:,}", "orders placed")]
    if orders:
        completed, is_open = (sum(row[name] for row in totals) for name in ("completed", "open"))
        tiles.append(Tile(f"{completed / orders:.1%}", f"completed; {is_open:,} still open"))
        tiles += [Tile(money(row["revenue_cents"], row["currency"]), "revenue") for row in totals[:3]]
        slowest = max(parts["waits"].rows, key=lambda row: row["total_ms"], default=None)
        if slowest is not None:
            tiles.append(Tile(duration(slowest["p50_ms"]), f"median wait, {slowest['part']}"))
    if "findings" in parts:
        found = len(parts["findings"].rows)
        tiles.append(
            Tile(f"{found:,}", "findings of the audit", "bad")
            if found
            else Tile("✓", "the audit found nothing", "good")
        )
    return tiles


def offsets_read(read: Mapping[TopicPartition, range]) -> list[tuple[str, int, str]]:
    """Return the offsets that were read, by topic: how many, and which of each partition."""
    found = list[tuple[str, int, str]]()
    for topic, places in groupby(sorted(read), key=lambda place: place[0]):
        spans = [(partition, read[topic, partition]) for _, partition in places]
        text = "  ".join(f"{partition}: {span.start:,} to {span.stop:,}" for partition, span in spans)
        found.append((topic, sum(len(span) for _, span in spans), text))
    return found
