/** Pairs of the paper's table 2, as benches/dsi_pairs.json has them, where it is said how far they were checked. */
export const PAIRS = [
  { name: "Vicuna 13B / 68M, CNN-DM", target: 37.7, drafter: 2.5, acceptance: 0.63 },
  { name: "Vicuna 13B / 68M, Alpaca", target: 33.3, drafter: 2.5, acceptance: 0.58 },
  { name: "Vicuna 7B / 68M, CNN-DM", target: 29.4, drafter: 2.5, acceptance: 0.67 },
  { name: "Vicuna 7B / 68M, Alpaca", target: 26.0, drafter: 2.5, acceptance: 0.59 },
  { name: "StarCoder 15B / 168M, HumanEval", target: 20.6, drafter: 6.8, acceptance: 0.93 },
  { name: "StarCoder 15B / 168M, MBPP", target: 21.0, drafter: 6.8, acceptance: 0.9 },
  { name: "Phi-3 14B / 4B, Alpaca", target: 49.6, drafter: 33.4, acceptance: 0.87 },
  { name: "Phi-3 14B / 4B, HumanEval", target: 52.1, drafter: 34.0, acceptance: 0.95 },
  { name: "Phi-3 14B / 4B, CNN-DM", target: 52.4, drafter: 34.6, acceptance: 0.93 },
  { name: "Phi-3 14B / 4B, MBPP", target: 52.2, drafter: 34.3, acceptance: 0.94 },
];
