"""Every problem that the API tells, by its code: its status, its title, when to come again, and an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inturn.problems.problem import Problem

BUSY_S = 1
AWAY_S = 5


@dataclass(frozen=True, slots=True)
class Kind:
    code: str
    status: int
    title: str
    example: str
    """What a `detail` of it looks like."""
    retry_after_s: int | None = None

    def problem(
        self, detail: str, *, more: Mapping[str, Any] | None = None, headers: Sequence[tuple[str, str]] = ()
    ) -> Problem:
        return Problem(self.status, self.code, self.title, detail, self.retry_after_s, more=more, headers=headers)


_ALL = (
    Kind("bad-request", 400, "The request cannot be read", "There was an error parsing the body."),
    Kind("not-authenticated", 401, "The request does not say who calls",
         "Send your API key: Authorization: Bearer <key>."),
    Kind("card-not-allowed", 403, "The workflow has no such card or action",
         "card 'other': workflow 'support_intake' has no such card"),
    Kind("cross-origin", 403, "The request comes from another site",
         "Without API keys only pages of this server may call it."),
    Kind("not-found", 404, "There is nothing here", "GET /api/v1/workflow: there is no such path."),
    Kind("unknown-conversation", 404, "There is no such conversation",
         "there is no conversation '9f3c'; begin a new one"),
    Kind("method-not-allowed", 405, "This path does not take this method", "PUT is not one of: GET, DELETE."),
    Kind("body-timeout", 408, "The body did not come",
         "The body was not there within 60 s. Nothing was done: send it again."),
    Kind("conversation-busy", 409, "The conversation is being answered",
         "Another message of it is being answered. Nothing was done: repeat the request in a moment.", BUSY_S),
    Kind("session-completed", 409, "The workflow is completed",
         "the workflow of conversation '9f3c' is completed; begin a new one"),
    Kind("superseded", 409, "A newer message took its place", "message 'm1' was superseded by a newer one."),
    Kind("message-cancelled", 409, "The message was cancelled", "It was cancelled before it began, and will not run."),
    Kind("duplicate-message", 409, "This message was taken before", "It runs or ran already, and was not run again."),
    Kind("response-expired", 410, "The response is not kept any more",
         "It was answered before, and that answer is not kept any more: look at the conversation."),
    Kind("too-large", 413, "The body is too large", "It may have up to 1048576 bytes. Nothing was done: send less."),
    Kind("not-this-host", 421, "This server is not known by that name",
         "Without API keys it answers on this machine only, as localhost or 127.0.0.1."),
    Kind("invalid-request", 422, "The request does not fit",
         "text: must have 1 to 16000 characters that are not all blank"),
    Kind("mailbox-full", 429, "Too many messages wait", "As many messages as may wait do so: repeat it later.", AWAY_S),
    Kind("headers-too-large", 431, "The headers are too large",
         "Address and headers may have up to 65536 bytes. Nothing was done: send less."),
    Kind("internal-error", 500, "Something went wrong here",
         "It was logged, and nothing was saved. Repeating the request may help."),
    Kind("agent-unavailable", 502, "The agent cannot be reached",
         "agent 'openai' cannot be reached: connection refused"),
    Kind("agent-rejected", 502, "The agent's provider refused the request",
         "agent 'openai' was refused: invalid model"),
    Kind("agent-timeout", 504, "The agent did not answer in time", "agent 'openai' did not finish within 120 s"),
    Kind("store-unavailable", 503, "The store is away",
         "Nothing was done and nothing is kept elsewhere: repeat the request later.", AWAY_S),
    Kind("outcome-unknown", 503, "Whether the turn was saved is not known",
         "The store went away during the commit: all of it was saved, or nothing. Repeat it with the same message_id.",
         AWAY_S),
    Kind("turn-lost", 503, "The turn was lost while it ran", "Nothing of it was saved: repeat the request.", BUSY_S),
    Kind("conversation-stopped", 503, "An operator has stopped this conversation",
         "Nothing was done: repeat the request later.", AWAY_S),
    Kind("state-mismatch", 503, "The stored state is of another version",
         "It was not touched, and the conversation is parked until an operator has looked at it.", AWAY_S),
    Kind("message-failed", 503, "The message failed for good",
         "It is kept as a dead letter until an operator has looked at it."),
    Kind("workflow-too-deep", 503, "The workflow does not come to rest",
         "the workflow went through more than 100 nodes in one turn: a -> b -> a; let it wait for the visitor "
         "somewhere on this way"),
    Kind("definition-missing", 503, "The workflow of this conversation is not loaded",
         "conversation '9f3c' is in workflow 'intake', which is not loaded"),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.code: kind for kind in _ALL}
