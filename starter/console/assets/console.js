// Parts of the page are refreshed by htmx. This keeps what is being typed, and
// switches every action off when the refreshing stops.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live) return;

  // A page that nobody sees asks for nothing.
  document.addEventListener("htmx:before:request", (event) => {
    if (document.hidden) event.preventDefault();
  });

  // A form that somebody types into is left alone by refreshes, its row version
  // among it: the decision is about what was read.
  document.addEventListener("input", (event) => {
    const hold = event.target.closest("[data-hold]");
    if (hold) hold.setAttribute("data-held", "");
  });

  // A form whose row has gone is kept, with what was typed.
  const kept = document.getElementById("kept");
  new MutationObserver((records) => {
    for (const record of records) {
      for (const node of record.removedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE || node.isConnected) continue;
        const held = node.matches("[data-held]") ? [node] : node.querySelectorAll("[data-held]");
        for (const part of held) {
          const form = part.closest("form");
          if (!form || form.isConnected) continue;
          kept.append(form);
          kept.hidden = false;
        }
      }
    }
  }).observe(live, { childList: true, subtree: true });

  const silent = document.getElementById("silent");
  const limit = Number(live.dataset.limit);
  if (!live.hasAttribute("hx-get")) return;
  let tick = "", at = performance.now();
  setInterval(() => {
    const now = document.getElementById("as-of").dataset.tick;
    if (now !== tick) {
      tick = now;
      at = performance.now();
    }
    const quiet = performance.now() - at > limit;
    if (quiet) {
      for (const part of document.querySelectorAll("fieldset[data-action]")) part.disabled = true;
    }
    if (silent.hidden === quiet) silent.hidden = !quiet;
  }, 500);
})();
