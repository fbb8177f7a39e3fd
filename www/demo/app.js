/** Start of the page. */
import "./policy.js";
import { startChat } from "./chat.js";
import { at } from "./dom.js";
import { arrive, onOutcome, startRace } from "./race.js";
import { buildSettings, resetSettings } from "./settings.js";
import { readAddress, showAddress, startSharing } from "./share.js";
import { startShelf } from "./shelf.js";
import { openSimulator } from "./simulator.js";
import { startTabs } from "./tabs.js";
import { attempt } from "./turn.js";
import { welcome } from "./welcome.js";

buildSettings();
startRace(attempt);
startShelf(attempt);
startChat(attempt);
startSharing();
const openTab = startTabs({ "tab-race": showAddress, "tab-simulator": openSimulator });
at("reset").addEventListener("click", () => {
  resetSettings();
  at("options-generation").dispatchEvent(new Event("input"));
});
welcome(readAddress(), () => attempt(arrive));
// Stores the page for visits without a network.
onOutcome(() => navigator.serviceWorker?.register(new URL("offline.js", import.meta.url)).catch(() => {}));
// A pasted address with a text is a new visit; one without selects a tab.
addEventListener("hashchange", () => (location.hash.includes("?") ? location.reload() : openTab()));
