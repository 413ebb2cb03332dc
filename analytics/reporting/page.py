"""Puts the parts of a report on one self-contained page: no network, no files."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from analytics.reporting.drawing import svg
from analytics.reporting.part import Part, Tile
from eventlib.log.base import TopicPartition


class Made(NamedTuple):
    """How a report was made: from which log and offsets, by which code, when (UTC), and how long it took."""

    log: str
    read: Mapping[TopicPartition, range]
    code_version: str
    at: datetime
    seconds: float


class MadeSection(NamedTuple):
    """Parts under one heading, that of the first of them."""

    name: str
    title: str
    parts: Sequence[Part]


class _Picture(NamedTuple):
    wide: Markup
    narrow: Markup | None


class Head(NamedTuple):
    """The top of a page, and how it was made: facts, and the offsets read, by topic."""

    sentence: str
    tiles: Sequence[Tile]
    facts: Sequence[tuple[str, str]]
    read: Sequence[tuple[str, int, str]]


def page(
    title: str,
    sections: Sequence[MadeSection],
    tiles: Sequence[Tile],
    span: tuple[datetime, datetime] | None,
    made: Made,
    console: str = "",
) -> str:
    """Return the page as HTML; `span` is from the first event to the last, and `console` the address that it links to.

    Guarantee: the same input gives the same text; external text is escaped.
    """
    head = _head(tiles, span, made, sections)
    return rendered(title, head, [section for section in sections if section.parts], console)


def rendered(title: str, head: Head, sections: Sequence[MadeSection], console: str = "") -> str:
    """Return a page of sections as HTML. Guarantee: the same input gives the same text; external text is escaped."""
    pictures = {part.name: _picture(part) for section in sections for part in section.parts}
    return _template().render(title=title, head=head, sections=sections, pictures=pictures, console=console)


@cache
def _template() -> Template:
    loader = PackageLoader("analytics.reporting", "")
    environment = Environment(
        autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def _picture(part: Part) -> _Picture | None:
    wide, narrow = part.drawn(), part.drawn(narrow=True)
    if wide is None or narrow is None:
        return None
    # Made by matplotlib or by the diagram, which have escaped their texts.
    if isinstance(wide, str) or isinstance(narrow, str):
        return _Picture(Markup(wide), None)  # noqa: S704  as said
    words = part.title, part.describe(part.rows)
    return _Picture(Markup(svg(wide, part.name, *words)), Markup(svg(narrow, f"{part.name}-n", *words)))  # noqa: S704  as said


def _head(
    tiles: Sequence[Tile], span: tuple[datetime, datetime] | None, made: Made, sections: Sequence[MadeSection]
) -> Head:
    events = sum(map(len, made.read.values()))
    if span is None:
        sentence = "No saga has begun on this log yet."
    else:
        sentence = f"What its log says {_span(*span)} UTC, in {events:,} records."
    facts = [
        ("Log", made.log),
        ("Records", f"{events:,}, up to the offsets below"),
        ("Code", made.code_version),
        ("Made", f"{made.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, in {made.seconds:.1f} s"),
    ]
    return Head(sentence, [*tiles, *_findings_tile(sections)], facts, offsets_read(made.read))


def _span(first: datetime, last: datetime) -> str:
    day = "%-d %B %Y"
    if first.date() == last.date():
        return f"of {first:{day}}, from {first:%H:%M} to {last:%H:%M}"
    return f"from {first:{day}}, {first:%H:%M}, to {last:{day}}, {last:%H:%M}"


def _findings_tile(sections: Sequence[MadeSection]) -> list[Tile]:
    for part in (part for section in sections for part in section.parts if part.name == "findings"):
        found = len(part.rows)
        bad, good = Tile(f"{found:,}", "findings of the audit", "bad"), Tile("✓", "the audit found nothing", "good")
        return [bad if found else good]
    return []


def offsets_read(read: Mapping[TopicPartition, range]) -> list[tuple[str, int, str]]:
    """Return the offsets that were read, by topic: how many, and which of each partition."""
    found = list[tuple[str, int, str]]()
    for topic, places in groupby(sorted(read), key=lambda place: place[0]):
        spans = [(partition, read[topic, partition]) for _, partition in places]
        text = "  ".join(f"{partition}: {span.start:,} to {span.stop:,}" for partition, span in spans)
        found.append((topic, sum(len(span) for _, span in spans), text))
    return found
