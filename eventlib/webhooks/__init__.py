"""Webhooks: HTTP requests that carry an event, signed by their sender."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy

if TYPE_CHECKING:
    from eventlib.webhooks.inbound import cloud_events_route
    from eventlib.webhooks.receiving import callback_route
    from eventlib.webhooks.signing import (
        STANDARD_WEBHOOKS,
        STRIPE,
        SignatureScheme,
        Signed,
        SigningSecret,
        TimestampedSignature,
    )

__all__ = [
    "STANDARD_WEBHOOKS",
    "STRIPE",
    "SignatureScheme",
    "Signed",
    "SigningSecret",
    "TimestampedSignature",
    "callback_route",
    "cloud_events_route",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(
        __name__,
        {
            "webhooks.inbound": ["cloud_events_route"],
            "webhooks.receiving": ["callback_route"],
            "webhooks.signing": [
                "STANDARD_WEBHOOKS",
                "STRIPE",
                "SignatureScheme",
                "Signed",
                "SigningSecret",
                "TimestampedSignature",
            ],
        },
    )
