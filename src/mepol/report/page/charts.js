// Curves: one Chart draws one entry of charts.py for all runs of its phase, and tells the values under the pointer.

const EDGE = { left: 52, right: 12, top: 10, bottom: 34 };

// Colours tell runs apart, and strokes the series of one run: plain, faint, and dashed for a second of its kind.
const look = ({ style }, order) => (style === "faint" ? `faint ${order > 1 ? "second" : ""}` : order ? "second" : "");

class Chart {
  constructor(phase, chart) {
    this.phase = phase;
    this.chart = chart;
    this.keys = el("div", { class: "keys" });
    this.tip = el("div", { class: "tip", role: "status", hidden: true });
    this.svg = svg("svg", { "aria-hidden": "true" });
    this.plot = el("div", { class: "plot", tabindex: "0", role: "group" }, this.svg, this.tip);
    const unit = chart.unit ? el("span", { class: "soft" }, ` ${chart.unit}`) : null;
    this.element = el("article", { class: "card chart", "data-chart": chart.title },
      el("h3", {}, chart.title, unit), this.keys, this.plot, el("p", { class: "about" }, chart.about));
    this.plot.addEventListener("pointermove", (event) => this.point(this.unscale(event)));
    this.plot.addEventListener("pointerdown", (event) => this.point(this.unscale(event)));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("blur", () => this.leave());
    this.plot.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  // Lines to draw: [{run, index, series, order, points: [{x, y, row}]}], and all of hidden runs left out.
  collect() {
    this.lines = [];
    this.span = []; // of all that was done, whatever of it this chart shows: charts below each other agree
    runs().forEach((run, index) => {
      if (run.phase !== this.phase || state.hidden.has(index)) return;
      const along = run.columns[state.against === "turn" ? run.turn : "samples"] || [];
      this.span.push(along[0] ?? 0, along.at(-1) ?? 1);
      this.chart.series.forEach((series, order) => {
        const values = run.columns[series.column] || [];
        const points = values.map((y, row) => ({ x: along[row], y, row })).filter((p) => p.y !== null);
        if (points.length) this.lines.push({ run, index, series, order, points });
      });
    });
  }

  draw() {
    this.collect();
    this.element.hidden = !this.lines.length && !state.hidden.size;
    const box = this.plot.getBoundingClientRect(), height = this.svg.getBoundingClientRect().height || 230;
    if (box.width < 40) return;
    this.width = box.width;
    this.range(height);
    this.svg.setAttribute("viewBox", `0 0 ${box.width} ${height}`);
    this.cross = svg("g", { class: "hover" });
    this.svg.replaceChildren(...this.frame(height), ...this.limits(), ...this.lines.flatMap((line) => this.curve(line)), this.cross);
    this.keys.classList.toggle("several", runs().length > 1);
    this.keys.replaceChildren(...(this.chart.series.length > 1 ? this.chart.series.map((s, i) => this.key_of(s, i)) : []));
    const many = this.lines.map((line) => `${line.run.title}, ${line.series.label}: from ${number(line.points[0].y)} to ${number(line.points.at(-1).y)}`);
    this.plot.setAttribute("aria-label", `${this.chart.title}. ${many.join("; ")}. Arrow keys read single values.`);
    if (this.at !== undefined) this.point(this.at);
  }

  range(height) {
    const xs = this.span, ys = this.lines.flatMap((line) => line.points.map((p) => p.y));
    const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity), most = (list) => list.reduce((a, b) => Math.max(a, b), -Infinity);
    let [x0, x1, y0, y1] = ys.length ? [least(xs), most(xs), least(ys), most(ys)] : [0, 1, 0, 1];
    for (const [, value] of this.limit_values()) { // a line that is far away is told in words instead
      if (value > y1 && value - y1 < 1.2 * (y1 - y0)) y1 = value;
    }
    const pad = (y1 - y0) * 0.07 || Math.abs(y1) * 0.1 || 1;
    y0 = y0 >= 0 && y0 < pad * 4 ? 0 : y0 - pad;
    y1 += pad;
    if (x1 === x0) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    Object.assign(this, { x0, x1, y0, y1 });
    this.sx = (x) => EDGE.left + ((x - x0) / (x1 - x0)) * (this.width - EDGE.left - EDGE.right);
    this.sy = (y) => height - EDGE.bottom - ((y - y0) / (y1 - y0)) * (height - EDGE.top - EDGE.bottom);
  }

