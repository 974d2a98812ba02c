// Where the focus is, and whether that can be seen.
() => {
  const at = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(at);
  return [at.id || at.className || at.textContent, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2];
}
