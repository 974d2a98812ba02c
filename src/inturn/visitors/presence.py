"""Which humans are online for a project. While one is, the AI stays silent.

Being online expires, so that a browser that was closed without notice does not silence a project forever.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from pydantic import BaseModel, Field

from inturn import arguments
from inturn.app import InTurn
from inturn.errors import ArgumentError
from inturn.visitors.message import WRITE_WAIT_S, lane_name

PRESENCE_TTL_S = 86400.0
MAX_AGENTS = 1000
"""Humans who can be online for one project at once."""


class Presence(Protocol):
    """`agent_id` is a human who helps visitors. Other services use this name; `inturn.agents` are something else."""

    async def human_online(self, project_id: str, tenant_id: str = "") -> bool: ...

    async def set(
        self, project_id: str, agent_id: str, online: bool, for_s: arguments.Seconds = 3600, tenant_id: str = ""
    ) -> None: ...

    async def online(self, project_id: str, tenant_id: str = "") -> dict[str, datetime]:
        """Returns who is online, and until when."""
        ...


class Online(BaseModel):
    """Maps each human's `agent_id` to the Unix time until which they count as online."""

    tenant_id: str = ""
    until: dict[str, float] = Field(default_factory=dict)


class LanePresence:
    """The default: keeps the presence of each project as the state of a lane, for a day at most."""

    def __init__(self, app: InTurn) -> None:
        self._app = app

    async def human_online(self, project_id: str, tenant_id: str = "") -> bool:
        return bool(await self.online(project_id, tenant_id))

    async def online(self, project_id: str, tenant_id: str = "") -> dict[str, datetime]:
        state = await self._app.lanes.state(lane_name("presence", project_id, tenant_id), Online)
        if state is None or state.tenant_id != tenant_id:
            return {}
        now_s = self._app.runtime.now_s()
        return {agent: datetime.fromtimestamp(until, UTC) for agent, until in state.until.items() if until > now_s}

    async def set(
        self, project_id: str, agent_id: str, online: bool, for_s: arguments.Seconds = 3600, tenant_id: str = ""
    ) -> None:
        arguments.name(agent_id, "agent_id")
        lasts_s = arguments.seconds(for_s, "for_s", maximum=PRESENCE_TTL_S)
        key = lane_name("presence", project_id, tenant_id)
        async with self._app.turn(key, wait=WRITE_WAIT_S, state=Online, state_ttl=PRESENCE_TTL_S) as turn:
            now_s = self._app.runtime.now_s()
            until = {agent: at for agent, at in turn.state.until.items() if at > now_s and agent != agent_id}
            if online and len(until) >= MAX_AGENTS:
                raise ArgumentError("agent_id", f"at most {MAX_AGENTS} people can be online for a project", agent_id)
            if online:
                until[agent_id] = now_s + lasts_s
            turn.state = Online(tenant_id=tenant_id, until=until)
