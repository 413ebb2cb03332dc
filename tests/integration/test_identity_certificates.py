"""Certificates of clients that a proxy has verified: its header counts from the proxy, and from no other peer."""

import base64
import json

import httpx
import pytest
from pydantic import SecretStr

from eventlib.http.serving import Listening
from eventlib.identity import Identity, IdentityOptions
from tests.issuers import SECRET, app_of, asked, rsa, running_issuer

ADA, PROXY, OTHER = "CN=ada", "192.0.2.7", "192.0.2.8"
HEADER = "X-Client-Subject"
NAMED = json.dumps({"certificates": [{"subject": ADA, "roles": ["operator"]}]})


def behind(proxies: str) -> Identity:
    return Identity(
        IdentityOptions(tokens=SecretStr(NAMED), certificate_header=HEADER, proxies=proxies, key=SecretStr(SECRET))
    )


@pytest.mark.parametrize(
    ("proxies", "peer", "code"),
    [
        (PROXY, PROXY, 200),
        (f"{OTHER}, 192.0.2.0/29", PROXY, 200),
        ("2001:db8::/32", "2001:db8::5", 200),
        (PROXY, OTHER, 401),
        (PROXY, "127.0.0.1", 401),
        (PROXY, f"::ffff:{PROXY}", 401),
        (PROXY, "unix", 401),
        (PROXY, "", 401),
    ],
)
async def test_a_certificate_counts_from_a_proxy_only(proxies: str, peer: str, code: int) -> None:
    async with asked(behind(proxies), peer) as client:
        forwarded = {"X-Forwarded-For": "198.51.100.4", "X-Real-IP": PROXY, "Forwarded": f"for={PROXY}"}
        for more in ({}, forwarded):
            assert (await client.get("/", headers={HEADER: ADA, **more})).status_code == code


async def test_a_certificate_that_is_unknown_or_there_twice_is_refused() -> None:
    async with asked(behind(PROXY), PROXY) as client:
        for subject in ("CN=grace", "", "CN=ada,O=x", "cn=ada"):
            assert (await client.get("/", headers={HEADER: subject})).status_code == 401, subject
        twice = [(HEADER, ADA), (HEADER, "CN=grace")]
        for headers in (twice, twice[::-1]):
            found = await client.get("/", headers=headers)
            assert found.status_code == 401
            assert "2 headers x-client-subject" in found.json()["detail"]
        basic = base64.b64encode(b"ada:x").decode()
        for wrong in ("Bearer x", f"Basic {basic}"):
            found = await client.get("/", headers={HEADER: ADA, "Authorization": wrong})
            assert found.status_code == 401  # a wrong token is not made up for


async def test_a_certificate_says_nothing_where_no_header_is_configured() -> None:
    async with running_issuer(rsa("one")) as issuer, asked(issuer.identity(), PROXY) as client:
        assert (await client.get("/", headers={HEADER: ADA})).status_code == 401


SPOOFED = (PROXY, f"{PROXY}:80", f"{PROXY}, 127.0.0.1", f"192.0.2.99,{PROXY}", f"[{PROXY}]:80")


async def test_a_forwarded_address_does_not_make_a_proxy() -> None:
    listening = Listening("127.0.0.1:0", identity=behind(PROXY))
    try:
        async with listening.serve(app_of(behind(PROXY))), httpx.AsyncClient(base_url=listening.url) as client:
            for forwarded in SPOOFED:
                for more in ({}, {"X-Forwarded-Proto": "https", "X-Real-IP": PROXY}):
                    found = await client.get("/", headers={HEADER: ADA, "X-Forwarded-For": forwarded, **more})
                    assert found.status_code == 401, forwarded
    finally:
        listening.close()


async def test_a_proxy_may_forward_the_addresses_of_its_clients() -> None:
    async with asked(behind(PROXY), PROXY) as client:
        for forwarded in ("198.51.100.4", f"198.51.100.4, {OTHER}", f"1{PROXY}", "", "unknown", "2001:db8::5"):
            found = await client.get("/", headers={HEADER: ADA, "X-Forwarded-For": forwarded})
            assert found.status_code == 200, forwarded
