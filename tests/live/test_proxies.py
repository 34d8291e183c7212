"""A real nginx and a real HAProxy in front, with upstream connections reused."""

import http.client
import os
import random
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.debian import HAPROXY, NGINX, Packages, Unavailable, unpacked
from tests.examples import long, thorough

REQUESTS = 50_000 if thorough() else 2_000
CLIENTS = 4
TENANTS = tuple(f"behind-{letter}" for letter in "abc")

_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream service {{ server {upstream}; keepalive 2; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://service; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host localhost;
      proxy_request_buffering off;
    }}
  }}
}}
"""
_HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend service
backend service
  server web {upstream} pool-max-conn 2 pool-purge-delay 60s
"""
_COMMANDS = {
    "nginx": (NGINX, _NGINX, ("usr/sbin/nginx", "-e", "stderr", "-p", "{folder}", "-c", "{file}")),
    "haproxy": (HAPROXY, _HAPROXY, ("usr/sbin/haproxy", "-db", "-f", "{file}")),
}


@pytest.fixture(params=["nginx", pytest.param("haproxy", marks=long)])
def proxy_port(request, service, tmp_path) -> Iterator[int]:
    packages, configuration, command = _COMMANDS[request.param]
    root = _unpacked_or_skip(packages)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    values = {"folder": tmp_path, "port": port, "upstream": urlsplit(service.url).netloc}
    file = tmp_path / "proxy.conf"
    file.write_text(configuration.format(**values))
    program, *options = command
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [root / program, *(option.format(file=file, **values) for option in options)],
            env={**os.environ, "LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")},
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(port, process, tmp_path / "log")
        yield port
    finally:
        process.kill()
        process.wait()


def _unpacked_or_skip(packages: Packages) -> Path:
    try:
        return unpacked(packages)
    except Unavailable as reason:
        pytest.skip(f"no {packages.name}: {reason}")


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"the proxy does not listen: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def keys(service, operator) -> dict[str, str]:
    """A key for each of some tenants, of which each sees one tenant only."""
    for slug in TENANTS:
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    return {
        slug: service.manage(
            "apikey", "create", "--scope", "tenant", "--tenant", slug, "--name", slug
        )
        for slug in TENANTS
    }


# Requests that a lax server reads in another way than the proxy does, or whose end it mistakes.
POISON = (
    b"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    b"POST /healthz HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nabcde\r\n0\r\n\r\n",
    b"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
    b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
)


def answers(port: int, keys: dict[str, str], count: int, seed: int) -> Counter[str]:
    """Send `count` requests on kept connections, and count right and wrong answers."""
    draw = random.Random(seed)
    found: Counter[str] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        for number in range(count):
            if draw.random() < 0.02:
                _poison(port, draw.choice(POISON))
            tenant = draw.choice(TENANTS)
            method = draw.choice(("GET", "GET", "HEAD", "HEAD", "POST"))
            mark = f"{seed}-{number}"
            body = draw.choice((b"{}", [b"{", b"}"])) if method == "POST" else None
            path = "/api/v1/pools/none/workloads/" if method == "POST" else "/api/v1/tenants/"
            headers = {"Authorization": f"Bearer {keys[tenant]}", "X-Request-Id": mark}
            headers |= {"Content-Type": "application/json"}
            client.request(method, path, body, headers, encode_chunked=isinstance(body, list))
            answer = client.getresponse()
            content = answer.read()
            found["answered"] += 1
            if answer.headers["X-Request-Id"] != mark:
                found["the answer to another request"] += 1
            if method == "GET" and f'"slug":"{tenant}"'.encode() not in content:
                found["another tenant's list"] += 1
            if method == "HEAD" and content:
                found["a body after HEAD"] += 1
            if answer.status >= 500:
                found[f"{answer.status}"] += 1
    return found


def _poison(port: int, sent: bytes) -> None:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2) as client:
        client.sendall(sent)
        client.recv(1_000)


def test_every_answer_goes_to_its_request(proxy_port, keys):
    with ThreadPoolExecutor(CLIENTS) as threads:
        parts = [
            threads.submit(answers, proxy_port, keys, REQUESTS // CLIENTS, seed)
            for seed in range(CLIENTS)
        ]
        found = sum((part.result() for part in parts), Counter())
    assert found == Counter(answered=REQUESTS)
