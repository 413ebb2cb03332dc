"""Protobuf messages as plain values, by functions that are made once for each message type."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from eventlib.codec.protobuf.schema import ONE_OF, symbol_prefix
from eventlib.codec.shape import OneOf

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_IN_A_MICRO = 1_000


class Plain:
    """The functions of one schema's messages: to a dict, in which None stands for what was not written."""

    def __init__(self) -> None:
        self._known: dict[str, Convert] = {}

    def of(self, message: Descriptor) -> Convert:
        """Return the function from a message to a dict."""
        known = self._known.get(message.full_name)
        if known is not None:
            return known
        self._known[message.full_name] = lambda value: plain(value)  # noqa: PLW0108  made below: it may lead back here
        fields = [(field.name, self._field(field), _may_be_absent(field)) for field in message.fields]

        def plain(value: Any) -> dict[str, Any]:
            made = dict[str, Any]()
            for name, to, may_be_absent in fields:
                if may_be_absent and not value.HasField(name):
                    made[name] = None
                else:
                    found = getattr(value, name)
                    made[name] = found if to is None else to(found)
            return made

        self._known[message.full_name] = plain
        return plain

    def _field(self, field: FieldDescriptor) -> Convert | None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_map = self._value(field.message_type.fields_by_name["value"])
            return dict if of_map is None else lambda found: {key: of_map(found[key]) for key in found}
        to = self._value(field)
        if not field.is_repeated:
            return to
        return list if to is None else lambda found: [to(each) for each in found]

    def _value(self, field: FieldDescriptor) -> Convert | None:
        """Return the function of one value; None when it is what it is."""
        if field.enum_type is not None:
            prefix = symbol_prefix(field.enum_type.name)
            symbols = {value.number: value.name.removeprefix(prefix) for value in field.enum_type.values}
            return lambda number: symbols.get(number, str(number))
        message = field.message_type
        if message is None:
            return None
        if message.full_name == timestamp_pb2.Timestamp.DESCRIPTOR.full_name:
            return _moment
        if ONE_OF in message.oneofs_by_name and len(message.oneofs) == 1:
            branches = {branch.name: self._value(branch) for branch in message.oneofs[0].fields}
            return lambda value: _one_of(value, branches)
        return self.of(message)


def _may_be_absent(field: FieldDescriptor) -> bool:
    return bool(field.has_presence and not field.is_repeated)


def _moment(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // _NANOS_IN_A_MICRO)


def _one_of(value: Any, branches: dict[str, Convert | None]) -> OneOf | None:
    branch = value.WhichOneof(ONE_OF)
    if branch is None:
        return None
    to, found = branches[branch], getattr(value, branch)
    return OneOf(branch, found if to is None else to(found))
