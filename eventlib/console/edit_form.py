"""Forms made of an event's schema: for a parked input's other data, and the difference that it makes, or for a new event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json

from eventlib.console.rendering import json
from eventlib.errors import ContractError
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields

Control = Literal["text", "number", "choice", "json"]
_NUMBERS = {"integer", "number"}
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of the form: its control, its text, and whether it may have no value, and has none (`is_none`)."""

    name: str
    control: Control
    text: str
    type: str
    about: str
    choices: Sequence[str] = ()
    may_be_none: bool = False
    is_none: bool = False
    is_key: bool = False
    is_personal: bool = False


def fields_of(event_type: type[Event], values: Mapping[str, Any]) -> Sequence[EditField]:
    """Return the fields of an event's form; `values` are those that it has, as JSON."""
    schema = event_type.model_json_schema(mode="validation")
    definitions = schema.get("$defs", {})
    key, personal = contract_of(event_type).key, personal_fields(event_type)
    found = list[EditField]()
    for name, about in schema.get("properties", {}).items():
        shape, may_be_none = _shape(about, definitions)
        control, choices = _control(shape)
        value = values.get(name)
        shown = "" if value is None else value if control != "json" and isinstance(value, str) else json(value)
        kind = str(shape.get("format") or shape.get("type") or "JSON")
        texts = str(shown), kind, str(about.get("description", shape.get("description", "")))
        is_none = may_be_none and value is None
        found.append(EditField(name, control, *texts, choices, may_be_none, is_none, name == key, name in personal))
    return found


def initial_values(event_type: type[Event]) -> Mapping[str, Any]:
    """Return what a form for a new event shows: the schema's defaults, and the outline of what is a list or an object."""
    schema = event_type.model_json_schema(mode="validation")
    found = dict[str, Any]()
    for name, about in schema.get("properties", {}).items():
        shape, may_be_none = _shape(about, schema.get("$defs", {}))
        if "default" in about:
            found[name] = about["default"]
        elif not may_be_none and _control(shape)[0] == "json":
            found[name] = _outline(about, schema.get("$defs", {}))
    return found


def _outline(about: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """Return the outline of a value: its fields without values, to a depth at which types that hold themselves end."""
    shape, may_be_none = _shape(about, definitions)
    if "default" in about or may_be_none or depth > _DEEPEST:
        return about.get("default")
    match shape.get("type"):
        case "object":
            fields = shape.get("properties", {})
            return {name: _outline(each, definitions, depth + 1) for name, each in fields.items()}
        case "array":
            return [_outline(shape["items"], definitions, depth + 1)] if shape.get("items") else []
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case kind:
            return "" if kind == "string" else None


def values_in(fields: Sequence[EditField], given: Mapping[str, str], empty: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a form that was sent; `empty` has the fields that shall have no value. Raises: ContractError."""
    return {
        each.name: None if each.may_be_none and each.name in empty else _value(each, given[each.name])
        for each in fields
        if each.name in given
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[tuple[str, Any, Any]]:
    """Return the fields that differ, with their values before and after."""
    names = [
        name
        for name in {**before, **after}
        if before.get(name) != after.get(name) or (name in before) != (name in after)
    ]
    return [(name, before.get(name), after.get(name)) for name in names]


def _shape(about: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the schema of a field's value, and whether it may be null."""
    if "$ref" in about:
        return _shape(definitions.get(str(about["$ref"]).rpartition("/")[2], {}), definitions)
    branches = [each for each in about.get("anyOf", ()) if each.get("type") != "null"]
    if len(branches) == 1 and len(about["anyOf"]) > 1:
        return _shape(branches[0], definitions)[0], True
    return about, False


def _control(shape: Mapping[str, Any]) -> tuple[Control, Sequence[str]]:
    choices = shape.get("enum", ())
    if choices and all(isinstance(each, str) for each in choices):
        return "choice", [*choices]
    if shape.get("type") == "boolean":
        return "choice", ["true", "false"]
    if shape.get("type") in _NUMBERS:
        return "number", ()
    return ("text", ()) if shape.get("type") == "string" else ("json", ())


def _value(field: EditField, text: str) -> Any:
    is_text = field.control == "text" or (field.control == "choice" and field.choices != ["true", "false"])
    if is_text:
        return text
    try:
        return from_json(text)
    except ValueError as error:
        raise ContractError(f"{field.name}: {text!r:.60} is no {field.type}") from error
