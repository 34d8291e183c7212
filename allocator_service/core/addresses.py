"""The address of a request's client, behind trusted proxies if there are any."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address

# The usual size of a household's or company's network, whose members can use each other's addresses.
_NETWORK_BITS = {4: 24, 6: 64}
_UNKNOWN = IPv4Address(0)


def client_address(request: HttpRequest) -> Address:
    """Return the nearest address on the request's way that is not a trusted proxy.

    Every proxy adds its peer at the end of X-Forwarded-For. Entries before that of the first untrusted
    one may be forged. Without TRUSTED_PROXIES the header is not read.
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
    """Return the first address of the client's network, by which failed log-ins are counted."""
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
