"""Readers of nodes, reservations, accounts and usage that Slurm's commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction

from allocator_agent.model import SWITCH, TYPES, Node, Usage
from allocator_agent.quantities import MEBIBYTE, Amounts
from allocator_agent.slurm.people import place_of
from allocator_agent.slurm.tres import (
    GPU_OF_TYPE,
    UNKNOWN,
    licence_resource,
    read_limits,
    read_tres,
)

# A node that does not answer for a moment (`IDLE*`) still has its jobs: Slurm calls it DOWN in time.
# Nodes that are powered down are started when they are needed.
OUT_OF_WORK = {
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL", "MAINT",
}  # fmt: skip
USAGE_FIELDS = ("JobIDRaw", "Account", "Start", "End", "AllocTRES")
_PAIR = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
# The model is looked at ahead: tried at each of its ends, a long one would take quadratic time.
GRES = re.compile(
    r"([A-Za-z][\w-]*)(?::((?=[0-9]*[A-Za-z_.-])[\w.-]+))?(?::([0-9]{1,12}))?", re.ASCII
)
_CORES = re.compile(r"^\s+NodeName=(\S+) CoreIDs=(\S+)", re.MULTILINE)
ASSOCIATION_SEPARATORS = 7  # between the columns of an association
_BETWEEN_NODES = re.compile(r",(?![^\[]*\])")  # a comma outside of brackets
_NODE_PART = re.compile(r"([^\[\]]+)|\[([^\]]*)\]")
_MOST_NODES = 65_533  # of a cluster of Slurm
_SWITCH = re.compile(r"^SwitchName=(\S+) Level=0 .*?\bNodes=(\S+)", re.MULTILINE)

Types = Mapping[str, Mapping[str, frozenset[str]]]  # label of servers -> its value -> types


@dataclass(frozen=True)
class Association:
    """A row of Slurm's accounting, for an account or a user of it, perhaps in one partition."""

    account: str
    user: str
    partition: str
    limits: dict[str, int]  # TRES -> count; memory in MiB
    fairshare: str
    id: str = ""
    minutes: dict[str, int] = field(default_factory=dict)  # TRES -> GrpTRESMins
    max_jobs: int | None = None  # its own, not that of an account above it


@dataclass(frozen=True)
class Reservation:
    name: str
    start: int
    end: int
    account: str
    partition: str
    cores: int
    nodes: tuple[str, ...] = field(default=(), compare=False)  # Slurm chose those of a slot
    is_active: bool = field(default=False, compare=False)
    cores_of: dict[str, int] = field(default_factory=dict, compare=False)  # of nodes in part


@dataclass(frozen=True)
class Partition:
    """The nodes of a partition and their classes, the CPUs of its smallest node and of all."""

    classes: tuple[str, ...]
    least_cpus: int
    cpus: int = 0
    nodes: frozenset[str] = frozenset()


def pairs(line: str) -> dict[str, str]:
    """Return the fields in a line of `scontrol --oneliner`.

    A field that seems to repeat in the free text at the end of the line is not a value.
    """
    return dict(reversed(_PAIR.findall(line)))


def read_settings(text: str) -> dict[str, str]:
    """Return the settings that `scontrol show config` prints, by name."""
    lines = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, separator, value in lines if separator}


def read_time_of_settings(text: str) -> int:
    """Return the time at which slurmctld printed its settings, 0 for none."""
    found = re.search(r"^Configuration data as of (\S+)", text, re.MULTILINE)
    return seconds_of(found[1]) if found else 0


def read_switches(text: str) -> dict[str, str]:
    """Return the switch of each node that `scontrol show topology` prints, none without a tree.

    Of several switches of a node the first counts.
    """
    found: dict[str, str] = {}
    for switch, nodes in _SWITCH.findall(text):
        for node in node_names(nodes):
            found.setdefault(node, label_text(switch))
    return found


