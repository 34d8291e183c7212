"""Job records of Slurm, as ``sacct --parsable2`` prints them.

Columns have names, with ``|`` between them. Memory is in binary units: ``16G`` are 16 GiB. Times
have no offset, so let sacct print UTC. Source: the manual page of sacct, Slurm 20.02 to 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from policies.errors import ProblemError
from policies.model.gangs import MOST_PIECES, Gang
from policies.simulation.traces.lines import (
    LARGEST,
    LineReader,
    TraceLineError,
    Unusable,
    fields,
    require,
)
from policies.simulation.traces.submitted import Submitted, Submitting

COMMAND = (
    "TZ=UTC sacct --allusers --allocations --parsable2 "
    "--format=JobID,User,Account,Submit,Start,End,AllocTRES,State"
)
OWNERS = {
    "account": "Account", "user": "User", "group": "Group", "partition": "Partition", "qos": "QOS",
}  # fmt: skip
# Columns with a job's resources, of which the first that is not empty counts; else CPUs and memory.
TRES, CPUS, NODES = ("AllocTRES", "ReqTRES"), ("AllocCPUS", "ReqCPUS", "NCPUS"), "NNodes"
MOST_NODES = 1_000_000
_UNKNOWN = ("", "Unknown", "None", "N/A")
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTPE]?)", re.ASCII)
# Before 21.08 ReqMem has a suffix for each CPU or for each node.
_REQUESTED = re.compile(r"([0-9.]+[KMGTPE]?)([cn]?)", re.ASCII)
_JOB = re.compile(r"[0-9]+", re.ASCII)
_YEAR_9999 = datetime(9999, 1, 1, tzinfo=UTC).timestamp()  # the calendar ends soon after
_GIB = {suffix: 2.0 ** (10 * power) for power, suffix in enumerate("KMGTPE", start=-2)}

Owner = Literal["account", "user", "group", "partition", "qos"]


def read_sacct(
    path: str | Path,
    *,
    tenant: Owner = "account",
    resources: Sequence[str] = ("cpu", "memory"),
    gangs: bool = True,
    most_tasks: int | None = None,
    skip_bad_lines: bool = False,
) -> Submitted:
    """Read the jobs that have run, with their times and the resources that they held.

    A job on several nodes is a gang with one piece on each, which has an even part of the job's
    resources. Elements of a job array, and components of a heterogeneous job, are tasks of one job.
    Jobs that never ran or have not ended, and steps of jobs, are left out and counted. Times are
    seconds since 1970.

    Args:
        path: of what ``COMMAND`` printed, packed with gzip or not; further columns do not matter.
            Without AllocTRES and ReqTRES, ReqCPUS (or AllocCPUS, NCPUS), ReqMem and NNodes are read.
        tenant: owner of a job: its account, user, group, partition or QOS.
        resources: of which a job may have some: ``cpu``, ``memory`` in GiB, ``gpu`` or another kind of
            generic resource; others of the file are passed over.
        gangs: True if all nodes of a job start at once; otherwise each is a task of its own.
        most_tasks: greatest number of tasks in the trace; unlimited unless given.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: the header, or a bad line: its number and why.
        ProblemTooLargeError: more tasks than allowed.
        ProblemError: no such owner of jobs, or no resources.
    """
    if tenant not in OWNERS:
        raise ProblemError(
            "trace.tenant", f"tenant is {tenant!r}; it must be one of {', '.join(OWNERS)}"
        )
    if not resources or len(set(resources)) != len(resources):
        raise ProblemError("trace.resource", "name each resource once, and at least one")
    reader, found = (
        LineReader(path, skip_bad_lines=skip_bad_lines),
        Submitting(resources, most_tasks),
    )
    header: list[str] = []
    for line in reader.lines():
        if not line.strip():
            continue
        if not header:
            header = _header(line, OWNERS[tenant], reader.number)
            continue
        try:
            job = dict(zip(header, fields(line, "|", len(header)), strict=True))
            reason = _left_out(job)
            if reason:
                found.left_out[reason] += 1
                continue
            submit, start, end = (_seconds(job[name], name) for name in ("Submit", "Start", "End"))
            require(start >= submit, f"it began {submit - start:g} s before it was submitted")
            require(end >= start, f"it ended {start - end:g} s before it began")
            if end == start:
                found.left_out["it ran for no time"] += 1
                continue
            owner = job[OWNERS[tenant]]
            require(bool(owner), f"{OWNERS[tenant]} is empty")
            amounts, nodes = _held(job, MOST_PIECES if gangs else MOST_NODES)
            demand = [amounts.get(name, 0.0) / nodes for name in resources]
            require(any(demand), f"it has no {' and no '.join(resources)}")
            require(max(demand) <= LARGEST, f"it has {max(demand):g} of a resource")
        except Unusable as error:
            reader.refuse(error)
            continue
        # 12_3 is element 3 of array 12, and 12+1 a component: all of them are job 12.
        number = _JOB.match(job["JobID"])
        gang = None
        if gangs and nodes > 1:
            gang = Gang(np.array([nodes]), np.array([demand]), per_server=1)
        found.add(
            owner, demand, submit, end - start,
            job=number[0].lstrip("0") if number else job["JobID"],
            tasks=nodes if gang is None else 1, gang=gang,
        )  # fmt: skip
    return found.done(reader)


def _header(line: str, owner: str, number: int) -> list[str]:
    """Return the names of the columns, with ``JobIDRaw`` as ``JobID``."""
    names = line.split("|")
    if "JobID" not in names:
        names = ["JobID" if name == "JobIDRaw" else name for name in names]
    missing = [name for name in ("JobID", owner, "Submit", "Start", "End") if name not in names]
    if not any(name in names for name in (*TRES, *CPUS)):
        missing.append(TRES[0])
    if missing or len(set(names)) != len(names):
        wrong = f"lacks {', '.join(missing)}" if missing else "has a column twice"
        raise TraceLineError(number, f"the header {wrong}: read what this prints: {COMMAND}")
    return names


def _left_out(job: Mapping[str, str]) -> str:
    """Return the reason for which a line is not a job that ran to its end, or an empty string."""
    # Listed by sacct without --allocations; what a step used is part of its job's allocation.
    if "." in job["JobID"]:
        return "it is a step of a job"
    if job["Start"] in _UNKNOWN:
        return "it never ran"
    return "it has not ended" if job["End"] in _UNKNOWN else ""


def _seconds(text: str, what: str) -> float:
    """Return the seconds since 1970 of a time as sacct prints it.

    It is in UTC, or already in seconds (``SLURM_TIME_FORMAT=%s``).
    """
    if text.isascii() and text.isdigit() and len(text) <= 12:
        second = float(text)
    else:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise Unusable(
                f"{what} is {text[:40]!r}; it must be a time such as 2026-01-05T00:00:00"
            ) from None
        second = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    require(0 <= second < _YEAR_9999, f"{what} is {text[:40]!r}; it must be from 1970 to 9998")
    return second


def _held(job: Mapping[str, str], most: int) -> tuple[dict[str, float], int]:
    """Return what a job has of each resource, and on how many nodes, at most ``most``."""
    listed = next((job[name] for name in TRES if job.get(name)), "")
    if listed:
        amounts = _of_tres(listed)
        nodes = amounts.get("node", 1.0)
    else:
        cpus = next((_amount(job[name], name) for name in CPUS if job.get(name)), 0.0)
        nodes = _amount(job[NODES], NODES) if job.get(NODES) else 1.0
        amounts = {"cpu": cpus, "memory": _of_request(job.get("ReqMem", ""), cpus, nodes)}
    whole = 1 <= nodes <= most and nodes % 1 == 0
    require(whole, f"{nodes:g} nodes; it must be a whole number from 1 to {most}")
    return amounts, int(nodes)


def _of_tres(text: str) -> dict[str, float]:
    """Return the amounts of a text such as ``cpu=4,mem=16G,gres/gpu=1``.

    If a kind is listed by model only, its amount is that of all models together.
    """
    amounts: dict[str, float] = {}
    by_model: dict[str, float] = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        if name == "mem":
            amounts["memory"] = _memory(amount, item)
            continue
        kind, model, _ = name.removeprefix("gres/").partition(":")
        value = _amount(amount, name)
        if model:
            by_model[kind] = by_model.get(kind, 0.0) + value
        else:
            amounts[kind] = value
    # Slurm may list a kind both in total and by model; added up it would count twice.
    return by_model | amounts


def _of_request(text: str, cpus: float, nodes: float) -> float:
    match = _REQUESTED.fullmatch(text or "0")
    if match is None:
        raise Unusable(f"ReqMem is {text[:40]!r}; it must be an amount such as 4G, 4Gn or 4Gc")
    return _memory(match[1], f"ReqMem {text}") * {"": 1.0, "n": nodes, "c": cpus}[match[2]]


def _memory(text: str, what: str) -> float:
    """Return an amount of memory in GiB.

    sacct prints the unit of everything but 0.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or not (match[2] or float(match[1]) == 0):
        raise Unusable(f"{what[:40]!r} is no memory such as 512M or 16G")
    return float(match[1]) * _GIB[match[2]] if match[2] else 0.0


def _amount(text: str, what: str) -> float:
    """Return a count.

    Large ones have a suffix, in thousands of 1024 as Slurm prints them.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise Unusable(f"{what[:40]} is {text[:40]!r}; it must be a number from 0 on")
    return float(match[1]) * (_GIB[match[2]] * 2**30 if match[2] else 1.0)
