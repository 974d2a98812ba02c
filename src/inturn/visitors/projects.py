"""How a project answers its visitors. `LaneProjects`, the default, keeps each project as the state of a lane.

Settings live for a year; reading them in the second half of that year renews them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from inturn import arguments
from inturn.app import InTurn
from inturn.errors import ArgumentError, StateMismatch
from inturn.lanes.codec import why_not
from inturn.lanes.handler import MAX_STATE_TTL_S
from inturn.lanes.inline import InlineTurn
from inturn.lanes.turn import Turn
from inturn.visitors.graph.model import Graph
from inturn.visitors.message import WRITE_WAIT_S, BusyPolicy, lane_name

PROJECT_TTL_S = 365 * 86400.0
PRESENCE_TTL_S = 86400.0
MAX_PROJECTS, MOST_PROJECTS = 1000, 3000
"""Projects with settings that a tenant may have: by default, and at most (their names are one state)."""
MAX_LOOKED_AT = 50
MAX_READ = 64
"""Projects whose checked settings a process keeps in memory: checking a large graph takes long."""


class ProjectSettings(BaseModel):
    """How a project answers its visitors."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"enabled": True, "busy": "merge", "instructions": "You help in a tea shop."}]},
    )

    enabled: bool = Field(True, description="Whether the AI answers the visitors of this project.")
    busy: BusyPolicy = Field(
        "merge",
        description="What happens to a message that comes while its visitor is being answered. "
        "`merge`: all that wait get one answer. `queue`: each is answered in order. "
        "`interrupt`: the running answer begins again, with all of them. "
        "`rollback`: the running answer ends, and only the newest message is answered. "
        "`latest`: only the newest that waits is answered. `drop`: it gets no answer. `reject`: it is refused (409).",
    )
    instructions: str = Field(
        "", max_length=20_000, description="What the agent is told about its task, with every question."
    )
    graph: Graph | None = Field(
        None, description="The graph that answers. Without one, the agent answers every message."
    )
    deliver: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.:-]{1,64}$",
        description="The name of the handler that brings answers to visitors. Without one, clients read or stream "
        "them.",
    )


class Projects(Protocol):
    async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
        """Returns `None` if the project has no settings; then the AI does not answer."""
        ...

    async def put(self, project_id: str, settings: ProjectSettings, tenant_id: str = "") -> None: ...

    async def delete(self, project_id: str, tenant_id: str = "") -> None:
        """Removes the settings, if there are any: from then on the AI does not answer."""
        ...


class StoredProject(BaseModel):
    """The state of a project's lane. `settings` is read as it is, and checked by whoever needs it.

    `until` maps the `agent_id` of each human to the Unix time until which they count as online.
    """

    tenant_id: str = ""
    settings: Any = None
    until: dict[str, float] = Field(default_factory=dict)

    def online(self, now_s: float) -> dict[str, float]:
        return {agent: until for agent, until in self.until.items() if until > now_s}


class StoredNames(BaseModel):
    """The state of the lane that knows which projects a tenant has: each with the time of its first settings."""

    since: dict[str, float] = Field(default_factory=dict)


