"""The parts of an HTTP API beside services: requests that count once, reads with their age, streams, problems, health.

It knows identity, queries and search, and no service. Begin with `api`, then `requests`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.ground.body_limit import RefusedJson, StrictRoute, bounded, charge
    from eventlib.ground.http_client import http_client
    from eventlib.ground.strict_json import JsonRefused, decode_json
    from eventlib.http.api import SagaApi
    from eventlib.http.config import ApiConfig
    from eventlib.http.docs import serve_docs
    from eventlib.http.limits import HttpLimits
    from eventlib.http.problems import (
        FieldError,
        Problem,
        Refusal,
        answer_problems,
        documented,
        refused_field,
        try_later,
    )
    from eventlib.http.protocol import BoundedProtocol, server_options
    from eventlib.http.rate_limit import CALLER, caller_of
    from eventlib.http.reads import HOW_CURRENT, POSITION, PREFERENCE_APPLIED, MinPosition, Prefer, Reads
    from eventlib.http.requests import Accepted, IdempotencyKey, RequestPlace, Requests
    from eventlib.http.saga_events import SagaEvents, Shown, TimelineEvent
    from eventlib.http.traffic import Limits, Metrics

__all__ = [
    "CALLER",
    "HOW_CURRENT",
    "POSITION",
    "PREFERENCE_APPLIED",
    "Accepted",
    "ApiConfig",
    "BoundedProtocol",
    "FieldError",
    "HttpLimits",
    "IdempotencyKey",
    "JsonRefused",
    "Limits",
    "Metrics",
    "MinPosition",
    "Prefer",
    "Problem",
    "Reads",
    "Refusal",
    "RefusedJson",
    "RequestPlace",
    "Requests",
    "SagaApi",
    "SagaEvents",
    "Shown",
    "StrictRoute",
    "TimelineEvent",
    "answer_problems",
    "bounded",
    "caller_of",
    "charge",
    "decode_json",
    "documented",
    "http_client",
    "refused_field",
    "serve_docs",
    "server_options",
    "try_later",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
