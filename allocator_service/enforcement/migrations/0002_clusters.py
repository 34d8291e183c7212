from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('enforcement', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='cluster',
            field=models.CharField(blank=True, db_default='', default='', max_length=253),
        ),
        migrations.AddField(
            model_name='watch',
            name='looked_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='watch',
            name='watched_since',
            field=models.DateTimeField(null=True),
        ),
    ]
