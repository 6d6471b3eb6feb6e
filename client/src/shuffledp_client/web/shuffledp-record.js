// The symbol of a record: a page answers a question from data that it has of its user.
//
//   import { symbolOfRecord } from "./shuffledp-record.js";
//   await device.answer(question, await symbolOfRecord(question.certificate.wording, { age: 37, country: "DE" }));
//
// docs/protocol.md, "Wording"; the same as `locate_record` of shuffledp_core.documents.wording. Beside the module, as most pages
// have no records.

import { Integers, Ratio, ShuffleError } from "./shuffledp.min.js";

const trim = (text) => text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
/** A record's value as text; null for one that is missing. */
function spellValue(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return trim(value) ? value : null;
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value !== "number") throw new TypeError("a record's values must be text, numbers, true or false, or missing");
  if (!Number.isFinite(value)) return null;
  const [, sign, whole, part = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value));
  const point = whole.length + Number(exponent);
  const digits = `${"0".repeat(Math.max(0, 1 - point))}${whole}${part}`.padEnd(point, "0");
  const at = Math.max(1, point);
  return `${sign}${digits.slice(0, at)}${digits.length > at ? `.${digits.slice(at)}` : ""}`;
}
const LONGEST = 40;
/** A number as people write it, times 10^40; null for other text. */
function numberOf(answer) {
  const text = trim(answer);
  const parts = /^([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))$/.exec(text);
  if (!parts || text.length > LONGEST) return null;
  const size = BigInt((parts[2] ?? "0") + (parts[3] ?? parts[4] ?? "").padEnd(LONGEST, "0"));
  return parts[1] === "-" ? -size : size;
}
function meets({ names, low, high }, answer) {
  if (names) return names.includes(trim(answer).normalize("NFC"));
  const number = numberOf(answer);
  return number !== null && (low === "-inf" || numberOf(low) <= number) && (high === "inf" || number < numberOf(high));
}
const LONGEST_TEXT = 256;
/** The symbol of a text in an open list; one that is too long or has no encoding is that of no text. */
async function symbolOfText({ salt, columns, bits }, answer) {
  const composed = trim(answer).normalize("NFC");
  const text = [...composed].length <= LONGEST_TEXT && composed.isWellFormed() ? composed : "";
  const salted = salt.match(/../g).map((pair) => String.fromCharCode(parseInt(pair, 16))).join("");
  const prefix = Uint8Array.from(`shuffledp/v1/open-list\0${salted}`, (character) => character.charCodeAt(0));
  const hashed = new Uint8Array([...prefix, ...new TextEncoder().encode(text)]);
  const digest = new DataView(await crypto.subtle.digest("SHA-256", hashed));
  return Number(digest.getBigUint64(0) >> BigInt(64 - columns * bits));
}

/** The symbol of a number, rounded up or down at random so that its mean is the number; -1 below 0. */
function magnitudeOf({ step, parts, size }, answer, integers) {
  const number = numberOf(answer);
  if (number === null || number < 0n) return -1;
  const steps = new Ratio(number, numberOf(step));
  const multiple = (symbol) => {
    const doublings = Math.floor(symbol / parts);
    return doublings ? BigInt(parts + (symbol % parts)) << BigInt(doublings - 1) : BigInt(symbol);
  };
  let low = 0;
  while (low + 1 < size && !steps.below(multiple(low + 1))) low += 1;
  if (low + 1 === size) return low;
  const share = steps.minus(multiple(low)).over(multiple(low + 1) - multiple(low));
  return low + Number(integers.below(share.d) < share.n);
}

/** The cell of an answer along one axis, or -1; of an open list a promise of it. */
function cellOf(symbols, answer, integers) {
  const { kind, names, edges, start, step, size } = symbols;
  if (kind === "hashes") return symbolOfText(symbols, answer);
  if (kind === "magnitudes") return magnitudeOf(symbols, answer, integers);
  if (kind === "names") return names.indexOf(trim(answer).normalize("NFC"));
  const number = numberOf(answer);
  if (number === null) return -1;
  if (kind === "ranges") {
    const below = edges[0] !== "-inf" && number < numberOf(edges[0]);
    const above = edges.at(-1) !== "inf" && number > numberOf(edges.at(-1));
    return below || above ? -1 : edges.slice(1, -1).filter((edge) => numberOf(edge) <= number).length;
  }
  // Twice the steps from the start, compared in whole numbers; halfway, the even symbol.
  const [from, unit] = [number - numberOf(start), numberOf(step)];
  const floor = from >= 0n ? from / unit : -((-from + unit - 1n) / unit);
  const rest = 2n * (from - floor * unit);
  const up = rest > unit || (rest === unit && floor % 2n !== 0n);
  const nearest = floor + (up ? 1n : 0n);
  return nearest >= 0n && nearest < BigInt(size) ? Number(nearest) : -1;
}

const sizeOf = ({ names, edges, size }) => size ?? names?.length ?? edges.length - 1;

/**
 * The symbol of a record, an object with a value for each field; fields may be missing where the question has others, or is an
 * open list. Numbers that are added up are rounded at random, once for a round: `answer` keeps what is drawn.
 */
export async function symbolOfRecord(wording, record, integers = new Integers()) {
  const { axes, where, others } = wording;
  const given = (field) => spellValue(Object.hasOwn(record, field) ? record[field] : null);
  const cells = await Promise.all(axes.map(({ field, symbols }) => cellOf(symbols, given(field) ?? "", integers)));
  const outside = cells.includes(-1) || where.some(({ field, holds }) => !meets(holds, given(field) ?? ""));
  if (outside && others) return axes.reduce((total, { symbols }) => total * sizeOf(symbols), 1);
  if (outside) throw new ShuffleError("UsageError", "the record has no possible answer to this question");
  return axes.reduce((symbol, { symbols }, at) => symbol * sizeOf(symbols) + cells[at], 0);
}
