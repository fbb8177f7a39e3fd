/** Two charts in SVG. One unit is one pixel, so that texts keep their size on a phone. */

const make = (name, attributes = {}, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.textContent = text;
  return element;
};

/** Returns round numbers from 0 to at least `max`. */
function ticks(max, count, whole = false) {
  const raw = max / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const nice = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const step = whole ? Math.max(1, Math.round(nice)) : nice;
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

const MARGIN = { top: 26, right: 14, bottom: 40, left: 40 };

class Chart {
  #frame = 0;

  /** @param {SVGSVGElement} svg @param {{ x: string, y: string, xWhole: boolean, yWhole: boolean }} axes their units, and whether they count things */
  constructor(svg, axes) {
    this.svg = svg;
    this.axes = axes;
    this.clear();
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  /** Draws once per frame. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#render();
    });
  }

  /** Writes the text alternative. */
  describe() {
    this.svg.setAttribute("aria-label", this.summary());
  }

  #render() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
    const { x: xMax, y: yMax } = this.extent();
    const xs = ticks(xMax || 1, width < 400 ? 4 : 6, this.axes.xWhole).filter((tick) => tick <= (xMax || 1));
    const ys = ticks(yMax || 1, 4, this.axes.yWhole);
    const x = (value) => MARGIN.left + (value / (xMax || 1)) * (right - MARGIN.left);
    const y = (value) => bottom - (value / ys.at(-1)) * (bottom - MARGIN.top);
    const drawn = [
      ...ys.map((tick) => make("line", { class: tick ? "grid" : "axis", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) })),
      ...ys.map((tick) => make("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick))),
      ...xs.map((tick) => make("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, String(tick))),
      make("text", { class: "unit", x: 2, y: 13 }, this.axes.y),
      make("text", { class: "unit", x: right, y: height - 5, "text-anchor": "end" }, this.axes.x),
    ];
    this.svg.replaceChildren(...drawn, ...this.marks(x, y));
  }
}

/** Number of rounds per mean speed. */
const WINDOW = 8;

/** Tokens per second over time, one line per lane. */
export class SpeedChart extends Chart {
  constructor(svg) {
    super(svg, { x: "seconds since the first round", y: "tokens/s", xWhole: false, yWhole: false });
  }

  clear() {
    this.lanes = {};
    this.describe();
    this.draw();
  }

  /** @param {string} lane @param {string} name for people @param {number} seconds since the lane's first round @param {number} tokens so far */
  add(lane, name, seconds, tokens) {
    this.lanes[lane] ??= { name, rounds: [], points: [] };
    const { rounds, points } = this.lanes[lane];
    rounds.push({ seconds, tokens });
    const past = rounds[Math.max(0, rounds.length - 1 - WINDOW)];
    // The clock may be too coarse for two rounds.
    if (rounds.length > 1) points.push({ seconds, speed: (tokens - past.tokens) / Math.max(seconds - past.seconds, 1e-3) });
    this.draw();
  }

  all() {
    return Object.values(this.lanes).flatMap(({ points }) => points);
  }

  extent() {
    return { x: Math.max(0, ...this.all().map(({ seconds }) => seconds)), y: Math.max(0, ...this.all().map(({ speed }) => speed)) };
  }

  *marks(x, y) {
    for (const [lane, { points }] of Object.entries(this.lanes)) {
      const at = points.map(({ seconds, speed }) => [x(seconds).toFixed(1), y(speed).toFixed(1)]);
      if (!at.length) continue;
      yield make("polyline", { class: `series ${lane}`, points: at.map((pair) => pair.join()).join(" ") });
      const [cx, cy] = at.at(-1);
      yield lane === "plain"
        ? make("rect", { class: "end plain", x: cx - 4, y: cy - 4, width: 8, height: 8 })
        : make("circle", { class: `end ${lane}`, cx, cy, r: 4.5 });
    }
  }

  summary() {
    const told = Object.values(this.lanes)
      .filter(({ points }) => points.length)
      .map(({ name, points }) => {
        const speeds = points.map(({ speed }) => speed);
        const [low, high, last] = [Math.min(...speeds), Math.max(...speeds), speeds.at(-1)].map((speed) => speed.toFixed(1));
        return `${name}: between ${low} and ${high}, ${last} at the end, after ${points.at(-1).seconds.toFixed(1)} seconds.`;
      });
    return ["Tokens per second over time.", ...(told.length ? told : ["Nothing has been written yet."])].join(" ");
  }
}

/** Guesses kept in each round, and all guesses as an outline. */
export class AcceptanceChart extends Chart {
  constructor(svg) {
    super(svg, { x: "round", y: "guesses", xWhole: true, yWhole: true });
  }

  clear() {
    this.set([]);
    this.describe();
  }

  /** @param {number} accepted by one more round */
  add(accepted) {
    this.accepted.push(accepted);
    this.draw();
  }

  set(accepted, drafted = []) {
    Object.assign(this, { accepted, drafted });
    this.draw();
  }

  extent() {
    return { x: this.accepted.length, y: Math.max(0, ...this.accepted, ...this.drafted) };
  }

  *marks(x, y) {
    const step = x(1) - x(0);
    const width = Math.max(step * 0.72, 0.5);
    const bar = (name, value, round) =>
      make("rect", { class: name, x: x(round) + (step - width) / 2, y: y(value), width, height: Math.max(y(0) - y(value), 0) });
    yield* this.drafted.map((value, round) => bar("proposed", value, round));
    yield* this.accepted.map((value, round) => bar("accepted", value, round));
  }

  summary() {
    const rounds = this.accepted.length;
    if (!rounds) return "Guesses kept in each round. Nothing has been written yet.";
    const sum = this.accepted.reduce((all, each) => all + each, 0);
    const none = this.accepted.filter((each) => !each).length;
    return `Guesses kept in each round. ${rounds} rounds accepted ${sum}, ${(sum / rounds).toFixed(1)} each in the mean, at most ${Math.max(...this.accepted)}; ${none} rounds accepted none.`;
  }
}
