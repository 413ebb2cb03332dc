"""Callers with a token for each role, and tables of what each is answered."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import httpx
from pydantic import SecretStr

from eventlib.identity import Identity, IdentityOptions
from tests.issuers import SECRET

OWNER, STRANGER = "17850", "12347"
"""Two customers."""
CALLERS = ("none", "owner", "stranger", "shop", "operator", "auditor", "monitor", "admin")
_CUSTOMERS = {"owner": OWNER, "stranger": STRANGER}


def token_of(caller: str) -> str:
    """Return a caller's token."""
    return f"token-of-{caller}-{'x' * 32}"


def headers_of(caller: str) -> dict[str, str]:
    """Return what a caller sends; `none` sends nothing."""
    return {} if caller == "none" else {"Authorization": f"Bearer {token_of(caller)}"}


def identity(key: str = SECRET) -> Identity:
    """Return the identity that knows the callers."""
    entries = [_entry(caller) for caller in CALLERS if caller != "none"]
    return Identity(IdentityOptions(tokens=SecretStr(json.dumps({"tokens": entries})), key=SecretStr(key)))


def _entry(caller: str) -> Mapping[str, Any]:
    digest = sha256(token_of(caller).encode()).hexdigest()
    if caller in _CUSTOMERS:
        return {"name": caller, "sha256": digest, "roles": ["customer"], "customer": _CUSTOMERS[caller]}
    return {"name": caller, "sha256": digest, "roles": [caller]}


def table(text: str) -> dict[tuple[str, str], dict[str, int]]:
    """Return the status for each caller, by method and path; the columns are `CALLERS`."""
    found = dict[tuple[str, str], dict[str, int]]()
    for line in text.strip().splitlines():
        method, path, *statuses = line.split()
        found[method, path] = dict(zip(CALLERS, map(int, statuses), strict=True))
    return found


async def wrong_answers(
    client: httpx.AsyncClient,
    expected: Mapping[tuple[str, str], Mapping[str, int]],
    bodies: Mapping[str, object],
    **parts: str,
) -> list[str]:
    """Return what is answered otherwise than expected; `bodies` are by path, `parts` are those of the paths."""
    found = list[str]()
    for (method, path), statuses in expected.items():
        for caller, status in statuses.items():
            body = None if method in {"GET", "HEAD"} else bodies.get(path, {})
            url = path.format(**parts)
            answer = await client.request(method, url, json=body, headers=headers_of(caller))
            if answer.status_code != status:
                found.append(f"{method} {path} by {caller}: {answer.status_code}, not {status}: {answer.text[:200]}")
            if answer.status_code == httpx.codes.UNAUTHORIZED and "www-authenticate" not in answer.headers:
                found.append(f"{method} {path} by {caller}: 401 without WWW-Authenticate")
    return found
