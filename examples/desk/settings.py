"""The settings of the desk: a database, and the applications in it."""

import os

INSTALLED_APPS = ["eventlib.outbox.django", "examples.desk"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ.get("PGHOST", "db"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "desk"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "NAME": os.environ.get("PGDATABASE", "desk"),
    }
}
TIME_ZONE, USE_TZ = "UTC", True
