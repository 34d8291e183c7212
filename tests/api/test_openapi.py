"""The OpenAPI document: committed as it is served, complete, and kept by the service under fuzzing."""

from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from allocator_service.allocation.what_if.simulations import simulation_request
from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.billing.credit_notes import credit_note_create
from allocator_service.billing.months import month_of
from allocator_service.billing.plans.services import (
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.models import Agent
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry
from allocator_service.webhooks.services import WebhookSettings, webhook_create, webhook_test
from tests import factories
from tests.api.v1.test_scopes import MATRIX
from tests.backtests import asked
from tests.documented import DOCUMENT, loaded, openapi
from tests.emptying import empty
from tests.examples import thorough

# Texts without control characters, cursors that a list gave out, names that exist: what makes a
# value acceptable is more than JSON Schema can say, so that valid documents may be refused.
BEYOND_SCHEMA = [positive_data_acceptance]

# Preconditions and limits refuse as well.
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429]
CONFIG = SchemathesisConfig.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}}
)

schema = schemathesis.openapi.from_path(DOCUMENT, config=CONFIG)
# Not `allocator_service.wsgi`, which starts and warms the processes that evaluate.
schema.app = get_wsgi_application()
# Reads the literals of the service's code once: each schema below is a copy of this one.
schema["/healthz"]["GET"].as_strategy()


def test_the_committed_document_is_the_one_that_is_served(anonymous, db):
    served = anonymous.get("/api/v1/schema/").content.decode()
    assert served == DOCUMENT.read_text(), (
        "docs/openapi.yaml is out of date: ./dev manage spectacular --file docs/openapi.yaml"
    )


def test_whoever_has_the_document_is_not_sent_it_again(anonymous, db):
    first = anonymous.get("/api/v1/schema/")
    assert first["Cache-Control"] == "public, max-age=300"
    again = anonymous.get("/api/v1/schema/", If_None_Match=first["ETag"])
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    other = anonymous.get("/api/v1/schema/?format=json", If_None_Match=first["ETag"])
    assert (other.status_code, other["Content-Type"]) == (200, "application/vnd.oai.openapi+json")
    assert other.json()["paths"].keys() == loaded(first.content.decode())["paths"].keys()


def test_reading_it_over_and_over_is_slowed_down(anonymous, db):
    anonymous._client.defaults["REMOTE_ADDR"] = "203.0.113.9"
    answers = [anonymous.get("/api/v1/schema/", X_Forwarded_For=f"10.0.0.{n}") for n in range(40)]
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused["Content-Type"] == "application/problem+json"
    assert int(refused["Retry-After"]) >= 1


def test_every_route_and_method_is_described():
    described = {
        (path, method.upper())
        for path, operations in openapi()["paths"].items()
        for method in operations
    }
    routes = {
        (route.replace("<str:", "{").replace(">", "}"), method)
        for route, methods in MATRIX.items()
        for method in methods
    }
    operations = {(path, "GET") for path in ("/healthz", "/readyz", "/metrics", "/api/v1/")}
    assert described == routes | operations


def test_every_operation_and_parameter_says_what_it_is():
    document = openapi()
    groups = {group["name"] for group in document["tags"]}
    silent = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"{method.upper()} {path}"
            assert set(operation["tags"]) <= groups, name
            if len(operation["description"]) <= len(operation["summary"]):
                silent.append(name)
            silent += [
                f"{name}: {parameter['name']}"
                for parameter in operation.get("parameters", [])
                if not parameter["description"]
            ]
    assert silent == []


def test_operations_have_names_of_their_own():
    paths = openapi()["paths"].values()
    names = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(names) == len(set(names)) == sum(len(path) for path in paths)


def _entry(owner):
    """An entry of the ledger, in a pool that takes reports."""
    pool = factories.pool("reported", metering="reported")
    moment = utc_now() - timedelta(hours=2)
    event = UsageEvent(
        "meter", "e1", owner, None, [Decimal(1)], moment, moment + timedelta(hours=1)
    )
    usage_record(pool=pool, events=[event], now=utc_now(), members_only=False)
    return Entry.objects.get().pk


