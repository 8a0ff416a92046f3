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

  // A form that somebody is in, or has typed into, is left alone by refreshes, its
  // row version among it: the decision is about what was read.
  const typed = new WeakSet();
  const held = (event) => event.target.closest?.("[data-hold]");
  document.addEventListener("focusin", (event) => held(event)?.setAttribute("data-held", ""));
  document.addEventListener("input", (event) => {
    const hold = held(event);
    if (!hold) return;
    typed.add(hold);
    hold.setAttribute("data-held", "");
  });
  document.addEventListener("focusout", (event) => {
    const hold = held(event);
    if (hold && !typed.has(hold) && !hold.contains(event.relatedTarget)) hold.removeAttribute("data-held");
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
    const now = document.getElementById("as-of")?.dataset.tick; // none on a page that was refused
    if (now && now !== tick) {
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
