"""Readers of the output of Slurm's commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction

from allocator_agent.model import LICENCE, SWITCH, TYPES, Job, Node, Usage
from allocator_agent.quantities import MEBIBYTE, Amounts
from allocator_agent.slurm.people import place_of

# A node that does not answer for a moment (`IDLE*`) still has its jobs: Slurm calls it DOWN in time.
# Nodes that are powered down are started when they are needed.
OUT_OF_WORK = {
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL", "MAINT",
}  # fmt: skip
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
    ("reason", 64), ("numnodes", 12), ("tres-alloc", 256), ("starttime", 24), ("eligibletime", 24),
    ("requeue", 8), ("reservation", 128), ("associd", 16), ("hetjobid", 16), ("oversubscribe", 12),
    ("nodelist", 1024), ("tres-per-job", 128), ("tres-per-node", 128), ("tres-per-socket", 128),
    ("tres-per-task", 128), ("reqswitch", 12), ("licenses", 256),
)  # fmt: skip
JOB_FORMAT = ",".join(f"{name}:{width}" for name, width in JOB_FIELDS)
JOB_STATES = "PENDING,RUNNING,SUSPENDED,STOPPED,CONFIGURING"
USAGE_FIELDS = ("JobIDRaw", "Account", "Start", "End", "AllocTRES")
_PAIR = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
# The model is looked at ahead: tried at each of its ends, a long one would take quadratic time.
_GRES = re.compile(
    r"([A-Za-z][\w-]*)(?::((?=[0-9]*[A-Za-z_.-])[\w.-]+))?(?::([0-9]{1,12}))?", re.ASCII
)
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]?)[nc]?")
_GPU_OF_TYPE = "gpu_"  # begins a pool's resource that is GPUs of one type
_CORES = re.compile(r"^\s+NodeName=(\S+) CoreIDs=(\S+)", re.MULTILINE)
_LICENCES = "license/"  # begins the TRES of licences
_LICENCE = re.compile(r"([^:=|]+)(?:[:=]([0-9]{1,9}))?")
_STEPPED = re.compile(
    r"^(\d{1,10})_\[(\d{1,10})-(\d{1,10}):(\d{1,10})(?:%\d+)?\]\s*$", re.MULTILINE
)
_UNKNOWN = ("", "Unknown", "None", "N/A")
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
    return _seconds(found[1]) if found else 0


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
            of_type = [f"{_GPU_OF_TYPE}{model.lower()}"] if model and kind == "gpu" else []
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


def partition_of_all(partitions: Mapping[str, Partition]) -> str:
    """Return a partition that has every node, or an empty name if none has."""
    nodes = {node for partition in partitions.values() for node in partition.nodes}
    return min((name for name, each in partitions.items() if each.nodes == nodes), default="")


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
                and _seconds(fields["eligibletime"]) > now + SOON_SECONDS
            )
        ):
            continue
        demand = {
            name: amount
            for name, amount in read_tres(fields["tres-alloc"]).items()
            if not name.startswith(LICENCE)  # known also where accounting does not count them
        }
        nodes = max(1, int(re.split(r"[-K]", fields["numnodes"])[0] or 1))
        among = [partitions[item] for item in fields["partition"].split(",") if item in partitions]
        names = {name for partition in among for name in partition.classes}
        if not running and fields["oversubscribe"] == "NO" and among and "cpu" in demand:
            # Slurm states what is asked for, and gives all CPUs of the nodes.
            least = min(partition.least_cpus for partition in among)
            demand["cpu"] = max(demand["cpu"], Fraction(nodes * least))
        whole = "" if fields["hetjobid"] in _UNKNOWN else fields["hetjobid"]
        nodes_now = node_names(fields["nodelist"]) if running and not _is_cut(fields) else ()
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
            started=_seconds(fields["starttime"]) if running else 0,
            can_requeue=fields["requeue"] not in ("0", "NO", "no"),
            reservation=_reservation_of(fields),
            association=fields["associd"],
            reason="" if running or fields["reason"] in _UNKNOWN else fields["reason"],
            whole=whole,
            nodes=nodes_now,
            per_server=1,
            eligible=_seconds(fields["eligibletime"]),
            selects=_selects(fields, types),
            together=SWITCH if is_together else "",
            licences=_licences(fields["licenses"]),
        )


def read_licences(text: str) -> Amounts:
    """Return the licences that `scontrol --oneliner show licenses` prints, by the pool's resource.

    Reserved ones, and those that are in use outside of Slurm, are left out.
    """
    found: Amounts = {}
    for line in map(pairs, text.splitlines()):
        if "LicenseName" in line:
            taken = int(line.get("Reserved", 0)) + int(line.get("LastDeficit", 0))
            found[_licence(line["LicenseName"])] = Fraction(max(0, int(line["Total"]) - taken))
    return found


def _licences(text: str) -> Amounts:
    """Return the licences of a job, such as `matlab:2,ansys`, by the pool's resource.

    A text that states no single amount of each, such as the alternatives of `a:1|b:1`, is one licence by
    that name, which no pool counts.
    """
    found: Amounts = {}
    for item in re.split("[,;]", text) if text not in (*_UNKNOWN, "(null)") else ():
        match = _LICENCE.fullmatch(item)
        if match is None or len(text) >= dict(JOB_FIELDS)["licenses"]:
            return {_licence(text): Fraction(1)}
        name = _licence(match[1])
        found[name] = found.get(name, Fraction(0)) + int(match[2] or 1)
    return found


def _licence(name: str) -> str:
    return f"{LICENCE}{name.lower()}"


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
            match = _GRES.fullmatch(re.sub(r"^gres[:/]", "", item))
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


def _is_cut(fields: Mapping[str, str]) -> bool:
    """Return true if squeue had no room for all nodes of a job."""
    return len(fields["nodelist"]) >= dict(JOB_FIELDS)["nodelist"]


def _reservation_of(fields: Mapping[str, str]) -> str:
    name = fields["reservation"]
    return "" if name in _UNKNOWN or name == "(null)" else name


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
        if start in _UNKNOWN or end in _UNKNOWN or start == end or "." in number:
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
                _seconds(fields["StartTime"]),
                _seconds(fields["EndTime"]),
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


def read_limits(text: str) -> dict[str, int]:
    """Return `cpu=8,mem=8G,gres/gpu=1` as whole numbers, with memory in MiB."""
    limits = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        value = _amount(name, amount)
        limits[name.lower()] = int(value / MEBIBYTE) if name == "mem" else int(value)
    return limits


def read_tres(text: str) -> Amounts:
    """Return `cpu=4,mem=16G,node=1,gres/gpu:a100=1` as the amounts of a pool's resources."""
    amounts: Amounts = {}
    models: Amounts = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        if name in ("node", "billing", "energy", "vmem", "pages") or amount in _UNKNOWN:
            continue
        value = _amount(name, amount)
        resource = resource_of(name.partition(":")[0])
        if ":" in name:
            models[resource] = models.get(resource, Fraction(0)) + value
        if ":" not in name or resource == "gpu":
            amounts[resource_of(name)] = value
    return {**models, **amounts}


