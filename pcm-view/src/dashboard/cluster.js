
// The cluster: tiles and boxes are taken up with a mouse, a finger or the keyboard. Every order shows its plan first.
const cluster = document.getElementById("cluster");
const plan = document.getElementById("plan");
const undo = document.getElementById("undo");
let dragged = null;
let held = null;
let waiting = null;

// More ranks that move at once are put into place without being seen on the way.
const SEEN_MOVING_MAX = 64;

// What was told last of the jobs, of each box and of each rank; what has not changed is not parsed again.
let jobsTold = "";
const boxes = new Map();
let calls = {};

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

function showCluster(told) {
  if (dragged) { waiting = told; return; }
  calls = told.calls;
  if (told.jobs !== jobsTold) children(cluster.querySelector(".jobs"), parsed(told.jobs));
  jobsTold = told.jobs;
  const changed = told.boxes.map(toBox).filter(Boolean);
  const moving = whatMoves(changed);
  const focused = document.activeElement?.dataset?.key;
  for (const [box, tiles] of changed) children(box.tiles, tiles);
  for (const [name, { element }] of boxes) {
    if (told.boxes.some(({ node }) => node === name)) continue;
    element.remove();
    boxes.delete(name);
  }
  const found = focused && cluster.querySelector(`[data-key="${focused}"]`);
  if (found && found !== document.activeElement) found.focus({ preventScroll: true });
  const ways = moving.map(([key, was]) => {
    const tile = cluster.querySelector(`[data-key="${key}"]`);
    const now = tile.getBoundingClientRect();
    return [tile, was.left - now.left, was.top - now.top];
  });
  for (const [tile, x, y] of ways) {
    tile.animate([{ transform: `translate(${x}px,${y}px)` }, { transform: "none" }], 350);
  }
}

// The box of a node with the tiles that are to be in it, where they are others than before.
function toBox({ node, state, head, tiles }, at) {
  let box = boxes.get(node);
  if (!box) {
    const element = document.createElement("section");
    element.dataset.node = node;
    element.tabIndex = 0;
    element.ariaLabel = "node " + node;
    element.append(document.createElement("div"), document.createElement("div"));
    element.lastChild.className = "tiles";
    box = { element, tiles: element.lastChild };
    boxes.set(node, box);
  }
  const all = cluster.querySelector(".boxes");
  if (all.children[at] !== box.element) all.insertBefore(box.element, all.children[at] ?? null);
  const { element, told } = box;
  if (told?.state !== state) element.className = "box " + state;
  if (told?.head !== head) children(element.firstChild, parsed(head));
  box.told = { state, head, tiles };
  if (told?.tiles === tiles) return null;
  const next = parsed(tiles);
  if (held) next.querySelector(`[data-key="${held.key}"]`)?.setAttribute("aria-pressed", "true");
  return [box, next];
}

// The tiles that change their box, and where they are now.
function whatMoves(changed) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return [];
  const before = new Map();
  for (const [box] of changed) for (const tile of box.tiles.children) before.set(tile.dataset.key, tile);
  const moving = [];
  for (const [box, next] of changed) {
    for (const { dataset: { key } } of next.children) {
      const was = key && before.get(key);
      if (was && was.parentElement !== box.tiles) moving.push([key, was]);
    }
  }
  if (moving.length > SEEN_MOVING_MAX) return [];
  return moving.map(([key, was]) => [key, was.getBoundingClientRect()]);
}

// What a rank does is told where a pointer or the focus is.
function tellCall({ target }) {
  if (!target.matches?.("button.tile")) return;
  const call = calls[target.dataset.key];
  target.title = target.ariaLabel + (call ? ", is in " + call : ", computes");
}
cluster.addEventListener("pointerover", tellCall);
cluster.addEventListener("focusin", tellCall);

const keyOf = (element) => element.dataset.key;

// Makes one element like another of its kind, and touches only what differs: little is drawn again.
function morph(old, next) {
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) {
    if (name !== "title" && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  if (next.firstElementChild) children(old, next);
  else if (old.firstElementChild || old.textContent !== next.textContent) old.textContent = next.textContent;
}

// The same for what is in them: tiles are known by their keys, all else by its place.
function children(old, next) {
  const wanted = new Set(Array.from(next.children, keyOf));
  const known = new Map();
  for (const child of [...old.children]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (wanted.has(key)) known.set(key, child);
    else child.remove();
  }
  let at = old.firstElementChild;
  for (const child of [...next.children]) {
    const key = keyOf(child);
    const isAlike = at && keyOf(at) === undefined && at.tagName === child.tagName;
    const was = key === undefined ? (isAlike ? at : undefined) : known.get(key);
    if (!was) { old.insertBefore(child, at); continue; }
    if (was === at) at = at.nextElementSibling;
    else old.insertBefore(was, at);
    morph(was, child);
  }
  while (at) {
    const after = at.nextElementSibling;
    at.remove();
    at = after;
  }
}

async function post(path, order) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "X-Pcm-Token": token, "Content-Type": "application/json" },
      body: JSON.stringify(order),
    });
    return answer.ok ? await answer.json() : { is_done: false, text: "Refused." };
  } catch (error) {
    return { is_done: false, text: "Not answered: " + error.message };
  }
}

