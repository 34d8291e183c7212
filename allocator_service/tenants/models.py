"""Tenants, people, and the keys with which tenants, operators and billing systems call the API."""

from datetime import datetime
from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from allocator_service.core.ids import new_id

SLUG_PATTERN = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"
validate_slug = RegexValidator(
    SLUG_PATTERN,
    "Lower-case letters, digits and hyphens, 1 to 63 characters, no hyphen at the ends.",
)
SLUG_TAKEN = "A tenant with this slug exists (retired ones keep their slug)."


class Tenant(models.Model):
    """A group that contributes servers and runs workloads. Retired, never deleted."""

    slug = models.CharField(max_length=63, validators=[validate_slug])
    name = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "tenant"
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"],
                # Retired tenants count too: past statements and entries name a tenant by its slug.
                name="tenant_slug_unique",
                violation_error_code="tenant.exists",
                violation_error_message=SLUG_TAKEN,
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG_PATTERN),
                name="tenant_slug_wellformed",
                violation_error_code="slug.syntax",
                violation_error_message="A slug is 1 to 63 lower-case letters, digits and hyphens.",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Scope(models.TextChoices):
    """The permissions of a key.

    A key may do everything, act for one tenant, or read billing. In one pool it may act as the agent
    beside a scheduler, or for one group.
    """

    OPERATOR = "operator"
    TENANT = "tenant"
    BILLING = "billing"
    AGENT = "agent"
    GROUP = "group"


class Access(models.TextChoices):
    """Permission to change weights, tiers and limits below a group, or to read alone."""

    MANAGE = "manage"
    READ = "read"


BINDING = (
    "A key of scope tenant names its tenant, one of scope agent its pool and one of scope group its pool"
    " and group; operator and billing keys may name a pool, and nothing else."
)
ACCESS_OF_GROUPS = "Only keys of scope group can have access read."
CLUSTER_OF_AGENTS = "Only keys of scope agent are bound to a cluster of their pool."
KEY_NAME_LENGTH = 100


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def live_at(self, now: datetime) -> Self:
        return self.filter(revoked_at=None, expires_at__gt=now)


class ApiKey(models.Model):
    """A bearer key. Only the SHA-256 of its 256 random bits is stored.

    `pool` is the slug of the pool that the key is bound to, in which alone it has the permissions of its
    scope. It is empty for a key without a pool, which an agent's key must have. Slugs of pools never
    change. `group` is the primary key of the pool's group that a key of scope group is bound to, and
    `access` its permission there. `cluster` is the pool's cluster that an agent's key is bound to, empty
    for all. `last_used_at` is kept to the minute.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=KEY_NAME_LENGTH)
    scope = models.CharField(max_length=10, choices=Scope.choices)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, blank=True, related_name="keys")
    pool = models.CharField(max_length=63, blank=True, db_default="", default="")
    # Values, not foreign keys: the app of pools imports this one, which must not import it.
    group = models.BigIntegerField(null=True, blank=True)
    cluster = models.CharField(max_length=253, blank=True, db_default="", default="")
    access = models.CharField(
        max_length=10, choices=Access.choices, default=Access.MANAGE, db_default=Access.MANAGE
    )
    digest = models.BinaryField(editable=False)
    prefix = models.CharField(max_length=16, editable=False)
    created_at = models.DateTimeField(editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        db_table = "api_key"
        verbose_name = "API key"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["digest"], name="api_key_digest_unique"),
            models.CheckConstraint(
                # To selectors, no tenant is an unlimited caller: a key without its own would see all.
                condition=Q(scope=Scope.TENANT, tenant__isnull=False, pool="", group=None)
                | Q(scope=Scope.AGENT, tenant__isnull=True, group=None) & ~Q(pool="")
                | Q(scope=Scope.GROUP, tenant__isnull=True, group__isnull=False) & ~Q(pool="")
                | Q(scope__in=[Scope.OPERATOR, Scope.BILLING], tenant__isnull=True, group=None),
                name="api_key_bound_by_scope",
                violation_error_code="api_key.binding",
                violation_error_message=BINDING,
            ),
            models.CheckConstraint(
                condition=Q(scope=Scope.GROUP) | Q(access=Access.MANAGE),
                name="api_key_access_of_group",
                violation_error_code="api_key.access",
                violation_error_message=ACCESS_OF_GROUPS,
            ),
            models.CheckConstraint(
                condition=Q(scope=Scope.AGENT) | Q(cluster=""),
                name="api_key_cluster_of_agent",
                violation_error_code="api_key.cluster",
                violation_error_message=CLUSTER_OF_AGENTS,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


CLAIM_LENGTH = 255


class Person(models.Model):
    """A person known by the issuer and subject of an OpenID Connect provider alone.

    `user` acts in the admin and the audit, and cannot sign in while it is disabled. `groups` are those
    of the last sign-in. Their permissions are looked up at each request.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="person")
    issuer = models.CharField(max_length=2000)
    subject = models.CharField(max_length=CLAIM_LENGTH)
    name = models.CharField(max_length=150)
    groups = ArrayField(models.CharField(max_length=CLAIM_LENGTH), default=list)
    created_at = models.DateTimeField(editable=False)
    last_signed_in_at = models.DateTimeField(editable=False)

    class Meta:
        db_table = "person"
        ordering = ["name", "id"]
        verbose_name_plural = "people"
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="person_identity_unique"),
        ]

    def __str__(self) -> str:
        return self.name


GRANT_TARGET = "A grant names a tenant, or a group of a pool. Only the latter can have access read."
GRANT_EXISTS = "Members of the provider's group may open these pages already."


class GroupGrant(models.Model):
    """A right of members of a provider's group to open pages of a tenant or of a group of a pool.

    `group` is the provider's. `pool` is the slug of a pool, `pool_group` the primary key of its group
    and `access` the permission there. Withdrawn, never deleted.
    """

    group = models.CharField(max_length=CLAIM_LENGTH)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="group_grants"
    )
    pool = models.CharField(max_length=63, blank=True, db_default="", default="")
    pool_group = models.BigIntegerField(null=True, blank=True)
    access = models.CharField(
        max_length=10, choices=Access.choices, default=Access.MANAGE, db_default=Access.MANAGE
    )
    granted_at = models.DateTimeField(editable=False)
    withdrawn_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "group_grant"
        ordering = ["group", "id"]
        verbose_name = "group of people"
        verbose_name_plural = "groups of people"
        constraints = [
            models.UniqueConstraint(
                fields=["group", "tenant"],
                condition=Q(withdrawn_at=None),
                name="group_grant_unique",
                violation_error_code="grant.exists",
                violation_error_message=GRANT_EXISTS,
            ),
            models.UniqueConstraint(
                fields=["group", "pool_group"],
                condition=Q(withdrawn_at=None),
                name="group_grant_of_group_unique",
                violation_error_code="grant.exists",
                violation_error_message=GRANT_EXISTS,
            ),
            models.CheckConstraint(
                condition=Q(tenant__isnull=False, pool="", pool_group=None, access=Access.MANAGE)
                | Q(tenant=None, pool_group__isnull=False) & ~Q(pool=""),
                name="group_grant_target",
                violation_error_code="grant.target",
                violation_error_message=GRANT_TARGET,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.group} → {self.tenant or self.pool}"
