"""Values as their bytes give them back: what is handed on in a process is what another one decodes.

| declared | given | becomes |
|---|---|---|
| datetime | another zone than UTC, a subclass | UTC |
| Decimal | another scale than the declared one | that scale |
| float | int that a float holds | float |
| str, int, bytes, date, UUID … | a subclass (StrEnum, bytearray) | the declared class |
| a model or dataclass | a subclass without fields of its own | the declared class; with more fields it is refused |
| list, dict, set | a list, dict, set | one that cannot be changed in place |

A normaliser is made of source once for each class, from the same types as its schema; a class in which nothing can differ
has none.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from operator import is_
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from eventlib.model.schema.derive import known_record_of
from eventlib.model.schema.fields import OPEN, NotYet, default_of
from eventlib.model.schema.frozen import FrozenDict, FrozenList, FrozenSet
from eventlib.model.schema.leaves import CHECKED, NAMES, LossyValue, Normal, leaf
from eventlib.model.schema.scalars import attribute
from eventlib.model.schema.types import (
    NULL,
    Array,
    Choice,
    Exact,
    Field,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    class_of,
)
from eventlib.model.states import replace

T = TypeVar("T")

_MADE: dict[type, type] = {list: FrozenList, set: FrozenSet}
_SIMPLE = {str, int, float, bytes}
"""Whose normal values have a class, and nothing else to them."""


@lru_cache(maxsize=512)
def _normaliser_of(cls: type[Any]) -> Normal:
    return _Normals(sorts=False).record(known_record_of(cls))


def normal(value: T) -> T:
    """Return any instance of a model or dataclass as its bytes give it back: itself, or a new one.

    Raises: LossyValue.
    """
    cls: Any = type(value)
    return cast("T", _normaliser_of(cls)(value))


def validating(cls: type[Any], *, sorts: bool = False) -> Normal | None:
    """Return what makes an instance normal, in place, that Pydantic has just validated; None if there is nothing to do.

    With `sorts`, maps have the order of their keys: Protobuf keeps no other one. It raises LossyValue.
    """
    made: Normal | None = None

    def late(value: Any) -> Any:
        nonlocal made
        if made is None:
            made = _validating(cls, sorts=sorts) or _same
        return made(value)

    try:
        return _validating(cls, sorts=sorts)
    except NotYet:
        return late


def _validating(cls: type[Any], *, sorts: bool) -> Normal | None:
    record, normals = known_record_of(cls), _Normals(sorts=sorts)
    return normals.compiled(record, [field for field in record.fields if normals.is_open(field, cls)], "made", _set)


def _same(value: Any) -> Any:
    return value


def normal_evolve(evolve: Callable[..., Any], cls: type[Any], *, wants_meta: bool) -> Callable[..., Any]:
    """Return `evolve` with normal states: what it returns is as the changelog would give it back.

    `cls` is the state's. What the state before had already is not looked at again.
    """
    record = known_record_of(cls)
    return _Normals(sorts=False).evolved(record, evolve, "before, event, meta" if wants_meta else "before, event")


class _Normals:
    """The normalisers of one class's types; a record's is made once, since it may lead back to itself."""

    def __init__(self, *, sorts: bool) -> None:
        self._sorts = sorts
        self._records: dict[Record, Normal] = {}

    def record(self, record: Record) -> Normal:
        """Return the normaliser of any instance of a record's class."""
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda value: made(value)  # noqa: PLW0108  made below: it may lead back here
        fields = self.compiled(record, record.fields, "part", replaced)
        cls, declared = record.cls, {field.name for field in record.fields}

        def made(value: Any) -> Any:
            if value.__class__ is not cls:
                if not isinstance(value, cls):
                    return value  # the writer refuses it
                value = _declared(value, cls, declared)
            return value if fields is None else fields(value)

        self._records[record] = made
        return made

    def compiled(
        self, record: Record, fields: list[Field], kind: str, changed: Callable[[Any, dict[str, Any]], Any]
    ) -> Normal | None:
        """Return the function that makes some fields of a record's class normal; None if there is nothing to do."""
        names = {**NAMES, "changed": changed}
        lines = self._lines(record, fields, names)
        return _function(f"def {kind}(value):", lines, names) if lines else None

    def evolved(self, record: Record, evolve: Callable[..., Any], arguments: str) -> Callable[..., Any]:
        """Return `evolve` with normal states; its own one if there is nothing to do."""
        names = {**NAMES, "changed": replaced, "cls": record.cls, "evolve": evolve, "whole": self.record(record)}
        lines = self._lines(record, record.fields, names, before="before")
        first = [
            f"value = evolve({arguments})",
            "if value is before or value is None: return value",
            "if value.__class__ is not cls or before.__class__ is not cls: return whole(value)",
        ]
        return _function(f"def evolved({arguments}):", [*first, *lines], names) if lines else evolve

    def _lines(self, record: Record, fields: list[Field], names: dict[str, Any], before: str = "") -> list[str]:
        """Return the source that makes fields of `value` normal, and returns it; what it had `before` is normal already."""
        lines, normals = list[str](), list[tuple[str, Normal]]()
        for n, field in enumerate(fields):
            found = self.of(field.node)
            if found is None:
                continue
            test, names[f"n{n}"] = found
            normals.append((field.name, found[1]))
            tests = [f"({test.format(f'v{n}')})"] if test else []
            if before and _is_large(field.node):
                tests.insert(0, f"v{n} is not {attribute(field.name, before)}")
            given = f"v{n}, {attribute(field.name, before)}" if before and _is_array(field.node) else f"v{n}"
            condition = " and ".join([*tests, f"(m := n{n}({given})) is not v{n}"])
            lines += [
                f"v{n} = {attribute(field.name)}",
                f"if {condition}: changes = {{**(changes or {{}}), {field.name!r}: m}}",
            ]
        if not lines:
            return []
        names |= {"Lossy": LossyValue, "blame": partial(_blame, record.cls.__name__, normals)}
        return [
            "changes = None",
            "try:",
            *(f"    {line}" for line in lines),
            "except Lossy as error: raise blame(value, error) from error",
            "return value if changes is None else changed(value, changes)",
        ]

    def is_open(self, field: Field, cls: type[Any]) -> bool:
        """Return whether Pydantic's validation leaves a field open, as it does with a default."""
        found = self.of(field.node)
        if found is None or not _is_closed(field.node):
            return found is not None
        default = default_of(cls, field.name)
        return default is OPEN or found[1](default) is not default

    def of(self, node: Node) -> tuple[str, Normal] | None:
        """Return the test of a value `{0}` that may not be normal, and what makes it so; an empty test is always true."""
        match node:
            case Plain() | Exact() | Choice() | Symbols():
                return leaf(node)
            case Array(items=items, container=container):
                return "", self._array(items, container)
            case StringMap(values=values):
                return "", self._map(values)
            case Union():
                return self._union(node)
            case Record():
                return "", self.record(node)

    def _array(self, items: Node, container: type[Any]) -> Callable[..., Any]:
        made = _MADE.get(container, container)
        each = self._every(items)

        def normal(value: Any, before: Any = ()) -> Any:
            if not isinstance(value, container):
                return value
            found = each(value, before if before.__class__ is made else ())
            return value if found is None and value.__class__ is made else made(value if found is None else found)

        return normal

    def _map(self, values: Node) -> Normal:
        text, each, sorts = self._every(Plain(str, "string")), self._every(values), self._sorts

        def normal(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            keys, found = text(value), each(value.values())
            if keys is None and found is None and value.__class__ is FrozenDict and not sorts:
                return value
            made = zip(value if keys is None else keys, value.values() if found is None else found, strict=True)
            return FrozenDict(sorted(made, key=_key) if sorts else made)

        return normal

    def _every(self, items: Node) -> Callable[..., list[Any] | None]:
        """Return the function that makes all items normal, of which those `before` are; it returns None when all are."""
        found = self.of(items)
        if found is None:
            return lambda _values, _before=(): None
        _, normal = found
        kinds = {items.python} if isinstance(items, Plain) and items.python in _SIMPLE else None

        def every(values: Any, before: Any = ()) -> list[Any] | None:
            if kinds is not None and kinds.issuperset(map(type, values)):
                return None
            kept = set(map(id, before))
            made = [value if id(value) in kept else normal(value) for value in values]
            return None if all(map(is_, made, values)) else made

        def longer(values: Any, before: Any = ()) -> list[Any] | None:
            """Do it for items that are mostly those before, with more behind them: look at these alone."""
            if before and isinstance(values, list | tuple) and all(map(is_, before, values)):
                found = every(values[len(before) :])
                return found if found is None else [*before, *found]
            return every(values, before)

        return longer

    def _union(self, union: Union) -> tuple[str, Normal] | None:
        if union.optional is not None:
            found = self.of(union.optional)
            if found is None:
                return None
            test, normal = found
            return f"{{0}} is not None and ({test})" if test else "{0} is not None", normal
        branches = {class_of(branch): self.of(branch) for branch in union.branches if branch != NULL}
        if float in branches:
            branches.setdefault(int, branches[float])

        def normal_of_branch(value: Any) -> Any:
            base = next((base for base in value.__class__.__mro__ if base in branches), None)
            branch = None if base is None else branches[base]
            return value if branch is None else branch[1](value)

        return "{0} is not None", normal_of_branch


def _is_closed(node: Node) -> bool:
    match node:
        case Plain(python=kind):
            return kind in CHECKED
        case Choice() | Symbols():
            return True
        case Array(items=items, container=container):
            return container not in _MADE and _is_closed(items)
        case Union(branches=branches):
            return all(map(_is_closed, branches))
        case _:
            return False


def _is_array(node: Node) -> bool:
    return isinstance(node.optional if isinstance(node, Union) else node, Array)


def _is_large(node: Node) -> bool:
    """Return whether to look at a value takes longer than to compare it with the one before."""
    match node:
        case Array() | StringMap() | Record() | Plain(logical="timestamp-micros"):
            return True
        case Union(branches=branches):
            return any(map(_is_large, branches))
        case _:
            return False


def _function(head: str, lines: list[str], names: dict[str, Any]) -> Normal:
    exec("\n    ".join([head, *lines]), names)  # noqa: S102  all of it is written above, and names are Avro's
    return cast("Normal", names[head.removeprefix("def ").partition("(")[0]])


def _blame(owner: str, normals: list[tuple[str, Normal]], value: Any, error: LossyValue) -> LossyValue:
    """Return the error with the name of the field that has raised it in front."""
    for name, normal in normals:
        try:
            normal(getattr(value, name))
        except LossyValue as found:
            return LossyValue(f"{owner}.{name}: {found}")
    return error


def _declared(value: Any, cls: type[Any], fields: set[str]) -> Any:
    """Return an instance of a subclass as one of the class. Raises: LossyValue when it has more fields."""
    own = value.__class__
    names = own.model_fields if issubclass(own, BaseModel) else [each.name for each in dataclasses.fields(own)]
    if more := [name for name in names if name not in fields]:
        raise LossyValue(
            f"a {own.__name__} where a {cls.__name__} is declared, and its bytes would lose {', '.join(more)}: "
            f"declare `{cls.__name__} | {own.__name__}`, or give a {cls.__name__}"
        )
    if issubclass(cls, BaseModel):
        return cls.model_construct(**value.__dict__)
    return cls(**{name: getattr(value, name) for name in fields})


def replaced(value: Any, changes: dict[str, Any]) -> Any:
    """Return a model or dataclass with some fields changed."""
    return BaseModel.model_copy(value, update=changes) if isinstance(value, BaseModel) else replace(value, **changes)


def _set(value: Any, changes: dict[str, Any]) -> Any:
    """Change fields of a value that has just been made, and that has no other owner yet."""
    if value.__class__.__dictoffset__:
        value.__dict__.update(changes)
    else:
        for name, each in changes.items():
            object.__setattr__(value, name, each)
    return value


def _key(item: tuple[str, Any]) -> str:
    return item[0]
