"""What an agent's messages mean: value before entities before a fenced block before a bare object, else words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic_core import to_json

from inturn.agents.activity import Activity, card_attachment
from inturn.workflows import NormalizedMessage, ParsedTurn, normalize_activities, parse_turn
from inturn.workflows.parse import MAX_CITED, MAX_ERRORS
from tests.workflows.scripted import bot

FENCED = 'Here you are.\n```json\n{"data": {"from": "fenced"}}\n```\nGood?'
BARE = 'So: {"data": {"from": "bare"}} then.'


def parsed(*activities: Any) -> ParsedTurn:
    return parse_turn(normalize_activities(activities))


def shown(turn: ParsedTurn) -> list[str]:
    return [message.text for message in turn.messages]


def test_the_first_hit_wins_wherever_it_stands() -> None:
    bare, fenced = bot(BARE), bot(FENCED)
    entities, value = bot("e", entities=[{"from": "entities"}]), bot("v", value={"data": {"from": "value"}})
    ways = [bare, fenced, entities, value]
    for number, (name, confidence) in enumerate([("bare", 0.4), ("fenced", 0.4), ("entities", 0.7), ("value", 0.95)]):
        turn = parsed(*ways[: number + 1])
        assert (turn.kind, turn.data, turn.confidence) == ("structured", {"from": name}, confidence)
        assert turn.errors == []


def test_confidence_falls_from_value_to_entities_to_text() -> None:
    found = [
        parsed(bot("x", value={"a": 1})),
        parsed(bot("x", entities=[{"a": 1}])),
        parsed(bot('{"a": 1}')),
        parsed(bot("x")),
    ]
    confidences = [turn.confidence for turn in found]
    assert confidences == sorted(confidences, reverse=True)
    assert len(set(confidences)) == 4
    assert all(0 <= confidence <= 1 for confidence in confidences)


def test_one_activity_with_all_of_them_is_read_by_its_value() -> None:
    turn = parsed(bot(FENCED, value={"a": 1}, entities=[{"b": 2}]))
    assert (turn.data, turn.confidence) == ({"a": 1}, 0.95)


@pytest.mark.parametrize("empty", [None, {}, [], "x", 0, [1]])
def test_an_empty_value_is_no_hit(empty: Any) -> None:
    assert parsed(bot("x", value=empty, entities=[{"b": 2}])).data == {"b": 2}


def test_entities_of_several_activities_are_merged_without_their_type() -> None:
    turn = parsed(bot("x", entities=[{"type": "t", "a": 1}]), bot("y", entities=[{"a": 2, "b": 3}]))
    assert turn.data == {"a": 2, "b": 3}


@pytest.mark.parametrize("opening", ["```json\n", "```\n", "``` json \r\n", "```JSON\n"])
def test_a_fenced_block_is_taken_out_of_the_text(opening: str) -> None:
    turn = parsed(bot(f'Before.\n{opening}{{"a": 1}}\n```\nAfter.'))
    assert (turn.data, shown(turn)) == ({"a": 1}, ["Before.\n\nAfter."])


def test_a_fence_on_one_line_leaves_nothing_of_itself() -> None:
    turn = parsed(bot('Before. ```json {"a": 1}``` After.'))
    assert turn.data == {"a": 1}
    assert "`" not in shown(turn)[0]


def test_a_fence_inside_a_string_does_not_end_the_block() -> None:
    assert parsed(bot('```json\n{"code": "```sh```", "a": 1}\n```')).data == {"code": "```sh```", "a": 1}


def test_a_bare_object_is_taken_out_of_the_text() -> None:
    turn = parsed(bot('Take {this}: {"a": {"b": "}"}} and go.'))
    assert (turn.data, shown(turn)) == ({"a": {"b": "}"}}, ["Take {this}:  and go."])


def test_a_text_that_was_only_data_is_not_shown() -> None:
    turn = parsed(bot('{"data": {"a": 1}}'))
    assert (turn.kind, turn.messages) == ("structured", [])


def test_only_the_text_of_an_assistant_is_read_as_data() -> None:
    for role in ("user", "system"):
        turn = parsed({"type": "message", "from": {"role": role}, "text": BARE})
        assert (turn.kind, turn.data) == ("passthrough", {})


def test_a_card_is_not_read_as_data() -> None:
    turn = parsed(bot(attachments=[card_attachment({"a": 1})]))
    assert (turn.kind, turn.data, len(turn.messages)) == ("passthrough", {}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "use {name} and {}",
        "{",
        "}{",
        "a { b",
        "```\ncode\n```",
        "```json\n[1, 2]\n```",
        "[1, 2]",
        "{}",
        "```json\n{}\n```",
    ],
)
def test_anything_else_is_passed_through_as_it_is(text: str) -> None:
    turn = parsed(bot(text))
    assert (turn.kind, turn.data, turn.errors, shown(turn)) == ("passthrough", {}, [], [text])
    assert turn.next_action is None


def test_nothing_at_all_is_passed_through() -> None:
    turn = parsed()
    assert (turn.kind, turn.messages, turn.data) == ("passthrough", [], {})


@pytest.mark.parametrize(
    "inner", ['{"a": 1', "{'a': 1}", '{"a": 1,}', '{"a": ' + "[" * 3000, '{"a": 1' + "0" * 5000 + "}"]
)
def test_a_fenced_object_that_cannot_be_read_is_a_parse_error_and_is_shown(inner: str) -> None:
    text = f"Here:\n```json\n{inner}\n```"
    turn = parsed(bot(text, id="m7"))
    assert (turn.kind, turn.data, turn.confidence, shown(turn)) == ("parse_error", {}, 0.0, [text])
    assert len(turn.errors) == 1
    assert "m7" in turn.errors[0]


@pytest.mark.parametrize(
    "text",
    [
        '{"nextAction": "ask", "data": {"email": "a@b.c"}, "prompt": "Wha',
        '{"data": {"a": 1}, oops}',
        '```json\n{"previous": {"nextAction": "complete"}, oops}\n```',
        '{"data": {"a": 1}, "n": ' + "9" * 5000 + "}",
        '{"a":' * 30 + "1" + "}" * 30,
        '[{"a": 1}, {"b": 2}]',
        '```json\n[{"a": 1}, {"b": 2}]\n```',
    ],
)
def test_a_part_of_something_broken_or_larger_is_not_taken_for_the_answer(text: str) -> None:
    turn = parsed(bot(text))
    assert (turn.kind == "structured", turn.data, turn.next_action) == (False, {}, None)


@pytest.mark.parametrize("action", ["ask", "research", "confirm", "complete", "error"])
@pytest.mark.parametrize("name", ["nextAction", "next_action"])
def test_the_next_action_is_read(name: str, action: str) -> None:
    turn = parsed(bot("x", value={name: action, "a": 1}))
    assert (turn.next_action, turn.data, turn.errors) == (action, {"a": 1}, [])


@pytest.mark.parametrize("action", ["finish", "", 7, True, ["complete"], {"complete": 1}, "x" * 10_000])
def test_a_next_action_that_there_is_not_is_none_and_told(action: Any) -> None:
    turn = parsed(bot("x", value={"nextAction": action, "a": 1}))
    assert (turn.kind, turn.next_action, turn.data) == ("structured", None, {"a": 1})
    assert len(turn.errors) == 1
    assert "next action" in turn.errors[0]
    assert len(turn.errors[0]) < 200


@pytest.mark.parametrize("action", ["complete", "Complete", "confirm", "error"])
def test_an_agent_may_name_the_next_action_action(action: str) -> None:
    for given in (bot("x", value={"action": action, "a": 1}), bot(json.dumps({"action": action, "a": 1}))):
        turn = parsed(given)
        assert (turn.next_action, turn.data, turn.errors) == (action.lower(), {"a": 1}, [])


@pytest.mark.parametrize(
    "value",
    [
        {"action": "complete", "cardId": "c", "a": 1},
        {"action": "complete", "nextAction": "ask", "a": 1},
        {"action": "submit", "a": 1},
        {"action": ["complete"], "a": 1},
    ],
)
def test_the_action_of_a_card_is_no_next_action(value: dict[str, Any]) -> None:
    turn = parsed(bot("x", value=value))
    assert (turn.next_action, turn.data, turn.errors) == (value.get("nextAction"), {"a": 1}, [])


@pytest.mark.parametrize("nothing", [None, "", " ", "none", "None", "null"])
def test_an_action_counts_where_the_next_action_is_none(nothing: str | None) -> None:
    turn = parsed(bot("x", value={"nextAction": nothing, "action": " Complete ", "a": 1}))
    assert (turn.next_action, turn.data, turn.errors) == ("complete", {"a": 1}, [])


def test_whatever_is_in_data_is_data_and_moves_nothing() -> None:
    turn = parsed(bot("x", value={"data": {"action": "complete", "nextAction": "complete"}}))
    assert (turn.next_action, turn.data) == (None, {"action": "complete", "nextAction": "complete"})


def test_words_about_the_turn_are_no_data() -> None:
    value = {
        "name": "Ada", "prompt": "And your e-mail address?", "inputType": "email", "choices": ["a", "b", 3],
        "confidence": 7, "errors": ["odd"], "nextAction": "ask", "cardId": "c", "action": "submit",
        "citations": [{"title": "T", "url": "u"}, {"name": "N"}, "S", 7, {}],
    }  # fmt: skip
    turn = parsed(bot(value=value))
    assert turn.data == {"name": "Ada"}
    assert (turn.prompt, turn.input_type, turn.choices) == ("And your e-mail address?", "email", ["a", "b"])
    assert turn.errors == ["odd"]
    assert turn.confidence == 0.95, "ours, not the agent's"
    assert turn.citations == [{"title": "T", "url": "u"}, {"title": "N"}, {"title": "S"}]
    assert shown(turn) == ["And your e-mail address?"], "the prompt is shown where nothing else is"


def test_errors_without_words_are_none() -> None:
    assert parsed(bot("x", value={"a": 1, "errors": [1, None, "", "odd"]})).errors == ["odd"]


def test_a_prompt_is_not_shown_beside_words() -> None:
    turn = parsed(bot("Hello.", value={"prompt": "And?", "a": 1}))
    assert (turn.prompt, shown(turn)) == ("And?", ["Hello."])


def test_only_data_is_data_where_there_is_data() -> None:
    assert parsed(bot("x", value={"data": {"a": 1}, "b": 2})).data == {"a": 1}
    assert parsed(bot("x", value={"data": "no object", "b": 2})).data == {"b": 2}


def test_citations_of_a_message_are_those_of_the_turn() -> None:
    entity = {"type": "https://schema.org/Message", "citation": [{"appearance": {"name": "T", "url": "u"}}]}
    turn = parsed(bot("x", entities=[entity]))
    assert (turn.kind, turn.citations) == ("passthrough", [{"title": "T", "url": "u"}])


BROKEN = [
    # a quotation mark inside a string that nobody escaped
    '{"reply": "You said "old"", "previous": {"data": {"email": "old@b.c"}}, "data": {"email": "new@b.c"}}',
    '{"reply": "Press "}", "data": {"email": "old@b.c"}}',
    '{"reply": "Press "}"}',
    '{"reply": "like ```json {"email": "old@b.c"}``` this", "data": {}}',
    '{"a": 1, "b": {"c": 2}}}',
    'Look: { previous: {"email": "old@b.c"} }',
    'Look: {{"email": "old@b.c"}}',
    '{"email": "a@b.c", {"email": "old@b.c"}',
    '[{"email": "a "b""}, {"email": "old@b.c"}]',
    '[1, {"email": "old@b.c"}, oops]',
    '["a "b"", {"email": "old@b.c"}]',
    '```\n{"reply": "a "b"", "previous": {"email": "old@b.c"}}\n```',
    '```json\n{"reply": "a "b"", "previous": {"email": "old@b.c"}}\n```',
    '```json\n{"reply": "Press "}", "data": {"email": "old@b.c"}}\n```',
    '```json\n{"email": "a@b.c"}\n{"email": "old@b.c"}\n```',
    '```json\n{"reply": "a "b"", "previous": {"email": "old@b.c"}}',
    '{"email": "a@b.c", "big": "' + "x" * 40_000 + '"}',
    '{"email": "a@b.c", "n": ' + "9" * 5000 + "}",
    '{"a": {"x": ' * 60 + '{"email": "old@b.c"}' + "}}" * 60,
    '{"x": [[1}, ' * 100 + '{"email": "old@b.c"}',
    # a fence in a string of an object that is broken
    '{"reply": "a "b":\n```json\n{"email": "old@b.c"}\n```\nso", "data": {"email": "new@b.c"}}',
    '{"reply": "a "b" }:\n```json\n{"email": "old@b.c"}\n```\nso {", "data": {"email": "new@b.c"}}',
    '{"reply": oops "}",\n```json\n{"email": "old@b.c"}\n```\n}',
    '{"email": "a@b.c"} or {"reply": "a "b":\n```json\n{"email": "old@b.c"}\n```\nso"}',
    '{"reply": oops "}\n```json\n{"email": "old@b.c"}\n```\n", "b": "\n```json\n{"email": "old@b.c"}\n```\n',
    '```json\n{"email": "a@b.c"}\nor {"email": "old@b.c"}\n```',
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_does_not_parse_whole_is_a_parse_error_and_nothing_is_read_out_of_it(text: str) -> None:
    turn = parse_turn([NormalizedMessage(id="m7", text=text)])
    assert (turn.kind, turn.data, turn.next_action) == ("parse_error", {}, None)
    assert len(turn.errors) == 1
    assert turn.errors[0].startswith("message m7: ")
    assert shown(turn) == [text]


BESIDE_AN_OLD_VALUE = [
    '```json\n{"name": "John "Jack" Smith"}\n```',
    '```\n{"name": "John "Jack" Smith"}\n```',
    '```js\n{"name": "John "Jack" Smith"}\n```',
    '```json\n{"a": }\n```',
    "```json\nname: John\n```",
    '```json5\n{name: "John"}\n```',
    '{"name": "Jo"hn"}',
    '`{"name": "Jo"hn"}`',
    '{"name": "John",}',
    '{"name": None}',
    "{'name': 'John'}",
    "{“name”: “John”}",
    '{name: "John"}',
]


@pytest.mark.parametrize("broken", BESIDE_AN_OLD_VALUE)
def test_nothing_is_collected_beside_something_broken_that_was_meant_as_data(broken: str) -> None:
    for old in ('Before you had {"name": "Jon"}.', '```json\n{"name": "Jon"}\n```'):
        for texts in ([f"{broken}\n{old}"], [f"{old}\n{broken}"], [broken, old], [old, broken]):
            turn = parse_turn([NormalizedMessage(id=f"m{n}", text=text) for n, text in enumerate(texts)])
            assert (turn.kind, turn.data, len(turn.errors), shown(turn)) == ("parse_error", {}, 1, texts)


@pytest.mark.parametrize(
    "text",
    [
        '"result": {"name": "Old"}, "name": "New"}',
        '"result": {"name": "Old"}, "name": "New',
        '"name": "New", "result": {"name": "Old"}',
        'name: New, result: {"name": "Old"}, age: 5 }',
        '"reply": "see\n```json\n{"name": "Old"}\n```", "name": "New"}',
        '{"name": "A"}, {"name": "B"}]',
        '"old": {"data": {"name": "Old"}}, ',
        '("data": {"name": "Old"})',
        'Sure!\n"data":\n{"name": "Old"}',
        'Sure! ta": {"name": "Old"}, "da',
    ],
)
def test_a_part_of_an_object_whose_beginning_is_missing_is_not_collected(text: str) -> None:
    turn = parse_turn([NormalizedMessage(id="m", text=text)])
    assert (turn.kind, turn.data, shown(turn)) == ("parse_error", {}, [text])


@pytest.mark.parametrize(
    "text", ["Use {'a': 1}.", 'Use {name: "x"}.', 'Format: {"age": int}', "Thanks :-}", '["S", ...] ' * 60]
)
def test_what_only_looks_like_data_is_no_error_where_there_is_no_data(text: str) -> None:
    turn = parse_turn([NormalizedMessage(id="m", text=text)])
    assert (turn.kind, turn.errors) == ("passthrough", [])


@pytest.mark.parametrize("code", ['```js\nsend({"a": 2});\n```', 'Call `send({"a": 2})`.'])
def test_code_is_no_data(code: str) -> None:
    assert parse_turn([NormalizedMessage(id="m", text=code)]).kind == "passthrough"


def test_the_fence_that_closes_code_begins_no_block() -> None:
    turn = parse_turn([NormalizedMessage(id="m", text='```\ncode\n```\n{"a": 1} and [x]')])
    assert (turn.kind, turn.data) == ("structured", {"a": 1})


def test_a_value_that_cannot_be_kept_hides_the_others() -> None:
    too_large = Activity.said("words", value={"data": {"name": "y" * 40_000}})
    turn = parse_turn(normalize_activities([too_large, Activity.said("old", value={"data": {"name": "Jon"}})]))
    assert (turn.kind, turn.data, len(turn.errors)) == ("parse_error", {}, 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"note": "one\ntwo\tthree", "a": 1}',
        '```json\n{"note": "one\ntwo\tthree", "a": 1}\n```',
        '```json\n{"note": "one\ntwo\tthree", "a": 1}',
    ],
)
def test_line_breaks_inside_strings_are_read(text: str) -> None:
    turn = parsed(bot(text))
    assert (turn.kind, turn.data) == ("structured", {"note": "one\ntwo\tthree", "a": 1})


@pytest.mark.parametrize(
    "text",
    [
        'See [1], [the "handbook"](u), [[wiki]] and [note: x] for {name}: {"a": 1}',
        "".join(f"[link {n}](u{n}) {{x{n}}} [{n}] " for n in range(100)) + '{"a": 1}',
        'As I said: "{"a": 1}", right?',
        '[note: {"a": 1}]',
        '```\nif (x) { y() }\n```\n{"a": 1}',
    ],
)
def test_brackets_of_prose_and_closed_blocks_do_not_hide_an_object(text: str) -> None:
    turn = parsed(bot(text))
    assert (turn.kind, turn.data, turn.errors) == ("structured", {"a": 1}, [])


@pytest.mark.parametrize(
    "words",
    [
        'Choose one of ["S", "M", ...].',
        'Dear {{ "first_name" }},',
        'Format: {"b": int}',
        '{"b": 1} is not {"b": int}:',
        "".join(f'{{"b": {n}}} ' for n in range(60)),
        "Use {name} as a placeholder :-}",
        'Choose one of ["S", ["M", ...]].',
        '```js\nconst a = {"b": c};\nsend({"a": 2});\n```',
        '```\nfunction f() {\n  if (x) { y("z") }\n}\n```',
        'Call `send({"a": b})`, or use `{name: "x"}` :}',
        "]0, 1] and [0, 1[",
    ],
)
def test_a_block_behind_prose_that_looks_like_json_is_read(words: str) -> None:
    turn = parse_turn([NormalizedMessage(id="m", text=words + '\n```json\n{"a": 1}\n```\nGood?')])
    assert (turn.kind, turn.data, turn.errors) == ("structured", {"a": 1}, [])
    assert shown(turn) == [words + "\n\nGood?"]


def test_words_inside_a_block_are_shown() -> None:
    turn = parsed(bot('Here:\n```json\n{"a": 1}\nThat is all.\n```\nGood?'))
    assert (turn.kind, turn.data, shown(turn)) == ("structured", {"a": 1}, ["Here:\nThat is all.\nGood?"])


def test_many_lists_before_an_object_do_not_hide_it() -> None:
    turn = parsed(bot('[{"x": 1}] ' * 100 + '{"a": 1}'))
    assert (turn.kind, turn.data) == ("structured", {"a": 1})


HOSTILE = [
    " ", "\t", "\n", " \n", "```{", "{", "[", '{"', '["', '{"a":', "[{", "{x ", "[x ", "{x}", "[1]", "``` ", "```\n",
    '```json\n{"a": }\n```\n',
    '```json\n{"a": 1} x\n```\n', '{"a": 1}} ', '[{"a": 1}] ', '{"a": "\\"', '```json{"', "``` \t\n", '[1, "a" ', '"}',
    '{"b": int} ', "`a`", "` ", "{'", '{a: "', "{“", "```js\n", "```js\n```\n", '["S", ...] ', "} ", '{"a": 1}, "',
    "\t```\n",
    '{"a": 1,}\n```json\n{"b": }\n```\n', '{"a": 1,}\n```json\n{"b": 1}\n```\n"}', '{"a": 1,}\n```{', '{"a": 1} ',
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_costs_in_proportion_to_its_length(piece: str) -> None:
    def cost(length: int) -> float:
        message = NormalizedMessage(id="m", text="```" + (piece * length)[:length])
        best = float("inf")
        for _ in range(3):
            began = time.thread_time()
            parse_turn([message])
            best = min(best, time.thread_time() - began)
        return best

    short, long = cost(50_000), cost(400_000)
    # eight times the text: linear is 8, quadratic 64; below a few milliseconds a ratio says nothing
    assert long < 24 * short + 0.02, (short, long)


def test_citations_and_errors_are_told_as_far_as_there_is_room() -> None:
    cited = [{"appearance": {"name": f"{number}" + "n" * 400, "url": "u" * 400}} for number in range(20)]
    turn = parsed(*[bot("x", value={"errors": ["e" * 1000] * 30}, entities=[{"citation": cited}]) for _ in range(3)])
    titles = [citation["title"].rstrip("n") for citation in turn.citations]
    assert titles == [str(number) for number in range(len(titles))]
    assert MAX_CITED - 1000 < len(to_json(turn.citations)) <= MAX_CITED
    assert turn.errors == ["e" * 499 + "…"] * len(turn.errors)
    assert MAX_ERRORS - 600 < len(to_json(turn.errors)) <= MAX_ERRORS


def test_structured_output_is_kept_before_what_is_only_to_be_shown() -> None:
    many = [Activity.said(f"{number}") for number in range(60)]
    turn = parse_turn(normalize_activities([*many, Activity.said("last", value={"nextAction": "complete"})]))
    assert turn.next_action == "complete"
    assert [message.text for message in turn.messages] == [*map(str, range(49)), "last"]


def test_a_value_that_cannot_be_kept_is_told() -> None:
    turn = parse_turn(normalize_activities([Activity.said("words", value={"data": {"x": "y" * 40_000}})]))
    assert turn.kind == "parse_error"
    assert turn.errors == ["message a1: its structured part cannot be kept: it is more than 32768 bytes long"]
    assert [message.text for message in turn.messages] == ["words"]


def test_a_number_too_large_for_a_store_is_kept_as_text() -> None:
    turn = parse_turn(normalize_activities([Activity.said("words", value={"data": {"id": 2**64}})]))
    assert turn.data == {"id": str(2**64)}
