"""The contract that every resource keeps: keys, methods, versions, bodies, idempotency."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import factories
from tests.api.v1.test_conventions import code

V1 = "/api/v1"
LAB = f"{V1}/pools/lab"
ABSENT_ID = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Resource:
    """What the contract needs to know of a resource.

    `body` creates an object, `change` is a merge patch, `fixed` a change that is refused. `deleted` is
    the state of an object after DELETE, empty where it is missing from then on. Keys of the scope
    `denied` change none.
    """

    path: str
    body: Mapping[str, Any]
    change: Mapping[str, Any]
    fixed: Mapping[str, Any]
    not_found: str
    bulk: bool = False
    deleted: str = ""
    shown_once: tuple[str, ...] = field(default=())
    denied: str = "billing"

    @property
    def absent(self) -> str:
        """The address of an object that does not exist."""
        return f"{self.path}{'absent' if 'slug' in self.body else ABSENT_ID}/"

    @property
    def of_a_pool(self) -> bool:
        return self.path.startswith(LAB)


RESOURCES = {
    "tenants": Resource(
        f"{V1}/tenants/",
        {"slug": "new", "name": "New"},
        {"name": "Changed"},
        {"slug": "other"},
        "tenant.not_found",
        bulk=True,
    ),
    "pools": Resource(
        f"{V1}/pools/",
        {
            "slug": "new",
            "name": "New",
            "resources": [{"name": "cpu", "unit": "core"}],
            "policy": {"name": "drfh"},
        },
        {"name": "Changed"},
        {"slug": "other"},
        "pool.not_found",
    ),
    "groups": Resource(
        f"{LAB}/groups/",
        {"slug": "new", "name": "New"},
        {"weight": 2},
        {"slug": "other"},
        "group.not_found",
        bulk=True,
    ),
    "servers": Resource(
        f"{LAB}/servers/",
        {"name": "new", "contributed_by": "ada", "capacity": {"cpu": 1, "memory": "4Gi"}},
        {"labels": {"zone": "a"}},
        {"contributed_by": "bob"},
        "server.not_found",
        bulk=True,
        deleted="retired",
    ),
    "workloads": Resource(
        f"{LAB}/workloads/",
        {"tenant": "ada", "name": "new", "demand": {"cpu": 1}},
        {"priority": 3},
        {"tenant": "bob"},
        "workload.not_found",
        bulk=True,
        deleted="withdrawn",
    ),
    "price plans": Resource(
        f"{V1}/price-plans/",
        {
            "pool": "lab",
            "name": "2027",
            "from": "2027-01-01T00:00:00Z",
            "rates": [{"resource": "cpu", "shared": "0.05"}],
        },
        {"fee": "0.1"},
        {"pool": "other"},
        "price_plan.not_found",
    ),
    "budgets": Resource(
        f"{LAB}/budgets/",
        {"tenant": "ada", "amount": "100"},
        {"amount": "200"},
        {"tenant": "bob"},
        "budget.not_found",
    ),
    "webhooks": Resource(
        f"{V1}/webhooks/",
        {"url": "https://receiver.example/hook"},
        {"enabled": False},
        {"pool": "lab"},
        "webhook.not_found",
        shown_once=("secret",),
        denied="agent",
    ),
}


@pytest.fixture(params=RESOURCES, autouse=True)
def resource(request, world) -> Resource:
    return RESOURCES[request.param]


@pytest.fixture
def one(resource, operator):
    """The address of an object."""
    made = operator.post(resource.path, resource.body)
    assert made.status_code == 201, made.content
    return str(made["Location"])


def rows(client: Any, path: str) -> list[Any]:
    found: list[Any] = client.get(path).json()["results"]
    return found


def version_of(answer):
    """Return the version in the tag of an object, before what else the tag of a pool has."""
    return answer["ETag"].strip('"').partition(".")[0]


class TestResourceContract:
    """Inherited by no class: each test runs for each of `RESOURCES`."""

    def test_a_request_without_a_key_is_401(self, resource, one, anonymous):
        for method, path in [
            *((method, resource.path) for method in ("GET", "POST")),
            *((method, one) for method in ("GET", "PATCH", "DELETE")),
        ]:
            assert code(anonymous.send(method, path)) == (401, "auth.missing"), (method, path)

    def test_a_change_by_a_key_of_another_scope_is_403(self, resource, one, operator):
        other = factories.client(resource.denied, pool="lab" if resource.denied == "agent" else "")
        before = operator.get(one).content
        assert code(other.post(resource.path, resource.body)) == (403, "auth.scope")
        assert code(other.patch(one, resource.change, If_Match="*")) == (403, "auth.scope")
        assert code(other.delete(one, If_Match="*")) == (403, "auth.scope")
        assert operator.get(one).content == before

    @pytest.mark.parametrize("name", ["", "~", "%00", "A" * 300])
    def test_what_does_not_exist_is_404(self, name, resource, operator):
        path = f"{resource.path}{name}/" if name else resource.absent
        missing = (404, resource.not_found)
        assert code(operator.get(path)) == missing
        assert code(operator.patch(path, resource.change, If_Match="*")) == missing
        assert code(operator.delete(path, If_Match="*")) == missing

    def test_a_pool_that_does_not_exist_is_404_whatever_is_sent(self, resource, operator):
        if not resource.of_a_pool:
            pytest.skip("not below a pool")
        path = resource.path.replace(LAB, f"{V1}/pools/nowhere")
        for answer in (
            operator.get(path),
            operator.post(path, resource.body),
            operator.post(path, {"nonsense": 1}),
            operator.get(f"{path}{ABSENT_ID}/"),
        ):
            assert code(answer) == (404, "pool.not_found")

    def test_a_method_that_the_route_lacks_is_405(self, resource, one, operator):
        for method, path in (("PATCH", resource.path), ("DELETE", resource.path), ("POST", one)):
            answer = operator.send(method, path)
            assert code(answer) == (405, "method.not_allowed")
            assert method not in answer["Allow"].split(", ")

    def test_a_new_object_is_shown_at_its_address_and_listed(self, resource, operator):
        made = operator.post(resource.path, resource.body)
        shown = operator.get(made["Location"])
        created = {
            name: value for name, value in made.json().items() if name not in resource.shown_once
        }
        assert shown.json() == created
        assert shown["ETag"] == made["ETag"]
        assert version_of(made) == "v1"
        listed = rows(operator, resource.path)
        assert created in listed
        ndjson = operator.get(f"{resource.path}?format=ndjson")
        assert len(ndjson.content.splitlines()) == len(listed)
        csv = operator.get(f"{resource.path}?format=csv").content.decode().splitlines()
        assert len(csv) == 1 + len(listed)

    def test_a_list_is_paged_without_a_gap(self, resource, one, operator):
        whole, page = rows(operator, resource.path), operator.get(f"{resource.path}?limit=1")
        found = page.json()["results"]
        while page.json()["next"] is not None:
            page = operator.get(page.json()["next"].removeprefix("http://testserver"))
            found += page.json()["results"]
        assert found == whole

    def test_an_unknown_field_is_400_at_its_pointer(self, resource, one, operator):
        before = rows(operator, resource.path)
        unknown = {"colour": "red"}
        for answer in (
            operator.post(resource.path, {**resource.body, **unknown}),
            operator.patch(one, unknown, If_Match="*"),
        ):
            assert code(answer) == (400, "field.unknown")
            assert [error["pointer"] for error in answer.json()["errors"]] == ["/colour"]
        assert rows(operator, resource.path) == before

    def test_an_empty_body_names_every_required_field(self, resource, operator):
        before = rows(operator, resource.path)
        for body in (None, {}):
            answer = operator.post(resource.path, body)
            assert code(answer) == (422, "field.required")
            errors = answer.json()["errors"]
            assert {error["code"] for error in errors} == {"field.required"}
            assert {error["pointer"][1:] for error in errors} <= resource.body.keys()
        assert rows(operator, resource.path) == before

    def test_an_empty_patch_changes_nothing(self, resource, one, operator):
        before = operator.get(one).json()
        answer = operator.patch(one, {}, If_Match="*")
        assert answer.status_code == 200
        changed = {name for name, value in answer.json().items() if before[name] != value}
        assert changed <= {"version", "generation", "terms_since"}

    @pytest.mark.parametrize("body", ["text", 7, None, [[]]])
    def test_a_body_of_another_type_is_422(self, body, resource, one, operator):
        sent = b"null" if body is None else body
        assert code(operator.post(resource.path, sent)) == (422, "field.type")
        assert code(operator.patch(one, sent, If_Match="*")) == (422, "field.type")

    def test_an_array_creates_all_or_none(self, resource, operator):
        if not resource.bulk:
            assert code(operator.post(resource.path, [resource.body])) == (422, "field.type")
            return
        before = rows(operator, resource.path)
        assert code(operator.post(resource.path, [])) == (422, "bulk.empty")
        answer = operator.post(resource.path, [resource.body, {**resource.body, "colour": "red"}])
        assert code(answer) == (400, "field.unknown")
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/1/colour"]
        assert rows(operator, resource.path) == before
        assert operator.post(resource.path, [resource.body]).json()["created"] == 1

    def test_another_content_type_is_415(self, resource, one, operator):
        for method, path in (("POST", resource.path), ("PATCH", one)):
            answer = operator.send(method, path, b"x", content_type="text/plain", If_Match="*")
            assert code(answer) == (415, "content_type.unsupported")

    def test_a_parameter_or_format_that_the_route_lacks_is_refused(self, resource, one, operator):
        for path in (resource.path, one):
            assert code(operator.get(f"{path}?colour=red")) == (400, "parameter.unknown")
            assert code(operator.get(f"{path}?format=xml")) == (406, "format.not_acceptable")
        assert code(operator.get(f"{one}?format=csv")) == (406, "format.not_acceptable")

    def test_a_change_without_if_match_is_428_and_changes_nothing(self, resource, one, operator):
        before = operator.get(one)
        assert code(operator.patch(one, resource.change)) == (428, "version.required")
        assert code(operator.delete(one)) == (428, "version.required")
        after = operator.get(one)
        assert (after.content, after["ETag"]) == (before.content, before["ETag"])

    @pytest.mark.parametrize("tag", ['"v2"', 'W/"v1"', '"x", "v7"', '"V1"', '""'])
    def test_a_change_of_another_version_is_412(self, tag, resource, one, operator):
        before = operator.get(one).content
        stale = (412, "version.stale")
        assert code(operator.patch(one, resource.change, If_Match=tag)) == stale
        assert code(operator.delete(one, If_Match=tag)) == stale
        assert operator.get(one).content == before

    def test_a_change_makes_a_new_version(self, resource, one, operator):
        before = operator.get(one)
        changed = operator.patch(one, resource.change, If_Match=before["ETag"])
        assert changed.status_code == 200, changed.content
        assert version_of(changed) == "v2"
        expected = {**before.json(), **resource.change}
        assert {name: changed.json()[name] for name in resource.change} == resource.change
        assert changed.json().keys() == expected.keys()
        shown = operator.get(one)
        assert (shown.json(), shown["ETag"]) == (changed.json(), changed["ETag"])
        again = operator.patch(one, resource.change, If_Match=before["ETag"])
        assert code(again) == (412, "version.stale")

    def test_a_field_that_is_set_at_creation_cannot_change(self, resource, one, operator):
        before = operator.get(one).content
        answer = operator.patch(one, resource.fixed, If_Match="*")
        assert code(answer) == (422, "field.immutable")
        (pointer,) = (error["pointer"] for error in answer.json()["errors"])
        assert pointer[1:] in resource.fixed
        assert operator.get(one).content == before

    def test_a_deleted_object_leaves_the_list(self, resource, one, operator):
        document = operator.get(one).json()
        answer = operator.delete(one, If_Match="*")
        assert (answer.status_code, answer.content) == (204, b"")
        key = "slug" if "slug" in document else "id"
        assert document[key] not in [row[key] for row in rows(operator, resource.path)]
        if resource.deleted:
            assert operator.get(one).json()["state"] == resource.deleted
        else:
            assert code(operator.get(one)) == (404, resource.not_found)

    def test_a_repeated_request_has_one_effect_and_one_answer(self, resource, operator):
        before = len(rows(operator, resource.path))
        first, again = (
            operator.post(resource.path, resource.body, Idempotency_Key="k-1") for _ in range(2)
        )
        assert (first.status_code, again.status_code) == (201, 201)
        assert "Idempotency-Replayed" not in first
        assert again["Idempotency-Replayed"] == "true"
        assert again.json() == {**first.json(), **dict.fromkeys(resource.shown_once)}
        for header in ("Location", "ETag", "Content-Type"):
            assert again[header] == first[header]
        assert len(rows(operator, resource.path)) == before + 1

    def test_another_body_under_the_same_key_is_422(self, resource, operator):
        before = len(rows(operator, resource.path))
        operator.post(resource.path, resource.body, Idempotency_Key="k")
        answer = operator.post(
            resource.path, {**resource.body, "colour": "red"}, Idempotency_Key="k"
        )
        assert code(answer) == (422, "idempotency.reused")
        assert answer.json()["header"] == "Idempotency-Key"
        assert len(rows(operator, resource.path)) == before + 1

    def test_a_refused_request_does_not_claim_its_key(self, resource, operator):
        refused = operator.post(resource.path, {}, Idempotency_Key="k")
        assert code(refused) == (422, "field.required")
        accepted = operator.post(resource.path, resource.body, Idempotency_Key="k")
        assert (accepted.status_code, "Idempotency-Replayed" in accepted) == (201, False)
