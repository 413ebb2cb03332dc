"""The keywords of JSON Schema about objects: content models, properties, what is required, dependencies.

An object is *open* when it may have properties without a name here, *closed* when it may not, and partially open when
those have a schema of their own.
"""

from typing import TYPE_CHECKING, Any

from eventlib.registry.compatibility.base import Found, Incompatibility
from eventlib.registry.compatibility.json_scalars import is_empty, matches
from eventlib.registry.parsing.json_schema import Node

if TYPE_CHECKING:  # it calls these
    from eventlib.registry.compatibility.json_schema import Comparison

_TEXT = {"type": "string"}


def objects(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    """Return what is wrong with objects."""
    return [
        *_required(old, new, path),
        *_properties(within, old, new, path),
        *_patterns(within, old, new, path),
        *_additional(within, old, new, path),
        *_names(within, old, new, path),
        *_dependencies(within, old, new, path),
    ]


def _required(old: Node, new: Node, path: str) -> Found:
    properties, before = _of(new, "properties"), _of(old, "properties")
    found = Found()
    for name in sorted(_required_names(new) - _required_names(old)):
        if name in properties and (name not in before or _has_default(new.child(properties[name]))):
            continue  # a property that is new is judged by what its object was open to
        message = f"{name} was optional: give it a default, or leave it optional"
        found.append(Incompatibility("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", message))
    return found


def _properties(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    before, now = _of(old, "properties"), _of(new, "properties")
    found = Found()
    for name in [*before, *(each for each in now if each not in before)]:
        here = f"{path}/properties/{name}"
        if name not in now:
            found += _removed(within, old.child(before[name]), new, name, here)
        elif name not in before:
            found += _added(within, old, new, name, here)
        else:
            found += within.of(old.child(before[name]), new.child(now[name]), here)
    return found


def _removed(within: "Comparison", was: Node, new: Node, name: str, path: str) -> Found:
    if _is_open(new):
        return []
    now = _unnamed(new, name, when_open=False)
    if now.schema is False:
        if was.schema is False:
            return []
        message = f"{name} was valid, and the object is closed now: keep the property"
        return [Incompatibility("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, message)]
    details = within.of(was, now, path)
    if not details:
        return []
    message = f"{name} does not fit what other properties must be: keep the property"
    return [Incompatibility("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, message), *details]


def _added(within: "Comparison", old: Node, new: Node, name: str, path: str) -> Found:
    now = new.child(_of(new, "properties")[name])
    required = name in _required_names(new)
    if _is_open(old):
        if is_empty(now.schema) and not required:
            return []
        kind = (
            ("REQUIRED_PROPERTY_WITH_DEFAULT" if _has_default(now) else "REQUIRED_PROPERTY")
            if required
            else "OPTIONAL_PROPERTY"
        )
        message = (
            f'{name} may be there with any value: start with "additionalProperties": false, or add it without a type'
        )
        return [Incompatibility(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path, message)]
    found = Found()
    was = _unnamed(old, name, when_open=True)
    if was.schema is not False and (details := within.of(was, now, path)):
        message = f"{name} may be there as any other property: let it be what they were"
        found += [
            Incompatibility("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, message),
            *details,
        ]
    if required and not _has_default(now):
        message = f"{name} is not in what was written: give it a default, or make it optional"
        found.append(Incompatibility("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, message))
    return found


def _patterns(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    before, now = _of(old, "patternProperties"), _of(new, "patternProperties")
    found = Found()
    for pattern, schema in now.items():
        here, then = f"{path}/patternProperties/{pattern}", new.child(schema)
        if pattern in before:
            found += within.of(old.child(before[pattern]), then, here)
            continue
        named = [each for name, each in _of(old, "properties").items() if matches(pattern, name) is not False]
        others = [*named, *before.values(), _extra(old).schema]
        if not all(within.reads(old.child(each), then) for each in others):
            message = f"properties that match {pattern!r} could have been anything: leave the pattern out"
            found.append(Incompatibility("PATTERN_PROPERTY_ADDED", here, message))
    for pattern in before.keys() - now.keys():
        if not within.reads(old.child(before[pattern]), _extra(new)):
            message = f"properties that match {pattern!r} were valid: keep the pattern"
            found.append(Incompatibility("PATTERN_PROPERTY_REMOVED", f"{path}/patternProperties/{pattern}", message))
    return found


def _additional(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    was, now = _extra(old), _extra(new)
    here = f"{path}/additionalProperties"
    if now.schema is False and was.schema is not False:
        message = "other properties were valid: keep the object open"
        return [Incompatibility("ADDITIONAL_PROPERTIES_REMOVED", here, message)]
    if is_empty(was.schema) and not is_empty(now.schema):
        message = "other properties could have been anything: keep the object open"
        return [Incompatibility("ADDITIONAL_PROPERTIES_NARROWED", here, message)]
    return within.of(was, now, here)


def _names(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    if "propertyNames" not in new.schema:
        return []
    was = old.child(old.schema.get("propertyNames", _TEXT))
    return within.of(was, new.child(new.schema["propertyNames"]), f"{path}/propertyNames")


def _dependencies(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    before, now = _dependent(old), _dependent(new)
    found = Found()
    for name, wants in now.items():
        here = f"{path}/dependencies/{name}"
        if isinstance(wants, list):
            found += _dependency_list(before.get(name), wants, name, here)
        elif name not in before or isinstance(before[name], list):
            message = f"{name} had no such dependency: leave it out"
            found.append(Incompatibility("DEPENDENCY_SCHEMA_ADDED", here, message))
        else:
            found += within.of(old.child(before[name]), new.child(wants), here)
    return found


def _dependency_list(before: Any, now: list[str], name: str, path: str) -> Found:
    if not isinstance(before, list):
        if not now:
            return []
        return [Incompatibility("DEPENDENCY_ARRAY_ADDED", path, f"{name} came alone: leave the dependency out")]
    if {*now} <= {*before}:
        return []
    rule = "DEPENDENCY_ARRAY_EXTENDED" if {*before} <= {*now} else "DEPENDENCY_ARRAY_CHANGED"
    message = f"{name} came without {', '.join(sorted({*now} - {*before}))}: keep the dependency as it was"
    return [Incompatibility(rule, path, message)]


def _dependent(node: Node) -> dict[str, Any]:
    schema = node.schema
    return {
        **_of(node, "dependencies"),
        **{f"{name}": each for name, each in schema.get("dependentRequired", {}).items()},
        **{f"{name}": each for name, each in schema.get("dependentSchemas", {}).items()},
    }


def _of(node: Node, keyword: str) -> dict[str, Any]:
    found: dict[str, Any] = node.schema.get(keyword, {})
    return found


def _required_names(node: Node) -> set[str]:
    required = node.schema.get("required", [])
    return {*required} if isinstance(required, list) else set()


def _has_default(node: Node) -> bool:
    return isinstance(node.schema, dict) and "default" in node.schema


def _extra(node: Node) -> Node:
    """Return what properties without a name here have to be."""
    schema = node.schema
    return node.child(schema.get("additionalProperties", schema.get("unevaluatedProperties", True)))


def _is_open(node: Node) -> bool:
    return not _of(node, "patternProperties") and is_empty(_extra(node).schema)


def _unnamed(node: Node, name: str, *, when_open: bool) -> Node:
    """Return what a property has to be that only patterns and the rest define.

    `when_open` is whether anything is allowed, or nothing, where it is unknown whether a pattern matches.
    """
    for pattern, schema in _of(node, "patternProperties").items():
        found = matches(pattern, name)
        if found is None:
            return node.child(when_open)
        if found:
            return node.child(schema)
    return _extra(node)
