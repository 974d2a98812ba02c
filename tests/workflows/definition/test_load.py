"""Definitions from files: what is read, and what is said of a file that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inturn.errors import DefinitionError
from inturn.workflows.definition.load import default_definition, load_definition, load_definitions

GOOD = """\
id: intake
title: Intake
steps:
  - id: first
    title: First
    prompt: Please.
    fields:
      - name: answer
        type: choice
        choices: [Yes, No, 2026-11-30]
        required: no
"""
NODE = "is not YAML: while parsing a flow node"
TOKEN = "is not YAML: while scanning for the next token"
SYSTEM = "tag:yaml.org,2002:python/object/apply:os.system"


def problems(tmp_path: Path, text: str | bytes, name: str = "intake.yaml") -> list[str]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DefinitionError) as caught:
        load_definition(path)
    assert str(caught.value) == "\n".join(caught.value.problems)
    for problem in caught.value.problems:
        assert problem.startswith(f"{path}:")
    return [problem.removeprefix(f"{path}:").strip() for problem in caught.value.problems]


def test_words_and_dates_of_yaml_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "intake.yaml"
    path.write_text(GOOD)
    field = load_definition(path).by_name["answer"]
    assert field.choices == ("Yes", "No", "2026-11-30")
    assert field.required is False


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "intake.json"
    step = {"id": "first", "title": 'First \\ "quoted" {[:,]}', "prompt": "P", "fields": [{"name": "a"}]}
    path.write_text("\ufeff" + json.dumps({"id": "intake", "title": "é", "steps": [step], "answers": {}}, indent="\t"))
    read = load_definition(path)
    assert read.steps[0].title == step["title"]
    assert read.answers == {}


def test_all_problems_are_told_at_once_with_line_and_field(tmp_path: Path) -> None:
    text = """\
id: 1st
titel: Intake
steps:
  - id: first
    title: First
    promt: Please.
    fields:
      - name: a
        type: colour
      - name: b
        choices: [1, x]
        required: perhaps
  - id: second
    title: ''
    prompt: Go on.
    fields:
      - name: c
        pattern: "("
    card: none
