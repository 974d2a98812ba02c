"""What can be measured of a page: contrast, names, sizes, overflow. Each returns a list of faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

MEASURE = Path(__file__).parent / "measure"

NAMED_ROLES = {
    "textbox", "combobox", "spinbutton", "button", "link", "radio", "checkbox", "progressbar", "form", "dialog", "log",
    "navigation", "region", "group", "radiogroup", "Date",
}  # fmt: skip


def nameless(page: Page) -> list[str]:
    """Controls and landmarks without a name, as Chromium itself computes what a screen reader gets."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    seen = [node for node in nodes if not node.get("ignored") and node["role"]["value"] in NAMED_ROLES]
    assert len(seen) > 5, "there is something to look at"
    faults = []
    for node in seen:
        if not node.get("name", {}).get("value", "").strip():
            found = session.send("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]
            if found["nodeName"] != "DETAILS":  # its summary says what it is
                faults.append(f"{node['role']['value']}: {found['nodeName']} {found.get('attributes')}")
    session.detach()
    return faults


def duplicate_ids(page: Page) -> list[str]:
    return list(_measured(page, "duplicate_ids"))


def overflow(page: Page) -> list[str]:
    return list(_measured(page, "overflow"))


def small_targets(page: Page) -> list[Any]:
    return list(_measured(page, "small_targets"))


def focus(page: Page) -> tuple[str, bool]:
    """Where it is, and whether that can be seen."""
    name, is_seen = _measured(page, "focus")
    return str(name), bool(is_seen)


def contrast_faults(page: Page) -> list[str]:
    found = _measured(page, "contrast")
    assert found["seen"] > 10, "there is text to measure"
    return list(found["faults"])


def _measured(page: Page, name: str) -> Any:
    return page.evaluate((MEASURE / f"{name}.js").read_text("utf-8"))
