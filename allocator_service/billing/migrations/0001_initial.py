"""Billing's tables, with composite foreign keys and triggers, which Django has no words for."""

import allocator_service.billing.models.watching
import allocator_service.core.constraints
import allocator_service.core.ids
import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.core.serializers.json
import django.db.models.deletion
import django.db.models.expressions
from decimal import Decimal
from django.db import migrations, models

PRICED = ('billing_rate', 'billing_spot_price', 'billing_commitment', 'billing_unit_weight')
OF_A_PLAN = (*PRICED, 'billing_fixed_cost')
ADDED_TO = (
    'billing_posting', 'billing_closing', 'billing_manifest', 'billing_statement',
    'billing_credit_note', 'billing_rerating', 'billing_budget_reached',
    'billing_audited_entry',
)

# Composite keys: a price or a line cannot refer to another pool's plan, nor a price to its resource.
KEYS = """
CREATE UNIQUE INDEX billing_plan_of_pool ON billing_plan (id, pool_id);
ALTER TABLE billing_posting ADD CONSTRAINT billing_posting_plan_of_pool
    FOREIGN KEY (plan_id, pool_id) REFERENCES billing_plan (id, pool_id) DEFERRABLE INITIALLY DEFERRED;
""" + ''.join(f"""
ALTER TABLE {table} ADD CONSTRAINT {table}_plan_of_pool
    FOREIGN KEY (plan_id, pool_id) REFERENCES billing_plan (id, pool_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE {table} ADD CONSTRAINT {table}_resource_of_pool
    FOREIGN KEY (pool_id, resource) REFERENCES pool_resource_type (pool_id, name)
    DEFERRABLE INITIALLY DEFERRED;
""" for table in PRICED)

# A published plan may change once: an open end becomes the beginning of the next plan.
PUBLISHED = """
CREATE FUNCTION billing_plan_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'draft' THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD."end" IS NULL
       AND (to_jsonb(NEW) - 'end' - 'version') = (to_jsonb(OLD) - 'end' - 'version') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a published price plan stays as it is: % is refused', TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER billing_plan_stays BEFORE UPDATE OR DELETE ON billing_plan
    FOR EACH ROW EXECUTE FUNCTION billing_plan_stays();

CREATE FUNCTION billing_part_of_draft() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    plan uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.plan_id ELSE NEW.plan_id END;
BEGIN
    IF EXISTS (SELECT FROM billing_plan WHERE id = plan AND state <> 'draft') THEN
        RAISE EXCEPTION 'a published price plan stays as it is: % of % is refused', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
""" + ''.join(f"""
CREATE TRIGGER billing_part_of_draft BEFORE INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION billing_part_of_draft();
""" for table in OF_A_PLAN)

INSERT_ONLY = ''.join(f"""
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('{table}');
""" for table in ADDED_TO)

# Nothing is posted to a closed month.
OPEN_MONTH = """
CREATE FUNCTION billing_month_is_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM billing_closing WHERE pool_id = NEW.pool_id AND month = NEW.month) THEN
        RAISE EXCEPTION 'the month % is closed: nothing is posted to it', NEW.month
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_month_is_open BEFORE INSERT ON billing_posting
    FOR EACH ROW EXECUTE FUNCTION billing_month_is_open();
"""



