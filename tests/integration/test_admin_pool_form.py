"""The admin's form of a pool: fields by policy, durations by unit, and every mistake at its field."""

import json
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse

from allocator_service.core.duration_fields import DurationField, SecondsField, duration_parts
from allocator_service.pools.models import Pool
from policies import policies_available
from tests.form_fields import untouched

pytestmark = pytest.mark.django_db(transaction=True)
ADD = "/admin/pools/pool/add/"


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def opened(client, url=ADD):
    form = client.get(url).context["adminform"].form
    return untouched(form) | ({"slug": "new", "name": "New"} if url == ADD else {})


def mistakes(page):
    assert page.status_code == 200, page.status_code
    return {name: list(found) for name, found in page.context["adminform"].form.errors.items()}


def shown(form, **values):
    """Return the fields that the page's script shows with these values, by their own statements."""
    found = set()
    for name, field in form.fields.items():
        conditions = json.loads(field.widget.attrs.get("data-shown-with", "{}"))
        if all(values[other] in listed for other, listed in conditions.items()):
            found.add(name)
    return found


def test_every_policy_has_its_own_options_and_no_others(operator):
    form = operator.get(ADD).context["adminform"].form
    for policy in policies_available():
        for mode in policy.modes:
            fields = shown(form, policy_name=policy.name, policy_mode=mode, window_kind="decay")
            options = {name.rsplit("_", 1)[-1] for name in fields if name.startswith("option_")}
            used = {
                name.rsplit("_", 1)[-1]
                for name in policy.options_schema["properties"]
                if policy.option_modes.get(name, mode) == mode
            }
            assert options == used, policy.name
            assert ("window_kind" in fields) is policy.long_term
            assert ("window_half_life" in fields) is policy.long_term
            assert "window_length" not in fields
            assert ("own_servers" in fields) is ("count" in fields) is policy.takes_limits
            assert ("policy_mode" in fields) is (len(policy.modes) > 1)


def test_options_of_one_mode_are_shown_with_it_alone(operator):
    form = operator.get(ADD).context["adminform"].form
    by_mode = {
        mode: "option_drfh_seed"
        in shown(form, policy_name="drfh", policy_mode=mode, window_kind="none")
        for mode in ("", "divisible", "indivisible")
    }
    assert by_mode == {"": False, "divisible": False, "indivisible": True}


@pytest.mark.parametrize("share", ["alone", "dominant", "", "tasks"])
def test_an_option_with_a_list_is_chosen(operator, share):
    page = operator.post(ADD, opened(operator) | {"option_drfh_share": share})
    if share == "tasks":
        assert "option_drfh_share" in mistakes(page)
        assert not Pool.objects.filter(slug="new").exists()
    else:
        assert page.status_code == 302, mistakes(page)
        stored = Pool.objects.get(slug="new").policy_options
        assert stored == ({"share": share} if share else {})


def test_options_of_every_kind_are_stored_and_shown_again(operator):
    options = {
        "option_tda_pack": "yes", "option_tda_period_seconds_0": "2", "option_tda_effort": "2.5",
        "option_tda_period_seconds_1": "hours",
        "option_drfh_share": "alone",  # of another policy: not read
    }  # fmt: skip
    sent = opened(operator) | {"policy_name": "tda"} | options
    assert operator.post(ADD, sent).status_code == 302
    pool = Pool.objects.get(slug="new")
    assert pool.policy_options == {"pack": True, "period_seconds": 7200, "effort": 2.5}
    again = opened(operator, reverse("admin:pools_pool_change", args=[pool.pk]))
    assert {name: again[name] for name in options} == {**options, "option_drfh_share": ""}
    weights = {"drf": {"cpu": 2, "gres.gpu": 0.5}, "ada": {"cpu": 1e-6}}
    sent = opened(operator) | {"slug": "weighted", "policy_name": "drf"}
    sent["option_drf_resource_weights"] = "drf.cpu=2\r\ndrf.gres.gpu=0.5\r\n\r\nada.cpu=1e-6"
    assert operator.post(ADD, sent).status_code == 302
    pool = Pool.objects.get(slug="weighted")
    assert pool.policy_options == {"resource_weights": weights}
    again = opened(operator, reverse("admin:pools_pool_change", args=[pool.pk]))
    assert sorted(again["option_drf_resource_weights"].splitlines()) == [
        "ada.cpu=0.000001", "drf.cpu=2", "drf.gres.gpu=0.5",
    ]  # fmt: skip
    sent = opened(operator) | {"slug": "slotted", "policy_name": "slots"}
    sent["option_slots_slot"] = "cpu=1\nmemory=2.5"
    assert operator.post(ADD, sent).status_code == 302
    assert Pool.objects.get(slug="slotted").policy_options == {"slot": {"cpu": 1, "memory": 2.5}}


