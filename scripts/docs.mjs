// Converts the repository's documents to pages in www/demo/docs/, so that the demo includes them.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = join(root, "www", "demo", "docs");
/** Documents by chapter and path: the page's file name and title. */
const CHAPTERS = {
  "In a page": {
    "README.md": ["index", "Guide"],
    "docs/chat.md": ["chat", "Chat"],
    "docs/json.md": ["json", "JSON"],
    "docs/tools.md": ["tools", "Tools"],
    "docs/deploy.md": ["deploy", "Deploy"],
    "docs/frameworks.md": ["frameworks", "Frameworks"],
    "docs/csp.md": ["csp", "CSP"],
    "docs/troubleshoot.md": ["troubleshoot", "Troubleshoot"],
    "www/api.ts": ["reference", "Reference"],
  },
  Models: {
    "docs/models.md": ["models", "Models"],
    "docs/drafters.md": ["drafters", "Drafters"],
    "docs/statistics.md": ["statistics", "Statistics"],
    "docs/device-or-server.md": ["device-or-server", "Device or server"],
    "docs/servers.md": ["servers", "Targets on servers"],
  },
  Natively: {
    "docs/program.md": ["program", "The program"],
    "docs/serve.md": ["serve", "A server with OpenAI's API"],
    "docs/library.md": ["library", "The library"],
  },
  "How it works": {
    "ARCHITECTURE.md": ["architecture", "Architecture"],
    "benches/README.md": ["measured", "Measured"],
    "docs/peers.md": ["peers", "Compared with other engines"],
    "docs/dsi.md": ["dsi", "Distributed speculation"],
    "docs/simulator.html": ["simulator", "Simulator"],
    "docs/cluster.md": ["cluster", "Users and servers"],
    "docs/papers.md": ["papers", "Claims of the papers"],
  },
};
const PAGES = Object.assign({}, ...Object.values(CHAPTERS));
const PICTURES = ["docs/cluster.svg", "docs/dsi-timeline.svg", "docs/passes.svg"];
/** Maximum number of a document's sections in the sidebar. */
const SECTIONS = 20;

/** Returns a heading's anchor as on repository hosts, so that links work in both places. */
const anchor = (/** @type {string} */ text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
const escaped = (/** @type {string} */ text) => text.replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);

/** Makes the pages. The reference is made from the types in dist/. */
export async function makeDocs() {
  // Imported here, because they may just have been installed.
  const { Marked } = await import("marked");
  const { default: colours } = await import("highlight.js/lib/common");
  const { reference } = await import("./reference.mjs");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const picture of PICTURES) copyFileSync(join(root, picture), join(folder, picture.split("/").at(-1)));
  for (const [path, [file, name]] of Object.entries(PAGES)) {
    /** @param {string} href as written in the document */
    const target = (href) => {
      if (/^(https?:|#)/.test(href)) return href;
      const [to, hash = ""] = href.split("#");
      const document = normalize(join(dirname(path), to));
      const page = PAGES[document];
      if (page) return `${page[0]}.html${hash && `#${hash}`}`;
      return PICTURES.includes(document) ? document.split("/").at(-1) : null;
    };
    const marked = new Marked({
      gfm: true,
      renderer: {
        heading({ tokens, depth, text }) {
          return `<h${depth} id="${anchor(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
        },
        // Files that are only in the repository are named without a link.
        link({ href, tokens }) {
          const to = target(href);
          const words = this.parser.parseInline(tokens);
          return to === null ? words : `<a href="${escaped(to)}">${words}</a>`;
        },
        image({ href, text }) {
          return `<img src="${escaped(target(href) ?? href)}" alt="${escaped(text)}">`;
        },
        // `tabindex` lets users scroll wide blocks by keyboard.
        code({ text, lang = "" }) {
          const [language] = lang.split(/[ ,]/);
          const code = colours.getLanguage(language) ? colours.highlight(text, { language }).value : escaped(text);
          return `<pre tabindex="0">${code}</pre>\n`;
        },
        html: ({ text }) => escaped(text),
      },
    });
    const source = () => readFileSync(join(root, path), "utf8");
    const bodies = { ".md": () => marked.parse(source()), ".html": source, ".ts": reference };
    const body = bodies[extname(path)]()
      .replaceAll("<table>", '<div class="wide" tabindex="0" role="group" aria-label="A table"><table>')
      .replaceAll("</table>", "</table></div>");
    writeFileSync(join(folder, `${file}.html`), page(file, name, body));
  }
}

/** Returns the sidebar of a document: all documents, and the sections of this one. */
function sidebar(/** @type {string} */ file, /** @type {string} */ body) {
  const found = [...body.matchAll(/<h2 id="([^"]+)">(.*?)<\/h2>/g)].map(([, id, words]) => `<li><a href="#${id}">${words.replace(/<[^>]+>/g, "")}</a></li>`);
  const sections = found.length && found.length <= SECTIONS ? `<ul>${found.join("")}</ul>` : "";
  const entry = ([other, title]) =>
    other === file ? `<li><a href="${other}.html" aria-current="page">${title}</a>${sections}</li>` : `<li><a href="${other}.html">${title}</a></li>`;
  return Object.entries(CHAPTERS)
    .map(([chapter, pages]) => `<p>${chapter}</p>\n<ul>${Object.values(pages).map(entry).join("\n")}</ul>`)
    .join("\n");
}

/** The simulator compiles WASM and reads its figures; the toy models are measured in a worker. */
const POLICIES = {
  simulator: "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types default",
};
const policy = (/** @type {string} */ file) =>
  `default-src 'none'; ${POLICIES[file] ?? "script-src 'self'"}; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'`;

const page = (/** @type {string} */ file, /** @type {string} */ name, /** @type {string} */ body) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="${policy(file)}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>foretoken: ${name}</title>
    <link rel="icon" href="../icon.svg">
    <link rel="stylesheet" href="../base.css">
    <link rel="stylesheet" href="../guide/docs.css">
    <script type="module" src="../guide/docs.js"></script>
  </head>
  <body class="guide">
    <header class="top">
      <a class="brand" href="../">foretoken</a>
      <nav aria-label="Page"><a href="../">Watch</a> <a href="../#chat">Chat</a></nav>
    </header>
    <details class="contents">
      <summary>Contents</summary>
      <nav aria-label="Documents">
${sidebar(file, body)}
      </nav>
    </details>
    <main class="docs">
${body}
    </main>
  </body>
</html>
`;
