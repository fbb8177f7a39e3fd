/** Advice for browsers without WebGPU. */

const HELP = {
  Chrome: [
    "Version 113 or later on Windows, macOS and ChromeOS, 121 or later on Android.",
    "Settings, System: “Use graphics acceleration when available” must be on.",
    "On Linux start it with --enable-unsafe-webgpu --enable-features=Vulkan, or set both in chrome://flags.",
  ],
  Edge: [
    "Version 113 or later on Windows and macOS.",
    "Settings, System and performance: “Use graphics acceleration when available” must be on.",
    "On Linux start it with --enable-unsafe-webgpu --enable-features=Vulkan.",
  ],
  Safari: [
    "Version 26 or later, on macOS, iOS, iPadOS and visionOS.",
    "Before that: WebGPU under Feature Flags, in the Develop menu or in Settings, Safari, Advanced.",
  ],
  Firefox: [
    "Version 141 or later on Windows, 145 or later on Macs with Apple silicon.",
    "Elsewhere set dom.webgpu.enabled to true in about:config, best in Firefox Nightly.",
  ],
};

/** The order matters: Edge calls itself Chrome too, and Chrome calls itself Safari. */
const OWN = [
  ["Edge", /Edg(A|iOS)?\//],
  ["Firefox", /Firefox\/|FxiOS\//],
  ["Chrome", /Chrom(e|ium)\/|CriOS\//],
  ["Safari", /Safari\//],
];

/** Shows the list, the visitor's own browser first. */
export function showHelp() {
  const help = document.getElementById("help");
  const own = OWN.find(([, mark]) => mark.test(navigator.userAgent))?.[0];
  const add = (parent, tag, textContent) => parent.appendChild(Object.assign(document.createElement(tag), { textContent }));
  const list = help.querySelector(".browsers");
  list.replaceChildren();
  help.querySelector(".insecure").hidden = isSecureContext;
  for (const name of Object.keys(HELP).sort((a, b) => Number(b === own) - Number(a === own))) {
    const item = add(list, "li", "");
    add(item, "h3", name === own ? `${name}, which you seem to use` : name);
    const steps = add(item, "ul", "");
    for (const step of HELP[name]) add(steps, "li", step);
  }
  help.hidden = false;
  help.scrollIntoView({ block: "nearest" });
}
