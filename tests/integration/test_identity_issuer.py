"""An issuer that is away, hangs, or answers nonsense."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

import pytest

from eventlib.errors import WiringError
from eventlib.identity import Identity, IdentityUnavailable, Unauthenticated, identity_of
from tests.issuers import SECRET, Issuer, answer, asked, ec, rsa, running_issuer

DISCOVERY = "/.well-known/openid-configuration"


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with running_issuer(rsa("one")) as found:
        yield found


async def by(identity: Identity, token: str) -> str:
    return (await identity.of_token(token)).by


async def test_a_new_key_counts_at_once_and_unknown_ones_are_asked_for_once_a_second(issuer: Issuer) -> None:
    clock = Clock()
    identity = issuer.identity(clock)
    assert await by(identity, issuer.token()) == "oidc:ada"
    issuer.publish(rsa("one"), ec("two"))
    news = await asyncio.gather(*(by(identity, issuer.token(key=ec("two"))) for _ in range(50)))
    assert {*news} == {"oidc:ada"}
    assert issuer.asked.count("/keys") == 2
    unknown = [identity.of_token(issuer.token(key=ec("three"))) for _ in range(50)]
    refused = await asyncio.gather(*unknown, return_exceptions=True)
    assert {type(each) for each in refused} == {Unauthenticated}
    assert issuer.asked.count("/keys") == 3


async def test_an_issuer_that_is_away_is_no_reason_to_refuse_a_token(issuer: Issuer) -> None:
    clock = Clock()
    identity = issuer.identity(clock)
    known, unknown = issuer.token(exp=2**40), issuer.token(key=ec("two"), exp=2**40)
    await by(identity, known)
    del issuer.answers["/keys"]
    fetched_at = clock.now
    for later_s in (11, 301, 3_599):
        clock.now = fetched_at + later_s
        assert await by(identity, known) == "oidc:ada"
        with pytest.raises(IdentityUnavailable):
            await identity.of_token(unknown)
    clock.now += 2
    with pytest.raises(IdentityUnavailable):
        await identity.of_token(known)
    issuer.publish(rsa("one"))
    clock.now += 10
    assert await by(identity, known) == "oidc:ada"


async def test_a_clock_that_is_set_back_does_not_keep_a_removed_key(issuer: Issuer) -> None:
    clock = Clock()
    clock.now += 7_200
    identity = issuer.identity(clock)
    token = issuer.token(exp=2**40)
    assert await by(identity, token) == "oidc:ada"
    issuer.publish(ec("two"))
    clock.now -= 7_200
    with pytest.raises(Unauthenticated):
        await identity.of_token(token)


async def test_an_issuer_that_hangs_keeps_one_request_waiting(issuer: Issuer) -> None:
    clock, hanging, opened = Clock(), asyncio.Event(), asyncio.Event()

    async def hang() -> bytes:
        hanging.set()
        await opened.wait()
        return b"{}"

    identity = issuer.identity(clock)
    token = issuer.token(exp=2**40)
    await by(identity, token)
    clock.now += 301
    issuer.answers[DISCOVERY] = hang
    first = asyncio.create_task(by(identity, token))
    await hanging.wait()
    async with asyncio.timeout(2):
        assert {await by(identity, token) for _ in range(20)} == {"oidc:ada"}
    assert not first.done()
    opened.set()
    assert await first == "oidc:ada"


JUNK: tuple[object, ...] = (
    {"kty": "RSA"},
    {"kty": "EC", "crv": "P-257", "x": "", "y": ""},
    {"kty": ["RSA"]},
    {},
    None,
    5,
    "RSA",
    {"kty": "AKP"},
)


async def test_keys_that_are_not_understood_are_passed_over(issuer: Issuer) -> None:
    issuer.publish(rsa("one"), also=JUNK)
    assert await by(issuer.identity(), issuer.token()) == "oidc:ada"


async def test_keys_of_another_use_do_not_sign(issuer: Issuer) -> None:
    issuer.publish(
        ec("two"), also=({**rsa("one").as_dict(private=False), "use": "enc"}, {"kty": "oct", "k": "AAAA", "kid": "x"})
    )
    with pytest.raises(Unauthenticated):
        await issuer.identity().of_token(issuer.token(key=rsa("one")))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((DISCOVERY, each) for each in (b"", b"{}", b"[]", b"5", b"\xff", b"[" * 100_000, b'{"issuer": 1}')),
        *(("/keys", each) for each in (b"", b"{}", b"[]", b'{"keys": 5}', b'{"keys": []}', b'{"keys": [[]]}')),
        ("/keys", json.dumps({"keys": [*JUNK]}).encode()),
        ("/keys", b"[" * 100_000),
        ("/keys", b" " * 2_000_000),
    ],
    ids=lambda each: str(each)[:24],
)
async def test_nonsense_of_an_issuer_is_an_outage(
    issuer: Issuer, path: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.answers[path] = body
    async with asked(issuer.identity()) as client:
        found = await answer(client, f"Bearer {issuer.token()}")
    assert (found.status_code, found.headers["retry-after"]) == (503, "1")
    assert "cannot be fetched: " in caplog.text


@pytest.mark.parametrize(
    "url",
    ["http://other.example/keys", "ftp://127.0.0.1/keys", "http://[", "http://127.0.0.1:x/", "", "file:///etc/passwd"],
)
async def test_keys_from_an_unprotected_place_are_not_taken(issuer: Issuer, url: str) -> None:
    issuer.answers[DISCOVERY] = json.dumps({"issuer": issuer.url, "jwks_uri": url}).encode()
    async with asked(issuer.identity()) as client:
        assert (await answer(client, f"Bearer {issuer.token()}")).status_code == 503


async def test_a_discovery_document_of_another_issuer_is_not_taken(issuer: Issuer) -> None:
    issuer.answers[DISCOVERY] = json.dumps(
        {"issuer": "https://other.example", "jwks_uri": f"{issuer.url}/keys"}
    ).encode()
    with pytest.raises(IdentityUnavailable):
        await issuer.identity().of_token(issuer.token())


def test_a_file_without_authorities_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing", encoding="ascii")
    with pytest.raises(WiringError, match="EVENTLIB_IDENTITY_CA"):
        identity_of(issuer="https://id.example", audience="x", key=SECRET, ca=tmp_path / "ca.pem")
