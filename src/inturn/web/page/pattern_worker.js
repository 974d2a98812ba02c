/** Says for each pattern whether it matches, as soon as it knows. A pattern that is none matches everything. */

function isMatch({ pattern, value }) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // the server has the last word on patterns that only it can read
  }
}

onmessage = ({ data: asked }) => {
  for (const [number, [place, pair]] of asked.entries()) {
    postMessage({ place, isMatch: isMatch(pair), isLast: number === asked.length - 1 });
  }
};
postMessage("ready");
