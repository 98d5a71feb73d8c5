'use strict';
// `plan` is what Report.cpp writes; times are ns, sizes bytes.
const width = 1160, left = 62, right = 12, plot = width - left - right;
const kindClass = ['forward', 'backward', 'backward', 'weight'];
const kindName = ['forward', 'backward', 'input gradient', 'weight gradient'];
const style = document.getElementById('svg-style').textContent;
const number = v => (+v.toPrecision(4)).toLocaleString('en', {maximumFractionDigits: 6});
const ms = ns => number(ns / 1e6) + ' ms';
const bytes = b => b >= 1e9 ? number(b / 1e9) + ' GB' : b >= 1e6 ? number(b / 1e6) + ' MB' : b >= 1e4 ? number(b / 1e3) + ' kB' : b + ' B';
const escaped = s => s.replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);
const text = (x, y, s, more = '') => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(s)}</text>`;
const svg = (height, name, body) => `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${name}" ` +
  `viewBox="0 0 ${width} ${Math.ceil(height)}"><style>${style}</style>\n${body}</svg>`;

// Rectangles of one look, as one path.
class Rectangles {
  constructor() { this.paths = new Map(); }
  add(look, x, y, w, h) {
    const box = `M${+x.toFixed(2)} ${+y.toFixed(2)}h${+w.toFixed(2)}v${+h.toFixed(2)}h-${+w.toFixed(2)}z`;
    this.paths.set(look, (this.paths.get(look) || '') + box);
  }
  toString() { return [...this.paths].map(([look, d]) => `<path class="${look}" d="${d}"/>\n`).join(''); }
}

function axis(y, from, to, size = plot) {
  const rough = (to - from) / 8, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough);
  let out = `<line class="axis" x1="${left}" y1="${y}" x2="${left + size}" y2="${y}"/>`;
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = left + size * (t - from) / (to - from);
    out += `<line class="axis" x1="${x.toFixed(1)}" y1="${y}" x2="${x.toFixed(1)}" y2="${y + 4}"/>` +
      text(x, y + 15, ms(t), x > left + size - 30 ? 'text-anchor="end"' : 'text-anchor="middle"');
  }
  return out;
}

plan.step = Math.max(1, plan.step);

// Starts of all actions, from gaps and durations.
for (const stage of plan.stages) {
  stage.actions = [];
  for (let i = 0, t = 0; i < stage.a.length; i += 3) {
    const start = t + stage.a[i], type = plan.types[stage.a[i + 1]];
    t = start + type[2];
    stage.actions.push({start, end: t, kind: type[0], chunk: type[1], recompute: type[3], microbatch: stage.a[i + 2]});
  }
  stage.end = stage.actions.length ? stage.actions.at(-1).end : plan.step - stage.reduction;
}
const mostActions = Math.max(...plan.stages.map(r => r.actions.length));
const severalChunks = plan.chunks.some(c => c.number > 0);
const rowHeightFor = count => count <= 8 ? 34 : count <= 16 ? 27 : count <= 32 ? 20 : count <= 64 ? 14 : 9;

// Messages on their way, by receiving place in plan.stages.
const placeOf = new Map(plan.stages.map((r, i) => [r.stage, i]));
for (const stage of plan.stages) stage.arrivals = [];
for (const stage of plan.stages)
  for (const action of stage.actions) {
    if (action.kind === 3) continue;
    const delays = plan.delays[plan.loadOf.length ? plan.loadOf[action.microbatch] : 0];
    plan.feeds.forEach(([from, to], f) => {
      const gradient = action.kind !== 0, delay = delays[2 * f + gradient];
      if ((gradient ? to : from) !== action.chunk || delay < 0) return;
      const place = placeOf.get(plan.chunks[gradient ? from : to].stage);
      if (place !== undefined) plan.stages[place].arrivals.push({start: action.end, end: action.end + delay, gradient});
    });
  }