def _money(world):
    """A plan, and what there is once one is published."""
    now = utc_now()
    month = month_of(now, "UTC")
    draft = PlanDraft("2026", month.start, rates=[RateDraft("cpu", own=Decimal(1))])
    plan_publish(plan=plan_create(pool=world.lab, draft=draft, now=now), version=None, now=now)
    draft = plan_create(pool=world.other, draft=draft, now=now)
    world.lab.refresh_from_db()
    about = {"pool": world.lab, "tenant": world.ada, "now": now}
    note = credit_note_create(**about, amount=Decimal(1), reason="kindness")
    settings = BudgetSettings(Decimal(1), [100])
    budget = budget_create(pool=world.lab, draft=BudgetDraft(world.ada, "", settings), now=now)
    return {
        "plan": str(draft.pk),
        "month": str(month),
        "version": "1.4",
        "credit_note": str(note.pk),
        "budget": str(budget.pk),
    }


def _webhook():
    """A webhook with a delivery."""
    made = webhook_create(
        tenant=None,
        pool=None,
        settings=WebhookSettings("https://receiver.example/", []),
        allowed=[],
        secret_key="tests",
        now=utc_now(),
    )
    delivery = webhook_test(webhook=made.webhook, now=utc_now())
    return {"webhook": str(made.webhook.pk), "delivery": str(delivery.pk)}


def _decided():
    """Real names for every parameter of a path, so that the fuzz gets beyond 404."""
    world, operator = factories.world(), factories.client("operator")
    run = factories.decision(world.lab)
    factories.enforcement_report(run)
    Agent.objects.update(received_at=utc_now() - timedelta(hours=1))
    simulation = simulation_request(pool=world.lab, tenant=None, changes={}, now=utc_now())
    return SimpleNamespace(
        key=operator.key,
        names={
            "pool": "lab",
            "tenant": "ada",
            "group": factories.group(world.lab, "ml").slug,
            "target": "slurm",
            "agent": "slurm-lab",
            "server": str(world.ada_server.pk),
            "workload": str(world.ada_workload.pk),
            "run": str(run.pk),
            "simulation": str(simulation.pk),
            "backtest": operator.post("/api/v1/backtests/", asked()).json()["id"],
            "entry": str(_entry(world.ada)),
            **_money(world),
            **_webhook(),
        },
    )


@pytest.fixture(scope="module")
def lasting_connection():
    """Requests leave the tests' connection to the database open."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture
def decided(transactional_db, lasting_connection):
    return _decided()


@pytest.fixture(scope="module")
def decided_once(django_db_setup, django_db_blocker, lasting_connection):
    """For tests that change nothing; they run after all others, which empty the database."""
    with django_db_blocker.unblock():
        yield _decided()
        empty()


_few = settings(
    max_examples=8 if thorough() else 5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def _answers_as_described(case, decided):
    if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = decided.names[name]
        if "If-Match" in (case.headers or {}):
            case.headers["If-Match"] = "*"
    case.call_and_validate(
        headers={"Authorization": f"Bearer {decided.key}"}, excluded_checks=BEYOND_SCHEMA
    )


def whatever_is_sent(operation_id, *, changes):
    """The test of one operation: what it answers is one of the answers that the document describes."""

    def of_a_change(case, decided):
        _answers_as_described(case, decided)

    def of_a_read(case, decided_once):
        _answers_as_described(case, decided_once)

    test = of_a_change if changes else of_a_read
    return schema.include(operation_id=operation_id).parametrize()(_few(test))


# A function for each: the tests that one function is made into would all have its name, and
# pytest-xdist runs one test of a name.
for methods in openapi()["paths"].values():
    for method, described_operation in methods.items():
        name = described_operation["operationId"]
        changes = method != "get"
        globals()[f"test_whatever_is_sent_to_{name}"] = whatever_is_sent(name, changes=changes)
