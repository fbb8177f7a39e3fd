/** A lane of the race: its text, coloured by drafter, and its progress. Model text becomes text nodes only. */
import { make } from "./dom.js";

/** Milliseconds for which a rejected guess is shown. */
const FLASH = 450;

/** Returns a token as spans. The space before a word is not coloured. @param {string} [more] classes */
export function words({ text, origin }, more = "") {
  const [, space, word] = /^(\s*)([\s\S]*)$/.exec(text);
  const span = make("span", { className: `token ${more}`.trim(), textContent: word, dataset: { origin } });
  return space ? [make("span", { textContent: space }), span] : [span];
}

export class Lane {
  /** Unchecked guesses. @type {HTMLElement[]} */
  #guesses = [];

  /** @param {string} id of its section */
  constructor(id) {
    this.id = id;
    this.section = /** @type {HTMLElement} */ (document.getElementById(id));
    this.name = this.section.querySelector("h3").textContent;
    this.text = this.section.querySelector(".text");
    this.bar = this.section.querySelector("progress");
  }

  /** Begins again. @param {string} [prompt] shown before the text */
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

  count(tokens, seconds, total = 1) {
    this.bar.max = total;
    this.bar.value = Math.min(tokens, total);
    this.#show("tokens", `${tokens} tokens`);
    this.#show("clock", seconds === null ? "" : `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`);
  }

  speed(perSecond) {
    this.#show("clock", perSecond ? `${perSecond.toFixed(perSecond < 100 ? 1 : 0)} tokens/s` : "");
  }

  #show(name, value) {
    this.section.querySelector(`[data-value="${name}"]`).textContent = value;
  }

  /** Shows final text. @param {import("../engine.js").Token[]} tokens */
  write(tokens) {
    this.#append(tokens.flatMap((token) => words(token)));
  }

  /** Shows guesses before their check. @param {import("../engine.js").Token[]} tokens accepted ones @param {string[]} rejected empty if unknown */
  guess(tokens, rejected) {
    const kept = tokens.flatMap((token) => words(token, "guess"));
    const wrong = rejected.map((text) => make("span", { className: "guess wrong", textContent: text, ariaHidden: "true" }));
    this.#guesses.push(...kept, ...wrong);
    this.#append([...kept, ...wrong]);
  }

  /** Shows the check: accepted guesses stay. Rejected ones follow the text until they vanish, so no word moves. */
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
    const rejected = text.querySelector(".rejected");
    if (rejected) rejected.before(...spans);
    else text.append(...spans);
    // Not if the visitor has scrolled back.
    if (follows) text.scrollTop = text.scrollHeight;
  }
}
