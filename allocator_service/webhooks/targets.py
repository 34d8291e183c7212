"""Where a webhook's requests may go: URLs as they are given, addresses as they are resolved.

What a name means is asked once, every address is judged, and the connection is made to an address that
was judged: a name that means something else a moment later leads nowhere.
"""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from allocator_service.core.errors import Unacceptable
from allocator_service.webhooks.models import MAX_URL

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_PORTS = {"https": 443, "http": 80}
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Beyond what `ipaddress` calls private: addresses that hold others, and those that answer for many.
_NEVER = [
    ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15",
        "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A URL in its parts. `address` is set where the host is one."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The Host header: the port is left out where it is the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Unreachable(Exception):
    """No address of the host may be connected to, or the host has none."""


def target_read(url: str, *, allowed: Networks) -> Target:
    """The parts of a URL. Raises `Unacceptable` for what no request is ever made to.

    `allowed` are networks whose addresses are not public and may be connected to all the same, over
    plain HTTP too.
    """
    if len(url) > MAX_URL or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise _refused(f"a URL has at most {MAX_URL} visible ASCII characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _refused(f"{error}.") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and allowed):
        raise _refused("expected one that begins with https://.")
    if parts.username is not None or parts.password is not None or "#" in url:
        raise _refused("it has no user, password or fragment.")
    if port == 0:
        raise _refused("port 0 is none.")
    address = _literal(host, bracketed="[" in parts.netloc)
    target = Target(
        parts.scheme,
        host,
        port or _PORTS[parts.scheme],
        (parts.path or "/") + ("?" + parts.query if parts.query else ""),
        address,
    )
    if address is not None and not _may(address, target.scheme, allowed):
        raise Unacceptable(
            "Webhooks are sent to public addresses only.", code="webhook.address", pointer="/url"
        )
    return target


def addresses_of(target: Target, *, allowed: Networks) -> list[Address]:
    """The addresses of a target, asked for once. Raises `Unreachable` unless all of them may be used."""
    if target.address is not None:
        found: list[Address] = [target.address]
    else:
        try:
            rows = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(ip_address(row[4][0]) for row in rows))
        except (OSError, ValueError, UnicodeError) as error:
            raise Unreachable from error
    if not found or not all(_may(address, target.scheme, allowed) for address in found):
        raise Unreachable
    return found


def is_public(address: Address) -> bool:
    """Whether an address is one of the public Internet, whatever it is wrapped in."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.scope_id is not None or address not in _GLOBAL_V6:
            return False
    return address.is_global and not any(address in network for network in _NEVER)


def _may(address: Address, scheme: str, allowed: Networks) -> bool:
    plain = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    named = any((plain or address) in network for network in allowed)
    return named or (scheme == "https" and is_public(address))


def _literal(host: str, *, bracketed: bool) -> Address | None:
    """The address that a host is, None for a name.

    A name does not end in a number: what looks like an address and is none in its usual notation
    (octal, hexadecimal, shortened) is refused.
    """
    if bracketed or re.fullmatch(r"[0-9.]+", host):
        try:
            return ip_address(host)
        except ValueError as error:
            raise _refused("its host is no address in the usual notation.") from error
    last = host.rstrip(".").rpartition(".")[2]
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise _refused("its host is a name of letters, digits and hyphens, or an address.")
    if re.fullmatch(r"0[xX][0-9A-Fa-f]*|[0-9]+", last):
        raise _refused("its host is no address in the usual notation.")
    return None


def _refused(why: str) -> Unacceptable:
    return Unacceptable(f"Not a URL for webhooks: {why}", code="webhook.url", pointer="/url")
