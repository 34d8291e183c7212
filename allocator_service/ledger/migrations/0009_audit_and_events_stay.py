"""The audit and the events stay as they were written, as the ledger does: triggers and privileges.

Events are kept for a number of days (`EVENT_RETENTION_DAYS`), of one at least: younger ones cannot be
deleted, with room for clocks that differ.
"""

from django.db import migrations

AUDIT = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON core_audit_entry
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('core_audit_entry');
"""
EVENTS = """
CREATE FUNCTION ledger_refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.occurred_at < now() - interval '12 hours' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'events are only added to: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON core_event
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_event_change();
SELECT ledger_insert_only('core_event');
"""
# To drop what is too old is left to the application's role; the trigger holds what is young.
RETENTION = """
DO $$
DECLARE
    holder record;
BEGIN
    FOR holder IN
        SELECT DISTINCT pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = 'core_event'::regclass AND acl.privilege_type = 'INSERT'
          AND acl.grantee <> pg_class.relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('GRANT DELETE ON core_event TO %I', holder.name);
    END LOOP;
END $$;
"""

UNDONE = """
DROP TRIGGER ledger_no_change ON core_audit_entry;
DROP TRIGGER ledger_no_truncate ON core_audit_entry;
DROP TRIGGER ledger_no_change ON core_event;
DROP TRIGGER ledger_no_truncate ON core_event;
DROP FUNCTION ledger_refuse_event_change();
"""


class Migration(migrations.Migration):

    dependencies = [('core', '0004_pool_limits'), ('ledger', '0008_digests_of_documents')]

    operations = [migrations.RunSQL(AUDIT + EVENTS + RETENTION, UNDONE)]
