"""The runtime: read, decide, commit."""

from eventlib.runtime.context import RuntimeConfig
from eventlib.runtime.runtime import Runtime, collect_garbage_seldom

__all__ = ["Runtime", "RuntimeConfig", "collect_garbage_seldom"]
