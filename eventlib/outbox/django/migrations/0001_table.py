"""Makes the outbox's table."""

from typing import ClassVar

from django.db import migrations

from eventlib.outbox.rows import TABLE_SQL


class Migration(migrations.Migration):
    """What `manage.py migrate` does, on a database of PostgreSQL."""

    initial = True
    operations: ClassVar = [
        migrations.RunSQL(TABLE_SQL, "DROP TABLE eventlib_outbox; DROP FUNCTION eventlib_outbox_put()")
    ]
