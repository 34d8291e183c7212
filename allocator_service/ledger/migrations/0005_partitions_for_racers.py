"""Two that need a new month's partition at once both get it, and writers of other months go on."""

from django.db import migrations

# A negative answer of to_regclass may come from a cache that the wait for the lock does not renew,
# so the catalogue is asked. ATTACH lets writers of other partitions go on, where CREATE TABLE ...
# PARTITION OF would wait for their transactions, and they perhaps for this lock.
FUNCTION = """
CREATE OR REPLACE FUNCTION ledger_partition(month date) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    name text := 'ledger_entry_' || to_char(first, 'YYYYMM');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'ledger_entry'::regclass AND c.relname = name) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ledger_partition', 0));
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'ledger_entry'::regclass AND c.relname = name) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE ledger_entry INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
                   name);
    EXECUTE format('ALTER TABLE ledger_entry ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                   first::timestamp AT TIME ZONE 'UTC',
                   (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
    PERFORM ledger_insert_only(name::regclass);
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0004_owner_totals")]

    operations = [migrations.RunSQL(FUNCTION, migrations.RunSQL.noop)]
