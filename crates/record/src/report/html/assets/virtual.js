"use strict";
// A table of any number of rows, of both pages: only those that are seen are in the page, filled anew while one scrolls.
// It does not know what they are: `at` gives what stands in a row, and columns say what of it they show.
//
// Where the first two columns are to stay in sight they are shown once more, above the rows, in one element that sticks.
// Sticky cells in each row were tried: Chromium gives each a layer, and took two to three frames for one.
//
// holder: the element; its id begins those of its rows. columns: title, width in px, text of an entry, class of cells, and
// whether the column takes of spare width; the last one always does, one that stays never. Of a cell of the class "name" the middle is left out where
// it has no room, since names differ at their ends; the pointer shows what is not seen whole.
// id: what an entry is known by; open: called with an entry that is chosen, and with null for Escape; mark: may change
// classes of a row; title: fills a cell of the head; stay: the first two columns stay in sight.
var virtual = (holder, columns, { id, open, mark = () => {}, title, stay = false }) => {
  const ROW = 28, HEAD = 32, MORE = 6;
  const END = 12; // letters of a name that are kept at its end
  const make = (parent, kind, name, role) => {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (role) made.setAttribute("role", role);
    parent.append(made);
    return made;
  };
  const set = (node, text) => { if (node.data !== text) node.data = text; };
  const aText = (parent) => parent.appendChild(document.createTextNode(""));
  // What fills a cell. The end of a name is an element of its own, which keeps its width.
  const cells = (line, of, role) => of.map((column, c) => {
    const cell = make(line, "span", [column[3], stay && c < 2 && role === "columnheader" && "stay"].filter(Boolean).join(" "), role);
    if (column[3] !== "name" || role === "columnheader") {
      const text = aText(cell);
      return (value) => set(text, value);
    }
    const first = aText(make(cell, "span", "first")), last = aText(make(cell, "span", "last"));
    return (value) => {
      let at = value.length > 2 * END ? value.length - END : value.length;
      if (/[\udc00-\udfff]/.test(value[at] || "")) at--;
      set(first, value.slice(0, at));
      set(last, value.slice(at));
    };
  });

  holder.setAttribute("role", "grid");
  for (const c of [0, 1]) holder.style.setProperty("--column" + c, columns[c][1] + "px");
  const head = make(holder, "div", "virtual-head", "row");
  const space = make(holder, "div", "virtual-space", "rowgroup");
  const sheet = make(space, "div", "virtual-sheet", "none"), body = make(sheet, "div", "", "none");
  const pane = make(sheet, "div", "virtual-pane");
  pane.setAttribute("aria-hidden", "true");
  pane.hidden = true;
  const template = columns.map(([, width, , , grows], c) =>
    (grows && !(stay && c < 2)) || c === columns.length - 1 ? `minmax(${width}px, 1fr)` : width + "px").join(" ");
  head.style.gridTemplateColumns = template;
  head.style.width = space.style.width = "max(100%, " + columns.reduce((sum, column) => sum + column[1], 0) + "px)";
  cells(head, columns, "columnheader").forEach((fill, c) => {
    if (title) title(head.children[c], c); else fill(columns[c][0]);
  });

  // `current` is the row that keys move from, by place and by id; `picked` that which is shown whole.
  let count = 0, at = () => null, waiting = false, stopped = false, current = -1, current_id = -1, picked = -1, over = -1;
  const lines = [];
  // The cell under the pointer: its text as its title where that is not seen whole.
  let pointed = null;
  function tell() {
    const cut = [pointed, ...pointed.children].some((it) => it.scrollWidth > it.clientWidth + 1 && it.className !== "last");
    const text = cut ? pointed.textContent : "";
    if (pointed.title !== text) pointed.title = text;
  }
  function aLine() {
    const row = make(body, "div", "virtual-row", "row");
    row.style.gridTemplateColumns = template;
    row.id = holder.id + "-" + lines.length;
    const copy = stay ? make(pane, "div", "virtual-copy") : null;
    return { row, copy, texts: cells(row, columns, "gridcell"), copies: copy ? cells(copy, columns.slice(0, 2)) : [] };
  }

  function paint() {
    waiting = false;
    if (stopped) return;
    const high = count * ROW + "px";
    if (space.style.height !== high) { space.style.height = high; holder.setAttribute("aria-rowcount", count + 1); }
    const from = Math.max(0, Math.floor(holder.scrollTop / ROW) - MORE);
    const shown = Math.max(0, Math.min(count - from, Math.ceil(holder.clientHeight / ROW) + 2 * MORE));
    const aside = stay && holder.scrollLeft > 0;
    while (lines.length < shown) lines.push(aLine());
    if (pane.hidden === aside) pane.hidden = !aside;
    sheet.style.top = from * ROW + "px";
    let active = "";
    lines.forEach(({ row, copy, texts, copies }, k) => {
      const hidden = k >= shown;
      if (row.hidden !== hidden) { row.hidden = hidden; if (copy) copy.hidden = hidden; }
      if (hidden) return;
      const entry = at(from + k), is_current = from + k === current;
      if (is_current) active = row.id;
      row.setAttribute("aria-rowindex", from + k + 2);
      row.setAttribute("aria-selected", id(entry) === picked);
      texts.forEach((fill, c) => fill(columns[c][2](entry)));
      if (aside) copies.forEach((fill, c) => fill(columns[c][2](entry)));
      for (const line of aside ? [row, copy] : [row]) {
        line.dataset.row = id(entry);
        line.classList.toggle("picked", id(entry) === picked);
        line.classList.toggle("current", is_current);
        line.classList.toggle("over", k === over);
        mark(line, entry);
      }
    });
    if (pointed) tell();
    if (active) holder.setAttribute("aria-activedescendant", active); else holder.removeAttribute("aria-activedescendant");
  }
  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };
  holder.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(holder);

  // Makes a row the current one, and brings it into sight.
  function go(place) {
    current = Math.max(0, Math.min(count - 1, place));
    current_id = id(at(current));
    const top = current * ROW, room = holder.clientHeight - HEAD - ROW;
    if (holder.scrollTop > top) holder.scrollTop = top; else if (holder.scrollTop < top - room) holder.scrollTop = top - room;
    later();
  }
  // Entries may have moved, or be gone.
  function find() {
    if (current < 0 || (current < count && id(at(current)) === current_id)) return;
    let place = 0;
    while (place < count && id(at(place)) !== current_id) place++;
    current = place < count ? place : -1;
  }

  holder.addEventListener("keydown", (event) => {
    if (event.target !== holder || !count || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor((holder.clientHeight - HEAD) / ROW) - 1), first = Math.ceil(holder.scrollTop / ROW);
    const step = (by) => () => go(current < 0 ? first : current + by);
    const chosen = () => { if (current >= 0) open(at(current)); };
    const keys = { ArrowDown: step(1), ArrowUp: step(-1), PageDown: step(page), PageUp: step(-page), Home: () => go(0),
      End: () => go(count - 1), Enter: chosen, " ": chosen, Escape: () => open(null) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  const number = (event) => {
    const line = event.target.closest(".virtual-row, .virtual-copy");
    return line ? [...line.parentNode.children].indexOf(line) : -1;
  };
  space.addEventListener("click", (event) => {
    const k = number(event);
    if (k < 0 || String(getSelection())) return;
    go(Number(lines[k].row.getAttribute("aria-rowindex")) - 2);
    open(at(current));
  });
  space.addEventListener("pointerover", (event) => {
    over = number(event);
    pointed = event.target.closest(".virtual-row > span, .virtual-copy > span");
    later();
  });
  space.addEventListener("pointerleave", () => { over = -1; pointed = null; later(); });
  sideways(holder);

  return {
    head, paint, later,
    show(of, entry) { count = of; at = entry; find(); later(); },
    pick(picked_) { picked = picked_; later(); },
    top() { current = -1; holder.scrollTop = 0; },
    stop() { stopped = true; },
  };
};
