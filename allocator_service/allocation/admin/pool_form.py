"""Form of a pool in the admin, with the fields that the chosen policy uses."""

from typing import Any, ClassVar

from django import forms
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from allocator_service.allocation.admin.policy_forms import option_fields, options_read
from allocator_service.allocation.policies import (
    PolicyOption,
    limits_refusal,
    policy_choose,
    policy_documents,
    policy_title,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.conditional_fields import Conditions, offer_with, show_with
from allocator_service.core.duration_fields import DurationField
from allocator_service.core.durations import MOST_RECLAIM_DAYS
from allocator_service.core.errors import Refusals
from allocator_service.core.quantities import Resource
from allocator_service.core.service_forms import ServiceForm, refuse_unread
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.policy import DEFAULT_ANCHOR, PolicyChoice, Window
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.services import PoolSettings, pool_create, pool_update
from allocator_service.tenants.models import validate_slug
from policies.fields import TextField

DEFAULT_POLICY = "drfh"


def _policy_help() -> SafeString:
    """Return what the field means, with a link to each policy on the first page."""
    first_page = reverse("landing")
    links = format_html_join(
        "",
        '<li><a href="{}#policy-{}">{}</a></li>',
        [(first_page, each["name"], each["title"]) for each in policy_documents()],
    )
    return format_html(
        "How servers are divided among tenants. In doubt, {}."
        ' <a href="{}#which">Which policy for which pool</a>'
        "<details><summary>What each policy does</summary><ul>{}</ul></details>",
        policy_title(DEFAULT_POLICY),
        first_page,
        links,
    )


class PoolForm(ServiceForm):
    resources = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}),
        initial="cpu core\nmemory GiB",
        help_text="One on each line: its name and unit, such as “gpu GPU”. Resources can be added"
        " later, but not removed.",
    )
    policy_name = forms.ChoiceField(
        label="Policy",
        choices=lambda: [(policy["name"], policy["title"]) for policy in policy_documents()],
        initial=DEFAULT_POLICY,
    )
    policy_mode = forms.ChoiceField(
        label="Mode",
        choices=[("", "the policy's default"), ("divisible",) * 2, ("indivisible",) * 2],
        required=False,
        help_text="indivisible: only whole tasks run. divisible: a task may also get a part of its"
        " demand.",
    )
    window_length = DurationField(
        initial=Pool._meta.get_field("window_length").get_default(),
        required=False,
        help_text="How far back the past counts, in windows that begin anew (tumbling) or move along"
        " (sliding).",
    )
    window_half_life = DurationField(
        required=False, help_text="Time after which past use counts half as much. Empty: 7 days."
    )
    decision_interval = DurationField(
        initial=Pool._meta.get_field("decision_interval").get_default(),
        default="minutes",
        help_text="How often use is measured and budgets are checked. Policies that remember the past"
        " also decide this often.",
    )

    cluster_grace = DurationField(
        initial=Pool._meta.get_field("cluster_grace").get_default(),
        default="minutes",
        help_text="How long the servers of a cluster still count after its agent stopped reporting.",
    )
    minimum_run = DurationField(
        required=False,
        default="minutes",
        most_days=MOST_RECLAIM_DAYS,
        help_text="For so long a task keeps its server, and its job is not ended to make room for"
        " others. Empty: no minimum.",
    )
    notice = DurationField(
        required=False,
        default="minutes",
        most_days=MOST_RECLAIM_DAYS,
        help_text="How long before its end a job is warned. Empty: jobs end without a warning.",
    )
    churn = forms.IntegerField(
        required=False,
        help_text="The most tasks that each agent ends in one decision interval, so that not everything"
        " moves at once. A pool of several clusters has an agent for each. Empty: any number.",
    )

    class Meta:
        model = Pool
        fields = [
            "slug",
            "name",
            "resources",
            "policy_name",
            "policy_mode",
            "weights",
            "own_servers",
            "count",
            "window_kind",
            "window_length",
            "window_half_life",
            "decision_interval",
            "cluster_grace",
            "minimum_run",
            "notice",
            "churn",
            "window_anchor",
            "metering",
            "currency",
            "timezone",
            "transparent",
        ]
        labels: ClassVar = {"window_anchor": "Counted from"}
        help_texts: ClassVar = {
            "weights": "contribution: the weight of a tenant grows with the servers that it brought."
            " explicit: you set each weight.",
            "own_servers": "Guarantee to each workload of what it would get if its tenant ran alone on"
            " the servers that it contributed.",
            "count": "Amount that decisions make equal. total: all that a tenant gets. above: only what"
            " it gets beyond its guarantees.",
            "window_kind": "How the past counts, if the policy remembers it.",
            "window_anchor": "A moment from which intervals and windows are counted, such as midnight"
            " before a Monday.",
            "metering": "What counts as used, and is billed. allocation: what decisions give."
            " reported: what agents or an accounting system report.",
            "currency": "Three letters, such as EUR.",
            "timezone": "Region and city, such as Europe/Berlin. Months begin at midnight there.",
            "transparent": "Members see what each of them gets, compare policies, and see what a"
            " change costs. Otherwise each sees its own part only.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options: dict[PolicyOption, forms.Field] = {}
        if "policy_name" in self.fields:
            self.fields["policy_name"].help_text = _policy_help()
        if "window_kind" in self.fields:  # absent for users who may only look
            self.options = option_fields()
            added = {option.field_name: field for option, field in self.options.items()}
            self.prepare(added)
            self.fields.update(added)
            self.order_fields([name for _, names in self.sections() for name in names])
            self._add_conditions()
        if self.adding:
            self.initial.setdefault("window_anchor", DEFAULT_ANCHOR)
        else:
            present, options = self.instance.policy_name, self.instance.policy_options
            self.initial.update(
                {
                    option.field_name: options.get(option.name)
                    for option in self.options
                    if present in option.policies
                }
            )
            self.initial["resources"] = "\n".join(
                f"{resource.name} {resource.unit}".strip()
                for resource in resources_of(self.instance)
            )

    def sections(self) -> list[tuple[str, list[str]]]:
        """Return titles and names of the fields as they are shown."""
        offered: dict[tuple[str, ...], list[str]] = {}
        for option in self.options:
            offered.setdefault(option.policies, []).append(option.field_name)
        return [
            ("", ["slug", "name", "resources"]),
            ("Policy", ["policy_name", "policy_mode", "weights", "own_servers", "count"]),
            *(
                (f"Options of {', '.join(map(policy_title, names))}", fields)
                for names, fields in offered.items()
            ),
            ("Window", ["window_kind", "window_length", "window_half_life"]),
            (
                "Intervals and metering",
                ["decision_interval", "window_anchor", "cluster_grace", "metering"],
            ),
            ("Taking back what jobs hold", ["minimum_run", "notice", "churn"]),
            ("Money and secrecy", ["currency", "timezone", "transparent"]),
        ]

    def _add_conditions(self) -> None:
        """State which fields each policy, mode and kind of window uses."""
        documents = policy_documents()
        remembering = [each["name"] for each in documents if each["long_term"]]
        guaranteeing = [each["name"] for each in documents if not limits_refusal(each["name"], {})]
        windows: dict[str, Conditions] = {
            "window_kind": {},
            "window_length": {"window_kind": [WindowKind.TUMBLING, WindowKind.SLIDING]},
            "window_half_life": {"window_kind": [WindowKind.DECAY]},
        }
        for name, conditions in windows.items():
            show_with(self.fields[name], {"policy_name": remembering, **conditions})
        for name in ("own_servers", "count"):
            show_with(self.fields[name], {"policy_name": guaranteeing})
        choosable = {each["name"]: each["modes"] for each in documents if len(each["modes"]) > 1}
        show_with(self.fields["policy_mode"], {"policy_name": choosable})
        modes = {each["name"]: ["", *each["modes"]] for each in documents}
        offer_with(self.fields["policy_mode"], "policy_name", modes)

    def field_at(self, pointer: str) -> str | None:
        head = "/policy/options"
        if not pointer.startswith(head):
            return super().field_at(pointer)
        policy, name = self.data.get("policy_name", ""), pointer.removeprefix(head).strip("/")
        fields = [
            option.field_name
            for option in self.options
            if policy in option.policies and (not name or name.split("/")[0] == option.name)
        ]
        return fields[0] if fields else "policy_name"

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        validate_slug(slug)
        return slug

    def clean_resources(self) -> list[Resource]:
        lines = [line.split(maxsplit=1) for line in self.cleaned_data["resources"].splitlines()]
        for name, *unit in filter(None, lines):
            refuse_unread(TextField(max_length=63), name)
            refuse_unread(TextField(max_length=20, blank=True), unit[0].strip() if unit else "")
        return [Resource(*parts) for parts in lines if parts]

    def affecting(self) -> list[str]:
        cleaned, pool = self.cleaned_data, self.instance
        policy = self._policy(cleaned)
        present = (pool.policy_name, pool.policy_mode, pool.policy_options)
        named = ["policy"] if (policy.name, policy.mode, policy.options) != present else []
        settings = ("weights", "own_servers", "count")
        return named + [name for name in settings if cleaned[name] != getattr(pool, name)]

    def _policy(self, cleaned: dict[str, Any]) -> PolicyChoice:
        name = cleaned["policy_name"]
        options = options_read(self.options, cleaned, name)
        return policy_choose(name, cleaned["policy_mode"] or None, options)

    def check(self, cleaned: dict[str, Any]) -> None:
        refusals, policy = Refusals(), policy_choose(DEFAULT_POLICY, None, None)
        with refusals.collect():
            if "policy_name" in cleaned and "policy_mode" in cleaned:
                policy = self._policy(cleaned)
        # The field of a value that is absent has a mistake already: a correct value stands in for it.
        defaults = {
            field.name: field.get_default() for field in Pool._meta.fields if field.has_default()
        }
        stand_ins = {
            "resources": [Resource("cpu")],
            "window_anchor": DEFAULT_ANCHOR,
            "name": "",
            "churn": None,
        }
        with refusals.collect():
            self._settings({**defaults, **stand_ins, **cleaned}, policy).check()
        refusals.raise_any()

    def perform(self, cleaned: dict[str, Any]) -> Pool:
        settings = self._settings(cleaned, self._policy(cleaned))
        if self.adding:
            return pool_create(slug=cleaned["slug"], settings=settings, now=utc_now())
        return pool_update(pool=self.instance, settings=settings, version=None, now=utc_now())

    def _settings(self, cleaned: dict[str, Any], policy: PolicyChoice) -> PoolSettings:
        return PoolSettings(
            name=cleaned["name"],
            resources=cleaned["resources"],
            policy=policy,
            window=Window(
                cleaned["window_kind"],
                cleaned["window_anchor"],
                cleaned["window_length"],
                cleaned["window_half_life"],
            ),
            weights=cleaned["weights"],
            own_servers=cleaned["own_servers"],
            count=cleaned["count"],
            decision_interval=cleaned["decision_interval"],
            cluster_grace=cleaned["cluster_grace"],
            minimum_run=cleaned["minimum_run"],
            notice=cleaned["notice"],
            churn=cleaned["churn"],
            metering=cleaned["metering"],
            currency=cleaned["currency"],
            timezone=cleaned["timezone"],
            transparent=cleaned["transparent"],
        )
