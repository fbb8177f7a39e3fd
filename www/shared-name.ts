/** Names shared workers. Loaded on demand. */
import { isAddress } from "./cache.js";
import { badOption } from "./error.js";
import { absolute } from "./options.js";
import type { Loading } from "./protocol.js";

/**
 * Returns the name of the worker for these models and options. The Hub's token does not count. A server's API key does, because the server
 * counts its requests.
 */
export function sharedName({ model, assistant, server, hub: { token, ...hub }, base, options, ...rest }: Loading) {
  const models = [model, assistant]
    .filter((files) => files !== undefined)
    .map((files) => {
      if (typeof files !== "string") throw badOption("shared", true, "with models that have a name or a URL");
      return isAddress(files) ? absolute("model", files, base) : files;
    });
  if (!server && (Number(options.sp_degree) > 1 || options.draft_device === "cpu"))
    throw badOption("shared", true, "with one target, and the draft model where the target runs");
  const served = server && { ...server, api_key: trace(server.api_key) };
  return `foretoken ${JSON.stringify({ models, hub, options, served, ...rest })}`;
}

/** Returns a hash of 32 bits (FNV-1a), because the name must not reveal the key. */
const trace = (key: unknown) => [...String(key)].reduce((bits, letter) => Math.imul(bits ^ Number(letter.codePointAt(0)), 16777619), 2166136261);