class LaneProjects:
    """The default: a project's settings, and who is online for it, are the state of one lane.

    A tenant may have `most` projects.
    """

    def __init__(self, app: InTurn, most: int = MAX_PROJECTS) -> None:
        self._app = app
        self._most = arguments.whole(most, "most", 1, MOST_PROJECTS)
        self._read: OrderedDict[bytes, ProjectSettings] = OrderedDict()
        """Keyed by the stored bytes, which are read each time: so old settings are never used."""

    async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
        return (await self.with_presence(project_id, tenant_id))[0]

    async def with_presence(self, project_id: str, tenant_id: str = "") -> tuple[ProjectSettings | None, bool]:
        """Returns the settings, and whether a human is online (`LanePresence`), as they are at one moment."""
        lane = await self._app.lanes.inspect(lane_name("project", project_id, tenant_id), limit=1)
        stored = lane.state_as(StoredProject)
        if stored is None or stored.tenant_id != tenant_id:
            return None, False
        expires_in_s = lane.state_expires_in_s
        if stored.settings is not None and expires_in_s is not None and expires_in_s < PROJECT_TTL_S / 2:
            async with project_turn(self._app, project_id, tenant_id):
                pass  # the commit writes the state unchanged, and its lifetime starts again
            async with self._names(tenant_id) as turn:
                turn.state.since.setdefault(project_id, self._app.runtime.now_s())
        settings = await self._checked(lane.key, stored.settings)
        is_online = bool(stored.online(self._app.runtime.now_s()))
        return settings.model_copy() if settings is not None else None, is_online

    async def _checked(self, key: str, settings: Any) -> ProjectSettings | None:
        if settings is None:
            return None
        written = to_json(settings)
        found = self._read.pop(written, None)
        if found is None:
            try:
                found = await asyncio.to_thread(ProjectSettings.model_validate, settings)
            except ValidationError as error:
                raise StateMismatch(key, why_not(error)) from error
        self._read[written] = found
        if len(self._read) > MAX_READ:
            self._read.popitem(last=False)
        return found

    async def put(self, project_id: str, settings: ProjectSettings, tenant_id: str = "") -> None:
        """Raises `ArgumentError` if the tenant has too many projects already."""
        if not await self._has_settings(project_id, tenant_id):
            await self._count_in(project_id, tenant_id)
        async with project_turn(self._app, project_id, tenant_id) as turn:
            stored = turn.state if turn.state.tenant_id == tenant_id else StoredProject()
            written = settings.model_dump(mode="json")
            turn.state = StoredProject(tenant_id=tenant_id, settings=written, until=stored.until)

    async def delete(self, project_id: str, tenant_id: str = "") -> None:
        """If the process dies in between, the project still counts; deleting it again ends that."""
        async with project_turn(self._app, project_id, tenant_id) as turn:
            if turn.state.tenant_id == tenant_id:
                turn.state = None
        async with self._names(tenant_id) as turn:
            turn.state.since.pop(project_id, None)

    async def _has_settings(self, project_id: str, tenant_id: str) -> bool:
        stored = await self._app.lanes.state(lane_name("project", project_id, tenant_id), StoredProject)
        return stored is not None and stored.tenant_id == tenant_id and stored.settings is not None

    async def _count_in(self, project_id: str, tenant_id: str) -> None:
        """The name is counted before the settings are written: a crash in between costs a place, and no limit."""
        now_s = self._app.runtime.now_s()
        async with self._names(tenant_id) as turn:
            known = turn.state.since
            if project_id not in known and len(known) >= self._most:
                old = [name for name, since in known.items() if now_s - since > PROJECT_TTL_S / 2]
                for name in old[:MAX_LOOKED_AT]:  # what nobody has read for a year has expired
                    if not await self._has_settings(name, tenant_id):
                        del known[name]
                if len(known) >= self._most:
                    problem = f"at most {self._most} projects can be stored; delete one first"
                    raise ArgumentError("project_id", problem, project_id)
            known[project_id] = now_s

    def _names(self, tenant_id: str) -> InlineTurn[StoredNames]:
        key = lane_name("projects", "all", tenant_id)
        return self._app.turn(key, wait=WRITE_WAIT_S, state=StoredNames, state_ttl=MAX_STATE_TTL_S)


@asynccontextmanager
async def project_turn(app: InTurn, project_id: str, tenant_id: str) -> AsyncIterator[Turn[Any]]:
    """Presence alone lives a day: anyone may name a project that does not exist."""
    key = lane_name("project", project_id, tenant_id)
    async with app.turn(key, wait=WRITE_WAIT_S, state=StoredProject, state_ttl=PROJECT_TTL_S) as turn:
        yield turn
        if turn.state is not None and turn.state.settings is None:
            turn._timing = replace(turn._timing, keep_ms=round(PRESENCE_TTL_S * 1000))
