"""The topics that schemas are kept on, whether a registry serves them or an application keeps its own."""

from eventlib.topic import Topic

SCHEMAS = Topic("_schemas", partitions=1, compacted=True)
WRITERS = Topic("_schemas.writers", partitions=1, compacted=True)
"""Where the instance that may write says how the others reach it."""
