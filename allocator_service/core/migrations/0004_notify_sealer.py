"""Notifications for the sealer, which asked for rows ten times a second before."""

from django.db import migrations

from allocator_service.core.short_locks import with_short_locks

FUNCTION = """
CREATE FUNCTION core_notify_sealer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('allocator_pending', '');
    RETURN NULL;
END $$
"""
TRIGGER = """
CREATE TRIGGER core_notify_sealer AFTER INSERT ON core_event_pending
    FOR EACH STATEMENT EXECUTE FUNCTION core_notify_sealer()
"""


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0003_former_keys'),
    ]

    operations = [
        migrations.RunSQL(FUNCTION, 'DROP FUNCTION core_notify_sealer()'),
        migrations.RunSQL(
            with_short_locks(TRIGGER),
            with_short_locks('DROP TRIGGER core_notify_sealer ON core_event_pending'),
        ),
    ]