def read_nodes(text: str, *, owner_feature: str, switches: Mapping[str, str]) -> Iterator[Node]:
    """Read the nodes that `scontrol --oneliner show node` prints.

    Labels are the first partition of a node, its switch, its features and types.
    """
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        fields = pairs(line)
        features = [item for item in _words(fields.get("ActiveFeatures", "")) if item]
        labels = {f"feature-{label_text(feature)}": "true" for feature in features}
        partitions = _words(fields.get("Partitions", ""))
        if partitions:
            labels["partition"] = partitions[0]
        if fields["NodeName"] in switches:
            labels[SWITCH] = switches[fields["NodeName"]]
        cpus = int(fields.get("CPUEfctv") or fields["CPUTot"])
        memory = int(fields["RealMemory"]) - int(fields.get("MemSpecLimit", 0))
        capacity: Amounts = {"cpu": Fraction(cpus), "memory": Fraction(memory * MEBIBYTE)}
        for kind, model, count in _gres(fields.get("Gres", "")):
            of_type = [f"{GPU_OF_TYPE}{model.lower()}"] if model and kind == "gpu" else []
            names = [kind, *of_type]
            for name in names:
                capacity[name] = capacity.get(name, Fraction(0)) + count
        for kind, models in _models(fields.get("Gres", "")).items():
            labels[f"{TYPES}{kind}"] = label_text(".".join(sorted(models)))
        owners = [
            feature[len(owner_feature) :]
            for feature in features
            if owner_feature and feature.startswith(owner_feature)
        ]
        state = set(re.findall(r"[A-Z_]+", fields.get("State", "").upper()))
        yield Node(
            fields["NodeName"],
            capacity,
            labels,
            draining=not partitions or bool(state & OUT_OF_WORK),
            owner=owners[0] if owners else "",
        )


def read_partitions(text: str) -> dict[str, Partition]:
    """Read the partitions of nodes. A class is named after the first partition of its nodes."""
    classes: dict[str, set[str]] = {}
    sizes: dict[str, dict[str, int]] = {}  # the CPUs of the nodes of each partition
    for line in text.splitlines():
        fields = pairs(line)
        partitions = _words(fields.get("Partitions", ""))
        for partition in partitions:
            classes.setdefault(partition, set()).add(partitions[0])
            cpus = int(fields.get("CPUEfctv") or fields["CPUTot"])
            sizes.setdefault(partition, {})[fields["NodeName"]] = cpus
    return {
        name: Partition(
            tuple(sorted(classes[name])), min(of.values()), sum(of.values()), frozenset(of)
        )
        for name, of in sizes.items()
    }


