"""Cards as agents send them: every element and action of the schema, nested, hidden, wrong and newer than the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.browser.cards import DOT

Part = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A card, and how a person answers it."""

    name: str
    body: list[Part]
    actions: list[Part] = field(default_factory=lambda: [send()])
    card: Part = field(default_factory=dict)
    """What else stands at the top of the card."""
    opens: tuple[str, ...] = ()
    """Buttons to press before the answer can be sent."""
    fills: Mapping[str, str] = field(default_factory=dict)
    """Inputs, by label."""
    press: str = "Send"
    data: Part = field(default_factory=dict)
    """What is sent."""
    not_shown: tuple[str, ...] = ()
    """Texts in whose place others are shown."""


def text(words: str, **more: Any) -> Part:
    return {"type": "TextBlock", "text": words, "wrap": True, **more}


def send(title: str = "Send", **more: Any) -> Part:
    return {"type": "Action.Submit", "title": title, "data": {"cardId": "problem_card", **more}}


def asks(name: str, label: str, **more: Any) -> Part:
    return {"type": "Input.Text", "id": name, "label": label, **more}


def reveal(title: str, *targets: str | Part) -> Part:
    return {"type": "Action.ToggleVisibility", "title": title, "targetElements": list(targets)}


def shows(title: str, *body: Part, actions: list[Part] | None = None) -> Part:
    card: Part = {"type": "AdaptiveCard", "body": list(body), "actions": actions or []}
    return {"type": "Action.ShowCard", "title": title, "card": card}


def box(*items: Part, **more: Any) -> Part:
    return {"type": "Container", "items": list(items), **more}


def columns(*listed: list[Part], **more: Any) -> Part:
    return {"type": "ColumnSet", "columns": [{"type": "Column", "items": items} for items in listed], **more}


def table(*rows: list[list[Part]], **more: Any) -> Part:
    made = [{"type": "TableRow", "cells": [{"type": "TableCell", "items": cell} for cell in row]} for row in rows]
    return {"type": "Table", "columns": [{"width": 1} for _ in rows[0]], "rows": made, **more}


def picture(words: str, **more: Any) -> Part:
    return {"type": "Image", "url": DOT, "altText": words, **more}


def far_picture(**more: Any) -> Part:
    """One that the page does not load."""
    return {"type": "Image", "url": "https://example.com/far.png", **more}


def mail(title: str = "Write a mail", **more: Any) -> Part:
    """A link that the page does not offer."""
    return {"type": "Action.OpenUrl", "title": title, "url": "mailto:ada@example.com", **more}


ELEMENTS = [
    Sample("texts of every size", [text(f"a {size} text", size=size) for size in
                                   ("small", "default", "medium", "large", "extraLarge")]),
    Sample("runs", [{"type": "RichTextBlock", "inlines": [
        "plain ", {"type": "TextRun", "text": "strong", "weight": "bolder"}, {"type": "TextRun", "text": " marked",
         "highlight": True, "italic": True, "underline": True, "strikethrough": True}]}]),
    Sample("facts", [{"type": "FactSet", "facts": [{"title": "From", "value": "Turin"}, {"title": "To",
        "value": "Rome"}]}]),
    Sample("pictures", [picture("a face", style="person", size="small"), picture("a view", size="stretch"),
                        far_picture(altText="a far picture")]),
    Sample("a set of pictures", [{"type": "ImageSet", "imageSize": "small", "images": [
        picture("first of the set"), picture("second of the set", size="large"),
        far_picture(altText="third of the set")]}]),
    Sample("media", [{"type": "Media", "altText": "How to do it, as a film", "sources": [
        {"mimeType": "video/mp4", "url": "https://example.com/film.mp4"}]}]),
    Sample("containers in containers", [box(text("outer"), box(text("middle"), box(text("inner"), style="warning")),
                                            style="emphasis")]),
    Sample("columns in columns", [columns([text("left")], [text("right"), columns([text("a half")],
        [text("other half")])])]),
    Sample("a table with a head", [table([[text("Item")], [text("Price")]], [[text("Tea")], [text("3 €")]],
                                         firstRowAsHeader=True)]),
    Sample("a table without a head or lines", [table([[text("one")], [text("two")]], [[text("three")], [text("four")]],
                                                     firstRowAsHeader=False, showGridLines=False)]),
    Sample("a table with many columns", [table([[text(f"column {n}")] for n in range(7)],
                                               [[text(f"value {n}")] for n in range(7)])]),
    Sample("a table of everything", [table([[text("What")], [text("How")]],
                                           [[picture("an icon"), text("Amount")], [asks("amount", "How much")]],
                                           [[box(text("in a box"))], [{"type": "ActionSet",
                                           "actions": [send("By row")]}]])],
           fills={"How much": "12"}, press="By row", data={"amount": "12"}),
    Sample("a carousel", [{"type": "Carousel", "pages": [
        {"type": "CarouselPage", "items": [text("page one")]}, {"type": "CarouselPage",
         "items": [text("page two")]}]}]),
]  # fmt: skip

