"""A tenant submits, changes and withdraws on its pages, and sees what it would get before."""

import re
from decimal import Decimal

import pytest

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.workloads.gangs import Gang, Piece
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.billing.conftest import plan, published
from tests.pages.browser import browser_of, page_waits
from tests.pages.test_pages import LAB, words

pytestmark = pytest.mark.django_db(transaction=True)

FORM = f"{LAB}workloads/submit/"
WORK = {"name": "more", "demand_0": "200m", "demand_1": "1Gi", "tasks": "4", "priority": "1"}


@pytest.fixture
def decided(world):
    world.run = factories.decision(world.lab)
    return world


@pytest.fixture
def ada(decided):
    return browser_of(decided.as_ada)


def tried(answer):
    """The page to which a form leads, once a worker has computed the change."""
    assert answer.status_code == 302, words(answer.content.decode())
    assert answer["Location"].startswith(f"{LAB}changes/")
    simulation = Simulation.objects.latest("created_at")
    simulation_run(simulation_id=simulation.pk, clock=utc_now)
    return answer["Location"]


def mine(world):
    return {each.name: each for each in Workload.objects.filter(tenant=world.ada, pool=world.lab)}


def runs(page):
    """What would run after the change, by workload."""
    found = re.findall(r"<li>\s*<h2 class=.name.>(.*?)</h2>(.*?)</li>", page, re.S)
    return {
        name: re.findall('<data value="([^"]+)"', text.partition(" of ")[0])[-1]
        for name, text in found
    }


def test_a_workload_is_submitted_once_it_is_confirmed_and_gets_what_was_shown(decided, ada):
    decided.lab.refresh_from_db()
    generation = decided.lab.generation
    page = tried(ada.post(FORM, FORM, **WORK))
    assert "Nothing is changed yet." in words(ada.text(page))
    assert f"Is new, would run 4 of {WORK['tasks']} tasks" in words(ada.text(page))
    assert not page_waits(ada.text(page))
    shown = runs(ada.text(page))
    decided.lab.refresh_from_db()
    assert (set(mine(decided)), decided.lab.generation) == ({"analysis"}, generation)
    assert ada.post(page, page)["Location"] == LAB
    made = mine(decided)["more"]
    assert (made.tasks, made.priority, [float(amount) for amount in made.demand]) == (
        4,
        1,
        [0.2, 1],
    )
    assert "The pool is 1 generation ahead" in words(ada.text(LAB))
    run = factories.decision(decided.lab)
    rows = run.allocations.filter(tenant=decided.ada)
    got = dict(rows.values_list("workload__name", "tasks"))
    assert {name: float(value) for name, value in shown.items()} == pytest.approx(got)
    assert "You may run 6 analysis and 4 of 4 more." in words(ada.text(LAB))
    entry = AuditEntry.objects.get(action="workload.submit", after__first__name="more")
    assert entry.actor != "anonymous"


def test_it_is_computed_by_a_worker_and_the_page_waits_meanwhile(ada):
    page = ada.post(FORM, FORM, **WORK)["Location"]
    assert page_waits(ada.text(page))
    assert "<button" not in ada.text(page).partition("<main")[2]
    assert ada.client.post(page).status_code == 403  # no token is on it


def test_no_limit_of_tasks_is_taken_only_after_a_question(decided, ada):
    page = tried(ada.post(FORM, FORM, **{**WORK, "tasks": "", "unlimited": "on"}))
    assert "May it run as many tasks as possible?" in words(ada.text(page))
    refused = ada.post(page, page)
    assert refused.status_code == 422
    assert "Tick the box" in words(refused.content.decode())
    assert set(mine(decided)) == {"analysis"}
    assert ada.post(page, page, unlimited="yes").status_code == 302
    assert mine(decided)["more"].tasks is None


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"tasks": ""}, "Expected a whole number, such as 10."),
        ({"tasks": "-1"}, "Expected a whole number, such as 10."),
        ({"tasks": "1e3"}, "Expected a whole number, such as 10."),
        ({"unlimited": "on"}, "Leave it empty if as many tasks as possible may run."),
        ({"name": "analysis"}, "You have a workload of this name in the pool."),
        ({"name": ""}, "This field is required."),
        ({"demand_0": "many"}, "many"),
        ({"demand_0": "", "demand_1": ""}, "Enter how much of at least one resource a task needs."),
        ({"demand_0": "-1"}, "-1"),
        ({"server_selector": "zone"}, "zone"),
        ({"priority": "9" * 30}, "1000000"),
    ],
)
def test_what_is_wrong_is_read_beside_its_field_and_nothing_is_tried(decided, ada, changed, text):
    answer = ada.post(FORM, FORM, **{**WORK, **changed})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert 'aria-invalid="true"' in page or 'class="errorlist nonfield"' in page
    assert text in words(page)
    assert not Simulation.objects.exists()
    assert set(mine(decided)) == {"analysis"}


