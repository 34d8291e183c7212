"""Workloads from the pending and running jobs of `squeue --json`.

The agent makes the same workloads of the columns of `squeue --Format`. The import has a reader of its
own because the agent imports nothing of the project and the two outputs share no fields.
tests/slurm/test_imports.py compares both on a real Slurm.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import FRACTIONAL_DIGITS, Resource, decimal_text
from allocator_service.imports.checks import check_selector, check_text, slug_from_name
from allocator_service.imports.measures import ROUND_REQUEST, Measures
from allocator_service.imports.reading import errors_of, list_at, object_at
from allocator_service.imports.rows import (
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    WorkloadFile,
    WorkloadRow,
)
from allocator_service.imports.slurm import (
    GRES_LABEL,
    PARTITION_LABEL,
    SWITCH_LABEL,
    Nodes,
    gpus_of_type,
    job_nodes,
)
from allocator_service.imports.slurm_content import node_names, slurm_content
from allocator_service.imports.slurm_fields import (
    array_tasks,
    name_of,
    number_at,
    text_at,
    time_of,
    whole_of,
    words_in,
)
from allocator_service.imports.tres import LICENCE, tres_quantities
from allocator_service.workloads.gangs import MAX_KINDS, MAX_PIECES, Gang, Piece

COMMAND = "squeue --json"
TENANT_FIELD = "account"
FIELDS = frozenset((
    "job_id", "array_job_id", "array_task_id", "array_task_string", "het_job_id", "partition",
    "job_state", "state_reason", "node_count", "nodes", "tres_req_str", "tres_alloc_str",
    "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "shared", "exclusive",
    "eligible_time", "start_time", "submit_time", "last_sched_evaluation",
    "required_switches", "minimum_switches",
))  # fmt: skip
# Reasons that keep a job from running whatever its account may use.
NOT_YET = frozenset((
    "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch_failed_requeued_held",
    "Dependency", "DependencyNeverSatisfied", "JobArrayTaskLimit", "BadConstraints",
    "Licenses", "InvalidAccount", "InvalidQOS", "PartitionDown", "PartitionInactive",
    "PartitionNodeLimit", "PartitionTimeLimit",
))  # fmt: skip
# A job that begins this soon is demand already, such as one that was requeued.
SOON_SECONDS = 600
PRESENT_STATES = {"PENDING", "RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING"}
_UNCOUNTED = {"node", "billing", "energy", "vmem", "pages"}
# The look-ahead keeps the match linear, as that of nodes.
_ASKED = re.compile(
    r"(?:gres[:/])?([A-Za-z][\w-]*+):((?=[0-9]*[A-Za-z_.-])[\w.-]++)(?:[:=][0-9]{1,12})?", re.ASCII
)
_LONGEST_NAME = 240

Vector = tuple[Decimal, ...]
Selection = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Job:
    """A job, or the waiting tasks of an array. Each of its `tasks` takes `nodes` nodes at once."""

    place: Place
    name: str
    tenant: str
    demand: Vector
    nodes: int
    tasks: int
    selection: Selection
    whole: str
    together: str


@dataclass(frozen=True, order=True)
class _Workload:
    """The properties that the tasks of one workload share."""

    tenant: str
    selection: Selection
    kinds: tuple[tuple[Vector, int], ...]
    together: str


def slurm_workloads(
    content: str | dict[str, Any], resources: Sequence[Resource], owner: Owner
) -> WorkloadFile:
    """Read the jobs that wait or run, with the nodes of the cluster in the same file.

    Jobs of one tenant, place and shape are one workload. Raises `Unacceptable` for content without jobs
    or nodes.
    """
    kept = FIELDS | {owner.label or TENANT_FIELD}

    # Most fields of a job are not read, and would fill the memory.
    def reduce(name: str, item: Any) -> Any:
        if name != "jobs" or not isinstance(item, dict):
            return item
        return {field: item[field] for field in kept if field in item}

    document = slurm_content(content, reduce)
    items = list_at(document, "jobs", COMMAND)
    if not ("nodes" in document or "sinfo" in document):
        raise Unacceptable(
            "The file has the jobs without the nodes: append the output of sinfo --json or of scontrol"
            " show node --json.",
            code="import.shape",
        )
    reader = _Reader(job_nodes(document), resources, owner, time_of(document, items))
    jobs, others = reader.read(items)

    def rows(most_kinds: int) -> Any:
        found = [*_rows(jobs, resources, most_kinds), *others]
        return sorted(found, key=lambda row: row.place.number)

    gangs = any(job.nodes > 1 or job.whole for job in jobs)
    return WorkloadFile(
        rows(MAX_KINDS), reader.ignored, rows if gangs else None, selects_if_placed=True
    )


class _Reader:
    """Jobs of one file."""

    def __init__(self, nodes: Nodes, resources: Sequence[Resource], owner: Owner, now: int) -> None:
        self._nodes, self._owner, self._now = nodes, owner, now
        self._measures = Measures(resources)
        self._every = nodes.classes
        self._totals: dict[str, list[Decimal]] = {}  # by text, as most jobs are alike

    @property
    def ignored(self) -> list[str]:
        """Resources that the pool does not count."""
        return self._measures.ignored

    def read(self, items: Sequence[Any]) -> tuple[list[_Job], list[RefusedRow | SkippedRow]]:
        """Return the jobs, and the rows of those that are refused or skipped."""
        jobs: list[_Job] = []
        others: list[RefusedRow | SkippedRow] = []
        refused: dict[str, str] = {}  # heterogeneous jobs, with the part that cannot be read
        for number, item in enumerate(items):
            place = Place("item", number)
            try:
                found = self._job(place, object_at(item))
            except Unacceptable as error:
                name = name_of(item)
                others.append(RefusedRow(place, name, errors_of(error)))
                if whole := whole_of(item):
                    refused.setdefault(whole, name)
                continue
            if isinstance(found, SkippedRow):
                others.append(found)
            else:
                jobs.append(found)
        if not refused:
            return jobs, others
        # The other parts alone would be a smaller job.
        for job in jobs:
            if job.whole in refused:
                detail = f"It starts with {refused[job.whole]}, which cannot be read."
                others.append(
                    RefusedRow(job.place, job.name, [FieldError("", "import.shape", detail)])
                )
        return [job for job in jobs if job.whole not in refused], others

    def _job(self, place: Place, item: Mapping[str, Any]) -> _Job | SkippedRow:
        name = name_of(item)
        states = set(words_in(item.get("job_state"), "/job_state"))
        if not states & PRESENT_STATES or "COMPLETING" in states:
            return SkippedRow(place, name, "The job has ended.")
        is_running = "PENDING" not in states
        if not is_running and (reason := self._reason_not_yet(item)):
            return SkippedRow(place, name, f"The job cannot start yet: {reason}.")
        nodes = max(1, number_at(item, "node_count"))
        if nodes > MAX_PIECES:
            raise Unacceptable(
                f"Expected at most {MAX_PIECES:,} nodes, got {nodes:,}.",
                code="field.range",
                pointer="/node_count",
            )
        partitions = [
            self._nodes.partitions[each]
            for each in words_in(item.get("partition"), "/partition")
            if each in self._nodes.partitions
        ]
        whole = whole_of(item)
        demand = self._demand(item, nodes, [each.least_cpus for each in partitions], is_running)
        if not any(demand):
            return SkippedRow(place, name, "The job requests none of the pool's resources.")
        classes = {one for each in partitions for one in each.classes}
        # A selection of all classes is none.
        where = () if classes == self._every else tuple(sorted(classes))
        selection = ((PARTITION_LABEL, where),) if where else ()
        return _Job(
            place,
            name,
            self._tenant(item),
            demand,
            nodes,
            # A running task of an array is a job of its own.
            1 if is_running else array_tasks(item),
            selection + self._types(item),
            whole,
            SWITCH_LABEL if not whole and nodes > 1 and self._is_together(item, is_running) else "",
        )

    def _reason_not_yet(self, item: Mapping[str, Any]) -> str:
        """Return the reason for which a job is no demand yet, an empty text for none."""
        reason = check_text(item.get("state_reason") or "", "/state_reason", blank=True)
        if reason in NOT_YET:
            return reason
        is_late = number_at(item, "eligible_time") > self._now + SOON_SECONDS
        return reason if reason == "BeginTime" and is_late else ""

    def _tenant(self, item: Mapping[str, Any]) -> str:
        if self._owner.slug:
            return self._owner.slug
        field = self._owner.label or TENANT_FIELD
        return slug_from_name(check_text(item.get(field), f"/{field}"), f"/{field}")

    def _demand(
        self, item: Mapping[str, Any], nodes: int, least: Sequence[int], is_running: bool
    ) -> Vector:
        """Return the demand of each node, rounded up."""
        # What a running job was given, or else what it asks for.
        text = text_at(item, "tres_alloc_str") or text_at(item, "tres_req_str")
        # Slurm states what an exclusive job asks for, and gives it all CPUs of its nodes.
        whole_nodes = "none" in words_in(item.get("shared"), "/shared") or "true" in words_in(
            item.get("exclusive"), "/exclusive"
        )
        cpus = nodes * min(least) if least and whole_nodes and not is_running else 0
        key = f"{cpus} {text}"
        if key not in self._totals:
            self._totals[key] = self._total(text, cpus)
        return tuple(_part(total, nodes) for total in self._totals[key])

    def _total(self, text: str, cpus: int) -> list[Decimal]:
        stated = tres_quantities(text, "/tres_req_str")
        amounts: dict[str, object] = {}
        models: Counter[str] = Counter()
        for name, amount in stated.items():
            kind, _, model = name.partition(":")
            # Licences are on no node, so that no server of an import has them.
            if kind in _UNCOUNTED or kind.startswith(LICENCE):
                continue
            resource = kind.rpartition("/")[2].lower()
            if not model:
                amounts[resource] = amount
                continue
            if not re.fullmatch("[0-9]{1,12}", amount):
                raise Unacceptable(
                    f'Expected a whole number of {name}, got "{amount[:40]}".',
                    code="field.type",
                    pointer="/tres_req_str",
                )
            models[resource] += int(amount)
            of_type = gpus_of_type(model)
            if resource == "gpu" and self._measures.counts(of_type):
                amounts[of_type] = amount
        # The total is that of all types, unless Slurm states it.
        amounts = {**models, **amounts}
        if cpus and "cpu" in amounts:
            asked = self._measures.named(
                {"cpu": amounts["cpu"]}, rounding=ROUND_REQUEST, pointer="/tres_req_str"
            )
            if asked.get("cpu", Decimal(0)) < cpus:
                amounts["cpu"] = cpus
        return self._measures.vector(amounts, rounding=ROUND_REQUEST, pointer="/tres_req_str")

    def _types(self, item: Mapping[str, Any]) -> Selection:
        """Return the labels of nodes that have the types which a job asks for."""
        asked: dict[str, set[str]] = {}
        for name in ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"):
            for word in text_at(item, name).split(","):
                match = _ASKED.fullmatch(word)
                # A type that the pool counts as a resource needs no label.
                if match and not self._measures.counts(f"{match[1]}_{match[2].lower()}"):
                    asked.setdefault(GRES_LABEL + match[1], set()).add(match[2])
        found = (
            (
                label,
                tuple(
                    sorted(v for v, of in self._nodes.types.get(label, {}).items() if models <= of)
                ),
            )
            for label, models in sorted(asked.items())
        )
        return tuple((label, values) for label, values in found if values)

    def _is_together(self, item: Mapping[str, Any], is_running: bool) -> bool:
        """Return whether all nodes of a job must be on one switch.

        Slurm starts a job on several switches after `max_switch_wait`.
        """
        switches = self._nodes.switches
        asked = number_at(item, "required_switches") or number_at(item, "minimum_switches")
        if not switches or asked != 1:
            return False
        nodes = node_names(text_at(item, "nodes")) if is_running else ()
        return len({switches.get(node) for node in nodes}) <= 1


def _rows(
    jobs: Sequence[_Job], resources: Sequence[Resource], most_kinds: int
) -> Iterator[WorkloadRow]:
    """Yield one row for each workload, at the place of its first job."""
    tasks: Counter[_Workload] = Counter()
    places: dict[_Workload, Place] = {}
    for parts in _started_together(jobs):
        for workload, count in _tasks(parts, most_kinds):
            tasks[workload] += count
            places.setdefault(workload, parts[0].place)
    names = [resource.name for resource in resources]
    for workload in sorted(tasks):
        pieces = tuple(
            Piece(
                count, {name: amount for name, amount in zip(names, demand, strict=True) if amount}
            )
            for demand, count in workload.kinds
        )
        is_gang = sum(count for _, count in workload.kinds) > 1
        gang = Gang(pieces, 1, workload.together) if is_gang else Gang()
        selector = {label: list(values) for label, values in workload.selection}
        yield WorkloadRow(
            places[workload],
            _workload_name(workload, resources),
            workload.tenant,
            gang.demand(resources) if is_gang else list(workload.kinds[0][0]),
            tasks[workload],
            selector=check_selector(selector, "/partition"),
            gang=gang,
        )


def _started_together(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Return jobs in lists that start together, the parts of one heterogeneous job in one of them."""
    wholes: dict[tuple[str, str], list[_Job]] = {}
    found: list[list[_Job]] = []
    for job in jobs:
        # Parts under another account are tasks of another tenant.
        parts = wholes.setdefault((job.tenant, job.whole), []) if job.whole else []
        if not parts:
            found.append(parts)
        parts.append(job)
    return found


