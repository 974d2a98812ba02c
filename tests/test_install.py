"""The plain install: the wheel with nothing but its core dependencies, without any extra."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LINKS = re.compile(r'\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"')


class Plain:
    """A virtual environment with the wheel and its core dependencies, which are linked from this one: no network."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.packages = next(folder.glob("lib/python*/site-packages"))
        with zipfile.ZipFile(wheel) as archive:
            self.names = archive.namelist()
            self.metadata = message_from_bytes(
                archive.read(next(name for name in self.names if name.endswith("METADATA")))
            )
            archive.extractall(self.packages)
        self.required = set(_needed([str(line) for line in self.metadata.get_all("Requires-Dist", [])]))
        for name in self.required:
            self._link(name)

    def _link(self, name: str) -> None:
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (self.packages / top).symlink_to(Path(str(found.locate_file(top))))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-I", "-B", *words],
            cwd=self.folder, env={"COLUMNS": "100"}, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip

    def inturn(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "inturn.cli.main", *words)


def _needed(lines: list[str]) -> Iterator[str]:
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
            yield from _needed(distribution(requirement.name).requires or [])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    built = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=ROOT, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = built.glob("*.whl")
    return Plain(tmp_path_factory.mktemp("plain"), wheel)


def test_the_core_needs_two_packages_and_what_they_need(plain: Plain) -> None:
    assert plain.required == {
        "prometheus-client", "pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection",
    }  # fmt: skip


def test_the_wheel_holds_the_package_and_nothing_else(plain: Plain) -> None:
    assert {name.split("/")[0] for name in plain.names} == {"inturn", "inturn-0.1.0.dist-info"}


def test_what_people_import_first_needs_no_extra(plain: Plain) -> None:
    """The names of `inturn` are fetched when they are first used, so each of them is."""
    rooms = "errors", "sync", "testing", "agents", "workflows", "visitors", "http"
    code = (
        f"import inturn, {', '.join(f'inturn.{room}' for room in rooms)}; [getattr(inturn, n) for n in inturn.__all__]"
    )
    done = plain.run("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_first_example_of_the_readme_runs(plain: Plain) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    code, output = page.split("```python\n")[1].split("```\n\n```text\n")
    done = plain.run("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, output.split("```")[0], "")


@pytest.mark.timed
@pytest.mark.parametrize("words", [["demo"], ["demo", "policies"]])
def test_the_demo_runs(plain: Plain, words: list[str]) -> None:
    done = plain.inturn(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Run next" in done.stdout


def test_a_store_can_be_looked_at(plain: Plain) -> None:
    url = f"sqlite:///{plain.folder}/looked-at.db"
    make = f"import inturn.sync as s; app = s.InTurn({url!r}); app.__enter__(); app.lanes.pause('user:1'); app.close()"
    assert plain.run("-c", make).returncode == 0
    assert plain.inturn("locks", "ls", "--url", url).stdout == "Nobody holds a lock, and nobody waits for one.\n"
    assert plain.inturn("lanes", "ls", "--url", url).stdout.splitlines()[1].split()[:2] == ["user:1", "paused"]
    assert '"paused"' in plain.inturn("lanes", "ls", "--json", "--url", url).stdout


def test_what_needs_an_extra_names_it(plain: Plain) -> None:
    serve = plain.inturn("serve")
    assert (serve.returncode, serve.stderr) == (
        2, "inturn: inturn serve needs the extra 'server': pip install 'inturn[server]'\n",
    )  # fmt: skip
    locks = plain.inturn("locks", "ls", "--url", "redis://localhost:6379/0")
    assert locks.returncode == 2
    assert "pip install 'inturn[redis]'" in locks.stderr
    assert plain.inturn("--help").returncode == 0


def test_links_and_pictures_work_on_the_packages_page(plain: Plain) -> None:
    page = str(plain.metadata.get_payload())
    found = [target or source for target, source in LINKS.findall(page)]
    assert len(found) > 15
    assert [target for target in found if not target.startswith("https://")] == []
    home = dict(str(line).split(", ") for line in plain.metadata.get_all("Project-URL", []))["Homepage"]
    assert f"{home}/raw/main/docs/pictures/policies/interrupt.svg" in page
    assert f"{home}/blob/main/docs/lanes.md" in page
