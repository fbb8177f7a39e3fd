/** Says more about an option that does not exist. It is imported when an error needs it. */
import { ForetokenError } from "./error.js";
import { TYPES } from "./options.js";

/** @import { Method } from "./protocol.js" */

/** A name without case and signs. @param {string} name */
const bare = (name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");

/** Returns how many letters have to be inserted, deleted or replaced to turn `a` into `b`. @param {string} a @param {string} b */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) next.push(Math.min(row[j] + Number(letter !== b[j]), row[j + 1] + 1, next[j] + 1));
    row = next;
  }
  return row[b.length];
}

/**
 * Returns the error with all names that are allowed, and the nearest one. The engine's module lists the names that it reads; those that
 * the page reads are added.
 * @param {ForetokenError} error
 * @param {Method} method
 */
export function suggest(error, method) {
  const { value, allowed } = /** @type {{ value: string, allowed: string }} */ (error.detail);
  if (!/^\w+(, \w+)+$/.test(allowed)) return error;
  const own = method === "load" || method === "inspect" ? Object.keys(TYPES) : ["onProgress", "signal"];
  const names = [...new Set([...allowed.split(", "), ...own])].sort();
  const distances = names.map((name) => distance(bare(value), bare(name)));
  const least = Math.min(...distances);
  const nearest = least <= value.length / 3 ? names[distances.indexOf(least)] : null;
  const all = names.join(", ");
  const message = `options: ${value} is not allowed; ${nearest ? `did you mean ${nearest}? Allowed` : "allowed"}: ${all}`;
  return new ForetokenError({ code: "bad-option", message, detail: { option: "options", value, allowed: all, nearest } });
}