def read_types(text: str) -> Types:
    """Read the types of each generic resource, by the label of the nodes that have them."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for line in text.splitlines():
        for kind, models in _models(pairs(line).get("Gres", "")).items():
            values = found.setdefault(f"{TYPES}{kind}", {})
            values[label_text(".".join(sorted(models)))] = frozenset(models)
    return found


def read_threads(text: str) -> dict[str, int]:
    """Read how many CPUs each core of a node has. Slurm reserves cores."""
    lines = map(pairs, text.splitlines())
    return {
        line["NodeName"]: int(line.get("ThreadsPerCore", 1)) for line in lines if "NodeName" in line
    }


def read_allocated(text: str) -> dict[str, Amounts]:
    """Read what jobs have of each node."""
    lines = map(pairs, text.splitlines())
    return {
        line["NodeName"]: read_tres(line.get("AllocTRES", ""))
        for line in lines
        if "NodeName" in line
    }


def partition_of_all(partitions: Mapping[str, Partition]) -> str:
    """Return a partition that has every node, or an empty name if none has."""
    nodes = {node for partition in partitions.values() for node in partition.nodes}
    return min((name for name, each in partitions.items() if each.nodes == nodes), default="")


def read_licences(text: str) -> Amounts:
    """Return the licences that `scontrol --oneliner show licenses` prints, by the pool's resource.

    Those that reservations hold are left out.
    """
    found: Amounts = {}
    for line in map(pairs, text.splitlines()):
        if "LicenseName" in line:
            left = int(line["Total"]) - int(line.get("Reserved", 0))
            # Slurm counts licences whose names differ in case alone as one.
            name = licence_resource(line["LicenseName"])
            found[name] = found.get(name, Fraction(0)) + max(0, left)
    return found


def node_names(text: str) -> tuple[str, ...]:
    """Return the nodes of a list such as `n[1-3,07],gpu1`.

    A list that cannot be read has none.
    """
    names: list[str] = []
    for item in filter(None, _BETWEEN_NODES.split(text)):
        heads = [""]
        for fixed, ranges in _NODE_PART.findall(item):
            numbers = list(_numbers(ranges)) if ranges else [fixed]
            heads = [head + number for head in heads for number in numbers]
            if not heads or len(heads) > _MOST_NODES:
                return ()
        names += heads
    return tuple(names)


def _numbers(ranges: str) -> Iterator[str]:
    """Yield the numbers of `1-3,07` with the zeros that they begin with."""
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return
        if int(last or first) - int(first) > _MOST_NODES:
            return
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}d}"


def read_usage(text: str, *, users: bool = False) -> Iterator[Usage]:
    """Yield the jobs of `sacct --parsable2 --noheader` that have run and ended.

    With `users` they are of users of accounts, and each row ends with the user. A row whose name has the
    separator cannot be read, and is left out.
    """
    for line in text.splitlines():
        if line.count("|") != usage_separators(users=users):
            continue
        number, account, start, end, tres, *of_users = line.split("|")
        if start in UNKNOWN or end in UNKNOWN or start == end or "." in number:
            continue
        amounts = read_tres(tres)
        if amounts:
            place = place_of(account, *of_users) if users else account
            yield Usage(f"{number}@{start}Z", place, amounts, f"{start}Z", f"{end}Z")


def usage_separators(*, users: bool) -> int:
    """Return the number of separators in a row of sacct."""
    return len(USAGE_FIELDS) - (0 if users else 1)


def read_associations(text: str) -> Iterator[Association]:
    """Yield the rows of `sacctmgr --parsable2 show association`, as `scheduler` asks for them.

    A row whose name has the separator cannot be read, and is left out.
    """
    for line in text.splitlines():
        if line.count("|") != ASSOCIATION_SEPARATORS:
            continue
        account, user, partition, tres, fairshare, number, minutes, jobs = line.split("|")
        yield Association(
            *(account, user, partition, read_limits(tres), fairshare, number),
            read_limits(minutes),
            int(jobs) if jobs.isdigit() else None,
        )


def unreadable_rows(text: str, separators: int = ASSOCIATION_SEPARATORS) -> int:
    """Return the number of rows with another number of separators, which are left out."""
    return sum(line.count("|") != separators for line in text.splitlines())


def read_tree(text: str) -> dict[str, str]:
    """Return the parent of each account but root, from lines `account|user|parent`."""
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 2)
    return {account: parent for account, user, parent in rows if parent and not user}


def read_reservations(text: str) -> Iterator[Reservation]:
    """Read the reservations that `scontrol show reservation` prints, with the cores of each node."""
    for block in text.split("\n\n"):
        fields = pairs(block)
        if "ReservationName" in fields:
            yield Reservation(
                fields["ReservationName"],
                seconds_of(fields["StartTime"]),
                seconds_of(fields["EndTime"]),
                _holder(fields),
                fields.get("PartitionName", "").replace("(null)", ""),
                int(fields.get("CoreCnt", 0)),
                node_names(fields.get("Nodes", "").replace("(null)", "")),
                fields.get("State") == "ACTIVE",
                {node: len(list(_numbers(cores))) for node, cores in _CORES.findall(block)},
            )


def _holder(fields: Mapping[str, str]) -> str:
    """Return the account of a reservation, or the user of it that the reservation is for."""
    account, user = (fields.get(name, "").replace("(null)", "") for name in ("Accounts", "Users"))
    return place_of(account, user) if account and user else account


def seconds_of(text: str) -> int:
    """Return a time that Slurm printed in UTC in seconds since 1970, or 0 if it printed none."""
    if text in UNKNOWN:
        return 0
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


def utc_text(seconds: int) -> str:
    """Return a time as Slurm's commands take it where TZ is UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word and word != "(null)"]


def label_text(text: str) -> str:
    """Return a text as a value of labels takes it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def _models(text: str) -> dict[str, set[str]]:
    """Return the types of each generic resource of a node."""
    found: dict[str, set[str]] = {}
    for kind, model, _ in _gres(text):
        if model:
            found.setdefault(kind, set()).add(model)
    return found


def _gres(text: str) -> Iterator[tuple[str, str, int]]:
    for item in _words(re.sub(r"\([^()]*\)", "", text)):
        match = GRES.fullmatch(item)
        if match is not None:
            yield match[1], match[2] or "", int(match[3] or 1)
