"""Each route of each server, by each role, on its own data and on others': what is answered is in tables of this test."""

import re
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from eventlib import open_log
from eventlib.admin.api import create_admin
from eventlib.http.serving import metered
from services.order.api import create_app
from services.order.index import OrderIndex
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.apps.small_shop import Ordered, Outside, make_shop, settle
from tests.integration.api_shop import Shop, wanted
from tests.integration.callers import OWNER, headers_of, identity, table, wrong_answers

# The columns: none owner stranger shop operator auditor monitor admin; the owner's order has ended.
ORDERS = table(
    """
    POST   /orders                      401  202   202      202  403      403     403     202
    GET    /orders                      401  200   200      200  200      200     403     200
    GET    /orders/{order_id}           401  200   404      200  200      200     403     200
    POST   /orders/{order_id}/cancel    401  409   404      409  403      403     403     409
    GET    /orders/{order_id}/timeline  401  200   404      200  200      200     403     200
    GET    /orders/{order_id}/events    401  200   404      200  200      200     403     200
    GET    /products                    401  200   200      200  200      200     403     200
    GET    /sagas                       401  403   403      403  200      200     403     200
    GET    /metrics                     401  403   403      403  200      200     200     200
    GET    /healthz                     200  200   200      200  200      200     200     200
    GET    /readyz                      200  200   200      200  200      200     200     200
    GET    /openapi.json                200  200   200      200  200      200     200     200
    GET    /docs                        200  200   200      200  200      200     200     200
    GET    /docs/{name}                 200  200   200      200  200      200     200     200
    """
)
NOT_OF_THE_API = table(
    """
    DELETE /orders/{order_id}           401  405   405      405  405      405     403     405
    HEAD   /orders/{order_id}           401  405   405      405  405      405     403     405
    PUT    /orders                      401  405   405      405  403      403     403     405
    POST   /metrics                     401  403   403      403  405      405     405     405
    GET    /orders/                     401  404   404      404  404      404     404     404
    GET    /ORDERS                      401  404   404      404  404      404     404     404
    GET    /%2Forders                   401  404   404      404  404      404     404     404
    GET    /metrics/                    401  404   404      404  404      404     404     404
    GET    /healthz/%2E%2E/orders       401  404   404      404  404      404     404     404
    GET    /healthz%00                  401  404   404      404  404      404     404     404
    GET    /admin                       401  404   404      404  404      404     404     404
    """
)
ADMIN = table(
    """
    GET  /healthz                               503 503 503 503 503 503 503 503
    GET  /status                                401 403 403 403 200 200 403 200
    GET  /parked                                401 403 403 403 200 200 403 200
    POST /parked/retry                          401 403 403 403 202 403 403 202
    POST /parked/discard                        401 403 403 403 422 403 403 422
    GET  /parked/{service}/{decider}/{key}         401 403 403 403 200 200 403 200
    POST /parked/{service}/{decider}/{key}/retry   401 403 403 403 202 403 403 202
    POST /parked/{service}/{decider}/{key}/edit    401 403 403 403 202 403 403 202
    POST /parked/{service}/{decider}/{key}/discard 401 403 403 403 202 403 403 202
    POST /events/{event_type}                   401 403 403 403 422 403 403 422
    GET  /deployments                           401 403 403 403 200 200 403 200
    GET  /deployment/preview                       401 403 403 403 404 404 403 404
    POST /deployment/preview                       401 403 403 403 422 403 403 422
    GET  /reruns                                401 403 403 403 200 200 403 200
    GET  /services/{service}/reruns/{name}         401 403 403 403 404 404 403 404
    POST /services/{service}/reruns/{name}         401 403 403 403 422 403 403 422
    POST /services/{service}/reruns/{name}/drop    401 403 403 403 404 403 403 404
    POST /services/{service}/reruns/{name}/switch  401 403 403 403 422 403 403 422
    POST /services/{service}/reset                 401 403 403 403 422 403 403 422
    POST /services/{service}/skip                  401 403 403 403 422 403 403 422
    POST /services/{service}/accept-loss           401 403 403 403 422 403 403 422
    POST /services/{service}/reset-clock           401 403 403 403 422 403 403 422
    GET  /pauses                                401 403 403 403 200 200 403 200
    POST /services/{service}/pause                 401 403 403 403 422 403 403 422
    POST /services/{service}/resume                401 403 403 403 422 403 403 422
    POST /subjects/{subject}/forget                 401 403 403 403 422 403 403 422
    """
)
# Those that may are refused for what the body lacks (422): that is behind the gate.
SIMULATORS = table(
    """
    POST /gateway/charges 401 403 403 422 403 403 403 422
    POST /gateway/voids   401 403 403 422 403 403 403 422
    POST /gateway/refunds 401 403 403 422 403 403 403 422
    POST /carrier/parcels 401 403 403 422 403 403 403 422
    POST /carrier/recalls 401 403 403 422 403 403 403 422
    GET  /faults          401 403 403 403 200 403 403 200
    PUT  /faults          401 403 403 403 422 403 403 422
    GET  /healthz         200 200 200 200 200 200 200 200
    GET  /openapi.json    200 200 200 200 200 200 200 200
    GET  /docs            200 200 200 200 200 200 200 200
    GET  /docs/{name}     200 200 200 200 200 200 200 200
    """
)
METRICS = table(
    """
    GET /metrics 401 403 403 403 200 200 200 200
    GET /healthz 200 200 200 200 200 200 200 200
    GET /readyz  200 200 200 200 200 200 200 200
    GET /other   401 404 404 404 404 404 404 404
    POST /metrics 401 403 403 403 200 200 200 200
    """
)


