"""Where a webhook may go: no private address in any notation, however it is written or wrapped."""

import socket
from ipaddress import ip_address, ip_network

import pytest

from allocator_service.core.errors import Unacceptable
from allocator_service.webhooks.targets import (
    NoUsableAddress,
    is_public,
    resolve,
    target_parse,
)

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.9",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1",
    "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "8.8.8.8", "2606:4700::1111",
    "64:ff9b::101:101", "::ffff:8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_it_is_not_public(text):
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_it_is_public(text):
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", PRIVATE)
def test_a_url_with_a_private_address_is_refused(text):
    host = f"[{text}]" if ":" in text else text
    with pytest.raises(Unacceptable) as refused:
        target_parse(f"https://{host}/hook", allowed=[])
    assert refused.value.code in ("webhook.address", "webhook.url")
    if refused.value.code == "webhook.address":
        assert "WEBHOOK_ALLOWED_NETWORKS" in refused.value.detail
    assert refused.value.errors[0].pointer == "/url"


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "//example.org/", "http://example.org/", "ftp://example.org/", "HTTPS:/example.org",
        "https://", "https:///path", "https://user@example.org/", "https://user:pass@example.org/",
        "https://@example.org/", "https://example.org/#part", "https://example.org:0/",
        "https://example.org:65536/", "https://example.org:x/", "https://exa mple.org/",
        "https://example.org/\r\nHost: x", "https://example.org/\x00", "https://example.org/\u00e9",
        "https://\u2460\u2461\u2466.0.0.1/", "https://127.1/", "https://2130706433/",
        "https://0x7f.0.0.1/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.0.0.1./",
        "https://1.2.3.4.5/", "https://999.1.1.1/", "https://[::1/", "https://[v1.x]/",
        "https://exam\\ple.org/", "https://example.org\\@127.0.0.1/", "https://-a.org/",
        "https://a..org/", "https://" + "a" * 300 + ".org/", "https://example.org/" + "a" * 2_000,
        "https://%31%32%37.0.0.1/", "https://example.org%2f@127.0.0.1/", "https://foo.0x7f/",
    ],
)  # fmt: skip
def test_it_is_no_url_for_webhooks(url):
    with pytest.raises(Unacceptable) as refused:
        target_parse(url, allowed=[])
    assert refused.value.code == "webhook.url"


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://example.org", "example.org", "/"),
        ("https://example.org:443/a?b=c", "example.org", "/a?b=c"),
        ("https://Example.org:8443/x", "example.org:8443", "/x"),
        ("https://[2606:4700::1111]:8443/x", "[2606:4700::1111]:8443", "/x"),
        ("https://1.1.1.1/%C3%A4?q=%20", "1.1.1.1", "/%C3%A4?q=%20"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", "/"),
    ],
)
def test_the_parts_of_a_url(url, authority, path):
    target = target_parse(url, allowed=[])
    assert (target.authority, target.path) == (authority, path)


def resolving(monkeypatch, *addresses):
    """The resolver answers these addresses, one list for each time that it is asked."""
    answers = list(addresses)

    def getaddrinfo(host, port, **_):
        found = answers.pop(0)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


@pytest.mark.parametrize(
    "found", [None, [], ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["fe80::1%lo"]]
)
def test_a_name_with_no_or_any_private_address_is_unreachable(monkeypatch, found):
    resolving(monkeypatch, found)
    with pytest.raises(NoUsableAddress):
        resolve(target_parse("https://example.org/", allowed=[]), allowed=[])


def test_a_name_is_asked_for_once(monkeypatch):
    left = resolving(monkeypatch, ["8.8.8.8", "1.1.1.1"], ["127.0.0.1"])
    found = resolve(target_parse("https://example.org/", allowed=[]), allowed=[])
    assert [str(address) for address in found] == ["8.8.8.8", "1.1.1.1"]
    assert left == [["127.0.0.1"]]


def test_a_setting_allows_named_networks_and_plain_http_within_them(monkeypatch):
    target_parse("https://127.0.0.1/", allowed=LOOPBACK)
    target_parse("https://[::ffff:127.0.0.1]/", allowed=LOOPBACK)
    target = target_parse("http://hooks.internal:8080/", allowed=LOOPBACK)
    resolving(monkeypatch, ["127.0.0.7"], ["8.8.8.8"], ["10.0.0.1"])
    assert [str(each) for each in resolve(target, allowed=LOOPBACK)] == ["127.0.0.7"]
    for _ in range(2):  # neither a public address nor another network over plain HTTP
        with pytest.raises(NoUsableAddress):
            resolve(target, allowed=LOOPBACK)
    for url in ("http://8.8.8.8/", "http://10.0.0.1/", "https://10.0.0.1/"):
        with pytest.raises(Unacceptable):
            target_parse(url, allowed=LOOPBACK)
