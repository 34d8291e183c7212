"""Keys: only a hash is stored, the text is printed once, at most two of a name live."""

import io
import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from allocator_service.core.errors import Conflict
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.selectors import api_key_of
from allocator_service.tenants.services import (
    api_key_create,
    api_key_revoke,
    api_key_rotate,
    api_key_used,
    tenant_retire,
)
from tests.integration.conftest import another_session

pytestmark = pytest.mark.django_db


def command(*arguments):
    out, err = io.StringIO(), io.StringIO()
    call_command("apikey", *arguments, stdout=out, stderr=err)
    return out.getvalue()


def live_key(*, text, now):
    """The key with this text if it may be used then."""
    return ApiKey.objects.live_at(now).filter(pk=api_key_of(text).pk).first()


def test_the_command_prints_the_key_alone_and_stores_a_hash():
    text = command("create", "--scope", "operator", "--name", "ops").rstrip("\n")
    assert re.fullmatch(r"alloc_[A-Za-z0-9_-]{43}", text)
    key = ApiKey.objects.get()
    assert text.encode() not in bytes(key.digest)
    assert len(bytes(key.digest)) == 32
    assert (key.expires_at - key.created_at).days == 365


def test_a_tenant_key_is_bound_to_its_tenant(tenant):
    tenant("physics")
    text = command("create", "--scope", "tenant", "--name", "p", "--tenant", "physics",
                   "--expires", "P90D").strip()  # fmt: skip
    key = ApiKey.objects.get()
    assert key.tenant.slug == "physics"
    assert (key.expires_at - key.created_at).days == 90
    assert live_key(text=text, now=key.created_at) == key
    assert live_key(text=text, now=key.expires_at) is None
    assert text not in command("list")


def test_an_agents_key_is_bound_to_its_pool_and_so_is_its_successor(pool):
    command("create", "--scope", "agent", "--name", "slurm", "--pool", pool.slug)
    command("rotate", "slurm")
    assert set(ApiKey.objects.values_list("scope", "pool", "tenant")) == {
        ("agent", pool.slug, None)
    }
    assert command("list").count(f"\tagent\t{pool.slug}\tlive\t") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--scope", "agent", "--name", "x"),
        ("create", "--scope", "agent", "--name", "x", "--pool", "nowhere"),
        ("create", "--scope", "operator", "--name", "x", "--pool", "nowhere"),
        ("create", "--scope", "tenant", "--name", "x", "--tenant", "physics", "--pool", "lab"),
        ("create", "--scope", "tenant", "--name", "x"),
        ("create", "--scope", "operator", "--name", "x", "--tenant", "physics"),
        ("create", "--scope", "tenant", "--name", "x", "--tenant", "nobody"),
        ("create", "--scope", "operator", "--name", "x", "--expires", "soon"),
        ("create", "--scope", "operator", "--name", "x", "--expires", ""),
        ("create", "--scope", "operator", "--name", "x", "--pool", ""),
        ("create", "--scope", "billing", "--name", "x", "--tenant", ""),
        ("create", "--scope", "operator", "--name", "x", "--pool", "\udcff"),
        ("create", "--scope", "group", "--name", "x", "--pool", "lab", "--group", ""),
        ("create", "--scope", "operator", "--name", ""),
        ("create", "--scope", "operator", "--name", "x" * 101),
        ("create", "--scope", "operator", "--name", "o\nps"),
        ("create", "--scope", "operator", "--name", "o\u202eps"),
        ("create", "--scope", "operator", "--name", "\udcff"),
        *(
            ("create", "--scope", "agent", "--name", "x", "--pool", "lab", "--cluster", cluster)
            for cluster in ("", " east", "a" * 254, "e\nf", "e\u202ef", "e|f", "\udcff")
        ),
        ("revoke", "nothing"),
        ("rotate", "nothing"),
        ("revoke", "\udcff"),
        ("rotate", "\udcff"),
    ],
)
def test_bad_arguments_end_with_2_and_make_no_key(tenant, pool, arguments):
    tenant("physics")
    with pytest.raises(CommandError) as refused:
        command(*arguments)
    assert refused.value.returncode == 2
    assert str(refused.value).isprintable()  # one line
    assert not ApiKey.objects.exists()


def test_a_rotation_has_two_live_keys_and_not_three(now):
    year = now + timedelta(days=365)
    first = api_key_create(scope="billing", name="erp", tenant=None, expires_at=year, now=now)
    with pytest.raises(Conflict):
        api_key_create(scope="billing", name="erp", tenant=None, expires_at=year, now=now)
    second = api_key_rotate(name="erp", expires_at=year, now=now)
    assert {live_key(text=k.text, now=now) for k in (first, second)} == {first.key, second.key}
    with pytest.raises(Conflict):
        api_key_rotate(name="erp", expires_at=year, now=now)
    assert api_key_revoke(identifier=first.key.prefix, now=now) == 1
    assert live_key(text=first.text, now=now) is None
    assert api_key_rotate(name="erp", expires_at=year, now=now).key.scope == "billing"


def test_a_retired_tenants_keys_are_revoked(tenant, now):
    physics = tenant("physics")
    issued = api_key_create(
        scope="tenant", name="p", tenant=physics, expires_at=now + timedelta(days=1), now=now
    )
    tenant_retire(tenant=physics, version=1, now=now)
    assert live_key(text=issued.text, now=now) is None
    assert Tenant.objects.get(pk=physics.pk).retired_at == now


def test_a_tenant_with_servers_is_not_retired(fig2, tenant, now):
    with pytest.raises(Conflict) as refused:
        tenant_retire(tenant=tenant("u1"), version=None, now=now)
    assert refused.value.code == "in_use"


def test_the_use_of_a_key_is_kept_to_the_minute_and_listed(now):
    issued = api_key_create(
        scope="operator", name="ops", tenant=None, expires_at=now + timedelta(days=1), now=now
    )
    assert "never used" in command("list")
    for seconds, kept in ((0, 0), (59, 0), (60, 60), (3_600, 3_600)):
        api_key_used(key=ApiKey.objects.get(), now=now + timedelta(seconds=seconds))
        assert ApiKey.objects.get().last_used_at == now + timedelta(seconds=kept)
    assert "used 2026-11-20T13:00:00Z" in command("list")
    assert issued.key.last_used_at is None


@pytest.mark.django_db(transaction=True)
def test_the_use_of_a_key_waits_for_nobody_who_changes_it(now):
    key = api_key_create(
        scope="operator", name="ops", tenant=None, expires_at=now + timedelta(days=1), now=now
    ).key
    with another_session() as other:
        other.execute("SELECT FROM api_key FOR UPDATE")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '1s'")
            api_key_used(key=key, now=now)
    assert ApiKey.objects.get().last_used_at is None
