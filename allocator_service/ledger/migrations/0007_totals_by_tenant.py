"""Totals of one tenant and of one owner are found by indexes of their own; sealing goes on meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("ledger", "0006_chain_of_decisions"),
        ("pools", "0005_money"),
        ("tenants", "0001_initial"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="ownertotal",
            index=models.Index(
                fields=["pool", "tenant", "level", "bucket"], name="owner_total_by_tenant"
            ),
        ),
        AddIndexConcurrently(
            model_name="ownertotal",
            index=models.Index(
                fields=["pool", "owner", "level", "bucket"], name="owner_total_by_owner"
            ),
        ),
        AddIndexConcurrently(
            model_name="total",
            index=models.Index(
                fields=["pool", "tenant", "level", "bucket"], name="total_by_tenant"
            ),
        ),
    ]
