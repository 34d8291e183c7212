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
    ]
