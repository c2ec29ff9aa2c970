// Puts the live parts of a page in place as they come, at most ten times a second.
"use strict";
(() => {
  const main = document.querySelector("main[data-stream]");
  if (!main) return;
  const LEAST_MS = 100;
  const state = document.getElementById("live-state");
  const pause = document.getElementById("pause");
  const waiting = new Map();
  let stream = null;
  let drawn = 0;
  let isAsked = false;

  // A screen reader reads each new state, so that it is written only if it is another one.
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const isPaused = () => pause.getAttribute("aria-pressed") === "true";

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

  // The stream says nothing about why it is refused.
  const explain = async () => {
    const stop = new AbortController();
    try {
      const reply = await fetch(main.dataset.stream, { signal: stop.signal });
      if (reply.status === 503) return say(await reply.text());
      if (reply.status === 401) return say("Logged out. Load the page again to log in.");
      say("Not live: the console refuses the stream.");
    } catch {
      say("Not live: the console does not answer.");
    } finally {
      stop.abort();
    }
  };

  const open = () => {
    if (stream) return;
    stream = new EventSource(main.dataset.stream);
    stream.addEventListener("fragments", (event) => {
      for (const [name, content] of Object.entries(JSON.parse(event.data))) waiting.set(name, content);
      say(isPaused() ? "Paused" : "Live");
      ask();
    });
    stream.addEventListener("lost", (event) => {
      const reason = JSON.parse(event.data);
      say(reason ? `Not live: ${reason}` : "Live");
    });
    stream.addEventListener("error", () => {
      if (stream?.readyState === EventSource.CLOSED) {
        close();
        explain();
      } else {
        say("Not live: the connection is lost; trying again");
      }
    });
  };

  const close = () => {
    stream?.close();
    stream = null;
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isPaused()));
    say(isPaused() ? "Paused" : "Live");
    ask();
  });
  // A page that nobody sees takes none of the few connections that a browser has, and no place of another one.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else open();
  });
  document.addEventListener("selectionchange", ask);
  open();
})();
