"""Where a webhook may go: a host's addresses, unless they are of this machine or of a network that is not public."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from time import monotonic

_KEPT_S = 30.0
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """A host has no address that a webhook may go to."""


class Resolver:
    """The addresses of one subscriber's host; a name server that hangs keeps no other subscriber waiting.

    Guarantee: the address that was looked at is the one that is connected to, whatever a second question would answer.
    """

    def __init__(self, host: str, port: int, *, private: bool) -> None:
        self._host = host
        self._port = port
        self._private = private
        self._thread = ThreadPoolExecutor(1, "eventlib-webhook-names")
        self._known: tuple[float, list[str]] = (float("-inf"), [])

    async def addresses(self) -> list[str]:
        """Return the host's addresses. Raises: AddressRefused when none may be used; OSError when it has none."""
        at, known = self._known
        if monotonic() - at > _KEPT_S:
            known = await asyncio.get_running_loop().run_in_executor(self._thread, self._looked_up)
            self._known = monotonic(), known
        return known

    def _looked_up(self) -> list[str]:
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = [*dict.fromkeys(str(each[4][0]) for each in found)]
        allowed = [each for each in addresses if self._private or is_public(each)]
        if not allowed:
            raise AddressRefused(
                f"{self._host} is {addresses[0]}, which is not a public address: `private = true` allows it"
            )
        return allowed

    def close(self) -> None:
        """End its thread, once a question that is under way is answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def is_public(address: str) -> bool:
    """Return whether an address is one of the public Internet, also where IPv6 only wraps an IPv4 address."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and (inner := _wrapped(found)) is not None:
        found = inner
    return found.is_global and not found.is_multicast


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
