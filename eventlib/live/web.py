"""Serves the pages of live views by the server that all of this library's HTTP has, in the stead of Faust's own."""

from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any

from faust.web.drivers.aiohttp import Web

from eventlib.http.serving import Listening

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp


class Pages(Web):
    """What Faust starts and stops as an app's web server.

    Guarantee: clients are kept within the limits of EVENTLIB_HTTP_…, and are let in by the identity; of Faust's own pages,
    which have neither, none is served. Raises: WiringError, when it starts, for an address that cannot be used, or that other
    machines reach without an identity.
    """

    def __init__(self, app: "LiveApp", **options: Any) -> None:
        super().__init__(app, **options)
        self._queries = app.queries
        self._serving = AsyncExitStack()

    async def start_server(self) -> None:
        """Listen where the app's settings tell."""
        host, port = self.app.conf.web_bind, self.app.conf.web_port
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        listening = Listening(where, identity=self._queries.identity)
        self._serving.enter_context(closing(listening))
        await self._serving.enter_async_context(listening.serve(self._queries.pages))

    async def stop_server(self) -> None:
        """Answer the requests in progress, for a few seconds, and end."""
        await self._serving.aclose()
        await super().stop_server()
