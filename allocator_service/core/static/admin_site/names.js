// Select2 draws its own boxes and gives them no name: they get that of the field they stand for.
"use strict";
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