INPUTS = [
    Sample("every input", [
        asks("name", "Name"), asks("story", "Story", isMultiline=True), {"type": "Input.Number", "id": "age",
         "label": "Age"},
        {"type": "Input.Date", "id": "day", "label": "Day"}, {"type": "Input.Time", "id": "hour", "label": "Hour"},
        {"type": "Input.Toggle", "id": "agreed", "title": "I agree"},
        {"type": "Input.ChoiceSet", "id": "colour", "label": "Colour", "value": "r",
         "choices": [{"title": "Red", "value": "r"}, {"title": "Blue", "value": "b"}]},
        {"type": "Input.ChoiceSet", "id": "sizes", "label": "Sizes", "isMultiSelect": True, "value": "s,l",
         "choices": [{"title": "Small", "value": "s"}, {"title": "Large", "value": "l"}]},
    ], fills={"Name": "Ada", "Story": "Long.", "Age": "36", "Day": "2026-11-02", "Hour": "10:30"},
        data={"name": "Ada", "story": "Long.", "age": 36, "day": "2026-11-02", "hour": "10:30", "agreed": "false",
              "colour": "r", "sizes": "s,l"}),
    Sample("hidden inputs go along", [
        text("What is your name?"), asks("name", "Name"), asks("ticket", "Ticket", value="T-7", isVisible=False),
        box(asks("source", "Source", value="mail"), isVisible=False)],
        fills={"Name": "Ada"}, data={"name": "Ada", "ticket": "T-7", "source": "mail"}, not_shown=("Ticket", "Source")),
    Sample("a hidden input that is required does not stop anybody", [
        asks("name", "Name"), asks("why", "Why", isRequired=True, isVisible=False)],
        fills={"Name": "Ada"}, data={"name": "Ada"}, not_shown=("Why",)),
    Sample("inputs in columns in a box", [box(columns([asks("first", "First")], [asks("last", "Last")]))],
           fills={"First": "Ada", "Last": "Lovelace"}, data={"first": "Ada", "last": "Lovelace"}),
    Sample("an action inside of an input", [asks("code", "Code", inlineAction=send("Check"))], actions=[],
           fills={"Code": "X1"}, press="Check", data={"code": "X1"}),
    Sample("no inputs wanted", [asks("name", "Name", isRequired=True)],
           actions=[send(), {**send("Skip"), "associatedInputs": "none"}], press="Skip"),
    Sample("no inputs wanted, said with a capital", [asks("name", "Name", isRequired=True)],
           actions=[send(), {**send("Skip"), "associatedInputs": "None"}], press="Skip"),
    Sample("an unreadable pattern", [asks("name", "Name", regex="(((")], fills={"Name": "Ada"}, data={"name": "Ada"}),
]  # fmt: skip

