"""Filters of the admin's lists whose choices have texts for people."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.utils.text import capfirst

from allocator_service.core.display import month_text


class PresenceFilter(admin.EmptyFieldListFilter):
    """A filter whose choices have texts of their own."""

    absent, present = "No", "Yes"

    def choices(self, changelist: Any) -> Any:
        texts = {"1": self.absent, "0": self.present}
        for lookup, choice in zip((None, "1", "0"), super().choices(changelist), strict=True):
            if lookup is None:
                yield choice
                continue
            _, separator, count = str(choice["display"]).partition(" (")  # with facets
            yield {**choice, "display": f"{texts[lookup]}{separator}{count}"}


class PresentFilter(PresenceFilter):
    """A filter by an end, for objects of which those without one are current."""

    absent, present = "Current", "Retired"


class MemberFilter(PresenceFilter):
    """A filter by the end of a membership."""

    absent, present = "Current members", "Former members"


class RunnableFilter(PresenceFilter):
    """A filter by the reason why a workload cannot run."""

    absent, present = "Yes", "No"


class NamedChoices(admin.FieldListFilter):
    """Names of the choices of a filter, beside the class that has the choices."""

    def name_of(self, value: str) -> str:
        raise NotImplementedError

    def choices(self, changelist: Any) -> Any:
        for index, choice in enumerate(super().choices(changelist)):
            if index == 0:  # all
                yield choice
                continue
            value, separator, count = str(choice["display"]).partition(" (")  # with facets
            yield {**choice, "display": f"{self.name_of(value)}{separator}{count}"}


class MonthFilter(NamedChoices, admin.AllValuesFieldListFilter):
    """A filter by a month, which is stored as its first day, of the rows that the user sees."""

    def __init__(
        self, field: Any, request: Any, params: Any, model: Any, model_admin: Any, field_path: str
    ) -> None:
        super().__init__(field, request, params, model, model_admin, field_path)
        rows = model_admin.get_queryset(request).order_by(f"-{field_path}")
        self.lookup_choices = rows.values_list(field_path, flat=True).distinct()

    def name_of(self, value: str) -> str:
        """Return the name of a month, such as October 2026."""
        return month_text(value[: len("2026-10")])


class ObjectTypeFilter(NamedChoices, admin.AllValuesFieldListFilter):
    """A filter of the audit by the kind of object."""

    def name_of(self, value: str) -> str:
        """Return the name of the model of an object."""
        names = {each._meta.model_name: each._meta.verbose_name for each in apps.get_models()}
        return str(capfirst(names.get(value, value)))
