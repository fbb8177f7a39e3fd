/** Four kinds of task, and why guessing is easy or hard there. */
export const PRESETS = {
  open: {
    title: "Tell a story",
    hint: "Nothing to copy from: most guesses are the small model\u2019s own.",
    kind: "text",
    prompt: "Once upon a time there was a king who had",
  },
  retell: {
    title: "Retell a passage",
    hint: "Most of the answer stands in the prompt, where guesses can be looked up for nothing.",
    kind: "chat",
    prompt:
      "Tell this again: One day her parents sat by the fire, talking over the extraordinary behaviour of their daughter, who was disporting herself in the snowstorm that raged outside.",
  },
  rename: {
    title: "Change a name",
    hint: "An edit copies nearly everything. The toy model is so small that it mostly forgets the change; a real model would not.",
    kind: "chat",
    prompt:
      'Put "miller" for "queen": So next morning early, the queen said to Anne, "Go, my dear, to the henwife in the glen, and ask her for some eggs." So Anne set out, but as she passed through the kitchen she saw a crust, and she took and munched it as she went along.',
  },
  continue: {
    title: "Continue a tale",
    hint: "New words about old people: a little of both.",
    kind: "chat",
    prompt:
      'Continue the tale: When she came to the henwife\'s she asked for eggs, as she had been told to do; the henwife said to her, "Lift the lid off that pot there and see." The lassie did so, but nothing happened.',
  },
};

/** The task of the race with a real model. */
export const REAL = { kind: "chat", prompt: "Why is the sky blue? Answer in three sentences." };
