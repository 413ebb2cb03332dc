"""Personal fields: the text fields of an event or state that are encrypted with the key of a subject."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from eventlib.errors import WiringError
from eventlib.model.evolution import Aliases

T = TypeVar("T")

ERASED = "[erased]"
"""The text of a personal field whose subject was erased."""
MASKED = "[personal]"
"""The text of a personal field for a reader without the right to see it."""


@dataclass(frozen=True, slots=True)
class Personal:
    """Marks a text field as personal data: `name: Annotated[str, Personal(subject="customer_id")]`.

    `subject` names the field of the same class that holds the subject's id. Guarantee: the field's text is encrypted with
    the subject's key wherever the event or state is written; after the key is destroyed it reads as `ERASED`. `None`, the
    empty text and `ERASED` are written as they are.
    """

    subject: str


def is_erased(value: object) -> bool:
    """Return whether a personal field's value was erased."""
    return value == ERASED


def masked(value: T) -> T:
    """Return an event or a state with `MASKED` in its personal fields, for a reader without the right to see them.

    What is empty or erased stays so. A value of a class without personal fields is returned itself.
    """
    names = [name for name in personal_fields(type(value)) if not is_plain(getattr(value, name))]
    if not names:
        return value
    masks = dict.fromkeys(names, MASKED)
    if isinstance(value, BaseModel):
        return value.model_copy(update=masks)
    return cast("T", dataclasses.replace(cast("Any", value), **masks))


def is_plain(value: object) -> bool:
    """Return whether a personal field's value has nothing to encrypt: None, the empty text, or erased text."""
    return not value or value == ERASED


class DeclaredField(NamedTuple):
    """A field's type, and what its annotation says beside it."""

    annotation: Any
    metadata: Sequence[Any]


def personal_fields(cls: type[Any]) -> Mapping[str, str]:
    """Return a class's personal fields, each with the name of its subject's field.

    Raises: WiringError for a mark that could not be honoured; NameError for an annotation that is not defined yet.
    """
    known = _FOUND.get(cls)
    if known is None:
        known = _FOUND[cls] = MappingProxyType(_found(cls))
    return known


_FOUND: WeakKeyDictionary[type[Any], Mapping[str, str]] = WeakKeyDictionary()


def is_personal(*classes: type[Any]) -> bool:
    """Return whether any of these classes has personal fields. Raises: as `personal_fields`."""
    return any(map(personal_fields, classes))


def _found(cls: type[Any]) -> dict[str, str]:
    fields = dict(declared_fields(cls))
    found = dict[str, str]()
    for name, (annotation, metadata) in fields.items():
        marks = [each for each in metadata if isinstance(each, Personal)]
        where = f"{cls.__name__}.{name}"
        if not marks:
            if _marked(annotation):
                raise WiringError(f"{where}: {_ON_THE_FIELD}")
            continue
        _check_annotation(where, annotation, metadata)
        subject = marks[0].subject
        if subject not in fields or fields[subject].annotation not in _TEXTS:
            raise WiringError(
                f"{where}: its subject {subject!r} has to be a field of {cls.__name__}, str or str | None"
            )
        found[name] = subject
    for name, subject in found.items():
        if subject in found:
            raise WiringError(
                f"{cls.__name__}.{name}: its subject {subject!r} is personal itself, but ids are in plain text"
            )
    if found:
        _check_class(cls, found)
    if issubclass(cls, BaseModel):
        for name in found:
            cls.model_fields[name].repr = False
    return found


def check_event(cls: type[Any], key: str | None, *, is_external: bool) -> None:
    """Refuse marks on an event that cannot be honoured, when it is declared. Raises: WiringError."""
    try:
        found = personal_fields(cls)
    except NameError:
        return  # its names are defined later: the codec checks again before anything is written
    if key in found:
        raise WiringError(f"event {cls.__name__}: its key {key!r} is personal, but keys are on the log in plain text")
    if found and is_external:
        raise WiringError(
            f"event {cls.__name__}: {next(iter(found))} is personal, but the topic is external: others write it in plain text"
        )