ACTIONS = [
    Sample("a card in the card", [asks("name", "Name")], actions=[
        send("Yes"), shows("Comment", text("What is wrong?"), asks("comment", "Your comment"), actions=[send()])],
        opens=("Comment",), fills={"Name": "Ada", "Your comment": "Late"}, data={"name": "Ada", "comment": "Late"}),
    Sample("a card in a card in the card", [text("Top")], actions=[shows("More", text("Second"), actions=[
        shows("Even more", text("Third"), asks("deep", "Deep"), actions=[send()])])],
        opens=("More", "Even more"), fills={"Deep": "down"}, data={"deep": "down"}),
    Sample("two cards, one open at a time", [text("Choose")], actions=[
        shows("Accept", asks("yes", "Accepted because"), actions=[send("Send acceptance", way="yes")]),
        shows("Decline", asks("no", "Declined because"), actions=[send("Send refusal", way="no")])],
        opens=("Accept", "Decline"), fills={"Declined because": "no time"}, press="Send refusal",
        data={"way": "no", "no": "no time"}),
    Sample("what a shown card has stays with it", [asks("nick", "Nickname")], actions=[
        send(), shows("Comment", asks("comment", "Your comment", value="none"))], data={}),
    Sample("actions in the body alone", [asks("name", "Name"), {"type": "ActionSet", "actions": [send()]}], actions=[],
           fills={"Name": "Ada"}, data={"name": "Ada"}),
    Sample("texts that take turns", [text("Short", id="short"), text("Long, and longer", id="long", isVisible=False)],
           actions=[reveal("Switch", "short", "long"), send()]),
    Sample("always shown, always hidden", [
        text("Question", id="question"), text("Answer", id="answer", isVisible=False), {"type": "ActionSet",
         "actions": [
            reveal("Tell me", {"elementId": "answer", "isVisible": True}, {"elementId": "question",
            "isVisible": False})]}]),
    Sample("a form that is revealed", [box(asks("name", "Name"), id="form", isVisible=False)],
           actions=[reveal("Fill it in", "form"), send()], opens=("Fill it in",), fills={"Name": "Ada"},
           data={"name": "Ada"}),
    Sample("a hidden column and a hidden row", [
        {"type": "ColumnSet", "columns": [{"type": "Column", "items": [text("seen")]},
                                          {"type": "Column", "id": "more", "isVisible": False,
                                          "items": [text("unseen")]}]},
        {"type": "Table", "columns": [{"width": 1}], "rows": [
            {"type": "TableRow", "cells": [{"type": "TableCell", "items": [text("head")]}]},
            {"type": "TableRow", "id": "row", "isVisible": False, "cells": [{"type": "TableCell",
            "items": [text("row")]}]}]}],
        actions=[reveal("All of it", "more", "row"), send()]),
    Sample("a box to press", [box(text("The blue one"), selectAction=send("Blue", way="blue"))], actions=[],
           press="The blue one", data={"way": "blue"}),
    Sample("a column to press", [{"type": "ColumnSet", "columns": [
        {"type": "Column", "items": [text("Tea")], "selectAction": send("Take tea", way="tea")},
        {"type": "Column", "items": [text("Coffee")], "selectAction": send("Take coffee", way="coffee")}]}], actions=[],
        press="Coffee", data={"way": "coffee"}),
    Sample("a picture to press", [picture("a red dot", selectAction=send("Red", way="red"))], actions=[],
           press="a red dot", data={"way": "red"}),
    Sample("far pictures to press", [{"type": "ImageSet", "images": [
        far_picture(selectAction=send("Red", way="red")), far_picture(selectAction=send("Blue", way="blue"))]}],
        actions=[], press="Blue", data={"way": "blue"}),
    Sample("a far picture to press, without any words", [far_picture(selectAction=send("", way="red"))], actions=[],
           press="Select", data={"way": "red"}),
    Sample("a cell to press", [{"type": "Table", "firstRowAsHeader": False, "columns": [{"width": 1}], "rows": [
        {"type": "TableRow", "cells": [{"type": "TableCell", "items": [text("Row 1")],
         "selectAction": send(way="1")}]}]}],
        actions=[], press="Row 1", data={"way": "1"}),
    Sample("a whole card to press", [text("Anywhere")], actions=[], card={"selectAction": send(way="all")},
           press="Anywhere", data={"way": "all"}),
    Sample("a box to press that has inputs", [box(asks("name", "Name"), selectAction=send("Take it"))], actions=[],
           fills={"Name": "Ada"}, press="Take it", data={"name": "Ada"}),
    Sample("words to press", [{"type": "RichTextBlock", "inlines": [
        "Or ", {"type": "TextRun", "text": "skip it", "selectAction": send(way="skip")}]}], actions=[],
        press="skip it", data={"way": "skip"}),
    Sample("a box that reveals", [box(text("Show the terms"), selectAction=reveal("", "terms")),
                                  text("The terms", id="terms", isVisible=False)]),
    Sample("by a verb", [text("Go?")], actions=[{"type": "Action.Execute", "title": "Send", "verb": "submit",
                                                 "data": {"cardId": "problem_card", "n": 1}}], data={"n": 1}),
    Sample("a link", [text("Read it")], actions=[
        {"type": "Action.OpenUrl", "title": "The manual", "url": "https://example.com/"}, send()]),
]  # fmt: skip

