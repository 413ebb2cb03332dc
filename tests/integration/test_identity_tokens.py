"""Hostile tokens: none is accepted, none leads to a failure of the server, and none is logged."""

import asyncio
import base64
import hmac
import json
from collections.abc import Iterator
from time import time
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwe import encrypt_compact

from eventlib.identity import Unauthenticated
from tests.issuers import Issuer, answer, ec, part, refused, rsa, running_issuer, signed, signed_by_hand

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
JSON = st.recursive(
    LEAVES, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)
)


@pytest.mark.parametrize("number", [0, 1], ids=["RSA", "EC"])
async def test_a_valid_token_is_accepted(client: httpx.AsyncClient, issuer: Issuer, number: int) -> None:
    found = await answer(client, f"Bearer {issuer.token(key=issuer.keys[number])}")
    assert found.status_code == 200, found.text
    assert found.json() == {"by": "oidc:ada", "roles": ["shop"], "customer": None}


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", " none"])
async def test_a_token_without_a_signature_is_refused(
    client: httpx.AsyncClient, issuer: Issuer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    valid = issuer.token().split(".")
    for header in ({"alg": name}, {"alg": name, "kid": "one"}):
        for payload in (valid[1], part(issuer.claims())):
            for signature in ("", valid[2], "AA"):
                await refused(client, f"{part(header)}.{payload}.{signature}", caplog)


@pytest.mark.parametrize("size", [256, 384, 512])
async def test_a_public_key_is_no_shared_secret(
    client: httpx.AsyncClient, issuer: Issuer, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    public = rsa("one").as_dict(private=False)
    texts = [rsa("one").as_pem(private=False), rsa("one").as_der(private=False), json.dumps(public).encode()]
    texts += [texts[0].strip(), json.dumps(public, separators=(",", ":")).encode(), str(public["n"]).encode()]
    for text in texts:
        for kid in ("one", "two", None):
            begin = f"{part({'alg': f'HS{size}', 'kid': kid} if kid else {'alg': f'HS{size}'})}.{part(issuer.claims())}"
            token = f"{begin}.{part(hmac.new(text, begin.encode(), f'sha{size}').digest())}"
            await refused(client, token, caplog)


URL = "the attacker's server"
KIDS = ["other", "", "two", "../../dev/null", "one' OR '1'='1", "one\0", "\0", "one ", "ONE", "ä" * 10, "x" * 300, None]
HEADERS: list[dict[str, Any]] = [
    *({"kid": each} for each in KIDS),
    *({"kid": each} for each in (5, ["one"], {"one": 1}, True, 1.5)),
    *({"alg": each} for each in ("RS257", "ES256", "PS256", "dir", "RSA-OAEP")),
    *({"kid": kid, name: URL} for name in ("jku", "x5u") for kid in ("three", "one", None)),
    *({"kid": kid, "jwk": "the attacker's", "alg": "ES256"} for kid in ("three", "two", None)),
    {"kid": "one", "x5c": ["MIIB"]},
    {"kid": "one", "typ": 5},
    {"kid": "one", "crit": []},
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: json.dumps(header)[:40])
async def test_no_header_lets_an_attackers_key_in(
    client: httpx.AsyncClient, issuer: Issuer, header: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    wanted = {"alg": "RS256", "kid": "one", **header}
    given = {name: value for name, value in wanted.items() if value is not None}
    given |= {name: f"{issuer.url}/attackers" for name in given if given[name] == URL}
    if "jwk" in given:
        given["jwk"] = ec("three").as_dict(private=False)
    head, payload = part(given), part(issuer.claims())
    await refused(client, signed_by_hand(head, payload, rsa("three")), caplog)
    if given["alg"] == "ES256":
        await refused(client, signed(given, json.dumps(issuer.claims()).encode(), ec("three")), caplog)
    assert "/attackers" not in issuer.asked


async def test_an_issuers_own_headers_do_not_matter(client: httpx.AsyncClient, issuer: Issuer) -> None:
    found = await answer(client, f"Bearer {issuer.token({'nonce': 'x', 'jku': 'http://127.0.0.1:1/'})}")
    assert found.status_code == 200, found.text
    assert set(issuer.asked) == {"/.well-known/openid-configuration", "/keys"}


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"crit": ["x"], "x": 1},
        {"crit": ["b64"], "b64": False},
        {"crit": ["b64"], "b64": True},
        {"b64": False},
    ],
    ids=json.dumps,
)
async def test_a_critical_header_is_refused_even_of_the_issuer(
    client: httpx.AsyncClient, issuer: Issuer, header: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    claims = json.dumps(issuer.claims()).encode()
    for payload in (part(claims), claims.decode(), ""):
        head = part({"alg": "RS256", "kid": "one", **header})
        valid = signed({"alg": "RS256", "kid": "one"}, claims, rsa("one"))
        await refused(client, f"{head}.{payload}.{valid.split('.')[2]}", caplog)
        await refused(client, signed_by_hand(head, payload, rsa("one")), caplog)


@pytest.mark.parametrize(
    "head", [["alg"], "alg", [["alg", "RS256"]], 5, None, True, {"alg": ["RS256"]}, {"alg": None}, {}]
)
async def test_a_header_of_another_shape_is_refused(
    client: httpx.AsyncClient, issuer: Issuer, head: object, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(client, signed_by_hand(part(head), part(issuer.claims()), rsa("one")), caplog)


async def test_encrypted_and_nested_tokens_are_refused(
    client: httpx.AsyncClient, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    public = rsa("one").as_dict(private=False)
    key = type(rsa("one")).import_key({"kty": "RSA", "n": str(public["n"]), "e": str(public["e"])})
    head = {"alg": "RSA-OAEP", "enc": "A128GCM", "kid": "one"}
    for inner in (json.dumps(issuer.claims()), issuer.token()):
        await refused(client, encrypt_compact({**head, "cty": "JWT"}, inner, key), caplog)
    nested = signed({"alg": "RS256", "kid": "one", "cty": "JWT"}, issuer.token().encode(), rsa("one"))
    await refused(client, nested, caplog)


async def test_what_is_cut_or_added_is_refused(
    client: httpx.AsyncClient, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token()
    first, second, third = token.split(".")
    for each in (token[:-1], token[:-10], first, f"{first}.{second}", f"{first}.{second}.", f"..{third}", "..", "."):
        await refused(client, each, caplog)
    for each in (f"{token}.", f".{token}", f"{token}.{third}", f"{token}=", f"{token}==", f"{token}A", f"{token},"):
        await refused(client, each, caplog)
    for each in (f"{first} .{second}.{third}", f"{first}.\t{second}.{third}", f"{token} {token}", f'"{token}"'):
        await refused(client, each, caplog)
    await refused(client, f"{part({'alg': 'RS256'})}.{second}.{third}", caplog)
    await refused(client, f"{token}.{'A' * 1_000_000}", caplog)
    await refused(client, "A" * 1_000_000, caplog)


@pytest.mark.parametrize("text", [b"\xff\xfe\xfd" * 9, b"\xa0", b"\x85", "ä€".encode() * 9, b"\xed\xa0\x80" * 9])
async def test_bytes_beyond_ascii_are_refused(
    client: httpx.AsyncClient, issuer: Issuer, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token().encode()
    for each in (text, text + token, token + text, token[:50] + text + token[50:]):
        await refused(client, each, caplog)


async def test_other_credentials_are_refused(client: httpx.AsyncClient, issuer: Issuer) -> None:
    token = issuer.token()
    basic = [base64.b64encode(each.encode()).decode() for each in (f"ada:{token}", token, f":{token}", "ada:")]
    others = ["", "Bearer", "Bearer ", f"Token {token}", token, f"Bearer\t{token}", f"Bearer:{token}", f"Basic {token}"]
    for each in [
        *others,
        *(f"Basic {text}" for text in basic),
        "Basic",
        "Basic ====",
        "Basic w7/Dvw",
        "Negotiate AAAA",
    ]:
        found = await answer(client, each)
        assert found.status_code == 401, each
        assert token not in found.text


async def test_two_headers_are_refused_in_either_order(client: httpx.AsyncClient, issuer: Issuer) -> None:
    valid = f"Bearer {issuer.token()}"
    for first, second in ((valid, "Bearer x"), ("Bearer x", valid), (valid, valid)):
        found = await answer(client, first, ("Authorization", second))
        assert found.status_code == 401
        assert "2 headers authorization" in found.json()["detail"]


class Mutable:
    """A valid token, and an identity that judges what becomes of it, in a loop of its own."""

    def __init__(self, runner: asyncio.Runner, issuer: Issuer) -> None:
        self.token = issuer.token()
        self._runner = runner
        made_at = time()  # no token expires, however long the examples take
        self._identity = issuer.identity(clock=lambda: made_at + 10)

    def accepts(self, token: str) -> bool:
        """Return whether it lets a token in."""
        header = (b"authorization", b"Bearer " + token.encode("latin-1"))
        try:
            return bool(self._runner.run(self._identity.principal([header], "127.0.0.1")))
        except Unauthenticated:
            return False


@pytest.fixture(scope="module")
def mutable() -> Iterator[Mutable]:
    with asyncio.Runner() as runner:
        running = running_issuer(rsa("one"), ec("two"))
        yield Mutable(runner, runner.run(running.__aenter__()))
        runner.run(running.__aexit__(None, None, None))


@settings(max_examples=1_000)
@given(where=st.integers(0, 10_000), cut=st.integers(0, 3), text=st.text(st.characters(max_codepoint=255), max_size=4))
def test_a_mutated_token_is_never_accepted(mutable: Mutable, where: int, cut: int, text: str) -> None:
    token = mutable.token
    start = where % (len(token) + 1)
    mutated = token[:start] + text + token[start + cut :]
    assert mutable.accepts(mutated) == (mutated.strip(" \t") == token)


@settings(max_examples=300)
@given(header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "zip", "enc"]), JSON))
def test_no_header_makes_a_signature_valid(mutable: Mutable, header: dict[str, object]) -> None:
    _, payload, signature = mutable.token.split(".")
    head = {"alg": "RS256", "kid": "one", **header}
    assert not mutable.accepts(f"{part(head)}.{payload}.{signature}") or head == {"alg": "RS256", "kid": "one"}
