"""The public names of each module as its source has them, for docs/reference/names.md: `python -m tests.api_names` writes it."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

API = Path(__file__).parents[1] / "docs" / "reference" / "api"
_DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


BLOCK = re.compile(r"<!-- generated: (.+) -->")


def renewed(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with its generated blocks as the code has them now."""
    found = re.compile(rf"{BLOCK.pattern}\n(?:.*\n)*?<!-- end -->")
    return found.sub(lambda block: f"<!-- generated: {block[1]} -->\n{blocks[block[1]]}<!-- end -->", text)


def renew_names() -> None:
    """Renew the page of public names."""
    path = API.parent / "names.md"
    path.write_text(renewed(path.read_text(encoding="utf-8"), listed()), encoding="utf-8")


def listed() -> dict[str, str]:
    """Return the names of each page of the API, as Markdown; the pages' directives say which, and in which order."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(API.glob("*.md")) if path.stem != "index"}
    return {page: "".join(map(_entry, _DIRECTIVE.findall(text))) for page, text in pages.items()}


def _entry(directive: str) -> str:
    module, _, name = directive.rpartition(".")
    body = _source(_home(module, name)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, Named) and node.name == name:
            return _line(node, "") + "".join(_line(each, "    ") for each in _methods(node))
        if _assigns(node, name):
            return f"- `{name}`{_first(_text_of(after))}\n"
    raise LookupError(f"{directive} is not defined in {_home(module, name)}")


def _home(module: str, name: str) -> str:
    """Return the module that defines a name which another module has."""
    for node in ast.walk(_source(module)):
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            return _home(node.module or "", name)
    return module


@cache
def _source(module: str) -> ast.Module:
    spec = find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    path = Path(spec.origin)
    return ast.parse(path.read_text(encoding="utf-8"))


def _assigns(node: ast.stmt, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(each, ast.Name) and each.id == name for each in targets)


def _methods(node: Named) -> Iterator[Named]:
    if isinstance(node, ast.ClassDef):
        yield from (
            each for each in node.body if isinstance(each, Named) and each.name[:1] != "_" and not _is_overload(each)
        )


def _is_overload(node: Named) -> bool:
    return any("overload" in ast.unparse(each) for each in node.decorator_list)


def _line(node: Named, indent: str) -> str:
    return f"{indent}- `{node.name}{_signature(node)}`{_first(ast.get_docstring(node))}\n"


def _signature(node: Named) -> str:
    if isinstance(node, ast.ClassDef):
        made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
        return _fields(node) if made is None else f"({_arguments(made)})"
    if any(ast.unparse(each) in {"property", "cached_property"} for each in node.decorator_list):
        return "" if node.returns is None else f": {ast.unparse(node.returns)}"
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"({_arguments(node)}){returns}"


class _Unannotated(ast.NodeTransformer):
    """Takes `Annotated[int, Field(...)]` for `int`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Return the type alone."""
        match node:
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
                return kind
            case _:
                return node


def _fields(node: ast.ClassDef) -> str:
    node = _Unannotated().visit(node)
    fields = [
        ast.unparse(each)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each)
    ]
    return f"({', '.join(fields)})" if fields else ""


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return re.sub(r"^(self|cls)(, /)?(, )?", "", ast.unparse(node.args))


def _text_of(node: ast.stmt | None) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return None


def _first(text: str | None) -> str:
    """Return the first sentence of a docstring, or of a constant's text, after a colon."""
    line = " ".join((text or "").partition("\n\n")[0].split())
    return f": {re.split(r'(?<=[.!?]) (?=[A-Z`])', line)[0]}" if line else ""


if __name__ == "__main__":
    renew_names()