FALLBACKS = [
    Sample("an unknown part with another", [
        {"type": "Chart.Pie", "title": "a pie", "fallback": text("a pie, in words")}], not_shown=("a pie",)),
    Sample("fallback of a fallback", [{"type": "Chart.Pie", "fallback": {"type": "Chart.Bar",
        "fallback": text("in words")}}]),
    Sample("an unknown part that is dropped", [text("before"), {"type": "Chart.Pie", "fallback": "drop"},
        text("after")],
           card={"fallbackText": "not needed"}, not_shown=("not needed",)),
    Sample("an unknown part that is dropped, said with a capital", [text("before"), {"type": "Chart.Pie",
        "fallback": "Drop"}], card={"fallbackText": "not needed"}, not_shown=("not needed",)),
    Sample("an unknown part without another", [text("before"), {"type": "Chart.Pie"}],
           card={"fallbackText": "A pie: half and half."}),
    Sample("the box around an unknown part", [
        box(asks("name", "Lost name"), {"type": "Chart.Pie"}, fallback=box(text("the box, in words"), asks("name",
         "Name")))],
        fills={"Name": "Ada"}, data={"name": "Ada"}, not_shown=("Lost name",)),
    Sample("a requirement that is met", [text("for 1.5", requires={"adaptiveCards": "1.5"},
        fallback=text("for older"))],
           not_shown=("for older",)),
    Sample("a requirement that is not met", [
        text("for others", requires={"acme.holograms": "1.0"}, fallback=text("for everybody"))],
         not_shown=("for others",)),
    Sample("a version to come", [text("for 9.0", requires={"adaptiveCards": "9.0"}, fallback=text("for today"))],
           not_shown=("for 9.0",)),
    Sample("an unknown action with another", [text("Go")], actions=[
        {"type": "Action.Teleport", "title": "Teleport", "fallback": send()}], not_shown=("Teleport",)),
    Sample("a link that is not offered", [text("Ask us")], actions=[mail(), send()],
           card={"fallbackText": "Write to ada@example.com."}, not_shown=("Write a mail",)),
    Sample("a link that is not offered, with another", [text("Ask us")], actions=[mail(fallback=send())],
           card={"fallbackText": "not needed"}, not_shown=("Write a mail", "not needed")),
    Sample("a link that is not offered and may be dropped", [text("Ask us")], actions=[mail(fallback="drop"), send()],
           card={"fallbackText": "not needed"}, not_shown=("Write a mail", "not needed")),
    Sample("a box to press for a link that is not offered", [
        box(text("Ask us"), selectAction=mail(), fallback=text("Write to ada@example.com."))], not_shown=("Ask us",)),
    Sample("a box to press for a link that is not offered, with another", [
        box(text("Ask us"), selectAction=mail(fallback=send(way="ask")))], actions=[], press="Ask us",
        card={"fallbackText": "not needed"}, data={"way": "ask"}, not_shown=("not needed",)),
    Sample("a whole card to press for a link that is not offered", [text("Ask us")],
           card={"selectAction": mail(), "fallbackText": "Write to ada@example.com."}),
    Sample("a newer card of unknown parts", [{"type": "Hologram"}], card={"version": "9.0",
        "fallbackText": "Look at your phone."}),
    Sample("parts that are no parts", [text("sound"), {}, {"type": "Container", "items": "none"}, {"type": "Table"},
                                       {"type": "ImageSet", "images": 7}, {"type": "ActionSet"}, {"type": "Carousel"}],
           actions=[send(), {"type": "Action.ShowCard"}, {"type": "Action.ToggleVisibility", "targetElements": [None,
           7, "x"]}]),
]  # fmt: skip

SAMPLES = {"elements": ELEMENTS, "inputs": INPUTS, "actions": ACTIONS, "fallbacks": FALLBACKS}


def texts_of(part: Any) -> set[str]:
    """All that a card says, wherever it stands in it."""
    if isinstance(part, list):
        return set().union(*map(texts_of, part))
    if not isinstance(part, dict):
        return {part} if isinstance(part, str) else set()
    said = {words for name in ("text", "title", "label", "altText", "fallbackText") if (words := part.get(name))}
    said |= {fact["value"] for fact in part.get("facts", ())}
    quiet = {
        "data",
        "requires",
        "targetElements",
        "selectAction",
        "text",
        "title",
        "label",
        "altText",
        "type",
        "id",
        "url",
    }
    inner = [value for name, value in part.items() if name not in quiet and isinstance(value, list | dict)]
    return said | texts_of(inner)
