from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0009_clusters'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='minimum_run',
            field=models.CharField(blank=True, db_default='', default='', max_length=40),
        ),
        migrations.AddField(
            model_name='pool',
            name='notice',
            field=models.CharField(blank=True, db_default='', default='', max_length=40),
        ),
        migrations.AddField(
            model_name='pool',
            name='churn',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
