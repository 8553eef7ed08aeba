'use strict';
const tip = document.getElementById('tip');

function show(event, text, picture) {
  tip.textContent = text;
  if (picture) {
    const image = document.createElement('img');
    image.src = picture;
    image.alt = '';
    tip.append(image);
  }
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 14 + width < innerWidth ? event.clientX + 14 : event.clientX - 14 - width;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4)) + 'px';
}

function trackPointer(element, onMove, onLeave) {
  for (const kind of ['pointermove', 'pointerdown']) element.addEventListener(kind, onMove);
  element.addEventListener('pointerleave', () => { tip.hidden = true; onLeave(); });
}

function number(value, percent) {
  if (value === null) return '–';
  return percent ? (100 * value).toFixed(2) + '%' : String(Number(value.toPrecision(5)));
}

for (const figure of document.querySelectorAll('[data-chart]')) {
  const chart = JSON.parse(figure.dataset.chart);
  const svg = figure.querySelector('svg');
  const cross = figure.querySelector('.cross');
  trackPointer(svg, event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    let near = 0;
    chart.x.forEach((tick, index) => { if (Math.abs(tick - x) < Math.abs(chart.x[near] - x)) near = index; });
    cross.setAttribute('transform', `translate(${chart.x[near]},0)`);
    cross.setAttribute('visibility', 'visible');
    const lines = Object.entries(chart.series).map(([name, values]) => `${name}: ${number(values[near], chart.percent)}`);
    show(event, [`${chart.unit} ${chart.epochs[near]}`, ...lines].join('\n'));
  }, () => cross.setAttribute('visibility', 'hidden'));
}

for (const figure of document.querySelectorAll('[data-heat]')) {
  const heat = JSON.parse(figure.dataset.heat);
  const image = figure.querySelector('img');
  trackPointer(image, event => {
    const box = image.getBoundingClientRect();
    const cell = (offset, size, count) => Math.max(0, Math.min(count - 1, Math.floor(offset / size * count)));
    const column = cell(event.clientX - box.left, box.width, heat.epochs.length);
    const row = cell(event.clientY - box.top, box.height, heat.names.length);
    show(event, `epoch ${heat.epochs[column]}\n${heat.names[row]}: ${(heat.permille[column][row] / 10).toFixed(1)}%`);
  }, () => {});
}

const memory = {
  key: name => `archir ${location.pathname} ${name}`,
  get(name) { try { return JSON.parse(sessionStorage.getItem(this.key(name))); } catch { return null; } },
  set(name, value) { try { sessionStorage.setItem(this.key(name), JSON.stringify(value)); } catch { /* not available */ } },
};

function compare(first, second, column) {
  const [a, b] = [first, second].map(row => row.cells[column]);
  if (a.dataset.value === undefined) return a.textContent.localeCompare(b.textContent);
  return a.dataset.value - b.dataset.value;
}

document.querySelectorAll('.filtered').forEach((box, index) => {
  const table = box.querySelector('table');
  const buttons = Array.from(table.querySelectorAll('thead button'));
  const body = table.tBodies[0];
  const sort = (column, down) => {
    for (const other of buttons) {
      delete other.dataset.order;
      other.closest('th').removeAttribute('aria-sort');
    }
    buttons[column].dataset.order = down ? 'down' : 'up';
    buttons[column].closest('th').setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const last = row => row.cells[column].dataset.value === '';
    body.append(...Array.from(body.rows).sort((first, second) =>
      last(first) - last(second) || (down ? -1 : 1) * compare(first, second, column)));
    memory.set(`sort ${index}`, [column, down]);
  };
  const isNumeric = column => body.rows[0]?.cells[column].dataset.value !== undefined;
  buttons.forEach((button, column) => button.addEventListener('click', () => {
    const order = button.dataset.order;
    sort(column, isNumeric(column) ? order !== 'down' : order === 'up');
  }));
  const input = box.querySelector('input');
  const filter = () => {
    const wanted = input.value.trim().toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every(word => text.includes(word));
      shown += !row.hidden;
    }
    box.querySelector('output').textContent = shown === body.rows.length ? `${shown} rows` : `${shown} of ${body.rows.length} rows`;
    memory.set(`filter ${index}`, input.value);
  };
  input.addEventListener('input', filter);
  const order = memory.get(`sort ${index}`);
  if (order && buttons[order[0]]) sort(...order);
  input.value = memory.get(`filter ${index}`) || '';
  if (input.value) filter();
});

if (document.body.dataset.reload) {
  const opened = () => Array.from(document.querySelectorAll('details'), item => item.open);
  (memory.get('details') || []).forEach((open, index) => {
    const item = document.querySelectorAll('details')[index];
    if (item) item.open = open;
  });
  scrollTo(0, memory.get('scroll') || 0);
  setInterval(() => {
    if (document.hidden || !tip.hidden || document.activeElement?.tagName === 'INPUT') return;
    memory.set('details', opened());
    memory.set('scroll', scrollY);
    location.reload();
  }, 1000 * document.body.dataset.reload);
}

for (const figure of document.querySelectorAll('.points')) {
  const section = document.getElementById(figure.closest('section').id.replace('front-of', 'trials-of'));
  const lines = Array.from(section.querySelectorAll('.sortable tbody tr'));
  const rows = new Map(lines.map(line => [Number(line.cells[0].dataset.value), line]));
  const row = point => rows.get(Number(point.dataset.trial));
  for (const point of figure.querySelectorAll('.point')) {
    trackPointer(point, event => {
      show(event, point.dataset.said, point.dataset.picture);
      row(point)?.classList.add('pointed');
    }, () => row(point)?.classList.remove('pointed'));
    const open = () => {
      const target = row(point);
      if (!target) return;
      target.querySelector('details').open = true;
      target.scrollIntoView({ block: 'center' });
      for (const other of section.querySelectorAll('.picked')) other.classList.remove('picked');
      target.classList.add('picked');
      point.classList.add('picked');
    };
    point.addEventListener('click', open);
    point.addEventListener('keydown', event => { if (event.key === 'Enter') open(); });
  }
  for (const [trial, line] of rows) {
    const point = figure.querySelector(`.point[data-trial="${trial}"]`);
    if (!point) continue;
    line.addEventListener('pointerenter', () => point.classList.add('pointed'));
    line.addEventListener('pointerleave', () => point.classList.remove('pointed'));
  }
}
