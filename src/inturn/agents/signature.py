"""Which agent made a message: an entity of its own, so that it travels with the activity wherever that goes."""

from __future__ import annotations

from inturn.agents.activity import Activity

AGENT = "https://inturn/agent"
"""The type of the entity. It has one, so no parser takes it for data of the workflow."""


def signed(activity: Activity, name: str) -> Activity:
    """The activity with the name of its agent; one that is no message, or is signed already, as it is."""
    if activity.type != "message" or signature_of(activity) is not None:
        return activity
    return activity.model_copy(update={"entities": [*activity.entities, {"type": AGENT, "name": name}]})


def signature_of(activity: Activity) -> str | None:
    """The agent that made the activity, if it says so."""
    names = (entity.get("name") for entity in activity.entities if entity.get("type") == AGENT)
    return next((name for name in names if isinstance(name, str)), None)
