/** The page: it begins by itself where that is polite, and each of its parts does the rest. */
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
// Kept for the next time, when there may be no network; what is shown does not wait for it.
onOutcome(() => navigator.serviceWorker?.register(new URL("offline.js", import.meta.url)).catch(() => {}));
// An address with a text, pasted here, is another visit; one without names a tab.
addEventListener("hashchange", () => (location.hash.includes("?") ? location.reload() : openTab()));
