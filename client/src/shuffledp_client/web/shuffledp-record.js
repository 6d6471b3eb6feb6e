// The symbol of a record: a page answers a question from data that it has of its user.
//
//   import { symbolOfRecord } from "./shuffledp-record.js";
//   await device.answer(question, symbolOfRecord(question.certificate.wording, { age: 37, country: "DE" }));
//
// docs/protocol.md, "Wording"; the same as `locate_record` of shuffledp_core.documents.wording. Beside the module, as most pages
// have no records.

import { ShuffleError } from "./shuffledp.min.js";

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
/** The cell of an answer along one axis, or -1. */
function cellOf({ kind, names, edges, start, step, size }, answer) {
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

const sizeOf = ({ kind, names, edges, size }) => ({ names: names?.length, ranges: edges?.length - 1, scale: size })[kind];

/** The symbol of a record, an object with a value for each field; fields may be missing where the question has others. */
export function symbolOfRecord(wording, record) {
  const { axes, where, others } = wording;
  const given = (field) => spellValue(Object.hasOwn(record, field) ? record[field] : null);
  const cells = axes.map(({ field, symbols }) => cellOf(symbols, given(field) ?? ""));
  const outside = cells.includes(-1) || where.some(({ field, holds }) => !meets(holds, given(field) ?? ""));
  if (outside && others) return axes.reduce((total, { symbols }) => total * sizeOf(symbols), 1);
  if (outside) throw new ShuffleError("UsageError", "the record has no possible answer to this question");
  return axes.reduce((symbol, { symbols }, at) => symbol * sizeOf(symbols) + cells[at], 0);
}
