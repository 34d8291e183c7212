// Keeps the part of a page with `data-live` or `data-waits` up to date. It has an id, under which the new page has it, too.
// While a page is visible it asks whether its state has changed, and takes in the new page.
// A page that waits for a result is taken in again until it has the result.
// Without this script the page is as it was when it was loaded.
"use strict";
(() => {
  const AT_MOST = 300_000;
  const part = document.querySelector("[data-live], [data-waits]");
  const every = () => "waits" in part.dataset ? 2_000 : 10_000;
  let wait = 0, timer = 0, stopped = false;

  const report = (text) => {
    const line = document.getElementById("live");
    if (line) { line.hidden = false; line.textContent = text; }
  };

  // What the reader opened, wrote or has the focus on stays as it is.
  const callbacks = {
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    beforeNodeMorphed: (node) => node.id !== "live",
    beforeNodeRemoved: (node) => node.id !== "live",
  };

  // What an address answers, null if there is nothing to take in.
  const get = async (address, headers = {}) => {
    const answer = await fetch(address, { headers, cache: "no-store", redirect: "manual" });
    if (answer.ok || answer.status === 304) wait = every();
    if (answer.ok) return answer;
    if (answer.type === "opaqueredirect") location.reload();  // the session ended
    else if (answer.status === 404) { stopped = true; report("This page is no longer kept up to date."); }
    else if (answer.status === 429) wait = 1000 * (Number(answer.headers.get("Retry-After")) || 60);
    else if (answer.status !== 304) throw new Error(String(answer.status));
    return null;
  };

  const take = async () => {
    const answer = await get(location.href);
    if (!answer) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(part.id);
    if (!fresh) return void location.reload();
    // Its nodes, not itself: idiomorph 0.8.0 would match the two elements by their id, and put one into the other.
    const nodes = [...fresh.childNodes];
    try {
      Idiomorph.morph(part, nodes, { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks });
    } catch { return void location.reload(); }
    for (const name of Object.keys(part.dataset)) delete part.dataset[name];
    Object.assign(part.dataset, fresh.dataset);
    stopped = !("live" in part.dataset || "waits" in part.dataset);
    if ("waits" in part.dataset) return;  // a reader hears of the result, not of each look
    report(`Updated at ${new Date().toLocaleTimeString("en-GB", { timeZoneName: "short" })}.`);
    document.dispatchEvent(new Event("page:updated"));
  };

  const ask = async () => {
    try {
      if ("waits" in part.dataset || await get(part.dataset.live, { "If-None-Match": `"${part.dataset.state}"` })) await take();
    } catch {  // the network, or a service that restarts
      wait = Math.min(wait * 2, AT_MOST);
      report("The service cannot be reached. What you see is the last that was loaded.");
    }
  };

  const plan = () => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) timer = setTimeout(() => ask().finally(plan), wait);
  };

  if (!part) return;
  wait = every();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) { wait = every(); ask().finally(plan); }
  });
  plan();
})();
