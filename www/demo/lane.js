/** One lane of the race: its text as it comes, and its numbers. */

const NONE = "–";

export class Lane {
  /** @param {string} id of its section */
  constructor(id) {
    this.id = id;
    this.section = document.getElementById(id);
    this.name = this.section.querySelector("h3").textContent;
    this.text = this.section.querySelector(".text");
  }

  clear() {
    this.text.replaceChildren();
    this.show({ speed: NONE, tokens: NONE, rounds: NONE, acceptance: NONE, rate: NONE });
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) {
      this.section.querySelector(`[data-value="${name}"]`).textContent = value;
    }
  }

  /** Model text enters here, and as text only. */
  #write(tokens) {
    const { text } = this;
    const follows = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    const spans = tokens.map(({ text: part, origin }) => {
      const span = document.createElement("span");
      span.className = "token";
      span.dataset.origin = origin;
      span.textContent = part;
      return span;
    });
    text.append(...spans);
    // Whoever has scrolled back wants to read.
    if (follows) text.scrollTop = text.scrollHeight;
  }

  #finish({ stats }) {
    this.show({
      speed: stats.times.tokens_per_second ? stats.times.tokens_per_second.toFixed(1) : NONE,
      tokens: stats.num_emitted_tokens,
      rounds: stats.num_spec_steps,
      acceptance: stats.mean_acceptance_length.toFixed(2),
      rate: stats.num_draft_tokens ? `${Math.round(100 * stats.draft_acceptance_rate)} %` : "none made",
    });
  }

  /**
   * Writes a prompt to its end.
   * @param {import("../engine.js").Engine} engine
   * @param {import("../engine.js").Prompt} prompt
   * @param {import("../engine.js").GenerateOptions} options
   * @param {(round: { seconds: number, total: number, accepted: number }) => void} onRound
   */
  async run(engine, prompt, options, onRound) {
    this.section.classList.add("running");
    try {
      const stream = engine.generate(prompt, options);
      let [total, first, rounds, began] = [0, 0, 0, 0];
      for await (const { tokens } of stream) {
        this.#write(tokens);
        total += tokens.length;
        rounds++;
        // The first round waits for the prompt, so the clock starts when it ends.
        if (!began) [began, first] = [performance.now(), total];
        const seconds = (performance.now() - began) / 1000;
        onRound({ seconds, total, accepted: tokens.filter(({ origin }) => origin !== "target").length });
        this.show({ tokens: total, rounds, acceptance: (total / rounds).toFixed(2), ...(seconds && { speed: ((total - first) / seconds).toFixed(1) }) });
      }
      const generation = await stream.result;
      this.#finish(generation);
      return generation;
    } catch (error) {
      if (error.detail?.stats) this.#finish(error.detail);
      throw error;
    } finally {
      this.section.classList.remove("running");
    }
  }
}
