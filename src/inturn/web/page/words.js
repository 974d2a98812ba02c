/** Days, times and numbers as people say them. */

const DAY_MS = 86_400_000;

/** A day without a time is a day of the reader's calendar, wherever they are. */
function dayOf(written) {
  const [year, month, day] = written.split("-").map(Number);
  return new Date(year, month - 1, day);
}

function daysBetween(one, other) {
  const [from, to] = [one, other].map((at) => new Date(at.getFullYear(), at.getMonth(), at.getDate()));
  return Math.round((to - from) / DAY_MS); // a day may have 23 hours
}

/** `today`, `tomorrow`, `yesterday`, else `Fri 2 Oct`. */
function dayWords(day) {
  const now = new Date();
  const near = new Map([[-1, "yesterday"], [0, "today"], [1, "tomorrow"]]).get(daysBetween(now, day));
  const year = day.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return near ?? day.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", year });
}

export function isOver(written) {
  return daysBetween(new Date(), dayOf(written)) < 0;
}

/** `Due tomorrow`, `Due Fri 2 Oct`, `Was due Mon 28 Sept`. */
export function dueWords(written) {
  return `${isOver(written) ? "Was due" : "Due"} ${dayWords(dayOf(written))}`;
}

/** `today at 14:00`, `on Tue 6 Oct at 14:00`. */
export function when(epochS) {
  const at = new Date(epochS * 1000);
  const day = dayWords(at);
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return `${/\d/.test(day) ? "on " : ""}${day} at ${time}`;
}

/** `about 3 hours`. */
export function duration(seconds) {
  const [amount, unit] =
    seconds < 90 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"] : [seconds / 3600, "hour"];
  return `about ${counted(Math.max(1, Math.round(amount)), unit)}`;
}

/** `1 task`, `2 tasks`. */
export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
