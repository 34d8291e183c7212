import allocator_service.core.constraints
import allocator_service.core.ids
import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.operations
import django.core.validators
import django.db.models.deletion
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        django.contrib.postgres.operations.BtreeGistExtension(
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=63, validators=[django.core.validators.RegexValidator('^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$', 'Lower-case letters, digits and hyphens, 1 to 63 characters, no hyphen at the ends.')])),
                ('name', models.CharField(max_length=200)),
                ('policy_name', models.CharField(max_length=63)),
                ('policy_mode', models.CharField(max_length=63)),
                ('policy_options', models.JSONField(blank=True, default=dict)),
                ('policy_places', models.BooleanField(default=True, editable=False)),
                ('window_kind', models.CharField(choices=[('tumbling', 'Tumbling'), ('sliding', 'Sliding'), ('decay', 'Decay'), ('unbounded', 'Unbounded'), ('none', 'None')], default='tumbling', max_length=10)),
                ('window_length', models.CharField(blank=True, default='P7D', max_length=40)),
                ('window_anchor', models.DateTimeField()),
                ('window_half_life', models.CharField(blank=True, default='', max_length=40)),
                ('weights', models.CharField(choices=[('contribution', 'Contribution'), ('explicit', 'Explicit')], default='contribution', max_length=12)),
                ('decision_interval', models.CharField(default='PT1M', max_length=40)),
                ('metering', models.CharField(choices=[('allocation', 'Allocation'), ('reported', 'Reported')], default='allocation', max_length=10)),
                ('currency', models.CharField(default='EUR', max_length=3)),
                ('timezone', models.CharField(default='UTC', max_length=63)),
                ('transparent', models.BooleanField(default=False)),
                ('generation', models.PositiveBigIntegerField(default=0, editable=False)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('retired_at', models.DateTimeField(editable=False, null=True)),
                ('policy_long_term', models.BooleanField(default=False, editable=False)),
                ('metering_changed_at', models.DateTimeField(editable=False, null=True)),
                ('money_fixed_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'pool',
                'ordering': ['slug'],
                'constraints': [models.UniqueConstraint(fields=('slug',), name='pool_slug_unique', violation_error_code='pool.exists', violation_error_message='A pool with this slug exists (retired ones keep their slug).'), models.CheckConstraint(condition=models.Q(('slug__regex', '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$')), name='pool_slug_wellformed', violation_error_code='slug.syntax', violation_error_message='A slug is 1 to 63 lower-case letters, digits and hyphens.'), models.CheckConstraint(condition=models.Q(('currency__regex', '^[A-Z]{3}$')), name='pool_currency_wellformed', violation_error_code='currency.syntax', violation_error_message='A currency is three capital letters (ISO 4217), as EUR.')],
            },
        ),
        migrations.CreateModel(
            name='ResourceType',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('unit', models.CharField(blank=True, max_length=20)),
                ('position', models.PositiveSmallIntegerField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='resource_types', to='pools.pool')),
            ],
            options={
                'db_table': 'pool_resource_type',
                'ordering': ['position'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'name'), name='resource_type_name_unique', violation_error_code='resource.duplicate', violation_error_message='The pool has a resource of this name.'), models.UniqueConstraint(fields=('pool', 'position'), name='resource_type_position_unique'), models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z][a-z0-9_.-]{0,62}$')), name='resource_type_name_wellformed', violation_error_code='resource.syntax', violation_error_message='A resource name matches ^[a-z][a-z0-9_.-]{0,62}$.')],
            },
        ),
        migrations.CreateModel(
            name='Server',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=253)),
                ('capacity', django.contrib.postgres.fields.ArrayField(base_field=models.DecimalField(decimal_places=12, max_digits=24), size=None)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('state', models.CharField(choices=[('active', 'Active'), ('draining', 'Draining'), ('retired', 'Retired')], default='active', editable=False, max_length=8)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('retired_at', models.DateTimeField(editable=False, null=True)),
                ('contributed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='servers', to='tenants.tenant')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='servers', to='pools.pool')),
            ],
            options={
                'db_table': 'server',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['pool', 'id'], name='server_by_pool'), models.Index(fields=['contributed_by', 'pool', 'id'], name='server_by_contributor')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'retired'), _negated=True), fields=('pool', 'contributed_by', 'name'), name='server_name_unique', nulls_distinct=False, violation_error_code='server.exists', violation_error_message='A server of this name and contributor is in the pool.'), models.CheckConstraint(condition=allocator_service.core.constraints.NonNegativeVector(models.F('capacity')), name='server_capacity_nonnegative', violation_error_code='quantity.negative', violation_error_message='A capacity is at least 0.'), models.CheckConstraint(condition=models.Q(('state__in', ['active', 'draining', 'retired'])), name='server_state_known')],
            },
        ),
        migrations.CreateModel(
            name='Contribution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='contributions', to='tenants.tenant')),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='contributions', to='pools.server')),
                ('capacity', django.contrib.postgres.fields.ArrayField(base_field=models.DecimalField(decimal_places=12, max_digits=24), null=True, size=None)),
            ],
            options={
                'db_table': 'server_contribution',
                'ordering': ['start'],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('admitted_at', models.DateTimeField(editable=False)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to='tenants.tenant')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to='pools.pool')),
                ('ended_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'pool_membership',
                'constraints': [models.UniqueConstraint(fields=('pool', 'tenant'), name='membership_unique', violation_error_code='member.exists', violation_error_message='The tenant is a member of the pool.')],
            },
        ),
        migrations.CreateModel(
            name='MembershipTerms',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('weight', models.DecimalField(decimal_places=12, default=Decimal('1'), max_digits=24)),
                ('best_effort', models.BooleanField(default=False)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField(null=True)),
                ('membership', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='terms', to='pools.membership')),
            ],
            options={
                'db_table': 'pool_membership_terms',
                'ordering': ['start'],
                'constraints': [models.CheckConstraint(condition=models.Q(('weight__gt', 0), ('weight__lt', Decimal('1000000000000'))), name='membership_weight_positive', violation_error_code='weight.not_positive', violation_error_message='A weight is above 0 and below 10^12.')],
            },
        ),
        migrations.CreateModel(
            name='RecomputeJob',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='job', serialize=False, to='pools.pool')),
                ('wanted', models.PositiveBigIntegerField(default=0)),
                ('settled', models.PositiveBigIntegerField(default=0)),
                ('first_change_at', models.DateTimeField(null=True)),
                ('run_after', models.DateTimeField()),
                ('published_at', models.DateTimeField(null=True)),
                ('publications', models.PositiveIntegerField(default=0)),
                ('claimed_at', models.DateTimeField(null=True)),
                ('claimed', models.PositiveBigIntegerField(default=0)),
                ('token', models.UUIDField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                'db_table': 'pool_recompute_job',
                'indexes': [models.Index(condition=models.Q(('wanted__gt', models.F('settled'))), fields=['run_after'], name='recompute_job_due')],
            },
        ),
        # Partial unique indexes before exclusions: of two violated constraints, PostgreSQL reports the one whose
        # index was created first.
        migrations.AddConstraint(
            model_name='membershipterms',
            constraint=models.UniqueConstraint(condition=models.Q(('end', None)), fields=('membership',), name='membership_terms_one_present'),
        ),
        migrations.AddConstraint(
            model_name='membershipterms',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(expressions=[('membership', '='), (allocator_service.core.constraints.TimeRange('start', 'end'), '&&')], name='membership_terms_disjoint'),
        ),
        migrations.AddConstraint(
            model_name='contribution',
            constraint=models.UniqueConstraint(condition=models.Q(('end', None)), fields=('server',), name='contribution_one_present'),
        ),
        migrations.AddConstraint(
            model_name='contribution',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(expressions=[('server', '='), (allocator_service.core.constraints.TimeRange('start', 'end'), '&&')], name='contribution_disjoint'),
        ),
    ]
