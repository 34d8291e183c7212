"""Clients that change everything a pool is made of, and know what must be stored afterwards."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.faults.clients import PATIENCE_SECONDS, RETRY_SECONDS

# What a change is answered with once it is made, and what says that it may be asked again.
_DONE = (200, 201, 202, 204)
_AGAIN = (409, 425, 429)


@dataclass
class Kept:
    """What was accepted of one object: members of its document, and its last version if it has any."""

    members: dict[str, Any]
    version: int | None = None


@dataclass
class Accepted:
    """All that a client was told is stored, by path; and what it asked for under keys, by id."""

    objects: dict[str, Kept] = field(default_factory=dict)
    simulations: list[str] = field(default_factory=list)
    repeated: int = 0
    wrongs: list[str] = field(default_factory=list)


class Changer(threading.Thread):
    """Makes and changes workloads, servers, weights and the policy of a pool that nobody else changes.

    Every request is repeated until it is answered. Of a PATCH whose answer was lost, the repeat says
    412 and the object shows whether it was made: it was, or somebody lost an update.
    """

    def __init__(self, url: str, key: str, pool: str, seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._url, self._pool, self._pause = url, f"/api/v1/pools/{pool}/", pause
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"
        self._chance = random.Random(seed)
        self._number = 0
        self._seed = seed
        self.pool = pool
        self.attempts = 0
        self.changes = 0
        self.accepted = Accepted()
        self.enough = threading.Event()
        self._workloads: list[str] = []
        self._servers: list[str] = []

    def run(self) -> None:
        kinds = [
            self._submit, self._submit, self._change_workload, self._change_workload, self._withdraw,
            self._contribute, self._change_server, self._drain_or_activate, self._change_weight,
            self._change_policy, self._simulate,
        ]  # fmt: skip
        try:
            self._submit()
            self._contribute()
            while not self.enough.is_set():
                self._chance.choice(kinds)()
                self.changes += 1
                time.sleep(self._pause)
        except Exception as error:  # noqa: BLE001 - whatever ends this thread is found by the checker
            self.accepted.wrongs.append(f"{type(error).__name__}: {error}")

    # What it does.

    def _submit(self) -> None:
        name = self._new_name("work")
        body = {"tenant": f"{self.pool}-{1 + self._number % 2}", "name": name, **self._demand()}
        made = self._post("workloads/", body)
        self._workloads.append(self._keep(f"{self._pool}workloads/{made['id']}/", body, made))

    def _change_workload(self) -> None:
        if self._workloads:
            change = {**self._demand(), "priority": self._chance.randrange(-5, 6)}
            self._patch(self._chance.choice(self._workloads), change)

    def _withdraw(self) -> None:
        if len(self._workloads) > 10:
            path = self._workloads.pop(self._chance.randrange(len(self._workloads)))
            self._patch(path, {"state": "withdrawn"})

    def _contribute(self) -> None:
        body = {"name": self._new_name("node"), "capacity": {"cpu": 8, "memory": 32}}
        made = self._post("servers/", body)
        self._servers.append(self._keep(f"{self._pool}servers/{made['id']}/", body, made))

    def _change_server(self) -> None:
        if self._servers:
            capacity = {
                "cpu": self._chance.randrange(4, 32),
                "memory": self._chance.randrange(8, 64),
            }
            self._patch(self._chance.choice(self._servers), {"capacity": capacity})

    def _drain_or_activate(self) -> None:
        if self._servers:
            path = self._chance.choice(self._servers)
            how, state = self._chance.choice([("drain", "draining"), ("activate", "active")])
            made = self._until_answered("POST", f"{path}{how}/", None).json()
            self._keep(path, {**self.accepted.objects[path].members, "state": state}, made)

    def _change_weight(self) -> None:
        path = f"{self._pool}members/{self.pool}-{1 + self._chance.randrange(2)}/"
        weight = self._chance.randrange(1, 20)
        self._patch(path, {"weight": weight, "best_effort": False}, method="PUT")

    def _change_policy(self) -> None:
        policy = self._chance.choice([
            {"name": "drfh", "mode": "divisible"},
            {"name": "drfh", "mode": "indivisible"},
            {"name": "asset", "mode": "divisible"},
        ])  # fmt: skip
        self._patch(self._pool, {"policy": policy})

    def _simulate(self) -> None:
        change = {"workloads": {"submit": [
            {"tenant": f"{self.pool}-1", "name": "what-if", **self._demand()},
        ]}}  # fmt: skip
        made = self._post("simulations/", change)
        self.accepted.simulations.append(f"/api/v1/simulations/{made['id']}/")

    # How it asks.

    def _post(self, below: str, body: dict[str, Any]) -> Any:
        """Ask under a key; now and then again after the answer: it must be the same one."""
        key = self._new_name("key")
        made = self._until_answered("POST", f"{self._pool}{below}", body, key).json()
        if self._chance.random() < 0.3:
            again = self._until_answered("POST", f"{self._pool}{below}", body, key).json()
            self.accepted.repeated += 1
            if again != made:
                self.accepted.wrongs.append(f"key {key}: answered {made} and then {again}")
        return made

    def _patch(self, path: str, change: dict[str, Any], method: str = "PATCH") -> None:
        """Change one version of an object, and know from its next one whether that was done."""
        while True:
            before = self._until_answered("GET", path, None)
            tag = before.headers["ETag"]
            answer = self._until_answered(method, path, change, tag=tag, final=(*_DONE, 412))
            made = answer.json() if answer.status_code in _DONE else None
            if made is None:  # an attempt before this one may have been made
                made = self._until_answered("GET", path, None).json()
                if made["version"] == before.json()["version"]:
                    continue
                if made["version"] != before.json()["version"] + 1:
                    self.accepted.wrongs.append(f"{path}: {before.text} became {made} by {change}")
            known = self.accepted.objects.get(path)
            self._keep(path, {**(known.members if known else {}), **change}, made)
            return

    def _until_answered(
        self,
        method: str,
        path: str,
        body: object,
        key: str = "",
        *,
        tag: str = "",
        final: tuple[int, ...] = _DONE,
    ) -> requests.Response:
        headers = {"Idempotency-Key": key} if key else {"If-Match": tag} if tag else {}
        calm: float | None = None
        while calm is None or time.monotonic() < calm:
            if calm is None and self.enough.is_set():
                calm = time.monotonic() + PATIENCE_SECONDS
            self.attempts += 1
            try:
                answer = self._session.request(
                    method, f"{self._url}{path}", json=body, headers=headers, timeout=10
                )
            except requests.RequestException:
                time.sleep(RETRY_SECONDS)
                continue
            if answer.status_code in final:
                return answer
            if answer.status_code < 500 and answer.status_code not in _AGAIN:
                raise _GivenUp(f"{method} {path} {body}: {answer.status_code} {answer.text[:300]}")
            time.sleep(RETRY_SECONDS)
        raise _GivenUp(f"{method} {path}: not answered within {PATIENCE_SECONDS:.0f} s of calm")

    def _keep(self, path: str, members: dict[str, Any], made: dict[str, Any]) -> str:
        self.accepted.objects[path] = Kept(members, made.get("version"))
        return path

    def _demand(self) -> dict[str, Any]:
        demand = {"cpu": self._chance.randrange(1, 5), "memory": self._chance.randrange(1, 9)}
        return {"demand": demand, "tasks": self._chance.randrange(1, 30)}

    def _new_name(self, kind: str) -> str:
        self._number += 1
        return f"{self.pool}-{kind}-{self._seed}-{self._number:05d}"


class _GivenUp(Exception):
    """A request that is refused, or not answered long after the storm."""


class Follower(threading.Thread):
    """A consumer of the ledger that goes on from its cursor, whatever happens to the service."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(daemon=True)
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"}
        self._cursor: str | None = None
        self.entries: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            self.read()
            time.sleep(0.3)

    def read(self) -> bool:
        """Read what there is; whether that was all."""
        while True:
            after = {"after": self._cursor} if self._cursor else {}
            try:
                answer = requests.get(
                    f"{self._url}/api/v1/ledger-entries/",
                    params={**after, "limit": "1000"},
                    headers=self._headers,
                    timeout=10,
                )
                page = answer.json() if answer.status_code == 200 else None
            except requests.RequestException:
                return False
            if page is None:
                return False
            self.entries += [entry["id"] for entry in page["results"]]
            self._cursor = page["next_cursor"] or self._cursor
            if page["next"] is None:
                return True


