/** A result as a picture: the number, the text coloured by drafter, the device and the page's address. */
import { figure, headline } from "./outcome.js";

const [WIDTH, HEIGHT, MARGIN] = [1200, 630, 72];
const SERIF = 'Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, serif';
const SANS = "system-ui, sans-serif";

/** Breaks a text into lines of a width. A text that does not fit ends in an ellipsis. */
function lines(pen, text, width, most) {
  /** @type {string[]} */
  const made = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && pen.measureText(longer).width > width) {
      made.push(line);
      line = word;
    } else line = longer;
  }
  made.push(line);
  if (made.length > most) made.splice(most - 1, Infinity, `${made[most - 1]} \u2026`);
  return made;
}

/** @typedef {{ text: string, ink: string, ground?: string }} Piece a part of a text, and its colours */

/** Splits pieces into words, each with the space before it. @param {Piece[]} pieces @returns {Piece[][]} */
function wordsOf(pieces) {
  /** @type {Piece[][]} */
  const words = [];
  for (const { text, ...colours } of pieces) {
    for (const part of text.split(/(?<=\S)(?=\s)/)) {
      if (/^\s/.test(part) || !words.length) words.push([]);
      words.at(-1).push({ text: part, ...colours });
    }
  }
  return words;
}

/** Splits a word into letters. @param {Piece[]} word @returns {Piece[][]} */
const lettersOf = (word) => word.flatMap(({ text, ...colours }) => [...text].map((letter) => [{ text: letter, ...colours }]));

/**
 * Writes pieces within a width. Wider words are broken between letters. Text below the bottom is omitted.
 * @param {CanvasRenderingContext2D} pen @param {Piece[]} pieces
 * @param {{ x: number, y: number, width: number, line: number, bottom: number }} place
 */
function flow(pen, pieces, { x: left, y, width, line, bottom }) {
  const wide = (/** @type {string} */ text) => pen.measureText(text).width;
  const widthOf = (/** @type {Piece[]} */ word) => wide(word.map(({ text }) => text).join(""));
  let x = left;
  for (const word of wordsOf(pieces).flatMap((word) => (widthOf(word) > width ? lettersOf(word) : [word]))) {
    if (x > left && (word[0].text.includes("\n") || x + widthOf(word) > left + width)) [x, y] = [left, y + line];
    if (y > bottom) return;
    for (const { text, ink, ground } of word) {
      const bare = text.trimStart();
      if (x > left) x += wide(text.slice(0, text.length - bare.length));
      if (ground) {
        pen.fillStyle = ground;
        pen.fillRect(x, y - line * 0.62, wide(bare), line * 0.82);
      }
      pen.fillStyle = ink;
      pen.fillText(bare, x, y);
      x += wide(bare);
    }
  }
}

/** @param {HTMLCanvasElement} canvas @param {import("./outcome.js").Outcome} outcome @param {string} address of the page, for people */
export function drawCard(canvas, outcome, address) {
  Object.assign(canvas, { width: WIDTH, height: HEIGHT });
  const pen = canvas.getContext("2d");
  // Only elements resolve light-dark().
  const colour = (/** @type {string} */ name) => {
    canvas.style.color = `var(--${name})`;
    return getComputedStyle(canvas).color;
  };
  const [paper, ink, quiet, accent, line, draft, lookup, prediction] = ["paper", "ink", "quiet", "accent", "line", "draft", "lookup", "prediction"].map(colour);
  const write = (text, x, y, font, fill) => {
    Object.assign(pen, { font, fillStyle: fill });
    pen.fillText(text, x, y);
  };
  Object.assign(pen, { fillStyle: paper });
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  const shown = headline(outcome);
  const { number, words, note } = shown;
  let y = MARGIN + 24;
  write("foretoken: language models in your browser", MARGIN, y, `600 30px ${SERIF}`, quiet);
  if (number) {
    y += 150;
    write(figure(shown), MARGIN, y, `600 140px ${SERIF}`, accent);
    const x = MARGIN + pen.measureText(figure(shown)).width + 36;
    pen.font = `28px ${SANS}`;
    const meaning = [words.replace(/^times /, ""), note].filter(Boolean).join(". ");
    lines(pen, meaning, WIDTH - MARGIN - x, 4).forEach((each, i, all) => write(each, x, y - (all.length - 1 - i) * 36, `28px ${SANS}`, ink));
  } else {
    pen.font = `40px ${SANS}`;
    for (const each of lines(pen, [words, note].filter(Boolean).join(" "), WIDTH - 2 * MARGIN, 3)) write(each, MARGIN, (y += 56), `40px ${SANS}`, ink);
  }
  Object.assign(pen, { fillStyle: line });
  pen.fillRect(MARGIN, (y += 44), WIDTH - 2 * MARGIN, 2);
  pen.font = `28px ${SERIF}`;
  const grounds = { draft_model: draft, mtp: draft, dflash: draft, dspark: draft, gemma4_assistant: draft, lookup, suffix: lookup, prediction };
  const pieces = outcome.tokens.map(({ text, origin }) => ({ text, ink, ground: grounds[origin] }));
  if (outcome.kind === "text") pieces.unshift({ text: outcome.prompt, ink: quiet, ground: undefined });
  flow(pen, pieces, { x: MARGIN, y: y + 48, width: WIDTH - 2 * MARGIN, line: 42, bottom: HEIGHT - MARGIN - 44 });
  pen.font = `24px ${SANS}`;
  const wide = pen.measureText(address).width;
  write(address, WIDTH - MARGIN - wide, HEIGHT - MARGIN + 12, `24px ${SANS}`, accent);
  const [foot] = lines(pen, `${outcome.spec.name} on ${outcome.device}`, WIDTH - 2 * MARGIN - wide - 36, 1);
  write(foot, MARGIN, HEIGHT - MARGIN + 12, `24px ${SANS}`, quiet);
  canvas.style.color = "";
}
