import allocator_service.core.ids
import django.contrib.postgres.fields
import django.core.serializers.json
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('pool', models.SlugField(max_length=63, null=True)),
                ('tenant', models.SlugField(max_length=63, null=True)),
                ('payload', models.JSONField(default=dict)),
                ('occurred_at', models.DateTimeField()),
                ('request_id', models.TextField(blank=True, default='')),
            ],
            options={
                'db_table': 'core_event',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['pool', '-id'], name='event_by_pool')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyClaim',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('holder', models.UUIDField()),
                ('method', models.CharField(max_length=10)),
                ('path', models.TextField()),
                ('key', models.CharField(max_length=255)),
                ('body_digest', models.BinaryField()),
                ('status', models.PositiveSmallIntegerField()),
                ('headers', models.JSONField()),
                ('body', models.BinaryField()),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'core_idempotency_claim',
                'indexes': [models.Index(fields=['created_at'], name='idempotency_claim_by_age')],
                'constraints': [models.UniqueConstraint(fields=('holder', 'method', 'path', 'key'), name='idempotency_claim_once', violation_error_code='idempotency.in_flight', violation_error_message='A request with this Idempotency-Key is being served.')],
            },
        ),
        migrations.CreateModel(
            name='PendingEvent',
            fields=[
                ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='core.event')),
            ],
            options={
                'db_table': 'core_event_pending',
            },
        ),
        migrations.CreateModel(
            name='EventSeal',
            fields=[
                ('sequence', models.BigIntegerField(primary_key=True, serialize=False)),
                ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='seal', to='core.event')),
            ],
            options={
                'db_table': 'core_event_seal',
                'ordering': ['sequence'],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=200)),
                ('reason', models.TextField(blank=True, default='')),
                ('action', models.CharField(max_length=40)),
                ('object_type', models.CharField(max_length=40)),
                ('object_id', models.CharField(max_length=40)),
                ('object_name', models.CharField(max_length=300)),
                ('pool', models.SlugField(max_length=63, null=True)),
                ('before', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                ('after', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('request_id', models.TextField(blank=True, default='')),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'db_table': 'core_audit_entry',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['object_type', 'object_id', '-id'], name='audit_by_object'), models.Index(fields=['pool', '-id'], name='audit_by_pool')],
            },
        ),
        migrations.CreateModel(
            name='PoolLimit',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='pool_limit', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('pools', django.contrib.postgres.fields.ArrayField(base_field=models.SlugField(max_length=63), default=list, size=None)),
            ],
            options={
                'db_table': 'core_pool_limit',
            },
        ),
    ]
