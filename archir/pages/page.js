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

for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0];
  table.querySelectorAll('thead button').forEach((button, column) => {
    button.addEventListener('click', () => {
      const down = button.dataset.order !== 'down';
      for (const other of table.querySelectorAll('thead button')) delete other.dataset.order;
      button.dataset.order = down ? 'down' : 'up';
      const value = row => row.cells[column].dataset.value;
      const sorted = Array.from(body.rows).sort((first, second) => {
        const [a, b] = [value(first), value(second)];
        if (a === '' || b === '') return (a === '') - (b === '');
        return down ? b - a : a - b;
      });
      body.append(...sorted);
    });
  });
}

for (const figure of document.querySelectorAll('.points')) {
  const section = figure.closest('section');
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