// What is narrower than a column is shown as shares of columns, stacked.
const column = 2, shareLooks = ['forward', 'recompute', 'backward', 'weight'];
class Shares {
  constructor() { this.columns = new Map(); }
  add(look, x, w) {
    for (let c = Math.floor(x / column); c * column < x + w; ++c) {
      const part = Math.min(x + w, (c + 1) * column) - Math.max(x, c * column);
      if (!this.columns.has(c)) this.columns.set(c, [0, 0, 0, 0]);
      this.columns.get(c)[shareLooks.indexOf(look)] += part / column;
    }
  }
  draw(boxes, y, h) {
    for (const [c, shares] of this.columns) {
      let bottom = y + h;
      shares.forEach((share, i) => {
        if (share * h < 0.05) return;
        bottom -= share * h;
        boxes.add(shareLooks[i], c * column, bottom, column, share * h);
      });
    }
  }
}

function timelineRow(stage, y, height, from, to, until = to) {
  const scale = plot / (to - from), boxes = new Rectangles(), shares = new Shares();
  const lane = height >= 20 ? 5 : height >= 14 ? 3 : 0, bar = height - lane - 3;
  let labels = '';
  const span = (look, start, end, y, h, label, more = '') => {
    const x0 = left + Math.max(0, (start - from) * scale), x1 = left + Math.min(plot, (end - from) * scale);
    if (x1 <= x0) return;
    const gap = x1 - x0 > 4 ? 0.8 : 0;
    if (!h) return shares.add(look, x0, x1 - x0);
    boxes.add(look + more, x0, y, Math.max(0.3, x1 - x0 - gap), h);
    if (label && x1 - x0 > 7 * label.length + 3 && h >= 11)
      labels += text((x0 + x1) / 2, y + h / 2 + 4, label, 'class="in" text-anchor="middle"');
  };
  boxes.add('bubble', left, y, plot * (Math.min(until, to) - from) / (to - from), bar);
  for (const a of stage.actions) {
    if (a.end < from || a.start > to) continue;
    const h = (a.end - a.start) * scale < 1.6 ? 0 : bar, chunk = plan.chunks[a.chunk].number;
    const more = chunk % 4 ? ' chunk' + chunk % 4 : '';
    const label = a.microbatch + (severalChunks ? String.fromCharCode(97 + chunk % 26) : '');
    if (a.recompute) span('recompute', a.start, a.start + a.recompute, y, h, '', more);
    span(kindClass[a.kind], a.start + a.recompute, a.end, y, h, label, more);
  }
  // A step too long for single actions: shares of equal parts of it.
  for (let i = 0; i < stage.shares.length; i += 4)
    for (let k = 0, t = plan.step * i / stage.shares.length; k < 4; ++k) {
      const ns = plan.step * 4 / stage.shares.length * parseInt(stage.shares[i + k], 36) / 35;
      span(shareLooks[k], t, t + ns, y, 0);
      t += ns;
    }
  shares.draw(boxes, y, bar);
  if (stage.reduction) span('reduction', stage.end, stage.end + stage.reduction, y, bar, 'reduce');
  if (lane)
    for (const t of stage.arrivals)
      if (t.end >= from && t.start <= to)
        span(t.gradient ? 'gradient' : 'activation', t.start, t.end, y + bar + (t.gradient ? lane / 2 : 0), lane / 2);
  return boxes + labels;
}

function timeline(from, to, height, selected) {
  let body = '';
  const every = height < 11 ? Math.ceil(11 / height) : 1;
  plan.stages.forEach((stage, i) => {
    if (i % every === 0)
      body += text(2, i * height + Math.max(9, height / 2 + 3), 'stage ' + stage.stage, 'class="name"');
    body += timelineRow(stage, i * height, height, from, to);
  });
  const bottom = plan.stages.length * height + 2;
  if (selected)
    body += `<rect class="window" x="${left + plot * selected[0] / plan.step}" y="0" ` +
      `width="${plot * (selected[1] - selected[0]) / plan.step}" height="${bottom - 2}"/>`;
  return svg(bottom + 20, 'timeline', body + axis(bottom, from, to));
}

