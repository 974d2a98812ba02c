"""`inturn serve`: the HTTP API, a worker and the chat page in one process, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import errno
import logging
import socket

from pydantic import ValidationError

from inturn import arguments as checked
from inturn.errors import InTurnError, MissingExtra, SettingsError
from inturn.settings import Settings, load_settings, mask

PACE_S = 0.02
"""Seconds per word. The offline agent would answer at once, and nobody could see what happens to the next message."""


class CannotListen(InTurnError):
    """The address cannot be used. This is not wrong usage, so the exit code is 1."""


def run_serve(arguments: argparse.Namespace) -> int:
    settings = _with_arguments(load_settings(), arguments)
    grace = checked.seconds(arguments.grace, "grace", allow_zero=True)
    try:
        from inturn.web.app import make_app
        from inturn.web.connection_limits import Limits
        from inturn.web.server import serve
    except MissingExtra as error:
        raise MissingExtra("inturn serve", error.extra) from error
    from inturn.cli.jobs import find_capabilities
    from inturn.http.auth import is_loopback
    from inturn.http.request_id import log_to_stderr

    log_to_stderr(settings.log_level)
    is_debug = settings.log_level == "DEBUG"
    if not is_debug:  # one line says all that there is to say
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    named = settings.capabilities
    api = make_app(settings, grace=grace, capabilities=find_capabilities(named) if named else None)
    with _listening(settings.host, settings.port) as listening:
        address, port = listening.getsockname()[:2]
        if not api.state.keys.are_needed and not is_loopback(address):
            raise SettingsError(
                f"{settings.host} can be reached from other machines, and there are no API keys: set "
                "INTURN_API_KEYS_FILE or INTURN_API_KEYS, or INTURN_SERVICE_KEYS for services alone, or listen on "
                "127.0.0.1"
            )
        host = f"[{address}]" if ":" in address else address
        who = _who(len(api.state.keys), api.state.keys.services)
        jobs = f", jobs over {mask(settings.rabbitmq_url)}" if settings.rabbitmq_url else ""
        where = f"store {mask(settings.url)}{jobs}, agent {api.state.agent.name}"
        line = f"inturn serves http://{host}:{port} ({where}, {who})"
        limits = Limits(settings.head_timeout, settings.body_timeout, settings.write_timeout)
        serve(api, listening, lambda: print(line, flush=True), limits=limits, logs_access=is_debug)
    return 1 if api.state.lifecycle.cut_jobs_off else 0


def _who(keys: int, services: int) -> str:
    """Who may call."""
    if not keys and not services:
        return 'no API keys: serves this machine only, as user "local"'
    counts = ((keys, "API key"), (services, "service key"))
    told = [f"{count} {kind}{'s' if count > 1 else ''}" for count, kind in counts if count]
    return " and ".join(told) + ("" if keys else ": serves services only")


def _with_arguments(settings: Settings, arguments: argparse.Namespace) -> Settings:
    names = ("host", "port", "url", "namespace", "workflows", "concurrency")
    given = {name: getattr(arguments, name) for name in names}
    if settings.offline_pace is None:
        settings = settings.model_copy(update={"offline_pace": PACE_S})
    told = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings.model_validate(settings.model_dump() | told)
    except ValidationError as error:
        wrong = error.errors(include_input=False)
        lines = [f"--{bad['loc'][0]} {mask(str(told[str(bad['loc'][0])]))}: {bad['msg']}" for bad in wrong]
        raise SettingsError("\n".join(lines)) from None


def _listening(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # a name may have an address of either kind; the older one is the one that everybody can reach
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        listening = socket.create_server(address[:2], family=family, backlog=2048)
        # for its connections, too: asyncio's own loop leaves it out where it has not made the socket
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except socket.gaierror as error:
        raise SettingsError(f"--host {host}: this name cannot be resolved: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} on {host} is in use: stop what listens there, or choose another with --port"
        elif error.errno == errno.EADDRNOTAVAIL:
            why = f"{host} is not an address of this machine: choose another with --host"
        elif error.errno == errno.EACCES:
            why = f"port {port} is reserved for the system: choose one above 1023 with --port"
        else:
            why = f"cannot listen on {host}, port {port}: {error.strerror}"
        raise CannotListen(why) from error
