"""What can be measured of a page: contrast, names, sizes, overflow. Each is a script that answers a list of faults."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

CONTRAST = """
() => {
  const parse = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
      if (color[3] > 0) return null;
    }
    return [255, 255, 255];
  };
  const faults = [], seen = [];
  for (const element of document.querySelectorAll("body *")) {
    const isField = element.matches("input:not([type=checkbox], [type=radio]), textarea, select");
    const words = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    const clip = element.closest(".unseen, [aria-hidden=true], [inert], .skip");
    if ((!words && !isField) || clip || element.matches(":disabled, option") || !element.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(element);
    const back = ground(element);
    if (back === null) { faults.push(`${element.className}: its ground is half transparent`); continue; }
    const [a, b] = [light(parse(style.color)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    seen.push(ratio);
    if (ratio < (isLarge ? 3 : 4.5)) faults.push(`${element.tagName}.${element.className} "${words.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return {faults, seen: seen.length};
}
"""

DUPLICATE_IDS = """
() => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return ids.filter((id, place) => ids.indexOf(id) !== place);
}
"""

OVERFLOW = """
() => {
  const width = document.documentElement.clientWidth;
  const faults = document.documentElement.scrollWidth > width ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility({visibilityProperty: true}) || element.closest(".unseen, .skip, .offer, .scrolls, pre")) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && (box.right > width + 0.5 || box.left < -0.5)) faults.push(`${element.tagName}.${element.className} ${box.left}-${box.right}`);
  }
  return faults;
}
"""

SMALL_TARGETS = """
() => [...document.querySelectorAll("button, .button, select, textarea, label.choice, input:not([type=checkbox], [type=radio])")]
  .filter((element) => element.checkVisibility({visibilityProperty: true}) && element.getBoundingClientRect().height < 44)
  .map((element) => `${element.tagName}#${element.id} ${element.getBoundingClientRect().height}`)
"""

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


def contrast_faults(page: Page) -> list[str]:
    found = page.evaluate(CONTRAST)
    assert found["seen"] > 10, "there is text to measure"
    return list(found["faults"])
