"""The examples of the OpenAPI document: requests that are sent here, and what they are answered.

One story, told by an operator whose clock stands still. Ids, digests, cursors and secrets are
numbered in the order in which they appear, and numbers are cut to nine digits, so that the story
reads the same each time. `ALLOCATOR_RECORD_EXAMPLES=1 ./dev test tests/api/test_examples.py` writes
it down again; then write docs/openapi.yaml again as well.
"""

import dataclasses
import json
import os
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import jsonschema
import pytest

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.billing.models import Closing
from allocator_service.billing.statements.manifest import manifest_write
from allocator_service.core.clock import utc_now
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.models import Pool
from api.openapi.examples import FILE, Example
from tests import factories
from tests.backtests import CSV, SERVERS, work
from tests.documented import openapi

pytestmark = pytest.mark.django_db(transaction=True)

RECORD = "ALLOCATOR_RECORD_EXAMPLES"
MONDAY = datetime(2027, 1, 4, 8, tzinfo=UTC)
# Streams and pages of text, and answers without a body.
WITHOUT = {"metrics_show", "ledger_entries_export_export", "pools_months_entries_export",
           "pools_months_focus_export"}  # fmt: skip
_SHOWN_ROWS = 3
_CHANGING = {
    "id": re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b"),
    "digest": re.compile(r"\b[0-9a-f]{64}\b"),
}


class Story:
    """Sends requests and writes down the first of each operation, with its answer."""

    def __init__(self, client: factories.Client, clock: Any) -> None:
        self._client, self._clock = client, clock
        self._names: dict[str, str] = {}
        self.told: dict[str, Example] = {}
        self.turn(MONDAY)

    def turn(self, instant: datetime) -> None:
        self.now = instant
        self._clock.write_text(instant.isoformat())

    def call(self, operation: str, path: str, body: Any = None, **headers: str) -> Any:
        """The operation's request; `body` alone makes it a POST, unless the operation says else."""
        kind = operation.rsplit("_", 1)[-1]
        methods = {"update": "PATCH", "retire": "DELETE", "put": "PUT", "replace": "PUT",
                   "list": "GET", "show": "GET"}  # fmt: skip
        method = methods.get(kind, "POST")
        url = path if path.startswith("/") else f"/api/v1/{path}"
        answer = self._client.send(method, url, body, **headers)
        assert answer.status_code < 300, (operation, answer.status_code, answer.content)
        if operation not in self.told:
            example: Example = {"request": f"{method} {self._steady(url)}"}
            if body is not None:
                example["body"] = self._steady(body)
            example["status"] = answer.status_code
            if answer.content:
                example["answer"] = self._steady(answer.json())
            self.told[operation] = example
        return answer

    def _steady(self, value: Any) -> Any:
        if isinstance(value, dict):
            steady = {key: self._steady(part) for key, part in value.items()}
            for name in ("secret", "next_cursor"):
                if steady.get(name):
                    steady[name] = f"<{name}>"
            for name in ("seconds", "solve_seconds"):
                if steady.get(name):
                    steady[name] = 0.004
            return steady
        if isinstance(value, list):
            return [self._steady(part) for part in value[:_SHOWN_ROWS]]
        if isinstance(value, float):
            return float(f"{value:.9g}")
        if isinstance(value, str):
            value = re.sub(r"cursor=[^&]+", "cursor=<cursor>", value)
            for kind, pattern in _CHANGING.items():
                value = pattern.sub(partial(self._named, kind), value)
        return value

    def _named(self, kind: str, found: re.Match[str]) -> str:
        known = [name for name in self._names.values() if name.startswith(f"{kind} ")]
        name = self._names.setdefault(found[0], f"{kind} {len(known) + 1}")
        number = int(name.split()[1])
        if kind == "id":
            return f"01940000-0000-7000-8000-{number:012x}"
        return f"{number:064x}"


@pytest.fixture
def story(db, settings, tmp_path):
    clock = tmp_path / "clock"
    clock.write_text(MONDAY.isoformat())
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(clock))
    return Story(factories.client("operator"), clock)


def decided(pool: str) -> str:
    return str(factories.decision(Pool.objects.get(slug=pool)).pk)


