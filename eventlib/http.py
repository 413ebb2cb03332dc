"""What an HTTP API beside services is made of: bodies within bounds, strict JSON, pages that ask nowhere else."""

from eventlib.api_docs import serve_docs
from eventlib.bodies import RefusedJson, StrictRoute, bounded
from eventlib.outgoing import http_client
from eventlib.strictjson import JsonRefused, decode_json

__all__ = [
    "JsonRefused",
    "RefusedJson",
    "StrictRoute",
    "bounded",
    "decode_json",
    "http_client",
    "serve_docs",
]
