"""Permitted targets of webhooks, as URLs and as resolved addresses.

A host is resolved once per request. All of its addresses are checked, and the connection goes to an
address that was checked. A name that resolves to a private address a moment later (DNS rebinding)
has no effect.
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
_NOTATION = "expected an address in its usual notation, such as 192.0.2.1 or [2001:db8::1]."
_PORTS = {"https": 443, "http": 80}
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Networks that `ipaddress` counts as global but that embed private addresses (6to4, Teredo), are
# shared (carrier-grade NAT), or are reserved for benchmarks, documentation and multicast. Registry:
# RFC 6890.
_NOT_PUBLIC = [
    ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15",
        "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A parsed URL. `address` is set if the host is an IP address."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The value of the Host header, without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class NoUsableAddress(Exception):
    """The host has no address, or one that is not permitted."""


def target_parse(url: str, *, allowed: Networks) -> Target:
    """Parse a URL. Raises `Unacceptable` for a URL that cannot be a target.

    `allowed` lists networks that are permitted although they are not public, also over plain HTTP.
    """
    if len(url) > MAX_URL or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise _url_error(f"expected at most {MAX_URL} visible ASCII characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _url_error(f"{error}.") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and allowed):
        raise _url_error(
            "expected a URL that begins with https://. Networks in the service's"
            " WEBHOOK_ALLOWED_NETWORKS may be reached by http://, too."
        )
    if parts.username is not None or parts.password is not None or "#" in url:
        raise _url_error("a user, a password or a fragment cannot be part of it.")
    if port == 0:
        raise _url_error("expected a port from 1 to 65535, got 0.")
    address = _literal_address(host, bracketed="[" in parts.netloc)
    target = Target(
        parts.scheme,
        host,
        port or _PORTS[parts.scheme],
        (parts.path or "/") + ("?" + parts.query if parts.query else ""),
        address,
    )
    if address is not None and not _is_permitted(address, target.scheme, allowed):
        raise Unacceptable(
            "The address must be public, or in a network that the service's WEBHOOK_ALLOWED_NETWORKS"
            " lists.",
            code="webhook.address",
            pointer="/url",
        )
    return target


def resolve(target: Target, *, allowed: Networks) -> list[Address]:
    """Return the addresses of a target. Raises `NoUsableAddress` unless all of them are permitted."""
    if target.address is not None:
        found: list[Address] = [target.address]
    else:
        try:
            rows = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(ip_address(row[4][0]) for row in rows))
        except (OSError, ValueError, UnicodeError) as error:
            raise NoUsableAddress from error
    # One private address among public ones would let the receiver choose: all of them must be
    # permitted.
    if not found or not all(_is_permitted(address, target.scheme, allowed) for address in found):
        raise NoUsableAddress
    return found


def is_public(address: Address) -> bool:
    """Return whether an address, or the IPv4 address that it embeds, is on the public Internet."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.scope_id is not None or address not in _GLOBAL_V6:
            return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


def _is_permitted(address: Address, scheme: str, allowed: Networks) -> bool:
    plain = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    named = any((plain or address) in network for network in allowed)
    return named or (scheme == "https" and is_public(address))


def _literal_address(host: str, *, bracketed: bool) -> Address | None:
    """Return the IP address of a literal host, or None for a name.

    The last label of a name cannot be a number. Resolvers read such hosts as addresses in other
    notations (octal, hexadecimal, shortened: `0x7f.1` is 127.0.0.1), so they are rejected.
    """
    if bracketed or re.fullmatch(r"[0-9.]+", host):
        try:
            return ip_address(host)
        except ValueError as error:
            raise _url_error(_NOTATION) from error
    last = host.rstrip(".").rpartition(".")[2]
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise _url_error("expected a host of letters, digits and hyphens, or an address.")
    if re.fullmatch(r"0[xX][0-9A-Fa-f]*|[0-9]+", last):
        raise _url_error(_NOTATION)
    return None


def _url_error(why: str) -> Unacceptable:
    return Unacceptable(f"Not a URL for webhooks: {why}", code="webhook.url", pointer="/url")
