// Texts whose contrast with their ground is under what WCAG's level AA asks for, and how many were measured.
() => {
  const numbers = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);

  function luminance(rgb) {
    const [red, green, blue] = rgb.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function groundOf(element) {
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
      if (color[3] > 0) return null;
    }
    return [255, 255, 255];
  }

  function isMeasured(element, words) {
    const isField = element.matches("input:not([type=checkbox], [type=radio]), textarea, select");
    const isUnseen = element.closest(".unseen, [aria-hidden=true], [inert], .skip");
    const isOut = isUnseen || element.matches(":disabled, option");
    return (words || isField) && !isOut && element.checkVisibility({ visibilityProperty: true });
  }

  const faults = [];
  let seen = 0;
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const words = texts.map((node) => node.data.trim()).join("");
    if (!isMeasured(element, words)) continue;
    seen += 1;
    const style = getComputedStyle(element);
    const ground = groundOf(element);
    const name = `${element.tagName}.${element.className} "${words.slice(0, 30)}"`;
    if (ground === null) {
      faults.push(`${name}: its ground is half transparent`);
      continue;
    }
    const [dark, light] = [luminance(numbers(style.color)), luminance(ground)].sort((one, other) => one - other);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) faults.push(`${name}: ${ratio.toFixed(2)}`);
  }
  return { faults, seen };
}