def resource_of(tres: str) -> str:
    """Return the pool's resource that corresponds to a TRES."""
    if tres.startswith(_LICENCES):
        return _licence(tres[len(_LICENCES) :])
    return "memory" if tres == "mem" else tres.rpartition("/")[2].lower().replace(":", "_")


def tres_of(resource: str) -> str:
    """Return the TRES by which a pool's resource is limited."""
    if resource.startswith(_GPU_OF_TYPE):
        return f"gres/gpu:{resource[len(_GPU_OF_TYPE) :]}"
    if resource.startswith(LICENCE):
        return f"{_LICENCES}{resource[len(LICENCE) :]}"
    return {"cpu": "cpu", "memory": "mem"}.get(resource, f"gres/{resource}")


def is_licence(tres: str) -> bool:
    """Return true for a TRES that is on no node."""
    return tres.startswith(_LICENCES)


def units_of(amounts: Amounts, tres: str) -> int:
    """Return an amount in whole units of a TRES, rounded up."""
    amount = amounts.get(resource_of(tres), Fraction(0)) / (MEBIBYTE if tres == "mem" else 1)
    return -(-amount.numerator // amount.denominator)


def _amount(name: str, text: str) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{name}={text[:40]} is not an amount such as 4 or 16G")
    power = " KMGTPE".index(match[2] or " ")
    factor: int = 1000**power
    if name == "mem":
        factor = 1024**power if match[2] else MEBIBYTE
    return Fraction(match[1]) * factor


def _seconds(text: str) -> int:
    """Return a time that Slurm printed in UTC in seconds since 1970, or 0 if it printed none."""
    if text in _UNKNOWN:
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
        match = _GRES.fullmatch(item)
        if match is not None:
            yield match[1], match[2] or "", int(match[3] or 1)
