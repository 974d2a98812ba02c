"""The environment, read in one place: `INTURN_*` first, then the names that people already use.

A `Settings` is frozen, and was checked as a whole when it was made. A `SettingsError` names every bad variable as the
user set it, and never shows a password.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from inturn.errors import SettingsError

STORE_SCHEMES = (
    "sqlite", "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
)  # fmt: skip

AgentName = Literal["offline", "openai", "copilot_studio"]
AGENTS: tuple[AgentName, ...] = get_args(AgentName)

NOT_A_SETTING = ("INTURN_REDIS_SERVER", "INTURN_RABBITMQ_SERVER", "INTURN_POSTGRES_SERVER")
"""For tests and benchmarks, which read them themselves. It is no error to have them set."""


def mask(text: str) -> str:
    """Returns `text` without the passwords of a URL, even if the URL is malformed."""
    text = re.sub(r"(?i)((?:password|passwd|secret|token)=)[^&#]*", r"\1***", text)
    scheme, separator, rest = text.partition("://") if "://" in text else ("", "", text)
    user, at, host = rest.rpartition("@")
    if ":" in user:
        user = user.partition(":")[0] + ":***"
    return f"{scheme}{separator}{user}{at}{host}"


def _must(sentence: str) -> WrapValidator:
    """Whatever is wrong with the value, the error says what it must be."""

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValueError as wrong:
            raise PydanticCustomError("must", f"must {sentence}") from wrong

    return WrapValidator(check)


def _url(*schemes: str, needs_host: bool = False) -> AfterValidator:
    def check(value: str) -> str:
        parts = urlsplit(value)
        hosts = parts.netloc.rpartition("@")[2].split(",")
        if "://" not in value or parts.scheme not in schemes:
            raise ValueError("not one of the schemes")
        if not any(hosts) and (needs_host or not parts.path.strip("/")):
            raise ValueError("leads nowhere")
        for host in hosts:
            _ = urlsplit(f"//{host}").port  # raises where the port is no port
        return value

    return AfterValidator(check)


def _all_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("one of them comes twice")
    return names


def _schemes(names: Iterable[str]) -> str:
    return "be a URL that starts with one of " + ", ".join(f"{name}://" for name in names)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), _must("be a number of seconds greater than 0")]
Switch = Annotated[bool, _must("be true or false")]
Namespace = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$"), _must("be 1 to 64 letters, digits or any of _ . -")
]
Partitions = Annotated[int, Field(ge=1, le=1024), _must("be a whole number from 1 to 1024")]
Replicas = Annotated[int, Field(ge=0, le=100), _must("be a whole number from 0 to 100")]
StoreUrl = Annotated[str, _url(*STORE_SCHEMES), _must(_schemes(STORE_SCHEMES))]
HttpUrl = Annotated[str, _url("http", "https", needs_host=True), _must(_schemes(("http", "https")))]
AgentNames = Annotated[
    tuple[AgentName, ...],
    Field(min_length=1),
    BeforeValidator(lambda value: [name.strip() for name in value.split(",")] if isinstance(value, str) else value),
    AfterValidator(_all_different),
    _must(f"be one or more of {', '.join(AGENTS)}, separated by commas, each once"),
]
Life = Annotated[float, Field(ge=0.001, le=604_800), _must("be a number of seconds from 0.001 to 604800")]
Patience = Annotated[float, Field(gt=0, le=86_400), _must("be a number of seconds greater than 0, up to 86400")]
Pause = Annotated[float, Field(ge=0, le=10), _must("be a number of seconds from 0 to 10")]
MaxProjects = Annotated[int, Field(ge=1, le=3000), _must("be a whole number from 1 to 3000")]
Concurrency = Annotated[int, Field(ge=1, le=1000), _must("be a whole number from 1 to 1000")]
Streams = Annotated[int, Field(ge=1, le=100_000), _must("be a whole number from 1 to 100000")]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:%-]{1,253}$"), _must("be an address or a name of this machine")]
Port = Annotated[int, Field(ge=0, le=65535), _must("be a port from 1 to 65535, or 0 for any that is free")]
DATABASE_SCHEMES = ("sqlite", "postgresql", "postgres")
DatabaseUrl = Annotated[str, _url(*DATABASE_SCHEMES), _must(_schemes(DATABASE_SCHEMES))]
ServiceName = Literal["chat", "ai", "tasks", "bot"]
SERVICES: tuple[ServiceName, ...] = get_args(ServiceName)
ServiceNames = Annotated[
    tuple[ServiceName, ...],
    Field(min_length=1),
    BeforeValidator(lambda value: [name.strip() for name in value.split(",")] if isinstance(value, str) else value),
    AfterValidator(_all_different),
    _must(f"be one or more of {', '.join(SERVICES)}, separated by commas, each once"),
]
Tokens = Annotated[int, Field(ge=0, le=10**12), _must("be a whole number of tokens from 0 to 1000000000000")]
WholeSeconds = Annotated[int, Field(ge=1, le=366 * 86_400), _must("be a whole number of seconds from 1 to 31622400")]
AmqpUrl = Annotated[str, _url("amqp", "amqps", needs_host=True), _must(_schemes(("amqp", "amqps")))]
HttpUrls = Annotated[
    tuple[Annotated[str, _url("http", "https", needs_host=True)], ...],
    BeforeValidator(lambda value: [url.strip() for url in value.split(",")] if isinstance(value, str) else value),
    _must("be one or more URLs that start with http:// or https://, separated by commas"),
]
JobConcurrency = Annotated[int, Field(ge=0, le=1000), _must("be a whole number from 0 to 1000")]
QueueLimit = Annotated[int, Field(ge=1, le=100_000_000), _must("be a whole number from 1 to 100000000")]
RedisUrl = Annotated[str, _url(*STORE_SCHEMES[1:]), _must(_schemes(STORE_SCHEMES[1:]))]
BotBusy = Annotated[Literal["merge", "interrupt"], _must("be merge or interrupt")]
BotConcurrency = Annotated[int, Field(ge=1, le=10_000), _must("be a whole number from 1 to 10000")]
QueueType = Annotated[Literal["quorum", "classic"], _must("be quorum or classic")]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
    _must("be DEBUG, INFO, WARNING, ERROR or CRITICAL"),
]


class Settings(BaseModel):
    """Every setting, with the variables it is read from. The first of them that is set counts."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        str_strip_whitespace=True,
        hide_input_in_errors=True,
    )

    url: StoreUrl = Field("sqlite:///inturn.db", validation_alias=AliasChoices("INTURN_URL", "REDIS_URL"))
    namespace: Namespace = Field("inturn", validation_alias=AliasChoices("INTURN_NAMESPACE"))
    partitions: Partitions | None = Field(None, validation_alias=AliasChoices("INTURN_PARTITIONS"))
    """`None`: the store's default, 1 on a single server and 16 on a cluster."""
    replicas: Replicas = Field(0, validation_alias=AliasChoices("INTURN_REPLICAS"))
    store_timeout: Seconds = Field(5.0, validation_alias=AliasChoices("INTURN_STORE_TIMEOUT"))
    allow_eviction: Switch = Field(False, validation_alias=AliasChoices("INTURN_ALLOW_EVICTION"))
    lock_ttl: Seconds = Field(30.0, validation_alias=AliasChoices("INTURN_LOCK_TTL"))
    dedup_window: Seconds = Field(300.0, validation_alias=AliasChoices("INTURN_DEDUP_WINDOW"))
    state_ttl: Seconds = Field(86_400.0, validation_alias=AliasChoices("INTURN_STATE_TTL", "REDIS_TTL"))
    agent: AgentNames = Field(("offline",), validation_alias=AliasChoices("INTURN_AGENT"))
    """In the order in which they are tried."""
    agent_timeout: Seconds = Field(60.0, validation_alias=AliasChoices("INTURN_AGENT_TIMEOUT"))
    offline_pace: Pause | None = Field(None, validation_alias=AliasChoices("INTURN_OFFLINE_PACE"))
    """How long the offline agent waits after each word. `None`: `inturn serve` picks a pace that people can follow."""
    openai_base_url: HttpUrl | None = Field(
        None, validation_alias=AliasChoices("INTURN_OPENAI_BASE_URL", "OPENAI_BASE_URL")
    )
    openai_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("INTURN_OPENAI_API_KEY", "OPENAI_API_KEY")
    )
    openai_model: str | None = Field(None, validation_alias=AliasChoices("INTURN_OPENAI_MODEL"))
    copilot_environment_id: str | None = Field(None, validation_alias=AliasChoices("INTURN_COPILOT_ENVIRONMENT_ID"))
    copilot_agent: str | None = Field(None, validation_alias=AliasChoices("INTURN_COPILOT_AGENT"))
    copilot_direct_url: HttpUrl | None = Field(None, validation_alias=AliasChoices("INTURN_COPILOT_DIRECT_URL"))
    copilot_token: SecretStr | None = Field(None, validation_alias=AliasChoices("INTURN_COPILOT_TOKEN"))
    host: Host = Field("127.0.0.1", validation_alias=AliasChoices("INTURN_HOST"))
    port: Port = Field(8420, validation_alias=AliasChoices("INTURN_PORT"))
    head_timeout: Seconds = Field(20.0, validation_alias=AliasChoices("INTURN_HEAD_TIMEOUT"))
    body_timeout: Seconds = Field(60.0, validation_alias=AliasChoices("INTURN_BODY_TIMEOUT"))
    write_timeout: Seconds = Field(60.0, validation_alias=AliasChoices("INTURN_WRITE_TIMEOUT"))
    """How long `inturn serve` waits for a client: for the head of a request, its body, and to take what it was sent."""
    api_keys_file: str | None = Field(None, validation_alias=AliasChoices("INTURN_API_KEYS_FILE"))
    api_keys: SecretStr | None = Field(None, validation_alias=AliasChoices("INTURN_API_KEYS"))
    workflows: str | None = Field(None, validation_alias=AliasChoices("INTURN_WORKFLOWS"))
    concurrency: Concurrency = Field(10, validation_alias=AliasChoices("INTURN_CONCURRENCY"))
    """How many turns the worker of `inturn serve` runs at once."""
    turn_lease: Seconds = Field(30.0, validation_alias=AliasChoices("INTURN_TURN_LEASE"))
    """How long a conversation is busy after the process that answered it was killed."""
    visitor_quiet: Seconds | None = Field(None, validation_alias=AliasChoices("INTURN_VISITOR_QUIET"))
    """How long a visitor must be silent before a burst is answered."""
    share_visitor_lock: Switch = Field(False, validation_alias=AliasChoices("INTURN_SHARE_VISITOR_LOCK"))
    """Whether answering a visitor also holds the plain key `ai:lock:visitor:{visitor_uid}`."""
    share_conversation_lock: Switch = Field(False, validation_alias=AliasChoices("INTURN_SHARE_CONVERSATION_LOCK"))
    """Whether a turn of a workflow also holds the plain key `lock:conv:{conversation_id}`."""
    adopt_workflows: Switch = Field(False, validation_alias=AliasChoices("INTURN_ADOPT_WORKFLOWS"))
    """Whether workflows that other services keep under `wf:{conversation_id}` are adopted at their first turn."""
    max_streams_per_tenant: Streams = Field(200, validation_alias=AliasChoices("INTURN_MAX_STREAMS_PER_TENANT"))
    """Event streams that a tenant may have open in this process."""
    max_projects: MaxProjects = Field(1000, validation_alias=AliasChoices("INTURN_MAX_PROJECTS"))
    """Projects that a tenant may store."""
    dead_letter_ttl: Seconds = Field(7 * 86_400.0, validation_alias=AliasChoices("INTURN_DEAD_LETTER_TTL"))
    """How long dead letters are kept."""
    rabbitmq_url: AmqpUrl | None = Field(None, validation_alias=AliasChoices("INTURN_RABBITMQ_URL", "RABBITMQ_URL"))
    """What carries jobs to their workers. `None`: the store does."""
    rabbitmq_queue_type: QueueType = Field("quorum", validation_alias=AliasChoices("INTURN_RABBITMQ_QUEUE_TYPE"))
    rabbitmq_timeout: Seconds = Field(5.0, validation_alias=AliasChoices("INTURN_RABBITMQ_TIMEOUT"))
    """How long RabbitMQ may take to answer. A job that it has not confirmed by then is refused with 503."""
    job_queue_limit: QueueLimit = Field(100_000, validation_alias=AliasChoices("INTURN_JOB_QUEUE_LIMIT"))
    """How many jobs may wait. More are refused with 503."""
    job_concurrency: JobConcurrency = Field(10, validation_alias=AliasChoices("INTURN_JOB_CONCURRENCY"))
    """How many jobs a process works on at once. 0: none, it only accepts them."""
    job_ttl: Seconds = Field(7 * 86_400.0, validation_alias=AliasChoices("INTURN_JOB_TTL"))
    """How long the record of a job is kept after its last change."""
    tasks_service_base_url: HttpUrl | None = Field(
        None, validation_alias=AliasChoices("INTURN_TASKS_SERVICE_BASE_URL", "TASKS_SERVICE_BASE_URL")
    )
    """Where the Tasks service is. Its call-backs go to this URL + `/api/v1/webhooks`."""
    callback_urls: HttpUrls = Field((), validation_alias=AliasChoices("INTURN_CALLBACK_URLS"))
    """Other base URLs that may be called back."""
    webhook_secrets: SecretStr | None = Field(None, validation_alias=AliasChoices("INTURN_WEBHOOK_SECRETS"))
    """Secrets that sign call-backs, separated by commas. The newest comes first."""
    service_keys: SecretStr | None = Field(None, validation_alias=AliasChoices("INTURN_SERVICE_KEYS"))
    """Keys by which services call each other, separated by commas."""
    capabilities: str | None = Field(None, validation_alias=AliasChoices("INTURN_CAPABILITIES"))
    """Where the capabilities are, as MODULE:NAME. `None`: those that ship with inturn."""
    services: ServiceNames | None = Field(None, validation_alias=AliasChoices("INTURN_SERVICES"))
    """What `inturn serve` serves. `None`: all for which there are the packages."""
    database_url: DatabaseUrl | None = Field(None, validation_alias=AliasChoices("INTURN_DATABASE_URL", "DATABASE_URL"))
    """The database of the Tasks service. `None`: an SQLite file beside the store."""
    database_timeout: Seconds = Field(10.0, validation_alias=AliasChoices("INTURN_DATABASE_TIMEOUT"))
    ai_service_base_url: HttpUrl | None = Field(
        None, validation_alias=AliasChoices("INTURN_AI_SERVICE_BASE_URL", "AI_SERVICE_BASE_URL")
    )
    """Where the Tasks service finds the AI service. `None`: in this process."""
    ai_service_timeout: Seconds = Field(15.0, validation_alias=AliasChoices("INTURN_AI_SERVICE_TIMEOUT"))
    """How long the AI service may take to accept a request."""
    token_limit: Tokens = Field(100_000, validation_alias=AliasChoices("INTURN_TOKEN_LIMIT"))
    """Tokens that a user may use in a window."""
    token_window: WholeSeconds = Field(86_400, validation_alias=AliasChoices("INTURN_TOKEN_WINDOW"))
    token_estimate: Tokens = Field(1000, validation_alias=AliasChoices("INTURN_TOKEN_ESTIMATE"))
    """Tokens that are reserved for a request, unless its capability knows better."""
    token_hold_ttl: Seconds = Field(3600.0, validation_alias=AliasChoices("INTURN_TOKEN_HOLD_TTL"))
    """How long tokens stay reserved for a request that nobody settles."""
    token_prices: str | None = Field(None, validation_alias=AliasChoices("INTURN_TOKEN_PRICES"))
    """Prices of a million tokens, in and out, for the cost metric: `model=in/out`, separated by commas."""
    send_lock_timeout: Life = Field(30.0, validation_alias=AliasChoices("SEND_AI_RESPONSE_LOCK_TIMEOUT"))
    """How long the lock around a send of the bot lives. It is extended while the parts go out."""
    send_dedup_expiration: Life = Field(300.0, validation_alias=AliasChoices("SEND_AI_RESPONSE_DEDUP_EXPIRATION"))
    """How long a text that was sent to a user is remembered."""
    proactive_redis_url: RedisUrl | None = Field(None, validation_alias=AliasChoices("PROACTIVE_MESSAGING_REDIS_URL"))
    """Where these locks and texts are kept. `None`: in the store."""
    bot_token: SecretStr | None = Field(
        None, validation_alias=AliasChoices("INTURN_BOT_TOKEN", "TELEGRAM_BOT_TOKEN", "BOT_TOKEN")
    )
    bot_api_url: HttpUrl | None = Field(None, validation_alias=AliasChoices("INTURN_BOT_API_URL"))
    """A Bot API server of your own. `None`: Telegram's."""
    bot_webhook_url: HttpUrl | None = Field(None, validation_alias=AliasChoices("INTURN_BOT_WEBHOOK_URL"))
    """Where Telegram reaches `inturn serve`. `None`: updates are polled by `inturn bot`."""
    bot_webhook_secret: SecretStr | None = Field(None, validation_alias=AliasChoices("INTURN_BOT_WEBHOOK_SECRET"))
    bot_busy: BotBusy = Field("merge", validation_alias=AliasChoices("INTURN_BOT_BUSY"))
    """What a message does that comes while an answer is being generated."""
    bot_quiet: Pause = Field(4.0, validation_alias=AliasChoices("INTURN_BOT_QUIET"))
    """How long a user must be silent before a burst is answered."""
    bot_agent_timeout: Patience = Field(80.0, validation_alias=AliasChoices("INTURN_BOT_AGENT_TIMEOUT"))
    bot_instructions: str | None = Field(None, validation_alias=AliasChoices("INTURN_BOT_INSTRUCTIONS"))
    """How the bot is to answer: given to the agent."""
    bot_failure_text: str | None = Field(None, validation_alias=AliasChoices("INTURN_BOT_FAILURE_TEXT"))
    """What a user gets if there is no answer."""
    bot_proactive: Switch = Field(True, validation_alias=AliasChoices("INTURN_BOT_PROACTIVE"))
    """Whether the bot writes first."""
    bot_works_cadence: Switch = Field(True, validation_alias=AliasChoices("INTURN_BOT_WORKS_CADENCE"))
    """Whether this process sends what is due. If not, Celery does."""
    bot_concurrency: BotConcurrency = Field(1000, validation_alias=AliasChoices("INTURN_BOT_CONCURRENCY"))
    """How many users a process answers at once."""
    log_level: LogLevel = Field("INFO", validation_alias=AliasChoices("INTURN_LOG_LEVEL"))

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, mask(value) if isinstance(value, str) else value


