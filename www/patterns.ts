// The regular expressions of tokenizers, for browser/regex: the browser has them, and all of Unicode's tables. They are written for
// Oniguruma, or for Rust, which differ in what follows.
import { toRegExp } from "./oniguruma.js";

const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";
/** Rust's meaning, outside of a class of characters and inside. */
const MEANINGS: Record<string, [string, string]> = {
  "^": ["\\A", "^"],
  $: ["\\z", "\\$"],
  "\\w": [`[${WORD}]`, WORD],
  "\\W": [`[^${WORD}]`, `[^${WORD}]`],
  "\\b": [`(?:(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}]))`, "\\b"],
  "\\B": [`(?:(?<=[${WORD}])(?=[${WORD}])|(?<![${WORD}])(?![${WORD}]))`, "\\B"],
};

/** By number. */
const patterns: RegExp[] = [];
const numbers: Map<string, number> = new Map();

/** Oniguruma's meaning, outside of a class and inside. */
function translate(pattern: string) {
  let depth = 0;
  // A bracket that would close a class stands for itself at its beginning.
  return pattern.replace(/\\.|\[\^?\]?|[\]^$]|\(\?\w*[mx]/gs, (part) => {
    if (part.startsWith("(?") && depth === 0) throw new Error(`the flags of ${part} are not supported`);
    if (part.startsWith("[")) depth++;
    if (part === "]") depth--;
    return MEANINGS[part]?.[depth > 0 ? 1 : 0] ?? part;
  });
}

/** The number of a pattern; of the same always the same one. */
export function compile(pattern: string) {
  let number = numbers.get(pattern);
  if (number === undefined) {
    number = patterns.push(toRegExp(translate(pattern), { global: true })) - 1;
    numbers.set(pattern, number);
  }
  return number;
}

/** The next match; as in fancy-regex none where it takes too much: of millions of characters. */
function search(regex: RegExp, text: string) {
  try {
    return regex.exec(text);
  } catch {
    return null;
  }
}

/** Returns where its first matches start and end in a text, in bytes of UTF-8. */
export function matches(pattern: number, text: string, most: number) {
  const regex = patterns[pattern];
  const found = [];
  // One place in the text, in units of UTF-16 and in bytes.
  let [unit, byte] = [0, 0];
  const bytes = (end: number) => {
    for (; unit < end; unit++) {
      const code = text.charCodeAt(unit);
      // Two units together are a character of four bytes.
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
    // As in Rust, where one ends there is none that is empty.
    if (start < end || end !== last) found.push(bytes(start), bytes(end));
    last = end;
  }
  return Uint32Array.from(found);
}
