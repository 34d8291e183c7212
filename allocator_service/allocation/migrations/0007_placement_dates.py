import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('allocation', '0006_metered_until'),
        ('pools', '0010_reclaim'),
    ]

    operations = [
        migrations.CreateModel(
            name='PlacementDates',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='placement_dates', serialize=False, to='pools.pool')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='placement_dates', to='allocation.run')),
                ('document', models.BinaryField()),
            ],
            options={
                'db_table': 'pool_placement_dates',
            },
        ),
    ]
