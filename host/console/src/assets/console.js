// Puts the live parts of a page in place as they come, at most ten times a second.
"use strict";
(() => {
  const main = document.querySelector("main[data-stream]");
  if (!main) return;
  const LEAST_MS = 100;
  const RETRY_MS = 5000;
  const state = document.getElementById("live-state");
  const pause = document.getElementById("pause");
  const waiting = new Map();
  let stream = null;
  let drawn = 0;
  let isAsked = false;
  // Why nothing comes; empty while it does. And whether anything has come since the stream was opened.
  let trouble = "";
  let isLive = false;
  let idle = state.textContent;
  let retry = 0;

  const isPaused = () => pause.getAttribute("aria-pressed") === "true";

  // A screen reader reads each new state, so that it is written only if it is another one.
  const show = () => {
    const text = trouble ? `Not live: ${trouble}` : isPaused() ? "Paused" : isLive ? "Live" : idle;
    if (state.textContent !== text) state.textContent = text;
  };
  const fail = (reason) => { trouble = reason; show(); };

  // What has the focus, as a link in a table, has it again in the new content.
  const put = (part, content) => {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const address = focused?.getAttribute("href");
    const isRegion = focused?.matches("[role=region]");
    const scrolled = [...part.querySelectorAll(".table")].map((table) => table.scrollLeft);
    part.innerHTML = content;
    part.querySelectorAll(".table").forEach((table, at) => { table.scrollLeft = scrolled[at] ?? 0; });
    if (isRegion) part.querySelector("[role=region]")?.focus({ preventScroll: true });
    if (address) {
      const again = [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === address);
      again?.focus({ preventScroll: true });
    }
  };

  const isSelected = (part) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  };

  const draw = (now) => {
    isAsked = false;
    if (isPaused()) return;
    if (now - drawn < LEAST_MS) return ask();
    drawn = now;
    for (const [name, content] of waiting) {
      const part = main.querySelector(`[data-fragment="${CSS.escape(name)}"]`);
      // A selection stays until it is given up.
      if (part && isSelected(part)) continue;
      if (part) put(part, content);
      waiting.delete(name);
    }
  };

  const ask = () => {
    if (isAsked || waiting.size === 0) return;
    isAsked = true;
    requestAnimationFrame(draw);
  };

  // The stream says nothing about why it is refused. Returns false if another attempt is of no use.
  const explain = async () => {
    const stop = new AbortController();
    try {
      const reply = await fetch(main.dataset.stream, { signal: stop.signal });
      if (reply.status === 401) {
        fail("logged out; load the page again to log in");
        return false;
      }
      fail(reply.ok ? "trying again" : reply.status === 503 ? await reply.text() : "the console refuses the stream");
    } catch {
      fail("the console does not answer");
    } finally {
      stop.abort();
    }
    return true;
  };

  const open = () => {
    if (stream) return;
    clearTimeout(retry);
    stream = new EventSource(main.dataset.stream);
    const opened = stream;
    stream.addEventListener("fragments", (event) => {
      for (const [name, content] of Object.entries(JSON.parse(event.data))) waiting.set(name, content);
      isLive = true;
      trouble = "";
      show();
      ask();
    });
    // With an empty reason the server answers again.
    stream.addEventListener("lost", (event) => fail(JSON.parse(event.data)));
    stream.addEventListener("error", async () => {
      if (opened.readyState !== EventSource.CLOSED) return fail("the connection is lost; trying again");
      if (stream !== opened) return;
      close();
      if (await explain() && !document.hidden && !stream) retry = setTimeout(open, RETRY_MS);
    });
  };

  const close = () => {
    clearTimeout(retry);
    stream?.close();
    stream = null;
    isLive = false;
    idle = "Not live yet";
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isPaused()));
    show();
    ask();
  });
  // A page that nobody sees takes none of the few connections that a browser has, and no place of another one.
  const follow = () => {
    if (document.hidden) close();
    else open();
    show();
  };
  document.addEventListener("visibilitychange", follow);
  document.addEventListener("selectionchange", ask);
  follow();
})();