@dataclass(frozen=True)
class Read:
    """One GET: when it was asked (monotonic), for how long, and whether it was answered with 200."""

    at: float
    seconds: float
    answered: bool


class Reader(threading.Thread):
    """Reads a decision again and again, as a dashboard does; gives up after five seconds each.

    One that fails is asked for again so often that there are `tries` in all.
    """

    GIVE_UP_SECONDS = 5.0
    PAUSE_SECONDS = 0.1

    def __init__(self, url: str, key: str, pool: str, tries: int = 1) -> None:
        super().__init__(daemon=True)
        self._tries = tries
        self._address = f"{url}/api/v1/pools/{pool}/decision/"
        self._headers = {"Authorization": f"Bearer {key}"}
        self.reads: list[Read] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            begin = time.monotonic()
            answered = any(self._read() for _ in range(self._tries))
            self.reads.append(Read(begin, time.monotonic() - begin, answered))
            time.sleep(self.PAUSE_SECONDS)

    def _read(self) -> bool:
        try:
            answer = requests.get(
                self._address, headers=self._headers, timeout=self.GIVE_UP_SECONDS
            )
        except requests.RequestException:
            return False
        return answer.status_code == 200


def availability(reads: list[Read], begin: float, end: float) -> tuple[float, float]:
    """The part of the reads within a time that were answered, and its longest time without any.

    A time without is from the begin of the first read that failed to the end of the next that did not.
    """
    within = [read for read in reads if begin <= read.at < end]
    longest, since = 0.0, None
    for read in within:
        if read.answered:
            if since is not None:
                longest = max(longest, read.at + read.seconds - since)
            since = None
        elif since is None:
            since = read.at
    if since is not None:
        longest = max(longest, end - since)
    answered = sum(read.answered for read in within)
    return (answered / len(within) if within else 1.0), longest