def tenants_and_a_pool(story: Story) -> None:
    for operation, slug, name in (
        ("tenants_create", "physics", "Physics"),
        ("", "biology", "Biology"),
        ("", "chemistry", "Chemistry"),
    ):
        story.call(operation or "tenants_create", "tenants/", {"slug": slug, "name": name})
    story.call("tenants_list", "tenants/")
    story.call("tenants_show", "tenants/physics/")
    story.call(
        "tenants_update", "tenants/physics/", {"name": "Physics department"}, If_Match='"v1"'
    )
    story.call("tenants_retire", "tenants/chemistry/", If_Match='"v1"')
    story.call("pools_create", "pools/", {
        "slug": "lab",
        "name": "Lab",
        "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
        "policy": {"name": "drfh"},
        "weights": "explicit",
    })  # fmt: skip
    story.call("pools_list", "pools/")
    story.call("pools_show", "pools/lab/")
    story.call("pools_update", "pools/lab/", {"name": "Research lab"}, If_Match='"v1"')
    story.call("pools_create", "pools/", {
        "slug": "spare", "name": "Spare", "resources": [{"name": "cpu"}], "policy": {"name": "drf"},
    })  # fmt: skip
    story.call("pools_retire", "pools/spare/", If_Match='"v1"')
    groups = "pools/lab/groups/"
    story.call("pools_groups_create", groups, {"slug": "science", "name": "Science", "weight": 3})
    story.call("pools_groups_create", groups, {"slug": "guests", "name": "Guests"})
    story.call("pools_groups_list", groups)
    story.call("pools_groups_show", f"{groups}science/")
    story.call("pools_groups_update", f"{groups}science/", {"weight": 2}, If_Match='"v1"')
    story.call("pools_groups_history_list", f"{groups}science/history/")
    story.call("pools_groups_retire", f"{groups}guests/", If_Match='"v1"')
    story.call("pools_members_put", "pools/lab/members/physics/", {"weight": 1, "group": "science"})
    story.call("pools_members_put", "pools/lab/members/biology/", {"weight": 1})
    story.call("pools_members_list", "pools/lab/members/")
    story.call("pools_members_show", "pools/lab/members/physics/")


def servers_and_workloads(story: Story) -> None:
    servers, workloads = "pools/lab/servers/", "pools/lab/workloads/"
    made = story.call("pools_servers_create", servers, {
        "name": "high-memory", "contributed_by": "physics",
        "capacity": {"cpu": 2, "memory": "12Gi"}, "labels": {"rack": "r1"},
    })  # fmt: skip
    story.call("pools_servers_create", servers, {
        "name": "high-cpu", "contributed_by": "biology", "capacity": {"cpu": 12, "memory": "2Gi"},
    })  # fmt: skip
    server = made["Location"]
    story.call("pools_servers_list", servers)
    story.call("pools_servers_show", server)
    story.call("pools_servers_update", server, {"labels": {"rack": "r2"}}, If_Match='"v1"')
    story.call("pools_servers_drain_act", f"{server}drain/")
    story.call("pools_servers_activate_act", f"{server}activate/")
    old = story.call("pools_servers_create", servers, {"name": "old", "capacity": {"cpu": 1}})
    story.call("pools_servers_retire_act", f"{old['Location']}retire/")
    old = story.call("pools_servers_create", servers, {"name": "older", "capacity": {"cpu": 1}})
    story.call("pools_servers_retire", old["Location"], If_Match='"v1"')
    made = story.call("pools_workloads_create", workloads, {
        "tenant": "physics", "name": "lattice", "demand": {"cpu": "200m", "memory": "1Gi"},
    })  # fmt: skip
    story.call("pools_workloads_create", workloads, {
        "tenant": "biology", "name": "folding", "demand": {"cpu": 1, "memory": "200Mi"},
    })  # fmt: skip
    story.call("pools_workloads_list", workloads)
    story.call("pools_workloads_show", made["Location"])
    story.call("pools_workloads_update", made["Location"], {"priority": 5}, If_Match='"v1"')
    spare = story.call("pools_workloads_create", workloads, {
        "tenant": "physics", "name": "spare", "demand": {"cpu": 1}, "tasks": 3,
    })  # fmt: skip
    story.call("pools_workloads_retire", spare["Location"], If_Match='"v1"')
    imports = "pools/lab/imports/"
    story.call("pools_imports_nodes_create", f"{imports}nodes/", {
        "content": "name,contributed_by,capacity.cpu,capacity.memory\nnode-3,physics,4,8Gi\n",
        "dry_run": True,
    })  # fmt: skip
    story.call("pools_imports_groups_create", f"{imports}groups/", {
        "content": "kind,slug,parent,weight\ngroup,labs,,3\nmember,physics,labs,2\n",
        "dry_run": True,
    })  # fmt: skip
    story.call("pools_imports_workloads_create", f"{imports}workloads/", {
        "content": "name,demand.cpu,tasks\nsweep,1,5\n", "tenant": "physics", "dry_run": True,
    })  # fmt: skip


