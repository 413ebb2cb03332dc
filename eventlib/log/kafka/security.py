"""TLS and SASL: from options to the arguments of aiokafka's connections."""

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpx
from aiokafka.abc import AbstractTokenProvider

from eventlib.errors import WiringError
from eventlib.ground.http_client import http_client
from eventlib.ground.plaintext import warn_of_plaintext, warn_of_plaintext_hosts
from eventlib.log.kafka.options import KafkaOptions

_RENEW_AT = 0.8  # of a token's lifetime
_MOST_BYTES = 1_000_000  # of a token response
_LATER = {404, 408, 425, 429}  # 404: a proxy answers with it while its server is down


def connection_arguments(options: KafkaOptions) -> dict[str, Any]:
    """Return the arguments for a connection. Raises: WiringError when a certificate cannot be read."""
    protocol = ("SASL_" if options.sasl else "") + ("SSL" if options.tls else "PLAINTEXT")
    found: dict[str, Any] = {
        "client_id": f"{options.prefix}{options.application}",
        "request_timeout_ms": int(options.request_timeout_s * 1000),
        "security_protocol": protocol,
        "ssl_context": _tls(options) if options.tls else None,
        "sasl_mechanism": options.sasl,
        "sasl_plain_username": options.user,
        "sasl_plain_password": options.password.get_secret_value() if options.password else None,
    }
    if options.sasl == "OAUTHBEARER":
        found["sasl_oauth_token_provider"] = _Tokens(options)
    return found


def warn_of_plaintext_brokers(options: KafkaOptions, hosts: Iterable[str]) -> None:
    """Warn if this user's password or token would go to brokers of other machines unencrypted."""
    if options.sasl and not options.tls:
        what = "the token" if options.sasl == "OAUTHBEARER" else "the password"
        warn_of_plaintext_hosts(f"{what} of EVENTLIB_KAFKA_SASL={options.sasl}", hosts, "set EVENTLIB_KAFKA_TLS=1")


def _tls(options: KafkaOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
        if options.tls_cert is not None:
            secret = options.tls_key_password
            password = secret.get_secret_value() if secret else None
            context.load_cert_chain(options.tls_cert, options.tls_key, password)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(filter(None, (options.tls_ca, options.tls_cert, options.tls_key)))
        raise WiringError(f"the certificates of EVENTLIB_KAFKA_TLS_… cannot be used ({files}): {error}") from error
    return context


class NoToken(OSError):
    """No token could be obtained; `refused` if the token server refuses this client, so that retrying does not help."""

    def __init__(self, sentence: str, *, refused: bool = False) -> None:
        super().__init__(sentence)
        self.refused = refused


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not typed
    """OAuth 2 tokens by client credentials (RFC 6749, 4.4), renewed before they expire."""

    def __init__(self, options: KafkaOptions) -> None:
        warn_of_plaintext("EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET", options.oauth_token_url or "", "give an https:// URL")
        self._options = options
        self._token = ""
        self._renew_at = 0.0

    async def token(self) -> str:
        """Return a token that does not expire soon. Raises: NoToken."""
        if time.monotonic() >= self._renew_at:
            options = self._options
            secret = options.oauth_client_secret
            form = {
                "grant_type": "client_credentials",
                **({"scope": options.oauth_scope} if options.oauth_scope else {}),
            }
            auth = (options.oauth_client_id or "", secret.get_secret_value() if secret else "")
            began = time.monotonic()
            try:
                async with http_client(_MOST_BYTES, timeout=options.request_timeout_s) as server:
                    answer = await server.post(options.oauth_token_url or "", data=form, auth=auth)
                    answer.raise_for_status()
                    given = answer.json()
                self._token = str(given["access_token"])
                self._renew_at = began + _RENEW_AT * float(given.get("expires_in", 60))
            except httpx.HTTPStatusError as error:
                refused = error.response.is_client_error and error.response.status_code not in _LATER
                raise NoToken(f"no token from {options.oauth_token_url}: {error}", refused=refused) from error
            except (httpx.HTTPError, httpx.InvalidURL, LookupError, ValueError, TypeError) as error:
                raise NoToken(f"no token from {options.oauth_token_url}: {error}") from error
        return self._token
