/** One lane of the race: its text, coloured by who guessed it, and how far it is. Model text enters here, and as text only. */
import { make } from "./dom.js";

/** Milliseconds that a rejected guess is seen. */
const FLASH = 450;

/**
 * A token as spans: the space before a word stays outside its colour, which at the end of a line would show as a stub.
 * @param {import("../engine.js").Token} token @param {string} [more] classes
 */
export function words({ text, origin }, more = "") {
  const [, space, word] = /^(\s*)([\s\S]*)$/.exec(text);
  const span = make("span", { className: `token ${more}`.trim(), textContent: word, dataset: { origin } });
  return space ? [make("span", { textContent: space }), span] : [span];
}

export class Lane {
  /** Guesses that were not checked yet. @type {HTMLElement[]} */
  #guesses = [];

  /** @param {string} id of its section */
  constructor(id) {
    this.id = id;
    this.section = /** @type {HTMLElement} */ (document.getElementById(id));
    this.name = this.section.querySelector("h3").textContent;
    this.text = this.section.querySelector(".text");
    this.bar = this.section.querySelector("progress");
  }

  /** Begins again. @param {string} [prompt] what the text goes on from */
  clear(prompt = "") {
    this.text.replaceChildren(...(prompt ? [make("span", { className: "prompt", textContent: prompt })] : []));
    this.#guesses = [];
    this.section.classList.remove("first");
    this.count(0, null);
  }

  /** @param {"measuring" | "replaying" | "done" | ""} state */
  set state(state) {
    this.section.dataset.state = state;
  }

  /** @param {number} tokens @param {number | null} seconds @param {number} [total] */
  count(tokens, seconds, total = 1) {
    this.bar.max = total;
    this.bar.value = Math.min(tokens, total);
    this.#show("tokens", `${tokens} tokens`);
    this.#show("clock", seconds === null ? "" : `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`);
  }

  /** @param {number} perSecond */
  speed(perSecond) {
    this.#show("clock", perSecond ? `${perSecond.toFixed(perSecond < 100 ? 1 : 0)} tokens/s` : "");
  }

  #show(name, value) {
    this.section.querySelector(`[data-value="${name}"]`).textContent = value;
  }

  /** Text that is settled. @param {import("../engine.js").Token[]} tokens */
  write(tokens) {
    this.#append(tokens.flatMap((token) => words(token)));
  }

  /** Guesses that wait for the target: those that it will accept, and those that it will not, empty where their words are not known. @param {import("../engine.js").Token[]} tokens @param {string[]} rejected */
  guess(tokens, rejected) {
    const kept = tokens.flatMap((token) => words(token, "guess"));
    const wrong = rejected.map((text) => make("span", { className: "guess wrong", textContent: text, ariaHidden: "true" }));
    this.#guesses.push(...kept, ...wrong);
    this.#append([...kept, ...wrong]);
  }

  /** The target's answer: right guesses stay, wrong ones flash and vanish, and its own token takes their place. */
  settle(tokens) {
    for (const guess of this.#guesses) {
      if (!guess.classList.contains("wrong")) guess.classList.remove("guess");
      else {
        guess.classList.add("rejected");
        setTimeout(() => guess.remove(), FLASH);
      }
    }
    this.#guesses = [];
    this.write(tokens);
  }

  #append(spans) {
    const { text } = this;
    const follows = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    text.append(...spans);
    // A visitor who has scrolled back wants to read.
    if (follows) text.scrollTop = text.scrollHeight;
  }
}