def a_decision(story: Story) -> None:
    story.call("pools_runs_request", "pools/lab/runs/", {"reason": "after maintenance"})
    run = f"runs/{decided('lab')}/"
    story.turn(story.now + timedelta(minutes=1))
    story.call("pools_runs_list", "pools/lab/runs/")
    story.call("pools_decision_show", "pools/lab/decision/")
    story.call("pools_allocations_list", "pools/lab/allocations/")
    story.call("pools_placements_list", "pools/lab/placements/")
    story.call("runs_show", run)
    for part in ("allocations", "placements", "tree"):
        story.call(f"runs_{part}_list", f"{run}{part}/")
    for part in ("certificate", "input", "proof"):
        story.call(f"runs_{part}_show", f"{run}{part}/")
    story.call("runs_verify_compute", f"{run}verify/", {})
    story.call("runs_explanation_show", f"{run}explanation/physics/")
    path = "pools/lab/members/physics/allocation-history/"
    story.call("pools_members_allocation_history_show", path)
    story.call("pools_decision_renderings_show", "pools/lab/decision/renderings/slurm/")
    decision = story.call("pools_decision_show", "pools/lab/decision/").json()
    story.call("pools_enforcement_replace", "pools/lab/enforcement/", {
        "agent": "slurm-lab", "target": "slurm", "class_label": "partition", "interval": "PT15S",
        "run": decision["run"]["id"], "generation": decision["generation"],
        "reported_at": story.now.isoformat(),
        "tenants": [
            {
                "tenant": "physics",
                "applied": {"cpu": "2", "memory": "10"},
                "used": {"cpu": "1.5", "memory": "8"},
                "pending_tasks": 4,
                "running_tasks": 7,
            },
        ],
    })  # fmt: skip
    story.call("pools_enforcement_show", "pools/lab/enforcement/")
    story.call("pools_entitlements_show", "pools/lab/entitlements/")
    story.call("pools_clusters_show", "pools/lab/clusters/")


def time_sharing(story: Story) -> None:
    factories.pool("turns", policy="tda", options={"period_seconds": 4100})
    story.call("pools_servers_create", "pools/turns/servers/", {
        "name": "s1", "contributed_by": "physics", "capacity": {"cpu": 15, "memory": 15},
    })  # fmt: skip
    for tenant, name, demand in (
        ("physics", "wide", {"cpu": 5, "memory": 2}),
        ("biology", "tall", {"cpu": 3, "memory": 3.5}),
    ):
        body = {"tenant": tenant, "name": name, "demand": demand}
        story.call("pools_workloads_create", "pools/turns/workloads/", body)
    story.call("runs_schedule_show", f"runs/{decided('turns')}/schedule/")


def what_if(story: Story) -> None:
    asked = story.call("pools_simulations_request", "pools/lab/simulations/", {
        "members": [{"tenant": "physics", "weight": 2}],
        "servers": {"add": [{"name": "new", "capacity": {"cpu": 8, "memory": "32Gi"}}]},
    })  # fmt: skip
    simulation_run(simulation_id=asked.json()["id"], clock=utc_now)
    story.call("simulations_show", asked["Location"])
    story.call("pools_simulations_list", "pools/lab/simulations/")
    problem = {
        "resources": ["cpu", "memory"],
        "servers": [
            {"name": "s1", "capacity": {"cpu": 2, "memory": 12}},
            {"name": "s2", "capacity": {"cpu": 12, "memory": 2}},
        ],
        "tenants": [{"name": "u1"}, {"name": "u2"}],
        "workloads": [
            {"tenant": "u1", "name": "a", "demand": {"cpu": 0.2, "memory": 1}},
            {"tenant": "u2", "name": "b", "demand": {"cpu": 1, "memory": 0.2}},
        ],
    }
    policy = {"policy": {"name": "drfh"}, "include": ["placements", "explanations"]}
    story.call("evaluations_compute", "evaluations/", problem | policy)
    body = {"policies": [{"name": "drfh"}, {"name": "static"}], "input": problem}
    story.call("comparisons_compute", "comparisons/", body)
    story.call("policies_list", "policies/")


