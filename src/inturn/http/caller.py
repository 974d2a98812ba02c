"""Who calls a route: a user of a tenant, or the one local user where there are no API keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inturn.conversations.state import Owner


@dataclass(frozen=True, slots=True)
class Caller:
    user_id: str
    tenant_id: str
    is_local: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(user_id=self.user_id, tenant_id=self.tenant_id)

    @property
    def in_lanes(self) -> Caller:
        """As visitor, chat and project lanes know it: without API keys their names carry no tenant."""
        return replace(self, tenant_id="") if self.is_local else self


LOCAL = Caller("local", "local", is_local=True)
