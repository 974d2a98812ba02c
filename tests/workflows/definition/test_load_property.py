"""A file is read or refused with a `DefinitionError`, whatever is in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.errors import DefinitionError
from inturn.workflows.definition.load import load_definition

PARTS = [
    "id: a\n", "title: b\n", "steps:\n", "  - id: s\n", "    title: t\n", "    prompt: p\n", "    fields:\n",
    "      - name: x\n", "        type: date\n", "- ", "[", "]", "{", "}", ": ", '"', "'", "&a ", "*a", "<<: *a\n",
    "!!int ", "? ", "|\n", "---\n", "...\n", "null", "~", "1e999", "0x1F", "12:30:45", "2026-11-30", "\t", "\n", "é",
    "\x00", "%YAML 1.1\n", "!!timestamp x", "=", "- <<",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.lists(st.sampled_from(PARTS), max_size=30).map("".join).map(str.encode),
        st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")),
        st.binary(max_size=100),
    ),
    st.sampled_from(["a.yaml", "a.json"]),
)
def test_any_file_is_read_or_refused(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            problems = [f"{path} is {load_definition(path).id}"]
        except DefinitionError as error:
            problems = error.problems
        assert problems
        assert all(problem.startswith(str(path)) for problem in problems)
