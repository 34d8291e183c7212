"""Steps that know open uses. The table of meters stays, and belongs to the ledger's models."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('allocation', '0005_gangs'),
    ]

    operations = [
        migrations.AddField(
            model_name='step',
            name='metered_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name='Meter')]),
    ]