def test_a_workload_is_changed_unless_it_was_changed_meanwhile(decided, ada):
    workload = decided.ada_workload
    form = f"{LAB}workloads/{workload.pk}/change/"
    assert 'value="0.2"' in ada.text(form)
    terms = {"demand_0": "0.2", "demand_1": "1", "tasks": "3"}
    page, other = (tried(ada.post(form, form, **terms)) for _ in range(2))
    assert runs(ada.text(page)) == {"analysis": "3"}
    assert ada.post(page, page).status_code == 302
    assert mine(decided)["analysis"].tasks == 3
    before = "You may run 10 analysis until the next decision (you ask for 3 now)."
    assert before in words(ada.text(LAB))
    refused = ada.post(other, other)
    assert refused.status_code == 412
    assert mine(decided)["analysis"].version == workload.version + 1


def test_a_workload_is_withdrawn_after_its_effect_was_shown(decided, ada):
    page = tried(ada.post(f"{LAB}workloads/{decided.ada_workload.pk}/withdraw/", LAB))
    assert "would be withdrawn" in words(ada.text(page))
    assert mine(decided)["analysis"].state == "active"
    assert ada.post(page, page).status_code == 302
    assert mine(decided)["analysis"].state == "withdrawn"
    for path in ("change/", "withdraw/"):
        gone = f"{LAB}workloads/{decided.ada_workload.pk}/{path}"
        assert ada.post(gone, LAB).status_code == 404


def test_simulations_of_other_kinds_are_no_changes_of_a_page(decided, ada):
    several = {"withdraw": [str(decided.ada_workload.pk)], "submit": [
        {"name": "x", "demand": {"cpu": 1}}]}  # fmt: skip
    for changes in ({}, {"workloads": {}}, {"workloads": several}):
        asked = decided.as_ada.post("/api/v1/pools/lab/simulations/", changes).json()["id"]
        assert ada.get(f"{LAB}changes/{asked}/").status_code == 404


def test_a_page_with_many_workloads_stays_small(decided, ada):
    for number in range(30):
        factories.workload(decided.lab, f"work-{number}", 0.1, 0.1, decided.ada)
    factories.decision(decided.lab)
    assert len(ada.text(LAB)) < 150_000


def priced(**more):
    """Publish a price plan of all pools."""
    rates = [
        {"resource": "cpu", "own": "0.10", "shared": "0.50", **more},
        {"resource": "memory", "own": "0.01", "shared": "0.02", "pool": "0.01"},
    ]
    body = plan("2020-01-01T00:00:00Z", rates=rates)
    published(factories.client("operator"), body)


def test_a_preview_states_what_the_change_costs(decided, ada):
    priced()
    page = tried(ada.post(FORM, FORM, **WORK))
    # 10 and then 6 tasks of 0.2 cores and 1 GiB, and 4 more, all on the tenant's own server
    text = words(ada.text(page))
    assert (
        "At today's prices: 0.30 EUR per hour, as before, 216.00 EUR over 30 days for all your tasks"
        " in this pool. Credits, upfront prices and fixed costs are not included." in text
    )
    form = f"{LAB}workloads/{decided.ada_workload.pk}/change/"
    less = tried(ada.post(form, form, demand_0="0.2", demand_1="1", tasks="4"))
    assert "At today's prices: from 0.30 EUR to 0.12 EUR per hour, 86.40 EUR over 30 days" in words(
        ada.text(less)
    )
    gone = tried(ada.post(f"{LAB}workloads/{decided.ada_workload.pk}/withdraw/", LAB))
    assert "from 0.30 EUR to 0.00 EUR per hour, 0.00 EUR over 30 days" in words(ada.text(gone))


def test_a_pool_s_page_states_what_an_hour_costs_before_what_is_billed(decided, ada):
    assert "per hour" not in words(ada.text(LAB))
    priced()
    text = words(ada.text(LAB))
    # 10 tasks of 0.2 cores and 1 GiB, all on the tenant's own server
    assert (
        "Your allocation costs 0.30 EUR per hour at today's prices: 216.00 EUR over 30 days. Credits,"
        " upfront prices and fixed costs are not included." in text
    )
    assert text.index("Your allocation costs") < text.index(" so far: ")
    decided.lab.refresh_from_db()
    decided.lab.metering = "reported"
    decided.lab.save(update_fields=["metering"])
    text = words(ada.text(LAB))
    assert "Your allocation costs 0.10 EUR per hour" in text
    assert "Reported usage is billed: this is the cost if all that is allocated is used" in text
    assert "The price plan has no price for cpu." in text


