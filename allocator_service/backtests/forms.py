"""The form for a backtest, in the admin and on a tenant's pages."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet

from allocator_service.allocation.policies import policy_title
from allocator_service.backtests.errors import (
    MAX_CELLS,
    MAX_SEED,
    MAX_SERVER_ROWS,
    MAX_SERVERS,
    MAX_TENANTS,
)
from allocator_service.backtests.uploads import FORMATS
from allocator_service.core.errors import DomainError, Unacceptable
from allocator_service.core.quantities import parse_quantity
from allocator_service.core.service_forms import add_refusal
from allocator_service.pools.models import Pool
from policies.simulation import POLICIES

MAX_MIB = 32
MAX_TEXT = 100_000
LONGEST_NUMBER = 30
_BESIDE = ("static", "drf", "drfh")
_GZIP = b"\x1f\x8b"
_NOT_AMOUNTS = ("quantity.syntax", "quantity.negative")
# Where the form asks for what a pointer of the service's refusal names; the longest that fits.
_FIELDS = {
    "/trace": "file",
    "/trace/format": "format",
    "/trace/tenant": "jobs_of",
    "/trace/tenants": "tenants",
    "/trace/processors_per_node": "processors_per_node",
    "/trace/skip_bad_lines": "skip_bad_lines",
    "/history": "end",
    "/history/from": "begin",
    "/pool": "pool",
    "/servers": "servers",
    "/policies": "policies",
    "/seeds": "seeds",
}

# Fields that few backtests need, by the title under which a page folds them.
_FOLDED = {
    "More about the trace": ("jobs_of", "tenants", "processors_per_node", "skip_bad_lines"),
    "Options of policies, and seeds": ("options", "seeds", "resample"),
}


@dataclass(frozen=True)
class FormSection:
    """Fields of a form that stand together. Those with a title can be folded."""

    title: str
    fields: Sequence[forms.BoundField]
    is_open: bool


class _Instant(forms.DateTimeField):
    """A day and a time in UTC, which the browser helps to choose."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class BacktestForm(forms.Form):
    """A pool's past or a trace's file, and the policies to try on it.

    `pools` are those that may be named. With `of_pools`, one is required.
    """

    name = forms.CharField(required=False, max_length=200, help_text="To find it again.")
    pool = forms.ModelChoiceField(
        Pool.objects.none(),
        to_field_name="slug",
        required=False,
        help_text="Whose history it is; of a trace, whose servers it runs on.",
    )
    begin = _Instant(label="From", required=False, help_text="Of the history, in UTC.")
    end = _Instant(label="To", required=False, help_text="Of the history, in UTC.")
    file = forms.FileField(
        label="Trace",
        required=False,
        help_text=f"Instead of the history: a file of at most {MAX_MIB} MiB, packed with gzip or not.",
    )
    format = forms.ChoiceField(
        label="Format of the trace", choices=[(name, name) for name in FORMATS]
    )
    jobs_of = forms.CharField(
        label="Whose a job is",
        required=False,
        max_length=20,
        help_text="Of a trace as sacct: account (the default), user, group, partition or qos; as swf:"
        " user, group, queue or partition.",
    )
    tenants = forms.IntegerField(
        label="Tenants",
        required=False,
        min_value=1,
        max_value=MAX_TENANTS,
        help_text="Of a trace as alibaba or swim: how many its jobs are divided among.",
    )
    processors_per_node = forms.IntegerField(
        label="Processors of a node",
        required=False,
        min_value=1,
        max_value=10**9,
        help_text="Of a trace as swf: a job of more processors has a piece on each node.",
    )
    skip_bad_lines = forms.BooleanField(
        label="Skip bad lines",
        required=False,
        help_text="Count the lines that cannot be read instead of refusing the trace.",
    )
    servers = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="Instead of the pool's. A kind a line, how many and what each has:"
        " 40 cpu=64 memory=256",
    )
    policies = forms.MultipleChoiceField(
        choices=[(name, policy_title(name)) for name in sorted(POLICIES, key="static".__ne__)],
        initial=_BESIDE,
        widget=forms.CheckboxSelectMultiple,
        help_text="The first is what the others are compared with.",
    )
    options = forms.CharField(
        label="Options of policies",
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text="A policy a line, by its name in the API, where its defaults are not what you want:"
        " slots slots_per_largest_server=14",
    )
    seeds = forms.CharField(
        initial="0", max_length=500, help_text="Whole numbers, for policies that draw: 1 2 3."
    )
    resample = forms.BooleanField(
        required=False,
        help_text="Draw the jobs of each seed with replacement, so that every policy has a spread.",
    )

    def __init__(
        self, *args: Any, pools: QuerySet[Pool], of_pools: bool = False, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        pool = cast("forms.ModelChoiceField[Pool]", self.fields["pool"])
        pool.queryset, pool.required = pools.order_by("slug"), of_pools

    def sections(self) -> list[FormSection]:
        """Return the fields by section. A section is open if it has an input or an error."""
        folded = {name for names in _FOLDED.values() for name in names}
        shown = [field for field in self if field.name not in folded]
        touched = {*self.errors, *(self.changed_data if self.is_bound else ())}
        return [
            FormSection("", shown, is_open=True),
            *(
                FormSection(title, [self[name] for name in names], not touched.isdisjoint(names))
                for title, names in _FOLDED.items()
            ),
        ]

    def clean_seeds(self) -> list[int]:
        words = self.cleaned_data["seeds"].replace(",", " ").split()
        if not (words and all(word.isascii() and word.isdigit() for word in words)):
            raise ValidationError("Expected whole numbers, such as 1 2 3.")
        # Short enough before they are read: int() of thousands of digits raises an error of its own.
        seeds = [int(word) for word in words if len(word) < 17]
        if len(seeds) < len(words) or max(seeds) > MAX_SEED or len(seeds) > MAX_CELLS:
            raise ValidationError(f"Expected at most {MAX_CELLS} numbers, none above {MAX_SEED}.")
        return seeds

    def clean_file(self) -> bytes | None:
        file: UploadedFile[bytes] | None = self.cleaned_data.get("file")
        if file is None:
            return None
        if (file.size or 0) > MAX_MIB * 2**20:
            raise ValidationError(f"The file is larger than {MAX_MIB} MiB: pack it with gzip.")
        content = bytes(file.read())
        # Without a time of its own, equal files are equal as gzip.
        return content if content[:2] == _GZIP else gzip.compress(content, 1, mtime=0)

    def clean_servers(self) -> list[dict[str, Any]]:
        rows = [
            {
                "count": _count(words[0], line),
                "capacity": _amounts(words[1:], line),
                "labels": {},
                "contributed_by": None,
            }
            for line, words in _lines(self.cleaned_data["servers"])
        ]
        if len(rows) > MAX_SERVER_ROWS:
            raise ValidationError(f"Expected at most {MAX_SERVER_ROWS} lines.")
        return rows

    def clean_options(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for line, (policy, *pairs) in _lines(self.cleaned_data["options"]):
            if policy not in self.cleaned_data.get("policies", POLICIES):
                raise ValidationError(
                    f"Line {line}: {policy[:40]} is not among the policies above."
                )
            if policy in found:
                raise ValidationError(f"Line {line}: {policy} was there before.")
            found[policy] = {name: _value(text) for name, text in _pairs(pairs, line).items()}
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        for side, other in (("begin", "end"), ("end", "begin")):
            if cleaned.get(side) and not cleaned.get(other) and other not in self.errors:
                self.add_error(other, "A period has a beginning and an end.")
        return cleaned

    def asked(self) -> dict[str, Any]:
        """Return the request of the valid form, as the service takes it."""
        cleaned = self.cleaned_data
        begin: datetime | None = cleaned["begin"]
        end: datetime | None = cleaned["end"]
        trace = None
        if cleaned["file"] is not None:
            trace = {
                "format": cleaned["format"],
                "content": base64.b64encode(cleaned["file"]).decode(),
                "encoding": "gzip",
                "begin": None,
                "options": {
                    "tenant": cleaned["jobs_of"] or None,
                    "tenants": cleaned["tenants"],
                    "processors_per_node": cleaned["processors_per_node"],
                    "skip_bad_lines": cleaned["skip_bad_lines"] or None,
                },
            }
        return {
            "name": cleaned["name"],
            "trace": trace,
            "history": {"from": begin, "to": end} if begin and end else None,
            "servers": cleaned["servers"],
            "tenants": [],
            "groups": [],
            "policies": [
                {"name": name, "options": cleaned["options"].get(name, {})}
                for name in cleaned["policies"]
            ],
            "seeds": cleaned["seeds"],
            "resample": cleaned["resample"],
            "step": None,
            "window": None,
        }

    def refused(self, error: DomainError) -> None:
        """Show the errors of the service beside their fields."""
        add_refusal(self, error, _field_of)


def _field_of(pointer: str) -> str | None:
    if pointer.startswith("/policies/") and "/options" in pointer:
        return "options"
    fitting = [known for known in _FIELDS if f"{pointer}/".startswith(f"{known}/")]
    return _FIELDS[max(fitting, key=len)] if fitting else None


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line that has any, with its number."""
    for number, line in enumerate(text.splitlines(), start=1):
        if words := line.split():
            yield number, words


def _pairs(words: list[str], line: int) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if not pairs or not all(name and equals and value for name, equals, value in pairs):
        raise ValidationError(f"Line {line}: expected name=value after the first word.")
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise ValidationError(f"Line {line}: a name is there twice.")
    return {name: value for name, _, value in pairs}


def _amounts(words: list[str], line: int) -> Mapping[str, str]:
    amounts = _pairs(words, line)
    for text in amounts.values():
        try:
            parse_quantity(text)
        except Unacceptable as error:
            if error.code in _NOT_AMOUNTS:  # what more is wrong depends on the unit
                raise ValidationError(f"Line {line}: {error.detail}") from error
    return amounts


def _count(word: str, line: int) -> int:
    count = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0
    if not 1 <= count <= MAX_SERVERS:
        raise ValidationError(
            f"Line {line}: expected how many servers first, from 1 to {MAX_SERVERS},"
            f" not {word[:40]}."
        )
    return count


def _value(text: str) -> Any:
    """Return a number, true or false, or any other word as text."""
    try:
        # Long numbers stay text: they would lose digits as floats, or be slow as integers.
        value = json.loads(text) if len(text) <= LONGEST_NUMBER else text
    except ValueError:
        return text
    plain = isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value))
    return value if plain else text