"""
    assert problems(tmp_path, text) == [
        "1: id: must start with a letter, followed by letters, digits, '_', '.' or '-'; at most 64 characters",
        "1: title: is missing",
        "2: titel: is not known here; did you mean title?",
        "4: steps[0].prompt: is missing",
        "6: steps[0].promt: is not known here; did you mean prompt?",
        "9: steps[0].fields[0].type: must be one of text, number, integer, date, email, boolean, choice",
        "11: steps[0].fields[1].choices[0]: must be text; put it in quotes: '1'",
        "12: steps[0].fields[1].required: must be true or false",
        "14: steps[1].title: must not be empty",
        "18: steps[1].fields[0].pattern: is not a regular expression that can be used here: unclosed group",
        "19: steps[1].card: must be a mapping of names to values",
    ]


def test_json_problems_have_lines_too(tmp_path: Path) -> None:
    text = '{\n\t"id": "a",\n\t"title": "A",\n\t"steps": [\n\t\t{"id": "s",\n\t\t "title": 5, "prompt": "p"}]}'
    assert problems(tmp_path, text, "a.json") == ["6: steps[0].title: must be text; put it in quotes: '5'"]
    assert problems(tmp_path, '{"id": "a",\n "id": "b"}', "b.json")[0] == "1: title: is missing"
    assert "2: id: is written twice, first on line 1" in problems(tmp_path, '{"id": "a",\n "id": "b"}', "b.json")


def test_names_that_are_used_twice_are_told_where(tmp_path: Path) -> None:
    again = GOOD[GOOD.index("  - id") :]
    assert problems(tmp_path, GOOD + again) == [
        "12: steps[1].id: step id 'first' is used twice, first on line 4",
        "16: steps[1].fields[0].name: field name 'answer' is used twice, first on line 8",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: is empty: write down a workflow, with id, title and steps"),
        ("# nothing\n", "1: is empty: write down a workflow, with id, title and steps"),
        ("- a\n- b\n", "1: must be a mapping with id, title and steps"),
        ("id: a\nid: b\n", "2: id: is written twice, first on line 1"),
        ("id: a\n---\nid: b\n", "2: a second document begins here: keep one workflow per file"),
        ("id: a\ntitle: [\n", f"3: {NODE}, expected the node content, but found '<stream end>'"),
        ("id: a\n\ttitle: b\n", f"2: {TOKEN}, found character '\\t' that cannot start any token"),
        ("id: !!python/object/apply:os.system ['true']\n", f"1: the tag '{SYSTEM}' is not allowed"),
        ("id: !mine x\n", "1: the tag '!mine' is not allowed"),
        ("id: a\n? [x]\n: y\n", "2: a name must be text"),
        ("a: &a [*a]\n", "1: an alias is inside of what it repeats"),
        ("id: *b\n", "1: is not YAML: found undefined alias 'b'"),
        ("id: " + "[" * 5000, "1: is nested more than 32 levels deep"),
        ("a: &a x\nb: [" + "*a, " * 101 + "]\n", "2: has more than 100 aliases: write things out"),
        (b"id: a\ntitle: \xff\n", "2: is not UTF-8"),
        ("id: a\ntitle: \x01\n", "2: is not YAML: the character '\\x01' is not allowed"),
        ("x" * (256 * 1024 + 1), "is larger than 256 KiB"),
    ],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_a_file_that_is_no_definition_is_refused(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert problem in problems(tmp_path, text)


def test_a_bomb_of_aliases_is_refused_before_it_grows(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (found,) = problems(tmp_path, "\n".join(lines))
    assert "it holds too much" in found


@pytest.mark.parametrize(
    "begin", ["[" + "1," * 125_000, "- a\n" * 60_000, "".join(f"k{n}: 1\n" for n in range(25_000))], ids=len
)
def test_a_file_that_holds_too_much_is_not_read_to_its_end(tmp_path: Path, begin: str) -> None:
    (found,) = problems(tmp_path, begin + "\n}}} no YAML")
    assert found.endswith("it holds too much")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: is empty: write down a workflow, with id, title and steps"),
        ('{"id": "a",\n}', "2: is not JSON: expecting property name enclosed in double quotes"),
        ('{"id": NaN}', "is not JSON: NaN is not allowed"),
        ("[" * 100_000, "is nested more than 32 levels deep"),
        ("[" * 40 + "]" * 40, "1: is nested more than 32 levels deep"),
        ("[1]", "1: must be a mapping with id, title and steps"),
    ],
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text, "a.json") == [problem]


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD, "intake.txt") == ["must end in one of .yaml, .yml, .json"]
    with pytest.raises(DefinitionError, match="there is no such file or folder"):
        load_definitions(tmp_path / "absent.yaml")


def test_a_folder_is_read_by_ids(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "a.yml").write_text(GOOD.replace("id: intake", "id: other"))
    (tmp_path / "notes.txt").write_text("not a workflow")
    assert list(load_definitions(tmp_path)) == ["other", "intake"]
    assert list(load_definitions(tmp_path / "b.yaml")) == ["intake"]


def test_two_files_of_one_id_are_both_named_beside_all_other_problems(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "c.yaml").write_text("id: a")
    with pytest.raises(DefinitionError) as caught:
        load_definitions(tmp_path)
    first, *others = caught.value.problems
    assert first == f"{tmp_path / 'b.yaml'}: id: 'intake' is also the id of {tmp_path / 'a.yaml'}"
    assert len(others) == 2


def test_an_empty_folder_says_what_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"is empty; put a workflow there, such as .*intake\.yaml"):
        load_definitions(tmp_path)


def test_the_shipped_workflow_is_a_whole_intake() -> None:
    shipped = default_definition()
    assert shipped.id == "support_intake"
    assert [step.id for step in shipped.steps] == ["about_you", "problem", "urgency", "contact"]
    assert sorted(shipped.cards) == ["contact_card", "problem_card"]
    assert {field.type for field in shipped.fields()} == {"text", "email", "choice", "date", "integer", "boolean"}
    assert len(shipped.answers) >= 6
    assert all((shipped.welcome, shipped.about, shipped.confirm, shipped.done))


def test_the_definition_of_the_docs_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text("utf-8")
    (tmp_path / "pizza.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    assert load_definition(tmp_path / "pizza.yaml").by_name["kind"].choices == ("Margherita", "Funghi", "Diavola")


WITHOUT_YAML = """
import sys
sys.modules["yaml"] = None
import inturn.workflows.orchestrator
from inturn.workflows import default_definition, load_definition
print(load_definition("a.json").id)
from inturn.agents import OfflineAgent

OfflineAgent()  # it needs the packaged example only for free chat without a definition
for load in (lambda: load_definition("a.yaml"), default_definition):
    try:
        load()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_without_pyyaml_json_is_read_and_yaml_names_the_extra(tmp_path: Path) -> None:
    step = {"id": "first", "title": "First", "prompt": "P"}
    (tmp_path / "a.json").write_text(json.dumps({"id": "intake", "title": "Intake", "steps": [step]}))
    (tmp_path / "a.yaml").write_text("id: a\n")
    run = [sys.executable, "-c", WITHOUT_YAML]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    needs = "needs the extra 'workflows': pip install 'inturn[workflows]'"
    assert done.stdout.splitlines() == [
        "intake",
        f"MissingExtra a workflow definition in YAML (unlike one in JSON) {needs}",
        f"MissingExtra the packaged example support_intake.yaml (unlike a definition of your own in JSON) {needs}",
    ]
