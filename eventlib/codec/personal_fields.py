"""Replaces the personal fields of a value by their ciphertext, and back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from eventlib.errors import ContractError, WiringError
from eventlib.model.personal import ERASED, MASKED, is_plain, personal_fields
from eventlib.model.schema.types import Array, Node, Record, StringMap, Union
from eventlib.personal.base import FieldCipher, is_ciphertext


def fields_in(record: Record) -> Mapping[str, str]:
    """Return the personal fields of a schema's class, with their subjects' fields.

    Raises: WiringError for a class with a part that has personal fields: only whole fields of events and states can.
    """
    seen = {record.cls}
    for part in (part for each in record.fields for part in _parts(each.node, seen)):
        if found := personal_fields(part.cls):
            raise WiringError(
                f"{record.name} holds {part.name}, whose {next(iter(found))} is personal: personal fields stand on the event "
                "or state itself"
            )
    return personal_fields(record.cls)


def sealing(cipher: FieldCipher, fields: Mapping[str, str], write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a writer that writes ciphertext in the personal fields."""
    groups = [(each, tuple(name for name in fields if fields[name] == each)) for each in dict.fromkeys(fields.values())]
    encrypt_all = cipher.encrypt_all

    def sealed(value: Any) -> bytes:
        changed: Mapping[str, str] = {}
        for subject_field, names in groups:
            subject, texts = getattr(value, subject_field), tuple([getattr(value, name) for name in names])
            if subject:
                found = encrypt_all(subject, names, texts)
                changed = {**changed, **found} if changed else found
            elif not all(map(is_plain, texts)):
                raise ContractError(
                    f"{type(value).__name__} has personal fields ({', '.join(names)}), but {subject_field} names no subject"
                )
        return write(_with(value, changed) if changed else value)

    return sealed


def subjects_of(values: Iterable[object], fields: Mapping[type, Mapping[str, str]]) -> Iterator[str]:
    """Yield the subjects of values; `fields` has the personal fields of their classes."""
    for value in values:
        for name, subject_field in fields.get(type(value), {}).items():
            subject = getattr(value, subject_field)
            if subject and not is_plain(getattr(value, name)):
                yield subject


def bound(cipher: FieldCipher, value: object, name: str, text: str) -> str:
    """Return a text encrypted with the key of each subject whose personal data a value has; `ERASED` if one is erased."""
    cls = type(value)
    for subject in sorted(set(subjects_of([value], {cls: personal_fields(cls)}))):
        text = cipher.encrypt(subject, name, text)
        if text == ERASED:
            break
    return text


def unbound(cipher: FieldCipher, text: str) -> str:
    """Return the text that `bound` was given; `ERASED` or `MASKED` when it is not to be seen, or cannot be any more."""
    try:
        while is_ciphertext(text):
            text = cipher.decrypt(text)
    except ContractError:  # damaged, or of a key that is lost
        return MASKED
    return text


def opening(cipher: FieldCipher, fields: Mapping[str, str], read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a reader that decrypts the personal fields of what it reads."""
    pairs = list(fields.items())

    def opened(data: bytes) -> Any:
        value = read(data)
        for name, subject_field in pairs:
            text = getattr(value, name)
            if text:
                object.__setattr__(value, name, cipher.decrypt(text, getattr(value, subject_field)))
        return value

    return opened


def _with(value: Any, changed: Mapping[str, str]) -> Any:
    """Return a shallow copy with other texts, which nothing validates; only a writer sees it."""
    cls = type(value)
    copy = object.__new__(cls)
    if cls.__dictoffset__:
        object.__setattr__(copy, "__dict__", {**value.__dict__, **changed})
        return copy
    for name in cls.__dataclass_fields__:  # with slots
        object.__setattr__(copy, name, changed[name] if name in changed else getattr(value, name))
    return copy


def _parts(node: Node, seen: set[type]) -> Iterator[Record]:
    match node:
        case Record(fields=fields):
            if node.cls not in seen:
                seen.add(node.cls)
                yield node
                for each in fields:
                    yield from _parts(each.node, seen)
        case Array(items=inner) | StringMap(values=inner):
            yield from _parts(inner, seen)
        case Union(branches=branches):
            for branch in branches:
                yield from _parts(branch, seen)
        case _:
            return
