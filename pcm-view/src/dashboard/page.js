"use strict";
const token = new URLSearchParams(location.search).get("token");
const story = document.getElementById("story");
const state = document.getElementById("state");
const nodes = document.getElementById("nodes");
let job = null;
let stream = null;
let isShown = false;
let storyTold = "";
document.getElementById("steer").open = innerWidth >= 700;

// The address says which job this page shows; without one it is that of the command, or the newest.
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1)).get("job") ?? "";
  const choice = /^\d{1,19}$/.test(wanted) ? "&job=" + wanted : "";
  stream?.close();
  stream = new EventSource("/stream?token=" + encodeURIComponent(token) + choice);
  stream.onmessage = (message) => take(JSON.parse(message.data));
  stream.onerror = () => { state.textContent = "The connection is lost; trying again."; };
  stream.onopen = () => { state.textContent = "Live."; };
}

function take(told) {
  job = told.job;
  showCluster(told.cluster);
  // In a frame of its own, so that no frame takes long; a page that is not seen has none.
  if (document.hidden) show(told.html);
  else requestAnimationFrame(() => show(told.html));
  const isKnown = (name, at) => nodes.children[at]?.value === name;
  if (nodes.children.length === told.nodes.length && told.nodes.every(isKnown)) return;
  nodes.replaceChildren(...told.nodes.map((name) => Object.assign(document.createElement("option"), { value: name })));
}

// Only what has changed is replaced, so that what is read, pointed at or marked stays.
function show(html) {
  if (html === storyTold) return;
  storyTold = html;
  const next = document.createElement("template");
  next.innerHTML = html;
  merge(story, next.content);
  // Marked once it is painted.
  if (!isShown) requestAnimationFrame(() => setTimeout(() => performance.mark("shown")));
  isShown = true;
}

function merge(old, next) {
  const before = [...old.children];
  const after = [...next.children];
  after.forEach((element, place) => {
    const was = before[place];
    if (!was) old.append(element);
    else if (was.className === "plots" && element.className === "plots") merge(was, element);
    else if (!was.isEqualNode(element)) was.replaceWith(element);
  });
  before.slice(after.length).forEach((element) => element.remove());
}

for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const order = { act: form.dataset.act };
    for (const input of form.elements) {
      if (input.name) order[input.name] = input.type === "number" ? Number(input.value) : input.value;
    }
    if (order.act !== "drain") order.job = job;
    propose(order);
  });
}
