"""Loads definitions from files. Each is checked as a whole: a `DefinitionError` has every problem with file, line and
field.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from pydantic import ValidationError

from inturn.errors import DefinitionError, MissingExtra
from inturn.workflows.definition import findings
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.definition.tree import Document, Node, Unreadable, read_json, unfold

MAX_BYTES = 256 * 1024
SUFFIXES = (".yaml", ".yml", ".json")


def load_definition(path: str | Path) -> WorkflowDefinition:
    """Loads the workflow of one file. Raises `DefinitionError`."""
    path = Path(path)
    try:
        document = _document(path)
    except Unreadable as unreadable:
        where = f"{path}:{unreadable.line}" if unreadable.line else str(path)
        raise DefinitionError([f"{where}: {unreadable.why}"]) from unreadable
    found = [*document.problems, *findings.of_names(document)]
    definition = None
    try:
        definition = WorkflowDefinition.model_validate(document.data)
    except ValidationError as error:
        # names that are used twice were already found, with better lines
        found += [problem for problem in findings.of_validation(error, document) if "is used twice" not in problem[2]]
    if found or definition is None:
        raise DefinitionError([_sentence(path, problem) for problem in sorted(found, key=lambda each: each[0])])
    return definition


def load_definitions(path: str | Path) -> dict[str, WorkflowDefinition]:
    """Loads the workflows of a folder (or of one file), by id, in the order of the file names."""
    path = Path(path)
    if not path.is_dir():
        definition = load_definition(path)
        return {definition.id: definition}
    chosen = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES and not each.is_dir())
    if not chosen:
        raise DefinitionError([f"{path}: is empty; put a workflow there, such as {path / 'intake.yaml'}"])
    found: dict[str, tuple[Path, WorkflowDefinition]] = {}
    wrong: list[str] = []
    for each in chosen:
        try:
            definition = load_definition(each)
        except DefinitionError as error:
            wrong += error.problems
            continue
        if definition.id in found:
            wrong.append(f"{each}: id: {definition.id!r} is also the id of {found[definition.id][0]}")
        found.setdefault(definition.id, (each, definition))
    if wrong:
        raise DefinitionError(wrong)
    return {name: definition for name, (_, definition) in found.items()}


@cache
def default_definition() -> WorkflowDefinition:
    """Returns the packaged example, a support intake. It is in YAML, so it needs the extra `workflows`."""
    try:
        with as_file(files("inturn.workflows.definition") / "support_intake.yaml") as path:
            return load_definition(path)
    except MissingExtra as error:
        what = "the packaged example support_intake.yaml (unlike a definition of your own in JSON)"
        raise MissingExtra(what, error.extra) from error


def _document(path: Path) -> Document:
    if path.suffix.lower() not in SUFFIXES:
        raise Unreadable(0, f"must end in one of {', '.join(SUFFIXES)}")
    if not path.exists():
        raise Unreadable(0, "there is no such file or folder")
    if not path.is_file():
        raise Unreadable(0, "is not a file")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(0, f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise Unreadable(0, f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(content.count(b"\n", 0, error.start) + 1, "is not UTF-8") from error
    root = read_json(text) if path.suffix.lower() == ".json" else _read_yaml(text)
    document = unfold(root)
    if not isinstance(document.data, dict):
        raise Unreadable(root.line, "must be a mapping with id, title and steps")
    return document


def _read_yaml(text: str) -> Node:
    from inturn.workflows.definition.yaml_tree import read_yaml  # pyyaml is optional: JSON must load without it

    return read_yaml(text)


def _sentence(path: Path, problem: findings.DefinitionProblem) -> str:
    line, place, why = problem
    return f"{path}:{line}: {findings.written(place)}: {why}" if place else f"{path}:{line}: {why}"
