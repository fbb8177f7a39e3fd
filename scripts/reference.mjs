// Makes the package's reference from its TypeScript declarations: every export of api.d.ts and ai-sdk.d.ts with its members and their
// comments.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Marked } from "marked";
import { ModifierFlags, SymbolFlags, API } from "typescript/unstable/sync";
import { SyntaxKind } from "typescript/unstable/ast";

const declared = join(dirname(fileURLToPath(import.meta.url)), "..", "dist", "types");
/** Declaration files by module. */
const MODULES = { foretoken: "api.d.ts", "foretoken/ai-sdk": "ai-sdk.d.ts" };

const escaped = (/** @type {string} */ text) => text.replace(/[&<>]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[mark]);
const idOf = (/** @type {string} */ name) => name.toLowerCase();

/** @returns {string} HTML */
export function reference() {
  const api = new API();
  try {
    const files = Object.values(MODULES).map((name) => join(declared, name));
    const snapshot = api.updateSnapshot({ openFiles: files });
    const exported = Object.keys(MODULES).flatMap((module, i) => exportsOf(snapshot.getDefaultProjectForFile(files[i]), files[i], module));
    const names = new Set(exported.map(({ name }) => name));
    const isType = ({ node }) => node.kind === SyntaxKind.TypeAliasDeclaration;
    const values = exported.filter((each) => !isType(each));
    const types = exported.filter(isType);
    const list = (all) => `<p>${all.map(({ name }) => `<a href="#${idOf(name)}">${name}</a>`).join(", ")}</p>`;
    const all = (some) => some.map((each) => describe(each, names)).join("\n");
    return `<h1>Reference</h1>\n${list(values)}\n${list(types)}\n${all(values)}\n${all(types)}`;
  } finally {
    api.close();
  }
}

/** Lists a module's exports, its own first. */
function exportsOf(project, file, module) {
  const { checker, program } = project;
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)));
  const isFromElsewhere = ({ flags }) => flags & SymbolFlags.Alias;
  const sorted = [...symbols].sort((a, b) => isFromElsewhere(a) - isFromElsewhere(b));
  return sorted.map((symbol) => {
    const own = isFromElsewhere(symbol) ? checker.getAliasedSymbol(symbol) : symbol;
    return { name: symbol.name, module, node: own.declarations[0].resolve(project), symbol: own, checker };
  });
}

/** Converts a comment to HTML. */
function prose(text, names) {
  const linked = text.replace(/\{@link (\w+)(?:\.(\w+))?\}/g, (_, name, member) => {
    const words = member ? `${name}.${member}` : name;
    return names.has(name) ? `<a href="#${idOf(words)}"><code>${words}</code></a>` : `<code>${words}</code>`;
  });
  return new Marked().parse(linked);
}

/** Escapes code and links the names in it. */
const code = (text, names) => escaped(text).replace(/\b[A-Z]\w+\b/g, (word) => (names.has(word) ? `<a href="#${idOf(word)}">${word}</a>` : word));
/** Formats a type in one line. */
const inline = (node) =>
  node
    .getText()
    .replace(/\/\*\*.*?\*\//gs, "")
    .replace(/\s+/g, " ")
    .replace(/; \}/g, " }");

function describe({ name, module, node, symbol, checker }, names) {
  const own = { names, checker };
  const title = `<h2 id="${idOf(name)}">${name}</h2>`;
  const told = prose(symbol.getDocumentationComment(checker), names);
  switch (node.kind) {
    case SyntaxKind.ClassDeclaration:
      return `${title}\n<pre tabindex="0">import { ${name} } from "${module}";</pre>\n${told}${node.members.map((each) => member(name, each, own)).join("\n")}`;
    case SyntaxKind.FunctionDeclaration:
      return `${title}\n<pre tabindex="0">import { ${name} } from "${module}";</pre>\n${told}${signature(node, own)}`;
    default:
      if (node.type.kind === SyntaxKind.TypeLiteral && node.type.members.every(({ name }) => name)) return `${title}\n${told}${fields(node.type.members, own)}`;
      return `${title}\n${told}<pre tabindex="0">${code(node.type.getText(), names)}</pre>`;
  }
}

/** Describes a member of a class; empty for a private member. */
function member(owner, node, own) {
  const name = node.name?.getText();
  if (!name || name.startsWith("#") || node.modifierFlags & ModifierFlags.Private) return "";
  return `<h3 id="${idOf(`${owner}.${name}`)}">${node.modifierFlags & ModifierFlags.Static ? `${owner}.` : ""}${name}</h3>\n${signature(node, own)}`;
}

/** Describes a function, method or property: declaration, description, parameters and result. */
function signature(node, { names, checker }) {
  const symbol = checker.getSymbolAtLocation(node.name);
  const text = node
    .getText()
    .replace(/^(export|declare|function|static|get|\s)+/, "")
    .replace(/^ {4}/gm, "");
  const tags = symbol.getJsDocTags(checker).flatMap(({ name, text = "" }) => {
    const [, parameter, words] = name === "returns" ? [null, "returns", text] : (/^(\w+)\s+(.*)$/s.exec(text) ?? []);
    return words && ["param", "returns"].includes(name)
      ? [`<dt>${name === "param" ? `<code>${parameter}</code>` : parameter}</dt><dd>${prose(words, names)}</dd>`]
      : [];
  });
  const list = tags.length ? `<dl>${tags.join("")}</dl>` : "";
  return `<pre tabindex="0">${code(text, names)}</pre>\n${prose(symbol.getDocumentationComment(checker), names)}${list}`;
}

/** Describes the fields of an object. */
function fields(members, { names, checker }) {
  const entries = members.map((node) => {
    const type = inline(node.type ?? node);
    const told = prose(checker.getSymbolAtLocation(node.name).getDocumentationComment(checker), names);
    return `<dt><code>${node.name.getText()}${node.postfixToken ? "?" : ""}: ${code(type, names)}</code></dt><dd>${told}</dd>`;
  });
  return `<dl>\n${entries.join("\n")}\n</dl>`;
}
