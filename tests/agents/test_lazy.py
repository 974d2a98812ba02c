"""The packages of the providers are optional: nothing is imported before its agent is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inturn.agents import CopilotStudioAgent, OpenAIAgent
from inturn.errors import MissingExtra
from tests.agents.conftest import connection
from tests.agents.provider import Provider


def test_importing_the_agents_imports_no_package_of_a_provider() -> None:
    code = (
        "import sys, inturn.agents, inturn.agents.factory\n"
        "packages = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(packages & {'openai', 'microsoft_agents', 'aiohttp', 'httpx', 'httpx2'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.strip() == "[]"


def test_a_missing_openai_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"the OpenAI agent needs the extra 'openai'"):
        OpenAIAgent("m", api_key="k")


def test_a_missing_copilot_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = connection(Provider())
    monkeypatch.delitem(sys.modules, "inturn.agents.copilot.client", raising=False)
    monkeypatch.delattr("inturn.agents.copilot.client", raising=False)
    monkeypatch.setitem(sys.modules, "microsoft_agents.copilotstudio.client", None)
    with pytest.raises(MissingExtra, match=r"the Copilot Studio agent needs the extra 'copilot'"):
        CopilotStudioAgent(settings, token="t")
