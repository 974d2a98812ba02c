// Ids that more than one element has.
() => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return ids.filter((id, place) => ids.indexOf(id) !== place);
}
