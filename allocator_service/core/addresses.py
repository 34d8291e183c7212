"""Where a request comes from: the peer's address, or what a trusted proxy says about it."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address

# What one household or company usually has: whoever can use one address of it can use the others.
_NETWORK_BITS = {4: 24, 6: 64}
_UNKNOWN = IPv4Address(0)


def client_address(request: HttpRequest) -> Address:
    """The nearest address on the request's way that is no trusted proxy.

    Every proxy adds its peer at the end of X-Forwarded-For; what stands before the entry of the first
    untrusted one anybody may have made up. Without TRUSTED_PROXIES the header is not read.
    """
    address = _address(request.META.get("REMOTE_ADDR", "")) or _UNKNOWN
    claimed = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while _is_trusted(address) and claimed:
        before = _address(claimed.pop())
        if before is None:
            break
        address = before
    return address


def client_network(request: HttpRequest) -> str:
    """The first address of the client's network: what log-ins that fail are counted by."""
    address = client_address(request)
    bits = _NETWORK_BITS[address.version]
    return str(ip_network((address, bits), strict=False).network_address)


def _is_trusted(address: Address) -> bool:
    return any(address in network for network in settings.ENVIRONMENT.trusted_proxies)


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
