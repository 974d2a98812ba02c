// What is too low for a finger.
() =>
  [...document.querySelectorAll("button, .button, select, textarea, label.choice, .field input, .race input")]
    .filter((element) => !element.matches("[type=checkbox], [type=radio]"))
    .filter((element) => element.checkVisibility({ visibilityProperty: true }))
    .map((element) => [`${element.tagName}#${element.id}`, element.getBoundingClientRect().height])
    .filter(([, height]) => height < 44)
