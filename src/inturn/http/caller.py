"""Who calls a route: a user of a tenant, or the one local user where there are no API keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import StringConstraints

TenantId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{0,64}$")]
"""A tenant stands in the names of lanes, so it holds no ':'. The empty name means: no tenant."""


@dataclass(frozen=True, slots=True)
class Caller:
    user_id: str
    tenant_id: str
    is_local: bool = False

    @property
    def in_lanes(self) -> Caller:
        """As visitor, chat and project lanes know it: without API keys their names carry no tenant."""
        return replace(self, tenant_id="") if self.is_local else self


LOCAL = Caller("local", "local", is_local=True)
