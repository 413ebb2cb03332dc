"""A plugin of pytest, `-p tests.pure_core`: the core is imported from its sources, also where it is compiled."""

import sys
from importlib.abc import PathEntryFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

_CORE = [Path(__file__).resolve().parents[1] / name for name in ("analytics", "eventlib")]
_sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))


def _of_core(path: str) -> PathEntryFinder:
    if not any(map(Path(path).resolve().is_relative_to, _CORE)):
        raise ImportError(path)
    return _sources(path)


sys.path_hooks.insert(0, _of_core)
sys.path_importer_cache.clear()
