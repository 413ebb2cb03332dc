"""Plants a mutant: into functions that are loaded already, or into a module that is still to be imported."""

import gc
from collections.abc import Iterator
from importlib.abc import SourceLoader
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType

from bench.mutation.mutants import ROOT, Mutant

_Place = tuple[str, str, int]


def _compiled(mutant: Mutant) -> CodeType:
    return compile(mutant.tree(), str(ROOT / mutant.file), "exec", dont_inherit=True)


def _place_of(code: CodeType) -> _Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _all_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _all_in(each)


class Loaded:
    """The functions of this process, by where they were written; make it once all that is tested is imported."""

    def __init__(self) -> None:
        gc.unfreeze()  # what is frozen is not listed
        self._functions: dict[_Place, list[FunctionType]] = {}
        for each in gc.get_objects():  # some of them are not whole: nothing is asked of an object but its type
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(ROOT)):
                self._functions.setdefault(_place_of(each.__code__), []).append(each)
        gc.freeze()

    def takes(self, mutant: Mutant) -> bool:
        """Return whether it can be planted here: it changes a function's body, and not what the function closes over."""
        changed = self._changed(mutant) if mutant.in_function else []
        return bool(changed) and all(function.__code__.co_freevars == code.co_freevars for function, code in changed)

    def plant(self, mutant: Mutant) -> None:
        """Let its functions run the changed code, whatever refers to them."""
        for function, code in self._changed(mutant):
            function.__code__ = code

    def _changed(self, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
        return [
            (function, code)
            for code in _all_in(_compiled(mutant))
            for function in self._functions.get(_place_of(code), ())
            if function.__code__ != code
        ]


def plant_on_import(mutant: Mutant) -> None:
    """Let its module be imported as the mutant has it."""
    path, code = str(ROOT / mutant.file), _compiled(mutant)
    right = SourceFileLoader.get_code

    def get_code(loader: SourceLoader, fullname: str) -> CodeType | None:
        is_its = isinstance(loader, SourceFileLoader) and loader.path == path
        return code if is_its else right(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
