// Converts the repository's documents to pages in www/demo/docs/, so that the demo includes them.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = join(root, "www", "demo", "docs");
/** Documents by path: the page's file name and title. */
const PAGES = {
  "README.md": ["index", "Guide"],
  "docs/chat.md": ["chat", "Chat"],
  "docs/json.md": ["json", "JSON"],
  "docs/tools.md": ["tools", "Tools"],
  "docs/models.md": ["models", "Models"],
  "docs/drafters.md": ["drafters", "Drafters"],
  "docs/device-or-server.md": ["device-or-server", "Device or server"],
  "docs/servers.md": ["servers", "Targets on servers"],
  "docs/serve.md": ["serve", "A server with OpenAI's API"],
  "docs/deploy.md": ["deploy", "Deploy"],
  "docs/csp.md": ["csp", "CSP"],
  "docs/troubleshoot.md": ["troubleshoot", "Troubleshoot"],
  "docs/program.md": ["program", "The program"],
  "docs/library.md": ["library", "The library"],
  "docs/peers.md": ["peers", "Compared with other engines"],
  "www/api.ts": ["reference", "Reference"],
  "docs/statistics.md": ["statistics", "Statistics"],
  "docs/dsi.md": ["dsi", "Distributed speculation"],
  "docs/cluster.md": ["cluster", "Users and servers"],
  "docs/papers.md": ["papers", "Claims of the papers"],
  "benches/README.md": ["measured", "Measured"],
  "ARCHITECTURE.md": ["architecture", "Architecture"],
};
const PICTURES = ["docs/cluster.svg", "docs/dsi-timeline.svg"];

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
        code({ text }) {
          return `<pre tabindex="0">${escaped(text)}</pre>\n`;
        },
        html: ({ text }) => escaped(text),
      },
    });
    const body = (path.endsWith(".md") ? marked.parse(readFileSync(join(root, path), "utf8")) : reference())
      .replaceAll("<table>", '<div class="wide" tabindex="0" role="group" aria-label="A table"><table>')
      .replaceAll("</table>", "</table></div>");
    const links = Object.values(PAGES).map(([other, title]) => `<a href="${other}.html"${other === file ? ' aria-current="page"' : ""}>${title}</a>`);
    writeFileSync(join(folder, `${file}.html`), page(name, links.join(" "), body));
  }
}

const page = (/** @type {string} */ name, /** @type {string} */ links, /** @type {string} */ body) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>foretoken: ${name}</title>
    <link rel="icon" href="../icon.svg">
    <link rel="stylesheet" href="../style.css">
  </head>
  <body>
    <nav class="docs-nav" aria-label="Documents"><a href="../">The page</a> ${links}</nav>
    <main class="docs">
${body}
    </main>
  </body>
</html>
`;