def routes(app: FastAPI) -> set[tuple[str, str]]:
    found = {(method, each.path or "") for each in iter_route_contexts(app.routes) for method in each.methods or ()}
    plain = {(method, re.sub(r":\w+", "", path)) for method, path in found if method != "HEAD"}
    return plain - {("GET", "/docs/oauth2-redirect")}


async def ended_order(api: httpx.AsyncClient) -> str:
    """Place an order of the owner, and return its id when it is over."""
    headers = {**headers_of("owner"), "Prefer": "wait=60"}
    answer = await api.post("/orders", json=wanted(customer_id=OWNER), headers=headers)
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["order_id"])


async def test_the_order_api_answers_each_role_as_it_should(shop: Shop, api: httpx.AsyncClient) -> None:
    app = create_app(shop.log, None, OrderIndex(shop.log, shop.directory / "other.db"), identity())
    assert set(ORDERS) == routes(app)
    order_id = await ended_order(api)
    own = {name: value for name, value in wanted().items() if name != "customer_id"}
    parts = {"order_id": order_id, "name": "swagger-ui.css"}
    assert await wrong_answers(api, ORDERS, {"/orders": own}, **parts) == []
    assert await wrong_answers(api, NOT_OF_THE_API, {}, **parts) == []


async def test_a_customer_places_and_sees_what_is_its_own(api: httpx.AsyncClient) -> None:
    order_id = await ended_order(api)
    for caller, customer_id, status in (
        ("owner", OWNER, 202),
        ("owner", "12347", 422),
        ("stranger", OWNER, 422),
        ("shop", OWNER, 202),
        ("admin", OWNER, 202),
    ):
        body = wanted(customer_id=customer_id)
        assert (await api.post("/orders", json=body, headers=headers_of(caller))).status_code == status
    for caller, query, count in (  # placed above, and the one that has ended
        ("owner", {}, 4),
        ("owner", {"customer_id": OWNER}, 4),
        ("stranger", {}, 0),
        ("shop", {}, 4),
        ("auditor", {"customer_id": OWNER}, 4),
        ("operator", {"customer_id": "12347"}, 0),
    ):
        answer = await api.get("/orders", params=query, headers=headers_of(caller))
        assert len(answer.json()["orders"]) == count, (caller, query)
    assert (await api.get("/orders", params={"customer_id": OWNER}, headers=headers_of("stranger"))).status_code == 422
    for caller, is_hidden in (("owner", True), ("shop", False), ("auditor", False)):
        text = (await api.get(f"/orders/{order_id}/timeline", headers=headers_of(caller))).text
        assert ("charge_key" not in text and "booking_key" not in text) == is_hidden, caller


async def test_the_admin_api_answers_each_role_as_it_should(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop({"a"})) as log:
        await log.publish(Ordered(order_id="a", cents=1))
        await settle(log, Outside())
    async with open_log(url, make_shop(set())) as log:
        app = create_admin(log, identity=identity())
        assert set(ADMIN) == routes(app)
        one = "/parked/{service}/{decider}/{key}"
        bodies = {f"{one}/edit": {"set": {"cents": 5}}, f"{one}/discard": {"reason": "a test"}}
        bodies["/services/{service}/reruns/{name}"] = {"since": "no time"}
        bodies["/deployment/preview"] = {"revision": "its field is called code"}
        async with serving_asgi(app) as client:
            assert (
                await wrong_answers(
                    client,
                    ADMIN,
                    bodies,
                    service="orders",
                    decider="order",
                    key="a",
                    subject="a",
                    name="again",
                    event_type="Nothing",
                )
                == []
            )


async def test_the_simulators_answer_each_role_as_they_should(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        app = make_app(Simulators(ledger, ShopSettings()), identity())
        assert set(SIMULATORS) == routes(app)
        async with serving_asgi(app) as client:
            bodies = {"/faults": {"gateway": 5}}
            assert await wrong_answers(client, SIMULATORS, bodies, name="swagger-ui.css") == []


async def test_metrics_are_for_those_who_watch() -> None:
    async def figures(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("x 1\n")(scope, receive, send)

    async with serving_asgi(metered(figures, identity())) as client:
        assert await wrong_answers(client, METRICS, {}) == []


def serving_asgi(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
