"""Turns the activities of any provider into messages of one shape: texts first, then cards. Never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, Field

from inturn.agents import storable
from inturn.agents.activity import AGENT, CARD, Activity

MAX_MESSAGES = 50
MAX_TEXT = 8_000
MAX_CARD = 32 * 1024
MAX_PAYLOAD = 32 * 1024
MAX_CITATIONS = 20
MAX_ALL = 60 * 1024
"""Bytes of all messages of one turn: the response, with all that is collected, must fit a duplicate mark."""

# Types of entities that describe the message and carry no data of the user. Channels spell them in any case, with and
# without the address of their vocabulary.
_ABOUT = frozenset({
    AGENT, "activitytreatment", "aigeneratedcontent", "clientinfo", "geocoordinates", "mention", "place", "productinfo",
    "streaminfo",
})  # fmt: skip
_ABOUT_IF_LINKED = _ABOUT | {
    "claim", "creativework", "definedterm", "digitaldocument", "imageobject", "message", "thing",
}  # fmt: skip
"""With words that an agent may use for its own data. They count as an `@type`, or with the address."""
_VOCABULARY = re.compile(r"(?:https?://)?(?:www\.)?schema\.org/|schema:")


class NormalizedMessage(BaseModel):
    """One message to show: a text or a card."""

    id: str = Field(description="The id of the message.")
    role: Literal["assistant", "user", "system"] = Field("assistant", description="Who speaks.")
    kind: Literal["text", "adaptiveCard"] = Field("text", description="Whether it is a text or a card.")
    text: str = Field("", description="The text; empty for a card.")
    card: dict[str, Any] | None = Field(None, description="The Adaptive Card, if it is one.")
    card_id: str | None = Field(None, description="The id to submit the card with.")
    payload: dict[str, Any] | None = Field(
        None,
        description="The structured data that came with the message. If it came with several messages, only the first "
        "one has it.",
    )
    source: Literal["value", "entities"] | None = Field(None, description="Where the agent put the structured data.")
    citations: list[dict[str, str]] = Field(
        default_factory=list, description="The sources that the agent names, each with `title`, `url` or both."
    )
    problem: str = Field("", description="Why structured data of the agent was left out; empty if none was.")
    left_out: str = Field("", description="Why a card of the agent is not shown; empty if this is not about one.")

    @property
    def is_visible(self) -> bool:
        return bool(self.text.strip()) or self.card is not None


def normalize_activities(activities: Iterable[Any], prefix: str = "") -> list[NormalizedMessage]:
    """Takes messages and skips other activities. `prefix` begins the ids of messages that come without one."""
    found: list[NormalizedMessage] = []
    for number, given in enumerate(activities, 1):
        activity = Activity.read(given)
        if activity is not None and activity.type == "message":
            found += _messages(activity, f"{prefix}a{number}")
    in_order = sorted(found, key=lambda message: message.kind == "adaptiveCard")
    return _within_bounds(in_order)


def _messages(activity: Activity, fallback: str) -> list[NormalizedMessage]:
    name = storable.text(activity.id, 100) or fallback
    role = _role(activity.sender.get("role"))
    said = storable.text(activity.text, MAX_TEXT)
    try:
        (payload, source), problem = _payload(activity), ""
    except (storable.NotStorable, RecursionError) as error:
        payload, source, problem = None, None, f"its structured part cannot be kept: it is {error}"
    cards = [card for card in map(_card, activity.attachments) if card is not None]
    made = []
    if said.strip() or ((payload or problem) and not cards):
        made.append(NormalizedMessage(id=name, role=role, text=said))
    for place, card in enumerate(cards, 1):
        card_name = f"{name}.card{place}"
        if isinstance(card, str):
            made.append(_notice(card_name, storable.text(card, 200)))
        else:
            made.append(
                NormalizedMessage(id=card_name, role=role, kind="adaptiveCard", card=card, card_id=card_id_of(card))
            )
    if made:
        made[0].payload, made[0].source, made[0].citations = payload, source, _citations(activity)
        made[0].problem = storable.text(problem, 200)
    return made


def _role(role: object) -> Literal["assistant", "user", "system"]:
    if role in ("user", "system"):
        return role
    return "assistant"


def _payload(activity: Activity) -> tuple[dict[str, Any] | None, Literal["value", "entities"] | None]:
    """Raises `NotStorable` for a payload that cannot be kept."""
    value = activity.value
    if isinstance(value, dict) and value:
        return storable.value(value, MAX_PAYLOAD), "value"
    merged: dict[str, Any] = {}
    for entity in activity.entities:
        if not _is_about(entity):
            merged |= {name: inner for name, inner in entity.items() if not _is_type(name) and not name.startswith("@")}
    if merged:
        return storable.value(merged, MAX_PAYLOAD), "entities"
    return None, None


def _is_about(entity: dict[str, Any]) -> bool:
    """Whether one of its types says so. A type may be a list of types."""
    kinds: list[Any] = []
    for name, kind in entity.items():
        if _is_type(name):
            kinds += kind if isinstance(kind, list) else [kind]
    return any(_describes(kind, is_linked="@type" in entity) for kind in kinds if isinstance(kind, str))


def _is_type(name: str) -> bool:
    return name.casefold() in ("type", "@type")


def _describes(kind: str, *, is_linked: bool) -> bool:
    word, addresses = _VOCABULARY.subn("", kind.strip().casefold(), count=1)
    return word.rstrip("/") in (_ABOUT_IF_LINKED if addresses or is_linked else _ABOUT)


def _card(attachment: dict[str, Any]) -> dict[str, Any] | str | None:
    """Returns the card, or why it cannot be shown; `None` if there is none."""
    content = attachment.get("content")
    if attachment.get("contentType") != CARD or not content:
        return None
    try:
        if isinstance(content, str):
            content = json.loads(content)
        card = storable.value(content, MAX_CARD)
    except storable.NotStorable as error:
        return f"it is {error}"
    except (ValueError, RecursionError):
        return "it cannot be read"
    return card if isinstance(card, dict) and card else None


def _notice(name: str, why: str) -> NormalizedMessage:
    """Stands where a card would have stood."""
    return NormalizedMessage(
        id=name, role="system", text=f"A card cannot be shown here: {why}.", left_out=f"its card is left out: {why}"
    )


def card_id_of(card: dict[str, Any]) -> str | None:
    """Finds a card's id: at the top, or in the data that it submits."""
    actions = card.get("actions")
    datas = [action.get("data") for action in actions if isinstance(action, dict)] if isinstance(actions, list) else []
    for holder in (card, card.get("metadata"), *datas):
        if isinstance(holder, dict):
            for name in ("cardId", "id"):
                if isinstance(holder.get(name), str) and holder[name]:
                    return storable.text(holder[name], 100)
    return None


