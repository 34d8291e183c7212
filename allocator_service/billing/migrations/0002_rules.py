"""What Django has no words for: composite foreign keys, and rows that stay as they are."""

from django.db import migrations

PRICED = ('billing_rate', 'billing_spot_price', 'billing_commitment', 'billing_unit_weight')
OF_A_PLAN = (*PRICED, 'billing_fixed_cost')
ADDED_TO = (
    'billing_posting', 'billing_closing', 'billing_manifest', 'billing_statement',
    'billing_credit_note', 'billing_rerating', 'billing_budget_reached',
)

# No price names another pool's resource, nor is it of another pool's plan; no line either.
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

# Of a published plan one thing may change once: an open end becomes the beginning of the next plan.
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

# Whatever is posted comes before the month is closed.
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

    dependencies = [('billing', '0001_initial'), ('ledger', '0001_initial')]

    operations = [
        migrations.RunSQL(statement, migrations.RunSQL.noop)
        for statement in (KEYS, PUBLISHED, INSERT_ONLY, OPEN_MONTH)
    ]