  frame(height) {
    const bottom = height - EDGE.bottom, right = this.width - EDGE.right, parts = [];
    for (const y of ticks(this.y0, this.y1, 5)) {
      parts.push(svg("line", { class: "rule", x1: EDGE.left, x2: right, y1: this.sy(y), y2: this.sy(y) }),
        svg("text", { x: EDGE.left - 7, y: this.sy(y) + 4, "text-anchor": "end" }, short(y)));
    }
    const whole = ticks(this.x0, this.x1, Math.min(7, this.width / 80)).filter((x) => Number.isInteger(x));
    for (const x of whole) parts.push(svg("text", { x: this.sx(x), y: bottom + 16, "text-anchor": "middle" }, short(x)));
    const name = state.against === "turn" ? state.data.phases[this.phase].turns : "samples (environment steps)";
    parts.push(svg("line", { class: "axis", x1: EDGE.left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { x: (EDGE.left + right) / 2, y: height - 3, "text-anchor": "middle" }, name));
    return parts;
  }

  // Distinct lines across the chart: [[name, value, class], ...].
  limit_values() {
    if (!this.chart.limit) return [];
    const [name, words] = this.chart.limit, found = new Map();
    for (const line of this.lines) if (line.run.limits[name] !== null) found.set(line.run.limits[name], words);
    return [...found].map(([value, text]) => [text, value]);
  }

  limits() {
    return this.limit_values().filter(([, value]) => value <= this.y1 && value >= this.y0).flatMap(([name, value]) => [
      svg("line", { class: "limit", x1: EDGE.left, x2: this.width - EDGE.right, y1: this.sy(value), y2: this.sy(value) }),
      svg("text", { x: this.width - EDGE.right, y: this.sy(value) - 4, "text-anchor": "end" }, `${name} ${number(value)}`)]);
  }

  curve({ index, series, order, points }) {
    const path = points.map((p, i) => `${i ? "L" : "M"}${this.sx(p.x).toFixed(1)} ${this.sy(p.y).toFixed(1)}`).join("");
    const kind = `curve ${colour(index)} ${look(series, order)}`;
    const marks = series.style === "points" && points.length <= 80 || points.length === 1;
    return [svg("path", { class: kind, d: path }),
      ...(marks ? points.map((p) => svg("circle", { class: colour(index), cx: this.sx(p.x), cy: this.sy(p.y), r: 3.5 })) : [])];
  }

  key_of(series, order) {
    const kind = `curve ${runs().length > 1 ? "" : colour(0)} ${look(series, order)}`;
    const swatch = svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, svg("path", { class: kind, d: "M1 4L21 4" }));
    return el("span", {}, swatch, series.label);
  }

  unscale(event) {
    const left = event.clientX - this.plot.getBoundingClientRect().left;
    return this.x0 + ((left - EDGE.left) / (this.width - EDGE.left - EDGE.right)) * (this.x1 - this.x0);
  }

  // Show what the nearest turn of each run has, for a place x of the horizontal axis.
  point(x) {
    if (!this.lines || !this.lines.length) return this.leave();
    this.at = x;
    const near = (points) => points.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    const parts = [], marks = [];
    let middle = x;
    for (const index of new Set(this.lines.map((line) => line.index))) {
      const own = this.lines.filter((line) => line.index === index), run = own[0].run;
      const row = near(own.map((line) => near(line.points))).row;
      const turn = run.columns[run.turn][row], samples = run.columns.samples[row];
      middle = state.against === "turn" ? turn : samples;
      const name = runs().length > 1 ? `${run.title}, ` : "";
      parts.push(el("b", {}, `${name}${run.turn} ${number(turn)}`), el("div", { class: "soft" }, `${number(samples)} samples`));
      for (const line of own) {
        const p = near(line.points), at = run.columns[run.turn][p.row];
        const label = line.series.label + (at === turn ? "" : ` (${run.turn} ${number(at)})`);
        parts.push(el("div", {}, dot(index), el("span", {}, label), el("span", {}, number(p.y))));
        marks.push(svg("circle", { class: colour(index), cx: this.sx(p.x), cy: this.sy(p.y), r: 5 }));
      }
    }
    const left = this.sx(middle), bottom = this.sy(this.y0);
    this.cross.replaceChildren(svg("line", { class: "cross", x1: left, x2: left, y1: EDGE.top, y2: bottom }), ...marks);
    this.tip.replaceChildren(...parts);
    this.tip.hidden = false;
    const wide = this.tip.getBoundingClientRect().width;
    this.tip.style.left = `${Math.max(0, left + 14 + wide > this.width ? left - 14 - wide : left + 14)}px`;
  }

  key(event) {
    const xs = [...new Set((this.lines || []).flatMap((line) => line.points.map((p) => p.x)))].sort((a, b) => a - b);
    if (!xs.length) return;
    const here = this.at === undefined ? -1 : xs.reduce((best, x, i) => (Math.abs(x - this.at) < Math.abs(xs[best] - this.at) ? i : best), 0);
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: xs.length - 1 }[event.key];
    if (event.key === "Escape") this.leave();
    if (to === undefined) return;
    event.preventDefault();
    this.point(xs[Math.max(0, Math.min(xs.length - 1, to))]);
  }

  leave() {
    this.at = undefined;
    this.tip.hidden = true;
    if (this.cross) this.cross.replaceChildren();
  }
}
