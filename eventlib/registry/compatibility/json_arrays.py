"""The keywords of JSON Schema about arrays: items by place, the rest of them, what has to be among them."""

from typing import TYPE_CHECKING, Any

from eventlib.registry.compatibility.base import Found, Incompatibility
from eventlib.registry.compatibility.json_types import is_empty
from eventlib.registry.parsing.json_schema import Node

if TYPE_CHECKING:  # it calls these
    from eventlib.registry.compatibility.json_schema import Comparison


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
