"""Webhooks: HTTP requests that carry an event, signed by their sender.

It knows sinks' way of reading, identity and HTTP. Begin with `delivering`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.webhooks.receiving import callback_route, cloud_events_route
    from eventlib.webhooks.secrets_file import SecretsFile
    from eventlib.webhooks.signing import (
        STANDARD_WEBHOOKS,
        STRIPE,
        SignatureScheme,
        Signed,
        SigningSecret,
        TimestampedSignature,
    )
    from eventlib.webhooks.simulated import simulated_subscribers

__all__ = [
    "STANDARD_WEBHOOKS",
    "STRIPE",
    "SecretsFile",
    "SignatureScheme",
    "Signed",
    "SigningSecret",
    "TimestampedSignature",
    "callback_route",
    "cloud_events_route",
    "simulated_subscribers",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
