"""The objects of one kind, listed once and kept up to date by watching."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allocator_agent.errors import AgentError, SchedulerAway
from allocator_agent.kubernetes.api import Api, Gone, Manifest, api_refusal

logger = logging.getLogger("allocator_agent")
_PAGE = "500"
_WATCH_SECONDS = 240
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0
# So long after a watch should have ended or sent an event, the known objects are too old to act on.
_TRUSTED_SECONDS = 60.0
Changed = Callable[[Sequence[Manifest], Sequence[Manifest]], None]  # objects before and after


class Watched:
    """Objects of one kind, kept up to date by `follow` in its own thread and read from any thread."""

    def __init__(self, api: Api, path: str, *, watch_seconds: int = _WATCH_SECONDS) -> None:
        self.path = path
        self._api, self._watch_seconds = api, watch_seconds
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._objects: dict[str, Manifest] = {}
        self._version = ""
        self._fresh_at = 0.0
        self._following = False
        self.lists = 0  # how often everything was listed
        self.changed: Changed | None = None  # called by `follow`

    def objects(self) -> list[Manifest]:
        """Return the objects, listed now or as last watched.

        Raises `SchedulerAway` when the last event is long ago.
        """
        if self._following:
            self._list_once()
        else:
            self.list()
        with self._lock:
            if time.monotonic() - self._fresh_at > self._watch_seconds + _TRUSTED_SECONDS:
                raise SchedulerAway(f"{self.path} can no longer be watched")
            return [*self._objects.values()]

    def list(self) -> Sequence[Manifest]:
        """Read and return everything anew, page by page, and again if the list expired on the way."""
        while True:
            try:
                objects, version = self._pages()
            except Gone:
                continue
            with self._lock:
                before = [*self._objects.values()]
                self._objects, self._version = objects, version
                self._fresh_at = time.monotonic()
                self.lists += 1
                is_first = self.lists == 1
            after = [*objects.values()]
            if not is_first:
                self._notice(before, after)
            return after

    def follow(self, stopped: threading.Event) -> None:
        """Watch the objects until stopped, and list them again if events have expired."""
        self._following = True
        pause = _FIRST_PAUSE_SECONDS
        while not stopped.is_set():
            if self._followed(stopped):
                pause = _FIRST_PAUSE_SECONDS
            else:
                stopped.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _list_once(self) -> None:
        """List where nothing is known. Other threads wait for the first that asks."""
        with self._listing:
            if not self._version:
                self.list()

    def _followed(self, stopped: threading.Event) -> bool:
        """Run one watch. Return False when the server did not answer or refused."""
        try:
            self._list_once()
            listed = self.lists
            try:
                self._watch(stopped)
            except Gone:
                with self._lock:
                    if self.lists == listed:  # what was listed meanwhile is newer than what is gone
                        self._version = ""
        except AgentError as error:
            logger.warning("%s: %s", self.path, error)
            return False
        return True

    def _notice(self, before: Sequence[Manifest], after: Sequence[Manifest]) -> None:
        if self.changed is not None:
            self.changed(before, after)

    def _pages(self) -> tuple[dict[str, Manifest], str]:
        objects: dict[str, Manifest] = {}
        query = {"limit": _PAGE}
        while True:
            page = self._api.request("GET", self.path, query=query)
            for item in page.get("items") or []:
                objects[_identity(item)] = item
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return objects, str(metadata.get("resourceVersion", ""))
            query["continue"] = metadata["continue"]

    def _watch(self, stopped: threading.Event) -> None:
        """Process events until the watch ends. Raises `Gone` when its version has expired."""
        for event in self._api.watch(self.path, self._version, seconds=self._watch_seconds):
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise api_refusal(int(item.get("code", 0)), item)
            before = after = None
            with self._lock:
                if kind != "BOOKMARK":
                    before = self._objects.get(_identity(item))
                if kind == "DELETED":
                    self._objects.pop(_identity(item), None)
                elif kind in ("ADDED", "MODIFIED"):
                    self._objects[_identity(item)] = after = item
                self._version = item["metadata"]["resourceVersion"]
                self._fresh_at = time.monotonic()
            self._notice([before] if before else [], [after] if after else [])
            if stopped.is_set():
                return
        with self._lock:
            self._fresh_at = time.monotonic()


def _identity(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
