"""Dependencies point one way, and there are no cycles: read from the imports, not from hope."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import inturn

PACKAGE = Path(inturn.__file__).parent

# A layer may import the ones to its right, and itself; applications do not import each other.
LAYERS = [
    "cli", "demo", "cli.terminal",
    "web", "testing", "workflows", "visitors", "jobs", "tasks", "bot", "capabilities", "database", "http", "agents",
    "workflows.definition", "sync", "app", "compat", "lanes", "locks", "process", "store", "metrics", "settings",
    "arguments", "errors", "masking", "printable",
]  # fmt: skip
APPLICATIONS = {"workflows", "visitors", "jobs", "tasks", "bot"}
# the storefront: may import everything, and nothing of ours imports from it but what only users would write
STOREFRONT = {"demo"}


def imports_of(path: Path) -> set[str]:
    """The modules of ours that a file imports at run time, wherever in the file it does so."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                setattr(node, field, [child for child in inner if not _is_for_types(child)])
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                as_module = PACKAGE.parent / f"{node.module}.{alias.name}".replace(".", "/")
                is_module = as_module.with_suffix(".py").exists() or as_module.is_dir()
                found.add(f"{node.module}.{alias.name}" if is_module else node.module)
    return {name for name in found if name == "inturn" or name.startswith("inturn.")}


def _is_for_types(node: object) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def paths() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def modules() -> dict[str, set[str]]:
    """What every module imports: read when a test asks for it, as every worker collects these tests."""
    return {name: imports_of(path) for name, path in paths().items()}


def layer_of(module: str) -> str:
    """Definitions are a layer of their own: agents read them."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if ".".join(parts[:2]) in LAYERS else parts[0] if parts else "inturn"


def test_every_module_belongs_to_a_layer() -> None:
    assert {layer_of(module) for module in modules()} - {"inturn"} <= set(LAYERS)


@pytest.mark.parametrize("module", sorted(paths()))
def test_a_module_imports_only_from_its_own_layer_or_one_below(module: str) -> None:
    mine = layer_of(module)
    if mine == "inturn":
        return
    for imported in modules()[module]:
        theirs = layer_of(imported)
        if theirs == "inturn":
            assert mine in STOREFRONT | {"cli"}, f"{module} imports the package's front page"
            continue
        assert LAYERS.index(theirs) >= LAYERS.index(mine), f"{module} ({mine}) imports {imported} ({theirs})"
        assert mine == theirs or {mine, theirs} - APPLICATIONS, f"{module} imports from another application"


def test_there_are_no_cycles() -> None:
    graph = {module: {name for name in needed if name != module} for module, needed in modules().items()}
    tuple(TopologicalSorter(graph).static_order())


def test_the_check_would_find_an_upward_import(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    from inturn.locks.lock import Lock\n    return Lock\n")
    assert imports_of(path) == {"inturn.locks.lock"}
