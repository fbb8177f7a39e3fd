/** A conversation with the chosen model. */
import { at, say } from "./dom.js";
import { MessageView } from "./message.js";
import { chosen, need, onModel, ready } from "./model.js";
import { TALES } from "./pairs.js";
import { readForm, refuseForm, startForms } from "./schema.js";
import { readSettings } from "./settings.js";

/** What a conversation takes where the settings say nothing: as the model's makers advise, and the oldest turns go first. */
const DEFAULTS = { do_sample: "model", max_new_tokens: 512, context: "shift" };

/** What was said, with how it is shown. @type {MessageView[]} */
let views = [];
/** @type {(work: (signal: AbortSignal) => Promise<void>) => Promise<void>} */
let attempt;

const messages = () => views.map(({ role, content }) => ({ role, content }));

function show() {
  at("messages").replaceChildren(...views.map(({ element }) => element));
  for (const [i, view] of views.entries()) {
    const last = i === views.length - 1;
    view.offer(view.role === "user" ? { edit: () => edit(i) } : { again: last ? () => attempt(again) : undefined });
  }
  at("empty").hidden = views.length > 0;
  at("new-chat").hidden = views.length === 0;
}

/** Puts an earlier message back into the field; what came behind it goes. */
function edit(i) {
  if (document.body.dataset.state === "busy") return;
  at("message").value = views[i].content;
  views = views.slice(0, i);
  show();
  at("message").focus();
}

/** Writes another answer; the former one comes back if there is none. */
async function again(signal) {
  const former = views.pop();
  show();
  try {
    await answer(signal);
  } catch (error) {
    if (views.at(-1).role === "user") views.push(former);
    show();
    throw error;
  }
}

/** @param {AbortSignal} signal */
async function answer(signal) {
  say(ready() ? "Writing." : "Loading the model.");
  const form = readForm();
  const engine = await need(signal);
  say("Writing.");
  const question = messages();
  const view = new MessageView("assistant", "", Boolean(form.response_format));
  views.push(view);
  show();
  let stats;
  try {
    const stream = engine.generate(question, { ...DEFAULTS, ...readSettings("generation"), ...form, signal });
    for await (const { tokens } of stream) {
      const follows = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
      view.add(tokens);
      if (follows) at("composer").scrollIntoView({ block: "end" });
    }
    ({ stats } = await stream.result);
    say("Done.", true);
  } catch (error) {
    stats = error.detail?.stats;
    refuseForm(error);
    if (!view.content) views.pop();
    throw error;
  } finally {
    view.finish(stats, engine.warnings);
    show();
  }
}

async function send(signal) {
  views.push(new MessageView("user", at("message").value.trim()));
  at("message").value = "";
  show();
  try {
    await answer(signal);
  } catch (error) {
    // What was not answered at all goes back into the field.
    if (views.at(-1)?.role === "user") at("message").value = views.pop().content;
    show();
    throw error;
  }
}

function showModel() {
  const tales = chosen().id === TALES.id;
  at("talking-to").textContent = tales
    ? "Nobody to talk to yet: the tales pair knows fairy tales and nothing else. Choose a model above."
    : `You talk to ${chosen().name}. Nothing of it leaves this device.`;
  at("message").placeholder = tales ? "Tell this again: ..." : "Ask something";
}

export function startChat(begin) {
  attempt = begin;
  at("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at("message").value.trim()) attempt(send);
  });
  at("message").addEventListener("keydown", (event) => {
    // Enter sends; while characters are being composed, it does not.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    at("composer").requestSubmit();
  });
  startForms();
  at("new-chat").addEventListener("click", () => {
    if (document.body.dataset.state === "busy") return;
    views = [];
    show();
    at("message").focus();
  });
  onModel(showModel);
  showModel();
  show();
}
