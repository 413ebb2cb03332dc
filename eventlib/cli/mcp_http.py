"""The MCP server as an HTTP app, behind the gate that every server has."""

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from eventlib.cli.mcp_asking import Callers
from eventlib.http.gate import Gate
from eventlib.identity.identity import Identity
from eventlib.identity.principal import Role, Rule

PATH = "/mcp"
_RULES = [
    Rule(PATH, frozenset({"GET", "POST", "DELETE"}), frozenset({Role.OPERATOR, Role.AUDITOR, Role.ADMIN})),
    Rule("/healthz", frozenset({"GET", "HEAD"}), frozenset()),
]


def mcp_app(server: MCPServer, identity: Identity) -> ASGIApp:
    """Return the app: each request stands for itself, so that any of several processes answers it.

    Guarantee: nothing of a body is read before its caller is known and may ask; a caller has a few tools running at a time, and
    none once it has hung up.
    """
    gated = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the gate judges hosts and origins
    app = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=gated
    )
    app.add_route("/healthz", _healthy)
    return Gate(Callers(app), identity, _RULES)


async def _healthy(_request: Request) -> Response:
    return Response("ok")
