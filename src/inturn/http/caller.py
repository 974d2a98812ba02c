"""Who calls a route: a user of a tenant, another service, or the one local user where there are no keys."""

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
    is_admin: bool = False
    """Its key has the role `admin`: the operator of the server, whatever the tenant."""
    is_service: bool = False

    @property
    def is_user(self) -> bool:
        """The local caller is both: without keys there is nobody else."""
        return self.is_local or not self.is_service

    @property
    def in_lanes(self) -> Caller:
        """As visitor, chat and project lanes know it: without API keys their names carry no tenant."""
        return replace(self, tenant_id="") if self.is_local else self


LOCAL = Caller("local", "local", is_local=True, is_admin=True, is_service=True)
SERVICE = Caller("service", "", is_service=True)
"""Every service, whichever key it has: a key that is changed leaves it who it was. No user is without a tenant."""
