"use strict";
(() => {
  const { templates, plans, legend, opened, sizes, root: whole } = JSON.parse(document.getElementById("data").textContent);
  const boxes = [], open = new Set(opened), parent = [], level = [0];
  let tensorCount = 0;

  /** Add a box and all boxes inside of it, made from their templates; `outer` are the tensors of the box around it. */
  function grow([template, isRelative, path, passing], base, outer) {
    const number = boxes.length, scope = isRelative && base ? `${base}.${path}` : path;
    const box = { ...templates[template], scope };
    box.details = box.details.map(([name, value]) => [name, value === undefined ? scope : value]);
    boxes.push(box);
    if (!box.parts) return number;
    const plan = plans[box.plan], tensors = passing.map((tensor) => outer[tensor]);
    const named = (tensor) => (tensor < 0 ? -1 : tensors[tensor] ??= tensorCount++);
    box.plan = {
      ...plan,
      tensors: plan.tensors.map(named),
      segments: plan.segments.map(([row, upper, lower, tensor, ...ports]) => [row, upper, lower, named(tensor), ...ports]),
    };
    box.header = box.lines.slice(0, box.kind === "choice" ? -1 : undefined).join(" · ");
    box.parts = box.parts.map((part) => grow(part, box.isBase ? scope : base, tensors));
    return number;
  }

  grow([whole, false, "", []], "", []);
  boxes.forEach((box, i) => (box.parts || []).forEach((part) => {
    parent[part] = i;
    level[part] = level[i] + !boxes[part].along;
  }));

  // Layout, the same as in archir/pictures/layout.py.

  function place(number) {
    const box = boxes[number];
    if (!open.has(number)) return { width: box.width, height: box.height };
    const inner = box.parts.map(place), { parts, tensors, rows, segments, beside } = box.plan;
    const sheet = (slot) => (parts[slot] >= 0 ? inner[parts[slot]] : null);
    const size = parts.map((_, slot) => (sheet(slot) ? sheet(slot).width : 0));
    const port = (slot, tensor, ends, offset) => {
      const s = sheet(slot);
      return s && s[ends] ? s[ends].get(tensor) - s.width / 2 : offset;
    };
    let middles = columns(box.plan, size, port);
    let left = Infinity, right = -Infinity;
    rows.flat().forEach((slot) => {
      left = Math.min(left, middles[slot] - size[slot] / 2);
      right = Math.max(right, middles[slot] + size[slot] / 2);
    });
    if (left > right) left = right = 0;
    const content = right - left;
    let width = Math.max(box.least, content + 2 * sizes.pad);
    middles = middles.map((x) => x + (width - content) / 2 - left);

    const aside = rows.map(() => 0), tops = [], bottoms = [], last = rows.length - 1;
    segments.forEach(([row, a, b]) => { aside[row] = Math.max(aside[row], Math.abs(middles[a] - middles[b])); });
    let y = sizes.header;
    rows.forEach((slots, row) => {
      tops.push(y);
      y += Math.max(0, ...slots.map((slot) => (sheet(slot) ? sheet(slot).height : 0)));
      bottoms.push(y);
      if (row < last) y += (row === 0 || row === last - 1 ? 18 : 28) + Math.min(60, aside[row] / 12);
    });
    const rights = rows.map((slots) => Math.max(0, ...slots.map((slot) => middles[slot] + size[slot] / 2)));
    const corners = [], stack = beside.reduce((sum, part) => sum + inner[part].height + sizes.gap / 2, 0);
    const highest = Math.max(bottoms[last], sizes.column) - sizes.header, first = sizes.header + sizes.pad;
    const count = Math.max(1, Math.ceil(stack / highest));
    let spotX = width - sizes.pad + sizes.gap, spotY = first;
    const margin = cornersBeside(beside.map((part) => inner[part]), width, tops, bottoms, rights);
    beside.forEach((part, i) => { if (margin) corners[part] = margin[i]; });
    for (const part of margin ? [] : beside) {
      if (spotY > first + stack / count) [spotX, spotY] = [width - sizes.pad + sizes.gap, first];
      corners[part] = [spotX, spotY];
      spotY += inner[part].height + sizes.gap / 2;
      width = Math.max(width, spotX + inner[part].width + sizes.pad);
      bottoms[last] = Math.max(bottoms[last], spotY - sizes.gap / 2 + sizes.pad);
    }
    tops[last] = bottoms[last];
    rows.forEach((slots, row) => slots.forEach((slot) => {
      if (parts[slot] >= 0) corners[parts[slot]] = [middles[slot] - size[slot] / 2, tops[row]];
    }));
    const edges = segments.map(([row, upper, lower, tensor, leaving, entering]) => ({
      x0: middles[upper] + port(upper, tensor, "exits", leaving),
      y0: tops[row] + (sheet(upper) ? sheet(upper).height : 0),
      leave: bottoms[row],
      x1: middles[lower] + port(lower, tensor, "entries", entering),
      y1: tops[row + 1],
      tensor, source: parts[upper], target: parts[lower],
    }));
    const ports = (row) => new Map(rows[row].map((slot) => [tensors[slot], middles[slot]]));
    return { width, height: bottoms[last], inner, corners, edges, entries: ports(0), exits: ports(last) };
  }

  function cornersBeside(parts, width, tops, bottoms, rights) {
    const heights = parts.map((part) => part.height + sizes.gap / 2), stack = heights.reduce((sum, height) => sum + height, -sizes.gap / 2);
    const x = width - sizes.pad - Math.max(0, ...parts.map((part) => part.width));
    const row = tops.findIndex((top, first) => {
      const near = rights.filter((_, each) => each >= first && bottoms[each - 1] < top + stack);
      return first && top + stack <= bottoms[bottoms.length - 1] && Math.max(...near) + sizes.gap <= x;
    });
    if (row < 0) return null;
    let y = tops[row];
    return heights.map((height) => [x, (y += height) - height]);
  }

  function columns({ parts, rows, segments }, size, port) {
    const middles = parts.map(() => 0), above = parts.map(() => []), below = parts.map(() => []);
    segments.forEach(([, upper, lower, tensor, leaving, entering]) => {
      const offset = port(upper, tensor, "exits", leaving) - port(lower, tensor, "entries", entering);
      const pull = sizes.pull[(parts[upper] < 0) + (parts[lower] < 0)];
      above[lower].push([upper, offset, pull]);
      below[upper].push([lower, -offset, pull]);
    });
    const both = above.map((near, slot) => near.concat(below[slot]));
    const room = rows.map((row) => row.slice(1).map((b, i) => {
      const a = row[i];
      return (size[a] + size[b]) / 2 + (parts[a] >= 0 && parts[b] >= 0 ? sizes.gap : sizes.lane);
    }));
    rows.forEach((row, i) => {
      let x = -room[i].reduce((sum, step) => sum + step, 0) / 2;
      row.forEach((slot, k) => { x += k ? room[i][k - 1] : 0; middles[slot] = x; });
    });
    const forth = rows.map((_, i) => i), back = [...forth].reverse();
    const sweeps = Math.max(4, Math.min(sizes.sweeps, Math.floor(sizes.work / parts.length)));
    for (let sweep = 0; sweep < sweeps; sweep++) {
      for (const i of sweep % 2 ? back : forth) {
        const weights = [], wanted = rows[i].map((slot) => {
          const near = sweep === 0 ? above[slot] : sweep === 1 ? below[slot] : both[slot];
          let total = 0, weight = 0;
          for (const [other, offset, strength] of near) {
            const target = middles[other] + offset;
            const pull = sweep > sizes.squared ? strength / (sizes.near + Math.abs(middles[slot] - target)) : strength;
            total += pull * target;
            weight += pull;
          }
          weights.push(near.length ? weight : 0.01);
          return near.length ? total / weight : middles[slot];
        });
        spread(wanted, weights, room[i]).forEach((x, k) => { middles[rows[i][k]] = x; });
      }
    }
    rows.forEach((row, i) => row.forEach((slot, k) => {
      const direct = above[slot].filter(([, , pull]) => pull >= 1).map(([other, offset]) => middles[other] + offset);
      if (direct.length !== 1 || Math.abs(direct[0] - middles[slot]) >= sizes.snap) return;
      const low = k ? middles[row[k - 1]] + room[i][k - 1] : -Infinity;
      const high = k + 1 < row.length ? middles[row[k + 1]] - room[i][k] : Infinity;
      middles[slot] = Math.max(low, Math.min(high, direct[0]));
    }));
    const first = rows[0], last = rows[rows.length - 1];
    if (first.length === 1 && last.length === 1) middles[first[0]] = middles[last[0]];
    return middles;
  }

  function spread(wanted, weights, room) {
    const pools = [];
    let passed = 0;
    wanted.forEach((want, i) => {
      passed += i ? room[i - 1] : 0;
      let x = want - passed, weight = weights[i], count = 1;
      while (pools.length && pools[pools.length - 1][0] > x) {
        const [other, heavy, many] = pools.pop();
        x = (x * weight + other * heavy) / (weight + heavy);
        weight += heavy;
        count += many;
      }
      pools.push([x, weight, count]);
    });
    const places = [];
    passed = 0;
    for (const [x, , count] of pools) {
      for (let k = 0; k < count; k++) {
        passed += places.length ? room[places.length - 1] : 0;
        places.push(x + passed);
      }
    }
    return places;
  }

  // Drawing.

  const view = document.getElementById("view"), ground = document.getElementById("sheet");
  const panel = document.getElementById("panel"), search = document.getElementById("search");
  const map = document.getElementById("map"), frame = make("rect", { class: "frame" });
  const READABLE = 0.5; // smallest initial scale
  const corner = new Map(), headings = [];
  let selected = -1, scale = 1, panX = 0, panY = 0, root = null, matches = [], at = -1;

  function make(name, attributes, ...inside) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  }

  function draw() {
    root = place(0);
    corner.clear();
    headings.length = 0;
    const parts = [];
    drawParts(0, root, 0, 0, parts);
    ground.replaceChildren(...parts);
    drawMap();
    highlight();
    move();
  }

  function drawParts(number, sheet, x, y, into) {
    const box = boxes[number];
    for (const edge of sheet.edges) {
      const middle = (edge.leave + edge.y1) / 2;
      const d = `M${x + edge.x0},${y + edge.y0}V${y + edge.leave}` +
        `C${x + edge.x0},${y + middle} ${x + edge.x1},${y + middle} ${x + edge.x1},${y + edge.y1}`;
      const path = make("path", { class: "edge", d });
      if (edge.target >= 0) path.setAttribute("marker-end", "url(#arrow)");
      path.ends = [box.parts[edge.source], box.parts[edge.target]];
      into.push(path);
    }
    box.parts.forEach((part, i) => {
      const [left, top] = sheet.corners[i];
      into.push(drawBox(part, sheet.inner[i], x + left, y + top));
    });
  }

  function drawBox(number, sheet, x, y) {
    const box = boxes[number], { width, height } = sheet, shown = open.has(number);
    corner.set(number, [x, y, width, height]);
    const handle = make("g", { class: "handle", role: "button", tabindex: 0, "data-box": number });
    const lines = shown ? [box.header] : box.lines;
    handle.setAttribute("aria-label", [box.title, ...lines, ...(box.warmth ? [box.warmth] : [])].join(" "));
    if (box.parts) handle.setAttribute("aria-expanded", shown);
    const group = make("g", { class: box.style, "data-number": number });
    if (box.warmth) group.append(make("title", {}, [box.title, box.warmth].join("\n")));
    if (shown) {
      const low = y + sizes.header, inside = [];
      group.append(make("rect", { class: "open", x, y, width, height, rx: 8 }), handle);
      const band = `M${x},${low}V${y + 8}q0,-8 8,-8H${x + width - 8}q8,0 8,8V${low}Z`;
      const heading = make("text", { class: "title", x: x + 12, y: y + 18 }, box.title, " ",
        make("tspan", { class: "line", dx: 4 }, box.header));
      headings.push([heading, x + 12, x + 12 + width - box.least]);
      handle.append(make("path", { class: "band", d: band }), heading);
      drawParts(number, sheet, x, y, inside);
      group.append(...inside);
      return group;
    }
    if (box.parts) handle.append(make("rect", { class: "under", x: x + 4, y: y + 4, width, height, rx: 6 }));
    handle.append(make("rect", { class: "face", x, y, width, height, rx: box.kind === "io" ? height / 2 : 6 }));
    const middle = x + width / 2, first = y + 21.05;
    handle.append(make("text", { class: "title", "text-anchor": "middle", x: middle, y: first }, box.title), " ");
    box.lines.forEach((line, i) => handle.append(
      make("text", { class: "line", "text-anchor": "middle", x: middle, y: first + 15 * (i + 1) + 1 }, line), " "));
    group.append(handle);
    return group;
  }

  function visible(number) {
    const way = [];
    for (let i = number; i > 0; i = parent[i]) way.push(i);
    return way.reverse().find((i) => i === number || !open.has(i));
  }

  function highlight() {
    const matching = new Set(matches), holding = new Set(matches.map(visible));
    for (const group of ground.querySelectorAll("g.box")) {
      const number = Number(group.dataset.number);
      group.classList.toggle("selected", number === selected);
      group.classList.toggle("match", matching.has(number));
      group.classList.toggle("holds", holding.has(number) && !matching.has(number));
    }
    for (const path of ground.querySelectorAll("path.edge")) {
      path.classList.toggle("lit", selected >= 0 && path.ends.includes(selected));
    }
  }

  // Panning and zooming.

  /** Apply pan and zoom; the heading of an open box stays in view as long as a part of the box does. */
  function move() {
    const left = (16 - panX) / scale;
    for (const [heading, first, last] of headings) heading.setAttribute("x", Math.max(first, Math.min(last, left)));
    ground.setAttribute("transform", `translate(${panX},${panY}) scale(${scale})`);
    const wide = view.clientWidth / scale, high = view.clientHeight / scale, x = -panX / scale, y = -panY / scale;
    for (const [name, value] of Object.entries({ x, y, width: wide, height: high })) frame.setAttribute(name, value);
    map.toggleAttribute("data-fits", x <= 0 && y <= sizes.header && x + wide >= root.width && y + high >= root.height);
  }

  /** Draw the small map: the collapsed boxes, and the frame of what is in view. */
  function drawMap() {
    const factor = 150 / Math.max(root.width, root.height), spots = [];
    for (const [number, [x, y, width, height]] of corner) {
      if (!open.has(number)) spots.push(make("rect", { class: `face ${boxes[number].style}`, x, y, width, height }));
    }
    map.setAttribute("viewBox", `0 0 ${root.width} ${root.height}`);
    map.setAttribute("width", root.width * factor);
    map.setAttribute("height", root.height * factor);
    map.replaceChildren(...spots, frame);
  }

  /** Move the view to a spot of the small map. */
  function visit(event) {
    const bounds = map.getBoundingClientRect();
    panX = view.clientWidth / 2 - (event.clientX - bounds.left) / bounds.width * root.width * scale;
    panY = view.clientHeight / 2 - (event.clientY - bounds.top) / bounds.height * root.height * scale;
    move();
  }

  // Files.

  /** What is drawn, as the text of an SVG file, with its width and height. */
  function picture() {
    const [title, subtitle] = document.querySelectorAll(".names > *"), sheet = ground.cloneNode(true);
    const width = Math.ceil(Math.max(root.width, 360) + 48), height = Math.ceil(root.height + 84);
    sheet.setAttribute("transform", `translate(${(width - root.width) / 2},${62 - sizes.header})`);
    for (const group of sheet.querySelectorAll("g.box")) group.classList.remove("selected", "match", "holds");
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
      make("style", {}, document.querySelector("style").textContent), view.querySelector("defs").cloneNode(true),
      make("rect", { class: "paper", width, height }), make("text", { class: "name", x: 24, y: 34 }, title.textContent),
      make("text", { class: "facts", x: 24, y: 54 }, subtitle.textContent), sheet);
    return [new XMLSerializer().serializeToString(svg), width, height];
  }

  function save(content, suffix) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = `${document.querySelector("h1").textContent.replace(/\W+/g, "_")}.${suffix}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function saveSvg() {
    save(new Blob([picture()[0]], { type: "image/svg+xml" }), "svg");
  }

  function savePng() {
    const [text, width, height] = picture(), image = new Image(), canvas = document.createElement("canvas");
    const factor = Math.min(2, 16000 / Math.max(width, height));
    image.onload = () => {
      [canvas.width, canvas.height] = [width * factor, height * factor];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((content) => save(content, "png"));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }

  function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
    const next = Math.min(4, Math.max(0.05, scale * factor));
    panX = x - (x - panX) * next / scale;
    panY = y - (y - panY) * next / scale;
    scale = next;
    move();
  }

  function fit() {
    const wide = view.clientWidth - 48, high = view.clientHeight - 40;
    scale = Math.min(1, wide / root.width, high / root.height);
    panX = (view.clientWidth - root.width * scale) / 2;
    panY = Math.max(20 - sizes.header * scale, (view.clientHeight - (root.height + sizes.header) * scale) / 2);
    move();
  }

  /** Show everything if it is readable at that size, and otherwise the top at a readable size. */
  function start() {
    fit();
    if (scale >= READABLE) return;
    scale = Math.max(READABLE, Math.min(1, (view.clientWidth - 48) / root.width));
    panX = (view.clientWidth - root.width * scale) / 2;
    panY = 12 - sizes.header * scale;
    move();
  }

  function centre(number) {
    const [x, y, width, height] = corner.get(number);
    panX = view.clientWidth / 2 - (x + width / 2) * scale;
    panY = view.clientHeight / 2 - (y + Math.min(height, 200) / 2) * scale;
    move();
  }

  function focus(number) {
    const handle = ground.querySelector(`[data-box="${number}"]`);
    if (handle) handle.focus({ preventScroll: true });
  }

  // User actions.

  function toggle(number) {
    const [x, y, width] = corner.get(number);
    if (open.has(number)) open.delete(number);
    else unfold(number);
    draw();
    const [x2, y2, width2] = corner.get(number), before = scale, room = view.clientWidth - 64;
    const spotX = panX + (x + width / 2) * scale, spotY = panY + y * scale;
    if (open.has(number) && width2 * scale > room) scale = Math.min(scale, Math.max(0.4, room / width2));
    panX = (scale < before || width2 * scale > room ? view.clientWidth / 2 : spotX) - (x2 + width2 / 2) * scale;
    panY = spotY - y2 * scale;
    move();
    focus(number);
  }

  /** Open a box, and the choices directly inside of it, so that their alternatives are visible as the next level. */
  function unfold(number) {
    if (!boxes[number].parts) return;
    open.add(number);
    for (const part of boxes[number].parts) if (boxes[part].along) unfold(part);
  }

  function choose(number) {
    selected = number;
    panel.hidden = number < 0;
    if (number >= 0) describe(number);
    highlight();
  }

  function describe(number) {
    const box = boxes[number], title = document.createElement("h2"), list = document.createElement("dl");
    title.textContent = box.title;
    for (const [name, value] of box.details) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    panel.replaceChildren(title, list);
    if (box.parts) panel.append(button(open.has(number) ? "Close block" : "Open block", () => activate(number)));
    panel.append(button("Hide details", () => choose(-1)));
  }

  function button(text, action) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = text;
    element.addEventListener("click", action);
    return element;
  }

  function activate(number) {
    panel.hidden = false;
    selected = number;
    if (boxes[number].parts) toggle(number);
    choose(number);
  }

  function find() {
    const wanted = search.value.trim().toLowerCase();
    matches = [];
    at = -1;
    if (wanted) {
      boxes.forEach((box, i) => {
        const operation = box.details.filter(([name]) => name === "operation" || name === "block").map(([, v]) => v);
        const texts = [box.title, box.scope, ...operation];
        if (i && texts.some((text) => text.toLowerCase().includes(wanted))) matches.push(i);
      });
    }
    document.getElementById("found").textContent = wanted ? `${matches.length} found` : "";
    highlight();
  }

  function next() {
    if (!matches.length) return;
    at = (at + 1) % matches.length;
    for (let i = parent[matches[at]]; i > 0; i = parent[i]) open.add(i);
    selected = matches[at];
    draw();
    choose(selected);
    centre(selected);
    document.getElementById("found").textContent = `${at + 1} of ${matches.length}`;
  }

  function deepen(more) {
    const levels = [...open].map((i) => level[i]), deepest = Math.max(0, ...levels);
    if (more) {
      boxes.forEach((box, i) => { if (box.parts && level[i] <= deepest + 1) open.add(i); });
    } else {
      for (const i of [...open]) if (i && level[i] === deepest && deepest) open.delete(i);
    }
    draw();
    start();
  }

  const actions = { more: () => deepen(true), less: () => deepen(false), in: () => zoom(1.25), out: () => zoom(0.8), fit, svg: saveSvg, png: savePng };
  for (const [id, action] of Object.entries(actions)) document.getElementById(id).addEventListener("click", action);
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") next(); });

  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); visit(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) visit(event); });

  const boxOf = (event) => {
    const handle = event.target.closest("[data-box]");
    return handle ? Number(handle.dataset.box) : -1;
  };
  let drag = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  view.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) view.setPointerCapture(event.pointerId);
    view.classList.add("dragged");
    panX += dx;
    panY += dy;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    move();
  });
  const drop = () => { view.classList.remove("dragged"); drag = drag && drag.moved ? { ended: true } : null; };
  view.addEventListener("pointerup", drop);
  view.addEventListener("pointercancel", drop);
  view.addEventListener("click", (event) => {
    const dragged = drag && drag.ended;
    drag = null;
    if (dragged) return;
    const number = boxOf(event);
    if (number > 0) activate(number);
    else choose(-1);
  });
  view.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && boxOf(event) > 0) {
      event.preventDefault();
      activate(boxOf(event));
    }
  });
  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    const bounds = view.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      zoom(Math.exp(-event.deltaY / 300), event.clientX - bounds.left, event.clientY - bounds.top);
    } else {
      panX -= event.shiftKey ? event.deltaY : event.deltaX;
      panY -= event.shiftKey ? 0 : event.deltaY;
      move();
    }
  }, { passive: false });
  view.addEventListener("focusin", (event) => {
    const number = boxOf(event), spot = corner.get(number);
    if (!spot || !event.target.matches(":focus-visible")) return;
    const x = spot[0] * scale + panX, y = spot[1] * scale + panY;
    if (x < 0 || y < 0 || x > view.clientWidth - 60 || y > view.clientHeight - 30) centre(number);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "Escape") choose(-1);
  });

  for (const [kind, name] of legend) {
    const entry = document.createElement("span"), swatch = document.createElement("i");
    swatch.className = kind;
    entry.append(swatch, name);
    document.getElementById("legend").append(entry);
  }
  draw();
  for (const kind of ["pointerdown", "wheel", "keydown"]) document.addEventListener(kind, () => resized.disconnect(), true);
  const resized = new ResizeObserver(start); // frames and windows get their size later, until the user moves the view
  resized.observe(view);
})();
