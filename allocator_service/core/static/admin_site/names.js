// Widgets of the admin that are drawn by scripts get names for screen readers.
"use strict";
// Select2 gives its boxes no name. They get that of the field they stand for.
// After the admin's own scripts, which draw the boxes when jQuery reports that the page is ready.
window.django?.jQuery?.(() => {
  for (const field of document.querySelectorAll("select.admin-autocomplete")) {
    const label = document.querySelector(`label[for="${CSS.escape(field.id)}"]`);
    const box = field.nextElementSibling;
    if (!label || !box?.matches(".select2")) continue;
    label.id ||= `${field.id}-label`;
    for (const part of box.querySelectorAll("[role=combobox], [role=textbox]")) {
      const chosen = part.getAttribute("aria-labelledby") ?? part.id;
      part.setAttribute("aria-labelledby", `${label.id} ${chosen}`);
    }
  }
});
// The icon beside the filter of a field with two lists has a name, and no role that could have one.
// Django draws it when the page is loaded, by a listener that was added before this one.
window.addEventListener("load", () => {
  for (const icon of document.querySelectorAll(".search-label-icon[aria-label]")) icon.setAttribute("role", "img");
});