def _citations(activity: Activity) -> list[dict[str, str]]:
    found = []
    for entity in activity.entities:
        listed = entity.get("citation")
        for citation in listed[:20] if isinstance(listed, list) else ():
            about = citation.get("appearance") if isinstance(citation, dict) else None
            if isinstance(about, dict):
                found.append(citation_of(about.get("name"), about.get("url")))
    return [citation for citation in found if citation][:MAX_CITATIONS]


def citation_of(title: object, url: object) -> dict[str, str]:
    named = {"title": title, "url": url}
    return {name: storable.text(value, 500) for name, value in named.items() if isinstance(value, str) and value}


def _within_bounds(messages: list[NormalizedMessage]) -> list[NormalizedMessage]:
    """Keeps as many messages as fit, in their order. Those with structured output are taken first."""
    kept: dict[int, NormalizedMessage] = {}
    left = MAX_ALL
    for number, message in sorted(enumerate(messages), key=lambda each: each[1].payload is None):
        size = len(message.model_dump_json().encode())
        if size > left and message.citations:  # the text matters more
            message = message.model_copy(update={"citations": []})
            size = len(message.model_dump_json().encode())
        if size > left and message.kind == "adaptiveCard":
            with_data = {"payload": message.payload, "source": message.source, "problem": message.problem}
            message = _notice(message.id, "the answer is too long with it").model_copy(update=with_data)
            size = len(message.model_dump_json().encode())
        if size <= left and len(kept) < MAX_MESSAGES:
            left -= size
            kept[number] = message
    return [kept[number] for number in sorted(kept)]
