"""Without the server's packages the responder works, and its routes say what to install."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["fastapi"] = None
import inturn.visitors.responder
try:
    import inturn.visitors.routes
except Exception as error:
    print(type(error).__name__, error)
"""


def test_the_routes_name_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == (
        "MissingExtra inturn.conversations.http needs the extra 'server': pip install 'inturn[server]'\n"
    )
