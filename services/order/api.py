"""The order API (FastAPI): orders over HTTP, on any instance, whichever process owns their partition.

`eventlib run --http 8000` serves it beside the services; `create_app(log)` is the ASGI app for any other server.
"""

from collections.abc import Sequence
from importlib.metadata import version

from fastapi import FastAPI

from eventlib import EventLog
from eventlib.http import ApiConfig, SagaApi
from eventlib.identity import Identity
from eventlib.search import SagaSearch
from eventlib.webhooks import SecretsFile, SigningSecret
from services.dispatch.callbacks import carrier_callbacks
from services.order.events import OrderSubmitted
from services.order.http.desk import Desk
from services.order.http.routes import order_routes
from services.order.index import OrderIndex
from services.payment.callbacks import gateway_callbacks

_ABOUT = """
Orders over HTTP. An order is **decided** before its request is answered, and goes on from there by itself:
wait for its end with `Prefer: wait=5`, watch it with `/orders/{order_id}/events`, or read it again.

* **Once**: send an `Idempotency-Key`, and repeat a request as often as you like. The same key and body lead to one
  order and the same answer; another body under the key is refused (422).
* **Read what was written**: an answer carries a `position`. On the same instance a later read shows at least that
  by itself; on another one, give it as `min_position`, and the read waits for it.
* **Any instance answers for any order**, also while its owner is away: `Staleness-Ms` says how old the answer is at most,
  and `Damaged-Records` that something on the log cannot be read, and may be missing from it.
* **Who you are**: where an identity is configured, send a token (`Authorization: Bearer …`). A customer sees and places its own
  orders; an `Idempotency-Key` is its caller's alone.
* **Errors** are problems (RFC 9457, `application/problem+json`), with the names of the fields in `errors`.
* **503** with `Retry-After`: too much waits already, or the log is out of reach. What was answered with 202 is durable.
"""


def create_app(
    log: EventLog,
    config: ApiConfig | None = None,
    index: OrderIndex | None = None,
    identity: Identity | None = None,
    secrets: Sequence[SigningSecret] | SecretsFile = (),
    carrier_secrets: Sequence[SigningSecret] | SecretsFile = (),
) -> FastAPI:
    """Return the order API on a log; `index` is where it reads, by default beside the log's own file.

    `identity` tells who calls, by default as the settings describe. With `secrets` the payment gateway can call back,
    with `carrier_secrets` the carrier.

    Guarantee: what was answered with 202 is durable. The app opens and closes the index with its lifespan.
    """
    index = index or OrderIndex(log)
    api = SagaApi(
        index,
        OrderSubmitted,
        name="shop",
        counted_as="orders",
        has_ended=index.has_ended,
        config=config,
        identity=identity,
        search=SagaSearch(log),
        title="Orders",
        version=version("eventlib-sagas"),
        description=_ABOUT,
    )
    callbacks = [gateway_callbacks(log, secrets, api.metrics)] if secrets else []
    if carrier_secrets:
        callbacks.append(carrier_callbacks(log, carrier_secrets, api.metrics))
    return api.include(order_routes(api, Desk(index, api)), *callbacks)
