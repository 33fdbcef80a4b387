"use strict";
const token = new URLSearchParams(location.search).get("token");
const story = document.getElementById("story");
const state = document.getElementById("state");
const nodes = document.getElementById("nodes");
let job = null;
document.getElementById("steer").open = innerWidth >= 700;

const stream = new EventSource("/stream?token=" + encodeURIComponent(token));
stream.onmessage = (message) => {
  const told = JSON.parse(message.data);
  job = told.job;
  showCluster(told.cluster);
  show(told.html);
  nodes.replaceChildren(...told.nodes.map((name) => Object.assign(document.createElement("option"), { value: name })));
};
// Only what has changed is replaced, so that what is read, pointed at or marked stays.
function show(html) {
  const next = document.createElement("template");
  next.innerHTML = html;
  merge(story, next.content);
  if (performance.getEntriesByName("shown").length === 0) performance.mark("shown");
}

const MERGED = ["plots", "jobs", "boxes"];

function merge(old, next) {
  const before = [...old.children];
  const after = [...next.children];
  after.forEach((element, place) => {
    const was = before[place];
    if (!was) old.append(element);
    else if (MERGED.includes(was.className) && was.className === element.className) merge(was, element);
    else if (!was.isEqualNode(element)) was.replaceWith(element);
  });
  before.slice(after.length).forEach((element) => element.remove());
}

stream.onerror = () => { state.textContent = "The connection is lost; trying again."; };
stream.onopen = () => { state.textContent = "Live."; };

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
