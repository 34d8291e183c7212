"""Scenarios of backtests, which are the same for every policy.

A scenario has servers, tenants and tasks as arrays. It is stored as bytes and identified by a digest.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import orjson

from allocator_service.backtests.trees import tree_fields, tree_moments
from policies import Gang, Problem, Window
from policies.simulation import ServerChanges, Trace

# What is larger than a server by less than this part of it is as large.
_ROUNDING = 1e-9
_ARRAYS = {
    "workload_tenant": np.int64,
    "demand": np.float64,
    "priority": np.int64,
    "capacity": np.float64,
    "server_count": np.int64,
    "contributed_by": np.int64,
    "task_workload": np.int64,
    "task_submit": np.float64,
    "task_duration": np.float64,
    "task_job": np.int64,
    "change_time": np.float64,
    "change_server": np.int64,
    "change_joins": np.bool_,
}


@dataclass(frozen=True, eq=False)
class Scenario:
    """Tasks and servers in the order of their arrays.

    `head` is JSON: `resources` and `units`, `tenants` (name, weight, best_effort, and as `pk` the
    tenant whose prices count), `tree` in pools with groups (see `trees`), `labels` of server rows,
    `selectors` of workloads, `gangs` (pieces of tasks by number of the workload), `weights`, `origin`
    (the instant of second 0), `step` (seconds) and `window`. `arrays` are those of `_ARRAYS`.
    """

    head: Mapping[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, head: Mapping[str, Any], **arrays: Any) -> Self:
        """Create a scenario from arrays, which are converted to the right kinds.

        Rows of demand and capacity are by resource.
        """
        made: dict[str, npt.NDArray[Any]] = {
            name: np.asarray(arrays[name], dtype=kind) for name, kind in _ARRAYS.items()
        }
        for name in ("demand", "capacity"):
            made[name] = made[name].reshape(-1, len(head["resources"]))
        return cls(head, made)

    @property
    def digest(self) -> str:
        """SHA-256 of the head, as JSON with sorted names, and of the arrays by name."""
        found = hashlib.sha256(orjson.dumps(self.head, option=orjson.OPT_SORT_KEYS))
        # With the shape: arrays of equal bytes can differ in their rows.
        for name, array in sorted(self.arrays.items()):
            found.update(f"{name}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    def to_bytes(self) -> bytes:
        """Return the scenario as bytes for `from_bytes`."""
        file = io.BytesIO()
        head = np.frombuffer(orjson.dumps(self.head), dtype=np.uint8)
        # The head as an array of bytes: an object would be written as a pickle.
        columns: dict[str, Any] = {"head": head, **self.arrays}
        np.savez_compressed(file, **columns)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        # Reading a pickle runs what it contains: a row of the database must not be code.
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            head = orjson.loads(file["head"].tobytes())
            return cls(head, {name: file[name] for name in _ARRAYS})

    @property
    def origin(self) -> datetime:
        """The instant of second 0."""
        return datetime.fromisoformat(self.head["origin"])

    def instant(self, second: float) -> datetime | None:
        """Return the instant of a second, or None beyond the calendar."""
        try:
            return self.origin + timedelta(seconds=second)
        except OverflowError:
            return None

    @property
    def tenants(self) -> Sequence[str]:
        return [tenant["name"] for tenant in self.head["tenants"]]

    @cached_property
    def problem(self) -> Problem:
        """The servers, tenants and kinds of tasks. Raises `ProblemError` for invalid servers."""
        head, arrays = self.head, self.arrays
        return Problem.create(
            resources=head["resources"],
            units=head["units"],
            capacity=arrays["capacity"],
            server_count=arrays["server_count"],
            server_labels=head["labels"],
            contributed_by=arrays["contributed_by"],
            tenants=self.tenants,
            **self._terms(0.0),
            weights_mode=head["weights"],
            workload_tenant=arrays["workload_tenant"],
            demand=arrays["demand"],
            priority=arrays["priority"],
            selectors=head["selectors"],
            gangs={int(number): gang_from(fields) for number, fields in self.gangs.items()},
        )

    @property
    def gangs(self) -> Mapping[str, Any]:
        """The pieces of tasks by number of the workload. Older scenarios have none."""
        gangs: Mapping[str, Any] = self.head.get("gangs", {})
        return gangs

    def _terms(self, second: float) -> dict[str, Any]:
        """Return the weights, groups, tiers and amounts at a second, as fields of a problem."""
        if "tree" in self.head:
            return tree_fields(self.head["tree"], second, self.head["resources"])
        return {
            name: [row[name] for row in self.head["tenants"]] for name in ("weight", "best_effort")
        }

    @cached_property
    def terms(self) -> list[tuple[float, Problem]]:
        """The problems as of later seconds at which weights, groups, tiers or amounts changed."""
        tree = self.head.get("tree")
        moments = [] if tree is None else tree_moments(tree)
        return [(moment, replace(self.problem, **self._terms(moment))) for moment in moments]

    @cached_property
    def trace(self) -> Trace:
        """The tasks. Raises `ProblemError` for invalid times."""
        arrays = self.arrays
        return Trace.create(
            workload=arrays["task_workload"],
            submit=arrays["task_submit"],
            duration=arrays["task_duration"],
            job=arrays["task_job"],
        )

    def drawn(self, seed: int) -> Trace:
        """Return a trace of as many jobs, drawn with replacement, each at its own time once per draw."""
        trace, random = self.trace, np.random.default_rng(seed)
        # Whole jobs are drawn: their tasks were submitted together, and are no independent sample.
        by_job = np.argsort(trace.job, kind="stable")
        # Positions in `by_job` at which another job begins, and its end.
        edges = np.flatnonzero(np.diff(trace.job[by_job], prepend=-1, append=-1))
        sizes = np.diff(edges)
        jobs = np.sort(random.integers(len(sizes), size=len(sizes)))
        numbers = np.repeat(np.arange(len(jobs)), sizes[jobs])
        # 0, 1, 2, ... within each drawn job.
        within = np.arange(len(numbers)) - np.repeat(
            np.cumsum(sizes[jobs]) - sizes[jobs], sizes[jobs]
        )
        tasks = by_job[np.repeat(edges[:-1][jobs], sizes[jobs]) + within]
        part = trace.part(tasks)
        return Trace.create(
            workload=part.workload, submit=part.submit, duration=part.duration, job=numbers
        )

    @cached_property
    def allowed(self) -> list[list[int]]:
        """The rows of servers with the labels that tasks of each kind ask for."""
        found: dict[str, list[int]] = {}
        for selector in self.head["selectors"]:
            asked = orjson.dumps(selector).decode()
            # Thousands of kinds of tasks share a few selectors.
            if asked not in found:
                found[asked] = [
                    row
                    for row, each in enumerate(self.head["labels"])
                    if all(each.get(label) in values for label, values in selector.items())
                ]
        return [found[orjson.dumps(selector).decode()] for selector in self.head["selectors"]]

    @cached_property
    def fitting(self) -> npt.NDArray[np.bool_]:
        """(n,) True if a task of each kind fits on empty servers, with its selectors and pieces."""
        arrays = self.arrays
        fits = np.zeros(len(arrays["demand"]), dtype=np.bool_)
        for kind, (demand, rows) in enumerate(zip(arrays["demand"], self.allowed, strict=True)):
            gang = self.gangs.get(str(kind))
            if gang is not None:
                fits[kind] = self._has_room(gang_from(gang), rows)
                continue
            fits[kind] = self.has_place(demand, rows)
        return fits

    def has_place(self, demand: npt.NDArray[np.float64], rows: Sequence[int]) -> bool:
        """Return whether an empty server of some rows has room for a demand."""
        # As policies compare: a task that fills a server exactly must not fail by its last digit.
        room = self.arrays["capacity"][rows] * (1 + _ROUNDING)
        return bool((demand <= room).all(axis=1).any())

    def _has_room(self, gang: Gang, rows: Sequence[int]) -> bool:
        """Return whether each kind of pieces by itself fits on empty servers of some rows."""
        zones: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            labels = self.head["labels"][row]
            value = labels.get(gang.together) if gang.together else ""
            # A server without the label belongs to no zone.
            if value is not None:
                cluster = labels.get("cluster", "") if gang.together else ""
                # With the cluster: racks of two clusters may have the same name.
                zones.setdefault((cluster, value), []).append(row)
        return any(
            all(
                self._places(demand, gang, mine) >= count
                for count, demand in zip(gang.count, gang.demand, strict=True)
            )
            for mine in zones.values()
        )

    def _places(self, demand: npt.NDArray[np.float64], gang: Gang, rows: Sequence[int]) -> float:
        """Return how many pieces with a demand fit on the empty servers of some rows."""
        # Resources that a piece does not need bound nothing.
        room = self.arrays["capacity"][rows][:, demand > 0] * (1 + _ROUNDING)
        each = np.floor(room / demand[demand > 0]).min(axis=1)
        if gang.per_server:
            each = np.minimum(each, gang.per_server)
        return float(each @ self.arrays["server_count"][rows])

    @property
    def changes(self) -> ServerChanges:
        """The servers that join and leave."""
        arrays = self.arrays
        return ServerChanges.create(
            time=arrays["change_time"],
            server=arrays["change_server"],
            joins=arrays["change_joins"],
        )

    @property
    def window(self) -> Window:
        """The window of long-term policies."""
        given = self.head["window"]
        if given["kind"] == "sliding":
            return Window.sliding(given["length"])
        if given["kind"] == "decay":
            return Window.decay(given["half_life"])
        if given["kind"] == "tumbling":
            return Window.tumbling(given["boundaries"])
        return Window.unbounded()


def gang_fields(gang: Gang) -> dict[str, Any]:
    """Return the pieces of a task as JSON."""
    return {
        "count": gang.count.tolist(),
        "demand": gang.demand.tolist(),
        "per_server": gang.per_server,
        "together": gang.together,
        "at_least": gang.at_least,
    }


def gang_from(fields: Mapping[str, Any]) -> Gang:
    """Return the pieces of a task that `gang_fields` wrote."""
    return Gang(
        np.array(fields["count"], dtype=np.int64),
        np.array(fields["demand"], dtype=np.float64),
        per_server=fields["per_server"],
        together=fields["together"],
        at_least=fields["at_least"],
    )
