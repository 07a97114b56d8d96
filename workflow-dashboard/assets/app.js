// The script of the dashboard. Every page works without it: it refreshes what is shown, moves times
// to the zone of the browser, and adds keys.
const root = document.documentElement;
const main = document.getElementById("main");
const home = root.dataset.root === "/" ? "" : root.dataset.root;
root.classList.add("scripted");

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const remember = (name, value) => {
  document.cookie = `${name}=${value}; Path=${root.dataset.root}; Max-Age=31536000; SameSite=Lax`;
};
const remembered = (name) => document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))?.split("=")[1];

// Times

let isUtc = remembered("workflow_zone") === "utc";
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

function partsOf(date) {
  return isUtc
    ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
}

function timeText(date) {
  const [year, month, day, hour, minute, second] = partsOf(date);
  const [thisYear, thisMonth, today] = partsOf(new Date());
  if (year === thisYear && month === thisMonth && day === today) return `${two(hour)}:${two(minute)}:${two(second)}`;
  return year === thisYear ? `${day} ${months[month]}, ${two(hour)}:${two(minute)}` : `${day} ${months[month]} ${year}`;
}

function ageText(date) {
  const away = (Date.now() - date.getTime()) / 1000;
  const seconds = Math.floor(Math.abs(away));
  const text =
    seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} m`
      : seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
  return away < 0 ? `in ${text}` : text;
}

function showTimes(within = document) {
  for (const time of all("time[datetime]", within)) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    let text = "age" in time.dataset ? ageText(date) : timeText(date);
    if ("minute" in time.dataset && text.length === 8) text = text.slice(0, 5);
    if (time.textContent !== text) time.textContent = text;
  }
  for (const button of all("[data-zone-switch]", within)) button.textContent = isUtc ? "UTC" : "local";
}

function switchZone() {
  isUtc = !isUtc;
  remember("workflow_zone", isUtc ? "utc" : "local");
  showTimes();
}

// Theme

function switchTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  remember("workflow_theme", root.dataset.theme);
}

// Live: the server tells when something has changed; the content is then asked for again, and
// changed where it stands. Without such a stream, it is asked for once per second. Only a page that
// can be seen has a stream, because a browser opens at most six connections to a server.

const interval = 1000;
// Some of a page changes with the time alone.
const rareInterval = 10000;
let isHeld = false;
let tag = "";
let failures = 0;
let stream = null;
let isTold = false;
let noStreamUntil = 0;
let isLooking = false;
let isStale = false;
// The content has other rows or parts than the page, which could not be replaced.
let isWaiting = false;
// The page itself is fresh; the stream asks for what has changed since, once it is open.
let nextLook = Date.now() + interval;

// The boxes of runs do not count: a refresh carries them over.
function isFilled(field) {
  if (field.matches('input[name="run"]')) return false;
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (!field.matches("select")) return field.value !== field.defaultValue;
  const first = [...field.options].findIndex((option) => option.defaultSelected);
  return field.selectedIndex !== Math.max(0, first);
}

const isInUse = (element) =>
  element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, button")
  || element.querySelector("details[open]") !== null;
// A form that was closed still has what was typed in it.
const isBusy = (element) => isInUse(element) || all("input, textarea, select", element).some(isFilled);

// What is about to be clicked must not move.
const isAimedAt = () => main.querySelector(":is(tr, a, button, summary, [data-key]):hover") !== null;

// The rows of a part are refreshed with it.
const rowsOf = (within) =>
  new Map(all("[data-row]", within).filter((row) => !row.closest("[data-key]")).map((row) => [row.dataset.row, row]));
const hasOlder = (within) => within.querySelector('a[rel="next"]') !== null;

function showState() {
  const button = document.querySelector("[data-live-switch]");
  if (!button) return;
  button.classList.toggle("held", isHeld);
  button.classList.toggle("away", !isHeld && failures > 0);
  button.lastElementChild.textContent = isHeld ? "Held" : failures > 0 ? "Away" : "Live";
}

// Returns true if the part has changed and had to stay as it was.
function replace(old, fresh) {
  if (old.isEqualNode(fresh)) return false;
  if (isBusy(old)) return true;
  const isPicked = old.classList.contains("picked");
  old.replaceWith(fresh);
  if (isPicked) fresh.classList.add("picked");
  return false;
}

// Shows these words in the banner. Without words, hides it.
function tell(words) {
  let banner = main.querySelector("[data-newer]");
  if (!banner && !words) return;
  if (!banner) {
    banner = Object.assign(document.createElement("div"), { className: "newrows", ariaLive: "polite" });
    banner.dataset.newer = "";
    const link = Object.assign(document.createElement("a"), { href: location.pathname + location.search });
    link.dataset.newerCount = "";
    banner.append(link);
    main.prepend(banner);
  }
  banner.hidden = !words;
  banner.querySelector("[data-newer-count]").textContent = words;
}

// Returns true if the row had to stay as it was.
function markGone(row) {
  if (row.classList.contains("gone")) return false;
  if (isBusy(row)) return true;
  row.classList.add("gone");
  row.querySelector('input[name="run"]')?.remove();
  row.querySelector(".now .clamp")?.replaceChildren("no longer matches");
  return false;
}

// Returns true if something of the fresh content is not shown yet, because the page was in use.
function refresh(text) {
  const fresh = new DOMParser().parseFromString(`<main>${text}</main>`, "text/html").querySelector("main");
  showTimes(fresh);
  const chosen = new Set(all('input[name="run"]:checked', main).map((box) => box.value));
  for (const box of all('input[name="run"]', fresh)) box.checked = chosen.has(box.value);
  // Before rows move from the fresh content into the page.
  const [had, has] = [rowsOf(main), rowsOf(fresh)];
  const lost = [...had.keys()].filter((name) => !has.has(name));
  const found = [...has.keys()].filter((name) => !had.has(name));
  const keys = (within) => all("[data-key]", within).map((part) => part.dataset.key).join(" ");
  // The rows of the newest runs keep their places.
  const isList = main.querySelector("[data-rows]") !== null;
  const isOther =
    (had.size > 0) !== (has.size > 0) || keys(main) !== keys(fresh) || (!isList && lost.length + found.length > 0);
  isWaiting = isOther && (isBusy(main) || isAimedAt());
  if (isOther && !isWaiting) {
    const picked = main.querySelector("[data-row].picked")?.dataset.row;
    main.replaceChildren(...fresh.childNodes);
    has.get(picked)?.classList.add("picked");
    return false;
  }
  let isSkipped = isOther;
  for (const part of all("[data-key]", main)) {
    const other = fresh.querySelector(`[data-key="${part.dataset.key}"]`);
    if (other && replace(part, other)) isSkipped = true;
  }
  for (const [name, row] of has) if (had.has(name) && replace(had.get(name), row)) isSkipped = true;
  let words = isOther ? `This ${had.size + has.size > 0 ? "list" : "page"} has changed` : "";
  if (isList) {
    // They stand in the order of their ids, the newest first.
    const [newest, oldest, last] = [[...had.keys()][0], [...had.keys()].at(-1), [...has.keys()].at(-1)];
    const newer = found.filter((name) => name > newest).length;
    const older = found.filter((name) => name < oldest).length;
    for (const name of lost) if ((name > last || !hasOlder(fresh)) && markGone(had.get(name))) isSkipped = true;
    // Older runs fill up a page that has lost some.
    const isAmong = newer + older < found.length || older > (hasOlder(main) ? lost.length : 0);
    if (newer === 1) words = "1 newer run";
    else if (newer > 0) words = newer === has.size && hasOlder(fresh) ? "Many newer runs" : `${newer} newer runs`;
    else if (isAmong) words = "This list has changed";
  }
  // A form that was closed keeps its part as it was.
  if (!words && isSkipped && isBusy(main) && !isInUse(main)) words = "This page has changed";
  tell(words);
  return isSkipped;
}

async function ask() {
  try {
    const headers = { "x-workflow-part": "main", ...(tag && { "x-workflow-tag": tag }) };
    const signal = AbortSignal.timeout(rareInterval);
    const response = await fetch(location.href, { headers, credentials: "same-origin", cache: "no-store", signal });
    if (isHeld) return;
    if (response.status === 200) {
      const isSkipped = refresh(await response.text());
      // The server answers an equal tag with nothing, and what was left out would never be shown.
      tag = isSkipped ? "" : (response.headers.get("x-workflow-tag") ?? "");
      failures = 0;
    } else failures = response.status === 304 ? 0 : failures + 1;
  } catch {
    failures += 1;
    // The streams of other windows may have taken all connections.
    leave(60000);
  }
  nextLook = Date.now() + (isTold ? rareInterval : interval * Math.min(1 + failures, 10) - interval / 2);
  showState();
}

async function look() {
  isStale = true;
  if (isLooking || document.hidden || isHeld) return;
  isLooking = true;
  while (isStale) {
    isStale = false;
    await ask();
  }
  isLooking = false;
}

function leave(pause) {
  stream?.close();
  stream = null;
  isTold = false;
  noStreamUntil = Date.now() + pause;
}

function shown() {
  const [page, run, ...more] = location.pathname.slice(home.length).split("/").filter(Boolean);
  const parameters = new URLSearchParams(location.search);
  if (page !== "runs" || more.length || parameters.has("cursor")) return "";
  return run ? `?run=${run}` : `?q=${encodeURIComponent(parameters.get("q") ?? "")}`;
}

function listen() {
  if (stream || document.hidden || isHeld || Date.now() < noStreamUntil || !window.EventSource) return;
  const opened = new EventSource(`${home}/changes${shown()}`);
  stream = opened;
  for (const name of ["runs", "committed", "reset"]) opened.addEventListener(name, look);
  opened.addEventListener("open", () => {
    isTold = true;
    look();
  });
  opened.addEventListener("error", () => {
    isTold = false;
    if (opened.readyState === EventSource.CLOSED && opened === stream) leave(rareInterval);
  });
}

function keepFresh() {
  listen();
  showTimes();
  if (Date.now() >= nextLook) look();
  setTimeout(keepFresh, interval);
}

function hold() {
  isHeld = !isHeld;
  if (isHeld) leave(0);
  else {
    listen();
    look();
  }
  showState();
}

// Copies

async function copy(text, button) {
  await navigator.clipboard.writeText(text.trim());
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1500);
}

// Keys

let before = "";

function pick(step) {
  const rows = all("tr[data-row], a[data-step]", main);
  const at = rows.findIndex((row) => row.classList.contains("picked"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  if (!next) return;
  rows[at]?.classList.remove("picked");
  next.classList.add("picked");
  next.scrollIntoView({ block: "nearest" });
}

function open() {
  const picked = main.querySelector(".picked");
  // A link in a drawing has no method `click`.
  const link = picked?.matches("a") ? picked : picked?.querySelector("a[href]");
  if (link) location.assign(link.getAttribute("href"));
}

function showActions() {
  const place = main.querySelector(".picked [data-actions]") ?? main.querySelector("[data-actions]");
  place?.querySelector("summary")?.focus();
}

function close() {
  for (const details of all("details.act[open]")) details.open = false;
  document.activeElement?.blur();
}

// Approvals: `a` and `x` open the answers of the picked row, or of the first one. A decision has one
// form, which `a` opens at its first option.
function answer(action) {
  const place = main.querySelector(".picked [data-actions]") ?? main.querySelector("[data-actions]");
  const find = (name) => place?.querySelector(`input[name="action"][value="${name}"]`)?.closest("details");
  const form = find(action) ?? (action === "approve" ? find("choose") : null);
  if (!form) return;
  form.open = true;
  form.querySelector('[name="choice"], [name="value"], [name="note"], button')?.focus();
}

// Choosing
function chooseRow() {
  const box = main.querySelector('.picked input[name="run"]');
  if (box) box.click();
  else answer("reject");
}

// Lists below a field: arrows move, Enter and Tab take the marked entry.
function mark(list, step) {
  const entries = all("a", list).filter((entry) => !entry.parentElement.hidden);
  const at = entries.findIndex((entry) => entry.classList.contains("marked"));
  entries[at]?.classList.remove("marked");
  const next = entries[(at + step + entries.length + (at < 0 && step < 0 ? 1 : 0)) % entries.length];
  next?.classList.add("marked");
  next?.scrollIntoView({ block: "nearest" });
}

const marked = (list) => list.querySelector("li:not([hidden]) a.marked");

// Views that were kept in this browser.
function views() {
  try {
    return JSON.parse(localStorage.getItem("workflow_views") ?? "[]");
  } catch {
    // The browser keeps nothing, or another program has written there.
    return [];
  }
}

function keepView(link) {
  const view = { query: link.dataset.keep, href: link.getAttribute("href") };
  const kept = [view, ...views().filter(({ query }) => query !== view.query)].slice(0, 20);
  localStorage.setItem("workflow_views", JSON.stringify(kept));
  link.firstElementChild.textContent = "Kept: see Ctrl K";
}

function entry(name, meaning, href) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = href;
  for (const [kind, textContent] of [["b", name], ["span", meaning]]) {
    link.append(Object.assign(document.createElement(kind), { textContent }));
  }
  item.append(link);
  return item;
}

// Search: the words with which it may go on.
function completeSearch(field) {
  const list = Object.assign(document.createElement("ul"), { id: "completions", className: "words", hidden: true });
  list.setAttribute("aria-label", "Completions");
  field.parentElement.append(list);
  let asked = 0;
  let pause = 0;
  const show = (isShown) => {
    list.hidden = !isShown || list.children.length === 0;
    field.setAttribute("aria-expanded", String(!list.hidden));
  };
  const ask = async () => {
    clearTimeout(pause);
    const mine = ++asked;
    const place = `${field.dataset.search}?q=${encodeURIComponent(field.value)}`;
    const headers = { "x-workflow-part": "main" };
    const response = await fetch(place, { headers, credentials: "same-origin" }).catch(() => null);
    const text = response?.ok ? await response.text().catch(() => null) : null;
    if (mine !== asked || text === null) return;
    const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("ul.words");
    list.replaceChildren(...(fresh?.children ?? []));
    show(document.activeElement === field);
  };
  const take = (link) => {
    field.value = link.dataset.text + (/[:.]$/.test(link.dataset.text) ? "" : " ");
    field.focus();
    // The entries belong to the old text: the next Enter searches.
    list.replaceChildren();
    show(false);
    ask();
  };
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-controls", list.id);
  field.setAttribute("aria-expanded", "false");
  field.addEventListener("input", () => {
    // A mark belongs to the old text: Enter must not take it.
    marked(list)?.classList.remove("marked");
    // An answer to the old text may still come: it must not be shown.
    asked++;
    clearTimeout(pause);
    pause = setTimeout(ask, 80);
  });
  field.addEventListener("focus", ask);
  field.addEventListener("blur", () => setTimeout(() => show(false), 150));
  list.addEventListener("mousedown", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    take(link);
  });
  list.addEventListener("click", (event) => event.preventDefault());
  field.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const link = marked(list);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(list, event.key === "ArrowDown" ? 1 : -1);
    else if ((event.key === "Enter" || event.key === "Tab") && link) take(link);
    else return;
    event.preventDefault();
  });
}

// Palette

function openPalette() {
  const palette = document.getElementById("palette");
  if (!palette || palette.open) return;
  const [field, list] = [palette.querySelector("input"), palette.querySelector("ul")];
  if (!("ready" in palette.dataset)) {
    palette.dataset.ready = "";
    field.addEventListener("input", () => filterPalette(field, list, palette.dataset.runs));
    field.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(list, event.key === "ArrowDown" ? 1 : -1);
      else if (event.key === "Enter") marked(list)?.click();
      else return;
      event.preventDefault();
    });
  }
  for (const item of all("[data-kept]", list)) item.remove();
  for (const { query, href } of views()) {
    const item = entry(query, "kept", href);
    item.dataset.kept = "";
    list.append(item);
  }
  palette.showModal();
  field.value = "";
  filterPalette(field, list, palette.dataset.runs);
}

function filterPalette(field, list, runs) {
  const text = field.value.trim().toLowerCase();
  list.querySelector("[data-free]")?.remove();
  for (const item of list.children) {
    item.hidden = !item.textContent.toLowerCase().includes(text);
    item.firstElementChild.classList.remove("marked");
  }
  if (text) {
    const item = entry(field.value.trim(), "search runs", `${runs}?q=${encodeURIComponent(field.value.trim())}`);
    item.dataset.free = "";
    list.append(item);
  }
  mark(list, 1);
}

const follow = (selector) => document.querySelector(selector)?.click();
const keys = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => document.getElementById("keys").showModal(),
  j: () => pick(1),
  k: () => pick(-1),
  Enter: open,
  a: () => answer("approve"),
  x: chooseRow,
  c: () => document.querySelector(".cli [data-copy]")?.click(),
  "+": () => follow('main a[data-zoom="in"]'),
  "-": () => follow('main a[data-zoom="out"]'),
  n: () => follow('main a[rel="next"]'),
  p: () => follow('main a[rel="prev"]'),
  ".": showActions,
  r: hold,
  t: switchTheme,
  z: switchZone,
};

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    return openPalette();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape") return close();
  if (event.target.closest?.("input, textarea, select, dialog[open]")) return;
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
  const behind = before;
  before = event.key === "g" && behind !== "g" ? "g" : "";
  const place = behind === "g" && document.querySelector(`.rail a[data-key="${CSS.escape(event.key)}"]`);
  const act = place ? () => place.click() : keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

document.addEventListener("click", (event) => {
  const on = (selector) => event.target.closest?.(selector);
  if (on("[data-theme-switch]")) switchTheme();
  else if (on("[data-zone-switch]")) switchZone();
  else if (on("[data-live-switch]")) hold();
  else if (on("[data-help-switch]")) document.getElementById("keys").showModal();
  else if (on("[data-keep]")) {
    event.preventDefault();
    keepView(on("[data-keep]"));
  } else if (on("[data-does]")) {
    event.preventDefault();
    document.getElementById("palette").close();
    keys[on("[data-does]").dataset.does]();
  } else if (on("[data-copy]")) {
    const button = on("[data-copy]");
    copy(button.parentElement.querySelector("[data-copied]").textContent, button);
  }
  const opened = on("details.act");
  for (const details of all("details.act[open]")) if (details !== opened && !details.contains(opened)) details.open = false;
});

document.addEventListener("visibilitychange", () => {
  if (!main || !("live" in main.dataset)) return;
  if (document.hidden) leave(0);
  else {
    listen();
    look();
  }
});

document.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !event.target.closest?.("#gantt")) return;
  event.preventDefault();
  follow(`main a[data-zoom="${event.deltaY < 0 ? "in" : "out"}"]`);
}, { passive: false });

for (const field of all("[data-search]")) completeSearch(field);
showTimes();
if (main && "live" in main.dataset) {
  main.addEventListener("pointerleave", () => isWaiting && look());
  keepFresh();
} else setInterval(showTimes, interval);