_TEXTS = (str, str | None, typing.Optional[str])  # noqa: UP045  the two forms are not equal in every Python
_ON_THE_FIELD = (
    "Personal marks a whole text field of an event or a state: write `Annotated[str, Personal(subject=...)]` or "
    "`Annotated[str | None, Personal(subject=...)]` on the field itself, not inside of its type or in a part of it"
)


def declared_fields(cls: type[Any]) -> Iterator[tuple[str, DeclaredField]]:
    """Yield the fields of a model or a dataclass by name. Raises: NameError for an annotation that is not defined yet."""
    if issubclass(cls, BaseModel):
        if not cls.__pydantic_complete__:
            raise NameError(cls.__name__)
        for name, info in cls.model_fields.items():
            yield name, DeclaredField(info.annotation, info.metadata)
        return
    hints = typing.get_type_hints(cls, include_extras=True)
    for each in dataclasses.fields(cls):
        hint = hints[each.name]
        if typing.get_origin(hint) is Annotated:
            yield each.name, DeclaredField(typing.get_args(hint)[0], typing.get_args(hint)[1:])
        else:
            yield each.name, DeclaredField(hint, ())


def _marked(annotation: Any) -> bool:
    """Return whether a type has a mark somewhere inside: in a container, a union, an alias, or a class that is a part."""
    return any(isinstance(each, Personal) for each in marks_in(annotation))


def marks_in(annotation: Any) -> Iterator[Any]:
    """Yield what annotations say beside the types somewhere inside a type: in its parts, branches and classes."""
    yield from _parts(annotation, set())


def _parts(annotation: Any, seen: set[Any]) -> Iterator[Any]:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        if annotation not in seen:
            seen.add(annotation)
            for _, (inner, metadata) in declared_fields(annotation):
                yield from metadata
                yield from _parts(inner, seen)
    elif isinstance(annotation, typing.NewType):
        yield from _parts(annotation.__supertype__, seen)
    elif hasattr(annotation, "__value__"):  # type Name = …
        yield from _parts(annotation.__value__, seen)
    else:
        if typing.get_origin(annotation) is Annotated:
            yield from typing.get_args(annotation)[1:]
        for each in typing.get_args(annotation):
            yield from _parts(each, seen)


def _check_annotation(where: str, annotation: Any, metadata: Sequence[Any]) -> None:
    if annotation not in _TEXTS:
        raise WiringError(f"{where}: {_ON_THE_FIELD}")
    others = [each for each in metadata if not isinstance(each, Personal | Aliases)]
    if others or sum(isinstance(each, Personal) for each in metadata) > 1:
        raise WiringError(
            f"{where}: a personal field has no constraints ({others!r:.100}) and one subject: erased text has to fit it, "
            "too; validate the value where it comes from"
        )


def _check_class(cls: type[Any], found: Mapping[str, str]) -> None:
    """Refuse what looks into a value while it is made: it would see ciphertext, and erased text later."""
    what = ""
    if issubclass(cls, BaseModel):
        decorators = cls.__pydantic_decorators__
        validated = {name for each in decorators.field_validators.values() for name in each.info.fields}
        if decorators.model_validators or decorators.root_validators or decorators.validators:
            what = "a model validator"
        elif validated & {*found, "*"}:
            what = "a validator of a personal field"
        elif any(option.startswith("str_") for option in cls.model_config):
            what = "an option str_… in its model_config"
        elif cls.__pydantic_post_init__ is not None:
            what = "model_post_init, or private attributes,"
    elif hasattr(cls, "__post_init__"):
        what = "__post_init__"
    if what:
        raise WiringError(
            f"{cls.__name__} has personal fields ({', '.join(found)}) and {what} that would see ciphertext, and erased text "
            "later: validate where the values come from"
        )
