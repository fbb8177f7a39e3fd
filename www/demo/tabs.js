/** The page's tabs: arrows, Home and End select one, as do elements with `data-tab`. The open tab is part of the address. */

const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[role=tab]")]);
const panel = (/** @type {HTMLElement} */ tab) => document.getElementById(tab.getAttribute("aria-controls"));

/** Returns a function that opens the tab of the address. @param {Record<string, () => void>} opened callbacks by tab */
export function startTabs(opened) {
  const show = (/** @type {HTMLElement} */ chosen) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      panel(tab).hidden = tab !== chosen;
    }
    opened[chosen.id]?.();
  };
  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener("click", () => {
      history.replaceState(null, "", `#${panel(tab).id}`);
      show(tab);
    });
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs.at(to % tabs.length);
      next.focus();
      next.click();
    });
  }
  for (const link of document.querySelectorAll("[data-tab]")) {
    link.addEventListener("click", () => document.getElementById(/** @type {HTMLElement} */ (link).dataset.tab).click());
  }
  const open = () => {
    const [name] = location.hash.slice(1).split("?");
    show(tabs.find((tab) => panel(tab).id === name) ?? tabs[0]);
  };
  open();
  return open;
}
