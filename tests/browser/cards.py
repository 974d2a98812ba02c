"""A card with every part that the page knows, and some that it does not."""

from __future__ import annotations

from typing import Any

from inturn.agents.activity import Activity, card_attachment

DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def said_with(
    *body: dict[str, Any], actions: list[dict[str, Any]] | None = None, text: str = "Here it is.", **more: Any
) -> list[Activity]:
    """What an agent says that shows a card. Its id is one that the example workflow knows."""
    submit = [{"type": "Action.Submit", "id": "submit", "title": "Submit", "data": {"cardId": "problem_card"}}]
    card = {
        "type": "AdaptiveCard", "version": "1.5", "id": "problem_card", "body": list(body),
        "actions": submit if actions is None else actions, **more,
    }  # fmt: skip
    return [Activity.said(text), Activity.said("", attachments=[card_attachment(card)])]


def everything() -> list[dict[str, Any]]:
    return [
        {"type": "TextBlock", "text": "A card of everything", "size": "Medium", "weight": "Bolder"},
        {"type": "TextBlock", "text": "not shown", "isVisible": False},
        {"type": "RichTextBlock", "inlines": ["plain, ", {"type": "TextRun", "text": "strong", "weight": "Bolder"}]},
        {"type": "Image", "url": DOT, "altText": "A dot"},
        {"type": "FactSet", "facts": [{"title": "Opened", "value": "2026-11-02"}]},
        {"type": "Container", "style": "emphasis", "items": [{"type": "TextBlock", "text": "inside"}]},
        {"type": "ColumnSet", "columns": [
            {"type": "Column", "width": "auto", "items": [{"type": "TextBlock", "text": "left"}]},
            {"type": "Column", "width": "2", "items": [{"type": "TextBlock", "text": "right"}]},
        ]},
        {"type": "Chart.Pie", "fallback": {"type": "TextBlock", "text": "a chart, in words"}},
        {"type": "Chart.Bar", "text": "a chart that has no words"},
        {"type": "Input.Text", "id": "code", "label": "Code", "regex": "^[A-Z]{3}$", "errorMessage": "Three letters."},
        {"type": "Input.Number", "id": "affected_users", "label": "People", "min": 1, "max": 99, "isRequired": True},
        {"type": "Input.Date", "id": "since", "label": "Since"},
        {"type": "Input.ChoiceSet", "id": "product", "label": "Product", "style": "compact",
         "choices": [{"title": "The API", "value": "API"}, {"title": "The website", "value": "Website"}]},
        {"type": "Input.ChoiceSet", "id": "contact_by", "label": "Contact", "style": "Expanded", "isRequired": True,
         "choices": [{"title": "E-mail", "value": "By e-mail"}, {"title": "Phone", "value": "By phone"}]},
        {"type": "Input.Toggle", "id": "consent", "title": "You may store this", "valueOn": "true"},
    ]  # fmt: skip
