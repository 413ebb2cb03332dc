"""Addresses of the console's pages, from its root: of a saga, of a search for sagas, and of what is parked."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from eventlib.errors import WiringError


def console_named(text: str) -> str:
    """Return a console's address, to which a page's is appended. Raises: WiringError."""
    if not text.startswith(("http://", "https://")):
        raise WiringError(f"--console {text}: write a console's address, such as http://127.0.0.1:9000")
    return text.rstrip("/")


def saga_page(saga: str) -> str:
    """Return the address of a saga's page; "" for no saga."""
    is_resolved_by_clients = saga.strip("~") in {".", ".."}
    return f"/saga/{quote(f'~{saga}' if is_resolved_by_clients else saga, safe='')}" if saga else ""


def sagas_page(values: Mapping[str, str | None]) -> str:
    """Return the address of a search for the sagas that have these attributes."""
    return f"/sagas?{urlencode({'where': _condition(values)})}"


def parked_page(values: Mapping[str, str | None]) -> str:
    """Return the address of what is parked with these attributes, by cause."""
    return f"/parked?{urlencode({'where': _condition(values)})}"


def _condition(values: Mapping[str, str | None]) -> str:
    return " and ".join(
        f"{name} is null" if value is None else f"{name} = '{value.replace(chr(39), chr(39) * 2)}'"
        for name, value in values.items()
    )
