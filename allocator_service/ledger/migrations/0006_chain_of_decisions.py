"""Published decisions in the chain of their pool's ledger, and digests of what the API exports."""

import django.db.models.deletion
from django.db import migrations, models

INSERT_ONLY = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('ledger_decision');
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0005_partitions_for_racers'),
        ('pools', '0005_money'),
    ]

    operations = [
        migrations.CreateModel(
            name='PendingDecision',
            fields=[
                ('run_id', models.UUIDField(primary_key=True, serialize=False)),
                ('generation', models.PositiveBigIntegerField()),
                ('effective_from', models.DateTimeField()),
                ('input', models.BinaryField()),
                ('answer', models.BinaryField()),
            ],
            options={
                'db_table': 'ledger_decision_pending',
            },
        ),
        migrations.CreateModel(
            name='SealedDecision',
            fields=[
                ('run_id', models.UUIDField(primary_key=True, serialize=False)),
                ('generation', models.PositiveBigIntegerField()),
                ('effective_from', models.DateTimeField()),
                ('input', models.BinaryField()),
                ('answer', models.BinaryField()),
                ('block', models.PositiveBigIntegerField()),
            ],
            options={
                'db_table': 'ledger_decision',
            },
        ),
        migrations.RemoveConstraint(
            model_name='block',
            name='ledger_block_not_empty',
        ),
        migrations.AddField(
            model_name='block',
            name='decisions',
            field=models.PositiveIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='block',
            name='format',
            field=models.PositiveSmallIntegerField(db_default=1),
        ),
        migrations.AlterField(
            model_name='block',
            name='first_sequence',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name='block',
            name='last_sequence',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name='block',
            constraint=models.CheckConstraint(condition=models.Q(('entries__gt', 0), ('decisions__gt', 0), _connector='OR'), name='ledger_block_holds_something'),
        ),
        migrations.AddConstraint(
            model_name='block',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('entries', 0), ('first_sequence', None), ('last_sequence', None)), models.Q(('entries__gt', 0), ('first_sequence__isnull', False), ('last_sequence__isnull', False)), _connector='OR'), name='ledger_block_sequences_of_entries'),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='pool',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool'),
        ),
        migrations.AddField(
            model_name='sealeddecision',
            name='pool',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool'),
        ),
        migrations.AddIndex(
            model_name='sealeddecision',
            index=models.Index(fields=['pool', 'block'], name='ledger_decision_by_block'),
        ),
        migrations.RunSQL(INSERT_ONLY, migrations.RunSQL.noop),
    ]
