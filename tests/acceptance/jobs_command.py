"""`inturn jobs worker` and `inturn serve` as processes of their own, with what they write to their logs."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.acceptance.jobs_books import Books, settings_of
from tests.module_process import ModuleProcess
from tests.waiting import until

SERVICE_KEY = "a-service-key-of-the-tests"
_NAMES = {
    "url": "INTURN_URL", "namespace": "INTURN_NAMESPACE", "rabbitmq_url": "RABBITMQ_URL",
    "tasks_service_base_url": "TASKS_SERVICE_BASE_URL", "webhook_secrets": "INTURN_WEBHOOK_SECRETS",
    "store_timeout": "INTURN_STORE_TIMEOUT", "rabbitmq_timeout": "INTURN_RABBITMQ_TIMEOUT",
}  # fmt: skip


def environment(books: Books, name: str = "a-worker-of-the-tests") -> dict[str, str]:
    """What a process needs to belong to the world of these books. The provider knows it by `name`."""
    settings = settings_of(books.world)
    told = {variable: str(settings[name]) for name, variable in _NAMES.items() if settings[name] is not None}
    agent = {"INTURN_AGENT": "openai", "INTURN_OPENAI_MODEL": "test-model", "INTURN_OPENAI_API_KEY": name}
    return told | agent | {"INTURN_OPENAI_BASE_URL": books.world.provider.url, "INTURN_SERVICE_KEYS": SERVICE_KEY}


class Command:
    """`inturn WORDS`. It begins like any process, but has imported inturn already."""

    def __init__(self, folder: Path, *words: str, **environ: str) -> None:
        self.file = folder / f"{'-'.join(words[:2])}-{len(list(folder.iterdir()))}.log"
        written = os.open(self.file, os.O_WRONLY | os.O_CREAT)
        try:
            with pytest.MonkeyPatch.context() as patched:
                own = {"DATABASE_URL": f"sqlite:///{folder}/tasks.db"}  # by default it would be where the tests are run
                for name, value in (own | environ).items():
                    patched.setenv(name, value)
                self.process = ModuleProcess("inturn.cli.main", words, files={1: written, 2: written})
        finally:
            os.close(written)

    @property
    def log(self) -> str:
        return self.file.read_text()

    async def writes(self, text: str, within_s: float = 60.0) -> str:
        """Until it has written this, as a regular expression. Returns what was found."""

        def is_there() -> bool:
            assert self.process.poll() is None or re.search(text, self.log), f"it ended: {self.log}"
            return re.search(text, self.log) is not None

        await until(is_there, within_s, f"{text!r} in {self.file}")
        found = re.search(text, self.log)
        assert found is not None
        return found[0]

    async def ends(self, within_s: float = 60.0) -> int:
        return await asyncio.to_thread(self.process.wait, within_s)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
