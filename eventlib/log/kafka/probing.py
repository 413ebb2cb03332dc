"""Diagnoses why a broker cannot be reached at an address: tries name, network, TLS and SASL in turn."""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from eventlib.errors import LogDenied
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments

CONNECTS_S = 4.0
_PLAIN = {"security_protocol": "PLAINTEXT", "ssl_context": None, "sasl_mechanism": None}
_WRONG_NAME = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class Trouble(NamedTuple):
    """A problem at an address, and its remedy; `stays` if retrying cannot help until a setting changes."""

    what: str
    remedy: str
    stays: bool = False


async def probe(host: str, port: int, options: KafkaOptions) -> Trouble | None:
    """Connect to an address as a log does, and return what is wrong; None when a broker answers."""
    return await _network(host, port) or await _protocol(host, port, options)


async def refuse_what_stays(hosts: Iterable[tuple[str, int]], options: KafkaOptions) -> None:
    """Fail if retrying cannot help, after no broker was reached. Raises: LogDenied."""
    for trouble in await asyncio.gather(*(probe(host, port, options) for host, port in hosts)):
        if trouble is not None and trouble.stays:
            raise LogDenied(f"{trouble.what}: {trouble.remedy}")


async def _network(host: str, port: int) -> Trouble | None:
    try:
        await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Trouble(
            f"the name {host} cannot be resolved from this machine ({error.strerror or error})",
            "correct the name, or add it to this machine's DNS or hosts file",
        )
    try:
        async with asyncio.timeout(CONNECTS_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Trouble(
            f"{host}:{port} does not answer within {CONNECTS_S:g} s",
            "a firewall or a wrong address drops the packets: try from another machine, and open the port",
        )
    except OSError as error:
        return Trouble(
            f"nothing listens at {host}:{port} ({os.strerror(error.errno) if error.errno else error})",
            "start the broker (`eventlib broker start` for development), or correct the address",
        )
    writer.close()
    await writer.wait_closed()
    return None


async def _protocol(host: str, port: int, options: KafkaOptions) -> Trouble | None:
    try:
        await _request(host, port, connection_arguments(options), MetadataRequest([], allow_auto_topic_creation=False))
    except UnsupportedSaslMechanismError:
        return await _another_mechanism(host, port, options)
    except (KafkaError, OSError, TimeoutError, AssertionError) as error:
        return _named(f"{host}:{port}", options, error) or await _silence(host, port, options, error)
    return None


def _named(address: str, options: KafkaOptions, error: BaseException) -> Trouble | None:
    """Return the trouble that an error means; None if it is ambiguous."""
    match error:
        case IllegalSaslStateError():
            what = f"{address} accepts no sign-in"
            found = what, "unset EVENTLIB_KAFKA_SASL, or use another port"
        case SaslAuthenticationFailed():
            found = _refused(address, options, str(error))
        case ssl.SSLCertVerificationError():
            found = _untrusted(address, options, error)
        case IncompatibleBrokerVersion():
            what = f"{address} does not support the requests of clients ({error})"
            found = what, "use the port for clients, not that of controllers; or upgrade a broker older than 2.4"
        case NoToken():
            remedy = "correct EVENTLIB_KAFKA_OAUTH_…, or check the token server"
            return Trouble(str(error), remedy, error.refused)
        case _:
            return None
    return Trouble(*found, stays=True)


async def _another_mechanism(host: str, port: int, options: KafkaOptions) -> Trouble:
    anonymous = {**connection_arguments(options), "security_protocol": "SSL" if options.tls else "PLAINTEXT"}
    try:
        offered = (await _request(host, port, anonymous, SaslHandShakeRequest("NONE"))).enabled_mechanisms
    except (KafkaError, OSError, TimeoutError):
        offered = ["others"]
    what = f"{host}:{port} does not support the SASL mechanism {options.sasl}, but {', '.join(sorted(offered))}"
    return Trouble(what, "set EVENTLIB_KAFKA_SASL to a supported one", stays=True)


async def _request(host: str, port: int, arguments: dict[str, Any], message: Any) -> Any:
    """Connect, sign in, send a request, and return the response. Raises: KafkaError, OSError, TimeoutError."""
    connection: AIOKafkaConnection = await create_conn(host, port, **arguments)
    try:
        return await connection.send(message)
    finally:
        await connection.close()


def _refused(address: str, options: KafkaOptions, why: str) -> tuple[str, str]:
    if options.sasl == "OAUTHBEARER":
        return (
            f"{address} refuses the token of client {options.oauth_client_id}: {why}",
            "check the token's audience, subject and expiry, this machine's clock, and EVENTLIB_KAFKA_OAUTH_…",
        )
    return (
        f"{address} refuses user {options.user} with {options.sasl}: {why}",
        "correct EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_PASSWORD; each SCRAM mechanism has its own users",
    )


def _untrusted(address: str, options: KafkaOptions, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    if error.verify_code in _WRONG_NAME:
        return (
            f"the certificate of {address} is for another name: {error.verify_message}",
            "use a name that is in the broker's certificate, or add this one to the certificate",
        )
    authority = options.tls_ca or "the system's authorities"
    return (
        f"the certificate of {address} is not trusted by {authority}: {error.verify_message}",
        "set EVENTLIB_KAFKA_TLS_CA to the authority that signed it",
    )


async def _silence(host: str, port: int, options: KafkaOptions, error: BaseException) -> Trouble:
    """Return why a connection was closed or got no response: found by trying the other protocols."""
    address = f"{host}:{port}"
    connects = _connects(host, port, {**connection_arguments(options), **_PLAIN})
    plain, tls = await asyncio.gather(connects, _speaks_tls(host, port, options.request_timeout_s))
    if options.tls and plain:
        remedy = "unset EVENTLIB_KAFKA_TLS, or use the TLS port"
        return Trouble(f"{address} does not use TLS", remedy, stays=True)
    if not options.tls and tls:
        return Trouble(f"{address} requires TLS", "set EVENTLIB_KAFKA_TLS=true", stays=True)
    if options.sasl is None and (plain or tls):
        return Trouble(
            f"{address} requires a sign-in",
            "set EVENTLIB_KAFKA_SASL, EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_PASSWORD",
        )
    return Trouble(
        f"{address} does not answer as a Kafka broker does ({error or 'no answer in time'})",
        "another program listens there, or a broker that hangs: check its log",
    )


async def _connects(host: str, port: int, arguments: dict[str, Any]) -> bool:
    """Whether a broker there answers with its API versions, which precedes signing in."""
    try:
        await (await create_conn(host, port, **arguments)).close()
    except (KafkaError, OSError, TimeoutError, AssertionError):
        return False
    return True


async def _speaks_tls(host: str, port: int, within_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no data is sent
    try:
        async with asyncio.timeout(within_s):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    await asyncio.sleep(0)
    return True
