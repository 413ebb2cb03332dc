"""The small shop as an application that commands and Spark's workers can import."""

from tests.apps.small_shop import make_shop

app = make_shop(set())
