"""A small API server that lists, watches and writes as Kubernetes does, and fails as it does.

Over real HTTP: lists come in pages, whose items have no kind; watches begin after a version, carry
bookmarks and end; a version that is no longer kept is 410, as an answer or as an event; a PUT or PATCH
with a version that is not the latest is 409. Kinds with a schema lose what it does not name, and have
a status apart: a write of the object leaves the status, a write of the status leaves all else.
"""

import copy
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.agent.kueue_crds import ANY, Schema, problem_of, pruned

Object = dict[str, Any]
_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>status))?)?"
)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KUEUE = "kueue.x-k8s.io"
_KINDS = {"clusterqueues": "ClusterQueue", "cohorts": "Cohort"}
_NAMESPACED = ("pods", "jobs", "replicasets", "resourcequotas", "workloads", "localqueues")
MERGE_PATCH = "application/merge-patch+json"


class _Listener(ThreadingHTTPServer):
    """Listens, and can cut every connection that it has."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._sockets.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for connection in [*self._sockets]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients are killed, and connections cut."""


def merge_patched(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patched(merged.get(name), value)
    return merged


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
        # Run before a PUT or PATCH, one for each: somebody who is faster.
        self.before_put: list[Callable[[], None]] = []
        self.before_post: list[Callable[[], None]] = []
        self.answers: list[int] = []  # statuses of the answers to writes
        self.schemas: dict[str, Schema] = {}  # by plural; a kind without one keeps what it is sent
        self.after_put: list[Callable[[], None]] = []  # all run after each change, under the lock
        # Writes of such paths answer with what they keep: "old" answers with it, "new" as if written.
        self.lies: dict[str, str] = {}
        self.versions = ["v1beta1", "v1beta2"]  # of Kueue; none: it is not installed
        self.forbidden: set[tuple[str, str]] = set()  # verb and resource.group of reviews
        self.refuse: dict[str, tuple[int, str]] = {}  # path -> status and message of writes
        self.requests: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str, Object]] = []
        self._start(0)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _start(self, port: int) -> None:
        self._stopped = False
        self._server = _Listener(port, self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        with self.changed:
            self._stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def restart(self, *, seconds: float = 0.0) -> None:
        """End with every connection, and come back with the same objects and no past."""
        port = self._server.server_address[1]
        self.stop()
        self._server.cut()
        time.sleep(seconds)
        self.forget()
        self._start(port)

    def cut_watches(self) -> None:
        """Cut every connection, as a load balancer does."""
        self._server.cut()

    # What tests do

    def put(self, collection: str, item: Object) -> Object:
        """Make or change an object, as another client would."""
        with self.changed:
            metadata = item["metadata"]
            key = (collection, metadata.get("namespace", ""), metadata["name"])
            present = self.objects.get(key)
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            if collection.rpartition("/")[2] in self.schemas:
                same = present is not None and present.get("spec") == item.get("spec")
                former = int(present["metadata"]["generation"]) if present else 0
                metadata["generation"] = former if same else former + 1
            self.objects[key] = json.loads(json.dumps(item))
            kind = "ADDED" if present is None else "MODIFIED"
            self.events.append((self.version, collection, kind, self.objects[key]))
            for look in self.after_put:
                look()
            self.changed.notify_all()
            return self.objects[key]

    def discovery(self) -> dict[str, Object]:
        """Return what every account may read, by path: versions, groups and schemas."""
        documents: dict[str, Object] = {"/version": {"gitVersion": "v1.34.0"}}
        if self.versions:
            versions = [{"version": name} for name in self.versions]
            documents[f"/apis/{KUEUE}"] = {"kind": "APIGroup", "name": KUEUE, "versions": versions}
        for name in self.versions:
            schemas = {
                f"io.x-k8s.kueue.{name}.{_KINDS[plural]}": {
                    **schema,
                    "x-kubernetes-group-version-kind": [
                        {"group": KUEUE, "version": name, "kind": _KINDS[plural]}
                    ],
                }
                for plural, schema in self.schemas.items()
                if plural in _KINDS
            }
            documents[f"/openapi/v3/apis/{KUEUE}/{name}"] = {"components": {"schemas": schemas}}
        return documents

    def kept(self, collection: str, present: Object | None, body: Object, part: str) -> Object:
        """Return an object after a write of its status, or of all but that, as its schema names it."""
        schema = self.schemas.get(collection.rpartition("/")[2])
        if schema is None:
            return body
        if part == "status":
            after = {**(present or {}), "status": body.get("status", {})}
        else:
            after = {name: value for name, value in body.items() if name != "status"}
            if present is not None and "status" in present:
                after["status"] = present["status"]
        whole = {"apiVersion": ANY, "kind": ANY, "metadata": ANY, **schema["properties"]}
        return copy.deepcopy(pruned(after, {"properties": whole}))

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
                known = server.discovery().get(urlsplit(self.path).path)
                if known and self.headers["Authorization"] == f"Bearer {server.TOKEN}":
                    self._json(200, known)
                    return
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
                if self.path == REVIEWS:
                    self._review()
                else:
                    self._write("POST")

            def _review(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = review["spec"]["resourceAttributes"]
                part = f"/{asked['subresource']}" if asked.get("subresource") else ""
                group = f".{asked['group']}" if asked["group"] else ""
                refused = (asked["verb"], f"{asked['resource']}{part}{group}") in server.forbidden
                self._json(201, {**review, "status": {"allowed": not refused}})

            def do_PUT(self) -> None:
                self._write("PUT")

            def do_PATCH(self) -> None:
                if self.headers["Content-Type"] != MERGE_PATCH:
                    self._status(415, "UnsupportedMediaType", "only merge patches are accepted")
                else:
                    self._write("PATCH")

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
                before = server.before_post if method == "POST" else server.before_put
                if before:
                    before.pop(0)()
                with server.changed:
                    key = (collection, namespace, name or body["metadata"]["name"])
                    present = server.objects.get(key)
                    if (present is not None) if method == "POST" else (present is None):
                        reason = "AlreadyExists" if method == "POST" else "NotFound"
                        self._status(409 if method == "POST" else 404, reason, str(key))
                        return
                    version = body.get("metadata", {}).get("resourceVersion")
                    if present and present["metadata"]["resourceVersion"] != version:
                        self._status(409, "Conflict", "the object has been modified")
                        return
                    wanted = merge_patched(present, body) if method == "PATCH" else body
                    after = server.kept(collection, present, wanted, self._part(path))
                    schema = server.schemas.get(collection.rpartition("/")[2])
                    problem = problem_of(after, schema) if schema else ""
                    if problem:
                        self._status(422, "Invalid", problem)
                        return
                    server.writes.append((method, path, body))
                    if path in server.lies:
                        self._json(200, after if server.lies[path] == "new" else present or {})
                        return
                    self._json(201 if method == "POST" else 200, server.put(collection, after))

            def _part(self, path: str) -> str:
                match = _PATH.fullmatch(path)
                return (match and match["part"]) or ""

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
                if self.command in ("POST", "PUT", "PATCH"):
                    server.answers.append(code)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
