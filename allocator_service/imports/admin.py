"""Imports of files in the admin, with a preview of each row.

Commands and API import and refuse the same rows. The preview's page carries the file, which is
classified again before it is written.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path

from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.display import counted
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.core.visible import visible_pools
from allocator_service.imports import columns
from allocator_service.imports.checks import check_slug
from allocator_service.imports.columns import FORMATS, Column, sample_csv
from allocator_service.imports.kinds import NODES, TREE, WORKLOADS, ImportKind
from allocator_service.imports.reading import utf8_text
from allocator_service.imports.rows import ImportChoice, ImportReport, Outcome, Owner, RowReport
from allocator_service.imports.slurm_tree import TENANT_COLUMNS
from allocator_service.imports.tenants import TENANT_FORMATS, read_tenants, tenants_import
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.tenants.admin import TenantAdmin
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.admin import WorkloadAdmin
from allocator_service.workloads.models import Workload

MAX_MIB = 8
MAX_BYTES = MAX_MIB * 2**20
ROWS_SHOWN = 500
UNKNOWN_TENANT = "sample-tenant"  # in samples for pools without members
_NOT_REPEATED = {"csrfmiddlewaretoken", "content", "apply", "reason", "generation"}


class FileForm(forms.Form):
    """A file, or the content of one that was previewed. Subclasses determine its kind."""

    format = forms.ChoiceField()
    file = forms.FileField(required=False, help_text=f"UTF-8, at most {MAX_MIB} MiB.")
    content = forms.CharField(required=False, widget=forms.HiddenInput)
    skip_refused = forms.BooleanField(
        required=False, help_text="Write the other rows if some are refused, instead of none."
    )
    formats: ClassVar[Sequence[str]]
    columns: ClassVar[Sequence[Column]]
    objects: ClassVar[str] = "nodes"  # of Kubernetes

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = cast("forms.ChoiceField", self.fields["format"])
        chosen.choices = [(name, name) for name in self.formats]
        chosen.help_text = " ".join(
            f"{name}: {FORMATS[name].format(objects=self.objects)}" for name in self.formats
        )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        file: UploadedFile | None = cleaned.get("file")
        if file is None and not cleaned.get("content"):
            self.add_error("file", "Choose a file.")
        elif file is not None and (file.size or 0) > MAX_BYTES:
            self.add_error("file", f"The file is larger than {MAX_MIB} MiB: {self.otherwise}")
        elif not self.errors:
            try:
                content = _unpack(cleaned["content"]) if file is None else file.read()
                cleaned["text"] = utf8_text(content, "The file")
            except DomainError as error:
                self.add_error("file", error.detail)
            else:
                cleaned["content"] = _pack(content)
        return cleaned

    @property
    def otherwise(self) -> str:
        """The other way to import a larger file."""
        return "import it by command or over HTTP."

    def report(self, *, dry_run: bool) -> ImportReport:
        """Import the file of a valid form. Raises `DomainError` for a file that cannot be read."""
        raise NotImplementedError

    def choice(self, *, dry_run: bool) -> ImportChoice:
        return ImportChoice(
            dry_run,
            self.cleaned_data["skip_refused"],
            self.cleaned_data.get("register_tenants", False),
        )


class TenantFileForm(FileForm):
    """Tenants from a CSV with slug and name, or from the API's JSON array."""

    formats, columns = TENANT_FORMATS, columns.TENANTS
    field_order = ["format", "file"]

    def report(self, *, dry_run: bool) -> ImportReport:
        """Import the tenants."""
        file = read_tenants(self.cleaned_data["text"], self.cleaned_data["format"])
        return tenants_import(file=file, choice=self.choice(dry_run=dry_run), now=utc_now())


def open_pools() -> QuerySet[Pool]:
    return Pool.objects.filter(retired_at=None).order_by("slug")


