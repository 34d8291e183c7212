// Keeps a tenant's page up to date: while it is visible it asks whether its state has changed, and takes in the new page.
// Without this script the page is as it was when it was loaded.
"use strict";
(() => {
  const EVERY = 10_000, AT_MOST = 300_000;
  const main = document.querySelector("main[data-live]");
  let wait = EVERY, timer = 0, stopped = false;

  const report = (text) => {
    const line = document.getElementById("live");
    if (line) { line.hidden = false; line.textContent = text; }
  };

  // What the reader opened, wrote or has the focus on stays as it is.
  const callbacks = {
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    beforeNodeMorphed: (node) => node.id !== "live",
  };

  const take = async () => {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "manual" });
    if (!answer.ok) return void location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("main[data-live]");
    if (!fresh) return void location.reload();
    // Its nodes, not itself: idiomorph 0.8.0 would match the two elements by their id, and put one into the other.
    const nodes = [...fresh.childNodes];
    try {
      Idiomorph.morph(main, nodes, { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks });
    } catch { return void location.reload(); }
    main.dataset.state = fresh.dataset.state;
    report(`Updated at ${new Date().toLocaleTimeString([], { timeZoneName: "short" })}.`);
    document.dispatchEvent(new Event("page:updated"));
  };

  const ask = async () => {
    try {
      const headers = { "If-None-Match": `"${main.dataset.state}"` };
      const answer = await fetch(main.dataset.live, { headers, cache: "no-store", redirect: "manual" });
      if (answer.type === "opaqueredirect") return void location.reload();  // the session ended
      if (answer.status === 404) { stopped = true; return void report("This page is no longer kept up to date."); }
      if (answer.status === 429) { wait = 1000 * (Number(answer.headers.get("Retry-After")) || 60); return; }
      if (answer.status !== 304 && !answer.ok) throw new Error(String(answer.status));
      if (answer.ok) await take();
      wait = EVERY;
    } catch {  // the network, or a service that restarts
      wait = Math.min(wait * 2, AT_MOST);
      report("The service cannot be reached. What you see is the last that was loaded.");
    }
  };

  const plan = () => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) timer = setTimeout(() => ask().finally(plan), wait);
  };

  if (!main) return;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) { wait = EVERY; ask().finally(plan); }
  });
  plan();
})();
