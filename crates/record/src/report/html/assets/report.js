"use strict";
// The page without this script has all but the chart of attempts and the table of all tasks. With it: these, sorting, search,
// and the reader's own time.
// The form of the data is that of crates/record/src/report/data.rs.
(() => {
  const byId = (id) => document.getElementById(id);
  const { seconds, size, memory, requested } = words;

  // ---- tables: a click on a head sorts by the values in data-v, else by text
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.hasAttribute("data-plain")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, heads, column));
    });
  }

  function sort(table, heads, column) {
    const was = heads[column].getAttribute("aria-sort");
    const up = was ? was === "descending" : heads[column].classList.contains("t");
    const value = (row) => {
      const cell = row.cells[column];
      const text = cell.getAttribute("data-v");
      return text === null ? cell.textContent : text === "" ? -Infinity : Number(text);
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, index) => ({ row, index, value: value(row) }));
    rows.sort((a, b) => {
      const order = typeof a.value === "number" && typeof b.value === "number"
        ? (a.value < b.value ? -1 : a.value > b.value ? 1 : 0)
        : String(a.value).localeCompare(String(b.value), "en", { numeric: true });
      return (up ? order : -order) || a.index - b.index;
    });
    body.append(...rows.map((entry) => entry.row));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".scroll, figure.wide, figure.graph").forEach((it) => sideways(it));

  // ---- times: the reader's, and UTC under the pointer
  function local(date) {
    const two = (value) => String(value).padStart(2, "0");
    return date.getFullYear() + "-" + two(date.getMonth() + 1) + "-" + two(date.getDate()) + " " +
      two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds());
  }
  document.querySelectorAll("time[datetime]").forEach((element) => {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) return;
    element.title = element.textContent;
    element.textContent = local(date);
  });

  // ---- data
  const holder = byId("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);

  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  function reader(of) {
    let at = 0;
    const number = () => {
      let value = 0, scale = 1, byte;
      do { byte = of[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
      return value;
    };
    const signed = () => { const value = number(); return value % 2 ? -(value + 1) / 2 : value / 2; };
    const skip = (count) => { at += count; return of.subarray(at - count, at); };
    return { number, signed, skip, more: () => at < of.length };
  }

  // Texts as data.rs writes them: bytes in common with the text before, number of further bytes, these.
  function texts(read, count) {
    const decoder = new TextDecoder(), out = [];
    let before = new Uint8Array(0), text = "";
    for (let i = 0; i < count; i++) {
      const common = read.number();
      const rest = read.skip(read.number());
      if (rest.length || common !== before.length) {
        const whole = new Uint8Array(common + rest.length);
        whole.set(before.subarray(0, common));
        whole.set(rest, common);
        before = whole;
        text = decoder.decode(whole);
      }
      out.push(text);
    }
    return out;
  }

  // ---- the table of all tasks: only the rows that are seen are in the page
  function taskTable(of) {
    const holder = byId("task-table"), detail = byId("task-detail"), counted = byId("task-count");
    const field = byId("task-search"), choice = byId("task-status");
    const rows = of.rows;
    const text = (encoded) => texts(reader(bytes(encoded)), rows);
    const name = text(of.names), command = text(of.commands), reason = text(of.reasons);
    const number = new Uint32Array(rows), fate = new Uint8Array(rows);
    const keys = ["attempts", "group", "node", "exit", "start", "wall", "cpu", "rss", "wanted", "read", "written"];
    const value = {};
    for (const key of keys) value[key] = new Float64Array(rows);
    const read = reader(bytes(of.numbers));
    let at = 0;
    for (let i = 0; i < rows; i++) {
      at += read.signed();
      number[i] = at;
      fate[i] = read.number();
      for (const key of keys) value[key][i] = read.number() - 1;
      value.attempts[i]++;
    }
    const word = (list, index, pick) => index < 0 ? "" : pick ? pick(list[index]) : list[index];
    const status = (i) => of.fates[fate[i]];
    const rule = (i) => word(data.rules, value.group[i]);
    const node = (i) => word(data.nodes, value.node[i], (each) => each.name);
    const exit = (i) => word(of.exits, value.exit[i]).replace(/^status /, "");
    const known = (key, shown) => (i) => value[key][i] < 0 ? "" : shown(value[key][i]);
    const inMemory = (i) => known("rss", memory)(i) + (value.wanted[i] >= 0 ? (value.rss[i] < 0 ? "?" : "") + " of " + requested(value.wanted[i]) : "");
    // Title, width in px, text of a row, and what it is sorted by: numbers, or the text.
    const columns = [
      ["status", 88, status, fate], ["task", 200, (i) => name[i]], ["rule", 150, rule], ["node", 84, node],
      ["start", 80, known("start", (v) => seconds(v / 1e6)), value.start], ["wall", 80, known("wall", (v) => seconds(v / 1e6)), value.wall],
      ["CPU", 64, known("cpu", (v) => (v / 10).toFixed(0) + " %"), value.cpu], ["memory", 136, inMemory, value.rss],
      ["read", 76, known("read", size), value.read], ["written", 80, known("written", size), value.written],
      ["exit", 70, exit], ["command", 320, (i) => command[i]], ["reason", 260, (i) => reason[i]],
    ];
    const numeric = (column) => columns[column].length > 3 && column > 0;
    const element = (kind, name_, parent) => {
      const made = document.createElement(kind);
      if (name_) made.className = name_;
      if (parent) parent.append(made);
      return made;
    };
    const NAMES = ["task", "rule", "node"];
    const shownAs = columns.map((column, c) => [column[0], column[1], column[2], numeric(c) ? "n" : NAMES.includes(column[0]) ? "name" : ""]);
    const table = virtual(holder, shownAs, {
      id: (i) => i, open: pick, stay: true,
      mark: (line, i) => line.children[0].classList.toggle("bad", fate[i] < 2),
      title(cell, c) {
        const button = element("button", "", cell);
        button.type = "button";
        button.textContent = columns[c][0];
        button.addEventListener("click", () => sortBy(c));
      },
    });

    let order = Uint32Array.from({ length: rows }, (_, i) => i), shown = order, sorted = -1, up = true, picked = -1;
    const places = new Map();
    // Of a column of texts: the place of each row's text among all.
    function place(column) {
      if (!places.has(column)) {
        const collator = new Intl.Collator("en", { numeric: true });
        const of_row = columns[column][2], distinct = new Map();
        for (let i = 0; i < rows; i++) distinct.set(of_row(i), 0);
        [...distinct.keys()].sort(collator.compare).forEach((text_, index) => distinct.set(text_, index));
        places.set(column, Float64Array.from({ length: rows }, (_, i) => distinct.get(of_row(i))));
      }
      return places.get(column);
    }

    function sortBy(column) {
      up = sorted === column ? !up : !numeric(column);
      sorted = column;
      const key = columns[column][3] || place(column);
      order = Uint32Array.from({ length: rows }, (_, i) => i);
      order.sort((a, b) => (up ? key[a] - key[b] : key[b] - key[a]) || a - b);
      [...table.head.children].forEach((cell, i) => {
        if (i === column) cell.setAttribute("aria-sort", up ? "ascending" : "descending"); else cell.removeAttribute("aria-sort");
      });
      filter();
    }

    let haystack = null;
    function filter() {
      const words = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = choice.value;
      if (words.length && !haystack) {
        haystack = new Array(rows);
        for (let i = 0; i < rows; i++) haystack[i] = [name[i], rule(i), node(i), command[i], reason[i], status(i), exit(i)].join("\n").toLowerCase();
      }
      shown = !words.length && !wanted ? order
        : order.filter((i) => (!wanted || status(i) === wanted) && words.every((part) => haystack[i].includes(part)));
      counted.textContent = (shown.length === rows ? "" : shown.length.toLocaleString("en") + " of ") + rows.toLocaleString("en") +
        (rows === 1 ? " task" : " tasks") + (of.tasks > rows ? " (the run has " + of.tasks.toLocaleString("en") + ")" : "");
      table.top();
      table.show(shown.length, (k) => shown[k]);
      table.paint();
    }

    // Shows the whole of a row; of the one that is shown, and of none, nothing any more.
    function pick(i) {
      picked = i === null || picked === i ? -1 : i;
      detail.hidden = picked < 0;
      detail.replaceChildren();
      if (picked >= 0) {
        const list = element("dl", "pairs", detail);
        const pair = (title, text_) => {
          if (!text_) return;
          element("dt", "", list).textContent = title;
          element("code", "", element("dd", "", list)).textContent = text_;
        };
        columns.forEach((column) => pair(column[0], column[2](i)));
        pair("attempts", value.attempts[i] > 1 ? String(value.attempts[i]) : "");
        if (value.start[i] >= 0) {
          const date = new Date(data.start_ms + value.start[i] / 1000);
          pair("started", local(date));
          list.lastChild.title = date.toISOString().replace("T", " ").slice(0, 19) + " UTC";
        }
      }
      table.pick(picked);
      if (picked >= 0) detail.scrollIntoView({ block: "nearest" });
    }

    const there = new Set(fate);
    [...new Set(of.fates.filter((_, i) => there.has(i)))].forEach((word_) => {
      const option = element("option", "", choice);
      option.textContent = option.value = word_;
    });
    let later_ = 0;
    field.addEventListener("input", () => { clearTimeout(later_); later_ = setTimeout(filter, rows > 20000 ? 120 : 0); });
    choice.addEventListener("change", filter);
    filter();
  }

  document.querySelectorAll("[data-script]").forEach((part) => { part.hidden = false; });
  if (data.table && byId("task-table")) taskTable(data.table);

  // ---- the chart of attempts
  const canvas = byId("chart");
  if (!canvas) return;
  const first = [];
  let lanes = 0;
  for (const node of data.nodes) { first.push(lanes); lanes += node.lanes; }
  const rows = data.rows || lanes;
  const count = data.spans ? data.pieces : 0; // times in which an attempt had its cores: mostly one for each
  const start = new Float64Array(count), length = new Float64Array(count);
  const lane = new Uint32Array(count), rule = new Uint32Array(count), task = new Uint32Array(count);
  const cores = new Uint16Array(count), flags = new Uint32Array(count), nodeOf = new Uint16Array(count);
  const inRow = Array.from({ length: count ? lanes : 0 }, () => []);
  if (count) {
    const read = reader(bytes(data.spans));
    let at = 0, number = 0;
    for (let i = 0; i < count; i++) {
      at += read.number();
      start[i] = at / 1e6;
      length[i] = read.number() / 1e6;
      nodeOf[i] = read.number();
      lane[i] = first[Math.min(nodeOf[i], first.length - 1)] + read.number();
      cores[i] = Math.max(1, read.number());
      rule[i] = read.number();
      flags[i] = read.number();
      number += read.signed();
      task[i] = number;
      for (let c = 0; c < cores[i] && lane[i] + c < lanes; c++) inRow[lane[i] + c].push(i);
    }
  }

  let names = null;
  function name(number) {
    if (!names) {
      names = new Map();
      const read = reader(bytes(data.names || ""));
      const decoder = new TextDecoder();
      let before = new Uint8Array(0), at = 0;
      while (read.more()) {
        at += read.number();
        const common = read.number();
        const rest = read.skip(read.number());
        const whole = new Uint8Array(common + rest.length);
        whole.set(before.subarray(0, common));
        whole.set(rest, common);
        names.set(at, decoder.decode(whole));
        before = whole;
      }
    }
    return names.get(number) || "task " + number;
  }

  // ---- chart: `from` and `to` are the seconds shown
  const LEFT = 56, TOP = 8, BOTTOM = 40;
  const all = data.seconds > 0 ? data.seconds : 1;
  let from = 0, to = all, wide = 0, high = 0, drawn = false, marked = null;
  const box = byId("gantt"), tip = byId("tip"), path = byId("critical-path-shown");
  const row = Math.max(1, Math.min(24, Math.floor(560 / Math.max(1, rows))));
  const endings = ["done", "failed", "failed, made anew", "ended because of others", "had not ended"];

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (variable) => style.getPropertyValue(variable).trim();
    return { rules: Array.from({ length: 10 }, (_, i) => of("--c" + i)), bad: of("--bad"), ink: of("--ink"),
      soft: of("--soft"), grid: of("--grid"), ground: of("--ground"), line: of("--line") };
  }

  function later() {
    if (!drawn) return;
    drawn = false;
    requestAnimationFrame(draw);
  }

  function draw() {
    drawn = true;
    const paint = colours();
    const scale = window.devicePixelRatio || 1;
    wide = box.clientWidth;
    high = TOP + row * rows + BOTTOM;
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(high * scale);
      canvas.style.height = high + "px";
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, wide, high);
    axes(context, paint);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, wide - LEFT, high);
    context.clip();
    if (count) drawSpans(context, paint); else drawCells(context, paint);
    context.restore();
  }

  const x = (at) => LEFT + (wide - LEFT) * (at - from) / (to - from);

  function step(range, most) {
    const power = 10 ** Math.floor(Math.log10(range / most));
    return [1, 2, 5, 10].map((times) => times * power).find((value) => value >= range / most * 0.999);
  }

  function axes(context, paint) {
    const bottom = TOP + row * rows;
    const range = to - from;
    const [unit, of] = range >= 345600 ? ["days", 86400] : range >= 14400 ? ["h", 3600] : range >= 600 ? ["min", 60]
      : range >= 0.5 ? ["s", 1] : range >= 5e-4 ? ["ms", 1e-3] : ["µs", 1e-6];
    const every = step(range / of, Math.max(2, (wide - LEFT) / 90)) * of;
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.fillStyle = paint.soft;
    context.strokeStyle = paint.grid;
    context.textAlign = "center";
    for (let i = Math.ceil(from / every - 1e-9); i * every <= to * (1 + 1e-9); i++) {
      const at = x(i * every);
      line(context, at, TOP, at, bottom);
      const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(every / of) + 1e-9)));
      if (at < wide - 12) context.fillText((i * every / of).toFixed(digits), Math.max(at, LEFT + 4), bottom + 15);
    }
    context.fillText("time since start / " + unit, LEFT + (wide - LEFT) / 2, bottom + 32);
    context.textAlign = "left";
    context.strokeStyle = paint.line;
    data.nodes.forEach((node, i) => {
      const y = TOP + row * first[i] / (data.in_row || 1);
      line(context, 0, y, wide, y);
      if (node.lanes * row / (data.in_row || 1) < 12) return;
      context.save();
      context.beginPath();
      context.rect(0, y, LEFT - 4, row * node.lanes);
      context.clip();
      context.fillText(words.short(context, node.name, LEFT - 12), 6, y + 13);
      context.restore();
    });
    line(context, 0, bottom, wide, bottom);
  }

  function line(context, x1, y1, x2, y2) {
    context.beginPath();
    context.moveTo(x1, Math.round(y1) + 0.5);
    context.lineTo(x2, Math.round(y2) + 0.5);
    context.stroke();
  }

  // The first attempt of a row that ends after `at`: attempts of a row do not overlap, so they end in order.
  function search(list, at) {
    let low = 0, top = list.length;
    while (low < top) {
      const middle = (low + top) >> 1;
      if (start[list[middle]] + length[list[middle]] < at) low = middle + 1; else top = middle;
    }
    return low;
  }

  const isBad = (i) => (flags[i] & 7) >= 1 && (flags[i] & 7) <= 3;
  const isDim = (i) => marked ? !marked.has(i) : path && path.checked && !(flags[i] & 8);

  function drawSpans(context, paint) {
    const height = row > 5 ? row - 1 : row;
    const dim = (marked && marked.size) || (path && path.checked);
    for (let r = 0; r < lanes; r++) {
      const list = inRow[r];
      const y = TOP + r * row;
      let pixel = -1, covered = 0, colour = "", strong = false;
      const flush = () => {
        if (pixel < 0 || !covered) return;
        context.globalAlpha = Math.min(1, strong ? 1 : Math.max(0.25, covered)) * (dim && !strong ? 0.18 : 1);
        context.fillStyle = colour;
        context.fillRect(pixel, y, 1, height);
        covered = 0; strong = false;
      };
      for (let k = search(list, from); k < list.length; k++) {
        const i = list[k];
        if (start[i] > to) break;
        const left = Math.max(x(start[i]), LEFT - 1), right = Math.min(x(start[i] + length[i]), wide + 1);
        const paintOf = isBad(i) ? paint.bad : paint.rules[data.colours[rule[i]]];
        const lit = dim && !isDim(i);
        if (right - left >= 1.5) {
          flush();
          pixel = -1;
          context.globalAlpha = dim && !lit ? 0.18 : (flags[i] & 7) === 4 ? 0.55 : 1;
          context.fillStyle = paintOf;
          context.fillRect(left, y, right - left > 4 ? right - left - 0.6 : right - left, height);
          continue;
        }
        const at = Math.floor(left);
        if (at !== pixel) { flush(); pixel = at; colour = ""; }
        covered += right - left;
        if (!colour || lit || isBad(i)) colour = strong && !lit ? colour : paintOf;
        strong = strong || lit || isBad(i);
      }
      flush();
    }
    context.globalAlpha = 1;
  }

  let cells = null;
  function drawCells(context, paint) {
    if (!data.cell_colours) return;
    cells = cells || { colour: bytes(data.cell_colours), busy: bytes(data.cell_busy) };
    const every = all / data.columns;
    for (let r = 0; r < rows; r++) {
      for (let c = Math.max(0, Math.floor(from / every)); c < data.columns && c * every < to; c++) {
        const at = r * data.columns + c;
        if (!cells.busy[at]) continue;
        context.globalAlpha = Math.max(0.1, cells.busy[at] / 255);
        context.fillStyle = paint.rules[cells.colour[at] - 1];
        const left = Math.round(x(c * every));
        context.fillRect(left, TOP + r * row, Math.round(x((c + 1) * every)) - left, row);
      }
    }
    context.globalAlpha = 1;
  }

  // ---- zoom and pan
  function show(a, b) {
    const range = Math.min(all, Math.max(b - a, 1e-5));
    const low = Math.min(Math.max(0, a), all - range);
    from = low; to = low + range;
    later();
  }

  function zoom(factor, at) {
    const centre = at === undefined ? (from + to) / 2 : at;
    show(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  const timeAt = (px) => from + (to - from) * (px - LEFT) / (wide - LEFT);
  const place = (event) => { const rect = canvas.getBoundingClientRect(); return [event.clientX - rect.left, event.clientY - rect.top]; };

  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === canvas)) return;
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    zoom(Math.exp(Math.max(-1, Math.min(1, delta / 300))), timeAt(place(event)[0]));
  }, { passive: false });

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    grip = { x: place(event)[0], from, to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (grip) {
      const move = (grip.x - px) / (wide - LEFT) * (grip.to - grip.from);
      show(grip.from + move, grip.to + move);
    }
    hover(px, py);
  });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("dblclick", (event) => zoom(0.25, timeAt(place(event)[0])));
  canvas.addEventListener("keydown", (event) => {
    const range = to - from;
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(0, all), Home: () => show(0, range),
      End: () => show(all - range, all), ArrowLeft: () => show(from - range / 4, to - range / 4), ArrowRight: () => show(from + range / 4, to + range / 4) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });

  // ---- what is under the pointer
  function under(px, py) {
    const r = Math.floor((py - TOP) / row);
    if (!count || r < 0 || r >= lanes || px < LEFT) return -1;
    const list = inRow[r];
    const reach = 2 * (to - from) / (wide - LEFT);
    const at = timeAt(px);
    let best = -1, distance = reach;
    for (let k = Math.max(0, search(list, at - reach)); k < list.length; k++) {
      const i = list[k];
      if (start[i] > at + reach) break;
      const off = at < start[i] ? start[i] - at : at > start[i] + length[i] ? at - start[i] - length[i] : 0;
      if (off <= distance) { best = i; distance = off; if (!off) break; }
    }
    return best;
  }

  // The times of the attempt of each piece: when each begins, and how long it is.
  let attempts = null;
  const attemptOf = (i) => task[i] + "/" + (flags[i] >> 4);
  function times(i) {
    if (!attempts) {
      attempts = new Map();
      for (let k = 0; k < count; k++) {
        if (!attempts.has(attemptOf(k))) attempts.set(attemptOf(k), new Map());
        attempts.get(attemptOf(k)).set(start[k], length[k]);
      }
    }
    return [...attempts.get(attemptOf(i)).values()];
  }

  function describe(i) {
    const node = data.nodes[Math.min(nodeOf[i], data.nodes.length - 1)];
    const slot = lane[i] - first[Math.min(nodeOf[i], first.length - 1)];
    const attempt = flags[i] >> 4, parts = times(i);
    const took = parts.reduce((sum, part) => sum + part, 0);
    return [name(task[i]), data.rules[rule[i]],
      "from " + seconds(start[i]) + ", took " + seconds(took) + (parts.length > 1 ? " in " + parts.length + " parts, " : ", ") + endings[flags[i] & 7] + (attempt ? ", attempt " + (attempt + 1) : ""),
      node.name + ", slot " + slot + (cores[i] > 1 ? " to " + (slot + cores[i] - 1) : "") + (flags[i] & 8 ? ", on the critical path" : "")];
  }

  function hover(px, py) {
    let text = null;
    if (count) {
      const i = under(px, py);
      if (i >= 0) text = describe(i);
    } else if (cells && px >= LEFT) {
      const c = Math.floor(timeAt(px) / all * data.columns), r = Math.floor((py - TOP) / row), at = r * data.columns + c;
      if (r >= 0 && r < rows && c >= 0 && c < data.columns && cells.busy[at]) {
        text = [Math.round(cells.busy[at] / 2.55) + " % busy", "at " + seconds(c * all / data.columns)];
      }
    }
    tip.style.display = text ? "block" : "none";
    if (!text) return;
    const strong = document.createElement("b");
    strong.textContent = text[0];
    tip.replaceChildren(strong, ...text.slice(1).map((part) => { const div = document.createElement("div"); div.textContent = part; return div; }));
    tip.style.left = Math.max(4, Math.min(px + 14, wide - tip.offsetWidth - 8)) + "px";
    tip.style.top = (py + 18 + tip.offsetHeight > high ? Math.max(2, py - tip.offsetHeight - 10) : py + 18) + "px";
  }

  // ---- search
  const field = byId("search"), found = byId("found");
  const LISTED = 50;
  function find() {
    const wanted = field.value.trim().toLowerCase();
    found.replaceChildren();
    marked = null;
    if (wanted && count) {
      marked = new Set();
      for (let i = 0; i < count; i++) if (name(task[i]).toLowerCase().includes(wanted)) marked.add(i);
      const head = document.createElement("div");
      head.className = "soft";
      const seen = new Map();
      for (const i of marked) if (!seen.has(attemptOf(i))) seen.set(attemptOf(i), i);
      head.textContent = seen.size + (seen.size === 1 ? " attempt" : " attempts") + (seen.size > LISTED ? "; the first " + LISTED + ":" : "");
      found.append(head);
      let listed = 0;
      for (const i of seen.values()) {
        if (listed++ >= LISTED) break;
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = describe(i).slice(0, 3).join(" · ");
        button.addEventListener("click", () => show(start[i] - length[i] - 1e-4, start[i] + 2 * length[i] + 1e-4));
        found.append(button);
      }
      if (!marked.size) marked = null;
    }
    later();
  }

  byId("zoom-in").addEventListener("click", () => zoom(0.5));
  byId("zoom-out").addEventListener("click", () => zoom(2));
  byId("zoom-all").addEventListener("click", () => show(0, all));
  if (path) path.addEventListener("change", later);
  if (field) field.addEventListener("input", find);
  new ResizeObserver(later).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);

  // `#gantt=12.5,20` shows these seconds.
  function fragment() {
    const match = /^#gantt=([\d.]+),([\d.]+)$/.exec(location.hash);
    if (match) { show(Number(match[1]), Number(match[2])); box.scrollIntoView(); }
  }
  addEventListener("hashchange", fragment);
  draw();
  fragment();
})();