def test_a_preview_is_honest_about_tiers_and_reported_usage(decided, ada):
    decided.lab.metering = "reported"
    decided.lab.save(update_fields=["metering"])
    tiers = [{"through": "100", "price": "0.10"}, {"price": "0.05"}]
    priced(own=None, shared=None, tiers=tiers)
    text = words(ada.text(tried(ada.post(FORM, FORM, **WORK))))
    # Of 1,440 core hours the first 100 cost 10.00, and memory costs 72.00.
    assert (
        "0.20 to 0.30 EUR per hour, as before, 149.00 EUR over 30 days from the start of a month"
        in text
    )
    assert "The price of an hour depends on the hours that are used in the month." in text
    assert "Reported usage is billed: this is the cost if all that is allocated is used" in text


GANG = {
    "name": "mpi", "demand_0": "0.1", "demand_1": "500Mi", "pieces": "2", "per_server": "2",
    "together": "rack", "at_least": "1", "tasks": "3", "priority": "1",
}  # fmt: skip


@pytest.fixture
def whole(decided):
    """The pool decides whole tasks, and its servers are in one rack."""
    decided.lab.policy_mode = "indivisible"
    decided.lab.save()
    decided.lab.servers.update(labels={"rack": "a"})
    return decided


def test_a_task_of_several_pieces_is_submitted_and_changed_without_scripts(whole, ada):
    page = tried(ada.post(FORM, FORM, **GANG))
    assert runs(ada.text(page))["mpi"] == "3"
    assert ada.post(page, page)["Location"] == LAB
    made = mine(whole)["mpi"]
    assert Gang.of(made) == Gang(
        (Piece(2, {"cpu": Decimal("0.1"), "memory": Decimal("0.48828125")}),), 2, "rack", 1
    )
    assert list(made.demand) == [Decimal("0.2"), Decimal("0.9765625")]
    form = f"{LAB}workloads/{made.pk}/change/"
    text = ada.text(form)
    assert re.search(r'name="pieces" value="2"', text)
    assert re.search(r'name="demand_0" value="0.1"', text)
    assert re.search(r"<details[^>]* open><summary>Tasks of several pieces", text)
    assert not re.search(r"<details[^>]* open><summary>A second kind", text)

    two = {**GANG, "second_pieces": "1", "second_demand_0": "1", "together": "", "per_server": ""}
    del two["name"]
    page = tried(ada.post(form, form, **two))
    assert ada.post(page, page).status_code == 302, words(ada.text(page))
    made = mine(whole)["mpi"]
    assert [each.count for each in Gang.of(made).pieces] == [2, 1]
    assert (made.per_server, made.together) == (None, "")
    assert re.search(r'name="second_demand_0" value="1"', ada.text(form))

    plain = {"demand_0": "0.5", "demand_1": "1", "tasks": "1", "at_least": "1"}
    page = tried(ada.post(form, form, **plain))
    assert ada.post(page, page).status_code == 302
    assert Gang.of(mine(whole)["mpi"]).is_plain


def test_the_amounts_are_named_by_what_they_are_of(whole, ada):
    labels = re.findall(r"<label[^>]*>\s*(cpu of[^<]*?)\s*</label>", ada.text(FORM))
    assert labels == ["cpu of one task", "cpu of one piece of the second kind"]
    page = ada.post(FORM, FORM, **GANG | {"tasks": ""}).content.decode()
    assert re.search(r"<label[^>]*>\s*cpu of one piece\s*</label>", page)


