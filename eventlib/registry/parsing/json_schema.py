"""JSON Schemas with what they refer to. Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12; without `$schema`, 7."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, specification_with

from eventlib.registry.parsing.parsed import DEEPEST, InvalidSchema

_SCHEMAS = frozenset({
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf",
    "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords whose values are schemas, or lists of them."""
_NAMED = frozenset({
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
})  # fmt: skip
"""Keywords whose values are schemas by name."""
_OLD = ("draft-04", "draft-06", "draft-07")
_LONGEST_CHAIN = 50


@dataclass(frozen=True, slots=True)
class Node:
    """A place in a schema: what stands there, and what references from there mean."""

    schema: Any
    resolver: Any
    modern: bool

    def child(self, schema: Any) -> "Node":
        """Return a part of this schema."""
        if not isinstance(schema, dict) or "$id" not in schema:
            return Node(schema, self.resolver, self.modern)
        return Node(schema, self.resolver.in_subresource(_resource(schema)), self.modern)

    def follow(self, reference: str) -> "Node":
        """Return what a reference from here leads to. Raises: Unresolvable."""
        found = self.resolver.lookup(reference)
        return Node(found.contents, found.resolver, self.modern)


@dataclass(frozen=True, slots=True)
class Document:
    """A schema's document and those that it refers to, by the names it knows them by."""

    root: Any
    others: Mapping[str, Any]
    node: Node = field(compare=False, repr=False)


def json_schema(document: Any, others: Mapping[str, Any]) -> Document:
    """Return a schema with what it refers to. Raises: InvalidSchema."""
    if not isinstance(document, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    _check(document)
    registry: Registry[Any] = Registry()
    base = document.get("$id", "") if isinstance(document, dict) else ""
    for name, each in others.items():
        registry = registry.with_resource(name, _resource(each))
    registry = registry.with_resource(base, _resource(document))
    dialect = document.get("$schema", "") if isinstance(document, dict) else ""
    modern = bool(dialect) and not any(old in dialect for old in _OLD)
    node = Node(document, registry.resolver(base), modern)
    found = Document(document, others, node)
    _References(frozenset(others)).check(node, "#")
    return found


def _resource(schema: Any) -> Any:
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    specification = specification_with(dialect, default=DRAFT7) if isinstance(dialect, str) else DRAFT7
    return specification.create_resource(schema)


def _check(document: Any) -> None:
    try:
        validator = validator_for(document, default=Draft7Validator)
        validator.check_schema(document)
    except SchemaError as error:
        raise InvalidSchema(f"{_pointer(error.absolute_path)}: {error.message[:300]}") from error
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        raise InvalidSchema(f"it is no JSON Schema: {error!s:.200}") from error


class _References:
    """A walk through a schema and all that it refers to."""

    def __init__(self, names: frozenset[str]) -> None:
        self._known = f"known are {', '.join(sorted(names))}" if names else "the schema has no references"
        self._seen = set[int]()

    def check(self, node: Node, path: str, depth: int = 0) -> None:
        """Refuse references that lead to nothing, to no schema, or back to themselves."""
        if depth > DEEPEST:
            raise InvalidSchema(f"{path[:80]}…: it is nested more than {DEEPEST} deep")
        schema = node.schema
        if not isinstance(schema, dict) or id(schema) in self._seen:
            return
        self._seen.add(id(schema))
        if isinstance(schema.get("$ref"), str):
            target = self._follow(node, path)
            if id(target.schema) not in self._seen:
                _check(target.schema)  # it may stand where the schema of schemas expects none
                self.check(target, path, depth + 1)
        _check_patterns(schema, path)
        for key, part in _parts(schema):
            self.check(node.child(part), f"{path}/{key}", depth + 1)

    def _follow(self, node: Node, path: str) -> Node:
        wanted = f"{path}/$ref: {str(node.schema['$ref'])[:200]!r}"
        for _ in range(_LONGEST_CHAIN):
            try:
                node = node.follow(node.schema["$ref"])
            except (Unresolvable, ValueError, LookupError, TypeError, AttributeError) as error:
                raise InvalidSchema(f"{wanted} leads to nothing; {self._known}") from error
            if not isinstance(node.schema, dict | bool):
                raise InvalidSchema(f"{wanted} leads to what is no schema")
            if not isinstance(node.schema, dict) or not isinstance(node.schema.get("$ref"), str):
                return node
        raise InvalidSchema(f"{wanted} leads back to itself")


def _check_patterns(schema: dict[str, Any], path: str) -> None:
    patterns = schema.get("patternProperties")
    found = [*patterns] if isinstance(patterns, dict) else []
    if isinstance(schema.get("pattern"), str):
        found.append(schema["pattern"])
    for each in found:
        try:
            re.compile(each)
        except (re.error, OverflowError) as error:
            raise InvalidSchema(f"{path}: {each[:80]!r} is no regular expression: {error}") from error


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key in _SCHEMAS and isinstance(value, list):
            yield from ((f"{key}/{i}", each) for i, each in enumerate(value))
        elif key in _SCHEMAS:
            yield key, value
        elif key in _NAMED and isinstance(value, dict):
            yield from ((f"{key}/{name}", each) for name, each in value.items())


def _pointer(path: Any) -> str:
    return "/".join(["#", *(str(each) for each in path)])
