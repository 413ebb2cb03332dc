"""Chooses a format by the name that registries know; its packages are imported when it is first used."""

from eventlib.codec.format import Format
from eventlib.codec.registry import AVRO, JSON, PROTOBUF
from eventlib.errors import WiringError


def format_of(kind: str) -> Format:
    """Return a format by the name that registries know. Raises: WiringError for one that is not known here."""
    found = _FORMATS.get(kind)
    return _FORMATS.setdefault(kind, _made(kind)) if found is None else found


def _made(kind: str) -> Format:
    try:
        match kind:
            case "AVRO":
                from eventlib.codec.avro.format import AvroFormat

                return AvroFormat()
            case "JSON":
                from eventlib.codec.json.format import JsonFormat

                return JsonFormat()
            case "PROTOBUF":
                from eventlib.codec.protobuf.format import ProtobufFormat

                return ProtobufFormat()
    except ModuleNotFoundError as error:
        raise WiringError(f"{kind} needs the package {error.name}: install eventlib-sagas[schemas]") from error
    raise WiringError(f"schemas of type {kind} are not known here: known are {AVRO}, {JSON} and {PROTOBUF}")


_FORMATS: dict[str, Format] = {}
