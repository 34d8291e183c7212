import allocator_service.core.ids
import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('core', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=2000)),
                ('events', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('disabled_at', models.DateTimeField(null=True)),
                ('disabled_because', models.CharField(choices=[('requested', 'Requested'), ('failing', 'Failing'), ('gone', 'Gone')], default='', max_length=10)),
                ('failing_since', models.DateTimeField(null=True)),
                ('since', models.BigIntegerField()),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField()),
                ('retired_at', models.DateTimeField(null=True)),
                ('pool', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='webhooks', to='pools.pool')),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='webhooks', to='tenants.tenant')),
            ],
            options={
                'db_table': 'webhook',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['tenant', 'id'], name='webhook_by_tenant')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('disabled_at', None), ('disabled_because', '')), models.Q(('disabled_at__isnull', False), ('disabled_because__in', ['requested', 'failing', 'gone'])), _connector='OR'), name='webhook_disabled_because')],
            },
        ),
        migrations.CreateModel(
            name='DeliveryCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'webhook_cursor',
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='webhook_cursor_one')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('sequence', models.BigIntegerField(default=0)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='pending', max_length=9)),
                ('attempts', models.JSONField(default=list)),
                ('due_at', models.DateTimeField()),
                ('give_up_at', models.DateTimeField()),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('event', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='core.event')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='webhooks.webhook')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'db_table': 'webhook_delivery',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['webhook', '-id'], name='delivery_by_webhook'), models.Index(condition=models.Q(('state', 'pending')), fields=['webhook', 'sequence', 'id'], name='delivery_pending'), models.Index(condition=models.Q(('state', 'pending')), fields=['created_at'], name='delivery_oldest'), models.Index(fields=['state', 'finished_at'], name='delivery_finished')],
                'constraints': [models.UniqueConstraint(fields=('webhook', 'event'), name='delivery_once'), models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'delivered', 'failed', 'cancelled'])), name='delivery_state_known')],
            },
        ),
        migrations.CreateModel(
            name='WebhookSecret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('nonce', models.BinaryField()),
                ('digest', models.BinaryField()),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField(null=True)),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to='webhooks.webhook')),
            ],
            options={
                'db_table': 'webhook_secret',
                'constraints': [models.UniqueConstraint(condition=models.Q(('expires_at', None)), fields=('webhook',), name='webhook_secret_one_present')],
            },
        ),
        migrations.CreateModel(
            name='WebhookQueue',
            fields=[
                ('webhook', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='queue', serialize=False, to='webhooks.webhook')),
                ('due_at', models.DateTimeField(null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('slow', models.BooleanField(default=False)),
                ('claimed_until', models.DateTimeField(null=True)),
                ('token', models.UUIDField(null=True)),
            ],
            options={
                'db_table': 'webhook_queue',
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['slow', 'due_at'], name='webhook_queue_due')],
            },
        ),
    ]
