// Makes docs/passes.svg, the README's picture: one text of the tales pair, by the target alone and with its draft model. The numbers are
// counts of a run, which are equal on every device. `node scripts/passes.mjs` builds what is missing.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { needBuild } from "./build.mjs";

const path = (/** @type {string} */ name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const PROMPT = "Once upon a time there was a king who had";
const TOKENS = 60;
const LANES = [
  { title: "The model alone", options: { speculation: "off" } },
  { title: "With speculation", options: { drafter: "draft_model", num_assistant_tokens: 3, num_assistant_tokens_schedule: "constant" } },
];

/** Columns of text, and pixels of a column. */
const COLUMNS = 100;
const COLUMN = 8;
const LINE = 24;
const MARGIN = 30;
const WIDTH = COLUMNS * COLUMN + 2 * MARGIN;
/** Seconds of animation for a forward pass. */
const PASS = 0.15;

/** Returns the tokens of each forward pass. @param {any} engine @param {object} options */
async function answer(engine, options) {
  const stream = engine.generate(PROMPT, { min_new_tokens: TOKENS, max_new_tokens: TOKENS, ...options });
  const passes = [];
  for await (const { tokens } of stream) passes.push(tokens);
  const { text, stats } = await stream.result;
  if (passes.length !== stats.num_spec_steps) throw new Error(`${stats.num_spec_steps} forward passes wrote ${passes.length} pieces`);
  return { passes, text };
}

/** Returns the tokens with the places of their text, in lines that end between words. */
function place(/** @type {any[][]} */ passes) {
  let [row, column] = [0, 0];
  const all = passes.flatMap((tokens, pass) => tokens.map(({ text, origin }) => ({ pass, isDrafted: origin !== "target", text: text.replace(/\s/g, " ") })));
  return all.map((token, at) => {
    const end = all.findIndex(({ text }, other) => other > at && text.startsWith(" "));
    const word = all.slice(at, end < 0 ? undefined : end).reduce((length, { text }) => length + text.length, 0);
    let { text } = token;
    if (text.startsWith(" ") && column + word > COLUMNS) [row, column] = [row + 1, 0];
    if (column === 0) text = text.trimStart();
    column += text.length;
    return { ...token, text, row, column: column - text.length };
  });
}

const round = (/** @type {number} */ value) => Math.round(10 * value) / 10;
const escaped = (/** @type {string} */ text) => text.replace(/[&<>]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[mark]);
const write = (x, y, text, kind = "", anchor = "start") => `<text x="${x}" y="${y}" text-anchor="${anchor}" class="${kind}">${escaped(text)}</text>`;
const box = (x, y, width, height, kind) => `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="2" class="${kind}"/>`;
const dated = (pass, content) => `<g style="animation-delay:${(pass * PASS).toFixed(2)}s">${content}</g>`;

/** Draws a text: its tokens, and a mark for each forward pass. */
function lane(top, title, passes) {
  const tokens = place(passes);
  const rows = tokens.at(-1).row + 1;
  const counted = `${tokens.length} tokens in ${passes.length} forward passes`;
  const marks = top + 24 + rows * LINE;
  const step = (WIDTH - 2 * MARGIN + 3) / TOKENS;
  const drawn = passes.map((_, pass) => {
    const words = tokens
      .filter((token) => token.pass === pass)
      .map(({ row, column, text, isDrafted }) => {
        const [x, y] = [MARGIN + column * COLUMN, top + 38 + row * LINE];
        const length = text.trimStart().length;
        const start = x + (text.length - length) * COLUMN;
        const word = length ? `<text x="${start}" y="${y}" textLength="${length * COLUMN}" class="token">${escaped(text.trimStart())}</text>` : "";
        return (isDrafted ? box(x, y - 15, text.length * COLUMN, 20, "draft") : "") + word;
      });
    return dated(pass, words.join("") + box(round(MARGIN + pass * step), marks, round(step - 3), 8, "pass"));
  });
  const head = write(MARGIN, top + 10, title, "title") + write(WIDTH - MARGIN, top + 10, counted, "title", "end");
  return { svg: head + drawn.join("\n"), bottom: marks + 8 };
}

await needBuild();
const { Engine } = await import("../dist/node.js");
const engine = await Engine.load(path("models/tales/target"), { assistant_model: path("models/tales/draft"), device: "cpu" });
const answers = [];
for (const { options } of LANES) answers.push(await answer(engine, options));
engine.close();
if (new Set(answers.map(({ text }) => text)).size > 1) throw new Error("speculation changed the text");

const parts = [write(MARGIN, 34, PROMPT, "title")];
let bottom = 44;
for (const [i, { passes }] of answers.entries()) {
  const drawn = lane(bottom + 24, LANES[i].title, passes);
  parts.push(drawn.svg);
  bottom = drawn.bottom;
}
const legend = bottom + 30;
parts.push(
  box(MARGIN, legend - 12, 22, 15, "draft"),
  write(MARGIN + 30, legend, "drafted by the draft model and verified by the target (the tales pair)", "quiet"),
  box(WIDTH - MARGIN - 150, legend - 9, 16, 8, "pass"),
  write(WIDTH - MARGIN, legend, "one forward pass", "quiet", "end"),
);
const height = legend + 18;
const label = `A text of ${TOKENS} tokens: ${answers.map(({ passes }, i) => `${LANES[i].title.toLowerCase()}, ${passes.length} forward passes`).join("; ")}`;
writeFileSync(
  path("docs/passes.svg"),
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img"><title>${label}</title><style>
.paper{fill:#fbfaf7}.draft{fill:#cdebdc}.pass{fill:#14625a}text{fill:#1d1f22;font:13px system-ui,sans-serif}.quiet{fill:#5f6266}
@media(prefers-color-scheme:dark){.paper{fill:#15171a}.draft{fill:#1d4a3c}.pass{fill:#6fd0c2}text{fill:#e8e6e1}.quiet{fill:#a3a5a8}}
text.title{font-weight:600;font-size:15px}text.token{font:13px ui-monospace,Menlo,Consolas,monospace}
@media(prefers-reduced-motion:no-preference){g{animation:appear 1ms backwards}}@keyframes appear{from{opacity:0}}
</style>
${box(0, 0, WIDTH, height, "paper")}
${parts.join("\n")}
</svg>
`,
);
console.log(label);