class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('core', '0001_initial'),
        ('ledger', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Closing',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('sequence', models.BigIntegerField()),
                ('closed_at', models.DateTimeField()),
                ('document', models.BinaryField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='closings', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_closing',
                'ordering': ['pool', 'month'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'month'), name='closing_once', violation_error_code='statement.closed', violation_error_message='The month is closed.')],
            },
        ),
        migrations.CreateModel(
            name='LateCursor',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='pools.pool')),
                ('through', models.BigIntegerField()),
            ],
            options={
                'db_table': 'billing_late_cursor',
            },
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('resource', models.CharField(blank=True, default='', help_text='Hours of it; money where it is empty.', max_length=63)),
                ('amount', models.DecimalField(decimal_places=12, max_digits=36)),
                ('thresholds', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), default=allocator_service.billing.models.watching.default_thresholds, size=None)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('retired_at', models.DateTimeField(editable=False, null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='budgets', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='budgets', to='tenants.tenant')),
            ],
            options={
                'db_table': 'billing_budget',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('retired_at', None)), fields=('pool', 'tenant', 'resource'), name='budget_unique', violation_error_code='budget.exists', violation_error_message='The tenant has a budget of this kind in the pool.'), models.CheckConstraint(condition=models.Q(('amount__gt', Decimal('0'))), name='budget_positive', violation_error_code='budget.amount', violation_error_message='A budget is above 0.')],
            },
        ),
        migrations.CreateModel(
            name='BudgetReached',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField()),
                ('threshold', models.PositiveIntegerField()),
                ('spent', models.DecimalField(decimal_places=18, max_digits=60)),
                ('at', models.DateTimeField()),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reached', to='billing.budget')),
            ],
            options={
                'db_table': 'billing_budget_reached',
                'constraints': [models.UniqueConstraint(fields=('budget', 'month', 'threshold'), name='budget_reached_once')],
            },
        ),
        migrations.CreateModel(
            name='Manifest',
            fields=[
                ('closing', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='manifest', serialize=False, to='billing.closing')),
                ('document', models.BinaryField()),
            ],
            options={
                'db_table': 'billing_manifest',
            },
        ),
        migrations.CreateModel(
            name='CreditNote',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('amount', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('reason', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='credit_notes', to='pools.pool')),
                ('reverses', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='reversal', to='billing.creditnote')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'billing_credit_note',
                'ordering': ['-id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='credit_note_has_reason', violation_error_code='credit_note.reason', violation_error_message='A credit note needs a reason.'), models.CheckConstraint(condition=models.Q(('amount__gt', 0), models.Q(('amount__lt', 0), ('reverses__isnull', False)), _connector='OR'), name='credit_note_positive', violation_error_code='credit_note.amount', violation_error_message="A credit note's amount is above 0.")],
            },
        ),
        migrations.CreateModel(
            name='LateEntry',
            fields=[
                ('sequence', models.BigIntegerField(primary_key=True, serialize=False)),
                ('entry_id', models.UUIDField()),
                ('start', models.DateTimeField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_late_entry',
                'indexes': [models.Index(fields=['pool', 'sequence'], name='late_entry_by_pool')],
            },
        ),
        migrations.CreateModel(
            name='PricePlan',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('published', 'Published'), ('rerated', 'Rerated')], default='draft', max_length=10)),
                ('number', models.PositiveIntegerField(null=True)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField(blank=True, null=True)),
                ('fee', models.DecimalField(decimal_places=12, default=Decimal('0'), max_digits=24)),
                ('increment', models.CharField(choices=[('exact', 'Exact'), ('second-min-60', 'Second'), ('hour-up', 'Hour')], default='exact', max_length=13)),
                ('exhausted', models.CharField(choices=[('event', 'Event'), ('best_effort', 'Best Effort')], default='event', max_length=11)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('published_at', models.DateTimeField(editable=False, null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='price_plans', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_plan',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('end', None), ('end__gt', models.F('start')), _connector='OR'), name='plan_lasts', violation_error_code='plan.interval', violation_error_message='`to` is after `from`.'), models.CheckConstraint(condition=models.Q(('fee__gte', 0), ('fee__lte', 1)), name='plan_fee_is_part', violation_error_code='plan.fee', violation_error_message='A fee is a part of the price, from 0 to 1.'), models.CheckConstraint(condition=models.Q(models.Q(('number', None), ('published_at', None), ('state', 'draft')), models.Q(('number__isnull', False), ('published_at__isnull', False), ('state__in', ['published', 'rerated'])), _connector='OR'), name='plan_published_is_numbered'), models.UniqueConstraint(fields=('pool', 'number'), name='plan_number_unique')],
            },
        ),
        migrations.CreateModel(
            name='FixedCost',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=200)),
                ('amount', models.DecimalField(decimal_places=12, max_digits=24)),
                ('tenants', models.JSONField(help_text='Keys of tenants in their order, each with its share.')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='fixed_costs', to='billing.priceplan')),
            ],
            options={
                'db_table': 'billing_fixed_cost',
                'ordering': ['position'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'position'), name='fixed_cost_position'), models.CheckConstraint(condition=models.Q(('amount__gte', 0), ('amount', None), _connector='OR'), name='fixed_cost_not_negative', violation_error_code='price.negative', violation_error_message='A price is at least 0.')],
            },
        ),
        migrations.CreateModel(
            name='Commitment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=63)),
                ('quantity', models.DecimalField(decimal_places=12, max_digits=24)),
                ('price', models.DecimalField(decimal_places=12, max_digits=24)),
                ('upfront', models.DecimalField(decimal_places=12, default=Decimal('0'), max_digits=24)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='commitments', to='billing.priceplan')),
            ],
            options={
                'db_table': 'billing_commitment',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('end', None), ('end__gt', models.F('start')), _connector='OR'), name='commitment_lasts', violation_error_code='plan.interval', violation_error_message='`to` is after `from`.'), models.CheckConstraint(condition=models.Q(models.Q(('quantity__gte', 0), ('quantity', None), _connector='OR'), models.Q(('price__gte', 0), ('price', None), _connector='OR'), models.Q(('upfront__gte', 0), ('upfront', None), _connector='OR')), name='commitment_not_negative', violation_error_code='price.negative', violation_error_message='A price is at least 0.')],
            },
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=63)),
                ('own', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('shared', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('pooled', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('outside', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='billing.priceplan')),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tiers', models.JSONField(null=True)),
            ],
            options={
                'db_table': 'billing_rate',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'resource', 'owner'), name='rate_unique', nulls_distinct=False, violation_error_code='rate.duplicate', violation_error_message='A plan prices each resource once, and once per owner.'), models.CheckConstraint(condition=models.Q(models.Q(('own__gte', 0), ('own', None), _connector='OR'), models.Q(('shared__gte', 0), ('shared', None), _connector='OR'), models.Q(('pooled__gte', 0), ('pooled', None), _connector='OR'), models.Q(('outside__gte', 0), ('outside', None), _connector='OR')), name='rate_not_negative', violation_error_code='price.negative', violation_error_message='A price is at least 0.')],
            },
        ),
        migrations.CreateModel(
            name='Rerating',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('sequence', models.BigIntegerField()),
                ('months', django.contrib.postgres.fields.ArrayField(base_field=models.DateField(), size=None)),
                ('reason', models.TextField()),
                ('changes', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('created_at', models.DateTimeField()),
                ('plan', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='rerating', to='billing.priceplan')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reratings', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_rerating',
                'ordering': ['-id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='rerating_has_reason', violation_error_code='rerating.reason', violation_error_message='A rerating needs a reason.')],
            },
        ),
        migrations.CreateModel(
            name='Posting',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('service_month', models.DateField()),
                ('kind', models.CharField(choices=[('usage', 'Usage'), ('commitment', 'Commitment'), ('commitment_unused', 'Unused'), ('upfront', 'Upfront'), ('fixed', 'Fixed'), ('adjustment', 'Adjustment'), ('reversal', 'Reversal'), ('rerated', 'Rerated'), ('credit_note', 'Credit Note')], max_length=17)),
                ('resource', models.CharField(default='', max_length=63)),
                ('unit', models.CharField(default='', max_length=20)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('amount', models.DecimalField(decimal_places=18, default=Decimal('0'), max_digits=60)),
                ('price', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('currency', models.CharField(max_length=3)),
                ('tenant_amount', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('owner_amount', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('fee_amount', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('pool_amount', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('effective', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('entry', models.UUIDField(null=True)),
                ('reverses', models.UUIDField(null=True)),
                ('note', models.TextField(default='')),
                ('credit_note', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='postings', to='billing.creditnote')),
                ('owner', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('plan', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='billing.priceplan')),
                ('rerating', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='postings', to='billing.rerating')),
                ('adjusted_kind', models.CharField(blank=True, choices=[('usage', 'Usage'), ('commitment', 'Commitment'), ('commitment_unused', 'Unused'), ('upfront', 'Upfront'), ('fixed', 'Fixed'), ('adjustment', 'Adjustment'), ('reversal', 'Reversal'), ('rerated', 'Rerated'), ('credit_note', 'Credit Note')], db_default='', default='', max_length=17)),
                ('commitment', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='billing.commitment')),
                ('entries', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), null=True, size=None)),
            ],
            options={
                'db_table': 'billing_posting',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['pool', 'month'], name='posting_by_month'), models.Index(fields=['pool', 'service_month'], name='posting_by_service')],
                'constraints': [models.CheckConstraint(condition=models.Q(('tenant_amount', django.db.models.expressions.CombinedExpression(django.db.models.expressions.CombinedExpression(django.db.models.expressions.CombinedExpression(models.F('owner_amount'), '+', models.F('fee_amount')), '+', models.F('pool_amount')), '*', models.Value(-1)))), name='posting_balances'), models.CheckConstraint(condition=models.Q(('owner__isnull', False), models.Q(('fee_amount', 0), ('owner_amount', 0)), _connector='OR'), name='posting_credits_an_owner'), models.UniqueConstraint(fields=('reverses',), name='posting_reversed_once', violation_error_code='posting.reversed', violation_error_message='The line was reversed already.'), models.CheckConstraint(condition=models.Q(('reverses__isnull', True), ('kind__in', ['reversal', 'credit_note']), _connector='OR'), name='posting_reversal_names_its_line'), models.CheckConstraint(condition=models.Q(('entry__isnull', True), ('kind', 'adjustment'), _connector='OR'), name='posting_adjusts_for_an_entry')],
            },
        ),
        migrations.CreateModel(
            name='SpotPrice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('own', 'Own'), ('shared', 'Shared'), ('pool', 'Pool')], max_length=6)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('price', models.DecimalField(decimal_places=12, max_digits=24)),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='spot_prices', to='billing.priceplan')),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_spot_price',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('end', None), ('end__gt', models.F('start')), _connector='OR'), name='spot_price_lasts', violation_error_code='plan.interval', violation_error_message='`to` is after `from`.'), models.CheckConstraint(condition=models.Q(('price__gte', 0), ('price', None), _connector='OR'), name='spot_price_not_negative', violation_error_code='price.negative', violation_error_message='A price is at least 0.')],
            },
        ),
        migrations.CreateModel(
            name='Statement',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('billed', models.DecimalField(decimal_places=4, default=Decimal('0'), max_digits=36)),
                ('document', models.BinaryField()),
                ('closing', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='statements', to='billing.closing')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='statements', to='tenants.tenant')),
            ],
            options={
                'db_table': 'billing_statement',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('closing', 'tenant'), name='statement_once')],
            },
        ),
        migrations.CreateModel(
            name='UnitGrant',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('units', models.DecimalField(decimal_places=18, max_digits=60)),
                ('reason', models.TextField(default='')),
                ('granted_at', models.DateTimeField()),
                ('exhausted_at', models.DateTimeField(null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='unit_grants', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='unit_grants', to='tenants.tenant')),
                ('best_effort_from', models.DateTimeField(editable=False, null=True)),
                ('best_effort_until', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'billing_unit_grant',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('units__gt', 0)), name='unit_grant_positive', violation_error_code='units.amount', violation_error_message='A grant is above 0.')],
            },
        ),
        migrations.CreateModel(
            name='UnitWeight',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=63)),
                ('weight', models.DecimalField(decimal_places=12, max_digits=24)),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='unit_weights', to='billing.priceplan')),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'billing_unit_weight',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'resource'), name='unit_weight_unique', violation_error_code='rate.duplicate', violation_error_message='A plan weighs each resource once.'), models.CheckConstraint(condition=models.Q(('weight__gte', 0), ('weight', None), _connector='OR'), name='unit_weight_not_negative', violation_error_code='price.negative', violation_error_message='A price is at least 0.')],
            },
        ),
        migrations.CreateModel(
            name='AuditedEntry',
            fields=[
                ('entry', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='core.auditentry')),
                ('closing', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='billing.closing')),
            ],
            options={
                'db_table': 'billing_audited_entry',
            },
        ),
        # Partial unique indexes before exclusions: of two violated constraints, PostgreSQL reports the one whose
        # index was created first.
        migrations.AddConstraint(
            model_name='priceplan',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('state', 'published')), expressions=[('pool', '='), (allocator_service.core.constraints.TimeRange('start', 'end'), '&&')], name='plan_timeline_disjoint', violation_error_code='plan.overlap', violation_error_message='Another published plan of the pool holds at that time.'),
        ),
        migrations.AddConstraint(
            model_name='spotprice',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(expressions=[('plan', '='), ('resource', '='), ('kind', '='), (allocator_service.core.constraints.TimeRange('start', 'end'), '&&')], name='spot_price_disjoint', violation_error_code='spot_price.overlap', violation_error_message='Two spot prices of one kind and resource hold at one time.'),
        ),
        migrations.RunSQL(KEYS, migrations.RunSQL.noop),
        migrations.RunSQL(PUBLISHED, migrations.RunSQL.noop),
        migrations.RunSQL(INSERT_ONLY, migrations.RunSQL.noop),
        migrations.RunSQL(OPEN_MONTH, migrations.RunSQL.noop),
    ]
