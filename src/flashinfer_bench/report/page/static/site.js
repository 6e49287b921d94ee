// What the pages do beyond being read: colours, search, sorting, filters, hardware, chosen series, differences.
// Whatever can be chosen is kept in the fragment, so that the address says what is seen.
"use strict";

const fib = (() => {
  const html = document.documentElement;
  html.classList.add("js");

  // Storage may be refused: pages from files, private windows.
  const store = {
    get(key) { try { return localStorage.getItem(`fib-${key}`); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(`fib-${key}`, value); } catch { /* it lasts for this page */ } },
  };

  // Colours, before anything is painted.
  const THEMES = ["auto", "light", "dark"];
  let theme = THEMES.includes(store.get("theme")) ? store.get("theme") : "auto";
  function showTheme() {
    if (theme === "auto") html.removeAttribute("data-theme"); else html.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) { button.textContent = `Colours: ${theme}`; button.setAttribute("aria-label", button.textContent); }
  }
  function nextTheme() {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    store.set("theme", theme);
    showTheme();
  }
  showTheme();

  // State in the fragment: `#hw=…&score=…&sort.TABLE=3.desc&q.TABLE=text`; a plain `#place` is a place.
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  function remember(key, value) {
    if (value) state.set(key, value); else state.delete(key);
    const text = state.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // Data comes as scripts: a page from a file may load nothing else.
  const waiting = {};
  function data(name, value) { waiting[name]?.resolve(value); }
  function load(name, address) {
    if (!waiting[name]) {
      waiting[name] = {};
      waiting[name].value = new Promise((resolve) => { waiting[name].resolve = resolve; });
      document.head.append(element("script", { src: address }));
    }
    return waiting[name].value;
  }

  function hardware() {
    const select = document.getElementById("hardware");
    if (!select) return;
    const places = all("section[data-hardware]");
    const here = new Set(places.map((each) => each.dataset.hardware));
    const known = all("option", select).map((each) => each.value);
    const first = known.find((each) => here.has(each)) ?? known[0];
    const wanted = state.get("hw") ?? store.get("hardware");
    select.value = known.includes(wanted) ? wanted : first;
    const missing = element("p", { className: "empty", hidden: true });
    places[0]?.before(missing);
    function show() {
      for (const each of places) each.hidden = each.dataset.hardware !== select.value;
      const name = select.selectedOptions[0].textContent;
      missing.textContent = `Not measured on ${name}: choose other hardware above.`;
      missing.hidden = !here.size || here.has(select.value);
      for (const table of tables) table.show();
    }
    select.addEventListener("change", () => {
      store.set("hardware", select.value);
      remember("hw", select.value);
      show();
    });
    show();
  }
  const chosenHardware = () => document.getElementById("hardware")?.value;

  const tables = [];
  function value(row, column) {
    const cell = row.cells[column];
    const text = cell?.dataset.v ?? cell?.textContent.trim() ?? "";
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  }
  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  function makeTable(table) {
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const heads = [...table.tHead.rows[0].cells];
    const choices = [];
    let input = null;
    const count = element("output");

    function sort(column, direction) {
      const sign = direction === "descending" ? -1 : 1;
      const keyed = rows.map((row, index) => [value(row, column), index, row]);
      // What has no value stays last, whichever way.
      keyed.sort((a, b) => (a[0] === null || b[0] === null ? compare(a[0], b[0]) : sign * compare(a[0], b[0])) || a[1] - b[1]);
      table.tBodies[0].append(...keyed.map((each) => each[2]));
      heads.forEach((head, index) => {
        if (index === column) head.setAttribute("aria-sort", direction); else head.removeAttribute("aria-sort");
      });
    }
    function show() {
      const words = (input?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      let possible = 0;
      rows.forEach((row, index) => {
        const isHere = !row.dataset.hardware || !chosenHardware() || row.dataset.hardware === chosenHardware();
        const isWanted = isHere && words.every((word) => texts[index].includes(word))
          && choices.every(([column, select]) => !select.value || row.cells[column].textContent.trim() === select.value);
        row.hidden = !isWanted;
        shown += isWanted;
        possible += isHere;
      });
      count.textContent = shown === possible ? `${possible} rows` : `${shown} of ${possible} rows`;
    }

    heads.forEach((head, column) => {
      const button = element("button", { type: "button" }, ...head.childNodes);
      if (!button.textContent) return;
      head.append(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        const now = head.getAttribute("aria-sort");
        const direction = now ? (now === "ascending" ? "descending" : "ascending") : numbers ? "descending" : "ascending";
        sort(column, direction);
        remember(`sort.${table.id}`, `${column}.${direction}`);
      });
    });
    if (table.dataset.filter && rows.length > 3) {
      input = element("input", { type: "search", placeholder: `Filter by ${table.dataset.filter}` });
      input.setAttribute("aria-label", input.placeholder);
      input.value = state.get(`q.${table.id}`) ?? "";
      input.addEventListener("input", () => { show(); remember(`q.${table.id}`, input.value); });
      const bar = element("div", { className: "filters" }, input);
      for (const column of (table.dataset.choices ?? "").split(" ").filter(Boolean).map(Number)) {
        const known = [...new Set(rows.map((row) => row.cells[column].textContent.trim()))].sort();
        if (known.length < 2) continue;
        const name = heads[column].textContent;
        const select = element("select", {}, element("option", { value: "" }, `any ${name}`), ...known.map((each) => element("option", { value: each }, each)));
        select.setAttribute("aria-label", `Only this ${name}`);
        const key = `is.${table.id}.${column}`;
        if (known.includes(state.get(key))) select.value = state.get(key);
        select.addEventListener("change", () => { show(); remember(key, select.value); });
        choices.push([column, select]);
        bar.append(select);
      }
      input.style.width = `${input.placeholder.length + 2}ch`;
      bar.append(count);
      (table.closest(".scroll") ?? table).before(bar);
    }
    const [column, direction] = (state.get(`sort.${table.id}`) ?? "").split(".");
    if (heads[column] && ["ascending", "descending"].includes(direction)) sort(Number(column), direction);
    show();
    tables.push({ show });
  }

  // A chosen solution stands out in every figure and table of a page.
  let pinned = null;
  function choose(key) {
    pinned = key;
    html.classList.toggle("pinned", Boolean(key));
    for (const each of all(".series, tr[data-key]")) each.classList.toggle("chosen", Boolean(key) && each.dataset.key === key);
    for (const each of all("button.key")) each.setAttribute("aria-pressed", String(each.dataset.key === key));
  }
  function series() {
    for (const each of all("button.key")) {
      each.addEventListener("click", () => {
        choose(pinned === each.dataset.key ? null : each.dataset.key);
        remember("pin", pinned);
      });
    }
    const wanted = state.get("pin");
    if (wanted && all("button.key").some((each) => each.dataset.key === wanted)) choose(wanted);
  }

  function tips() {
    const tip = element("div", { id: "tip", hidden: true });
    tip.setAttribute("aria-hidden", "true");
    document.body.append(tip);
    document.addEventListener("pointerover", (event) => {
      const text = event.target.closest?.("[data-tip]")?.dataset.tip;
      tip.hidden = !text;
      if (!text) return;
      tip.textContent = text;
      tip.style.left = "0"; // as wide as it wants to be, whatever is right of where it was
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${event.clientY > 60 ? event.clientY - tip.offsetHeight - 10 : event.clientY + 16}px`;
    });
  }

  function search() {
    const input = document.getElementById("search");
    const list = document.getElementById("found");
    let entries = null;
    let hits = [];
    let at = -1;
    const root = html.dataset.root;
    // Lower is better: the whole name, its beginning, a part of it, its letters in this order.
    function rank(name, text) {
      const place = name.indexOf(text);
      if (place >= 0) return (name === text ? 0 : place === 0 ? 1 : 2) + name.length / 1e4;
      let from = 0;
      for (const letter of text) {
        from = name.indexOf(letter, from) + 1;
        if (!from) return Infinity;
      }
      return 4 + name.length / 1e4;
    }
    function draw() {
      list.replaceChildren(...hits.map(([kind, name, detail], index) => {
        const item = element("li", { id: `hit-${index}` }, name, element("small", {}, `${kind}${detail ? `, ${detail}` : ""}`));
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(index === at));
        item.addEventListener("pointerdown", (event) => { event.preventDefault(); go(index); });
        return item;
      }));
      list.hidden = !hits.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
      if (at >= 0) { input.setAttribute("aria-activedescendant", `hit-${at}`); list.children[at]?.scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
    }
    function go(index) { if (hits[index]) location.href = root + hits[index][3]; }
    async function find() {
      entries ??= await load("search", `${root}data/search.js`);
      const text = input.value.trim().toLowerCase();
      hits = !text ? [] : entries.map((each) => [Math.min(rank(each[1].toLowerCase(), text), 3 + rank(each[2].toLowerCase(), text)), each])
        .filter((each) => each[0] < Infinity).sort((a, b) => a[0] - b[0]).slice(0, 12).map((each) => each[1]);
      at = hits.length ? 0 : -1;
      draw();
    }
    input.addEventListener("focus", () => load("search", `${root}data/search.js`), { once: true });
    input.addEventListener("input", find);
    input.addEventListener("blur", () => { hits = []; at = -1; draw(); });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (hits.length) at = (at + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length;
        draw();
      } else if (event.key === "Enter") {
        event.preventDefault();
        go(at);
      } else if (event.key === "Escape") {
        if (hits.length) { hits = []; at = -1; draw(); } else input.blur();
      }
    });
  }

  function scores() {
    const select = document.getElementById("score");
    if (!select) return;
    const wanted = state.get("score");
    if (all("option", select).some((each) => each.value === wanted)) select.value = wanted;
    function show() { for (const each of all("[data-score]")) each.hidden = each.dataset.score !== select.value; }
    select.addEventListener("change", () => { remember("score", select.value); show(); });
    show();
  }

  // Lines that two texts share, in order: the longest such list, after what is equal at both ends.
  const MOST_CELLS = 4e7;
  function shared(a, b) {
    let begin = 0;
    let end = 0;
    while (begin < Math.min(a.length, b.length) && a[begin] === b[begin]) begin += 1;
    while (end < Math.min(a.length, b.length) - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const n = a.length - begin - end;
    const m = b.length - begin - end;
    const pairs = [];
    for (let i = 0; i < begin; i += 1) pairs.push([i, i]);
    const isTooLong = n * m > MOST_CELLS;
    if (n && m && !isTooLong) {
      const lengths = new Uint16Array((n + 1) * (m + 1));
      const width = m + 1;
      for (let i = n - 1; i >= 0; i -= 1) {
        for (let j = m - 1; j >= 0; j -= 1) {
          lengths[i * width + j] = a[begin + i] === b[begin + j] ? lengths[(i + 1) * width + j + 1] + 1
            : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
        }
      }
      for (let i = 0, j = 0; i < n && j < m;) {
        if (a[begin + i] === b[begin + j]) { pairs.push([begin + i, begin + j]); i += 1; j += 1; }
        else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
        else j += 1;
      }
    }
    for (let k = end; k > 0; k -= 1) pairs.push([a.length - k, b.length - k]);
    return { pairs, isTooLong };
  }
  function sideBySide(left, right) {
    const [a, b] = [left, right].map((each) => (each === undefined ? [] : each.replace(/\n$/, "").split("\n")));
    const rows = [];
    let i = 0;
    let j = 0;
    const { pairs, isTooLong } = shared(a, b);
    pairs.push([a.length, b.length]);
    pairs.forEach(([x, y], index) => {
      while (i < x || j < y) {
        rows.push([i < x ? i : -1, j < y ? j : -1, false]);
        if (i < x) i += 1;
        if (j < y) j += 1;
      }
      if (index < pairs.length - 1) rows.push([i++, j++, true]);
    });
    return { a, b, rows, isTooLong };
  }
  const CONTEXT = 3;
  function differenceTable(path, names, left, right) {
    const { a, b, rows, isTooLong } = sideBySide(left, right);
    const near = rows.map((_, index) => rows.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some((row) => !row[2]));
    const body = element("tbody");
    let skipped = 0;
    function flush() {
      if (skipped) body.append(element("tr", { className: "same-lines" }, element("td", { colSpan: 4 }, `${skipped} equal lines`)));
      skipped = 0;
    }
    const cell = (text, className) => element("td", { className }, text);
    rows.forEach(([x, y, same], index) => {
      if (!near[index]) { skipped += 1; return; }
      flush();
      body.append(element("tr", {},
        cell(x < 0 ? "" : x + 1, "line"), cell(x < 0 ? "" : a[x], same || x < 0 ? "" : "gone"),
        cell(y < 0 ? "" : y + 1, "line"), cell(y < 0 ? "" : b[y], same || y < 0 ? "" : "new")));
    });
    flush();
    const head = (text) => { const made = element("th", { colSpan: 2 }, text); made.scope = "colgroup"; return made; };
    return [
      element("h3", { className: "path" }, path),
      ...(isTooLong ? [element("p", { className: "remark" }, "Too long to be compared line by line: only what is equal at both ends is left out.")] : []),
      element("table", { className: "diff" },
        element("colgroup", {}, element("col", { className: "line" }), element("col"), element("col", { className: "line" }), element("col")),
        element("thead", {}, element("tr", {}, head(left === undefined ? `${names[0]} (no such file)` : names[0]), head(right === undefined ? `${names[1]} (no such file)` : names[1]))), body),
    ];
  }
  // Files of the same path belong together; where each has one file left, so do these.
  function pairedFiles(ours, theirs) {
    const [a, b] = [new Map(ours), new Map(theirs)];
    const pairs = [...a.keys()].filter((path) => b.has(path)).map((path) => [path, a.get(path), b.get(path)]);
    const [left, right] = [[...a.keys()].filter((path) => !b.has(path)), [...b.keys()].filter((path) => !a.has(path))];
    if (left.length === 1 && right.length === 1) return [...pairs, [`${left[0]} → ${right[0]}`, a.get(left[0]), b.get(right[0])]];
    return [...pairs, ...left.map((path) => [path, a.get(path), undefined]), ...right.map((path) => [path, undefined, b.get(path)])];
  }
  function differences() {
    const select = document.getElementById("diff");
    if (!select) return;
    const place = document.getElementById("differences");
    all("option", select).find((each) => each.value === select.dataset.this)?.remove();
    async function show() {
      if (!select.value) { place.replaceChildren(); return; }
      const sources = await load("sources", select.dataset.sources);
      const [ours, theirs] = [sources[select.dataset.this], sources[select.value]];
      place.replaceChildren(...pairedFiles(ours.files, theirs.files)
        .flatMap(([path, left, right]) => differenceTable(path, [ours.name, theirs.name], left, right)));
    }
    const wanted = state.get("diff");
    if (all("option", select).some((each) => each.value === wanted)) { select.value = wanted; show().then(() => document.getElementById("compare").scrollIntoView()); }
    select.addEventListener("change", () => { remember("diff", select.value); show(); });
  }

  const PLACES = { o: "index", l: "leaderboard", d: "definitions", s: "solutions", m: "models" };
  function keyboard() {
    let isGoing = false;
    const isOn = document.getElementById("keys-on");
    isOn.checked = store.get("keys") !== "off";
    isOn.addEventListener("change", () => store.set("keys", isOn.checked ? "on" : "off"));
    document.addEventListener("keydown", (event) => {
      if (!isOn.checked || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
      if (isGoing && PLACES[event.key]) { location.href = `${html.dataset.root}${PLACES[event.key]}.html`; return; }
      isGoing = event.key === "g";
      const select = document.getElementById("hardware");
      const actions = {
        "/": () => document.getElementById("search").focus(),
        "?": () => document.getElementById("help").showModal(),
        f: () => all(".filters input").find((each) => each.offsetParent)?.focus(),
        t: nextTheme,
        h: () => {
          if (!select) return;
          select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
          select.dispatchEvent(new Event("change"));
        },
      };
      if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
    });
  }

  function fill() {
    for (const table of all("table.data")) makeTable(table);
    hardware();
    scores();
    series();
    differences();
  }
  // Show what another state of this page has in its middle; what was chosen, opened and scrolled to stays.
  function show(page) {
    const main = document.getElementById("main");
    const opened = new Set(all("details[open] > summary", main).map((each) => each.textContent));
    const [x, y] = [scrollX, scrollY];
    const [was, now] = [document, page].map((each) => each.getElementById("hardware")?.closest("label"));
    if (now) { if (was) was.replaceWith(now); else document.querySelector(".tools").prepend(now); }
    main.replaceChildren(...page.getElementById("main").childNodes);
    document.title = page.title;
    tables.length = 0;
    for (const name of Object.keys(waiting)) delete waiting[name];
    fill();
    for (const each of all("details > summary", main)) if (opened.has(each.textContent)) each.parentElement.open = true;
    scrollTo(x, y);
  }

  function start() {
    showTheme();
    document.getElementById("theme").addEventListener("click", nextTheme);
    document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());
    fill();
    tips();
    search();
    keyboard();
    html.dataset.ready = "";
  }
  document.addEventListener("DOMContentLoaded", start);
  addEventListener("hashchange", () => { if (location.hash.includes("=")) location.reload(); });
  return { data, show };
})();
