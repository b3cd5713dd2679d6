"use strict";
/* Finds entries by name, then by sentence, and what is written here for a word of another library. */
const box = document.getElementById("search"), list = document.getElementById("found");
const fold = text => text.toLowerCase().replace(/[^a-z0-9]/g, "");
function rank(entry, word, folded) {
  const name = fold(entry[1]);
  if (folded && name === folded) return 0;
  if (folded && name.startsWith(folded)) return 1;
  if (folded && name.includes(folded)) return 2;
  return entry[2].toLowerCase().includes(word) ? 3 : -1;
}
function item(href, name, text) {
  const li = document.createElement("li"), a = document.createElement(href ? "a" : "b"), span = document.createElement("span");
  a.textContent = name;
  if (href) a.href = href;
  span.append("  ");
  text.split("`").forEach((part, i) => { /* what stands between two of them is code */
    const at = i % 2 ? document.createElement("code") : document.createTextNode("");
    at.textContent = part;
    span.append(at);
  });
  li.append(a, span);
  list.append(li);
}
box.addEventListener("input", () => {
  const word = box.value.trim().toLowerCase(), folded = fold(word);
  list.replaceChildren();
  list.hidden = !word;
  if (!word) return;
  const found = entries.map(e => [rank(e, word, folded), e]).filter(e => e[0] >= 0).sort((a, b) => a[0] - b[0]);
  for (const [, e] of found.slice(0, 40)) item(e[0] + ".html#" + e[1], e[0] + " " + e[1], e[2]);
  for (const [words, here] of foreign) if (words.split(/, */).some(w => folded && fold(w) === folded)) item("", word + " of other libraries:", here);
  if (!list.childElementCount) item("", "nothing", "has that name or says that word");
});
box.addEventListener("keydown", event => {
  const first = list.querySelector("a");
  if (event.key === "Enter" && first) location.href = first.href, list.hidden = true;
  if (event.key === "Escape") box.value = "", list.hidden = true;
});
list.addEventListener("click", () => { list.hidden = true; });
