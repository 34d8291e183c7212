"""Two clients that change one object: If-Match decides, and nobody's change is lost."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from allocator_service.pools.models import Server
from tests.api.v1.test_conventions import code


@pytest.mark.parametrize("tag", ["v1", '"v1', "1", '"v1" "v2"', '"v1",', "*, *", '"\u00e4"'])
def test_a_malformed_if_match_is_400(tag, world, operator):
    response = operator.patch("/api/v1/pools/lab/", {"name": "New"}, If_Match=tag)
    assert code(response) == (400, "version.syntax")


@pytest.mark.parametrize("tag", ['"v1"', '"v9", "v1"', 'W/"v1" , "v1"', "*"])
def test_the_version_at_hand_may_be_one_of_several_or_any(tag, world, operator):
    response = operator.patch("/api/v1/tenants/ada/", {"name": "New"}, If_Match=tag)
    assert (response.status_code, response["ETag"]) == (200, '"v2"')
    assert response.json()["name"] == "New"


def test_reading_again_after_412_succeeds(world, operator):
    path = f"/api/v1/pools/lab/servers/{world.ada_server.pk}/"
    first, second = operator.get(path)["ETag"], operator.get(path)["ETag"]
    assert operator.patch(path, {"name": "one"}, If_Match=first).status_code == 200
    assert operator.patch(path, {"labels": {"a": "b"}}, If_Match=second).status_code == 412
    fresh = operator.get(path)["ETag"]
    assert operator.patch(path, {"labels": {"a": "b"}}, If_Match=fresh).status_code == 200
    document = operator.get(path).json()
    assert (document["name"], document["labels"], document["version"]) == ("one", {"a": "b"}, 3)


def test_an_action_honours_if_match_when_it_is_sent(world, operator):
    path = f"/api/v1/pools/lab/servers/{world.ada_server.pk}/"
    assert code(operator.post(f"{path}drain/", If_Match='"v9"')) == (412, "version.stale")
    assert operator.get(path).json()["state"] == "active"
    assert operator.post(f"{path}drain/", If_Match='"v1"').json()["state"] == "draining"
    assert operator.post(f"{path}activate/").json()["state"] == "active"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tag", ['"v1"', "*"])
def test_of_clients_that_change_one_version_at_once_no_change_is_lost(tag, world, operator):
    path = f"/api/v1/pools/lab/servers/{world.ada_server.pk}/"
    barrier = Barrier(6)

    def change(number):
        barrier.wait()
        try:
            return operator.patch(path, {"labels": {f"n{number}": "x"}}, If_Match=tag).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(change, range(6)))
    assert set(statuses) <= {200, 412}
    won = statuses.count(200)
    assert won == 1 if tag == '"v1"' else won >= 1
    server = Server.objects.get(pk=world.ada_server.pk)
    assert server.version == 1 + won
    assert sorted(server.labels) == [f"n{n}" for n, status in enumerate(statuses) if status == 200]
