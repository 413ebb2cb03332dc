"""The connections of this process to the brokers of a Kafka cluster, and why one cannot be made."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from eventlib.errors import LogDenied, LogVersionMismatch
from eventlib.log.kafka.failures import Transient
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments

_REFUSED = (AuthenticationFailedError, SaslAuthenticationFailed, UnsupportedSaslMechanismError)
_IDLE_MS = 9 * 60 * 1000  # brokers drop idle connections after ten minutes
_LETTING_GO_S = 2.0


class Broker(NamedTuple):
    """A broker's address, as the cluster advertises it."""

    host: str
    port: int


class Connections:
    """Connections, kept per broker and lane; `broker_of` returns where a broker is, None when it is not in the cluster.

    A broker answers a connection's requests in order, so slow requests (fetch, rebalance, replication) use their own
    lanes.
    """

    def __init__(self, options: KafkaOptions, broker_of: Callable[[int], Broker | None]) -> None:
        self._broker_of = broker_of
        self._arguments = connection_arguments(options)
        self._open = dict[tuple[int, str], AIOKafkaConnection]()
        self._opening = dict[tuple[int, str], asyncio.Lock]()
        self._closed = False

    async def send(self, node: int, message: Any, lane: str) -> Any:
        """Send a request to a broker, connecting first where needed. Raises: Transient, LogDenied, LogVersionMismatch."""
        connection = self._open.get((node, lane))
        if connection is None or not connection.connected():
            connection = await self._connect(node, lane)
        try:
            return await connection.send(message)
        except TimeoutError as error:
            _cut(connection)
            raise Transient(f"{_place(connection)} did not answer in time") from error
        except IncompatibleBrokerVersion as error:
            raise LogVersionMismatch(f"{_place(connection)} is too old for this: {error}") from error
        except (KafkaError, OSError) as error:
            raise Transient(f"{_place(connection)}: {error}") from error

    async def ask_once(self, broker: Broker, message: Any) -> Any:
        """Send a request over a connection of its own. Raises: Transient, LogDenied."""
        connection = await self._connected(broker)
        try:
            return await connection.send(message)
        except (KafkaError, OSError, TimeoutError) as error:
            raise Transient(f"{_place(connection)}: {error or 'no answer in time'}") from error
        finally:
            await _let_go(connection)

    async def _connect(self, node: int, lane: str) -> AIOKafkaConnection:
        async with self._opening.setdefault((node, lane), asyncio.Lock()):
            connection = self._open.get((node, lane))
            if connection is not None and connection.connected():
                return connection
            broker = self._broker_of(node)
            if broker is None:
                raise Transient(f"broker {node} is not in the cluster")
            connection = await self._connected(broker)
            if self._closed:
                await _let_go(connection)
                raise Transient("the log was closed")
            self._open[node, lane] = connection
            return connection

    async def _connected(self, broker: Broker) -> AIOKafkaConnection:
        address = f"{broker.host}:{broker.port}"
        try:
            return await create_conn(broker.host, broker.port, max_idle_ms=_IDLE_MS, **self._arguments)
        except _REFUSED as error:
            raise LogDenied(
                f"{address} refuses this user: {error}; see EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_SASL"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise LogDenied(f"{address} is not trusted: {error.verify_message}; see EVENTLIB_KAFKA_TLS_CA") from error
        except NoToken as error:
            if error.refused:
                raise LogDenied(
                    f"{error}; see EVENTLIB_KAFKA_OAUTH_TOKEN_URL, EVENTLIB_KAFKA_OAUTH_CLIENT_ID and "
                    "EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET"
                ) from error
            raise Transient(str(error)) from error
        except KafkaConnectionError as error:
            hint = "do EVENTLIB_KAFKA_TLS and EVENTLIB_KAFKA_SASL match its listener?"
            raise Transient(f"{address} closed the connection at once: {hint}") from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise Transient(f"{address} cannot be reached: {error or 'no answer in time'}") from error

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        await asyncio.gather(*(_let_go(connection) for connection in self._open.values()))


async def _let_go(connection: AIOKafkaConnection) -> None:
    """Close a connection, and wait for its socket, but not for a broker that reads nothing more, or does not end its TLS."""
    closed = connection.close()
    if closed is not None:
        await asyncio.wait([closed], timeout=_LETTING_GO_S)
        if not closed.done():
            _cut(connection)
            await asyncio.wait([closed])


def _cut(connection: AIOKafkaConnection) -> None:
    """Close a connection at once, whatever its broker does."""
    connection.close()
    transport = connection._protocol._transport  # noqa: SLF001  nothing public leads to the socket
    if transport is not None:
        transport.abort()


def _place(connection: AIOKafkaConnection) -> str:
    return f"{connection.host}:{connection.port}"
