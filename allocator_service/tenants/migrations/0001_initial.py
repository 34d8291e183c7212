import allocator_service.core.ids
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=63, validators=[django.core.validators.RegexValidator('^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$', 'Lower-case letters, digits and hyphens, 1 to 63 characters, no hyphen at the ends.')])),
                ('name', models.CharField(max_length=200)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('retired_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'tenant',
                'ordering': ['slug'],
                'constraints': [models.UniqueConstraint(fields=('slug',), name='tenant_slug_unique', violation_error_code='tenant.exists', violation_error_message='A tenant with this slug exists (retired ones keep their slug).'), models.CheckConstraint(condition=models.Q(('slug__regex', '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$')), name='tenant_slug_wellformed', violation_error_code='slug.syntax', violation_error_message='A slug is 1 to 63 lower-case letters, digits and hyphens.')],
            },
        ),
        migrations.CreateModel(
            name='GroupGrant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.CharField(max_length=255)),
                ('granted_at', models.DateTimeField(editable=False)),
                ('withdrawn_at', models.DateTimeField(editable=False, null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='group_grants', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'group of people',
                'verbose_name_plural': 'groups of people',
                'db_table': 'group_grant',
                'ordering': ['group', 'id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('withdrawn_at', None)), fields=('group', 'tenant'), name='group_grant_unique', violation_error_code='grant.exists', violation_error_message="Members of the group may open this tenant's pages already.")],
            },
        ),
        migrations.CreateModel(
            name='Person',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('issuer', models.CharField(max_length=2000)),
                ('subject', models.CharField(max_length=255)),
                ('name', models.CharField(max_length=150)),
                ('groups', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                ('created_at', models.DateTimeField(editable=False)),
                ('last_signed_in_at', models.DateTimeField(editable=False)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='person', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'people',
                'db_table': 'person',
                'ordering': ['name', 'id'],
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='person_identity_unique')],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('scope', models.CharField(choices=[('operator', 'Operator'), ('tenant', 'Tenant'), ('billing', 'Billing'), ('agent', 'Agent')], max_length=10)),
                ('digest', models.BinaryField()),
                ('prefix', models.CharField(editable=False, max_length=16)),
                ('created_at', models.DateTimeField(editable=False)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='keys', to='tenants.tenant')),
                ('pool', models.CharField(blank=True, db_default='', default='', max_length=63)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name': 'API key',
                'db_table': 'api_key',
                'ordering': ['-id'],
                'constraints': [models.UniqueConstraint(fields=('digest',), name='api_key_digest_unique'), models.CheckConstraint(condition=models.Q(models.Q(('pool', ''), ('scope', 'tenant'), ('tenant__isnull', False)), models.Q(('scope', 'agent'), ('tenant__isnull', True), models.Q(('pool', ''), _negated=True)), models.Q(('scope__in', ['operator', 'billing']), ('tenant__isnull', True)), _connector='OR'), name='api_key_bound_by_scope', violation_error_code='api_key.binding', violation_error_message='A key of scope tenant names its tenant and one of scope agent its pool; operator and billing keys may name a pool, and no tenant.')],
            },
        ),
    ]
