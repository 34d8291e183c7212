"""Which closing covers an audit row; only added to, as what else a closing stores."""

import django.db.models.deletion
from django.db import migrations, models

INSERT_ONLY = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON billing_audited_entry
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('billing_audited_entry');
"""


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0004_best_effort_of_banks'),
        ('core', '0004_pool_limits'),
        ('ledger', '0009_audit_and_events_stay'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditedEntry',
            fields=[
                ('entry', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='core.auditentry')),
                ('closing', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='billing.closing')),
            ],
            options={
                'db_table': 'billing_audited_entry',
            },
        ),
        migrations.RunSQL(INSERT_ONLY, migrations.RunSQL.noop),
    ]
