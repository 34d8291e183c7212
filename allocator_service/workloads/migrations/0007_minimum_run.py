from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workloads', '0006_validate_gangs'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='minimum_run',
            field=models.CharField(blank=True, db_default='', default='', max_length=40),
        ),
    ]
