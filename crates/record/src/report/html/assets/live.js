"use strict";
// The live page: asks its server for the run with the token of its address, takes what has changed once a second, and keeps only
// the rows in the page that are seen. The server answers in the form of crates/record/src/live and docs/reference/json.md.
(() => {
  const byId = (id) => document.getElementById(id);
  const { seconds, size, memory, requested } = words;

  // ---- the token: from the address, once; then it is the tab's
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("token", given[1]);
    history.replaceState(null, "", location.pathname);
  }
  const token = sessionStorage.getItem("token");
  const ask = (path) => fetch(path, { headers: { Authorization: "Bearer " + token }, cache: "no-store" });

  const many = (value) => (value || 0).toLocaleString("en");

  function element(kind, parent, text, name) {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text !== undefined && text !== null) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }
  // Changes what differs, so that a page that stands still costs nothing.
  const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  function tell(text) {
    const note = byId("note");
    note.hidden = !text;
    set(note, text || "");
  }

  // ---- what is known of the run
  const NUMBER = 0, NAME = 1, RULE = 2, NODE = 3, STATUS = 4, START = 6, WALL = 7, EXIT = 8, COMMAND = 9, FAILED = 10;
  const rows = new Map();      // number of a task => its row
  const list = [];             // rows, in the order in which they came first; a row keeps its place
  const running = new Map(), failed = new Map();
  const labels = new Map();    // key of a rule => its label
  let since = 0, status = null, about = null, ended = null, told_at = 0;
  const now_s = () => (status ? status.now_s + (ended ? 0 : (performance.now() - told_at) / 1000) : 0);
  const label = (row) => labels.get(row[RULE]) || row[RULE] || "";

  function take(news) {
    if (news.run) { about = news.run; showAbout(); }
    for (const row of news.rows || []) {
      const known = rows.get(row[NUMBER]);
      if (known) { row.place = known.place; list[row.place] = row; } else { row.place = list.length; list.push(row); }
      rows.set(row[NUMBER], row);
      if (row[STATUS] === "running") running.set(row[NUMBER], row); else running.delete(row[NUMBER]);
      if (row[STATUS] === "failed") failed.set(row[NUMBER], row); else failed.delete(row[NUMBER]);
      all.changed(row, !known);
    }
    if (news.since) since = news.since;
    if (news.tables) showTables(news.tables);
    if (news.status) { status = news.status; told_at = performance.now(); showStatus(); }
    if (!news.more) { showRunning(); showFailed(); all.paint(); }
    if (news.ended) becomeReport(news.ended);
  }

  // ---- the head
  function showAbout() {
    document.title = about.command_line;
    set(byId("title"), about.command_line);
    set(byId("about"), "Run " + about.run + " in " + about.directory + " on " + about.host);
  }

  const cards = new Map();
  function card(name, value, more) {
    if (!cards.has(name)) {
      const box = element("div", byId("cards"), null, "card");
      element("dt", box, name);
      cards.set(name, [element("dd", box), element("dd", box)]);
    }
    set(cards.get(name)[0], value);
    set(cards.get(name)[1], more || "");
  }

  function left() {
    const it = status.left;
    if (status.stopping) return ["stopping", status.next_signal ? status.next_signal.name + " in " + seconds(status.next_signal.in_s) : ""];
    if (!it) return ["?", "nothing to go by yet"];
    if (it.unknown_tasks) return ["≥ " + seconds(it.low_s), "nothing is known of " + many(it.unknown_tasks) + (it.unknown_tasks === 1 ? " task" : " tasks")];
    return [seconds(it.s), seconds(it.low_s) + " to " + seconds(it.high_s)];
  }

  let busy = 0;
  function showStatus() {
    const cores = status.nodes.filter((node) => node.state === "up").reduce((sum, node) => sum + node.cores, 0);
    set(byId("state"), status.stopping ? "stopping" : "running");
    card("Tasks done", many(status.done) + " of " + many(status.total), (status.total ? Math.floor(100 * status.done / status.total) : 0) + " %");
    card("Running", many(status.running), many(status.queued) + " queued");
    card("Cores in use", many(busy) + " of " + many(cores), cores ? Math.round(100 * busy / cores) + " %" : "");
    card("Failed", many(status.failed), status.abandoned ? many(status.abandoned) + " not run because of them" : "");
    card("Rate", status.rate_per_s.toFixed(1) + "/s", "tasks done, lately");
    card("Left", ...left());
    card("Makespan", seconds(now_s()), "so far");
    cards.get("Failed")[0].classList.toggle("bad", status.failed > 0);
    const bar = byId("bar");
    bar.setAttribute("aria-valuenow", status.done);
    bar.setAttribute("aria-valuemax", status.total);
    bar.firstElementChild.style.width = (status.total ? 100 * status.done / status.total : 0) + "%";
    showNodes();
    showRounds();
  }

  // ---- tables of few rows
  function fill(body, entries, cells) {
    while (body.rows.length > entries.length) body.deleteRow(-1);
    entries.forEach((entry, i) => {
      const line = body.rows[i] || body.insertRow();
      cells(entry).forEach(([text, name, title], c) => {
        const cell = line.cells[c] || line.insertCell();
        if (cell.className !== (name || "")) cell.className = name || "";
        set(cell, text);
        if (title !== undefined && cell.title !== title) cell.title = title;
      });
      while (line.cells.length > cells(entry).length) line.deleteCell(-1);
    });
  }

  const ofAll = (rule) => many(rule.done) + (rule.total === null ? "" : " of " + many(rule.total));

  // Rounds that go on, which the hub tells of, before those that are over.
  let rounds = [];
  function showRounds() {
    const time = (ns) => ns === null ? "" : seconds(ns / 1e9), open = (status && status.rounds) || [];
    const hidden = !rounds.length && !open.length;
    if (byId("rounds").hidden !== hidden) { byId("rounds").hidden = hidden; sections(); }
    const shown = open.map((it) => [[it.sync, "t"], [many(it.number)], [it.kind, "t"], [many(it.workers)], ["open"], [""], [""], [""],
      [many(it.begun) + " of " + many(it.workers) + " have begun" + (it.failed ? ", " + many(it.failed) + " failed" : ""), it.failed ? "t bad" : "t"]]);
    for (const it of rounds) {
      shown.push([[it.sync, "t"], [many(it.number)], [it.kind, "t"], [many(it.workers)], [time(it.lag_ns)], [time(it.span_ns)],
        [time(it.overhead_ns)], [many(it.late), it.late ? "bad" : ""], [it.fault || "", "t bad"]]);
    }
    fill(byId("rounds").querySelector("tbody"), shown, (cells) => cells);
  }

  function showTables(tables) {
    busy = tables.cores_busy;
    for (const rule of tables.rules) labels.set(rule.key, rule.label);
    const most = Math.max(...tables.rules.map((rule) => rule.total_s), 1e-9);
    const body = byId("rule-rows").tBodies[0];
    fill(body, tables.rules, (rule) => [[rule.label, "t"], [ofAll(rule)], [many(rule.running)],
      [many(rule.failed), rule.failed ? "bad" : ""], [seconds(rule.mean_s)], [seconds(rule.total_s || null)]]);
    tables.rules.forEach((rule, i) => {
      const cell = body.rows[i].insertCell();
      cell.className = "t";
      element("span", cell, null, "bar").style.width = (100 * rule.total_s / most).toFixed(1) + "%";
    });
    byId("streams").hidden = !tables.streams.length;
    fill(byId("streams").querySelector("tbody"), tables.streams, (it) => [[it.name, "t"], [it.state === "open" ? "running" : it.state, it.state === "open" || it.state === "ended" ? "t" : "t bad"],
      [many(it.writers)], [many(it.readers)], [it.bytes === null ? "–" : size(it.bytes)],
      [it.records === null ? "–" : many(it.records)]]);
    rounds = tables.rounds;
    showRounds();
    sections();
  }

  function sections() {
    const nav = byId("sections");
    const shown = [...document.querySelectorAll("section")].filter((it) => !it.hidden);
    const key = shown.map((it) => it.id).join();
    if (nav.dataset.of === key) return;
    nav.dataset.of = key;
    nav.replaceChildren(...shown.map((it) => {
      const link = element("a", null, it.querySelector("h2").textContent);
      link.href = "#" + it.id;
      return link;
    }));
  }

  // ---- tables of tasks
  const elapsed = (row) => seconds(row[STATUS] === "running" ? Math.max(0, now_s() - row[START]) : row[WALL]);
  const COLUMNS = {
    task: ["task", 220, (row) => row[NAME], "name", true], rule: ["rule", 150, label, "name"], node: ["node", 100, (row) => row[NODE] || "", "name"],
    status: ["status", 88, (row) => row[STATUS]], start: ["start", 84, (row) => seconds(row[START]), "n"],
    wall: ["run time", 90, elapsed, "n"], exit: ["exit", 78, (row) => (row[EXIT] || "").replace(/^status /, "")],
    command: ["command", 420, (row) => row[COMMAND] || ""],
  };
  function pick(row) {
    if (row) { choose(row[NUMBER]); return; }
    shown = -1;
    byId("task-detail").hidden = true;
    for (const it of [now, table]) it.pick(-1);
  }
  function choose(number) {
    for (const it of [now, table]) it.pick(number);
    showTask(number, byId("task-detail"), true);
  }
  const tableOf = (id, names, stay) => virtual(byId(id), names.map((name) => COLUMNS[name]), {
    id: (row) => row[NUMBER], open: pick, stay,
    mark: (line, row) => line.classList.toggle("bad", row[STATUS] === "failed"),
  });
  const now = tableOf("running-table", ["wall", "task", "node", "rule", "command"], false);
  const table = tableOf("task-table", ["status", "task", "rule", "node", "start", "wall", "exit", "command"], true);
  document.querySelectorAll(".scroll, figure.wide").forEach((it) => sideways(it));

  function showRunning() {
    const sorted = [...running.values()].sort((a, b) => a[START] - b[START] || a[NUMBER] - b[NUMBER]);
    // As high as they need, within bounds.
    byId("running-table").style.height = 46 + 28 * Math.max(2, sorted.length) + "px";
    now.show(sorted.length, (i) => sorted[i]);
  }

  // All tasks. Without a search the list itself, backwards; with one what is found, looked for in pieces of a few milliseconds, and
  // after it tasks that have not begun, which the server is asked for.
  const all = (() => {
    const field = byId("search"), choice = byId("status"), counted = byId("count");
    const WAITING = "not begun";
    let words = [], wanted = "", found = null, waiting = [], more = false, search = 0, stale = false, asked = 0;
    const statuses = new Set();
    element("option", choice, WAITING).value = WAITING;
    const fits = (row) => (!wanted || row[STATUS] === wanted) && (!words.length || (() => {
      const text = [row[NAME], label(row), row[NODE], row[COMMAND], row[EXIT]].join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    })());
    function show() {
      const of = found || list, last = of.length - 1;
      const ahead = found ? waiting.filter((row) => !rows.has(row[NUMBER])) : [];
      table.show(of.length + ahead.length, (i) => i > last ? ahead[i - of.length] : of === list ? list[last - i] : list[of[last - i]]);
      set(counted, (found ? many(found.length) + " of " : "") + many(list.length) + (list.length === 1 ? " task" : " tasks") +
        (ahead.length ? ", and " + (more ? "more than " : "") + many(ahead.length) + " not begun" : ""));
    }
    // One question at a time; the last one counts.
    async function askWaiting(mine) {
      try {
        const answer = await ask("/v1/run/waiting?words=" + encodeURIComponent(words.join(" ")));
        if (!answer.ok || mine !== search) return;
        const told = await answer.json();
        waiting = told.tasks.map(([number, name, place, state]) => [number, name, place, null, state.replaceAll("_", " "), 0, null, null, null, null]);
        more = told.more;
        show();
      } catch { /* the next time it may be there again */ }
    }
    function look() {
      words = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      wanted = choice.value;
      const mine = ++search;
      stale = false;
      clearTimeout(asked);
      if (!words.length && !wanted) { found = null; waiting = []; show(); return; }
      if (!wanted || wanted === WAITING) asked = setTimeout(askWaiting, 300, mine); else waiting = [];
      const fresh = [];
      let i = 0;
      (function piece() {
        if (mine !== search) return;
        const until = performance.now() + 6;
        while (i < list.length && performance.now() < until) {
          for (const end = Math.min(list.length, i + 200); i < end; i++) if (fits(list[i])) fresh.push(i);
        }
        if (i < list.length) { setTimeout(piece, 0); return; }
        found = fresh;
        show();
      })();
    }
    field.addEventListener("input", look);
    choice.addEventListener("change", look);
    setInterval(() => { if (found && !ended && (stale || waiting.length)) look(); }, 2000);
    return {
      changed(row, isNew) {
        if (!statuses.has(row[STATUS])) {
          statuses.add(row[STATUS]);
          element("option", choice, row[STATUS]).value = row[STATUS];
        }
        if (found && isNew && fits(row)) found.push(row.place); else stale = true;
      },
      paint: show,
    };
  })();

  // ---- one task: where it stands, what it did, what it printed
  let shown = -1;
  async function showTask(number, into, scroll) {
    shown = number;
    let told;
    try {
      const answer = await ask("/v1/run/tasks/" + number);
      if (!answer.ok) return;
      told = await answer.json();
    } catch { return; }
    if (into === byId("task-detail") && shown !== number) return;
    into.hidden = false;
    into.replaceChildren();
    const pairs = element("dl", into, null, "pairs");
    const pair = (title, text) => {
      if (text === null || text === undefined || text === "") return;
      element("dt", pairs, title);
      element("code", element("dd", pairs), text);
    };
    pair("task", told.name);
    pair("status", told.status);
    for (const attempt of told.attempts) {
      if (told.attempts.length > 1) pair("attempt", String(attempt.attempt));
      pair("node", attempt.node + (attempt.cores > 1 ? ", " + attempt.cores + " cores" : ""));
      pair("memory asked for", attempt.memory_bytes === null ? "" : requested(attempt.memory_bytes));
      pair("run time", seconds(attempt.wall_s));
      pair("why", attempt.reasons.join("; "));
      for (const command of attempt.commands) {
        pair("command", command.command);
        pair("ended with", command.exit && [command.exit, seconds(command.wall_s), command.rss_bytes && memory(command.rss_bytes) + " of memory"].filter(Boolean).join(", "));
      }
      pair("message", attempt.message);
    }
    const picture = around(told, choose);
    if (picture) into.append(picture);
    const neighbours = element("div", into, null, "neighbours");
    for (const [title, of] of [["needs", told.needs], ["is needed by", told.needed_by], ["waits for", told.waits_for], ["in the end for", told.roots]]) {
      if (!of) continue;
      const box = element("div", neighbours);
      element("h3", box, title + " " + many(of.count) + (of.count === 1 ? " task" : " tasks") + (of.count > of.list.length ? ", of which" : ""));
      const items = element("ul", box);
      for (const [other, name, state] of of.list) {
        const item = element("li", items);
        if (other === null) element("span", item, name);
        else {
          const button = element("button", item, name);
          button.type = "button";
          button.addEventListener("click", () => choose(other));
        }
        element("span", item, " " + state, state === "failed" ? "bad" : "soft");
      }
    }
    if (told.attempts.length) element("pre", into, told.tail === null ? "(it has printed nothing)" : told.tail);
    if (scroll) into.scrollIntoView({ block: "nearest" });
  }

  // The first of them, and behind a button more, in a box of their own: what stands below keeps its place.
  const FAILED_SHOWN = 10, FAILED_MAX = 500;
  const boxes = new Map();
  const folded = element("details", null, null, "rest");
  const button = element("summary", folded), rest = element("div", folded), beyond = element("p", null, "", "soft");
  const failed_s = (row) => row[FAILED] ?? Infinity;
  function failureOf(row) {
    const box = element("details");
    element("span", element("summary", box, row[NAME]), row[EXIT] || "failed", "bad");
    const inside = element("div", box);
    box.addEventListener("toggle", () => { if (box.open && !inside.firstChild) showTask(row[NUMBER], inside, false); });
    boxes.set(row[NUMBER], box);
    if (boxes.size === 1) box.open = true;
    return box;
  }
  function showFailed() {
    const section = byId("failed"), holder = byId("failures");
    if (section.hidden !== !failed.size) { section.hidden = !failed.size; sections(); }
    for (const [number, box] of boxes) if (!failed.has(number)) { box.remove(); boxes.delete(number); }
    const rows = [...failed.values()].sort((a, b) => failed_s(a) - failed_s(b) || a[NUMBER] - b[NUMBER]).slice(0, FAILED_MAX);
    rows.forEach((row, i) => {
      const [into, at] = i < FAILED_SHOWN ? [holder, i] : [rest, i - FAILED_SHOWN];
      const box = boxes.get(row[NUMBER]) || failureOf(row);
      // One that is where it belongs is not touched: it may be read, or have the focus.
      if (into.children[at] !== box) into.insertBefore(box, into.children[at] || null);
    });
    const more = rows.length - FAILED_SHOWN, unlisted = failed.size - rows.length;
    if (more > 0) { set(button, many(more) + " more"); if (!folded.parentNode) holder.append(folded); } else folded.remove();
    if (unlisted > 0) { set(beyond, "and " + many(unlisted) + " more: choose the status failed below"); rest.append(beyond); } else beyond.remove();
  }

  // ---- nodes, and their values while these are asked for: of all nodes a few, of one that is chosen all that is known
  const VALUES = ["load1", "cpu_user", "cpu_iowait", "mem_available", "mem_total"];
  let values = null;
  function amount(it) {
    if (typeof it.value === "string") return it.value;
    if (it.unit === "B") return memory(it.value);
    if (it.unit === "B/s") return size(it.value) + "/s";
    return it.value.toLocaleString("en", { maximumSignificantDigits: 6 }) + (it.unit ? " " + it.unit : "");
  }
  function showValues() {
    const holder = byId("node-values"), choice = byId("values-of");
    const known = Object.keys(values || {}).filter((node) => Object.keys(values[node]).length);
    holder.hidden = !known.length;
    if (holder.hidden) return;
    const of = known.join("\n");
    if (choice.dataset.of !== of) {
      const chosen = choice.value;
      choice.dataset.of = of;
      choice.replaceChildren(...known.map((node) => element("option", null, node)));
      if (known.includes(chosen)) choice.value = chosen;
    }
    const entries = Object.entries(values[choice.value]).sort(([one], [other]) => (one < other ? -1 : 1));
    fill(holder.querySelector("tbody"), entries, ([name, it]) => [[name, "t"], [it.value === undefined ? it.why || "" : amount(it)],
      [seconds(it.age_s)], [it.provider, "t"]]);
  }
  byId("values-of").addEventListener("change", showValues);
  function showNodes() {
    const body = byId("node-rows").tBodies[0], head = byId("node-rows").tHead;
    const names = values ? VALUES.filter((name) => Object.values(values).some((of) => of[name])) : [];
    const title = ["node", "state", "cores", "running", "done", ...names, "note"];
    if (head.dataset.of !== title.join()) {
      head.dataset.of = title.join();
      head.replaceChildren();
      const line = head.insertRow();
      title.forEach((text, i) => element("th", line, text, i < 2 || text === "note" ? "t" : ""));
    }
    const value = (node, name) => {
      const it = values[node.node] && values[node.node][name];
      if (!it || it.value === undefined) return ["", "", it ? it.why : ""];
      return [amount(it), "", "as of " + seconds(it.age_s) + " ago"];
    };
    const bad = (state) => ["lost", "failed", "set_aside"].includes(state) ? "t bad" : "t";
    fill(body, status.nodes, (node) => [[node.node, "t"], [node.state, bad(node.state)], [many(node.cores)], [many(node.running)], [many(node.done)],
      ...names.map((name) => value(node, name)), [[node.group, node.why].filter(Boolean).join(": "), "t"]]);
  }
  let asking = 0;
  byId("ask-values").addEventListener("click", (event) => {
    const on = event.target.getAttribute("aria-pressed") !== "true";
    event.target.setAttribute("aria-pressed", String(on));
    set(event.target, on ? "values are shown; hide them" : "show values of nodes");
    clearInterval(asking);
    values = null;
    if (!on) { showNodes(); showValues(); return; }
    const look = async () => {
      try {
        const answer = await ask("/v1/run/nodes");
        if (!answer.ok) return;
        const told = await answer.json();
        if (!told) return;
        values = Object.fromEntries(told.nodes.map((node) => [node.node, node.values || {}]));
        if (byId("ask-values").getAttribute("aria-pressed") !== "true") { values = null; return; }
        showNodes();
        showValues();
      } catch { /* the next time it may be there again */ }
    };
    look();
    asking = setInterval(look, 2000);
  });

  // ---- pictures: asked for while one of them is seen
  let cells = null;
  const seen = new Set();
  const eye = new IntersectionObserver((entries) => {
    for (const it of entries) if (it.isIntersecting) seen.add(it.target); else seen.delete(it.target);
    if (seen.size) draw();
  });
  for (const id of ["processes", "attempts"]) eye.observe(byId(id));
  async function pictures() {
    let wait = 2000;
    try {
      if (!document.hidden && (seen.size || !cells || !cells.chart)) {
        const answer = await ask("/v1/run/pictures");
        if (answer.ok) {
          const told = await answer.json();
          wait = Math.max(wait, told.again_ms);
          byId("curve").innerHTML = told.running || "";
          byId("legend").replaceChildren(...told.legend.map((it) => {
            const item = element("li");
            item.innerHTML = '<svg class="swatch" viewBox="0 0 12 12" aria-hidden="true"><rect class="c' + Number(it.colour) + '" width="12" height="12" rx="2"/></svg>';
            item.append(it.label);
            return item;
          }));
          cells = told;
          draw();
        }
      }
    } catch { /* the next time it may be there again */ }
    if (!ended) setTimeout(pictures, wait);
  }

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  function draw() {
    if (ended) return;
    byId("attempts").hidden = byId("processes").hidden = !(cells && cells.chart);
    sections();
    if (!cells || !cells.chart) return;
    const { columns, rows: count, in_row, cell_colours, cell_busy } = cells.chart;
    const canvas = byId("chart"), scale = devicePixelRatio || 1, LEFT = 56, TOP = 6, BELOW = 22;
    const wide = canvas.clientWidth, row = Math.max(4, Math.min(22, 420 / Math.max(1, count))), high = TOP + row * count + BELOW;
    canvas.style.height = high + "px";
    canvas.width = wide * scale;
    canvas.height = high * scale;
    const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue("--" + name);
    const colours = Array.from({ length: 10 }, (_, i) => ink("c" + i));
    context.scale(scale, scale);
    const colour = bytes(cell_colours), used = bytes(cell_busy), step = (wide - LEFT - 8) / columns;
    for (let r = 0; r < count; r++) {
      for (let c = 0; c < columns;) {
        const at = r * columns + c, from = c, level = (used[at] + 50) / 51 | 0;
        while (c < columns && colour[r * columns + c] === colour[at] && ((used[r * columns + c] + 50) / 51 | 0) === level) c++;
        if (!colour[at]) continue;
        context.globalAlpha = Math.max(0.2, level / 5);
        context.fillStyle = colours[colour[at] - 1];
        context.fillRect(LEFT + from * step, TOP + r * row, (c - from) * step + 0.3, Math.max(1, row - 1));
      }
    }
    context.globalAlpha = 1;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = ink("soft");
    for (const node of cells.nodes) {
      const y = TOP + row * node.first / in_row;
      context.fillRect(0, y - 0.5, wide, 0.5);
      context.fillText(words.short(context, node.name, LEFT - 8), 4, y + 12);
    }
    const whole = cells.seconds, unit = 10 ** Math.floor(Math.log10(Math.max(whole, 1e-3) / 4)), tick = [1, 2, 5, 10].map((k) => k * unit).find((k) => whole / k <= Math.min(8, (wide - LEFT) / 70)) || whole;
    for (let t = 0; t <= whole; t += tick) {
      const x = LEFT + (wide - LEFT - 8) * t / whole, text = seconds(t).replace(/^0 s$/, "0");
      context.textAlign = t ? "center" : "left";
      if (x + 24 < wide) context.fillText(text, x, high - 6);
    }
    context.textAlign = "left";
  }
  new ResizeObserver(draw).observe(byId("gantt"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  // ---- the end: the report in this place
  async function becomeReport(how) {
    ended = how;
    for (const it of [now, table]) it.stop();
    set(byId("state"), how);
    clearInterval(asking);
    clearInterval(ticking);
    try {
      const answer = await ask("/report");
      if (!answer.ok) throw new Error();
      const page = await answer.text();
      document.open();
      document.write(page);
      document.close();
    } catch {
      tell("The run has ended (" + how + "). Its report could not be brought here: rakudactl report " + about.run + " writes it.");
    }
  }

  // Times of what runs go on between two looks.
  const ticking = setInterval(() => {
    if (!status || document.hidden) return;
    now.later();
    card("Makespan", seconds(now_s()), "so far");
  }, 1000);

  // ---- what the server tells
  async function follow() {
    let failures = 0;
    while (!ended) {
      try {
        const answer = await ask("/v1/run/events?since=" + since);
        if (answer.status === 401) { tell("This address has no token, or that of another run: open the one that rakuda has printed."); set(byId("state"), "not let in"); return; }
        if (!answer.ok) throw new Error();
        failures = 0;
        tell("");
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let text = ""; !ended;) {
          const { value, done } = await reader.read();
          if (done) break;
          const parts = (text + value).split("\n\n");
          text = parts.pop();
          for (const part of parts) {
            if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)));
            // Many rows at once come in many parts: between them the page is drawn, and hears its user.
            if (parts.length > 1) await new Promise((next) => setTimeout(next, 0));
          }
        }
      } catch { /* it is tried again */ }
      if (ended) return;
      if (++failures > 2) tell("The server of this page does not answer; it is tried again. On a terminal: rakudactl ui");
      await new Promise((done) => setTimeout(done, Math.min(5000, 500 * failures)));
    }
  }
  sections();
  follow();
  pictures();
})();
