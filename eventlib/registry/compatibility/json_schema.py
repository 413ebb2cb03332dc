"""Which JSON Schema accepts what is valid by another, by Confluent's published rules.

A schema is a conjunction of keywords. The reader accepts all of the writer's values when each keyword of the reader
follows from the writer; one that does not is named by Confluent's rule for it. Where the published rules let pass
what can break, these do not: values that two branches of a `oneOf` accept, `patternProperties`, `required` without a
property, conditions. A required property with a default counts as readable: who reads fills it in.
Source: Confluent Schema Registry documentation, "JSON Schema compatibility rules"; the drafts of JSON Schema.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from eventlib.registry.compatibility.base import Found, Incompatibility, Pairs, spend
from eventlib.registry.compatibility.json_combinators import choices, products
from eventlib.registry.compatibility.json_objects import objects
from eventlib.registry.compatibility.json_scalars import (
    FAMILIES,
    enumeration,
    is_empty,
    limits,
    scalars,
    type_names,
    types_of,
)
from eventlib.registry.parsing.json_schema import Document, Node

_ANYTHING: dict[str, Any] = {}
"""`true` as an equivalent schema."""


def json_unreadable(reader: Document, writer: Document) -> list[Incompatibility]:
    """Return what keeps a schema from accepting what is valid by another."""
    return Comparison().of(writer.node, reader.node, "#")


class Comparison:
    """One comparison: `old` is who wrote, `new` is who reads."""

    def __init__(self) -> None:
        self._pairs = Pairs()
        self._made: dict[tuple[int, ...], Any] = {}

    def of(self, old: Node, new: Node, path: str) -> Found:
        """Return what is wrong at a path."""
        spend()
        old, new = self._resolved(old), self._resolved(new)
        if is_empty(new.schema) or old.schema is False:
            return []
        if new.schema is False:
            return [Incompatibility("TYPE_CHANGED", path, "nothing is valid any more: keep what was")]
        return self._pairs.once((id(old.schema), id(new.schema)), lambda: self._compare(old, new, path))

    def reads(self, old: Node, new: Node) -> bool:
        """Tell whether all that is valid by `old` is valid by `new`."""
        return not self.of(old, new, "#")

    def joined(self, node: Node, branch: Any) -> Node:
        """Return a schema with one branch of its own in place of all."""
        key = (id(node.schema), id(branch))
        if key not in self._made:
            rest = {name: each for name, each in node.schema.items() if name not in {"anyOf", "oneOf"}}
            rest["allOf"] = [*rest.get("allOf", []), branch]
            self._made[key] = rest
        return Node(self._made[key], node.resolver, node.modern)

    def _compare(self, old: Node, new: Node, path: str) -> Found:
        if _identical(old.schema, new.schema):
            return []
        found = self._keywords(old, new, path)
        if not found:
            return found
        for kind in ("anyOf", "oneOf"):
            branches = old.schema.get(kind, [])
            if kind == "anyOf" and len(branches) > 1 and "oneOf" in new.schema:
                continue  # several may have held at once
            if branches and all(self.reads(self.joined(old, each), new) for each in branches):
                return []
        # What follows from one part of a conjunction follows from all of it.
        if any(self.reads(old.child(each), new) for each in old.schema.get("allOf", [])):
            return []
        return found

    def _keywords(self, old: Node, new: Node, path: str) -> Found:
        writes, reads = old.schema, new.schema
        found = enumeration(writes, reads, path)
        if found is not None:
            return found
        had, has = types_of(writes), types_of(reads)
        found = [] if had <= has else [_types(had, has, path)]
        relevant = had & has
        found += limits(writes, reads, path, relevant) + scalars(writes, reads, path, relevant)
        parts: list[tuple[str, Callable[[Comparison, Node, Node, str], Found]]] = [
            ("object", objects),
            ("array", arrays),
        ]
        for family, compare in parts:
            if relevant & FAMILIES[family]:
                found += compare(self, old, new, path)
        return found + products(self, old, new, path) + choices(self, old, new, path)

    def _resolved(self, node: Node) -> Node:
        while isinstance(node.schema, dict) and isinstance(node.schema.get("$ref"), str):
            beside = {name: each for name, each in node.schema.items() if name != "$ref"}
            if not node.modern or is_empty(beside):
                node = node.follow(node.schema["$ref"])
                continue
            key = (id(node.schema),)
            if key not in self._made:
                beside["allOf"] = [*beside.get("allOf", []), {"$ref": node.schema["$ref"]}]
                self._made[key] = beside
            node = Node(self._made[key], node.resolver, node.modern)
        return Node(_ANYTHING, node.resolver, node.modern) if node.schema is True else node


def _types(had: Iterable[str], has: Iterable[str], path: str) -> Incompatibility:
    rule = "TYPE_NARROWED" if {*has} < {*had} else "TYPE_CHANGED"
    message = f"{type_names(had)} was valid, and now only {type_names(has)}: keep the type, or allow both"
    return Incompatibility(rule, f"{path}/type", message)


def _identical(old: Any, new: Any) -> bool:
    one = json.dumps(old, sort_keys=True)
    return '"$ref"' not in one and one == json.dumps(new, sort_keys=True)


def arrays(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    """Return what is wrong with arrays."""
    found = _places(within, old, new, path) + _rest(within, old, new, path) + _contains(within, old, new, path)
    if new.schema.get("uniqueItems") and not old.schema.get("uniqueItems"):
        message = "an item could be there twice: leave uniqueItems out"
        found.append(Incompatibility("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", message))
    return found


def _places(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    before, now = _by_place(old), _by_place(new)
    found = Found()
    for i in range(max(len(before), len(now))):
        here = f"{path}/items/{i}"
        if i >= len(now):
            found += _removed(within, old.child(before[i]), _others(new), here)
        elif i >= len(before):
            found += _added(within, _others(old), new.child(now[i]), here)
        else:
            found += within.of(old.child(before[i]), new.child(now[i]), here)
    return found


def _removed(within: "Comparison", was: Node, rest: Node, path: str) -> Found:
    if rest.schema is False and was.schema is not False:
        message = "the item was valid, and the array is closed now: keep the item"
        return [Incompatibility("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, message)]
    details = within.of(was, rest, path)
    if not details:
        return []
    message = "the item does not fit what other items must be: keep the item"
    return [Incompatibility("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, message), *details]


def _added(within: "Comparison", rest: Node, now: Node, path: str) -> Found:
    if is_empty(rest.schema):
        if is_empty(now.schema):
            return []
        message = "any item could be there: close the array first, or add the item without a type"
        return [Incompatibility("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, message)]
    details = within.of(rest, now, path)
    if not details:
        return []
    message = "the item may be there as any other item: let it be what they were"
    return [Incompatibility("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, message), *details]


def _rest(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    was, now = _others(old), _others(new)
    here = f"{path}/additionalItems" if _by_place(new) or _by_place(old) else f"{path}/items"
    if now.schema is False and was.schema is not False:
        return [Incompatibility("ADDITIONAL_ITEMS_REMOVED", here, "more items were valid: keep the array open")]
    if is_empty(was.schema) and not is_empty(now.schema):
        message = "items could have been anything: keep the array open"
        return [Incompatibility("ADDITIONAL_ITEMS_NARROWED", here, message)]
    return within.of(was, now, here)


def _contains(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    if "contains" not in new.schema or new.schema.get("minContains") == new.schema.get("maxContains", 0) == 0:
        return []
    here = f"{path}/contains"
    if "contains" not in old.schema:
        return [Incompatibility("CONTAINS_ADDED", here, "no item had to be there: leave contains out")]
    was, now = old.child(old.schema["contains"]), new.child(new.schema["contains"])
    found = within.of(was, now, here)
    if "maxContains" in new.schema and not within.reads(now, was):
        message = "more items match than before, and may be too many: keep what contains asks for"
        found = [*found, Incompatibility("CONTAINS_EXTENDED", here, message)]
    return found


def _by_place(node: Node) -> list[Any]:
    """Return the schemas of the first items (`prefixItems`; a list under `items` before draft 2020-12)."""
    items = node.schema.get("prefixItems", node.schema.get("items"))
    return items if isinstance(items, list) else []


def _others(node: Node) -> Node:
    """Return what all other items have to be."""
    schema = node.schema
    items = schema.get("items", True)
    if isinstance(items, list):
        items = schema.get("additionalItems", True)
    return node.child(schema.get("unevaluatedItems", True) if items is True else items)