// A step's own plan above the program's lists for the same loads, in one scale.
function sample(step) {
  const height = Math.min(27, rowHeightFor(plan.stages.length)), to = Math.max(1, step.planned.step, step.own.step);
  const gap = height < 14 ? 12 : 18;
  let body = '', y = 0;
  for (const [name, lists] of [['planned', step.planned], ['the program\'s own lists', step.own]]) {
    body += text(left, y + 11, name + ': ' + ms(lists.step), 'class="name"');
    y += 15;
    lists.stages.forEach((a, i) => {
      const actions = [];
      for (let k = 0, t = 0; k < a.length; k += 5) {
        const start = t + a[k];
        t = start + a[k + 3];
        actions.push({start, end: t, kind: a[k + 1], chunk: a[k + 2], recompute: 0, microbatch: a[k + 4]});
      }
      if (i % (height < 11 ? Math.ceil(11 / height) : 1) === 0)
        body += text(2, y + Math.max(9, height / 2 + 3), 'stage ' + plan.stages[i].stage, 'class="name"');
      body += timelineRow({actions, shares: '', reduction: 0, arrivals: []}, y, height, 0, to, lists.step);
      y += height;
    });
    y += gap;
  }
  return svg(y + 8, 'step', body + axis(y - gap + 2, 0, to));
}

function memory() {
  const height = Math.max(16, rowHeightFor(plan.stages.length) * 1.25), labels = 250;
  const scaleX = (plot - labels) / plan.step;
  let body = '';
  plan.stages.forEach((stage, i) => {
    const y = i * height, bar = height - 4, limited = stage.limit > 0 && stage.limit < 2 ** 53 - 1;
    const top = limited && stage.limit < 4 * stage.peak ? Math.max(stage.limit, stage.peak) * 1.04 : stage.peak * 1.2 || 1;
    const at = b => y + bar - bar * b / top;
    body += text(2, y + height / 2 + 3, 'stage ' + stage.stage, 'class="name"');
    body += `<rect class="bubble" x="${left}" y="${y}" width="${plot - labels}" height="${bar}"/>`;
    let d = `M${left} ${y + bar}`;
    for (let k = 0; k < stage.memory.length; k += 2) {
      const x = left + stage.memory[k] * scaleX;
      d += `H${+x.toFixed(2)}V${+at(stage.memory[k + 1]).toFixed(2)}`;
    }
    body += `<path class="memory" d="${d}H${left + plot - labels}V${y + bar}z"/>`;
    if (limited && stage.limit <= top)
      body += `<line class="limit" x1="${left}" x2="${left + plot - labels}" y1="${at(stage.limit)}" y2="${at(stage.limit)}"/>`;
    const share = limited ? ` of ${bytes(stage.limit)}, ${number(100 * stage.peak / stage.limit)} %` : ', no limit';
    body += text(left + plot - labels + 8, y + height / 2 + 3, bytes(stage.peak) + share);
  });
  const bottom = plan.stages.length * height;
  return svg(bottom + 20, 'memory', body + axis(bottom, 0, plan.step, plot - labels));
}

// A row a chunk; as long as a micro-batch takes there; a segment a run of equal layers.
function stages() {
  const known = ['vision', 'projector', 'language', 'head'], height = Math.max(13, rowHeightFor(plan.chunks.length));
  const sums = plan.chunks.map(() => 0), labels = 330;
  for (const s of plan.segments) sums[s.chunk] += s.ns + s.recompute;
  const scale = (plot - labels) / Math.max(1, ...sums), boxes = new Rectangles(), at = sums.map(() => left);
  const names = plan.chunks.map(() => []);
  let body = '';
  for (const s of plan.segments) {
    const y = s.chunk * height, look = known.includes(s.kind) ? s.kind : 'other', each = s.ns * scale / s.count;
    const many = each < 3 ? 1 : s.count;
    for (let i = 0; i < many; ++i) {
      const w = s.ns * scale / many;
      boxes.add(look, at[s.chunk], y, Math.max(0, w - (w > 2 ? 0.7 : 0)), height - 4);
      const r = s.recompute * scale / many;
      if (r) boxes.add('recompute', at[s.chunk] + w - (w > 2 ? 0.7 : 0), y, r, height - 4);
      at[s.chunk] += w + r;
    }
    const list = names[s.chunk], last = list.at(-1);
    if (last && last[0] === s.kind) last[1] += s.count; else list.push([s.kind, s.count]);
  }
  plan.chunks.forEach((chunk, c) => {
    body += text(2, c * height + height / 2 + 2, 'stage ' + chunk.stage + (severalChunks ? String.fromCharCode(97 + chunk.number % 26) : ''), 'class="name"');
    const what = names[c].map(([kind, count]) => count + ' ' + kind).join(', ');
    body += text(at[c] + 6, c * height + height / 2 + 2, ms(sums[c]) + ': ' + what);
  });
  return svg(plan.chunks.length * height, 'stages', boxes + body);
}

