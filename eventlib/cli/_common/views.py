"""The live views that an application declares."""

from importlib.util import find_spec

from eventlib.cli._common.extras import installed_by
from eventlib.contracts.view_manifest import Viewing, views_module
from eventlib.model.choreography import Choreography


def declared_views(choreography: Choreography) -> list[Viewing]:
    """Return the declarations of live views, for the services of a choreography that have any.

    Raises: WiringError when there are some, and Faust is not installed.
    """
    having = [service for service in choreography.services if find_spec(views_module(service)) is not None]
    if not having:
        return []
    with installed_by("live"):
        from eventlib.live.running import load_views
    return [app.viewing for app in load_views(choreography, having)]
