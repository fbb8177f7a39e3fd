/** Documents: a button that copies each block of code, and the sidebar, which is open on wide screens. */
import { button, copy, make } from "../dom.js";

for (const block of document.querySelectorAll("pre")) {
  const copied = make("span", { className: "hint", role: "status" });
  const code = block.textContent.trimEnd();
  const tools = make(
    "p",
    { className: "copying" },
    copied,
    button("Copy", () => copy(code, block, copied), { className: "small", ariaLabel: "Copy this code" }),
  );
  const frame = make("div", { className: "code" });
  block.replaceWith(frame);
  frame.append(block, tools);
}

const contents = /** @type {HTMLDetailsElement} */ (document.querySelector(".contents"));
const wide = matchMedia("(min-width: 60rem)");
function show() {
  contents.open = wide.matches;
  const current = /** @type {HTMLElement} */ (contents.querySelector("[aria-current]"));
  contents.scrollTop = current.offsetTop - contents.clientHeight / 2;
}
wide.addEventListener("change", show);
show();
