"""HTTP clients whose answers are bounded, also after inflating."""

import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import Any

import httpx

from eventlib.ground.plaintext import warn_of_plaintext

_EITHER = 47  # the header says whether it is gzip's form or zlib's


class TooLarge(ValueError):
    """More bytes than are taken come of what was compressed."""


class Inflating:
    """Inflates one stream of gzip or zlib, a piece after the other.

    Guarantee: holds one byte more than it has left, at most. Raises: TooLarge; zlib.error for what is damaged or cut.
    """

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._stream = zlib.decompressobj(_EITHER)

    def take(self, piece: bytes) -> bytes:
        """Return what comes of the next piece."""
        made = self._stream.decompress(piece, self._left + 1)
        self._left -= len(made)
        if self._left < 0:
            raise TooLarge("more than was asked for")
        return made

    def end(self) -> None:
        """Check that it is whole."""
        if not self._stream.eof:
            raise zlib.error("the compressed data is cut off")


def inflate(data: bytes, most_bytes: int) -> bytes:
    """Return the content of gzip's or zlib's data. Raises: as `Inflating` does."""
    stream = Inflating(most_bytes)
    found = stream.take(data)
    stream.end()
    return found


MOST_BYTES = 8_000_000
"""Of an answer's body, where a client takes no other bound."""

_INFLATED = frozenset({"gzip", "x-gzip", "deflate"})


def http_client(most_bytes: int = MOST_BYTES, **options: Any) -> httpx.AsyncClient:
    """Return a client; `options` are httpx's. A password that would leave this machine unencrypted is warned of.

    Guarantee: a body has at most `most_bytes`, also while it is inflated; for a larger one a call raises httpx.ReadError.
    """
    if options.get("auth"):
        warn_of_plaintext("a password", str(options.get("base_url", "")), "give an https:// URL")

    _fail_at_once("sniffio")

    async def bound(answer: httpx.Response) -> None:
        _bound(answer, most_bytes)

    return httpx.AsyncClient(headers=_asked(options), event_hooks={"response": [bound]}, **options)


def _fail_at_once(module: str) -> None:
    """Let each import of a module that is not installed fail without a search through all of sys.path.

    httpcore tries to import sniffio for each of its locks, several times in a request: a third to a half of its CPU.
    """
    if module not in sys.modules and find_spec(module) is None:
        sys.modules[module] = None  # type: ignore[assignment]  # as the language reference says, 5.3.1


def sync_client(most_bytes: int = MOST_BYTES, **options: Any) -> httpx.Client:
    """Return what `http_client` does, for code that is not async."""
    return httpx.Client(
        headers=_asked(options), event_hooks={"response": [lambda answer: _bound(answer, most_bytes)]}, **options
    )


def _asked(options: dict[str, Any]) -> dict[str, str]:
    return {"Accept-Encoding": "identity", **options.pop("headers", {})}


def _bound(answer: httpx.Response, most_bytes: int) -> None:
    """Count an answer's body, which was not read yet, as it comes."""
    encoding = answer.headers.pop("content-encoding", "identity").strip().lower()
    answer.stream = _Body(answer.stream, encoding, most_bytes)


class _Body(httpx.AsyncByteStream, httpx.SyncByteStream):
    """An answer's body, inflated and counted as it comes."""

    def __init__(self, inner: Any, encoding: str, most_bytes: int) -> None:
        self._inner = inner
        self._encoding = encoding
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._any = False  # an answer without a body may say how one would be encoded
        self._stream = Inflating(most_bytes) if encoding in _INFLATED else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._begin()
        async for piece in self._inner:
            yield self._taken(piece)
        self._end()

    def __iter__(self) -> Iterator[bytes]:
        self._begin()
        for piece in self._inner:
            yield self._taken(piece)
        self._end()

    def _begin(self) -> None:
        if self._stream is None and self._encoding != "identity":
            raise httpx.DecodingError(f"the answer is encoded as {self._encoding[:40]!r}, and identity was asked for")

    def _taken(self, piece: bytes) -> bytes:
        self._any = True
        try:
            if self._stream is not None:
                return self._stream.take(piece)
        except TooLarge as error:
            raise self._too_large() from error
        except zlib.error as error:
            raise httpx.DecodingError(f"the answer is no {self._encoding}: {error}") from error
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_large()
        return piece

    def _end(self) -> None:
        try:
            if self._stream is not None and self._any:
                self._stream.end()
        except zlib.error as error:
            raise httpx.DecodingError(f"the answer is no whole {self._encoding}: {error}") from error

    def _too_large(self) -> httpx.ReadError:
        return httpx.ReadError(f"the answer has more than {self._most_bytes:,} bytes")

    async def aclose(self) -> None:
        await self._inner.aclose()

    def close(self) -> None:
        self._inner.close()
