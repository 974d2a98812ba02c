"""What a reasoning model thinks aloud before its answer, where the endpoint does not take it out of the text.

Only a `<think>` that opens the answer is a thought; later on it may be what the answer is about.
"""

from __future__ import annotations

_OPENS, _ENDS = "<think>", "</think>"


class Thoughts:
    """Fed with the deltas of an answer, gives them without the thoughts and the blanks behind these."""

    def __init__(self) -> None:
        self._held: str | None = ""
        """What is not decided yet; `None` once the answer itself has begun."""
        self._is_thinking = False
        self._has_thought = False

    def feed(self, delta: str) -> str:
        if self._held is None:
            return delta
        self._held += delta
        if self._is_thinking:
            _, end, rest = self._held.partition(_ENDS)
            if not end:
                self._held = self._held[-len(_ENDS) :]  # all that the end may have begun in
                return ""
            self._is_thinking, self._has_thought, self._held = False, True, rest
        begun = self._held.lstrip()
        if not self._has_thought and begun.startswith(_OPENS):
            self._is_thinking, self._held = True, begun[len(_OPENS) :]
            return self.feed("")
        if not begun or (not self._has_thought and _OPENS.startswith(begun)):
            return ""
        return self._begin()

    def rest(self) -> str:
        """What was held back, now that nothing more comes: thoughts without an end are no answer."""
        return "" if self._held is None or self._is_thinking else self._begin()

    def _begin(self) -> str:
        text, self._held = self._held or "", None
        return text.lstrip() if self._has_thought else text
