"""What stands in a path: subjects and versions."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path, Query

from eventlib.registry.catalogue import LATEST
from eventlib.registry.errors import Refused, invalid_subject, invalid_version
from eventlib.registry.records import HIGHEST

_LONGEST = 1_000
_DEFAULT_CONTEXT = ":.:"
_LARGEST = (1 << 31) - 1


async def of_subject(subject: Annotated[str, Path(description="A subject's name.")]) -> str:
    """Return the subject that a path names. Raises: Refused for what is no name."""
    name = unquote(subject).removeprefix(_DEFAULT_CONTEXT)
    if not name or len(name) > _LONGEST:
        raise invalid_subject(name, f"it has 1 to {_LONGEST:,} characters")
    if name == HIGHEST:
        raise invalid_subject(name, "the name is the registry's own")
    if name.startswith(":.") or name in {"__GLOBAL", "__EMPTY"}:
        raise invalid_subject(name, "there is only the default context")
    if not name.isprintable():
        raise invalid_subject(ascii(name), "it has characters that cannot be shown")
    return name


async def _version(version: Annotated[str, Path(description="A number, `latest` or -1.")]) -> int:
    if version in {"latest", "-1"}:
        return LATEST
    if not (version.isascii() and version.isdecimal()) or not 0 < int(version[:12]) <= _LARGEST:
        raise invalid_version(unquote(version))
    return int(version)


async def _schema_id(schema_id: Annotated[str, Path(description="A schema's id.")]) -> int:
    if not (schema_id.isascii() and schema_id.isdecimal()) or int(schema_id[:12]) > _LARGEST:
        raise Refused(404, 404, "HTTP 404 Not Found: a schema's id is a number")
    return int(schema_id)


Subject = Annotated[str, Depends(of_subject)]
VersionNumber = Annotated[int, Depends(_version)]
SchemaId = Annotated[int, Depends(_schema_id)]
Deleted = Annotated[bool, Query(description="Those that are deleted, too.")]
Permanent = Annotated[bool, Query(description="For good: what is deleted already.")]
Normalize = Annotated[bool, Query(description="Bring the schema into its normal form first.")]
Offset = Annotated[int, Query(ge=0, lt=1 << 62)]
Limit = Annotated[int, Query(ge=-1, lt=1 << 62, description="-1: all of them.")]


def page(found: list[object], offset: int, limit: int) -> list[object]:
    """Return a part of a list."""
    return found[offset:] if limit < 0 else found[offset : offset + limit]
