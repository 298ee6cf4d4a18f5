"use strict";
// What stands around a task, drawn: on the left what it needs, on the right what needs it, each in the colour of its state. It
// is given what the server told of the task, and who is to hear of a click; it asks nobody. The lists beside it say the same.
const around = (() => {
  const BESIDE_MAX = 20;
  const BOX = 200, GAP = 68, NARROW_GAP = 36, MARGIN = 2, ROW = 28, HIGH = 22;
  // Smallest and largest px of the page for one of the picture: letters stay readable, and do not grow past those of the page.
  const SCALE_MIN = 0.76, SCALE_MAX = 1.03;
  // Other states have the colour of what has not begun.
  const COLOURS = { done: "good", "up to date": "good", "without an action": "good", running: "now", failed: "bad", "not run": "bad", abandoned: "bad", stopped: "bad" };

  function shape(kind, parent, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }
  const pen = document.createElement("canvas").getContext("2d");
  function short(name) {
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    return words.short(pen, name, BOX - 16);
  }

  // A task, at a place; `pick` is left out of what cannot be chosen.
  function box(picture, x, y, name, state, pick) {
    const group = shape("g", picture, { class: "task " + (COLOURS[state] || "later") });
    shape("title", group, {}, name + ": " + state);
    shape("rect", group, { x, y, width: BOX, height: HIGH, rx: 4 });
    shape("text", group, { x: x + 8, y: y + 15 }, short(name));
    if (!pick) return;
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "0");
    group.addEventListener("click", pick);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(); });
  }

  function edge(picture, fromX, fromY, toX, toY) {
    const middle = (fromX + toX) / 2;
    shape("path", picture, { class: "edge", d: `M${fromX} ${fromY}C${middle} ${fromY} ${middle} ${toY} ${toX} ${toY}` });
  }

  // A figure with it, or null where there is nothing around the task. `pick` gets the number of a task.
  return (told, pick) => {
    const none = { count: 0, list: [] };
    const sides = [told.needs || told.waits_for || none, told.needed_by || none].map((of) => {
      const list = of.list.slice(0, BESIDE_MAX);
      return { list, more: of.count - list.length, rows: list.length + (of.count > list.length ? 1 : 0) };
    });
    const rows = Math.max(1, ...sides.map((side) => side.rows));
    if (!sides.some((side) => side.rows)) return null;
    // A side on which nothing stands has no column.
    const gap = sides.every((side) => side.rows) ? GAP : NARROW_GAP;
    const own = MARGIN + (sides[0].rows ? BOX + gap : 0), wide = own + BOX + (sides[1].rows ? gap + BOX : 0) + MARGIN;
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("viewBox", `0 0 ${wide} ${rows * ROW}`);
    picture.setAttribute("role", "group");
    picture.setAttribute("aria-label", "what " + told.name + " needs, and what needs it");
    picture.style.minWidth = Math.floor(wide * SCALE_MIN) + "px";
    picture.style.maxWidth = Math.ceil(wide * SCALE_MAX) + "px";
    const middle = rows * ROW / 2;
    sides.forEach((side, k) => {
      const x = k ? own + BOX + gap : MARGIN, first = middle - side.rows * ROW / 2;
      side.list.forEach(([number, name, state], i) => {
        const y = first + i * ROW + (ROW - HIGH) / 2;
        if (k) edge(picture, own + BOX, middle, x, y + HIGH / 2); else edge(picture, x + BOX, y + HIGH / 2, own, middle);
        box(picture, x, y, name, state, number === null ? null : () => pick(number));
      });
      if (side.more > 0) shape("text", picture, { x: x + 8, y: first + side.list.length * ROW + 18 }, "and " + side.more.toLocaleString("en") + " more");
    });
    box(picture, own, middle - HIGH / 2, told.name, told.status);
    // Where the window is narrower than the picture, the task itself is what is seen first.
    const figure = document.createElement("figure");
    figure.className = "graph around";
    figure.append(picture);
    const centre = (own + BOX / 2) / wide;
    new ResizeObserver(() => { figure.scrollLeft = centre * picture.getBoundingClientRect().width - figure.clientWidth / 2; }).observe(figure);
    return sideways(figure);
  };
})();
