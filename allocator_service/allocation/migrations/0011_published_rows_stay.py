"""Published decisions are only added to: what a reader was served stays as it was, or is pruned whole.

The rows of a decision are never updated. Those that are pruned go with their run's `pruned_at`; those
that are kept permanently are never removed. Of a succeeded run itself, only its end and when it was
pruned are set, each once.
"""

from django.db import migrations

KEPT = ("run_allocation", "run_step", "run_schedule")
PRUNED = ("run_placement", "run_server_class", "run_certificate")

FUNCTIONS = """
CREATE FUNCTION decision_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a published decision stays as it is: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION decision_refuse_early_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM gone JOIN run ON run.id = gone.run_id WHERE run.pruned_at IS NULL) THEN
        RAISE EXCEPTION 'a decision is kept until it is pruned: % of % is refused', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION run_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.effective_until IS NULL OR NEW.effective_until = OLD.effective_until)
       AND (OLD.pruned_at IS NULL OR NEW.pruned_at = OLD.pruned_at)
       AND to_jsonb(NEW) - '{effective_until,pruned_at}'::text[]
           = to_jsonb(OLD) - '{effective_until,pruned_at}'::text[] THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a published decision stays as it is: % of its run is refused', TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER run_published_stays BEFORE UPDATE OR DELETE ON run
    FOR EACH ROW WHEN (OLD.status = 'succeeded') EXECUTE FUNCTION run_refuse_change();
"""
DROP_FUNCTIONS = """
DROP TRIGGER run_published_stays ON run;
DROP FUNCTION run_refuse_change();
DROP FUNCTION decision_refuse_early_removal();
DROP FUNCTION decision_refuse_change();
"""
# No row is looked at: whoever updates anything here is refused.
KEEP = """
CREATE TRIGGER decision_no_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
"""
KEEP_UNTIL_PRUNED = """
CREATE TRIGGER decision_no_change BEFORE UPDATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
CREATE TRIGGER decision_kept_until_pruned AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_early_removal();
"""
REVOKE = """
DO $$
DECLARE
    holder record;
BEGIN
    FOR holder IN
        SELECT DISTINCT pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = '{table}'::regclass AND acl.grantee <> pg_class.relowner
          AND acl.grantee <> 0
    LOOP
        EXECUTE format('REVOKE {rights} ON {table} FROM %I', holder.name);
    END LOOP;
END $$;
"""
TRIGGERS = "".join(
    [
        *(KEEP.replace("{table}", table) for table in KEPT),
        *(KEEP_UNTIL_PRUNED.replace("{table}", table) for table in PRUNED),
        *(
            REVOKE.replace("{table}", table).replace("{rights}", rights)
            for tables, rights in ((KEPT, "UPDATE, DELETE, TRUNCATE"), (PRUNED, "UPDATE, TRUNCATE"))
            for table in tables
        ),
    ]
)
DROP_TRIGGERS = "".join(
    [f"DROP TRIGGER decision_no_change ON {table};" for table in KEPT + PRUNED]
    + [f"DROP TRIGGER decision_kept_until_pruned ON {table};" for table in PRUNED]
)


class Migration(migrations.Migration):
    dependencies = [("allocation", "0010_schedules_make_up"), ("ledger", "0006_chain_of_decisions")]

    operations = [
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]