class PoolFileForm(FileForm):
    """Rows of a pool."""

    pool = forms.ModelChoiceField(open_pools(), to_field_name="slug")
    register_tenants = forms.BooleanField(
        required=False, help_text="Register unknown tenants under their slug."
    )
    field_order = ["pool", "format", "file"]
    kind: ClassVar[ImportKind]

    @property
    def owner(self) -> Owner:
        """The owner of rows that name none, in a valid form."""
        return Owner(self.cleaned_data.get("tenant"), self.cleaned_data["tenant_label"] or None)

    def report(self, *, dry_run: bool) -> ImportReport:
        """Import into the pool."""
        cleaned, pool = self.cleaned_data, self.cleaned_data["pool"]
        file = self.kind.read(cleaned["text"], cleaned["format"], resources_of(pool), self.owner)
        choice = self.choice(dry_run=dry_run)
        return self.kind.write(pool=pool, file=file, choice=choice, now=utc_now())


class OwnedFileForm(PoolFileForm):
    """Rows of a pool, with the tenant of rows that name none."""

    tenant = forms.CharField(required=False, help_text="Slug of the tenant of rows that name none.")
    tenant_label = forms.CharField(
        required=False, max_length=253, help_text="Label that names the tenant, instead of a slug."
    )
    field_order = [
        *("pool", "format", "file", "skip_refused", "tenant", "tenant_label", "register_tenants"),
    ]

    def clean_tenant(self) -> str | None:
        slug: str = self.cleaned_data["tenant"].strip()
        try:
            return check_slug(slug, "") if slug else None
        except DomainError as error:
            raise ValidationError(error.detail) from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("tenant") and cleaned.get("tenant_label"):
            self.add_error("tenant_label", "A slug and a label exclude each other.")
        return cleaned


class ServerFileForm(OwnedFileForm):
    """Servers from CSV, `kubectl get nodes -o json` or `scontrol show node --json`."""

    kind, formats, columns = NODES, NODES.formats, columns.NODES


class TreeFileForm(PoolFileForm):
    """Groups and members from CSV or `sacctmgr --parsable2 show association tree`."""

    kind, formats, columns = TREE, TREE.formats, columns.TREE
    tenant_label = forms.ChoiceField(
        choices=[(name, name) for name in TENANT_COLUMNS],
        required=False,
        label="Members are",
        help_text="sacctmgr: the column that names the members.",
    )


class WorkloadFileForm(OwnedFileForm):
    """Workloads from CSV, `kubectl get pods -o json` or Kueue's workloads."""

    kind, formats, columns = WORKLOADS, WORKLOADS.formats, columns.WORKLOADS
    objects = "pods"


