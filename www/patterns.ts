// Regular expressions of tokenizers, for browser/regex. They are written for Oniguruma or Rust, and translated to JavaScript.
import { toRegExp } from "./oniguruma.js";

const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";
/** Translations of Rust's syntax outside and inside of a class of characters. */
const MEANINGS: Record<string, [string, string]> = {
  "^": ["\\A", "^"],
  $: ["\\z", "\\$"],
  "\\w": [`[${WORD}]`, WORD],
  "\\W": [`[^${WORD}]`, `[^${WORD}]`],
  "\\b": [`(?:(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}]))`, "\\b"],
  "\\B": [`(?:(?<=[${WORD}])(?=[${WORD}])|(?<![${WORD}])(?![${WORD}]))`, "\\B"],
};

const patterns: RegExp[] = [];
const numbers: Map<string, number> = new Map();

/** Translates Rust's syntax to Oniguruma's. */
function translate(pattern: string) {
  let depth = 0;
  // A closing bracket at the beginning of a class is a character.
  return pattern.replace(/\\.|\[\^?\]?|[\]^$]|\(\?\w*[mx]/gs, (part) => {
    if (part.startsWith("(?") && depth === 0) throw new Error(`the flags of ${part} are not supported`);
    if (part.startsWith("[")) depth++;
    if (part === "]") depth--;
    return MEANINGS[part]?.[depth > 0 ? 1 : 0] ?? part;
  });
}

/** Returns the number of a pattern. */
export function compile(pattern: string) {
  let number = numbers.get(pattern);
  if (number === undefined) {
    number = patterns.push(toRegExp(translate(pattern), { global: true })) - 1;
    numbers.set(pattern, number);
  }
  return number;
}

/** Returns the next match; null, as in fancy-regex, if it needs too much memory. */
function search(regex: RegExp, text: string) {
  try {
    return regex.exec(text);
  } catch {
    return null;
  }
}

/** Returns the starts and ends of the first matches, in bytes of UTF-8. */
export function matches(pattern: number, text: string, most: number) {
  const regex = patterns[pattern];
  const found = [];
  // One position, in units of UTF-16 and in bytes.
  let [unit, byte] = [0, 0];
  const bytes = (end: number) => {
    for (; unit < end; unit++) {
      const code = text.charCodeAt(unit);
      // Surrogates: two units are a character of four bytes.
      byte += code < 0x80 ? 1 : code < 0x800 || (code & 0xf800) === 0xd800 ? 2 : 3;
    }
    return byte;
  };
  regex.lastIndex = 0;
  let last = -1;
  while (found.length < 2 * most) {
    const match = search(regex, text);
    if (!match) break;
    const [start, end] = [match.index, match.index + match[0].length];
    if (start === end) regex.lastIndex += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
    // As in Rust, no empty match follows a match directly.
    if (start < end || end !== last) found.push(bytes(start), bytes(end));
    last = end;
  }
  return Uint32Array.from(found);
}
