"""A good end of a small run, which tests of the checker spoil."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.chaos.checker import count
from tests.chaos.lanes.checker import check
from tests.chaos.lanes.history import Found, Name, Told
from tests.chaos.lanes.load import apply, fresh_state
from tests.chaos.lanes.sides import WrittenOff


class End:
    """Two lanes, of which `a` sends to `b`."""

    def __init__(self) -> None:
        self.told, self.found = Told(), Found()
        self.found.lanes = {"a": fresh_state(), "b": fresh_state()}
        self.found.audits = {"a": [], "b": []}
        self.fence = 100
        for number in (1, 2, 3):
            self.submit("a", f"a.{number}", number, to="b")
        self.submit("b", "b.1", 1)
        self.inline("b", "in.1")
        self.told.asked.add(Name("a", "say", "a.4"))  # given up by its client: it need not be there
        dead = Name("b", "act", "b.2")
        self.told.asked.add(dead)
        self.told.acked.add(dead)
        self.found.dead.add(dead)

    def apply(self, key: str, by: str, message_id: str, **facts: Any) -> dict[str, Any]:
        self.fence += 1
        entry = apply(self.found.lanes[key], message_id, by, self.fence, **facts)
        self.found.audits[key].append({name: entry[name] for name in ("id", "by", "n", "fence")})
        if facts.get("to"):
            self.apply(facts["to"], "hop", message_id, number=entry["n"], sender=key)
        return entry

    def ask(self, key: str, by: str, message_id: str) -> Name:
        name = Name(key, by, message_id)
        self.told.asked.add(name)
        self.told.acked.add(name)
        return name

    def submit(self, key: str, message_id: str, number: int, to: str = "", by: str = "say", priority: int = 0) -> None:
        name = self.ask(key, by, message_id)
        self.found.results[name] = self.apply(key, by, message_id, number=number, to=to, priority=priority)
        self.told.results[name].append(dict(self.found.results[name]))

    def burst(self, key: str, lead: str, *others: str) -> None:
        first = self.found.results[self.ask(key, "gather", lead)] = self.apply(key, "gather", lead)
        for message_id in others:
            self.fence -= 1
            self.apply(key, "gather", message_id, lead=lead)
            self.found.results[self.ask(key, "gather", message_id)] = first

    def write_off(self, key: str, by: str, message_id: str, why: WrittenOff) -> None:
        name = self.ask(key, by, message_id)
        self.found.written_off[name] = why
        getattr(self.told, why).add(name)

    def inline(self, key: str, message_id: str) -> None:
        name = Name(key, "inline", message_id)
        self.told.inline[name] = "committed"
        self.found.results[name] = self.apply(key, "inline", message_id)

    def entries(self, key: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.found.lanes[key]["list"]
        return entries

    def remove(self, key: str, message_id: str) -> None:
        """As if its turn had never been, in the state of its lane alone."""
        state = self.found.lanes[key]
        state["list"] = [entry for entry in state["list"] if entry["id"] != message_id]
        self.renumber(key)

    def renumber(self, key: str) -> None:
        """The state of this lane, and its audits and results with it, as if it had been so from the beginning."""
        state = self.found.lanes[key]
        state["count"] = len(state["list"])
        fences = sorted(entry["fence"] for entry in state["list"])
        for at, entry in enumerate(state["list"], 1):
            entry["n"], entry["fence"] = at, fences[at - 1]
            self.told.results.pop(Name(key, entry["by"], entry["id"]), None)
        audits = [{name: entry[name] for name in ("id", "by", "n", "fence")} for entry in state["list"]]
        self.found.audits[key] = audits

    def kinds(self) -> Counter[str]:
        return count(check(self.told, self.found))
