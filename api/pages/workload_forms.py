"""The form in which a tenant describes a workload."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from allocator_service.core.display import unit_text
from allocator_service.core.errors import DomainError
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.core.quantities import Resource, decimal_text, pointer_token, vector_from
from allocator_service.core.service_forms import add_refusal
from allocator_service.pools.models import Pool
from allocator_service.workloads.gangs import (
    MAX_KINDS,
    MAX_PIECES,
    Gang,
    gang_check,
    gang_read,
    start_check,
)
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS, Workload
from api.contract.documents import read_document
from api.v1.workloads import WorkloadRequest

_LONGEST = 60
SHAPE = ("pieces", "per_server", "together", "at_least")


class WorkloadForm(forms.Form):
    """A workload to submit, or the new terms of one that exists.

    A number of tasks is required unless the box for no limit is ticked. `kinds` is how many kinds of
    pieces the pool can run, and `starts_together` whether several tasks may start at once: fields
    that the pool refuses are left out.
    """

    name = forms.CharField(max_length=253, help_text="To find it again, such as training.")
    tasks = forms.CharField(
        max_length=_LONGEST,
        required=False,
        label="Tasks at once",
        help_text="How many may run at the same time.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )
    unlimited = forms.BooleanField(
        required=False,
        label="As many tasks as possible",
        help_text="Without a limit it takes all that others leave, also what they may need soon.",
    )
    priority = forms.IntegerField(
        required=False,
        initial=0,
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        help_text="Of your own workloads the higher one goes first.",
    )
    pieces = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PIECES,
        label="Pieces of one task",
        help_text="With a number, the amounts at the top of this form are those of one piece. All pieces"
        " of a task start together, each on one server, such as the nodes of a job. Empty: a task is one"
        " piece.",
    )
    per_server = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PIECES,
        label="Pieces on one server at most",
        help_text="Of one task. Empty: any number.",
    )
    together = forms.CharField(
        required=False,
        max_length=LABEL_LENGTH,
        label="Servers with the same label",
        help_text="Such as rack: all pieces of a task run on servers with the same rack.",
    )
    at_least = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PIECES,
        label="Tasks that start at once",
        help_text="If fewer fit, none starts. Empty: tasks start one by one.",
    )
    second_pieces = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PIECES,
        label="Pieces of a second kind",
        help_text="Such as the workers of a head, with a demand of their own below.",
    )
    server_selector = forms.CharField(
        required=False,
        max_length=10_000,
        label="Only servers with labels",
        help_text="One label=value on a line. The same label twice: one of the values.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        pool: Pool,
        resources: Sequence[Resource],
        workload: Workload | None = None,
        kinds: int = 0,
        starts_together: bool = True,
    ) -> None:
        super().__init__(data, initial=_initial(workload, resources), label_suffix="")
        self._resources, self._workload = resources, workload
        if workload is not None:
            del self.fields["name"]
        if not pool.policy_places:
            del self.fields["server_selector"]
        if workload is not None:
            # What the workload has stays editable even if the policy refuses it: to remove it.
            kinds = max(kinds, len(workload.pieces), int(workload.at_least > 1))
        for names, of_kind in ((SHAPE, 1), (("second_pieces",), MAX_KINDS)):
            for name in names if kinds < of_kind else ():
                del self.fields[name]
        if not starts_together and (workload is None or workload.at_least == 1):
            self.fields.pop("at_least", None)
        in_pieces = bool(kinds and self["pieces"].value())
        self._demands = self._add_demands("demand", "piece" if in_pieces else "task")
        self._second = (
            self._add_demands("second_demand", "piece of the second kind") if kinds > 1 else []
        )
        self.order_fields(
            [
                "name", *self._demands, "tasks", "unlimited", "priority", "server_selector", *SHAPE,
                "second_pieces", *self._second,
            ]
        )  # fmt: skip

    def _add_demands(self, prefix: str, whose: str) -> list[str]:
        """Add a field for each resource, and return the names of the fields."""
        for position, resource in enumerate(self._resources):
            self.fields[f"{prefix}_{position}"] = forms.CharField(
                required=False,
                max_length=_LONGEST,
                label=f"{resource.name} of one {whose}",
                help_text=f"In {unit_text(resource.unit) or resource.name}, such as 0.5 or 4."
                " Empty: none.",
            )
        return [f"{prefix}_{position}" for position, _ in enumerate(self._resources)]

    @property
    def task_fields(self) -> list[forms.BoundField]:
        """Fields that every workload has."""
        folded = {each.name for each in [*self.shape_fields, *self.second_fields]}
        return [field for field in self if field.name not in folded]

    @property
    def shape_fields(self) -> list[forms.BoundField]:
        """Fields of tasks that have several pieces or start together."""
        return [self[name] for name in SHAPE if name in self.fields]

    @property
    def second_fields(self) -> list[forms.BoundField]:
        """Fields of a second kind of pieces."""
        return [self[name] for name in ("second_pieces", *self._second) if name in self.fields]

    @property
    def has_shape(self) -> bool:
        """True if a field of pieces has a value or a mistake, so that it must be seen."""
        return any(
            field.value() or field.errors for field in [*self.shape_fields, *self.second_fields]
        )

    @property
    def has_second(self) -> bool:
        """True if a field of the second kind has a value or a mistake."""
        return any(field.value() or field.errors for field in self.second_fields)

    def clean_server_selector(self) -> dict[str, str | list[str]]:
        """Return the labels, one `label=value` on each line."""
        return selector_of_lines(self.cleaned_data["server_selector"])

    def clean(self) -> dict[str, Any]:
        """Read the fields as the API does, so that both refuse the same."""
        cleaned: dict[str, Any] = super().clean() or {}
        tasks = cleaned.get("tasks", "").strip()
        if cleaned.get("unlimited") and tasks:
            self.add_error("tasks", "Leave it empty if as many tasks as possible may run.")
        elif not cleaned.get("unlimited") and not _is_whole(tasks, MAX_TASKS):
            # An empty number must not mean no limit, which takes all that others leave.
            self.add_error("tasks", "Expected a whole number, such as 10.")
        self._refuse_half_a_gang(cleaned)
        if self.errors:
            return cleaned
        try:
            self.workload = read_document(WorkloadRequest, self._document(cleaned, tasks))
            gang = gang_read(self.workload, self._resources)
            if self._workload is None:
                start_check(gang, self.workload["tasks"], "")
            if gang.pieces:
                # Pieces have demands of their own, and that of the task is their sum.
                gang_check(gang, "")
                return cleaned
            demand = vector_from(self.workload["demand"], self._resources, pointer="/demand")
        except DomainError as error:
            self.refused(error)
        else:
            if not any(demand):
                self.add_error(None, "Enter how much of at least one resource a task needs.")
        return cleaned

    def _refuse_half_a_gang(self, cleaned: Mapping[str, Any]) -> None:
        """Refuse what is only for tasks of several pieces if there is one piece."""
        second = any(cleaned.get(name, "").strip() for name in self._second)
        if second and not cleaned.get("second_pieces") and "second_pieces" not in self.errors:
            self.add_error("second_pieces", "Expected the number of these pieces, such as 1.")
        if "pieces" in self.errors or cleaned.get("pieces"):
            return
        if cleaned.get("second_pieces"):
            self.add_error("pieces", "Expected the number of pieces of the first kind, such as 1.")
            return
        for name in ("per_server", "together"):
            if cleaned.get(name):
                self.add_error(
                    name, "This is for tasks of several pieces: enter their number first."
                )

    def refused(self, error: DomainError) -> None:
        """Put what the service refused beside the fields that it names."""
        add_refusal(self, error, self._field_of)

    def changes(self) -> dict[str, Any]:
        """The fields of a valid form as a simulation of this pool takes them."""
        read = self.workload
        gang = gang_read(read, self._resources)
        described: dict[str, Any] = {}
        if gang.pieces:
            described["pieces"] = [
                {"count": each["count"], "demand": _quantities(each["demand"])}
                for each in read["pieces"]
            ]
        else:
            described["demand"] = _quantities(read["demand"])
        had_gang = self._workload is not None and not Gang.of(self._workload).is_plain
        if had_gang or not gang.is_plain:
            described["at_least"] = gang.at_least
            if gang.pieces:
                described |= {"per_server": gang.per_server, "together": gang.together}
            else:
                # Left out, the pieces that the workload has would stay.
                described["pieces"] = []
        return {
            **described,
            "tasks": read["tasks"],
            "priority": read["priority"],
            "server_selector": read["server_selector"],
        }

    def _document(self, cleaned: Mapping[str, Any], tasks: str) -> dict[str, Any]:
        demand = self._demand(cleaned, self._demands)
        count, second = cleaned.get("pieces"), cleaned.get("second_pieces")
        kinds: list[dict[str, Any]] = []
        if count:
            kinds.append({"count": count, "demand": demand})
        if second:
            kinds.append({"count": second, "demand": self._demand(cleaned, self._second)})
        # The document requires a name, which the form of a change does not have.
        name = cleaned["name"] if self._workload is None else self._workload.name
        return {
            "name": name,
            **({"pieces": kinds} if kinds else {"demand": demand}),
            "per_server": cleaned.get("per_server"),
            "together": cleaned.get("together", ""),
            "at_least": cleaned.get("at_least") or 1,
            # Empty only with the box for no limit ticked: `clean` has refused it otherwise.
            "tasks": int(tasks) if tasks else None,
            "priority": cleaned.get("priority") or 0,
            "server_selector": cleaned.get("server_selector", {}),
        }

    def _demand(self, cleaned: Mapping[str, Any], fields: Sequence[str]) -> dict[str, str]:
        texts = {name: cleaned[name].strip() for name in fields}
        return {
            resource.name: texts[name]
            for name, resource in zip(fields, self._resources, strict=False)
            if texts[name]
        }

    def _field_of(self, pointer: str) -> str | None:
        for prefix, fields in (
            ("/demand", self._demands),
            ("/pieces/0/demand", self._demands),
            ("/pieces/1/demand", self._second),
        ):
            for name, resource in zip(fields, self._resources, strict=False):
                if pointer in (prefix, f"{prefix}/{pointer_token(resource.name)}"):
                    return name
        if pointer.startswith("/pieces/1"):
            return "second_pieces"
        name = pointer.split("/")[1] if "/" in pointer else ""
        return name if name in self.fields else None


def selector_of_lines(text: str) -> dict[str, str | list[str]]:
    """Return the selector in lines of `label=value`. Raises `ValidationError`."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        label, equals, value = line.partition("=")
        if not equals:
            raise forms.ValidationError(f"{line.strip()}: expected label=value.")
        found.setdefault(label.strip(), []).append(value.strip())
    return {label: each[0] if len(each) == 1 else each for label, each in found.items()}


