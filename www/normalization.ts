// Normal forms of Unicode, for browser/unicode-normalization-alignments.

/**
 * Ranges without characters in Unicode 9, the version of that crate. Of those that are there now some decompose or are marks: all stay as
 * they are.
 */
const LATER_RANGES = `
  557-558 58b-58c 5c8-5cf 7fb-7ff 85f-89f 8be-8d3 9fc-a00 afa-b00 b4e-b55 c04 c3a-c3c cf3-d00 d3b-d3c d80-d81 eba ece-ecf 1715-171f 180f
  1abf-1aff 1cf7 1df6-1dfa 209d-209f 32ff a7b8-a7f6 a82c-a82f a8fe-a8ff ab66-ab6f 10570-105ff 10768-107ff 10d00-10e5f 10e7f-10fff
  11070-1107e 110c2-110cf 11144-1114f 111ce-111cf 1123f-1127f 1133a-1133b 11375-113ff 1145e-1147f 11740-1189f 11900-11abf 11af9-11bff
  11cb7-11fff 1342f-143ff 14647-167ff 16b90-16eff 16f45-16f4f 16f7f-16f8e 16fe1-16fff 1b002-1bbff 1bca4-1cfff 1d127-1d128 1d246-1d2ff
  1d6a6-1d6a7 1dab0-1dfff 1e02b-1e7ff 1f16c-1f16f 1f9c1-1ffff`;
const LATER = new RegExp(`[${LATER_RANGES.replace(/[0-9a-f]+/g, "\\u{$&}").replace(/\s+/g, "")}]`, "u");

/** Returns true if a character may become one with the characters before it: a mark, or a vowel or an end of a Korean syllable. */
const joins = (character: string) => character >= "\u0300" && /^[\p{M}\u{1160}-\u{11ff}]/u.test(character.normalize("NFKD"));

/**
 * Returns a text in a form: for each character its code point, and 0 if it replaces a character, 1 if it is added, -n if the next n are
 * removed. Undefined: the text is in that form.
 */
export function normalize(text: string, form: string) {
  if (text.normalize(form) === text && !LATER.test(text)) return undefined;
  const pairs: number[] = [];
  let piece: string[] = [];
  const end = () => {
    const normal = [...piece.join("").normalize(form)];
    const removed = Math.max(0, piece.length - normal.length);
    normal.forEach((character, at) => {
      const change = at >= piece.length ? 1 : at === 0 ? -removed : 0;
      pairs.push(character.codePointAt(0) as number, change);
    });
    piece = [];
  };
  for (const character of text) {
    const isLater = LATER.test(character);
    if (isLater || !joins(character)) end();
    if (isLater) pairs.push(character.codePointAt(0) as number, 0);
    else piece.push(character);
  }
  end();
  return Int32Array.from(pairs);
}

/** Returns true if a character was a mark in Unicode 9. Three characters have changed their category. */
export const isMark = (character: string) => /^(?!\u{111c9})[\p{M}\u{1cf2}\u{1cf3}]/u.test(character) && !LATER.test(character);
