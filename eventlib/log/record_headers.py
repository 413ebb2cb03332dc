"""A record's headers as a text: JSON pairs, in one form, so that it can be stored and checked."""

import json
from functools import lru_cache


@lru_cache(maxsize=4_096)  # a state's headers are the same at each of its changes
def encode_headers(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """Return headers as JSON pairs that people can read; bytes that are not UTF-8 survive as lone surrogates."""
    if not headers:
        return None
    return json.dumps([[name, value.decode("utf-8", "surrogateescape")] for name, value in headers])


def decode_headers(text: str | None) -> tuple[tuple[str, bytes], ...]:
    """Return what `encode_headers` was given."""
    if text is None:  # nearly all of them
        return ()
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in json.loads(text))
