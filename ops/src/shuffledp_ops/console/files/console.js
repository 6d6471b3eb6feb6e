// Brings an open page up to date: the server says which version it is at, and the parts that changed are fetched again.
// Nothing on the pages needs this script.
"use strict";

(() => {
  const state = document.getElementById("state");
  const first = document.documentElement.dataset.version;
  const RETRY = 5000; // milliseconds

  function say(words) {
    if (state && state.textContent !== words) state.textContent = words;
  }

  function left(milliseconds) {
    const seconds = Math.round((milliseconds - Date.now()) / 1000);
    if (seconds <= 0) return "";
    if (seconds < 120) return ` (in ${seconds} s)`;
    return seconds < 7200 ? ` (in ${Math.round(seconds / 60)} min)` : ` (in ${Math.round(seconds / 3600)} h)`;
  }

  function tick() {
    for (const time of document.querySelectorAll("time[data-until]")) {
      time.dataset.words ??= time.textContent;
      time.textContent = time.dataset.words + left(Number(time.dataset.until));
    }
  }

  function exchange(fresh) {
    const focused = document.activeElement && document.activeElement.id;
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.innerHTML !== said.get(part.id)) {
        said.set(part.id, next.innerHTML);
        part.replaceChildren(...next.childNodes);
      }
    }
    tick();
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
  }

  const said = new Map();
  for (const part of document.querySelectorAll("[data-live]")) said.set(part.id, part.innerHTML);

  let shown = first;
  let busy = false;
  let wanted = first;

  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      while (wanted !== shown) {
        const target = wanted;
        const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        // A round that has ended has a page of another kind: it is loaded as a whole.
        if (!answer.ok || !fresh.documentElement.dataset.version) return location.reload();
        if ([...document.querySelectorAll("[data-live]")].some((part) => !fresh.getElementById(part.id))) {
          return location.reload();
        }
        exchange(fresh);
        shown = target;
      }
    } catch {
      say("not live: the console does not answer");
    } finally {
      busy = false;
    }
  }

  let events = null;

  // Only a page that is looked at: a browser has six connections to one address, for all its pages together.
  function follow() {
    if (document.hidden || (events && events.readyState !== EventSource.CLOSED)) return;
    events = new EventSource("/events");
    events.onmessage = (event) => {
      say("live");
      wanted = event.data;
      refresh();
    };
    events.onerror = () => {
      say("not live: the console does not answer");
      if (events.readyState === EventSource.CLOSED) setTimeout(follow, RETRY);
    };
  }

  function look() {
    if (document.hidden) events?.close();
    else follow();
  }

  tick();
  setInterval(tick, 1000);
  if (first) {
    document.addEventListener("visibilitychange", look);
    follow();
  }
})();
