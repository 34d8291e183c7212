"""Readers of the jobs that squeue prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from allocator_agent.model import LICENCE_PREFIX, SWITCH, TYPES, Job
from allocator_agent.quantities import Amounts
from allocator_agent.slurm.reading import GRES, Partition, Types, node_names, pairs, seconds_of
from allocator_agent.slurm.tres import UNKNOWN, licence_resource, read_tres

# What keeps a job from running whatever its account may use: it is no demand until that has passed.
NOT_YET = (
    "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch_failed_requeued_held",
    "Dependency", "DependencyNeverSatisfied", "JobArrayTaskLimit", "BadConstraints", "InvalidAccount",
    "InvalidQOS", "PartitionDown", "PartitionInactive", "PartitionNodeLimit", "PartitionTimeLimit",
)  # fmt: skip
# A job that begins this soon is demand already; one that is requeued waits two minutes.
SOON_SECONDS = 600
# Each with room enough: squeue cuts what is longer.
JOB_FIELDS = (
    ("jobarrayid", 48), ("account", 96), ("username", 96), ("partition", 256), ("statecompact", 8),
    ("reason", 64), ("numnodes", 12), ("tres-alloc", 1024), ("starttime", 24), ("eligibletime", 24),
    ("requeue", 8), ("reservation", 128), ("associd", 16), ("hetjobid", 16), ("oversubscribe", 12),
    ("nodelist", 1024), ("tres-per-job", 128), ("tres-per-node", 128), ("tres-per-socket", 128),
    ("tres-per-task", 128), ("reqswitch", 12), ("licenses", 256),
)  # fmt: skip
JOB_FORMAT = ",".join(f"{name}:{width}" for name, width in JOB_FIELDS)
JOB_STATES = "PENDING,RUNNING,SUSPENDED,STOPPED,CONFIGURING"
_LICENCE_ITEM = re.compile(r"([^:=|]+)(?:[:=]([0-9]{1,9}))?")
_STEPPED = re.compile(
    r"^(\d{1,10})_\[(\d{1,10})-(\d{1,10}):(\d{1,10})(?:%\d+)?\]\s*$", re.MULTILINE
)


def read_jobs(
    text: str,
    *,
    partitions: Mapping[str, Partition],
    types: Types,
    switches: Mapping[str, str],
    now: int,
) -> Iterator[Job]:
    """Yield the jobs of `squeue --array --Format=JOB_FORMAT` that wait for resources or hold some.

    A job that may run on all classes of servers selects none. The nodes of a job are its tasks.
    `switches` are those of the nodes.
    """
    every = {name for partition in partitions.values() for name in partition.classes}
    for fields in _queued(text):
        running = fields["statecompact"] != "PD"
        if not running and (
            fields["reason"] in NOT_YET
            or (
                fields["reason"] == "BeginTime"
                and seconds_of(fields["eligibletime"]) > now + SOON_SECONDS
            )
        ):
            continue
        amounts = read_tres(fields["tres-alloc"])
        demand = {n: amount for n, amount in amounts.items() if not n.startswith(LICENCE_PREFIX)}
        nodes = max(1, int(re.split(r"[-K]", fields["numnodes"])[0] or 1))
        among = [partitions[item] for item in fields["partition"].split(",") if item in partitions]
        names = {name for partition in among for name in partition.classes}
        if not running and fields["oversubscribe"] == "NO" and among and "cpu" in demand:
            # Slurm states what is asked for, and gives all CPUs of the nodes.
            least = min(partition.least_cpus for partition in among)
            demand["cpu"] = max(demand["cpu"], Fraction(nodes * least))
        whole = "" if fields["hetjobid"] in UNKNOWN else fields["hetjobid"]
        nodes_now = (
            node_names(fields["nodelist"]) if running and not _is_cut(fields, "nodelist") else ()
        )
        # Each part of a heterogeneous job may be on a switch of its own. Slurm starts a job on
        # several switches after `max_switch_wait`.
        is_together = (
            bool(switches)
            and fields["reqswitch"] == "1"
            and not whole
            and len({switches.get(node) for node in nodes_now}) <= 1
        )
        yield Job(
            fields["jobarrayid"],
            fields["account"],
            {name: amount / nodes for name, amount in demand.items()},
            running,
            tasks=nodes,
            user=fields["username"],
            partition=fields["partition"],
            where=() if names == every else tuple(sorted(names)),
            started=seconds_of(fields["starttime"]) if running else 0,
            can_requeue=fields["requeue"] not in ("0", "NO", "no"),
            reservation=_reservation_of(fields),
            association=fields["associd"],
            reason="" if running or fields["reason"] in UNKNOWN else fields["reason"],
            whole=whole,
            nodes=nodes_now,
            per_server=1,
            eligible=seconds_of(fields["eligibletime"]),
            selects=_selects(fields, types),
            together=SWITCH if is_together else "",
            licences=_licences(fields, amounts),
        )


def _licences(fields: Mapping[str, str], amounts: Amounts) -> Amounts:
    """Return the licences of a job, such as `matlab:2,ansys`, by the pool's resource.

    Those in its TRES count as well. Slurm limits a job by them also after it lost the text, as it does
    if the licence is taken out of slurm.conf for a moment. Without accounting there is the text alone.
    A text that states no single amount of each, such as the alternatives of `a:1|b:1`, is one licence by
    that name, which no pool counts.
    """
    text = fields["licenses"]
    counted = {n: amount for n, amount in amounts.items() if n.startswith(LICENCE_PREFIX)}
    if text in (*UNKNOWN, "(null)"):
        return counted
    found: Amounts = {}
    for item in re.split("[,;]", text):
        match = _LICENCE_ITEM.fullmatch(item)
        if match is None or _is_cut(fields, "licenses"):
            return {**counted, licence_resource(text): Fraction(1)}
        name = licence_resource(match[1])
        found[name] = found.get(name, Fraction(0)) + int(match[2] or 1)
    return {
        n: max(counted.get(n, Fraction(0)), amount) for n, amount in {**counted, **found}.items()
    }


def with_lost_tasks(queue: str, arrays: str) -> str:
    """Return the lines of `squeue --array` with the tasks that it does not print.

    Where the tasks of an array that wait have one step, as in `6_[22-199:3]`, Slurm 22.05 leaves out the
    last one. `arrays` are the lines of squeue without `--array`.
    """
    width = dict(JOB_FIELDS)["jobarrayid"]
    lines = {line[:width].strip(): line for line in queue.splitlines()}
    found = []
    for job, first, last, step in _STEPPED.findall(arrays):
        numbers = range(int(first), int(last) + 1, int(step) or 1)
        lost, sibling = f"{job}_{numbers[-1]}" if numbers else "", lines.get(f"{job}_{first}")
        if lost and lost not in lines and sibling is not None:
            found.append(f"{lost:<{width}}{sibling[width:]}\n")
    return queue + ("" if queue.endswith("\n") or not queue else "\n") + "".join(found)


def _selects(fields: Mapping[str, str], types: Types) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the labels of nodes that have the types which a job asks for.

    What Slurm gave a job that asks for any type selects nothing: it could also run elsewhere.
    """
    asked: dict[str, set[str]] = {}
    for name in ("tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task"):
        for item in fields[name].split(","):
            match = GRES.fullmatch(re.sub(r"^gres[:/]", "", item))
            if match is not None and match[2]:
                asked.setdefault(f"{TYPES}{match[1]}", set()).add(match[2])
    return tuple(
        (label, values)
        for label, models in sorted(asked.items())
        if (values := tuple(sorted(v for v, of in types.get(label, {}).items() if models <= of)))
    )


