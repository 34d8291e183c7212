// Names each cell of a list by its column, so that the style sheet can show rows as cards on a phone.
"use strict";
(() => {
  const list = document.querySelector("#result_list");
  if (!list) return;
  const names = [...list.querySelectorAll("thead th")].map((head) => head.querySelector(".text")?.textContent.trim() ?? "");
  for (const row of list.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, place) => {
      if (cell.tagName === "TH") cell.scope = "row";
      else if (names[place] && !cell.matches(".action-checkbox")) {
        const name = document.createElement("span");
        name.className = "cell-label";
        name.textContent = names[place];
        cell.prepend(name);
      }
    });
  }
  list.closest(".results")?.classList.add("cards");
})();
