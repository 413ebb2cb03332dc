"""A session of the console is over with what let it in: a logout, a removed token, a role that was taken away."""

import os
from pathlib import Path

import httpx
import pytest
from starlette.responses import Response

from eventlib.console.sessions import SESSION, Grant, SessionIdentity
from eventlib.identity import Principal, Role, add_token
from eventlib.identity.options import identity_options
from eventlib.identity.principal import IdentityUnavailable, Unauthenticated
from tests.issuers import SECRET


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def cookie(identity: SessionIdentity, principal: Principal, grant: Grant) -> list[tuple[bytes, bytes]]:
    answer = Response()
    identity.logged_in(answer, principal, grant, secure=False)
    value = httpx.Response(200, headers=answer.headers, request=httpx.Request("GET", "http://c")).cookies[SESSION]
    return [(b"cookie", f"{SESSION}={value}".encode())]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
async def session(tokens: Path) -> tuple[SessionIdentity, list[tuple[bytes, bytes]]]:
    text, _ = add_token(tokens, "ada", [Role.OPERATOR])
    add_token(tokens, "bob", [Role.AUDITOR])
    identity = SessionIdentity(identity_options(tokens_file=tokens, key=SECRET))
    return identity, cookie(identity, await identity.of_token(text), Grant(text))


def changed(identity: SessionIdentity, tokens: Path, old: str, new: str) -> str:
    """Change the file of tokens, which is then read at once, and return what it was."""
    before = tokens.read_text()
    tokens.write_text(before.replace(old, new) if old else new)
    os.utime(tokens, ns=(1, 1))
    identity._named._file._looked_at = float("-inf")  # type: ignore[union-attr]  # noqa: SLF001  it looks once a second
    return before


async def test_a_session_is_over_after_a_logout_whoever_has_its_cookie(
    session: tuple[SessionIdentity, list[tuple[bytes, bytes]]],
) -> None:
    identity, headers = session
    assert (await identity.principal(headers, "127.0.0.1")).by == "token:ada"
    identity.log_out(headers)
    with pytest.raises(Unauthenticated, match="log in again"):
        await identity.principal(headers, "127.0.0.1")
    identity.log_out(headers)
    identity.log_out([])


async def test_a_session_is_over_with_its_token(
    session: tuple[SessionIdentity, list[tuple[bytes, bytes]]], tokens: Path
) -> None:
    identity, headers = session
    assert (await identity.principal(headers, "127.0.0.1")).has(Role.OPERATOR)
    before = changed(identity, tokens, '"operator"', '"auditor"')
    assert not (await identity.principal(headers, "127.0.0.1")).has(Role.OPERATOR)
    changed(identity, tokens, "", '{"tokens": []}')
    with pytest.raises(Unauthenticated, match="log in again"):
        await identity.principal(headers, "127.0.0.1")
    changed(identity, tokens, "", before)
    with pytest.raises(Unauthenticated, match="log in again"):
        await identity.principal(headers, "127.0.0.1")


async def test_a_session_is_renewed_each_minute_and_over_when_the_issuer_says_no() -> None:
    clock, asked = Clock(), list[str]()
    identity = SessionIdentity(identity_options(tokens='{"tokens": []}', key=SECRET), clock=clock)
    roles = {"one": Role.OPERATOR, "two": Role.AUDITOR}

    async def of_token(token: str) -> Principal:
        return Principal(subject="7f0c", source="oidc", roles=frozenset({roles[token]}))

    async def renew(refresh: str) -> Grant:
        asked.append(refresh)
        if refresh == "down":
            raise IdentityUnavailable("the issuer is away")
        if refresh == "last":
            raise Unauthenticated("no more")
        return Grant("two", "down" if refresh == "first" else "last")

    identity.of_token, identity.renew = of_token, renew  # type: ignore[method-assign]  # the issuer
    headers = cookie(identity, await of_token("one"), Grant("one", "first"))
    assert (await identity.principal(headers, None)).has(Role.OPERATOR)
    clock.now += 61
    assert not (await identity.principal(headers, None)).has(Role.OPERATOR)
    clock.now += 59
    await identity.principal(headers, None)
    assert asked == ["first"]
    clock.now += 2
    with pytest.raises(IdentityUnavailable):
        await identity.principal(headers, None)
    clock.now += 3_600
    with pytest.raises(Unauthenticated, match="log in again"):
        await identity.principal(headers, None)
    headers = cookie(identity, await of_token("one"), Grant("one", "last"))
    clock.now += 61
    with pytest.raises(Unauthenticated, match="log in again"):
        await identity.principal(headers, None)
