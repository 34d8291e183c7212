"""An OpenID Connect provider over HTTP, and one that cheats: it changes what the true one answers."""

import base64
import io
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jws
from joserfc.jwk import RSAKey
from oidc_provider_mock import app
from werkzeug.serving import make_server

from allocator_service.settings.environment import OidcProvider

CLIENT = "allocator"
JWKS, TOKEN, DISCOVERY = "/jwks", "/oauth2/token", "/.well-known/openid-configuration"
Change = Callable[[Any], Any]


class Provider:
    """The provider `oidc-provider-mock`, with ways to change what it answers.

    `answers[path]` changes the JSON of an address, `status[path]` its status, `raw[path]` all of its
    body; `delay` is waited before each answer. `claims` changes what an ID token says, `token_of` how
    it is made.
    """

    def __init__(self) -> None:
        self._app = app(require_nonce=True)
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.reset()
        self.server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def reset(self) -> None:
        self.answers: dict[str, Change] = {}
        self.raw: dict[str, bytes] = {}
        self.status: dict[str, str] = {}
        self.claims: Change = lambda claims: claims
        self.token_of: Callable[[Any], str] = self.signed
        self.delay = 0.0
        self.asked: list[str] = []
        self.token_request: dict[str, str] = {}

    def signed(self, claims: Any, *, key: Any = None, **header: str) -> str:
        told = {"alg": "RS256", "kid": "first", **header}
        return jws.serialize_compact(told, json.dumps(claims).encode(), key or self.key)

    def settings(self, **changes: Any) -> OidcProvider:
        """What the service is told of it."""
        told = {
            "issuer": self.url,
            "client_id": CLIENT,
            "client_secret": "secret words",
            "name": "Example ID",
            "scopes": ["openid", "profile"],
            "groups_claim": "groups",
            "operator_group": "operators",
            "auditor_group": "auditors",
        }
        return OidcProvider(**{**told, **changes})

    def register(self, subject: str, **claims: Any) -> None:
        """Somebody whom the provider knows."""
        httpx.put(f"{self.url}/users/{subject}", json=claims).raise_for_status()

    def authorize(self, address: str, subject: str) -> str:
        """What a person does on the provider's page; returns where it sends the browser."""
        sent = httpx.post(address, data={"sub": subject})
        assert sent.status_code == 302, sent.text
        return re.sub("^https?://[^/]+", "", sent.headers["Location"])

    def _serve(self, environ: dict[str, Any], start: Any) -> Any:
        path = environ["PATH_INFO"]
        self.asked.append(path)
        time.sleep(self.delay)
        if path == TOKEN:
            sent = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            self.token_request = query_of(f"?{sent.decode()}")
            environ["wsgi.input"] = io.BytesIO(sent)
        told: list[Any] = []
        body = b"".join(self._app(environ, lambda *answer: told.append(answer)))
        status, headers = told[0][:2]
        if path == JWKS:
            body = json.dumps({"keys": [self.key.as_dict(private=False)]}).encode()
        if path == TOKEN and status.startswith("200"):
            document = json.loads(body)
            claims = json.loads(_decoded(document["id_token"].split(".")[1]))
            document["id_token"] = self.token_of(self.claims(claims))
            body = json.dumps(document).encode()
        if path in self.answers:
            body = json.dumps(self.answers[path](json.loads(body))).encode()
        body = self.raw.get(path, body)
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start(self.status.get(path, status), [*kept, ("Content-Length", str(len(body)))])
        return io.BytesIO(body)


@contextmanager
def providing() -> Iterator[Provider]:
    """A provider that runs on a port of its own."""
    provider = Provider()
    thread = threading.Thread(target=provider.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