def backtests(story: Story) -> None:
    question = {
        "name": "Last night",
        "trace": {"format": "csv", "content": CSV},
        "servers": SERVERS,
        "policies": ["static", "drfh"],
    }
    asked = story.call("backtests_request", "backtests/", question)
    work()
    story.call("backtests_show", asked["Location"])
    story.call("backtests_results_show", f"{asked['Location']}results/")
    story.call("backtests_list", "backtests/")
    other = story.call("backtests_request", "backtests/", question)
    story.call("backtests_cancel_act", f"{other['Location']}cancel/")


def usage_and_money(story: Story) -> None:
    story.call("pools_create", "pools/", {
        "slug": "metered", "name": "Metered", "metering": "reported",
        "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
        "policy": {"name": "drf"},
    })  # fmt: skip
    pool = "pools/metered/"
    story.call("pools_groups_create", f"{pool}groups/", {"slug": "science", "name": "Science"})
    for tenant in ("physics", "biology"):
        body = {"group": "science"}
        story.call("pools_members_put", f"pools/metered/members/{tenant}/", body)
    story.call("pools_usage_record", f"{pool}usage/", [{
        "source": "meter", "id": "job-1", "tenant": "physics",
        "resources": {"cpu": "1.25", "memory": "4"},
        "start": "2026-12-14T09:00:00Z", "end": "2026-12-14T10:00:00Z",
    }])  # fmt: skip
    story.call("pools_imports_usage_create", f"{pool}imports/usage/", {
        "content": "id,tenant,resources.cpu,start,end\n"
                   "job-2,biology,2,2026-12-15T09:00:00Z,2026-12-15T10:30:00Z\n",
        "source": "meter",
    })  # fmt: skip
    entries_seal_all(now=story.now)
    entries = story.call("ledger_entries_list", "ledger-entries/?pool=metered").json()["results"]
    story.call("ledger_blocks_list", "ledger-blocks/?pool=metered")
    plan = story.call("price_plans_create", "price-plans/", {
        "pool": "metered", "name": "2026", "from": "2026-12-01T00:00:00Z",
        "rates": [{"resource": "cpu", "pool": "0.40"}, {"resource": "memory", "pool": "0.05"}],
    })["Location"]  # fmt: skip
    story.call("price_plans_update", plan, {"name": "Prices of 2026"}, If_Match='"v1"')
    story.call("price_plans_publish_act", f"{plan}publish/")
    story.call("price_plans_show", plan)
    draft = story.call("price_plans_create", "price-plans/", {
        "pool": "metered", "name": "2027", "from": "2027-02-01T00:00:00Z",
        "rates": [{"resource": "cpu", "pool": "0.42"}],
    })  # fmt: skip
    story.call("price_plans_list", "price-plans/?pool=metered")
    story.call("price_plans_retire", draft["Location"], If_Match='"v1"')
    story.call("pools_statements_create", f"{pool}statements/", {"month": "2026-12"})
    manifest_write(closing=Closing.objects.get())
    story.call("pools_months_show", f"{pool}months/2026-12/")
    story.call("pools_months_manifest_show", f"{pool}months/2026-12/manifest/")
    story.call("pools_months_verify_compute", f"{pool}months/2026-12/verify/")
    story.call("focus_schemas_show", "focus-schemas/1.2/")
    story.call("pools_statements_show", f"{pool}statements/2026-12/physics/")
    story.call("pools_statements_list", f"{pool}statements/")
    of_group = f"{pool}groups/science/statements/"
    story.call("pools_groups_statements_list", of_group)
    story.call("pools_groups_statements_show", f"{of_group}2026-12/")
    correction = {"quantity": "1", "reason": "the meter was wrong"}
    entry = f"ledger-entries/{entries[0]['id']}/corrections/"
    story.call("ledger_entries_corrections_create", entry, correction)
    agreed = story.call("price_plans_create", "price-plans/", {
        "pool": "metered", "name": "2026, as agreed",
        "from": "2026-12-01T00:00:00Z", "to": "2027-01-01T00:00:00Z",
        "rates": [{"resource": "cpu", "pool": "0.38"}, {"resource": "memory", "pool": "0.05"}],
    }).json()  # fmt: skip
    rerating = {"plan": agreed["id"], "reason": "agreed in November"}
    story.call("pools_reratings_create", f"{pool}reratings/", rerating)
    story.call("pools_reratings_list", f"{pool}reratings/")
    notes = f"{pool}credit-notes/"
    note = story.call("pools_credit_notes_create", notes, {
        "tenant": "physics", "amount": "0.10", "reason": "an hour of outage",
    }).json()  # fmt: skip
    story.call("pools_credit_notes_list", notes)
    back = f"{notes}{note['id']}/reverse/"
    story.call("pools_credit_notes_reverse_create", back, {"reason": "counted twice"})
    budgets = f"{pool}budgets/"
    budget = story.call("pools_budgets_create", budgets, {
        "group": "science", "resource": "cpu", "amount": "500", "per": "P1M", "carry": "0.2",
        "then": "last",
    })  # fmt: skip
    story.call("pools_budgets_list", budgets)
    story.call("pools_budgets_show", budget["Location"])
    story.call("pools_budgets_clusters_show", f"{budget['Location']}clusters/")
    story.call("pools_budgets_update", budget["Location"], {"amount": "600"}, If_Match='"v1"')
    story.call("pools_budgets_history_list", f"{budget['Location']}history/")
    story.call("pools_budgets_retire", budget["Location"], If_Match='"v2"')
    units = f"{pool}service-units/"
    story.call("pools_service_units_create", units, {"tenant": "physics", "units": "1000"})
    story.call("pools_service_units_list", units)


