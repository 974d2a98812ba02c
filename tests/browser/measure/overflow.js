// What is wider than the window, but for what is inside of places that scroll by themselves.
() => {
  const { clientWidth: width, scrollWidth } = document.documentElement;
  const faults = scrollWidth > width ? [`the page is ${scrollWidth} wide`] : [];
  for (const element of document.querySelectorAll("body *")) {
    const isSeen = element.checkVisibility({ visibilityProperty: true });
    if (!isSeen || element.closest(".unseen, .skip, .offer > *, .scrolls > *, pre > *")) continue;
    const { left, right } = element.getBoundingClientRect();
    if (right > left && (right > width + 0.5 || left < -0.5)) {
      faults.push(`${element.tagName}.${element.className} from ${left} to ${right}`);
    }
  }
  return faults;
}
