"""Rendered HTML as parts that a test can look at: read strictly, found by selectors of CSS."""

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser

FIELDS = frozenset({"input", "select", "textarea"})
_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
_INLINE = frozenset({"a", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "small", "span", "strong", "time"})
_SIMPLE = re.compile(
    r"""(?P<kind>[#.]?)(?P<name>[\w-]+)|\[(?P<key>[\w:-]+)(?:(?P<how>\^?=)(["']?)(?P<value>[^\]]*?)\5)?\]"""
)


class Part:
    """An element: its attributes, and what is in it."""

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: "Part | None" = None) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.inside: list[Part | str] = []

    def __iter__(self) -> "Iterator[Part]":
        """Give every element within, in the order of the text."""
        for each in self.inside:
            if isinstance(each, Part):
                yield each
                yield from each

    def __getitem__(self, attribute: str) -> str:
        return self.attributes[attribute]

    @property
    def text(self) -> str:
        """What is written in it, each run of white space as one blank."""
        return " ".join("".join(_texts(self)).split())

    def all(self, selector: str, has: str = "") -> "list[Part]":
        """Return the elements within of a selector (`tag`, `#id`, `.class`, `[attribute]`, a blank for "within") with a text."""
        *around, last = map(_simples, selector.split())
        return [each for each in self if _is(each, last) and _is_within(each, around, self) and has in each.text]

    def one(self, selector: str, has: str = "") -> "Part":
        """Return the only element within of a selector and with a text."""
        found = self.all(selector, has)
        assert len(found) == 1, f"{len(found)} of {selector} {has}, in: {self.text}"
        return found[0]

    def labelled(self, label: str) -> "Part":
        """Return the only element within that has an accessible name."""
        (found,) = [each for each in self if each.attributes.get("aria-label") == label]
        return found

    def above(self, tag: str) -> "Part | None":
        """Return the nearest element around it of a tag."""
        around = self.parent
        while around is not None and around.tag != tag:
            around = around.parent
        return around


def _texts(part: Part) -> Iterator[str]:
    for each in part.inside:
        if isinstance(each, str):
            yield each
        elif each.tag in _INLINE:
            yield from _texts(each)
        else:
            yield from (" ", *_texts(each), " ")


def _simples(compound: str) -> "list[re.Match[str]]":
    found = [*_SIMPLE.finditer(compound)]
    assert "".join(each[0] for each in found) == compound, f"{compound} is no selector that is understood here"
    return found


def _is(part: Part, compound: "list[re.Match[str]]") -> bool:
    return all(_has(part.attributes, part.tag, simple) for simple in compound)


def _has(attributes: Mapping[str, str], tag: str, simple: "re.Match[str]") -> bool:
    match simple["kind"], simple["how"]:
        case ("#", _):
            return attributes.get("id") == simple["name"]
        case (".", _):
            return simple["name"] in attributes.get("class", "").split()
        case ("", _):
            return tag == simple["name"]
        case (_, "^="):
            return attributes.get(simple["key"], "").startswith(simple["value"])
        case (_, "="):
            return attributes.get(simple["key"]) == simple["value"]
    return simple["key"] in attributes


def _is_within(part: Part, compounds: "list[list[re.Match[str]]]", top: Part) -> bool:
    around = part.parent
    for each in reversed(compounds):
        while around is not None and around is not top and not _is(around, each):
            around = around.parent
        if around is None or around is top:
            return False
        around = around.parent
    return True


class _Reader(HTMLParser):
    """Reads what the console's templates write: each element is closed where it has to be."""

    def __init__(self) -> None:
        super().__init__()
        self.top = self.at = Part("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice: {self.get_starttag_text()}"
        part = Part(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.inside.append(part)
        if tag not in _VOID:
            self.at = part

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.at.tag, f"</{tag}> ends <{self.at.tag}>, line {self.getpos()[0]}"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        if self.at.tag not in {"script", "style"}:
            self.at.inside.append(data)
        else:
            assert not data.strip(), f"a script or style in the page: {data[:80]}"


def read(text: str) -> Part:
    """Return a page, or a part of one, as the element around all that is in it.

    Raises: AssertionError for elements that are not closed in their order, an attribute or an id twice, a field without a label,
    and for scripts and styles in the page, which its policy forbids.
    """
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.at is reader.top, f"<{reader.at.tag}> is not closed"
    ids = [each["id"] for each in reader.top if "id" in each.attributes]
    assert len(ids) == len(set(ids)), f"an id twice: {ids}"
    inline = [name for each in reader.top for name in each.attributes if name == "style" or name.startswith("on")]
    assert inline == []
    labels = {each["for"] for each in reader.top.all("label[for]")}
    fields = [each for each in reader.top if each.tag in FIELDS and each.attributes.get("type") != "hidden"]
    assert [each.attributes for each in fields if not _is_named(each, labels)] == []
    return reader.top


def _is_named(field: Part, labels: set[str]) -> bool:
    return "aria-label" in field.attributes or field.attributes.get("id") in labels or field.above("label") is not None