def _initial(workload: Workload | None, resources: Sequence[Resource]) -> dict[str, Any]:
    if workload is None:
        return {}
    labels = [
        f"{label}={value}"
        for label, values in workload.server_selector.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    gang = Gang.of(workload)
    kinds = gang.kinds(resources) or [workload.demand]
    demands = {
        f"{prefix}_{position}": decimal_text(amount)
        for prefix, kind in zip(("demand", "second_demand"), kinds, strict=False)
        for position, (_, amount) in enumerate(zip(resources, kind, strict=False))
        if amount
    }
    counts = dict(
        zip(("pieces", "second_pieces"), (each.count for each in gang.pieces), strict=False)
    )
    return {
        **demands,
        **counts,
        "per_server": gang.per_server,
        "together": gang.together,
        "at_least": gang.at_least if gang.at_least > 1 else None,
        "tasks": "" if workload.tasks is None else workload.tasks,
        "unlimited": workload.tasks is None,
        "priority": workload.priority,
        "server_selector": "\n".join(labels),
    }


def _quantities(demand: Mapping[str, Any]) -> dict[str, str]:
    """Return a demand as JSON keeps it."""
    return {
        name: value if isinstance(value, str) else decimal_text(value)
        for name, value in demand.items()
    }


def _is_whole(text: str, most: int) -> bool:
    # ASCII, because isdigit() accepts ² and others that int() refuses.
    return text.isascii() and text.isdigit() and len(text) < _LONGEST and int(text) <= most
