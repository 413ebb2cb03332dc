"""Where a webhook may go: a host's addresses, unless they are of this machine or of a network that is not public."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from time import monotonic

_KEPT_S = 30.0
_NAT64 = IPv6Network("64:ff9b::/96")
"""Where a network without IPv4 reaches a public IPv4 address (RFC 6052); 64:ff9b:1::/48 leads into a network's own."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""What IANA assigns to networks; all other IPv6 addresses have a meaning of their own."""

_SPECIAL_IPV4 = [
    *map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
]
_SPECIAL_IPV6 = [
    *map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
]
"""What the IANA special-purpose address registries take out, multicast and the returned 3ffe::/16 too.

They are listed here, since Python's tables differ by its version and leave some forms out.
"""


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
    """Return whether an address is one that networks of the public Internet are given.

    An IPv6 address that stands for an IPv4 address (IPv4-mapped, or NAT64's well-known prefix) is judged by that one. What is
    not allowed is refused: addresses of a link, a site or a tunnel, those with a meaning of their own, and unassigned space.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = _inner(found)
        if inner is None:
            return found in _GLOBAL_UNICAST and not any(found in network for network in _SPECIAL_IPV6)
        found = inner
    return not any(found in network for network in _SPECIAL_IPV4)


def _inner(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.ipv4_mapped
