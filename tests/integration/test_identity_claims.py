"""Claims of tokens that the issuer has signed: which are refused, and with which sentence."""

import json
from time import time
from typing import Any

import httpx
import pytest

from tests.issuers import Issuer, answer, part, refused, rsa, signed, signed_by_hand

NOW = int(time())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"exp": NOW - 3_600}, "expired"),
        ({"exp": 0}, "expired"),
        ({"exp": -(10**30)}, "expired"),
        ({"exp": None}, "lacks the claim exp"),
        ({"exp": str(NOW + 300)}, "claim exp"),
        ({"exp": True}, "claim exp"),
        ({"exp": [NOW + 300]}, "claim exp"),
        ({"nbf": NOW + 3_600}, "nbf is in the future: compare the clocks"),
        ({"nbf": "soon"}, "claim nbf"),
        ({"iat": NOW + 3_600}, "iat is in the future: compare the clocks"),
        ({"iat": 10**30}, "iat is in the future"),
        ({"aud": "other-api"}, "another audience"),
        ({"aud": ["other-api", "orders-api2"]}, "another audience"),
        ({"aud": "orders-api "}, "another audience"),
        ({"aud": "Orders-API"}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"aud": {"orders-api": 1}}, "another audience"),
        ({"aud": [["orders-api"]]}, "another audience"),
        ({"aud": None}, "lacks the claim aud"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": ""}, "another issuer"),
        ({"iss": ["https://other.example"]}, "another issuer"),
        ({"iss": None}, "lacks the claim iss"),
        ({"sub": None}, "lacks the claim sub"),
        ({"sub": 17850}, "claim sub"),
        ({"sub": ""}, "claim sub"),
        ({"sub": ["ada"]}, "claim sub"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
async def test_claims_that_do_not_count_are_refused(
    client: httpx.AsyncClient,
    issuer: Issuer,
    changed: dict[str, Any],
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert sentence in await refused(client, issuer.token(**changed), caplog)


@pytest.mark.parametrize("suffix", ["/", "//", "/x", " ", "?"])
async def test_an_issuer_counts_with_and_without_its_slash(
    client: httpx.AsyncClient, issuer: Issuer, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token(iss=f"{issuer.url}{suffix}")
    if suffix == "/":
        assert (await answer(client, f"Bearer {token}")).status_code == 200
    else:
        assert "another issuer" in await refused(client, token, caplog)


@pytest.mark.parametrize("aud", [["other", "orders-api"], "orders-api"], ids=str)
async def test_an_audience_may_be_one_of_several(client: httpx.AsyncClient, issuer: Issuer, aud: object) -> None:
    assert (await answer(client, f"Bearer {issuer.token(aud=aud, exp=10**30)}")).status_code == 200


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5_000])
async def test_numbers_that_json_does_not_have_are_refused(
    client: httpx.AsyncClient, issuer: Issuer, number: str, caplog: pytest.LogCaptureFixture
) -> None:
    claims = json.dumps(issuer.claims(exp="?")).replace('"?"', number)
    await refused(client, signed({"alg": "RS256", "kid": "one"}, claims.encode(), rsa("one")), caplog)


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b'"ada"', b"5", b"{", b"\xff\xfe", b"[" * 9_000, b'{"a":' * 2_000, b"{}", b"\xef\xbb\xbf{}"],
    ids=lambda text: repr(text[:8]),
)
async def test_a_payload_that_is_no_object_is_refused(
    client: httpx.AsyncClient, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(client, signed_by_hand(part({"alg": "RS256", "kid": "one"}), part(payload), rsa("one")), caplog)


async def test_a_member_that_is_there_twice_is_refused(
    client: httpx.AsyncClient, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    claims = json.dumps(issuer.claims())
    twice = f'{claims[:-1]}, "sub": "grace"}}'
    await refused(client, signed({"alg": "RS256", "kid": "one"}, twice.encode(), rsa("one")), caplog)
