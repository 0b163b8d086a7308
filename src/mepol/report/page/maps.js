// Maps of cells on a canvas: heatmaps over training with a slider, and goals.

const RAMP = [[38, 26, 82], [49, 63, 130], [36, 102, 145], [28, 140, 138], [84, 178, 105], [172, 205, 68], [250, 229, 76]];

function ramp(share) { // 0 to 1, dark to light
  const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1), i = Math.min(Math.floor(at), RAMP.length - 2);
  return RAMP[i].map((from, c) => Math.round(from + (RAMP[i + 1][c] - from) * (at - i)));
}

function unpack(counts) {
  const cells = [];
  for (const count of counts) {
    if (count >= 0) cells.push(count);
    else for (let i = 0; i < -count; i += 1) cells.push(0);
  }
  return cells;
}

// A map with its axes; paint(values, low, high, tell) colours cell (i, j) by values[i * bins_1 + j], null left void.
class CellMap {
  constructor(grid, kind = "") {
    this.grid = grid;
    const [wide, high] = grid.bins;
    this.canvas = el("canvas", { width: wide, height: high, role: "img" });
    this.title = el("b", {});
    this.words = el("span", {});
    const ends = (axis, cls) => el("div", { class: cls, "aria-hidden": "true" },
      el("span", {}, short(grid.low[axis])), el("b", {}, grid.names[axis]), el("span", {}, short(grid.high[axis])));
    this.element = el("figure", { class: kind }, el("figcaption", {}, this.title, this.words),
      el("div", { class: "frame" }, ends(1, "up"), this.canvas, ends(0, "along")));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.words.textContent = this.said; });
  }

  paint(values, low, high, title, words, tell) {
    const [wide, tall] = this.grid.bins, picture = new ImageData(wide, tall);
    for (let i = 0; i < wide; i += 1) {
      for (let j = 0; j < tall; j += 1) {
        const value = values[i * tall + j];
        if (value === null) continue;
        picture.data.set([...ramp((value - low) / (high - low || 1)), 255], 4 * ((tall - 1 - j) * wide + i));
      }
    }
    this.canvas.getContext("2d").putImageData(picture, 0, 0);
    this.values = values;
    this.tell = tell;
    this.said = words;
    this.title.textContent = title;
    this.words.textContent = words;
    this.canvas.setAttribute("aria-label", `Map of ${this.grid.names[0]} and ${this.grid.names[1]}: ${title}, ${words}`);
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(), [wide, tall] = this.grid.bins;
    const i = Math.min(wide - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * wide)));
    const j = Math.min(tall - 1, Math.max(0, tall - 1 - Math.floor(((event.clientY - box.top) / box.height) * tall)));
    const centre = [i, j].map((cell, axis) => this.grid.low[axis] + ((cell + 0.5) * (this.grid.high[axis] - this.grid.low[axis])) / this.grid.bins[axis]);
    const place = centre.map((value, axis) => `${this.grid.names[axis]} ${+value.toPrecision(3)}`).join(", ");
    this.words.textContent = `${place}: ${this.tell(this.values[i * tall + j])}`;
  }
}

function colour_bar(low, high, words) {
  const canvas = el("canvas", { width: 128, height: 1, "aria-hidden": "true" }), picture = new ImageData(128, 1);
  for (let i = 0; i < 128; i += 1) picture.data.set([...ramp(i / 127), 255], 4 * i);
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return el("div", { class: "scale" }, el("span", {}, low), canvas, el("span", {}, high), el("span", {}, words));
}

// The heatmaps of one run: before, at the slider, after, on one scale of colours.
class Coverage {
  constructor(run, index) {
    this.id = `turn-${index}`;
    this.timer = null;
    const { grid } = run.maps;
    [this.before, this.during, this.after] = ["before", "during", "after"].map((kind) => new CellMap(grid, kind));
    this.slider = el("input", { type: "range", id: this.id, min: 0, max: 0, step: 1, oninput: () => { this.stop(); this.show(); } });
    this.said = el("output", { for: this.id });
    this.button = el("button", { type: "button", onclick: () => (this.timer ? this.stop() : this.play()) }, "Play");
    this.player = el("div", { class: "player" }, this.button, el("label", { for: this.id }, `Training, by ${run.turn}`), this.slider, this.said);
    this.foot = el("div", {});
    this.element = el("article", { class: "card", "data-run": run.title },
      el("div", { class: "head" }, dot(index), el("h3", {}, run.title)),
      el("div", { class: "maps" }, this.before.element, this.during.element, this.after.element), this.player, this.foot);
    this.update(run);
    this.slider.value = this.frames.length - 1;
    this.show();
  }

