"""Protocol Buffers schemas, compiled by protoc in this process.

A schema comes as a .proto file's text, or as the base64 of its FileDescriptorProto, which is what Python's clients
send; the second is kept as the equivalent text. Source: Protocol Buffers, descriptor.proto.
"""

import ast
import base64
import binascii
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from grpc_tools import _protoc_compiler

from eventlib.registry.parsing.parsed import InvalidSchema
from eventlib.registry.parsing.proto_text import proto_text

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*\Z")


def _folders(package: str) -> list[str]:
    """Return where an installed package is, which has no code that could be imported."""
    found = find_spec(package)
    return [] if found is None else [*(found.submodule_search_locations or ())]


_BUILT_IN = [
    str(resources.files("grpc_tools") / "_proto"),  # google/protobuf
    str(Path(__file__).parent / "imports"),  # confluent
    *(str(Path(each).parent.parent) for each in _folders("google.type")),
]
"""Where the imports are that no reference has to lead to."""
_BUILT_IN_NAMES = ("google/protobuf/", "google/type/", "confluent/")
_ONE_AT_A_TIME = threading.Lock()
_LONGEST_PATH = 200


@dataclass(frozen=True)
class Files:
    """A schema's file and those that it imports, compiled, by the names it imports them under."""

    text: str
    main: bytes
    imported: Mapping[str, bytes]

    def file(self) -> FileDescriptorProto:
        """Return the schema's own file."""
        return FileDescriptorProto.FromString(self.main)

    def imports(self) -> list[FileDescriptorProto]:
        """Return the files that it imports, directly or not, those without imports first."""
        return [FileDescriptorProto.FromString(each) for each in self.imported.values()]


def protobuf_files(text: str, referenced: Mapping[str, str]) -> Files:
    """Return a schema compiled with what it imports. Raises: InvalidSchema."""
    text = _as_text(text)
    sources = {_checked(name): _as_text(each) for name, each in referenced.items()}
    name = "schema.proto"
    while name in sources:
        name = f"_{name}"
    with tempfile.TemporaryDirectory(prefix="eventlib-proto-") as directory:
        for path, source in {**sources, name: text}.items():
            place = Path(directory, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.encode())
        imported = _compiled(name, directory)
    for each in imported:
        if each not in sources and each != name and not each.startswith(_BUILT_IN_NAMES):
            raise InvalidSchema(f'Import "{each}" was not found: refer to its subject')
    main = FileDescriptorProto.FromString(imported.pop(name))
    if not (main.message_type or main.enum_type or main.extension):
        raise InvalidSchema("it defines no message, no enum and no extension")
    return Files(text, main.SerializeToString(deterministic=True), imported)


def messages_of(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """Yield a file's messages, nested ones too, by their names without the package."""
    yield from _messages("", file.message_type)


def enums_of(file: FileDescriptorProto) -> Iterator[tuple[str, EnumDescriptorProto]]:
    """Yield a file's enums, nested ones too, by their names without the package."""
    yield from ((each.name, each) for each in file.enum_type)
    for name, message in messages_of(file):
        yield from ((f"{name}.{each.name}", each) for each in message.enum_type)


def _messages(within: str, messages: object) -> Iterator[tuple[str, DescriptorProto]]:
    for each in messages:  # type: ignore[attr-defined]  # a repeated field, whose type has no public name
        name = f"{within}{each.name}"
        yield name, each
        yield from _messages(f"{name}.", each.nested_type)


def _as_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema("it has half a character (a lone surrogate), which no UTF-8 text can hold") from error
    if not _BASE64.match(text):
        return text.strip()
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError) as error:
        raise InvalidSchema("it is neither a .proto file's text nor the base64 of a FileDescriptorProto") from error
    return proto_text(file).strip()


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or len(name) > _LONGEST_PATH or "\0" in name:
        raise InvalidSchema(f"the reference {name[:80]!r} is no path that a schema can import")
    return name


def _compiled(name: str, directory: str) -> dict[str, bytes]:
    """Return the descriptors of a file and of all that it imports, by name, those without imports first."""
    try:
        with _ONE_AT_A_TIME:
            made = _protoc_compiler.get_protos(name.encode(), [each.encode() for each in (directory, *_BUILT_IN)])
    except Exception as error:  # the compiler's errors have no root of their own
        raise InvalidSchema(_sentence(error)) from error
    return {FileDescriptorProto.FromString(each).name: each for each in _descriptors(made)}


def _descriptors(made: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield the descriptors in the Python modules that the compiler has made."""
    for _, module in made:
        for node in ast.walk(ast.parse(module)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
                yield ast.literal_eval(node.args[0])


def _sentence(error: Exception) -> str:
    found = [
        f"{_plain(each.message)} (line {each.line + 1}, column {each.column + 1})"
        if each.line >= 0
        else _plain(each.message)
        for each in (error.args[0] if error.args and isinstance(error.args[0], tuple | list) else [])
        if hasattr(each, "message")
    ]
    return "; ".join(found)[:1_000] or f"it does not compile: {error!s:.300}"


def _plain(message: object) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