function show(id, picture) {
  document.getElementById(id).innerHTML = picture;
}

const whole = [0, plan.step], isLong = mostActions > 120 || plan.stages.some(r => r.shares.length);
let shown = isLong && mostActions ? [0, plan.step * 48 / mostActions] : whole;
const detailHeight = rowHeightFor(plan.stages.length);

function redraw() {
  if (isLong) show('overview', timeline(...whole, Math.max(4, detailHeight * 0.6), mostActions ? shown : null));
  if (mostActions) show('detail', timeline(...shown, detailHeight));
}

function showWindow(from, to) {
  const size = Math.min(plan.step, Math.max(to - from, plan.step / 1e5, 10));
  const start = Math.min(Math.max(0, from), plan.step - size);
  shown = [start, start + size];
  redraw();
}

// Dragging over a picture chooses the part that is shown; a double click shows all.
for (const id of ['overview', 'detail']) {
  const box = document.getElementById(id);
  const timeAt = event => {
    const area = box.firstElementChild.getBoundingClientRect(), range = id === 'overview' ? whole : shown;
    const x = ((event.clientX - area.left) / area.width * width - left) / plot;
    return range[0] + Math.min(1, Math.max(0, x)) * (range[1] - range[0]);
  };
  let begin = null;
  box.addEventListener('mousedown', event => { begin = timeAt(event); event.preventDefault(); });
  box.addEventListener('mouseup', event => {
    if (begin === null) return;
    const end = timeAt(event), range = id === 'overview' ? whole : shown;
    if (Math.abs(end - begin) > (range[1] - range[0]) / 200) showWindow(Math.min(begin, end), Math.max(begin, end));
    else if (id === 'overview') showWindow(begin - (shown[1] - shown[0]) / 2, begin + (shown[1] - shown[0]) / 2);
    begin = null;
  });
  box.addEventListener('dblclick', () => showWindow(...whole));
  box.addEventListener('mousemove', event => {
    const area = box.firstElementChild.getBoundingClientRect(), t = timeAt(event);
    const height = id === 'overview' ? Math.max(4, detailHeight * 0.6) : detailHeight;
    const stage = plan.stages[Math.floor((event.clientY - area.top) / area.width * width / height)];
    const action = stage && stage.actions.find(a => a.start <= t && t < a.end);
    document.getElementById('told').textContent = !stage ? '' : `stage ${stage.stage}, ${ms(t)}: ` + (action ?
      `${kindName[action.kind]} of micro-batch ${action.microbatch}, chunk ${action.chunk}, ${ms(action.end - action.start)}` +
      (action.recompute ? ` (recomputation ${ms(action.recompute)})` : '') : 'nothing to do');
  });
}
const zoom = factor => {
  const middle = (shown[0] + shown[1]) / 2, half = (shown[1] - shown[0]) / 2 * factor;
  showWindow(middle - half, middle + half);
};
const move = by => showWindow(shown[0] + by * (shown[1] - shown[0]), shown[1] + by * (shown[1] - shown[0]));
const buttons = {closer: () => zoom(0.5), further: () => zoom(2), earlier: () => move(-0.5), later: () => move(0.5),
                 all: () => showWindow(...whole), end: () => showWindow(plan.step - (shown[1] - shown[0]), plan.step)};
for (const [id, action] of Object.entries(buttons)) document.getElementById(id).addEventListener('click', action);
document.getElementById('save').addEventListener('click', () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([timeline(...shown, detailHeight)], {type: 'image/svg+xml'}));
  link.download = 'timeline.svg';
  link.click();
});
redraw();
show('memory', memory());
show('stages', stages());
(plan.samples || []).forEach((step, i) => show('sample' + i, sample(step)));
