/** Four kinds of task, each with the drafter that suits it. */
const LOOKUP = { prompt_lookup_num_tokens: 10, max_matching_ngram_size: 3 };
const DRAFT = { prompt_lookup_num_tokens: "", max_matching_ngram_size: "" };

/** Where guesses come from, as options. */
export const DRAFTERS = { draft: DRAFT, lookup: LOOKUP };

export const PRESETS = {
  open: { kind: "text", drafter: "draft", prompt: "There was once a poor woodcutter who lived with his wife" },
  retell: {
    kind: "chat",
    drafter: "lookup",
    prompt: "Tell this again: One day her parents sat by the fire, talking over the extraordinary behaviour of their daughter, who was disporting herself in the snowstorm that raged outside.",
  },
  rename: {
    kind: "chat",
    drafter: "lookup",
    prompt: 'Put "miller" for "queen": So next morning early, the queen said to Anne, "Go, my dear, to the henwife in the glen, and ask her for some eggs." So Anne set out, but as she passed through the kitchen she saw a crust, and she took and munched it as she went along.',
  },
  continue: {
    kind: "chat",
    drafter: "draft",
    prompt: 'Continue the tale: When she came to the henwife\'s she asked for eggs, as she had been told to do; the henwife said to her, "Lift the lid off that pot there and see." The lassie did so, but nothing happened.',
  },
};
