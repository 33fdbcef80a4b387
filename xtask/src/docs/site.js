// Search, light or dark, copies of code. The site is complete without it.
"use strict";

const RESULTS_MAX = 12;
const DECISIONS_COUNT_LESS = 3;
const BEFORE_A_HIT = 50;
const AROUND_A_HIT = 160;

const root = document.body.dataset.root;
const query = document.getElementById("query");
const found = document.getElementById("found");
const pages = window.pcmPages || [];

// How well a part of a page fits: its headings count for more than its text. 0 if a word is missing.
function fit([address, page, heading, text], words) {
  let sum = 0;
  for (const word of words) {
    const inHeading = heading.toLowerCase().includes(word);
    const inPage = page.toLowerCase().includes(word);
    const inText = text.toLowerCase().includes(word);
    if (!inHeading && !inPage && !inText) return 0;
    sum += 8 * inHeading + 3 * inPage + inText;
  }
  return address.startsWith("decisions/") ? sum / DECISIONS_COUNT_LESS : sum;
}

// Appends a text to an element, with the words marked.
function marked(element, text, words) {
  const lower = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    const hits = words.map((word) => [lower.indexOf(word, at), word.length]).filter(([place]) => place >= 0);
    if (hits.length === 0) break;
    const [place, length] = hits.sort((a, b) => a[0] - b[0] || b[1] - a[1])[0];
    const mark = document.createElement("mark");
    mark.textContent = text.slice(place, place + length);
    element.append(text.slice(at, place), mark);
    at = place + length;
  }
  element.append(text.slice(at));
}

function result([address, page, heading, text], words) {
  const link = document.createElement("a");
  link.href = root + address;
  const title = document.createElement("strong");
  marked(title, heading && heading !== page ? `${page}: ${heading}` : page, words);
  const hits = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const begin = Math.max(0, Math.min(...hits, text.length) - BEFORE_A_HIT);
  const excerpt = document.createElement("small");
  marked(excerpt, text.slice(hits.length ? begin : 0).slice(0, AROUND_A_HIT), words);
  link.append(title, excerpt);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  found.hidden = words.length === 0;
  if (found.hidden) return;
  const fitting = pages.map((part) => [fit(part, words), part]).filter(([sum]) => sum > 0);
  fitting.sort((a, b) => b[0] - a[0]);
  const items = fitting.slice(0, RESULTS_MAX).map(([, part]) => result(part, words));
  if (items.length === 0) {
    const none = document.createElement("p");
    none.textContent = "Nothing has all of these words.";
    items.push(none);
  }
  found.replaceChildren(...items);
}

query.addEventListener("input", search);
query.addEventListener("keydown", (event) => {
  if (event.key === "Enter") found.querySelector("a")?.click();
});
found.addEventListener("click", () => { found.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") found.hidden = true;
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!found.contains(event.target) && event.target !== query) found.hidden = true;
});

document.getElementById("theme").addEventListener("click", () => {
  const shown = document.documentElement.dataset.theme;
  const isDark = shown ? shown === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch {
    // It holds for this page alone.
  }
});

for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

if (matchMedia("(max-width: 52rem)").matches) document.querySelector(".pages").open = false;