  update(run) {
    const followed = this.frames && +this.slider.value === this.frames.length - 1, before = this.frames && this.turn();
    this.run = run;
    this.frames = run.maps.frames.map((frame) => ({ ...frame, shares: unpack(frame.counts).map((n) => (n ? Math.log(n / frame.visits) : null)) }));
    this.slider.max = this.frames.length - 1;
    const logs = this.frames.flatMap((frame) => frame.shares).filter((value) => value !== null);
    this.low = logs.reduce((a, b) => Math.min(a, b), 0);
    this.high = logs.reduce((a, b) => Math.max(a, b), this.low);
    if (before !== undefined) {
      const same = this.frames.findIndex((frame) => frame.turn >= before);
      this.slider.value = followed || same < 0 ? this.frames.length - 1 : same;
    }
    this.player.hidden = this.frames.length < 2;
    const less = run.maps.stored > this.frames.length ? `${this.frames.length} of ${run.maps.stored} stored heatmaps. ` : "";
    const sums = run.maps.together > 1 ? `${run.maps.together} by ${run.maps.together} cells are drawn as one. ` : "";
    const share = (value) => `${(100 * Math.exp(value)).toPrecision(2)} %`;
    this.foot.replaceChildren(colour_bar(share(this.low), share(this.high), "of all visits, in even steps of its logarithm; blank: never visited"),
      ...(less || sums ? [el("p", { class: "about" }, less + sums)] : []));
    this.paint(this.before, this.frames[0], "Before");
    this.paint(this.after, this.frames.at(-1), run.finished ? "After" : "Newest");
    this.show();
  }

  turn() { return this.frames[+this.slider.value].turn; }

  paint(map, frame, name) {
    const words = `${number(frame.cells)} cells, ${number(frame.nats)} nats pooled`;
    const tell = (value) => (value === null ? "never visited" : `${(100 * Math.exp(value)).toPrecision(2)} % of visits`);
    map.paint(frame.shares, this.low, this.high, `${name}, ${this.run.turn} ${number(frame.turn)}`, words, tell);
  }

  show() {
    const frame = this.frames[+this.slider.value];
    this.paint(this.during, frame, "Training");
    this.said.textContent = `${this.run.turn} ${number(frame.turn)}`;
    this.slider.setAttribute("aria-valuetext", `${this.run.turn} ${frame.turn}: ${number(frame.cells)} cells`);
  }

  play() {
    if (+this.slider.value === this.frames.length - 1) this.slider.value = 0;
    this.button.textContent = "Pause";
    this.show();
    this.timer = setInterval(() => {
      if (+this.slider.value >= this.frames.length - 1) return this.stop();
      this.slider.value = +this.slider.value + 1;
      return this.show();
    }, Math.max(120, 4000 / this.frames.length));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
  }
}

function goal_card(run, index) {
  const { grid, hit_rate: rate, steps, mean, goals, met } = run.goals;
  const hits = new CellMap(grid), soon = new CellMap(grid);
  const most = steps.reduce((a, b) => Math.max(a, b || 0), 0);
  hits.paint(rate, 0, 1, "Hit rate", `${(100 * mean).toFixed(1)} % on average; ${number(met)} of ${number(goals)} goals met`,
    (value) => (value === null ? "no goal" : `met by ${(100 * value).toFixed(0)} %`));
  soon.paint(steps, 0, most, "Steps to the first hit", `up to ${number(most)}`, (value) => (value === null ? "no goal, or never met" : `${number(value)} steps`));
  return el("article", { class: "card" }, el("div", { class: "head" }, dot(index), el("h3", {}, run.title)),
    el("div", { class: "maps two" }, hits.element, soon.element),
    colour_bar("0", `100 %, or ${number(most)} steps`, "before any training on a goal"));
}