def test_each_line_that_is_wrong_is_a_mistake_with_its_number(operator):
    lines = "ada.cpu=2\nada.memory=0\nada=3\nada.cpu=1\nmany\nbob.cpu=two"
    sent = opened(operator) | {"policy_name": "drf", "option_drf_resource_weights": lines}
    found = mistakes(operator.post(ADD, sent))["option_drf_resource_weights"]
    assert found == [
        "Line 2: expected a number of at least 0.000001, got 0.",
        "Line 3: expected tenant.resource=number, such as physics.cpu=2, got the name “ada”.",
        "Line 4: the name “ada.cpu” is used twice.",
        "Line 5: expected tenant.resource=number, such as physics.cpu=2, got “many”.",
        "Line 6: expected a number after “=”, got “two”.",
    ]


@pytest.mark.parametrize(
    ("policy", "field", "value"),
    [
        ("drf", "option_drf_resource_weights", "[1]"),
        ("drf", "option_drf_resource_weights", "a.cpu=0"),
        ("drfh", "option_drfh_seed", "-1"),
        ("drfh", "option_drfh_seed", "1.5"),
        ("tda", "option_tda_effort", "0"),
        ("tda", "option_tda_effort", "nan"),
        ("tda", "option_tda_period_seconds_0", "0"),
        ("tda", "option_tda_period_seconds_0", "999999999"),
        ("slots", "option_slots_slots_per_largest_server", "1001"),
    ],
)
def test_an_option_that_does_not_fit_is_a_mistake_at_its_field(operator, policy, field, value):
    page = operator.post(ADD, opened(operator) | {"policy_name": policy, field: value})
    assert list(mistakes(page)) == [field.removesuffix("_0")]
    assert not Pool.objects.filter(slug="new").exists()


def test_options_that_exclude_each_other_are_a_mistake_at_one_of_them(operator):
    both = {"option_slots_slot": "cpu=1", "option_slots_slots_per_largest_server": "2"}
    page = operator.post(ADD, opened(operator) | {"policy_name": "slots"} | both)
    assert list(mistakes(page)) == ["option_slots_slots_per_largest_server"]


def test_every_mistake_is_shown_at_its_field_at_once(operator, fig2):
    wrong = {
        "slug": "New Pool", "resources": "cpu\ncpu", "policy_name": "h-mrf", "window_kind": "none",
        "policy_mode": "divisible", "decision_interval_0": "soon", "currency": "XXY",
        "timezone": "Berlin", "window_anchor_0": "1800-01-01", "option_h-mrf_borrow_cap": "-1",
    }  # fmt: skip
    page = operator.post(ADD, opened(operator) | wrong)
    found = mistakes(page)
    assert set(found) == {
        "slug", "resources", "policy_mode", "decision_interval", "currency", "timezone",
        "window_anchor", "option_h-mrf_borrow_cap",
    }  # fmt: skip
    # Windows are for a policy that remembers: with the mode of another, no policy is known.
    page = operator.post(ADD, opened(operator) | {**wrong, "policy_mode": ""})
    assert mistakes(page)["window_kind"] == [
        "The policy h-mrf keeps a history: choose tumbling, sliding, decay or unbounded."
    ]
    assert Pool.objects.count() == 1


def test_a_slug_in_use_and_a_dropped_resource_are_mistakes_at_their_fields(operator, fig2):
    assert list(mistakes(operator.post(ADD, opened(operator) | {"slug": "lab"}))) == ["slug"]
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    wrong = {"resources": "cpu core", "policy_mode": "", "policy_name": "ceei", "confirmed": "yes"}
    fig2.workloads.update(server_selector={"zone": "a"})
    assert set(mistakes(operator.post(url, opened(operator, url) | wrong))) == {
        "resources", "policy_name",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "unit", "stored"),
    [
        ("7", "days", "P7D"), ("1", "months", "P1M"), ("90", "minutes", "PT90M"),
        ("24", "hours", "PT24H"), ("2", "weeks", "P2W"), ("1", "years", "P1Y"),
        ("30", "seconds", "PT30S"), ("P1DT12H", "iso", "P1DT12H"), ("007", "days", "P7D"),
    ],
)  # fmt: skip
def test_durations_are_a_number_and_a_unit(operator, number, unit, stored):
    sent = {"policy_name": "h-mrf", "window_length_0": number, "window_length_1": unit}
    assert operator.post(ADD, opened(operator) | sent).status_code == 302
    pool = Pool.objects.get(slug="new")
    assert pool.window_length == stored
    again = opened(operator, reverse("admin:pools_pool_change", args=[pool.pk]))
    assert (again["window_length_0"], again["window_length_1"]) == (number.lstrip("0"), unit)


