
// The cluster: tiles and boxes are taken up with a mouse, a finger or the keyboard. Every order shows its plan first.
const cluster = document.getElementById("cluster");
const plan = document.getElementById("plan");
const undo = document.getElementById("undo");
let dragged = null;
let held = null;
let waiting = null;

function showCluster(html) {
  if (dragged) { waiting = html; return; }
  const before = new Map();
  for (const tile of cluster.querySelectorAll("[data-key]")) before.set(tile.dataset.key, tile.getBoundingClientRect());
  const focused = document.activeElement?.dataset?.key;
  const next = document.createElement("template");
  next.innerHTML = html;
  if (held) next.content.querySelector(`[data-key="${held.key}"]`)?.setAttribute("aria-pressed", "true");
  merge(cluster, next.content);
  if (focused) cluster.querySelector(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const moves = [];
  for (const tile of cluster.querySelectorAll("[data-key]")) {
    const was = before.get(tile.dataset.key);
    const now = was && tile.getBoundingClientRect();
    const [x, y] = was ? [was.left - now.left, was.top - now.top] : [0, 0];
    if (x || y) moves.push([tile, x, y]);
  }
  for (const [tile, x, y] of moves) {
    tile.animate([{ transform: `translate(${x}px,${y}px)` }, { transform: "none" }], 350);
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
  if (act === "show") post("/act", { act, job });
  else if (act === "drain") propose({ act, node });
  else if (act) propose({ act, job, to });
  else if (held && place(event.target)) { move(held, place(event.target)); hold(null); }
});
cluster.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hold(null);
  if (event.key === "Enter" && held && event.target.matches(".box")) { move(held, event.target); hold(null); }
});
