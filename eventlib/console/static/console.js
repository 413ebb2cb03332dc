// What the pages do beside links and forms: keys, theme, own filters, live updates, and the slider of a saga's moments.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// --- theme
function themeNow() {
  return document.documentElement.dataset.theme
    || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
function switchTheme() {
  const next = themeNow() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
}

// --- keys: `/` searches, `?` explains, `g` and a letter goes to a page, j and k move in a list
let goes = false;
function typing(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
function move(by) {
  const links = $$("[data-row] a.row-link").filter((each) => each.offsetParent !== null);
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))].focus();
}
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = $("#keys");
  if (event.key === "Escape" && !(keys && keys.open) && typing(event.target)) { event.target.blur(); return; }
  if (typing(event.target) || (keys && keys.open)) return;
  if (goes) {
    goes = false;
    const link = $(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const search = $("[data-search]");
  if (event.key === "/") {
    event.preventDefault();
    if (search) { search.focus(); search.select(); } else { location.href = "/sagas#search"; }
  } else if (event.key === "?" && keys) { event.preventDefault(); keys.showModal(); }
  else if (event.key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "t") switchTheme();
  else if (event.key === "u") switchTimes();
  else if (event.key === "[" || event.key === "]") {
    event.preventDefault();
    step(event.key === "]" ? 1 : -1);
  }
}

// --- filters that this browser keeps: a name and an address of this page
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem("filters") || "[]");
    return Array.isArray(found) ? found.filter((each) => each && typeof each.where === "string" && typeof each.name === "string") : [];
  } catch { return []; }
}
function keep(filters) { localStorage.setItem("filters", JSON.stringify(filters.slice(0, 30))); showKept(); }
function showKept() {
  const list = $("#own-filters");
  if (!list) return;
  list.replaceChildren(...kept().map((each, at) => {
    const item = document.createElement("li"), link = document.createElement("a"), remove = document.createElement("button");
    item.className = "chip own";
    const query = new URLSearchParams({ where: each.where, order_by: each.order_by || "started_at desc" });
    link.href = `/sagas?${query}`;
    link.textContent = each.name;
    link.title = each.where;
    if (each.where === list.dataset.where) link.setAttribute("aria-current", "true");
    const count = document.createElement("span");
    count.className = "count";
    link.append(" ", count);
    fetch(`/sagas/count?${new URLSearchParams({ where: each.where })}`, { headers: { "HX-Request": "true" } })
      .then((answer) => answer.ok ? answer.text() : "?").then((text) => { count.textContent = text.trim(); });
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Remove the filter ${each.name}`);
    remove.addEventListener("click", () => keep(kept().filter((_, other) => other !== at)));
    item.append(link, remove);
    return item;
  }));
}
function saveFilter(event) {
  if (!event.submitter || !event.submitter.matches("[data-own]")) return;  // it goes to the team
  event.preventDefault();
  const form = event.target, name = form.elements.to.value.trim();
  if (!name) return;
  keep([...kept().filter((each) => each.name !== name), { name, where: form.dataset.where, order_by: form.dataset.order }]);
  form.closest("details").open = false;
  form.reset();
}

// --- the search box completes: a combobox with a list of options, by the pattern of ARIA
let asks = 0;
function completes(box) {
  const list = document.createElement("ul");
  list.id = "completions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  list.hidden = true;
  box.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id], ["aria-expanded", "false"]]) box.setAttribute(name, value);
  let chosen = -1, kept = "", timer = null;
  const show = (is) => { list.hidden = !is; box.setAttribute("aria-expanded", String(is)); if (!is) mark(-1); };
  function mark(at) {
    const options = [...list.children];
    chosen = at;
    options.forEach((each, number) => each.setAttribute("aria-selected", String(number === at)));
    if (at < 0) { box.removeAttribute("aria-activedescendant"); return; }
    box.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }
  function take(at) {
    const rest = box.value.slice(box.selectionStart), text = `${kept}${list.children[at].dataset.text}${rest.startsWith(" ") ? "" : " "}`;
    box.value = text + rest;
    box.setSelectionRange(text.length, text.length);
    show(false);
    ask();
  }
  async function ask() {
    const number = ++asks;
    const answer = await fetch(`${box.dataset.complete}?${new URLSearchParams({ text: box.value.slice(0, box.selectionStart) })}`, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer || !answer.ok || answer.status === 204 || number !== asks || document.activeElement !== box) return;
    const found = await answer.json();
    kept = found.kept;
    list.replaceChildren(...found.options.map((each, at) => {
      const item = document.createElement("li"), about = document.createElement("span");
      item.id = `completion-${at}`;
      item.setAttribute("role", "option");
      item.dataset.text = each.text;
      about.className = "dim";
      about.textContent = each.about;
      item.append(each.text, " ", about);
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(at); });
      return item;
    }));
    mark(-1);
    show(found.options.length > 0);
  }
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 120); });
  box.addEventListener("blur", () => { clearTimeout(timer); asks += 1; show(false); });
  box.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) { ask(); return; }
      const by = event.key === "ArrowDown" ? 1 : -1;
      mark(chosen < 0 ? (by > 0 ? 0 : count - 1) : (chosen + by + count) % count);
    } else if (event.key === "Enter" && !list.hidden && chosen >= 0) { event.preventDefault(); take(chosen); }
    else if (event.key === "Escape" && !list.hidden) { event.preventDefault(); event.stopPropagation(); show(false); }
    else if (event.key === "Enter") { clearTimeout(timer); asks += 1; }
  });
}

// --- times: how long ago, in UTC, or in this browser's time zone; the others are in the title
const TIMES = ["ago", "UTC", "local"];
function timesNow() { return TIMES.includes(localStorage.getItem("times")) ? localStorage.getItem("times") : "ago"; }
function showTimes() {
  const mode = timesNow(), zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const pad = (number, digits = 2) => String(number).padStart(digits, "0");
  for (const each of $$("time[datetime]")) {
    const at = new Date(each.dateTime);
    each.dataset.ago = each.dataset.ago || each.textContent;
    const utc = at.toISOString().replace("T", " ").replace("Z", "");
    const local = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
    each.title = `${utc} UTC, ${local} ${zone}`;
    each.textContent = { ago: each.dataset.ago, UTC: `${utc.slice(0, 19)} Z`, local: local.slice(0, 19) }[mode];
  }
  for (const each of $$("[data-act=times]")) { each.hidden = false; each.textContent = `Times: ${mode === "local" ? zone : mode}`; }
}
function switchTimes() {
  localStorage.setItem("times", TIMES[(TIMES.indexOf(timesNow()) + 1) % TIMES.length]);
  showTimes();
}
async function copyKeys(button) {
  const boxes = $$("#found input[name=chosen]:checked").map((each) => each.value);
  const keys = boxes.length ? boxes : $$("#found [data-key]").map((each) => each.dataset.key);
  await navigator.clipboard.writeText(keys.join("\n"));
  button.textContent = `${keys.length} ${keys.length === 1 ? "key" : "keys"} copied`;
}

// --- live: the server tells that something has happened, and parts of the page ask for themselves
let source = null;
function isLive() { return localStorage.getItem("live") !== "off"; }
function showLive() {
  const button = $("#live");
  if (!button) return;
  button.setAttribute("aria-pressed", String(isLive()));
  $(".live-text", button).textContent = isLive() ? "Live" : "Paused";
}
function follow() {
  if (source) { source.close(); source = null; }
  const stream = document.body.dataset.live;
  showLive();
  if (!stream || !isLive()) return;
  source = new EventSource(stream);
  source.addEventListener("changed", () => document.body.dispatchEvent(new Event("live")));
}
function inUse(element) {
  const slider = $("#moment-slider", element);
  return element.contains(document.activeElement) || slider && slider.value !== slider.defaultValue
    || $("input[name=chosen]:checked, details[open].keep, [data-row]:hover, [data-number]:hover", element) !== null || String(getSelection()) !== "";
}

// --- what is in use stays as it is: what is new waits behind a button, or until it is left
const waiting = new Map();
function rowsOf(part) {
  return new Set($$("[data-row] a.row-link, [data-number]", part).map((each) => each.getAttribute("href") || each.dataset.number));
}
async function keepBack(part) {
  waiting.set(part, waiting.get(part) || 0);
  const answer = await fetch(part.getAttribute("hx-get"), { headers: { "HX-Request": "true" } });
  if (!answer.ok || !waiting.has(part)) return;
  const other = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
  const there = rowsOf(part);
  waiting.set(part, other ? [...rowsOf(other)].filter((each) => !there.has(each)).length : 0);
  showNews();
}
function showNews() {
  const news = $("#news"), count = [...waiting.values()].reduce((sum, each) => sum + each, 0);
  news.hidden = count === 0;
  news.textContent = count ? `${count} new` : "";
}
let lets = false;
function letNews() {
  lets = true;  // at once, whatever a part's own trigger waits for
  for (const part of [...waiting.keys()]) {
    htmx.ajax("GET", part.getAttribute("hx-get"), { source: part, target: part, swap: "outerHTML", select: `#${part.id}` });
  }
  lets = false;
}
function onLeft() {
  setTimeout(() => { if (waiting.size && ![...waiting.keys()].some(inUse)) letNews(); }, 300);
}
const scrolled = new Map();

// --- a saga's moments: the slider, the picture and the list show the same one
let sliding = null, moved = false, shown = "", touched = false;
for (const way of ["wheel", "pointerdown", "keydown"]) addEventListener(way, () => { touched = true; }, { passive: true });
function around(number, selector) {
  return $$(selector).filter((each) => Number(each.dataset.number) <= number && number <= Number(each.dataset.last));
}
function paint(number, count) {
  const slider = $("#moment-slider"), why = number === Number(slider.dataset.matters) ? `: ${slider.dataset.why}` : "";
  for (const each of $$("[data-last]")) each.classList.toggle("later", moved && Number(each.dataset.number) > number);
  for (const each of $$(".now-at")) { each.classList.remove("now-at"); each.removeAttribute("aria-current"); }
  const exact = $$(`tr[data-number="${number}"]`), [mark] = around(number, ".mark");
  for (const each of [mark, ...(exact.length ? exact : around(number, "tr[data-last]").slice(-1))]) {
    if (each) { each.classList.add("now-at"); each.setAttribute("aria-current", "step"); }
  }
  const line = $("#moment-line");
  if (line && mark) { line.setAttribute("x1", mark.dataset.x); line.setAttribute("x2", mark.dataset.x); }
  $("#moment-number").textContent = (number === count ? `now, after all ${count}` : `after event ${number} of ${count}`) + why;
  slider.setAttribute("aria-valuetext", `event ${number} of ${count}${mark ? `, ${mark.dataset.label}` : ""}${why}`);
}
function bring() {  // into view: in the picture, in the list, and in the page
  const lanes = $(".lanes-scroll"), mark = $(".mark.now-at"), row = $("tr.now-at"), story = row && row.closest(".scroll");
  if (mark) lanes.scrollLeft = Number(mark.dataset.x) - lanes.clientWidth / 2;
  if (!row) return;
  story.scrollTop = row.offsetTop - 76;
  if (!$(".htmx-request", row)) ($("summary", row) || row.cells[0]).scrollIntoView({ block: "nearest" });
}
function slide(to) {
  const slider = $("#moment-slider");
  if (!slider) return;
  const count = Number(slider.max), number = Math.max(1, Math.min(count, to));
  slider.value = number;
  moved = true;
  paint(number, count);
  for (const each of $$("tr:not(.now-at) details[open]:not(.keep)")) each.open = false;  // the page had opened it
  bring();
  clearTimeout(sliding);
  sliding = setTimeout(() => {
    const at = number === Number(slider.dataset.matters) ? null : number === count ? "0" : String(number);
    const place = (address) => { if (at === null) address.searchParams.delete("at"); else address.searchParams.set("at", at); return address; };
    history.replaceState(null, "", place(new URL(location.href)));
    for (const link of $$("a[data-keeps-at]")) link.href = place(new URL(link.href));
    htmx.ajax("GET", `${slider.dataset.moment}?at=${number}`, { target: "#moment", swap: "innerHTML" });
  }, 90);
}
function step(by) {  // to the next mark: several events of one type are one
  const slider = $("#moment-slider");
  if (!slider) return;
  const number = Number(slider.value), [mark] = around(number, ".mark");
  slide(!mark ? number + by : by > 0 ? Number(mark.dataset.last) + 1 : (around(Number(mark.dataset.number) - 1, ".mark")[0] || mark).dataset.number);
}
function begin() {
  const slider = $("#moment-slider");
  if (slider) {
    if (!slider.dataset.ready) slider.addEventListener("input", () => slide(Number(slider.value)));
    slider.dataset.ready = "yes";
    moved ||= new URL(location.href).searchParams.has("at");
    paint(Number(slider.value), Number(slider.max));
    const place = `${slider.dataset.moment} ${slider.defaultValue}`;
    const [, linked] = shown ? [] : /^#e(\d+)$/.exec(location.hash) || [];
    if (linked) slide(Number(linked)); else if (shown !== place || !touched) bring();
    shown = place;
  }
  for (const each of $$("[data-own]")) each.hidden = false;
  const box = $("[data-complete]");
  if (box && !box.hasAttribute("role")) completes(box);
  showKept();
  showLive();
  showTimes();
}

document.addEventListener("keydown", onKey);
document.addEventListener("click", (event) => {
  const link = event.target.closest("#saga a[href^='#e']"), line = event.target.closest(".timeline summary");
  if (link) { event.preventDefault(); slide(Number(link.getAttribute("href").slice(2))); }
  if (line) slide(Number(line.closest("tr").dataset.number));
  const act = event.target.closest("[data-act]");
  if (!act) return;
  if (act.dataset.act === "theme") switchTheme();
  if (act.dataset.act === "keys") $("#keys").showModal();
  if (act.dataset.act === "close") act.closest("dialog").close();
  if (act.dataset.act === "live") { localStorage.setItem("live", isLive() ? "off" : "on"); follow(); }
  if (act.dataset.act === "step") step(Number(act.dataset.by));
  if (act.dataset.act === "news") letNews();
  if (act.dataset.act === "times") switchTimes();
  if (act.dataset.act === "copy") copyKeys(act);
  if (act.dataset.act === "now") slide(Number($("#moment-slider").max));
  if (act.dataset.act === "all") for (const box of $$("input[name=chosen]")) box.checked = act.checked;
  if (act.dataset.act === "insert") {
    const search = $("[data-search]"), name = act.dataset.name;
    search.value = search.value.trim() ? `${search.value.trim()} and ${name} ` : `${name} `;
    search.focus();
  }
});
document.addEventListener("input", (event) => {  // who types a value wants it
  const none = event.target.name && event.target.name.startsWith("field.") && event.target.form.elements[`none.${event.target.name.slice(6)}`];
  if (none) none.checked = false;
});
document.addEventListener("submit", (event) => { if (event.target.matches("[data-save-filter]")) saveFilter(event); });
document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.target;
  if (!element.matches("[data-live-part]")) return;
  if (!lets && inUse(element)) { event.preventDefault(); keepBack(element); } else { waiting.delete(element); showNews(); }
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.matches("[data-live-part]")) scrolled.set(event.target.id, $$(".scroll, .lanes-scroll", event.target).map((each) => [each.scrollLeft, each.scrollTop]));
});
document.addEventListener("htmx:afterSettle", () => {
  for (const [id, places] of scrolled) {
    const part = document.getElementById(id);
    $$(".scroll, .lanes-scroll", part || document.createElement("p")).forEach((each, at) => { if (places[at]) [each.scrollLeft, each.scrollTop] = places[at]; });
  }
  scrolled.clear();
});
for (const left of ["focusout", "pointerout", "selectionchange"]) document.addEventListener(left, onLeft);
document.addEventListener("htmx:afterSettle", begin);
document.addEventListener("DOMContentLoaded", () => {
  begin();
  follow();
  if (location.hash === "#search" && $("[data-search]")) $("[data-search]").focus();
});