class FileImportAdmin(ServiceAdmin):
    """A list with an import of files."""

    change_list_template = "admin/imports/change_list.html"
    file_form: ClassVar[type[FileForm]]

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_import"
        view = self.admin_site.admin_view
        return [
            path("import/", view(self.import_file), name=name),
            path("import/sample/", view(self.sample_file), name=f"{name}_sample"),
            *super().get_urls(),
        ]

    def sample_file(self, request: HttpRequest) -> HttpResponse:
        """Return a sample of a CSV file, with the resources and a member of the pool that is named."""
        self._check_import(request)
        resources: Sequence[Resource] = ()
        tenant = UNKNOWN_TENANT
        if issubclass(self.file_form, PoolFileForm):
            pools = visible_pools(request.user).of(open_pools(), "slug")
            pool = get_object_or_404(pools, slug=request.GET.get("pool", ""))
            resources = resources_of(pool)
            slugs = members_of(pool=pool).values_list("membership__tenant__slug", flat=True)
            tenant = slugs.order_by("membership__tenant__slug").first() or UNKNOWN_TENANT
        content = sample_csv(self.file_form.columns, resources, tenant)
        name = f"sample-{self.opts.verbose_name_plural}.csv".replace(" ", "-")
        return HttpResponse(
            content,
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def _check_import(self, request: HttpRequest) -> None:
        if not (self.has_add_permission(request) and self.has_change_permission(request)):
            raise PermissionDenied

    def import_file(self, request: HttpRequest) -> HttpResponse:
        """Show the form, then the preview of a file, then write the file that was previewed."""
        self._check_import(request)
        form = self.file_form(request.POST or None, request.FILES or None)
        seen = visible_pools(request.user)
        if seen.limited or not request.user.has_perm("tenants.add_tenant"):
            form.fields.pop("register_tenants", None)
        if isinstance(form, PoolFileForm):
            pools = cast("forms.ModelChoiceField[Pool]", form.fields["pool"])
            pools.queryset = seen.of(open_pools(), "slug")
        report = None
        if request.method == "POST" and form.is_valid():
            applies = "apply" in request.POST
            try:
                # A dry run also before writing: the pool may have changed since the preview.
                report = form.report(dry_run=True)
                if applies and _as_shown(report, request):
                    report = form.report(dry_run=False)
                    if report.written or not report.refused:
                        return self._done(request, report)
                elif applies:
                    self.message_user(
                        request, "The pool has changed: check the rows again.", messages.WARNING
                    )
            except DomainError as error:
                details = [item.detail for item in error.errors] or [error.detail]
                form.add_error(None, [ValidationError(each) for each in dict.fromkeys(details)])
                report = None
        context = {
            **self.admin_site.each_context(request),
            "title": f"Import {self.opts.verbose_name_plural}",
            "opts": self.opts,
            "form": form,
            "columns": [(column.title(), column.note) for column in form.columns],
            "unknown_tenant": UNKNOWN_TENANT,
            **({} if report is None else self._shown(request, form, report)),
        }
        return render(request, "admin/imports/import.html", context)

    def _shown(self, request: HttpRequest, form: FileForm, report: ImportReport) -> dict[str, Any]:
        """Return the context of a preview."""
        rows = sorted(report.rows, key=lambda row: row.outcome is not Outcome.REFUSED)
        pending = {outcome: report.objects.get(outcome, 0) for outcome in _DONE}
        possible = form.cleaned_data["skip_refused"] or not report.refused
        sent = [
            (name, value)
            for name, values in request.POST.lists()
            if name not in _NOT_REPEATED
            for value in values
        ]
        return {
            "report": report,
            "rows": [(row, _expected(row.outcome), _reasons(row)) for row in rows[:ROWS_SHOWN]],
            "counts": ", ".join(f"{n:,} {_expected(name)}" for name, n in report.objects.items()),
            "pending": self._in_words(pending, _DONE) if possible and any(pending.values()) else "",
            "hidden": [
                *sent,
                ("content", form.cleaned_data["content"]),
                ("generation", str(report.generation)),
            ],
            "reason": request.POST.get("reason", ""),
        }

    def _done(self, request: HttpRequest, report: ImportReport) -> HttpResponse:
        done = self._in_words(report.objects, {outcome: outcome for outcome in Outcome})
        text = f"{done}." if done else "The file holds no rows: nothing was done."
        if report.registered and report.written:
            text += f" {counted(len(report.registered), 'tenant')} registered."
        level = messages.SUCCESS if report.written else messages.INFO
        self.message_user(request, text[:1].upper() + text[1:], level)
        return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def _in_words(self, counts: Mapping[str, int], words: Mapping[str, str]) -> str:
        """Return a text such as "20 servers added, 3 changed"."""
        one, many = str(self.opts.verbose_name), str(self.opts.verbose_name_plural)
        parts: list[str] = []
        for outcome, word in words.items():
            count = counts.get(outcome, 0)
            if count:
                parts.append(
                    f"{count:,} {word}" if parts else f"{counted(count, one, many)} {word}"
                )
        return ", ".join(parts)


_DONE: Mapping[str, str] = {Outcome.ADDED: "to add", Outcome.CHANGED: "to change"}


def _expected(outcome: str) -> str:
    """Return the words of an outcome that is not written yet, such as "to add"."""
    return _DONE.get(outcome, outcome)


def _as_shown(report: ImportReport, request: HttpRequest) -> bool:
    """Return whether the pool is unchanged since the preview."""
    return request.POST.get("generation") == str(report.generation)


def _reasons(row: RowReport) -> str:
    reasons = [f"{error.detail} ({error.code})" for error in row.errors]
    return " ".join(reasons) or row.detail


def _pack(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def _unpack(text: str) -> bytes:
    unreadable = ValidationError("The rows cannot be read: choose the file again.")
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise unreadable from error
    # The limit of bytes stopped the decompression: the form did not write such content.
    if not unpacking.eof:
        raise unreadable
    return content


@admin.register(Tenant)
class ImportedTenantAdmin(FileImportAdmin, TenantAdmin):
    file_form = TenantFileForm


@admin.register(Workload)
class ImportedWorkloadAdmin(FileImportAdmin, WorkloadAdmin):
    file_form = WorkloadFileForm
