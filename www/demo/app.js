/** The demo page: one prompt, written with guesses and plainly. */
import { Engine, ForetokenError } from "../engine.js";

// The page's policy lets no string become code; the one address that it lets pass is that of the engine's worker.
globalThis.trustedTypes?.createPolicy("default", {
  createScriptURL: (url) => (url === new URL("../worker.js", import.meta.url).href ? url : null),
});

const MODEL = new URL("../models/tales/target/", import.meta.url).href;
const ASSISTANT = new URL("../models/tales/draft/", import.meta.url).href;

const PRESETS = {
  open: { kind: "text", drafter: "draft", prompt: "There was once a poor woodcutter who lived with his wife" },
  retell: {
    kind: "chat",
    drafter: "lookup",
    prompt: "Tell this again: One day her parents sat by the fire, talking over the extraordinary behaviour of their daughter, who was disporting herself in the snowstorm that raged outside.",
  },
  rename: {
    kind: "chat",
    drafter: "lookup",
    prompt: 'Put "miller" for "queen": So next morning early, the queen said to Anne, "Go, my dear, to the henwife in the glen, and ask her for some eggs." So Anne set out, but as she passed through the kitchen she saw a crust, and she took and munched it as she went along.',
  },
  continue: {
    kind: "chat",
    drafter: "draft",
    prompt: 'Continue the tale: When she came to the henwife\'s she asked for eggs, as she had been told to do; the henwife said to her, "Lift the lid off that pot there and see." The lassie did so, but nothing happened.',
  },
};
const DRAFTERS = {
  draft: {},
  lookup: { prompt_lookup_num_tokens: 10, max_matching_ngram_size: 3 },
};

const at = (id) => document.getElementById(id);
const form = at("form");

/** One lane: its text as it comes, and its numbers. */
class Lane {
  constructor(id) {
    this.section = at(id);
    this.show({ text: "", speed: "–", tokens: "–", rounds: "–", acceptance: "–", rate: "–" });
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) {
      this.section.querySelector(`[data-value="${name}"]`).textContent = value;
    }
  }

  /** Writes a prompt to its end and returns the generation. */
  async run(engine, prompt, options) {
    const text = this.section.querySelector('[data-value="text"]');
    this.section.classList.add("running");
    try {
      const stream = engine.generate(prompt, options);
      let [count, rounds, began] = [0, 0, 0];
      for await (const { tokens } of stream) {
        for (const { text: part, origin } of tokens) {
          const span = document.createElement("span");
          span.className = `token ${origin}`;
          span.textContent = part;
          text.append(span);
        }
        rounds++;
        // The first round waits for the prompt, so the clock starts when it ends.
        if (!began) began = performance.now();
        else count += tokens.length;
        const seconds = (performance.now() - began) / 1000;
        this.show({ tokens: text.childElementCount, rounds, ...(count && { speed: (count / seconds).toFixed(1) }) });
      }
      const generation = await stream.result;
      const { stats } = generation;
      this.show({
        speed: stats.times.tokens_per_second ? stats.times.tokens_per_second.toFixed(1) : "–",
        tokens: stats.num_emitted_tokens,
        rounds: stats.num_spec_steps,
        acceptance: stats.mean_acceptance_length.toFixed(2),
        rate: stats.num_draft_tokens ? `${Math.round(100 * stats.draft_acceptance_rate)} %` : "none made",
      });
      return generation;
    } finally {
      this.section.classList.remove("running");
    }
  }
}

let loading;
let control;

function engine(signal) {
  loading ??= Engine.load(MODEL, { assistant_model: ASSISTANT, max_context: 1024, signal, onProgress: showProgress }).then((engine) => {
    const { name, backend, driver } = engine.device;
    at("device").textContent = `GPU: ${[name || driver, backend].filter(Boolean).join(", ")}`;
    return engine;
  });
  loading.catch(() => (loading = undefined));
  return loading;
}

const files = new Map();
function showProgress({ phase, model, file, loaded, total }) {
  if (phase === "download") files.set(`${model}/${file}`, { loaded, total });
  const sum = (name) => [...files.values()].reduce((all, each) => all + each[name], 0);
  const words = {
    download: () => `Loading the model: ${(sum("loaded") / 1e6).toFixed(1)} MB`,
    upload: () => `To the GPU: ${(loaded / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`,
    compile: () => "Compiling, and checking this GPU",
  };
  at("doing").textContent = words[phase]();
  at("bar").value = phase === "download" ? sum("loaded") / sum("total") : loaded / total;
  at("progress").hidden = phase === "compile" && loaded === total;
}

function showProblem(error) {
  at("problem").hidden = !error;
  at("problem").textContent = error ? `${error.message}${error instanceof ForetokenError ? ` (${error.code})` : ""}` : "";
}

function compare(fast, plain) {
  const same = fast.token_ids.join() === plain.token_ids.join();
  if (!same) return "The two texts differ: please report this, with your GPU's name.";
  const ratio = fast.stats.times.tokens_per_second / plain.stats.times.tokens_per_second;
  const count = plain.token_ids.length;
  if (!Number.isFinite(ratio)) return `The same ${count} tokens.`;
  return `The same ${count} tokens, ${ratio >= 1 ? `${ratio.toFixed(2)} times as fast` : `at ${ratio.toFixed(2)} of the speed`} with guesses.`;
}

async function race() {
  control = new AbortController();
  const { signal } = control;
  showProblem(null);
  at("write").disabled = true;
  at("stop").disabled = false;
  const lanes = [new Lane("speculative"), new Lane("plain")];
  at("verdict").textContent = "";
  try {
    const ready = await engine(signal);
    const options = { max_new_tokens: Number(at("length").value), signal };
    const content = at("prompt").value;
    const prompt = at("kind").value === "chat" ? [{ role: "user", content }] : content;
    const fast = await lanes[0].run(ready, prompt, { ...options, ...DRAFTERS[at("drafter").value] });
    const plain = await lanes[1].run(ready, prompt, { ...options, speculation: "off" });
    at("verdict").textContent = compare(fast, plain);
  } catch (error) {
    at("progress").hidden = true;
    if (error.code === "aborted") at("verdict").textContent = "Stopped.";
    else showProblem(error);
  }
  at("write").disabled = false;
  at("stop").disabled = true;
}

function choose(name) {
  for (const [id, value] of Object.entries(PRESETS[name])) at(id).value = value;
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.setAttribute("aria-pressed", String(button.dataset.preset === name));
  }
}

for (const button of document.querySelectorAll("[data-preset]")) {
  button.addEventListener("click", () => choose(button.dataset.preset));
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  race();
});
at("stop").addEventListener("click", () => control.abort());
choose("open");

if (!navigator.gpu) {
  showProblem({
    message: isSecureContext
      ? "This browser shows no WebGPU, so the model cannot run here. Chrome and Edge have it from 113 on (on Linux start them with " +
        "--enable-unsafe-webgpu --enable-features=Vulkan), Safari from 26 on, Firefox from 141 on Windows (elsewhere: dom.webgpu.enabled in about:config)."
      : "WebGPU needs a secure page: open this one by https, or from localhost.",
  });
  at("write").disabled = true;
}
