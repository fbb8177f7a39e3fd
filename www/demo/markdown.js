/** Markdown as elements. The elements are of a few safe kinds, and model text becomes text nodes only, so no markup is parsed. */
import { button, copy, make } from "./dom.js";
import { lexer } from "./marked.js";

const PLAIN = { paragraph: "p", blockquote: "blockquote", strong: "strong", em: "em", del: "del" };

/** Returns an address that is safe to open. */
function harmless(href) {
  return URL.canParse(href) && ["http:", "https:", "mailto:"].includes(new URL(href).protocol);
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };
const decoded = (/** @type {string} */ text) => text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name) => ENTITIES[name]);

function element(token) {
  const { type, tokens = [], text = "" } = token;
  const inside = () => tokens.map(element);
  if (type in PLAIN) return make(PLAIN[type], {}, ...inside());
  switch (type) {
    case "space":
      return "";
    case "br":
      return make("br");
    case "hr":
      return make("hr");
    case "codespan":
      return make("code", { textContent: text });
    case "escape":
      return text;
    case "text":
      return tokens.length ? make("span", {}, ...inside()) : decoded(text);
    case "heading":
      return make(`h${Math.min(6, token.depth + 3)}`, {}, ...inside());
    case "code":
      return code(token);
    case "list":
      return list(token);
    case "table":
      return table(token);
    case "link":
      return harmless(token.href) ? make("a", { href: token.href, target: "_blank", rel: "noreferrer nofollow" }, ...inside()) : make("span", {}, ...inside());
    // A picture's address would be sent to a server, so only its text is shown.
    case "image":
      return text;
    default:
      return token.raw ?? "";
  }
}

function code({ text, lang }) {
  const told = make("span", { className: "hint", role: "status" });
  const block = make("pre", { tabIndex: 0, role: "group", ariaLabel: lang ? `Code, ${lang}` : "Code" }, make("code", { textContent: text }));
  return make(
    "div",
    { className: "code" },
    make(
      "p",
      { className: "row" },
      make("span", { className: "hint", textContent: lang ?? "" }),
      told,
      button("Copy", () => copy(text, block, told), { className: "small" }),
    ),
    block,
  );
}

function list({ ordered, start, items }) {
  const made = items.map(({ tokens, task, checked }) =>
    make("li", {}, ...(task ? [checked ? "\u2611 " : "\u2610 "] : []), ...tokens.filter(({ type }) => type !== "checkbox").map(element)),
  );
  return make(ordered ? "ol" : "ul", ordered && start > 1 ? { start } : {}, ...made);
}

function table({ header, rows }) {
  const row = (cells, tag) => make("tr", {}, ...cells.map(({ tokens }) => make(tag, {}, ...tokens.map(element))));
  const grid = make("table", {}, make("thead", {}, row(header, "th")), make("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
  return make("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "Table" }, grid);
}

/** Thoughts before an answer, as models mark them. */
const THOUGHT = /^\s*(?:<think>|\[THINK\]|<\|channel>thought)([\s\S]*?)(<\/think>|\[\/THINK\]|<channel\|>|$)/;
const OPENING = ["<think>", "[THINK]", "<|channel>thought"];

/** Growing Markdown in an element. Unchanged blocks keep their nodes, with selection and focus. */
export class Markdown {
  #blocks = /** @type {{ key: string, node: ChildNode }[]} */ ([]);
  #thought = /** @type {any} */ (null);
  #toggled = false;

  constructor(place) {
    this.place = place;
  }

  draw(text, complete = true) {
    // The beginning of a tag.
    if (!complete && OPENING.some((mark) => mark.startsWith(text.trim()))) return;
    const thought = THOUGHT.exec(text);
    if (thought) this.#think(thought[1], !complete && !thought[2]);
    const tokens = /** @type {any[]} */ (lexer(thought ? text.slice(thought[0].length) : text));
    const keys = tokens.map((token) => JSON.stringify(token));
    const changed = keys.findIndex((key, i) => key !== this.#blocks[i]?.key);
    const kept = changed < 0 ? keys.length : changed;
    for (const { node } of this.#blocks.splice(kept)) node.remove();
    for (const [i, token] of tokens.slice(kept).entries()) {
      const made = element(token);
      const node = typeof made === "string" ? document.createTextNode(made) : /** @type {HTMLElement} */ (made);
      if (node instanceof HTMLElement && token.type !== "code") node.dir = "auto";
      this.#blocks.push({ key: keys[kept + i], node });
      this.place.append(node);
    }
  }

  /** Shows thoughts, and folds them when the answer begins, unless the visitor opened or closed them. */
  #think(words, thinking) {
    const shown = (thinking ? words.replace(/(?:<\/?\w*|\[\/?\w*)$/, "") : words).trim();
    if (!shown) return;
    if (!this.#thought) {
      const [summary, text] = [make("summary"), document.createTextNode("")];
      summary.addEventListener("click", () => (this.#toggled = true));
      const fold = make("details", { className: "thought", open: thinking }, summary, make("p", { dir: "auto" }, text));
      this.#thought = { fold, summary, text };
      this.place.prepend(fold);
    }
    const { fold, summary, text } = this.#thought;
    summary.textContent = thinking ? "Thinking" : "What it thought";
    // Appending keeps a selection.
    if (shown.startsWith(text.data)) text.appendData(shown.slice(text.length));
    else text.data = shown;
    if (!thinking && !this.#toggled) fold.open = false;
  }
}