def reports(story: Story) -> None:
    pool_meter_all(pool_id=Pool.objects.get(slug="lab").pk, now=story.now)
    entries_seal_all(now=story.now)
    period = "?from=2027-01-04T08:00:00Z&to=2027-01-04T09:00:00Z"
    for name in ("sharing-degree", "fairness", "utilization", "lending"):
        operation = f"pools_reports_{name.replace('-', '_')}_show"
        story.call(operation, f"pools/lab/reports/{name}/{period}")
    story.call("pools_reports_billing_show", "pools/metered/reports/billing/")


def webhooks_and_the_rest(story: Story) -> None:
    hook = story.call("webhooks_create", "webhooks/", {
        "url": "https://billing.example.org/hooks", "events": ["statement.closed"],
    })["Location"]  # fmt: skip
    story.call("webhooks_list", "webhooks/")
    story.call("webhooks_show", hook)
    changed = {"events": ["statement.closed", "budget.reached"]}
    story.call("webhooks_update", hook, changed, If_Match='"v1"')
    tested = story.call("webhooks_test_request", f"{hook}test/").json()
    story.call("webhooks_deliveries_list", f"{hook}deliveries/")
    resend = f"{hook}deliveries/{tested['id']}/resend/"
    story.call("webhooks_deliveries_resend_request", resend)
    story.call("webhooks_rotate_secret_create", f"{hook}rotate-secret/")
    story.call("webhooks_retire", hook, If_Match="*")
    story.call("events_list", "events/?limit=3")
    story.call("pools_agents_retire_act", "pools/lab/agents/slurm-lab/retire/", {})
    story.call("root_show", "/api/v1/")
    story.call("healthz_show", "/healthz")
    story.call("readyz_show", "/readyz")


def test_every_operation_answers_its_example_as_it_is_documented(story):
    tenants_and_a_pool(story)
    servers_and_workloads(story)
    a_decision(story)
    time_sharing(story)
    what_if(story)
    backtests(story)
    story.turn(MONDAY + timedelta(hours=1))
    usage_and_money(story)
    reports(story)
    webhooks_and_the_rest(story)
    told = json.dumps(story.told, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get(RECORD):
        FILE.write_text(told)
    assert json.loads(told) == json.loads(FILE.read_text())


def test_every_operation_has_an_example_and_each_is_what_the_document_describes():
    document = openapi()
    missing, wrong = [], []
    for operations in document["paths"].values():
        for operation in operations.values():
            name = operation["operationId"]
            bodies = list(_examples(operation))
            if not bodies and name not in WITHOUT and "204" not in operation["responses"]:
                missing.append(name)
            for schema, value in bodies:
                whole = {**schema, "components": document["components"]}
                wrong += [
                    f"{name}: {error.json_path}: {error.message}"
                    for error in jsonschema.Draft202012Validator(whole).iter_errors(value)
                ]
    assert (missing, wrong) == ([], [])


def _examples(operation):
    """The schemas and examples of an operation's request and answers."""
    contents = [operation.get("requestBody", {}), *operation["responses"].values()]
    for content in contents:
        for described in content.get("content", {}).values():
            for example in described.get("examples", {}).values():
                yield described["schema"], example["value"]
