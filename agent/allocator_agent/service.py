"""The allocation service over HTTP, with timeouts, retries with backoff and idempotency keys."""

from __future__ import annotations

import json
import random
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from allocator_agent import __version__
from allocator_agent.configuration import Configuration
from allocator_agent.errors import Misconfigured, Refused, ServiceAway
from allocator_agent.model import Rendering, Terms

_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 5.0
_PAGE = 1000
# Not now, but perhaps soon: a twin of the same request is at work, too many requests, an overload.
_AGAIN = (429, 502, 503, 504)
_IN_FLIGHT = "idempotency.in_flight"
_TERMS = ("minimum_run_seconds", "notice_seconds", "churn", "interval_seconds")


@dataclass(frozen=True)
class Answer:
    """An answer of the service.

    `body` is the decoded JSON, None when there was none.
    """

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Known:
    """The state of the pool in the service at the start of a round.

    Servers and workloads are as the service lists them.
    """

    pool: dict[str, Any]  # its resources with their units, its policy, how it is metered
    places: bool  # whether the policy places tasks on servers: only then workloads select servers
    gangs: bool  # whether the policy places each piece of a task on a server
    members: frozenset[str]
    servers: list[dict[str, Any]]
    workloads: list[dict[str, Any]]
    groups: frozenset[str] = frozenset()
    has_clusters: bool = False  # members may be on other clusters only


