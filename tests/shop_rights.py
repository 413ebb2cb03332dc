"""The shop's views, and the users of a cluster that they and the services are: to know them takes an import of Faust."""

from functools import cache

from eventlib.cli._common.views import declared_views
from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import User, users_of
from services import shop

SERVICES = [service.name for service in shop.services]
"""Each of them has views."""


@cache
def views() -> tuple[Viewing, ...]:
    found = tuple(declared_views(shop))
    assert [each.service for each in found] == SERVICES
    return found


@cache
def users(options: KafkaOptions) -> dict[str, User]:
    return {user.name: user for user in users_of(shop, options, views())}
