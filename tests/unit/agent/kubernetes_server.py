"""A small API server that lists, watches and writes as Kubernetes does, and fails as it does.

Over real HTTP: lists come in pages, whose items have no kind; watches begin after a version, carry
bookmarks and end; a version that is no longer kept is 410, as an answer or as an event; a PUT with a
version that is not the latest is 409.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)
_NAMESPACED = ("pods", "jobs", "replicasets", "resourcequotas", "workloads", "localqueues")


class KubernetesServer:
    """The server; `url` is where it listens. What tests change is guarded by `changed`."""

    TOKEN = "a-token-of-a-service-account"

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str, str], Object] = {}  # collection, namespace, name
        self.events: list[tuple[int, str, str, Object]] = []  # version, collection, type, object
        self.version = 100
        self.oldest = 0  # events up to this version are forgotten
        self.expiry_as_event = False
        self.bookmark_seconds = 0.1
        self.cuts = 0  # so many of the next events are sent by half and the connection closed
        self.expired_pages = 0  # so many of the next further pages are too old
        self.before_put: list[Callable[[], None]] = []  # run before a PUT: somebody who is faster
        self.refuse: dict[str, tuple[int, str]] = {}  # path -> status and message of writes
        self.requests: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str, Object]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._stopped = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        with self.changed:
            self._stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # What tests do

    def put(self, collection: str, item: Object) -> Object:
        """Make or change an object, as another client would."""
        with self.changed:
            metadata = item["metadata"]
            key = (collection, metadata.get("namespace", ""), metadata["name"])
            kind = "MODIFIED" if key in self.objects else "ADDED"
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            self.objects[key] = json.loads(json.dumps(item))
            self.events.append((self.version, collection, kind, self.objects[key]))
            self.changed.notify_all()
            return self.objects[key]

    def delete(self, collection: str, namespace: str, name: str) -> None:
        with self.changed:
            gone = self.objects.pop((collection, namespace, name))
            self.version += 1
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
            self.events.append((self.version, collection, "DELETED", gone))
            self.changed.notify_all()

    def forget(self) -> None:
        """Keep no event from before now, as a compaction of etcd does."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.events.clear()

    def watches(self, path: str) -> int:
        return sum(1 for method, asked in self.requests if method == "WATCH" and asked == path)

    # HTTP

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the request's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                collection, namespace, name, query = self._read()
                if not collection:
                    return
                if name:
                    server.requests.append(("GET", self.path))
                    with server.changed:
                        item = server.objects.get((collection, namespace, name))
                    if item is None:
                        self._status(404, "NotFound", f"{name} not found")
                    else:
                        kind = {"apiVersion": "v1", "kind": collection}
                        self._json(200, {**kind, **item})
                elif query.get("watch") == "true":
                    server.requests.append(("WATCH", collection))
                    self._watch(collection, query)
                else:
                    server.requests.append(("LIST", collection))
                    self._list(collection, query)

            def do_POST(self) -> None:
                self._write("POST")

            def do_PUT(self) -> None:
                self._write("PUT")

            def do_DELETE(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                collection, namespace, name, _ = self._read()
                path = urlsplit(self.path).path
                if path in server.refuse:
                    self._status(server.refuse[path][0], "Forbidden", server.refuse[path][1])
                    return
                with server.changed:
                    present = server.objects.get((collection, namespace, name))
                    wanted = body["preconditions"]["resourceVersion"]
                    if present is None:
                        self._status(404, "NotFound", f"{name} not found")
                    elif present["metadata"]["resourceVersion"] != wanted:
                        self._status(409, "Conflict", "the object has been modified")
                    else:
                        server.writes.append(("DELETE", path, body))
                        server.delete(collection, namespace, name)
                        self._json(200, {"kind": "Status", "status": "Success"})

            def _write(self, method: str) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                collection, namespace, name, _ = self._read()
                if not collection:
                    return
                path = urlsplit(self.path).path
                if path in server.refuse:
                    self._status(server.refuse[path][0], "Forbidden", server.refuse[path][1])
                    return
                if method == "PUT" and server.before_put:
                    server.before_put.pop(0)()
                with server.changed:
                    key = (collection, namespace, name or body["metadata"]["name"])
                    present = server.objects.get(key)
                    if (present is not None) if method == "POST" else (present is None):
                        reason = "AlreadyExists" if method == "POST" else "NotFound"
                        self._status(409 if method == "POST" else 404, reason, str(key))
                        return
                    if present and present["metadata"]["resourceVersion"] != body["metadata"].get(
                        "resourceVersion"
                    ):
                        self._status(409, "Conflict", "the object has been modified")
                        return
                    server.writes.append((method, path, body))
                    self._json(201 if method == "POST" else 200, server.put(collection, body))

            def _list(self, collection: str, query: dict[str, str]) -> None:
                with server.changed:
                    items = [
                        item
                        for (kind, _, _), item in sorted(server.objects.items(), key=lambda i: i[0])
                        if kind == collection
                    ]
                    version = server.version
                begin, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
                if begin and server.expired_pages:
                    server.expired_pages -= 1
                    self._status(410, "Expired", "the provided continue parameter is too old")
                    return
                page = items[begin : begin + limit]
                metadata = {"resourceVersion": str(version)}
                if begin + limit < len(items):
                    metadata["continue"] = str(begin + limit)
                left_out = ("kind", "apiVersion")
                plain = [{k: v for k, v in item.items() if k not in left_out} for item in page]
                self._json(200, {"kind": "List", "metadata": metadata, "items": plain})

            def _watch(self, collection: str, query: dict[str, str]) -> None:
                after = int(query["resourceVersion"])
                expired = {
                    "kind": "Status", "code": 410, "reason": "Expired", "message": "too old",
                }  # fmt: skip
                if after < server.oldest and not server.expiry_as_event:
                    self._json(410, expired)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                if after < server.oldest:
                    self._event("ERROR", expired)
                    return
                with suppress(OSError):
                    self._stream(collection, after, float(query["timeoutSeconds"]))

            def _stream(self, collection: str, after: int, seconds: float) -> None:
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline and not server._stopped:
                    with server.changed:
                        found = [e for e in server.events if e[0] > after and e[1] == collection]
                        version = server.version  # of what has been told by now
                        if not found:
                            server.changed.wait(server.bookmark_seconds)
                    for number, _, kind, item in found:
                        if server.cuts:
                            server.cuts -= 1
                            self.wfile.write(
                                json.dumps({"type": kind, "object": item})[:20].encode()
                            )
                            return
                        self._event(kind, item)
                        after = number
                    if not found:
                        self._event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
                        after = max(after, version)

            def _event(self, kind: str, item: Object) -> None:
                self.wfile.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
                self.wfile.flush()

            def _read(self) -> tuple[str, str, str, dict[str, str]]:
                """The collection, namespace, name and query of the path; an answer if it is none."""
                address = urlsplit(self.path)
                match = _PATH.fullmatch(address.path)
                query = {name: values[0] for name, values in parse_qs(address.query).items()}
                if self.headers["Authorization"] != f"Bearer {server.TOKEN}":
                    self._status(401, "Unauthorized", "Unauthorized")
                elif match is None:
                    self._status(
                        404, "NotFound", "the server could not find the requested resource"
                    )
                else:
                    collection = f"{match['root']}/{match['plural']}"
                    return collection, match["namespace"] or "", match["name"] or "", query
                return "", "", "", query

            def _status(self, code: int, reason: str, message: str) -> None:
                self._json(
                    code, {"kind": "Status", "code": code, "reason": reason, "message": message}
                )

            def _json(self, code: int, body: Object) -> None:
                content = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