class Service:
    """A pool of the service, as its agent sees it."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        sleep: Callable[[float], None] = time.sleep,
        attempts: int = _ATTEMPTS,
    ) -> None:
        self._configuration, self._sleep, self._attempts = configuration, sleep, attempts
        self._base = f"/api/v1/pools/{quote(configuration.pool, safe='')}/"
        self._rendered: dict[str, tuple[str, Rendering]] = {}
        self._context = None
        if configuration.url.startswith("https:"):
            try:
                self._context = ssl.create_default_context(cafile=configuration.ca_file or None)
            except OSError as error:
                raise Misconfigured(f"[service] ca_file cannot be read: {error}") from error

    def known(self) -> Known:
        """Return the pool with its members, servers, workloads and groups."""
        pool = self._request("GET", "").body
        policies = self._request("GET", "/api/v1/policies/?limit=1000").body["results"]
        name, mode = pool["policy"]["name"], pool["policy"]["mode"]
        policy: dict[str, Any] = next((item for item in policies if item["name"] == name), {})
        return Known(
            pool,
            policy.get("places", False),
            # A service that is older than gangs does not state them.
            policy.get("gangs", False) and mode == "indivisible",
            frozenset(member["tenant"] for member in self.listed("members")),
            self.listed("servers"),
            self.listed("workloads"),
            self._groups(),
        )

    def date(self) -> str:
        """Return the `Date` header of an answer about the pool, empty without one."""
        return self._request("GET", "").headers.get("Date", "")

    def write_problem(self) -> str:
        """Return the reason why the key may not import into the pool, empty if it may.

        Writes nothing.
        """
        # The service looks at the key before the rows, and a dry run of none stores none.
        body = {"format": "kubernetes", "content": {"items": []}, "dry_run": True}
        try:
            self._request("POST", "imports/nodes/", body)
        except Refused as refusal:
            return refusal.detail
        return ""

    def has_clusters(self) -> bool:
        """Return true if the pool has several clusters, which an older service does not know."""
        try:
            return bool(self._request("GET", "clusters/").body["clusters"])
        except Refused:
            return False

    def may_read(self, path: str) -> bool:
        """Return true if the key may read a path."""
        try:
            self._request("GET", path)
        except Refused:
            return False
        return True

    def _groups(self) -> frozenset[str]:
        """Return the slugs of the pool's groups, or none if the service is older than groups."""
        try:
            return frozenset(group["slug"] for group in self.listed("groups"))
        except Refused as refusal:
            if refusal.status == 404:
                return frozenset()
            raise

    def import_rows(self, kind: str, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Import nodes, workloads or usage. Return the report, and the generation that includes it."""
        answer = self._request("POST", f"imports/{kind}/", body)
        return answer.body, int(answer.headers.get("Pool-Generation", answer.body["generation"]))

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """Return every member, server or workload of the pool that is not retired or withdrawn."""
        found: list[dict[str, Any]] = []
        path: str | None = f"{kind}/?limit={_PAGE}"
        while path:
            page = self._request("GET", path).body
            found += page["results"]
            following = page["next"]
            path = following and following[following.index(self._base) + len(self._base) :]
        return found

    def withdraw(self, workload: Mapping[str, Any]) -> int:
        """Withdraw a workload. Return the generation that includes it, 0 if it was changed meanwhile."""
        tag = f'"v{workload["version"]}"'
        try:
            answer = self._request("DELETE", f"workloads/{workload['id']}/", tag=tag)
        except Refused as refusal:
            if refusal.status in (404, 410, 412):  # the next round sees it
                return 0
            raise
        return int(answer.headers.get("Pool-Generation", 0))

    def drain(self, server: Mapping[str, Any]) -> None:
        self._request("POST", f"servers/{server['id']}/drain/", {})

    def decided_generation(self) -> int | None:
        """Return the generation that the decision in force includes, None without a decision."""
        try:
            body = self._request("GET", "decision/").body
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        return int(body["generation"])

    def rendering(self, target: str, class_label: str, quota: str = "hard") -> Rendering | None:
        """Return the decision in force for a kind of scheduler, None without a decision."""
        query = urlencode({"class_label": class_label, "quota": quota})
        known = self._rendered.get(target)
        try:
            answer = self._request(
                "GET",
                f"decision/renderings/{target}/?{query}",
                tag=known[0] if known else "",
            )
        except Refused as refusal:
            if refusal.code == "decision.none":
                return None
            raise
        if answer.status == 304 and known:
            return known[1]
        body = answer.body
        # A service that is older than these terms does not state them.
        terms = body.get("reclaim")
        rendering = Rendering(
            body["run"],
            body["generation"],
            body["tenants"],
            body["objects"],
            Terms(**{name: terms[name] for name in _TERMS}, workloads=_minima(terms))
            if terms
            else Terms(),
            reports_ends=terms is not None,
        )
        if "ETag" in answer.headers:
            self._rendered[target] = (answer.headers["ETag"], rendering)
        return rendering

    def notices(self, agent: str) -> dict[str, int]:
        """Return the ends of jobs that the agent gave notice of, in seconds since 1970."""
        found: dict[str, int] = {}
        for row in self._request("GET", "enforcement/").body["tenants"]:
            for each in row.get("ending", ()):
                if each["agent"] == agent and not each["ended"]:
                    moment = datetime.fromisoformat(each["ends_at"].replace("Z", "+00:00"))
                    found[each["name"]] = int(moment.timestamp())
        return found

    def report(self, body: dict[str, Any]) -> None:
        """Report the applied limits. It is ignored if a newer report exists."""
        try:
            self._request("PUT", "enforcement/", body)
        except Refused as refusal:
            if refusal.code != "enforcement.older":
                raise

    def _request(self, method: str, path: str, body: object = None, *, tag: str = "") -> Answer:
        """Send a request until there is a definite answer. Raises `Refused` or `ServiceAway`."""
        key = str(uuid.uuid4())  # one key for all attempts: a repeated one changes nothing
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                answer = self._ask(method, path, body, key, tag)
            except (OSError, HTTPException, ValueError) as error:
                if last:
                    raise ServiceAway(
                        f"{self._configuration.url} does not answer: {error}"
                    ) from error
                self._sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that agents spread
            else:
                problem = answer.body if isinstance(answer.body, dict) else {}
                in_flight = problem.get("code") == _IN_FLIGHT
                again = in_flight or answer.status in _AGAIN
                if answer.status < 400:
                    return answer
                # The key of a killed web process stays locked until the database closes its session.
                if (answer.status >= 500 or in_flight) and (last or not again):
                    raise ServiceAway(f"{method} {path} was answered with {answer.status}")
                if last or not again:
                    raise _refusal(answer.status, problem)
                self._sleep(max(pause, _retry_after(answer.headers)))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    def _ask(self, method: str, path: str, body: object, key: str, tag: str) -> Answer:
        request = urllib.request.Request(
            self._configuration.url + (path if path.startswith("/") else self._base + path),
            method=method,
            headers={
                "Accept": "application/json",
                "Authorization": f"Bearer {self._configuration.key}",
                "User-Agent": f"allocator-agent/{__version__} {self._configuration.name}",
            },
        )
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        # The service stores the answer for a key, and a dry run writes nothing.
        if method == "POST" and not (isinstance(body, dict) and body.get("dry_run")):
            request.add_header("Idempotency-Key", key)
        if tag:
            request.add_header("If-None-Match" if method == "GET" else "If-Match", tag)
        try:
            with urllib.request.urlopen(
                request, timeout=self._configuration.timeout, context=self._context
            ) as response:
                content = response.read()
                body = json.loads(content) if content else None
                return Answer(response.status, dict(response.headers), body)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, dict(refusal.headers), _body(refusal.read()))


def _body(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _minima(terms: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the minima of workloads. A service that is older than these states none."""
    return {
        (each["tenant"], each["workload"]): each["minimum_run_seconds"]
        for each in terms.get("workloads", ())
    }


def _refusal(status: int, problem: Mapping[str, Any]) -> Refused:
    errors = problem.get("errors") or []
    details = [f"{item.get('pointer', '')} {item.get('detail', '')}".strip() for item in errors[:3]]
    text = " ".join([str(problem.get("detail") or problem.get("title") or ""), *details])
    return Refused(status, str(problem.get("code", "")), text.strip())


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("Retry-After", "")
    return min(float(value), _LONGEST_PAUSE_SECONDS) if value.isdecimal() else 0.0
