"""What an HTTP API beside services is made of: bodies within bounds, strict JSON, pages that ask nowhere else."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy

if TYPE_CHECKING:
    from eventlib.http.body_limit import JsonRefused, RefusedJson, StrictRoute, bounded, decode_json
    from eventlib.http.client import http_client
    from eventlib.http.docs import serve_docs

__all__ = [
    "JsonRefused",
    "RefusedJson",
    "StrictRoute",
    "bounded",
    "decode_json",
    "http_client",
    "serve_docs",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(
        __name__,
        {
            "http.body_limit": ["JsonRefused", "RefusedJson", "StrictRoute", "bounded", "decode_json"],
            "http.client": ["http_client"],
            "http.docs": ["serve_docs"],
        },
    )
