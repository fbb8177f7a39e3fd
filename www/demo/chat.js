/** A conversation with the chosen model. */
import { at, say } from "./dom.js";
import { MessageView } from "./message.js";
import { chosen, need, onModel, ready } from "./model.js";
import { TALES } from "./pairs.js";
import { readForm, refuseForm, startForms } from "./schema.js";
import { readSettings } from "./settings.js";

/** Defaults of a conversation. */
const DEFAULTS = { max_new_tokens: 512, context: "shift" };
/** Options that make the engine draw tokens at random. */
const DRAWING = ["temperature", "top_k", "top_p", "min_p", "seed"];

/** Messages with their views. @type {MessageView[]} */
let views = [];
/** @type {(work: (signal: AbortSignal) => Promise<void>) => Promise<void>} */
let attempt;

/** Key of the stored conversation. Each tab has its own in the session storage. A new tab begins with the latest one. */
const KEY = "foretoken-conversation";
/** The edited message, and the text that it replaced in the field. @type {{ index: number, typed: string } | null} */
let editing = null;
/** The conversation to store until the new answer has begun. @type {MessageView[] | null} */
let former = null;

/** Stores the conversation if it changed and the browser allows it. */
function keep() {
  const last = views.at(-1);
  const written = (last?.role === "assistant" && last.content ? views : (former ?? views)).filter(({ content }) => content);
  const said = JSON.stringify(written.map(({ role, content, isJson }) => ({ role, content, isJson })));
  try {
    if (said === sessionStorage.getItem(KEY)) return;
    sessionStorage.setItem(KEY, said);
    localStorage.setItem(KEY, said);
  } catch {}
}

/** Shows the stored conversation. A message without an answer goes back into the field. */
function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY)) ?? [];
    views = kept.map(({ role, content, isJson }) => new MessageView(role, content, isJson));
    if (views.at(-1)?.role === "user") at("message").value = views.pop().content;
  } catch {}
}

/** Pixels by which the last message reaches below the top of the field. */
const below = () => at("messages").getBoundingClientRect().bottom - at("composer").getBoundingClientRect().top;

/** Shows the end of the conversation. */
const showEnd = () => scrollBy({ top: Math.max(0, below() + 8), behavior: "instant" });

/** Draws, and scrolls to the end if the end was in view. @param {() => void} draw */
function follow(draw) {
  const follows = below() < 40;
  draw();
  if (follows) showEnd();
}

const messages = () => views.map(({ role, content }) => ({ role, content }));

function show() {
  at("messages").replaceChildren(...views.map(({ element }) => element));
  for (const [i, view] of views.entries()) {
    const last = i === views.length - 1;
    view.offer(view.role === "user" ? { edit: () => edit(i) } : { again: last ? () => attempt(again) : undefined });
  }
  showEmpty();
  at("new-chat").hidden = views.length === 0;
  at("editing").hidden = !editing;
  keep();
}

/** Puts an earlier message into the field. */
function edit(index) {
  editing = { index, typed: editing?.typed ?? at("message").value };
  at("message").value = views[index].content;
  show();
  at("message").focus();
}

/** Ends the edit and restores the typed text. */
function cancelEdit() {
  at("message").value = editing.typed;
  editing = null;
  show();
  at("message").focus();
}

/** Generates another answer. Without one the earlier answer is restored. */
async function again(signal) {
  former = views;
  views = views.slice(0, -1);
  show();
  await attemptAnswer(signal, () => (views = former));
}

/** Generates an answer. Without one the earlier messages are restored. @param {AbortSignal} signal @param {() => void} undo */
async function attemptAnswer(signal, undo) {
  try {
    await answer(signal);
  } catch (error) {
    if (views.at(-1)?.role === "user") undo();
    throw error;
  } finally {
    former = null;
    show();
  }
}

async function answer(signal) {
  say(ready() ? "Writing." : "Loading the model.");
  const form = readForm();
  const settings = readSettings("generation");
  // The default is the model's own sampling.
  const do_sample = DRAWING.some((name) => name in settings) ? "auto" : "model";
  const engine = await need(signal);
  say("Writing.");
  const question = messages();
  const options = { ...DEFAULTS, do_sample, ...settings, ...form };
  const { reasoningFormat } = engine;
  const goesOn = reasoningFormat === "think" && !form.response_format && (await (await import("../answers.js")).endsInThought(engine, question, settings));
  const begun = goesOn ? "<think>" : "";
  const view = new MessageView("assistant", begun, Boolean(form.response_format));
  view.around = follow;
  views.push(view);
  show();
  showEnd();
  at("answered").textContent = "";
  let stats;
  try {
    const stream = engine.generate(question, { ...(reasoningFormat && { skip_special_tokens: false }), ...options, signal });
    for await (const { tokens } of stream) {
      view.add(tokens);
    }
    ({ stats } = await stream.result);
    say("Done.", true);
  } catch (error) {
    stats = error.detail?.stats;
    refuseForm(error);
    if (view.content === begun) views.pop();
    throw error;
  } finally {
    view.finish(stats, engine.warnings);
    follow(show);
    at("answered").textContent = view.answer;
  }
}

async function send(signal) {
  const [before, edited] = [views, editing];
  const question = new MessageView("user", at("message").value.trim());
  former = [...before, question];
  views = [...before.slice(0, edited?.index), question];
  editing = null;
  at("message").value = edited?.typed ?? "";
  show();
  showEnd();
  await attemptAnswer(signal, () => {
    at("message").value = question.content;
    [views, editing] = [before, edited];
  });
}

const isToy = () => chosen().id === TALES.id;
/** Shows what a real model can be asked, until it is asked. */
const showEmpty = () => (at("empty").hidden = views.length > 0 || isToy());

function showModel() {
  at("talking-to").textContent = isToy()
    ? "Until you load a model above, a toy model answers. It has read fairy tales and nothing else."
    : `You talk to ${chosen().name}. Nothing of it leaves this device.`;
  showEmpty();
  at("message").placeholder = isToy() ? "Tell this again: ..." : "Ask something";
}

export function startChat(begin) {
  attempt = begin;
  at("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at("message").value.trim()) attempt(send);
  });
  at("message").addEventListener("keydown", (event) => {
    // Enter sends; while characters are being composed, it does not. Safari marks the Enter that ends a composition by its code only.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    at("composer").requestSubmit();
  });
  startForms();
  at("new-chat").addEventListener("click", () => {
    views = [];
    editing = null;
    show();
    at("message").focus();
  });
  at("cancel-edit").addEventListener("click", cancelEdit);
  addEventListener("pagehide", keep);
  restore();
  onModel(showModel);
  showModel();
  show();
}
