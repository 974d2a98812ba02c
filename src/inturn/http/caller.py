"""Who calls a route: a user of a tenant, or the one local user where there are no API keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import StringConstraints

_TENANT = r"[A-Za-z0-9_.-]{0,64}"
TenantId = Annotated[str, StringConstraints(pattern=f"^{_TENANT}$")]
"""A tenant stands in the names of lanes, so it holds no ':'. The empty name means: no tenant."""


def is_tenant_id(name: str) -> bool:
    return re.fullmatch(_TENANT, name) is not None


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
