// Shows the values of a picture over time under the pointer, and by the arrow keys. Without this script the picture and its
// list of steps are as they are. The values are those of the picture's own marks.
"use strict";
(() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  // As `core.charts.steps_chart` writes it: the name, the instant and the value.
  const TEXT = /^(?<label>.*), (?<since>\d+ \p{L}+ \d{4}, [\d:]+ \S+): (?<value>.*)$/su;
  const known = new WeakMap();  // regions with the place of the keyboard

  // Where the axis of time begins and ends: the grid has a line for each value.
  const span = (svg) => {
    const across = [...svg.querySelectorAll("line[stroke='#ddd']")].map((line) => [line.x1, line.x2].map((x) => x.baseVal.value));
    return [Math.min(...across.map((ends) => ends[0])), Math.max(...across.map((ends) => ends[1]))];
  };

  // Read each time, because the page may have been updated under the picture. The picture is there twice, for pages and for
  // phones. The first one has the marks, the one that fits is shown.
  const read = (region) => {
    const drawn = [...region.querySelectorAll("svg")], first = drawn[0];
    const svg = drawn.find((each) => each.getClientRects().length) ?? first;
    if (!svg) return { svg, marks: [], edges: [], end: 0 };
    const [from, to] = span(first), [left, right] = span(svg);
    const place = (x) => left + (x - from) * (right - left) / (to - from);
    const marks = [...first.querySelectorAll("rect:has(> title)")].flatMap((mark) => {
      const parts = TEXT.exec(mark.querySelector("title").textContent), begin = mark.x.baseVal.value;
      return parts ? [{ left: place(begin), right: place(begin + mark.width.baseVal.value), ...parts.groups }] : [];
    });
    const edges = [...new Set(marks.map((mark) => mark.left))].sort((a, b) => a - b);
    return { svg, marks, edges, end: Math.max(...marks.map((mark) => mark.right)) };
  };

  const pointer = (svg) => {
    let line = svg.querySelector(".pointer");
    if (!line) {
      line = document.createElementNS(NAMESPACE, "line");
      line.setAttribute("class", "pointer");
      const grid = [...svg.querySelectorAll("line[stroke='#ddd']")];
      line.setAttribute("y1", String(Math.min(...grid.map((each) => each.y1.baseVal.value))));
      line.setAttribute("y2", String(Math.max(...grid.map((each) => each.y2.baseVal.value))));
      svg.append(line);
    }
    return line;
  };

  const show = (region, { svg, marks, end }, x) => {
    const here = marks.filter((mark) => mark.left <= x && (x < mark.right || (x >= end && mark.right >= end)));
    const readout = region.parentElement.querySelector(".readout");
    if (!here.length || !readout) return;
    const line = pointer(svg);
    for (const other of region.querySelectorAll(".pointer")) if (other !== line) other.remove();
    line.setAttribute("x1", String(x));
    line.setAttribute("x2", String(x));
    const latest = here.reduce((a, b) => (a.left >= b.left ? a : b));
    const text = `Since ${latest.since}: ${here.map((mark) => `${mark.label} ${mark.value}`).join(", ")}.`;
    if (readout.textContent !== text) readout.textContent = text;
  };

  const onPointer = (event) => {
    const region = event.currentTarget, picture = read(region);
    if (!picture.marks.length) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.svg.getScreenCTM().inverse());
    show(region, picture, Math.min(Math.max(at.x, picture.edges[0]), picture.end));
  };

  const onKey = (event) => {
    const region = event.currentTarget, picture = read(region), last = picture.edges.length - 1;
    const place = known.get(region) ?? last + 1;
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const at = Math.min(Math.max(to, 0), last);
    known.set(region, at);
    show(region, picture, picture.edges[at]);
  };

  const begin = () => {
    for (const region of document.querySelectorAll(".chart.over-time")) {
      if (known.has(region)) continue;
      known.set(region, undefined);
      region.addEventListener("pointermove", onPointer);
      region.addEventListener("keydown", onKey);
    }
  };
  begin();
  document.addEventListener("page:updated", begin);
})();
