"""How a project answers its visitors. `LaneProjects`, the default, keeps each project as the state of a lane.

Settings live for a year; whoever reads them in the second half of it renews them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from inturn.app import InTurn
from inturn.visitors.message import WRITE_WAIT_S, BusyPolicy, lane_name, nothing
from inturn.conversations.graph.model import Graph
from inturn.conversations.looking import read
from inturn.lanes.inline import InlineTurn

PROJECT_TTL_S = 365 * 86400.0
MOST_READ = 64
"""Projects whose settings a process keeps as it has read them: a large graph takes long to check."""


class ProjectSettings(BaseModel):
    """`deliver` names the handler that brings answers to visitors; without it they are fetched, or watched."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"enabled": True, "busy": "merge", "instructions": "You help in a tea shop."}]},
    )

    enabled: bool = True
    busy: BusyPolicy = "merge"
    instructions: str = Field("", max_length=20_000)
    graph: Graph | None = None
    deliver: str | None = Field(None, pattern=r"^[A-Za-z0-9_.:-]{1,64}$")


class Projects(Protocol):
    async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
        """`None`: nobody has set the project up, so it does not answer by AI."""
        ...

    async def put(self, project_id: str, settings: ProjectSettings, tenant_id: str = "") -> None: ...


class StoredProject(BaseModel):
    tenant_id: str = ""
    settings: ProjectSettings


class LaneProjects:
    def __init__(self, app: InTurn) -> None:
        self._app = app
        self._read: OrderedDict[bytes, StoredProject] = OrderedDict()
        """By what is stored: that is asked for each time, so nobody works with old settings."""

    async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
        lane = await self._app.lanes.inspect(lane_name("project", project_id, tenant_id), limit=1)
        if lane.state is None:
            return None
        stored = self._checked(lane.key, lane.state)
        if stored.tenant_id != tenant_id:
            return None
        if lane.state_expires_in_s is not None and lane.state_expires_in_s < PROJECT_TTL_S / 2:
            async with self._turn(project_id, tenant_id):
                pass  # the commit writes the state as it is by then, and its life begins anew
        return stored.settings.model_copy()

    def _checked(self, key: str, state: Any) -> StoredProject:
        written = to_json(state)
        found = self._read.pop(written, None) or read(key, state, StoredProject)
        self._read[written] = found
        if len(self._read) > MOST_READ:
            self._read.popitem(last=False)
        return found

    async def put(self, project_id: str, settings: ProjectSettings, tenant_id: str = "") -> None:
        async with self._turn(project_id, tenant_id) as turn:
            turn.state = StoredProject(tenant_id=tenant_id, settings=settings)

    def _turn(self, project_id: str, tenant_id: str) -> InlineTurn[StoredProject | None]:
        key = lane_name("project", project_id, tenant_id)
        return self._app.turn(
            key, wait=WRITE_WAIT_S, state=StoredProject, initial=nothing, state_ttl=PROJECT_TTL_S
        )  # fmt: skip
