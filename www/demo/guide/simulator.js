/** The simulator's page: gains of speculation from given or measured latencies. */
import "../policy.js";
import { at, make } from "../dom.js";
import { measureLatencies } from "./latencies.js";
import { PAIRS } from "./paper.js";
import init, { simulateCell, simulateHeatmaps } from "./simulate.js";

const sliders = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("#sliders input")]);
const ms = (value) => `${Number(value.toPrecision(3))} ms`;
const times = (ratio) => `${ratio.toFixed(2)} times`;

let frame = 0;
let styled = false;
/** Matches if two heatmaps do not fit side by side. */
const narrow = matchMedia("(max-width: 42rem)");
/** Settings of the drawn heatmaps. */
let mapped = "";

/** Shows an SVG. The page's policy forbids inline styles, so its rules are adopted, once for all pictures. */
function draw(place, svg) {
  const [style, rules] = /<style>(.*?)<\/style>/s.exec(svg);
  if (!styled) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    document.adoptedStyleSheets.push(sheet);
    styled = true;
  }
  const { documentElement } = new DOMParser().parseFromString(svg.replace(style, ""), "image/svg+xml");
  place.replaceChildren(document.importNode(documentElement, true));
}

function values() {
  return Object.fromEntries(sliders.map(({ name, valueAsNumber }) => [name, valueAsNumber]));
}

function told({ plain, si, dsi }, lookaheads) {
  const all = `Plain decoding takes ${ms(plain)}, SI (lookahead ${lookaheads.si}) ${ms(si)}, DSI ${ms(dsi)}`;
  const [[winner, best], [second, next]] = [
    ["plain decoding", plain],
    ["SI", si],
    ["DSI", dsi],
  ].sort((a, b) => a[1] - b[1]);
  if (next / best < 1.005) return `${all}: ${winner} and ${second} are equally fast.`;
  const gain = winner === "plain decoding" ? "speculation costs more than it saves" : `${times(plain / best)} as fast as plain decoding`;
  return `${all}: ${winner} wins, ${gain}${second === "plain decoding" ? "" : `, ${times(next / best)} as fast as ${second}`}.`;
}

function redraw() {
  frame = 0;
  for (const slider of sliders) {
    const text = slider.dataset.unit ? `${slider.value} ${slider.dataset.unit}` : slider.value;
    at(`${slider.id}-value`).textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }
  const { target, drafter, acceptance, lookahead, sp, tokens } = values();
  at("place").textContent =
    `Your setting: ${Number((drafter / target).toPrecision(2))} to the right${drafter > target ? ", beyond the edge" : ""}, ${acceptance} up.`;
  try {
    const { picture, means, lookaheads } = simulateCell(target, drafter, acceptance, lookahead, sp, tokens);
    at("simulated").textContent = told(means, lookaheads);
    draw(at("timeline"), picture);
  } catch (error) {
    at("simulated").textContent = error.message;
  }
}

function map() {
  const { sp, tokens } = values();
  const columns = narrow.matches ? 1 : 2;
  if (mapped === [sp, tokens, columns].join()) return;
  mapped = [sp, tokens, columns].join();
  draw(at("heatmaps"), simulateHeatmaps(sp, tokens, columns));
}

/** Sets sliders. */
function set(setting) {
  for (const slider of sliders) if (slider.name in setting) slider.value = String(setting[slider.name]);
  redraw();
}

/** The running measurement. @type {AbortController | null} */
let measuring = null;

/** Replaces the paper's numbers by measurements on this device. During a measurement it ends the measurement. */
async function measureHere() {
  if (measuring) return measuring.abort();
  measuring = new AbortController();
  const [status, start] = [at("sim-status"), at("sim-here")];
  status.textContent = "Measuring the toy models on this device.";
  start.textContent = "Stop";
  try {
    const measured = await measureLatencies(measuring.signal);
    set(measured);
    at("sim-pair").value = "";
    status.textContent = `Measured here: target ${ms(measured.target)}, drafter ${ms(measured.drafter)}, acceptance ${measured.acceptance.toFixed(2)}.`;
  } catch (error) {
    status.textContent = error.code === "aborted" ? "Stopped." : error.message;
  }
  start.textContent = "Measure this device";
  measuring = null;
}

function choosePair() {
  const pair = PAIRS[Number(at("sim-pair").value)];
  if (at("sim-pair").value && pair) set(pair);
}

try {
  await init();
  const soon = () => (frame ||= requestAnimationFrame(redraw));
  for (const slider of sliders) {
    slider.addEventListener("input", soon);
    // Hundreds of cells, so only after the last move of the slider.
    slider.addEventListener("change", map);
  }
  narrow.addEventListener("change", map);
  at("sim-pair").append(...PAIRS.map(({ name }, i) => make("option", { value: String(i), textContent: name })));
  at("sim-pair").addEventListener("change", choosePair);
  at("sim-here").addEventListener("click", measureHere);
  redraw();
  map();
} catch (error) {
  at("simulated").textContent = `The simulator could not be loaded: ${error.message}`;
}
