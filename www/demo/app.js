/** Start of the page. */
import "./policy.js";
import { startChat } from "./chat.js";
import { at, copy } from "./dom.js";
import { showOffline, storePage } from "./network.js";
import { arrive, onOutcome, startRace } from "./race.js";
import { offerReal } from "./real.js";
import { describeDevice, recommend } from "./recommend.js";
import { buildSettings, resetSettings } from "./settings.js";
import { readAddress, showAddress, startSharing } from "./share.js";
import { showRecommended, startShelf } from "./shelf.js";
import { showHelp } from "./support.js";
import { startTabs } from "./tabs.js";
import { attempt } from "./turn.js";
import { welcome } from "./welcome.js";

buildSettings();
startRace(attempt);
startShelf(attempt);
startChat(attempt);
startSharing();
const openTab = startTabs({ "tab-race": showAddress });
at("reset").addEventListener("click", () => {
  resetSettings();
  at("options-generation").dispatchEvent(new Event("input"));
});
at("why-cpu").addEventListener("click", showHelp);
at("copy-install").addEventListener("click", () => copy(at("install").textContent, at("install"), at("copied-install")));

/** @param {import("./recommend.js").Device} device */
function suggest(device) {
  const { chat, race, why } = recommend(device);
  offerReal(race, attempt);
  showRecommended(chat, why);
}
// A browser may take long to answer.
suggest({ hasGpu: false, isPhone: false, memory: 0 });
describeDevice().then(suggest);

welcome(readAddress(), () => attempt(arrive));
onOutcome(storePage);
showOffline();
// A pasted address with a text is a new visit; one without selects a tab.
addEventListener("hashchange", () => (location.hash.includes("?") ? location.reload() : openTab()));
