"""The page at /docs of our HTTP APIs: Swagger UI from files of this package, so that a browser asks no other host."""

from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response

from eventlib.identity.principal import public

_VENDORED = files("eventlib") / "swagger_ui"
_FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_KEPT = "public, max-age=86400"

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
)
"""What the page may load; Swagger UI is started by a script in the page and sets styles on elements."""


def serve_docs(app: FastAPI) -> None:
    """Serve the app's OpenAPI description as a page at /docs.

    Guarantee: the page and its scripts come from this app alone, and the browser is instructed to refuse everything else.
    """

    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "").rstrip("/")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/swagger-ui.css",
            swagger_favicon_url="data:,",
            swagger_ui_parameters={"validatorUrl": None},
        )
        page.headers["content-security-policy"] = _POLICY
        return page

    def file(name: str) -> Response:
        if name not in _FILES:
            return Response(status_code=404)
        headers = {"cache-control": _KEPT}
        return Response((_VENDORED / name).read_bytes(), media_type=_FILES[name], headers=headers)

    app.get("/docs", include_in_schema=False)(public(docs))
    app.get("/docs/{name}", include_in_schema=False)(public(file))
