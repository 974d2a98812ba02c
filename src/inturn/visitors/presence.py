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
from inturn.visitors.projects import MAX_PROJECTS, MOST_PROJECTS, PRESENCE_TTL_S, StoredProject, project_turn

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


class UnsettledProjects(BaseModel):
    """The state of the lane that knows for which projects without settings people are online, and until when."""

    until: dict[str, float] = Field(default_factory=dict)


class LanePresence:
    """The default: who is online for a project is part of the state of the project's lane.

    Anyone may name a project that has no settings: a tenant may have people online for `most` of those at once.
    """

    def __init__(self, app: InTurn, most: int = MAX_PROJECTS) -> None:
        self._app = app
        self._most = arguments.whole(most, "most", 1, MOST_PROJECTS)

    async def human_online(self, project_id: str, tenant_id: str = "") -> bool:
        return bool(await self.online(project_id, tenant_id))

    async def online(self, project_id: str, tenant_id: str = "") -> dict[str, datetime]:
        state = await self._app.lanes.state(lane_name("project", project_id, tenant_id), StoredProject)
        if state is None or state.tenant_id != tenant_id:
            return {}
        online = state.online(self._app.runtime.now_s())
        return {agent: datetime.fromtimestamp(until, UTC) for agent, until in online.items()}

    async def set(
        self, project_id: str, agent_id: str, online: bool, for_s: arguments.Seconds = 3600, tenant_id: str = ""
    ) -> None:
        arguments.name(agent_id, "agent_id")
        lasts_s = arguments.seconds(for_s, "for_s", maximum=PRESENCE_TTL_S)
        if online:
            await self._count_in(project_id, tenant_id, lasts_s)
        async with project_turn(self._app, project_id, tenant_id) as turn:
            now_s = self._app.runtime.now_s()
            stored = turn.state if turn.state.tenant_id == tenant_id else StoredProject()
            until = {agent: at for agent, at in stored.online(now_s).items() if agent != agent_id}
            if online and len(until) >= MAX_AGENTS:
                raise ArgumentError("agent_id", f"at most {MAX_AGENTS} people can be online for a project", agent_id)
            if online:
                until[agent_id] = now_s + lasts_s
            is_empty = stored.settings is None and not until
            turn.state = None if is_empty else StoredProject(tenant_id=tenant_id, settings=stored.settings, until=until)

    async def _count_in(self, project_id: str, tenant_id: str, lasts_s: float) -> None:
        """Raises `ArgumentError` if the project has no settings, and too many of those have people online."""
        stored = await self._app.lanes.state(lane_name("project", project_id, tenant_id), StoredProject)
        if stored is not None and stored.tenant_id == tenant_id and stored.settings is not None:
            return
        key, now_s = lane_name("projects", "unsettled", tenant_id), self._app.runtime.now_s()
        async with self._app.turn(key, wait=WRITE_WAIT_S, state=UnsettledProjects, state_ttl=PRESENCE_TTL_S) as turn:
            known = {name: until for name, until in turn.state.until.items() if until > now_s}
            if project_id not in known and len(known) >= self._most:
                problem = f"people are online for {self._most} projects without settings; store its settings first"
                raise ArgumentError("project_id", problem, project_id)
            known[project_id] = max(now_s + lasts_s, known.get(project_id, 0.0))
            turn.state.until = known
