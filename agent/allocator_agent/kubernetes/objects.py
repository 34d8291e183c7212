"""Objects of a cluster, which are watched, and written at the version that was read."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from allocator_agent.errors import AgentError, SchedulerAway
from allocator_agent.kubernetes.api import Absent, Api, ApiRefused, Conflict, Manifest
from allocator_agent.kubernetes.quotas import (
    COHORTS,
    QUEUES,
    Change,
    differs,
    fenced,
    grown,
    merged,
    without_quota,
)
from allocator_agent.kubernetes.watching import Watched

_ATTEMPTS = 5
_SERVER_ERROR = 500  # from this status on a write may still be carried out


class NotKept(AgentError):
    """An object has other quotas than were written, or than the plan knows."""


class Objects:
    """The objects of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stopped: threading.Event | None = None
        # By path, the objects as they were read before a write to which there was no answer.
        self._unanswered: dict[str, Manifest] = {}
        # Paths whose present version is of this process, so that no earlier write can be carried out.
        self._fenced: set[str] = set()
        self._watched: dict[str, Watched] = {}

    def _watch(self, stopped: threading.Event) -> None:
        """Watch all objects from now on, each kind in a thread of its own."""
        self._stopped = stopped
        for watched in self._watched.values():
            _in_thread(watched, stopped)

    def _objects(self, path: str) -> list[Manifest]:
        return self._objects_at(path).objects()

    def listed(self, path: str) -> Sequence[Manifest]:
        """Read all objects of a path anew."""
        return self._objects_at(path).list()

    def _objects_at(self, path: str) -> Watched:
        if path not in self._watched:
            self._watched[path] = Watched(self._api, path)
            if self._stopped is not None:
                _in_thread(self._watched[path], self._stopped)
        return self._watched[path]

    def _tried(self, change: Change, required: Manifest) -> list[str]:
        try:
            self._write(change, required)
        except ApiRefused as refusal:
            return [f"{change.after['kind']} {change.after['metadata']['name']}: {refusal}"]
        return []

    def _write(self, change: Change, required: Manifest) -> None:
        """Write an object at the version that was read, and read it again after a conflict."""
        path = change.kind.path(change.after)
        for _ in range(_ATTEMPTS):
            present = self._read(path)
            try:
                if present is None and change.kind in (COHORTS, QUEUES):
                    # A POST names no version and may be carried out late, so it creates no quota.
                    body = without_quota(required)
                    self._api.request("POST", change.kind.collection(change.after), body)
                    continue
                if present is None:
                    self._api.request("POST", change.kind.collection(change.after), required)
                elif differs(present, required):
                    self._send("PUT", path, merged(present, required), present)
            except Conflict:
                continue
            return
        raise SchedulerAway(f"{path} was changed by others {_ATTEMPTS} times in a row")

    def _send(self, method: str, path: str, body: Manifest, present: Manifest) -> Manifest:
        """Write an object at the version that was read, and keep it in mind without an answer."""
        written = path.removesuffix("/status")
        try:
            stored = self._api.request(method, path, body)
        except SchedulerAway as error:
            if not isinstance(error, ApiRefused) or error.status >= _SERVER_ERROR:
                self._unanswered[written] = present
                self._fenced.discard(written)
            raise
        self._unanswered.pop(written, None)
        self._fenced.add(written)
        return stored

    def _read(self, path: str) -> Manifest | None:
        try:
            return self._api.request("GET", path)
        except Absent:
            return None

    def _bump_version(self, path: str, version: str) -> Manifest | None:
        """Return an object at a later version than `version`, which is empty if it is unknown."""
        present = self._read(path)
        if present is None or version not in ("", version_of(present)):
            return present
        try:
            return self._send("PUT", path, fenced(present), present)
        except Conflict:
            return self._read(path)

    def _fence_unanswered(self, known: Mapping[str, Manifest]) -> list[str]:
        """Invalidate writes without an answer, and return problems.

        A write without an answer may wait in an API server, and is carried out later if its object
        still has the version that it names. Writes of an earlier process are unknown, so each object
        of `known` that this process has not written gets a new version.
        """
        problems = []
        for path in sorted({*self._unanswered, *known} - self._fenced):
            sent = self._unanswered.get(path)
            before = known.get(path, sent or {})
            label = f"{before.get('kind', '')} {path.rpartition('/')[2]}"
            try:
                now = self._bump_version(path, "" if sent is None else version_of(sent))
            except (ApiRefused, NotKept) as error:
                problems.append(f"{label}: {error}")
                continue
            self._unanswered.pop(path, None)
            self._fenced.add(path)
            more = grown(before, now) if now else []
            if more:
                problems.append(f"{label}: written meanwhile, it has {', '.join(more)}")
        return problems


def version_of(item: Manifest) -> str:
    return str(item["metadata"]["resourceVersion"])


def _in_thread(watched: Watched, stopped: threading.Event) -> None:
    threading.Thread(target=watched.follow, args=(stopped,), daemon=True).start()
