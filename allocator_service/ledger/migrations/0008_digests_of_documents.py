"""Digests of stored documents in the chain of their pool's ledger."""

import allocator_service.core.ids
import django.db.models.deletion
from django.db import migrations, models

# Rows of before hold entries or decisions: they need not be read again.
HOLDS_SOMETHING = """
ALTER TABLE ledger_block DROP CONSTRAINT ledger_block_holds_something;
ALTER TABLE ledger_block ADD CONSTRAINT ledger_block_holds_something
    CHECK (entries > 0 OR decisions > 0 OR documents > 0) NOT VALID;
"""
HELD_SOMETHING = """
ALTER TABLE ledger_block DROP CONSTRAINT ledger_block_holds_something;
ALTER TABLE ledger_block ADD CONSTRAINT ledger_block_holds_something
    CHECK (entries > 0 OR decisions > 0) NOT VALID;
"""
INSERT_ONLY = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_document
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('ledger_document');
"""


class Migration(migrations.Migration):

    safe_while_used = "the new constraint of ledger_block admits all that the old one did, and reads no row"

    dependencies = [
        ('ledger', '0007_totals_by_tenant'),
        ('pools', '0005_money'),
    ]

    operations = [
        migrations.CreateModel(
            name='PendingDocument',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=200)),
                ('sha256', models.BinaryField()),
            ],
            options={
                'db_table': 'ledger_document_pending',
            },
        ),
        migrations.CreateModel(
            name='SealedDocument',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=200)),
                ('sha256', models.BinaryField()),
                ('block', models.PositiveBigIntegerField()),
            ],
            options={
                'db_table': 'ledger_document',
            },
        ),
        migrations.AddField(
            model_name='block',
            name='documents',
            field=models.PositiveIntegerField(db_default=0),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint(
                    model_name='block',
                    name='ledger_block_holds_something',
                ),
                migrations.AddConstraint(
                    model_name='block',
                    constraint=models.CheckConstraint(condition=models.Q(('entries__gt', 0), ('decisions__gt', 0), ('documents__gt', 0), _connector='OR'), name='ledger_block_holds_something'),
                ),
            ],
            database_operations=[migrations.RunSQL(HOLDS_SOMETHING, HELD_SOMETHING)],
        ),
        migrations.AddField(
            model_name='pendingdocument',
            name='pool',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool'),
        ),
        migrations.AddField(
            model_name='sealeddocument',
            name='pool',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool'),
        ),
        migrations.AddIndex(
            model_name='sealeddocument',
            index=models.Index(fields=['pool', 'block'], name='ledger_document_by_block'),
        ),
        migrations.AddIndex(
            model_name='sealeddocument',
            index=models.Index(fields=['pool', 'kind', 'name'], name='ledger_document_by_name'),
        ),
        migrations.RunSQL(INSERT_ONLY, migrations.RunSQL.noop),
    ]
