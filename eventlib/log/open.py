"""Opens a log from its URL."""

from eventlib.errors import WiringError
from eventlib.log.base import Log

_KNOWN = (
    "known: sqlite:///relative/path.db, sqlite:////absolute/path.db, kafka://host:port[,host:port…]/[?prefix=…], "
    "archive:DIR (read-only) and memory:// (lost when the process ends); "
    "for example --log sqlite:///var/shop.db"
)


async def open_port(url: str) -> Log:
    """Open the log at a URL: a `sqlite:///` or `kafka://` URL, `archive:DIR` or `memory://`.

    Raises: WiringError for any other URL; what the adapter's own opening raises.
    """
    if url.startswith("archive:"):
        return await _open_archive(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise WiringError(f"the log {url!r} is not a URL: {_KNOWN}")
    match scheme:
        case "sqlite":
            return await _open_sqlite(url, rest)
        case "kafka":
            return await _open_kafka(url)
        case "memory":
            from eventlib.log.memory import MemoryLog

            return MemoryLog(url)
        case _:
            raise WiringError(f"the log {url!r} has the unknown scheme {scheme!r}: {_KNOWN}")


async def _open_sqlite(url: str, rest: str) -> Log:
    from eventlib.log.sqlite.log import SqliteLog

    if not rest.startswith("/"):
        raise WiringError(f"the log {url!r} names a host: write three slashes, then a path; {_KNOWN}")
    path = rest[1:]
    if not path or path.endswith("/"):
        raise WiringError(f"the log {url!r} names no file: {_KNOWN}")
    return await SqliteLog.open(path)


async def _open_archive(url: str) -> Log:
    try:
        from eventlib.log.archive.log import ArchiveLog
    except ModuleNotFoundError as error:
        raise WiringError(f"an archive needs the package {error.name}: install eventlib-sagas[archive]") from error
    return await ArchiveLog.open(url)


async def _open_kafka(url: str) -> Log:
    try:
        from eventlib.log.kafka.log import KafkaLog
    except ModuleNotFoundError as error:
        raise WiringError(f"a kafka log needs the package {error.name}: install eventlib-sagas[kafka]") from error
    return await KafkaLog.open(url)