def test_what_would_change_is_shown_before_it_is_confirmed(whole, ada):
    page = tried(ada.post(FORM, FORM, **GANG))
    assert "This would change" not in ada.text(page)
    ada.post(page, page)
    form = f"{LAB}workloads/{mine(whole)['mpi'].pk}/change/"
    terms = {name: value for name, value in GANG.items() if name != "name"}
    page = tried(ada.post(form, form, **terms | {"pieces": "3", "priority": "2"}))
    shown = words(ada.text(page))
    assert (
        "This would change One task 0.2 cores, 0.9765625 GiB memory → 0.3 cores, 1.46484375 GiB memory"
        " Pieces 2 pieces of 0.1 cores, 0.48828125 GiB memory, on servers with the same rack, at most"
        " 2 pieces on a server → 3 pieces of" in shown
    ), shown
    assert "Priority 1 → 2" in shown
    assert "Tasks at once" not in shown
    plain = {"demand_0": "0.3", "demand_1": "1500Mi", "tasks": "", "unlimited": "on"}
    shown = words(ada.text(tried(ada.post(form, form, **plain | {"server_selector": "rack=a"}))))
    assert "at most 2 pieces on a server → one piece" in shown
    assert "Tasks at once 3 → as many as possible" in shown
    assert "Labels of servers any → rack=a" in shown
    same = ada.text(tried(ada.post(form, form, **terms)))
    assert "This would change" not in same


def test_another_number_of_tasks_leaves_the_pieces(whole, ada):
    page = tried(ada.post(FORM, FORM, **GANG))
    ada.post(page, page)
    before = Gang.of(mine(whole)["mpi"])
    form = f"{LAB}workloads/{mine(whole)['mpi'].pk}/change/"
    fields = re.findall(r'<input[^>]* name="([a-z_0-9]+)"(?: value="([^"]*)")?', ada.text(form))
    shown = {name: value for name, value in fields if value and name != "csrfmiddlewaretoken"}
    page = tried(ada.post(form, form, **shown | {"tasks": "2"}))
    assert ada.post(page, page).status_code == 302
    assert (Gang.of(mine(whole)["mpi"]), mine(whole)["mpi"].tasks) == (before, 2)


@pytest.mark.parametrize(
    ("changed", "field", "text"),
    [
        ({"pieces": "0"}, "pieces", "greater than or equal to 1"),
        ({"pieces": "many"}, "pieces", "Enter a whole number."),
        ({"pieces": "", "together": ""}, "per_server", "This is for tasks of several pieces"),
        ({"pieces": "", "per_server": ""}, "together", "This is for tasks of several pieces"),
        ({"pieces": "6000", "at_least": "2"}, "at_least", "At most 10,000 pieces start at once"),
        ({"at_least": "9"}, "at_least", "At least 9 tasks start together. The workload has 3."),
        ({"demand_0": "", "demand_1": ""}, "demand_0", "A piece demands something"),
        ({"demand_1": "lots"}, "demand_1", "lots"),
        (
            {"pieces": "", "second_pieces": "1", "second_demand_0": "1"},
            "pieces",
            "Expected the number",
        ),
        ({"second_pieces": "1"}, "second_demand_0", "A piece demands something"),
        ({"second_demand_1": "1"}, "second_pieces", "Expected the number of these pieces"),
        ({"second_pieces": "1", "second_demand_1": "-1"}, "second_demand_1", "-1"),
        ({"second_pieces": "-1", "second_demand_1": "1"}, "second_pieces", "greater than or equal"),
    ],
)
def test_a_mistake_in_pieces_is_read_beside_its_field(whole, ada, changed, field, text):
    answer = ada.post(FORM, FORM, **GANG | changed)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert text in words(page)
    marked = re.findall(r'name="([a-z_0-9]+)"[^>]*aria-invalid="true"', page)
    assert marked == [field]
    assert re.search(r"<details[^>]* open><summary>Tasks of several pieces", page)
    if field.startswith("second"):
        assert re.search(r"<details[^>]* open><summary>A second kind", page)
    assert not Simulation.objects.exists()


@pytest.mark.parametrize(
    ("policy", "mode", "fields"),
    [
        ("drfh", "indivisible", {"pieces", "second_pieces"}),
        ("drfh", "divisible", {"pieces"}),
        ("static", "indivisible", set()),
    ],
)
def test_the_form_asks_only_for_pieces_that_the_pool_runs(decided, ada, policy, mode, fields):
    decided.lab.policy_name, decided.lab.policy_mode = policy, mode
    decided.lab.policy_options = {}
    decided.lab.save()
    found = set(re.findall(r'name="((?:second_)?pieces)"', ada.text(FORM)))
    assert found == fields


def test_the_form_offers_no_common_start_beside_own_servers(whole, ada):
    assert 'name="at_least"' in ada.text(FORM)
    whole.lab.own_servers = True
    whole.lab.save()
    assert 'name="at_least"' not in ada.text(FORM)
    page = tried(ada.post(FORM, FORM, **GANG))
    assert ada.post(page, page)["Location"] == LAB
    assert mine(whole)["mpi"].at_least == 1