async function propose(order) {
  const planned = await post("/plan", order);
  if (!planned.is_done) { state.textContent = planned.text; return; }
  plan.querySelector("p").textContent = planned.text;
  plan.onclose = () => { if (plan.returnValue === "go") carryOut(order, planned.undo); };
  plan.returnValue = "";
  plan.showModal();
}

async function carryOut(order, back) {
  state.textContent = "Ordered: " + order.act + ", waiting for its end.";
  undo.hidden = true;
  const outcome = await post("/act", order);
  state.textContent = outcome.text;
  undo.hidden = !(outcome.is_done && back);
  undo.onclick = () => propose(back);
}

for (const button of plan.querySelectorAll("button")) button.addEventListener("click", () => plan.close(button.value));

const place = (element) => element?.closest("#cluster .box");
const mark = (box) => {
  for (const other of cluster.querySelectorAll(".over")) if (other !== box) other.classList.remove("over");
  box?.classList.add("over");
};
const move = (tile, box) => propose({ act: "migrate", job: tile.job, rank: tile.rank, to: box.dataset.node });
const about = (tile) => ({ key: tile.dataset.key, job: Number(tile.dataset.job), rank: Number(tile.dataset.rank) });

function hold(tile) {
  for (const other of cluster.querySelectorAll(".tile[aria-pressed=true]")) other.setAttribute("aria-pressed", "false");
  held = tile && held?.key !== tile.dataset.key ? about(tile) : null;
  if (held) tile.setAttribute("aria-pressed", "true");
  state.textContent = held ? `Rank ${held.rank} of job ${held.job}: choose its node.` : "Live.";
}

function drop() {
  dragged?.element.classList.remove("dragged");
  if (dragged) dragged.element.style.transform = "";
  dragged = null;
  mark(null);
  if (waiting !== null) showCluster(waiting);
  waiting = null;
}

cluster.addEventListener("pointerdown", (event) => {
  const tile = event.target.closest("button.tile");
  const head = !event.target.closest("button") && event.target.closest(".box h3");
  if (event.button !== 0 || !(tile || head)) return;
  event.preventDefault();
  dragged = { element: tile || place(head), tile: Boolean(tile), x: event.clientX, y: event.clientY, far: false };
});
addEventListener("pointermove", (event) => {
  if (!dragged) return;
  const [x, y] = [event.clientX - dragged.x, event.clientY - dragged.y];
  dragged.far ||= Math.hypot(x, y) > 6;
  if (!dragged.far) return;
  dragged.element.classList.add("dragged");
  dragged.element.style.transform = `translate(${x}px,${y}px)`;
  mark(dragged.tile ? place(document.elementFromPoint(event.clientX, event.clientY)) : null);
});
addEventListener("pointerup", (event) => {
  if (!dragged) return;
  const { element, tile, far } = dragged;
  const under = document.elementFromPoint(event.clientX, event.clientY);
  drop();
  if (tile && !far) { element.focus(); hold(element); }
  else if (tile && place(under)) move(about(element), place(under));
  else if (!tile && far && !under?.closest("#cluster .boxes")) propose({ act: "drain", node: element.dataset.node });
});
addEventListener("pointercancel", drop);

cluster.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches(".tile")) {
    if (event.detail === 0) hold(button);
    return;
  }
  const { act, node } = button?.dataset ?? {};
  const [job, to] = [Number(button?.dataset.job), Number(button?.dataset.to)];
  if (act === "show") location.hash = "job=" + job;
  else if (act === "drain") propose({ act, node });
  else if (act) propose({ act, job, to });
  else if (held && place(event.target)) { move(held, place(event.target)); hold(null); }
});
cluster.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hold(null);
  if (event.key.startsWith("Arrow") && event.target.matches(".tile,.box")) {
    event.preventDefault();
    step(event.target, event.key);
  }
  if (event.key === "Enter" && held && event.target.matches(".box")) { move(held, event.target); hold(null); }
});

// Left and right go to the next tile or box, up and down to the box above and below; with a tile held only to boxes.
function step(from, key) {
  const there = [...cluster.querySelectorAll(".box")];
  const columns = there.filter((box) => box.offsetTop === there[0].offsetTop).length;
  const isAside = key === "ArrowLeft" || key === "ArrowRight";
  const isTile = isAside && !held && from.matches(".tile");
  const all = isTile ? [...cluster.querySelectorAll("button.tile")] : there;
  const at = all.indexOf(isTile ? from : place(from));
  const far = isAside ? 1 : columns;
  all[at + (key === "ArrowRight" || key === "ArrowDown" ? far : -far)]?.focus();
}

follow();
addEventListener("hashchange", follow);
