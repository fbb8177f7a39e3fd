// The options with which foretoken generates.
export const PLAIN = { speculation: "off" };
const lookup = (tokens) => ({ drafter: "lookup", num_assistant_tokens_schedule: "heuristic_transient", prompt_lookup_num_tokens: tokens });
export const WAYS = { plain: PLAIN, lookup: lookup(10), adaptive: {} };
/** Rounds of 8 rows, if the lookup finds a match. */
export const EIGHT = lookup(7);
