// Fields that only some choices use are shown with these. Without this file, all fields are shown.
"use strict";
{
  const form = document.querySelector("form:has([data-shown-with], [data-offered-with])");
  const displaced = new Map(); // choices that another choice made impossible, to be restored with it
  const valueOf = name => form.elements[name]?.value ?? "";

  function offer(select) {
    const {name, choices} = JSON.parse(select.dataset.offeredWith);
    const offered = choices[valueOf(name)];
    if (!offered) return;
    for (const option of select.options) {
      option.hidden = option.disabled = !offered.includes(option.value);
    }
    const before = displaced.get(select);
    if (before !== undefined && offered.includes(before)) {
      select.value = before;
      displaced.delete(select);
    }
    if (select.selectedOptions[0]?.disabled) {
      displaced.set(select, before ?? select.value);
      select.value = offered[0];
    }
  }

  function show(field) {
    const conditions = Object.entries(JSON.parse(field.dataset.shownWith));
    const row = field.closest(".form-row");
    const used = conditions.every(([name, values]) => values.includes(valueOf(name)));
    // A row with an error stays, so that the error can be read.
    row.hidden = !used && !row.querySelector(".errorlist");
  }

  function refresh() {
    form.querySelectorAll("[data-offered-with]").forEach(offer);
    form.querySelectorAll("[data-shown-with]").forEach(show);
    for (const fieldset of form.querySelectorAll("fieldset.module")) {
      fieldset.hidden = !fieldset.querySelector(".form-row:not([hidden])");
    }
  }

  if (form) {
    form.addEventListener("change", event => {
      displaced.delete(event.target);
      refresh();
    });
    refresh();
  }
}