def _tasks(parts: Sequence[_Job], most_kinds: int) -> Iterator[tuple[_Workload, int]]:
    """Yield the workloads of jobs that start together, each with its number of tasks."""
    first = parts[0]
    kinds: Counter[Vector] = Counter()
    for part in parts:
        kinds[part.demand] += part.nodes
    is_gang = 1 < sum(kinds.values()) <= MAX_PIECES and len(kinds) <= most_kinds
    if is_gang and len({part.selection for part in parts}) == 1:
        shape = tuple(sorted(kinds.items()))
        yield _Workload(first.tenant, first.selection, shape, first.together), first.tasks
        return
    for part in parts:
        one = ((part.demand, 1),)
        yield _Workload(part.tenant, part.selection, one, ""), part.tasks * part.nodes


def _workload_name(workload: _Workload, resources: Sequence[Resource]) -> str:
    """Return a name that states the place and the shape, such as `big/4 x cpu=2,memory=512`.

    Amounts are in the units of the pool.
    """
    is_gang = sum(count for _, count in workload.kinds) > 1
    shapes = [
        (f"{count} x " if is_gang else "")
        + ",".join(
            f"{resource.name}={decimal_text(amount)}"
            for resource, amount in zip(resources, demand, strict=True)
            if amount
        )
        for demand, count in workload.kinds
    ]
    place = [
        "+".join(values) if label == PARTITION_LABEL else f"{label}={'+'.join(values)}"
        for label, values in workload.selection
    ]
    together = f" in one {workload.together}" if workload.together else ""
    name = f"{','.join(place) or 'any'}/{' and '.join(shapes)}{together}"
    if len(name) > _LONGEST_NAME:
        # Long names that begin alike stay different, and the same at every import.
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{name[: _LONGEST_NAME - 13]}-{digest}"
    return name


def _part(total: Decimal, nodes: int) -> Decimal:
    """Return a part of an amount, rounded up at the last digit."""
    if nodes == 1:
        return total
    # Up, so that the parts together are not less than the total.
    return Decimal(-(-int(total.scaleb(FRACTIONAL_DIGITS)) // nodes)).scaleb(-FRACTIONAL_DIGITS)