def variables() -> list[list[str]]:
    """Returns the variables of each setting, in the order in which they are looked up."""
    aliases = (field.validation_alias for field in Settings.model_fields.values())
    return [[str(name) for name in alias.choices] for alias in aliases if isinstance(alias, AliasChoices)]


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Returns the settings from `environ`, by default the process's own. An empty variable counts as not set."""
    source = os.environ if environ is None else environ
    given = {name: value for name, value in source.items() if value.strip()}
    wrong = _unknown(given)
    firsts = (next((name for name in names if name in given), None) for names in variables())
    try:
        settings = Settings.model_validate({name: given[name] for name in firsts if name})
    except ValidationError as error:
        for bad in error.errors():
            name = str(bad["loc"][0])
            wrong.append(f"{name}={mask(given[name])!r}: {bad['msg']}")
    if wrong:
        raise SettingsError("\n".join(wrong))
    return settings


def _unknown(given: Iterable[str]) -> list[str]:
    ours = [name for names in variables() for name in names if name.startswith("INTURN_")]
    wrong = []
    for name in given:
        if name.startswith("INTURN_") and name not in ours and name not in NOT_A_SETTING:
            nearest = difflib.get_close_matches(name, ours, n=1, cutoff=0.75)
            hint = f"did you mean {nearest[0]}?" if nearest else "inturn.settings.Settings lists them all"
            wrong.append(f"{name}: there is no such setting; {hint}")
    return wrong
