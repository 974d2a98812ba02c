"""What the offline agent remembers between turns: which field it asked for, what was skipped, where it has been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition

CONFIRM = "(confirm)"
CHANGE = "(change)"


@dataclass(slots=True)
class Notes:
    """`asked` is the name of a field, `CONFIRM`, `CHANGE` or ''."""

    asked: str = ""
    last: str = ""
    skipped: list[str] = field(default_factory=list)
    entered: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, memory: Mapping[str, Any], definition: WorkflowDefinition) -> Notes:
        """Whatever is there, as far as it still fits the definition: that may be a newer one."""
        names, steps = definition.by_name, {step.id for step in definition.steps}
        asked, last = memory.get("asked"), memory.get("last")
        return cls(
            asked if isinstance(asked, str) and (asked in names or asked in (CONFIRM, CHANGE)) else "",
            last if isinstance(last, str) and last in names else "",
            _known(memory.get("skipped"), names),
            _known(memory.get("entered"), steps),
        )

    def write(self, memory: dict[str, Any]) -> None:
        memory.update(asked=self.asked, last=self.last, skipped=self.skipped, entered=self.entered)

    def pending(self, definition: WorkflowDefinition, collected: Mapping[str, Any]) -> FieldDefinition | None:
        """What to ask for: the first field that is missing, optional ones too unless they were skipped."""
        for each in definition.fields():
            if each.name not in collected and (each.required or each.name not in self.skipped):
                return each
        return None


def _known(names: object, among: object) -> list[str]:
    found = names if isinstance(names, list) and isinstance(among, dict | set) else []
    return [name for name in found if isinstance(name, str) and name in among]  # type: ignore[operator]
