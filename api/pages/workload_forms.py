"""The form in which a tenant describes a workload."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from allocator_service.core.display import unit_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource, decimal_text, pointer_token, vector_from
from allocator_service.pools.models import Pool
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS, Workload
from api.contract.documents import read_document
from api.v1.workloads import WorkloadRequest

_LONGEST = 60


class WorkloadForm(forms.Form):
    """A workload to submit, or the new terms of one that exists.

    A number of tasks is required unless the box for no limit is ticked.
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
    ) -> None:
        super().__init__(data, initial=_initial(workload, resources), label_suffix="")
        self._resources, self._workload = resources, workload
        if workload is not None:
            del self.fields["name"]
        if not pool.policy_places:
            del self.fields["server_selector"]
        for position, resource in enumerate(resources):
            self.fields[f"demand_{position}"] = forms.CharField(
                required=False,
                max_length=_LONGEST,
                label=f"{resource.name} of one task",
                help_text=f"In {unit_text(resource.unit) or resource.name}, such as 0.5 or 4.",
            )
        demands = [f"demand_{position}" for position, _ in enumerate(resources)]
        self.order_fields(["name", *demands, "tasks", "unlimited", "priority", "server_selector"])

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
            self.add_error("tasks", "Expected a whole number, such as 10.")
        if self.errors:
            return cleaned
        try:
            self.workload = read_document(WorkloadRequest, self._document(cleaned, tasks))
            demand = vector_from(self.workload["demand"], self._resources, pointer="/demand")
        except DomainError as error:
            self.refused(error)
        else:
            if not any(demand):
                self.add_error(None, "Enter how much of at least one resource a task needs.")
        return cleaned

    def refused(self, error: DomainError) -> None:
        """Put what the service refused beside the fields that it names."""
        for each in error.errors:
            self.add_error(self._field_of(each.pointer), each.detail)
        if not error.errors:
            self.add_error(None, error.detail)

    def changes(self) -> dict[str, Any]:
        """The fields of a valid form as a simulation of this pool takes them."""
        read = self.workload
        return {
            "demand": {
                name: value if isinstance(value, str) else decimal_text(value)
                for name, value in read["demand"].items()
            },
            "tasks": read["tasks"],
            "priority": read["priority"],
            "server_selector": read["server_selector"],
        }

    def _document(self, cleaned: Mapping[str, Any], tasks: str) -> dict[str, Any]:
        demand = {
            resource.name: text
            for position, resource in enumerate(self._resources)
            if (text := cleaned[f"demand_{position}"].strip())
        }
        name = cleaned["name"] if self._workload is None else self._workload.name
        return {
            "name": name,
            "demand": demand,
            "tasks": int(tasks) if tasks else None,
            "priority": cleaned.get("priority") or 0,
            "server_selector": cleaned.get("server_selector", {}),
        }

    def _field_of(self, pointer: str) -> str | None:
        for position, resource in enumerate(self._resources):
            if pointer == f"/demand/{pointer_token(resource.name)}":
                return f"demand_{position}"
        name = pointer.split("/")[1] if "/" in pointer else ""
        if name == "demand" and self._resources:
            return "demand_0"
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
    demands = {
        f"demand_{position}": decimal_text(amount)
        for position, (_, amount) in enumerate(zip(resources, workload.demand, strict=False))
        if amount
    }
    return {
        **demands,
        "tasks": "" if workload.tasks is None else workload.tasks,
        "unlimited": workload.tasks is None,
        "priority": workload.priority,
        "server_selector": "\n".join(labels),
    }


def _is_whole(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < _LONGEST and int(text) <= most
