"""What the README and the docs show is run, and prints what they say it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")


def examples() -> list[tuple[str, str, str]]:
    return [
        (f"{page.name}:{number}", found["code"], found["output"])
        for page in PAGES
        for number, found in enumerate(EXAMPLE.finditer(page.read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize(("where", "code", "output"), [pytest.param(*one, id=one[0]) for one in examples()])
def test_an_example_prints_what_the_page_says(where: str, code: str, output: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("INTURN_")}
    if where.startswith("CONTRIBUTING.md:"):  # its examples are run from the root of the repository
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,  # on a busy machine, compiling aiogram or Celery takes long
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == output


def test_every_python_block_has_its_output_beside_it() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert text.count("```python") == len(EXAMPLE.findall(text)), f"{page.name} has an example that nobody runs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nothing_is_left_to_be_filled_in() -> None:
    for page in PAGES:
        assert "PLACEHOLDER" not in page.read_text("utf-8"), page.name
