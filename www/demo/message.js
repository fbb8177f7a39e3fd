/** A message of a conversation: text, actions, statistics. */
import { button, copy, make } from "./dom.js";
import { words } from "./lane.js";
import { Markdown } from "./markdown.js";

const NAMES = { user: "You", assistant: "Model" };

export class MessageView {
  #frame = 0;
  #tokens = /** @type {import("../engine.js").Token[]} */ ([]);
  #coloured = false;
  #markdown = /** @type {Markdown | null} */ (null);
  /** Runs each drawing of a growing answer. @param {() => void} draw */
  around = (draw) => draw();

  /** @param {"user" | "assistant"} role @param {string} content @param {boolean} isJson no Markdown */
  constructor(role, content = "", isJson = false) {
    this.role = role;
    this.isJson = isJson;
    this.content = content;
    this.body = make("div", { className: "body", ...(role === "user" && { dir: "auto" }) });
    this.numbers = make("p", { className: "hint numbers" });
    this.tools = make("p", { className: "tools" });
    this.element = make(
      "article",
      { className: "message", ariaLabel: NAMES[role], dataset: { role } },
      make("h3", { textContent: NAMES[role] }),
      this.body,
      this.numbers,
      this.tools,
    );
    this.#draw();
  }

  /** Adds tokens of an answer; draws once per frame. @param {import("../engine.js").Token[]} tokens */
  add(tokens) {
    this.#tokens.push(...tokens);
    this.content += tokens.map(({ text }) => text).join("");
    this.#frame ||= requestAnimationFrame(() => this.around(() => this.#draw(false)));
  }

  #draw(complete = true) {
    this.#frame = 0;
    const former = this.#markdown;
    this.#markdown = null;
    if (this.role === "user") this.body.textContent = this.content;
    else if (this.#coloured) this.body.replaceChildren(make("p", { className: "raw", dir: "auto" }, ...this.#tokens.flatMap((token) => words(token))));
    else if (this.isJson) this.body.replaceChildren(make("pre", { className: "raw", textContent: this.content }));
    else {
      if (!former) this.body.replaceChildren();
      this.#markdown = former ?? new Markdown(this.body);
      this.#markdown.draw(this.content, complete);
    }
  }

  /** Returns the answer without thoughts, for screen readers. */
  get answer() {
    return [...this.body.childNodes]
      .filter((node) => node.className !== "thought")
      .map(({ textContent }) => textContent)
      .join("\n")
      .trim();
  }

  /** Ends the answer. @param {import("../engine.js").Stats | undefined} stats @param {string[]} known warnings that were shown */
  finish(stats, known) {
    cancelAnimationFrame(this.#frame);
    this.around(() => this.#draw());
    if (!stats?.num_emitted_tokens) return;
    const { num_emitted_tokens: tokens, num_spec_steps: rounds, num_accepted_draft_tokens: kept, times, warnings } = stats;
    const parts = [
      tokens === 1 ? "1 token" : `${tokens} tokens`,
      times.tokens_per_second ? `${times.tokens_per_second.toFixed(1)} a second` : "",
      times.first_token >= 0.05 ? `first after ${times.first_token.toFixed(1)} s` : "",
      kept ? `${(kept / rounds).toFixed(1)} guesses kept per round` : "",
      ...warnings.filter((warning) => !known.includes(warning)),
    ];
    this.numbers.textContent = parts.filter(Boolean).join(" \u00b7 ");
  }

  /** Sets the possible actions. @param {{ edit?: () => void, again?: () => void }} actions */
  offer({ edit, again }) {
    const told = make("span", { className: "hint", role: "status" });
    const copying = button("Copy", () => copy(this.content, this.body, told), { className: "quiet" });
    const made = edit ? [button("Edit", edit, { className: "quiet", dataset: { starts: "" } })] : [];
    if (again) made.push(button("Write again", again, { className: "quiet", dataset: { starts: "" } }));
    if (this.#tokens.length) made.push(this.#colouring());
    this.tools.replaceChildren(copying, ...made, told);
  }

  #colouring() {
    const toggle = button(
      "Who guessed",
      () => {
        this.#coloured = !this.#coloured;
        toggle.ariaPressed = String(this.#coloured);
        this.#draw();
      },
      { className: "quiet", ariaPressed: String(this.#coloured) },
    );
    return toggle;
  }
}