def read_reserved(text: str) -> dict[str, list[str]]:
    """Read which jobs name each reservation, of the same lines, those that may not start included."""
    found: dict[str, list[str]] = {}
    for fields in _queued(text):
        if name := _reservation_of(fields):
            found.setdefault(name, []).append(fields["jobarrayid"])
    return found


def is_restricted(text: str, *, together: str) -> bool:
    """Return true if the job that `scontrol --oneliner show job` prints may run on some nodes only.

    That its nodes are `together` is no restriction, because the decision knows it.
    """
    job = pairs(text)
    fields = ["ReqNodeList", "ExcNodeList", "Features"]
    names = [job.get(name, "") for name in (fields if together else [*fields, "Switches"])]
    return any(name not in ("", "(null)") for name in names) or job.get("Contiguous", "0") != "0"


def _queued(text: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        fields, at = {}, 0
        for name, width in JOB_FIELDS:
            fields[name] = line[at : at + width].strip()
            at += width
        if not fields["account"]:
            raise ValueError(f"squeue prints {line[:40]!r}, which is not a job")
        yield fields


def _is_cut(fields: Mapping[str, str], name: str) -> bool:
    """Return true if squeue had no room for all of a field of a job."""
    return len(fields[name]) >= dict(JOB_FIELDS)[name]


def _reservation_of(fields: Mapping[str, str]) -> str:
    name = fields["reservation"]
    return "" if name in UNKNOWN or name == "(null)" else name