@pytest.mark.parametrize(
    ("number", "unit", "sentence"),
    [
        ("0", "days", "greater than 0"), ("1.5", "hours", "whole number"), ("-1", "days", "whole"),
        ("101", "years", "at most 100 years"), ("999999999", "days", "at most 100 years"),
        ("a week", "iso", "ISO 8601"), ("7", "iso", "ISO 8601"), ("PT0S", "iso", "longer than zero"),
        ("7", "moons", "moons"), ("", "days", "required"),
    ],
)  # fmt: skip
def test_other_durations_are_mistakes(operator, number, unit, sentence):
    sent = {"decision_interval_0": number, "decision_interval_1": unit}
    found = mistakes(operator.post(ADD, opened(operator) | sent))
    assert list(found) == ["decision_interval"]
    assert sentence in found["decision_interval"][0]


@pytest.mark.parametrize(
    ("sent", "field", "sentence"),
    [
        ({"churn": "0"}, "churn", "from 1 to"), ({"churn": "-1"}, "churn", "from 1 to"),
        ({"churn": "x"}, "churn", "whole number"), ({"churn": "1e9"}, "churn", "whole number"),
        ({"churn": "9999999"}, "churn", "from 1 to"),
        ({"notice_0": "31", "notice_1": "days"}, "notice", "at most 30 days"),
        ({"notice_0": "1000", "notice_1": "years"}, "notice", "at most 30 days"),
        ({"minimum_run_0": "999999999", "minimum_run_1": "days"}, "minimum_run", "at most 30 days"),
        ({"minimum_run_0": "P1000Y", "minimum_run_1": "iso"}, "minimum_run", "at most 30 days"),
        ({"minimum_run_0": "0", "minimum_run_1": "days"}, "minimum_run", "greater than 0"),
    ],
)  # fmt: skip
def test_terms_of_taking_back_that_mean_nothing_are_mistakes(operator, sent, field, sentence):
    found = mistakes(operator.post(ADD, opened(operator) | sent))
    assert list(found) == [field]
    assert sentence in found[field][0]


def test_terms_of_taking_back_are_stored_and_may_be_empty(operator):
    sent = {"minimum_run_0": "30", "minimum_run_1": "minutes", "churn": "4"}
    assert operator.post(ADD, opened(operator) | sent).status_code == 302
    pool = Pool.objects.get(slug="new")
    assert (pool.minimum_run, pool.notice, pool.churn) == ("PT30M", "", 4)
    url = reverse("admin:pools_pool_change", args=[pool.pk])
    again = opened(operator, url) | {"minimum_run_0": "", "churn": ""}
    assert operator.post(url, again).status_code == 302
    pool.refresh_from_db()
    assert (pool.minimum_run, pool.churn) == ("", None)


def test_the_difference_of_a_duration_is_shown_in_words(operator, fig2):
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    sent = {"decision_interval_0": "1", "decision_interval_1": "hours", "policy_name": "h-mrf",
            "policy_mode": "", "window_length_0": "14", "option_drfh_share": "alone",
            "window_length_1": "days", "window_kind": "sliding"}  # fmt: skip
    page = operator.post(url, opened(operator, url) | sent)
    found = {each.field: (each.before, each.after) for each in page.context["differences"]}
    assert found["Decision interval"] == ("1 minute", "1 hour")
    assert found["Window length"][1] == "14 days"
    assert "Share" not in found  # an option of the policy before


def test_texts_of_stored_durations_stay_as_they_are():
    for text in ("P7D", "PT90M", "P1M", "PT1H30M", "P07D", "P1DT12H", "PT1000000000S"):
        number, unit = duration_parts(text)
        assert DurationField().compress([number, unit]) == text
    assert SecondsField().text_of(90_000) == "25 hours"
    assert DurationField().text_of("P1DT12H") == "P1DT12H"


def test_somebody_who_may_only_look_sees_the_options(client, fig2):
    user = get_user_model().objects.create_user("vera", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_pool"))
    fig2.policy_options = {"share": "alone"}
    fig2.save(update_fields=["policy_options"])
    client.force_login(user)
    page = client.get(reverse("admin:pools_pool_change", args=[fig2.pk]))
    assert page.status_code == 200
    assert "alone" in page.content.decode()


def test_each_policy_leads_to_what_it_does(operator):
    page = operator.get(ADD).content.decode()
    first = operator.get("/", HTTP_ACCEPT="text/html").content.decode()
    names = re.findall(r'<li><a href="/#policy-([a-z-]+)">', page)
    assert names == [each.name for each in policies_available()]
    for name in [*(f"policy-{each}" for each in names), "which"]:
        assert f'id="{name}"' in first
    helps = re.sub(
        "<[^>]+>", " ", " ".join(re.findall('<div class="help"[^>]*>(.*?)</div>', page, re.S))
    )
    for jargon in ("ISO 4217", "IANA", "docs/", "levels count"):
        assert jargon not in helps
