"""How a project answers its visitors. `LaneProjects`, the default, keeps each project as the state of a lane.

Settings live for a year; reading them in the second half of that year renews them.
"""

from __future__ import annotations

from collections import OrderedDict
from types import NoneType
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from inturn.app import InTurn
from inturn.lanes.admin import LaneInfo
from inturn.lanes.inline import InlineTurn
from inturn.visitors.graph.model import Graph
from inturn.visitors.message import WRITE_WAIT_S, BusyPolicy, lane_name

PROJECT_TTL_S = 365 * 86400.0
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


class StoredProject(BaseModel):
    tenant_id: str = ""
    settings: ProjectSettings


class LaneProjects:
    def __init__(self, app: InTurn) -> None:
        self._app = app
        self._read: OrderedDict[bytes, StoredProject] = OrderedDict()
        """Keyed by the stored bytes, which are read each time: so old settings are never used."""

    async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
        lane = await self._app.lanes.inspect(lane_name("project", project_id, tenant_id), limit=1)
        stored = self._checked(lane)
        if stored is None or stored.tenant_id != tenant_id:
            return None
        if lane.state_expires_in_s is not None and lane.state_expires_in_s < PROJECT_TTL_S / 2:
            async with self._turn(project_id, tenant_id):
                pass  # the commit writes the state unchanged, and its lifetime starts again
        return stored.settings.model_copy()

    def _checked(self, lane: LaneInfo) -> StoredProject | None:
        written = to_json(lane.state)
        found = self._read.pop(written, None) or lane.state_as(StoredProject)
        if found is None:
            return None
        self._read[written] = found
        if len(self._read) > MAX_READ:
            self._read.popitem(last=False)
        return found

    async def put(self, project_id: str, settings: ProjectSettings, tenant_id: str = "") -> None:
        async with self._turn(project_id, tenant_id) as turn:
            turn.state = StoredProject(tenant_id=tenant_id, settings=settings)

    def _turn(self, project_id: str, tenant_id: str) -> InlineTurn[StoredProject | None]:
        key = lane_name("project", project_id, tenant_id)
        return self._app.turn(
            key, wait=WRITE_WAIT_S, state=StoredProject, initial=NoneType, state_ttl=PROJECT_TTL_S
        )  # fmt: skip
