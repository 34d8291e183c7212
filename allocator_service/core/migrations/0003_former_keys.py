"""Primary keys that objects of imported pools had in other installations."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0002_saved_filter'),
    ]

    operations = [
        migrations.CreateModel(
            name='FormerKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pool', models.SlugField(max_length=63)),
                ('object_type', models.CharField(max_length=40)),
                ('key', models.BigIntegerField()),
                ('former', models.BigIntegerField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'core_former_key',
                'constraints': [models.UniqueConstraint(fields=('pool', 'object_type', 'key', 'until'), name='former_key_unique')],
            },
        ),
    ]
