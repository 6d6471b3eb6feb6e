// A device of shuffledp in a web page: checks a round, randomises, seals, submits, checks the result.
//
// No dependency. Pages load shuffledp.min.js, which `python -m shuffledp_client.web.build` makes of this
// file. Every check of docs/protocol.md, "Submit", comes before the value is touched;
// docs/reference/devices.md lists them. Names of errors are those of the Python code.

const PROTOCOL = "shuffledp/v1";
const MAX_DOCUMENT_BYTES = 4 * 2 ** 20;
const TAG_BYTES = 16;

export class ShuffleError extends Error {
  constructor(code, message) {
    super(message);
    this.name = this.code = code;
  }
}

function fail(code, message) {
  throw new ShuffleError(code, message);
}

const malformed = (message) => fail("MalformedDocumentError", message);
const unsupported = (message) => fail("UnsupportedError", message);
const foreign = (message) => fail("ForeignDocumentError", message);

// Bytes

const bytesOf = async (buffer) => new Uint8Array(await buffer);
const utf8 = (text) => new TextEncoder().encode(text);
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Bytes of lower-case hex; null for any other spelling. */
function fromHex(text) {
  if (!/^(?:[0-9a-f]{2})*$/.test(text)) return null;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

async function digest(bytes) {
  return toHex(await sha256(bytes));
}

/** A whole number as `size` bytes, big endian. */
function bigEndian(number, size) {
  return Uint8Array.from({ length: size }, (_, at) => floor(number / 256 ** (size - 1 - at)) % 256);
}

// By name, which is shorter where it is used, and because minifiers write a call of Math.sqrt as a
// power, which browsers may round otherwise.
const { abs, ceil, cos, exp, expm1, floor, log1p, max, min, sin, sqrt } = Math;
const ln = Math.log;
const TURN = 2 * Math.PI;
const { assign, entries: fieldsOf, hasOwn } = Object;
const { stringify } = JSON;
const { subtle } = crypto;
const clamp = (number, low, high) => min(max(number, low), high);
const zeros = (size) => new Float64Array(size);
const upTo = (length, of) => Array.from({ length }, (_, at) => of(at));
const floats = (length, of) => Float64Array.from({ length }, (_, at) => of(at));
const sumBy = (values, of = (value) => value) => values.reduce((total, value, at) => total + of(value, at), 0);

const rowsOf = (packed, width) => upTo(packed.length / width, (at) => packed.subarray(at * width, (at + 1) * width));

// Rationals of whole numbers of any size

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

export class Ratio {
  /** Of whole numbers, BigInt or not; the denominator is above 0. */
  constructor(numerator, denominator = 1n) {
    const [n, d] = [BigInt(numerator), BigInt(denominator)];
    const common = gcd(n < 0n ? -n : n, d);
    [this.n, this.d] = [n / common, d / common];
  }
  static of(number) {
    return number instanceof Ratio ? number : new Ratio(number);
  }
  plus(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d + n * this.d, this.d * d);
  }
  minus(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d - n * this.d, this.d * d);
  }
  times(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * n, this.d * d);
  }
  over(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d, this.d * n);
  }
  floor() {
    return Number(this.n / this.d - (this.n % this.d < 0n ? 1n : 0n));
  }
  ceil() {
    return -new Ratio(-this.n, this.d).floor();
  }
  below(other) {
    const { n, d } = Ratio.of(other);
    return this.n * d < n * this.d;
  }
  valueOf() {
    return Number(this.n) / Number(this.d);
  }
  toString() {
    return `${this.n}/${this.d}`;
  }
}

const ONE = new Ratio(1n);
const HALF = new Ratio(1n, 2n);
const complement = (chance) => ONE.minus(chance);

// JSON, strictly: no field twice, whole numbers apart from others and of 64 bits, no lone surrogates

const STRING = /"(?:[^"\\\u0000-\u001f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const MOST_DEPTH = 32;

/** Values of JSON text; whole numbers are BigInt. */
export function parseJson(text) {
  let at = 0;
  const wrong = (what) => malformed(`not valid JSON: ${what} at character ${at}`);
  const skip = () => {
    while (at < text.length && " \t\n\r".includes(text[at])) at += 1;
  };
  const expect = (character) => {
    skip();
    if (text[at] !== character) wrong(`expected ${character}`);
    at += 1;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const string = () => {
    const found = match(STRING);
    if (!found) wrong("expected text");
    const value = JSON.parse(found[0]);
    if (!value.isWellFormed()) wrong("half of a surrogate pair");
    return value;
  };
  const number = () => {
    const found = match(NUMBER);
    if (!found) wrong("expected a value");
    if (found[1] === undefined && found[2] === undefined) {
      const whole = found[0].length > 20 ? null : BigInt(found[0]);
      if (whole === null || whole < -(2n ** 63n) || whole >= 2n ** 64n) wrong("more than 64 bits");
      if (found[0] === "-0") wrong("a second spelling of 0");
      return whole;
    }
    const value = Number(found[0]);
    return Number.isFinite(value) ? value : wrong("a number out of range");
  };
  const members = (close, read) => {
    at += 1;
    skip();
    if (text[at] === close) return (at += 1);
    for (;;) {
      skip();
      read();
      skip();
      if (text[at] === close) return (at += 1);
      if (text[at] !== ",") wrong(`expected , or ${close}`);
      at += 1;
    }
  };
  const value = (depth) => {
    skip();
    if (depth > MOST_DEPTH) wrong("too deep");
    if (text[at] === "{") {
      const fields = Object.create(null);
      members("}", () => {
        const name = string();
        if (name in fields) wrong(`a field twice: ${name.slice(0, 80)}`);
        expect(":");
        fields[name] = value(depth + 1);
      });
      return fields;
    }
    if (text[at] === "[") {
      const entries = [];
      members("]", () => entries.push(value(depth + 1)));
      return entries;
    }
    if (text[at] === '"') return string();
    for (const [word, meaning] of [["true", true], ["false", false], ["null", null]]) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    return number();
  };
  const parsed = value(0);
  skip();
  return at === text.length ? parsed : wrong("more behind the value");
}

// Schemas: functions from a parsed value to a checked one

const refuse = (what) => malformed(`expected ${what}`);
const str = (v) => (typeof v === "string" ? v : refuse("text"));
const bool = (v) => (typeof v === "boolean" ? v : refuse("true or false"));
const num = (v) => (typeof v === "number" || typeof v === "bigint" ? Number(v) : refuse("a number"));
const int = (v) => {
  if (typeof v !== "bigint") refuse("a whole number");
  return Number.isSafeInteger(Number(v)) ? Number(v) : v;
};
const orNull = (type) => (v) => (v === null ? null : type(v));
const absent = (type) => [null, orNull(type)];
const list = (type) => (v) => (Array.isArray(v) ? v.map(type) : refuse("a list"));
const among = (...words) => (v) => (words.includes(v) ? v : refuse(words.join(" or ")));
const key32 = (v) => (/^[0-9a-f]{64}$/.test(str(v)) ? v : refuse("64 lower-case hex digits"));
const whole = (low, high = 2 ** 31 - 1) => (v) =>
  int(v) >= low && int(v) <= high ? int(v) : refuse(`a whole number from ${low} to ${high}`);

/** A rational above 0, and at most `high`, in its one spelling. */
const ratio = (high) => (v) => {
  const parts = /^([0-9]{1,31})\/([0-9]{1,31})$/.exec(str(v));
  if (!parts || BigInt(parts[2]) === 0n) refuse("a rational such as 1/3");
  const value = new Ratio(parts[1], parts[2]);
  const limit = 2n ** 63n;
  if (`${value}` !== v || value.n <= 0n || value.n > limit || value.d > limit) refuse("a rational in range");
  return high && high.below(value) ? refuse(`a rational up to ${high}`) : value;
};

/** An object of exactly these fields; optional ones have a default, after which comes their type. */
function struct(required, optional = {}, check = () => {}) {
  return (v) => {
    if (v === null || typeof v !== "object" || Array.isArray(v)) refuse("an object");
    const fields = {};
    for (const name of Object.keys(v)) {
      if (!hasOwn(required, name) && !hasOwn(optional, name)) {
        malformed(`unknown field ${name.slice(0, 80)}`);
      }
    }
    for (const [name, type] of fieldsOf(required)) {
      if (!(name in v)) malformed(`the field ${name} is missing`);
      fields[name] = type(v[name]);
    }
    for (const [name, [otherwise, type]] of fieldsOf(optional)) {
      fields[name] = name in v ? type(v[name]) : otherwise;
    }
    check(fields);
    return fields;
  };
}

const signedFrame = struct({ label: str, signer: str, body: str, signature: str });
const document = (required, optional = {}, check = () => {}) =>
  struct(required, { version: [1, whole(1, 1)], ...optional }, check);

const SHARED_NAMES = ["client", "operator", "viewer", "gateway"];

function checkNames(what, names) {
  const lower = names.map((name) => name.toLowerCase());
  for (const name of names) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) malformed(`not a valid ${what} name`);
  }
  if (new Set(lower).size < lower.length) malformed(`a ${what} name occurs twice`);
}

function checkRoster(roster) {
  checkNames("deployment", [roster.deployment]);
  checkNames("party", roster.parties.map((party) => party.name));
  checkNames("population", roster.populations.map((population) => population.name));
  if (roster.parties.some((party) => SHARED_NAMES.includes(party.name.toLowerCase()))) {
    malformed("a party has the name of a TLS certificate");
  }
  const witnesses = roster.log?.witnesses ?? [];
  const keys = new Set([...roster.parties.map((party) => party.identity_key), ...witnesses.map((one) => one.public_key)]);
  if (keys.size < roster.parties.length + witnesses.length) malformed("two parties or witnesses have one key");
}

const logOf = struct(
  { witnesses: list(struct({ name: str, operator: str, address: str, public_key: key32 })), threshold: int },
  { ended: [[], list(struct({ size: int, root: key32 }, { public_key: [null, key32] }))] },
  ({ witnesses, threshold, ended }) => {
    checkNames("witness", witnesses.map((witness) => witness.name));
    if (!(threshold >= 1 && threshold <= witnesses.length && witnesses.length <= 16)) malformed("an impossible threshold");
    if (ended.some(({ size }) => size < 0)) malformed("a log of a negative size");
  },
);

function checkGeometry(geometry) {
  whole(2, 16)(BigInt(geometry.hops));
  whole(1, 1_000_000)(BigInt(geometry.messages_per_user));
  whole(1, 4)(BigInt(geometry.symbol_bytes));
  whole(0, 10_000_000)(BigInt(geometry.dummies_per_node));
  if (geometry.mix && /mlkem/.test(geometry.suite)) malformed("claims stay public: verified mixing has no suite against later computers");
}

const geometryOf = struct(
  { suite: str, hops: int, messages_per_user: int, symbol_bytes: int },
  { mix: [null, among("verified")], dummies_per_node: [0, int] },
  checkGeometry,
);
const estimateOf = struct(
  { quantity: str, values: list(num), standard_errors: list(num), lows: list(num), highs: list(num) },
  { mean: absent(num), mean_standard_error: absent(num) },
);
const mixingKey = struct(
  { blinding: str, blinding_proof: str },
  {
    opening: ["", str], opening_proof: ["", str], enrolment_key: ["", str], withdrawals: [0, int],
    withdrawals_digest: ["", str],
  },
);

// The wording of a question (shuffledp_core.documents.wording)

const NOT_PLAIN = new RegExp(
  "[\\x00-\\x1f\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180e\\u2000-\\u200b\\u200e" +
    "\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e00ff}\\u{e01f0}-\\u{e0fff}]", "u");
/** Without joiners and variation selectors, which in most places no one sees. */
const seen = (text) => text.replace(/[\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu, "");
const lookAlike = (texts) => new Set(texts.map(seen)).size < texts.length;
const plain = (most, least = 1) => (v) => {
  const length = [...str(v)].length;
  const spaced = v.split(" ").some((word) => word === "") && v !== "";
  const blank = seen(v) === "" && v !== "";
  const valid = length >= least && length <= most && !NOT_PLAIN.test(v) && !spaced && !blank && v.normalize("NFC") === v;
  return valid ? v : refuse(`plain text of ${least} to ${most} characters`);
};
/** A decimal in its one spelling, times 10^9. */
function decimalOf(text) {
  const parts = /^-?(0|[1-9][0-9]{0,14})(\.[0-9]{0,8}[1-9])?$/.exec(text);
  if (!parts || text === "-0") refuse("a decimal such as 12.5");
  const size = BigInt(parts[1] + (parts[2] ?? ".").slice(1).padEnd(9, "0"));
  return text.startsWith("-") ? -size : size;
}
const spellDecimal = (size) => {
  const digits = String(size < 0n ? -size : size).padStart(10, "0");
  return `${size < 0n ? "-" : ""}${digits.slice(0, -9)}.${digits.slice(-9)}`.replace(/\.?0+$/, "");
};
const decimal = (v) => (decimalOf(str(v)), v);
const MEANINGS = {
  names: struct({ kind: str, names: list(plain(100)) }, {}, ({ names }) => {
    if (names.length < 2 || lookAlike(names)) refuse("2 or more different names");
  }),
  ranges: struct({ kind: str, edges: list(str) }, {}, ({ edges }) => {
    const inner = edges.slice(edges[0] === "-inf" ? 1 : 0, edges.at(-1) === "inf" ? -1 : undefined).map(decimalOf);
    const ascend = inner.every((edge, at) => at === 0 || inner[at - 1] < edge);
    if (edges.length < 3 || inner.length === 0 || !ascend) refuse("3 or more edges in ascending order");
  }),
  scale: struct({ kind: str, start: decimal, step: decimal, size: whole(2) }, {}, ({ step }) => {
    if (decimalOf(step) <= 0n) refuse("a step above 0");
  }),
};
const meaningOf = (v) =>
  hasOwn(MEANINGS, v?.kind ?? "") ? Object.freeze(MEANINGS[v.kind](v)) : refuse("names, ranges or a scale");
/** The words of one symbol, without its unit. */
const NAMES = {
  names: ({ names }, at) => names[at],
  ranges({ edges }, at) {
    const [low, high] = edges.slice(at, at + 2);
    return low === "-inf" ? `below ${high}` : high === "inf" ? `${low} or more` : `${low}–${high}`;
  },
  scale: ({ start, step }, at) => spellDecimal(decimalOf(start) + BigInt(at) * decimalOf(step)),
};
const axisSize = ({ names, edges, size }) => size ?? names?.length ?? edges.length - 1;
const CONDITIONS = {
  among: struct({ kind: str, names: list(plain(100)) }, {}, ({ names }) => {
    if (names.length < 1 || lookAlike(names)) refuse("1 or more different names");
  }),
  range: struct({ kind: str, low: str, high: str }, {}, ({ low, high }) => {
    const ends = [low === "-inf" ? null : decimalOf(low), high === "inf" ? null : decimalOf(high)];
    const none = ends[0] === null && ends[1] === null;
    if (none || (!ends.includes(null) && ends[0] >= ends[1])) refuse("a range with an end, from low to high");
  }),
};
const conditionOf = (v) =>
  hasOwn(CONDITIONS, v?.kind ?? "") ? Object.freeze(CONDITIONS[v.kind](v)) : refuse("names or a range");
export const wordingOf = struct(
  {
    id: (v) => (/^[a-z0-9][a-z0-9._-]{0,63}$/.test(str(v)) ? v : refuse("an identifier of a question")),
    text: plain(300), axes: list(struct({ field: plain(100), unit: plain(32, 0), symbols: meaningOf })),
  },
  {
    where: [[], list(struct({ field: plain(100), unit: plain(32, 0), holds: conditionOf }))],
    others: ["", plain(100, 0)],
  },
  ({ id, text, axes, where, others }) => {
    const fields = axes.map(({ field }) => field);
    const kinds = axes.map(({ symbols }) => symbols.kind);
    if (axes.length < 1 || axes.length > 4 || lookAlike(fields)) refuse("1 to 4 different fields");
    if (where.length > 4 || lookAlike(where.map(({ field }) => field))) refuse("at most 4 conditions on different fields");
    if (where.length && !others) refuse("a name for the others");
    if (kinds.includes("hashes") && (kinds.length > 1 || others)) refuse("an open list alone, without others");
    if (kinds.filter((kind) => kind === "magnitudes").length > 1) refuse("at most one field to add up");
    const textsOf = ({ names, edges, start, step, low, high, salt }) =>
      names ?? edges ?? [low, high, start, step, salt].filter((text) => text !== undefined);
    if (others && axes.some(({ symbols }) => textsOf(symbols).map(seen).includes(seen(others)))) refuse("another name for the others");
    const named = axes.filter(({ symbols }) => !["scale", "hashes"].includes(symbols.kind));
    const most = sumBy(named, ({ symbols }) => axisSize(symbols)) + sumBy(where, ({ holds }) => textsOf(holds).length);
    const words = [id, text, others, ...axes.flatMap(({ field, unit, symbols }) => [field, unit, ...textsOf(symbols)]),
      ...where.flatMap(({ field, unit, holds }) => [field, unit, ...textsOf(holds)])];
    const bytes = sumBy(words, (word) => utf8(word).length);
    if (most > 1024 || bytes > 16_384) refuse("fewer words");
  },
);
const wordedSize = ({ axes, others }) =>
  axes.reduce((total, { symbols }) => total * axisSize(symbols), 1) + (others ? 1 : 0);

/** The words of each of at most `most` symbols, with units; null where there are more. */
export function symbolNames(wording, most = 1000) {
  const { axes, others } = wording;
  const nameOf = ({ symbols, unit }) => (at) => `${NAMES[symbols.kind](symbols, at)} ${unit}`.trimEnd();
  if (wordedSize(wording) > most) return null;
  const cells = axes.reduce((all, axis) => all.flatMap((first) =>
    upTo(axisSize(axis.symbols), (at) => [...first, nameOf(axis)(at)])), [[]])
    .map((parts) => parts.join(", "));
  return others ? [...cells, others] : cells;
}

function checkWording({ wording, mechanism }) {
  if (wording === null) return;
  const { sums: sum } = mechanism;
  if (sum && wording.others) malformed("a sum has no place for others");
  if (wordedSize(wording) !== mechanism.domain) malformed("the words are for another number of symbols");
  if (sum && (wording.axes.length > 1 || wording.axes[0].symbols.kind !== "scale")) malformed("a sum needs a scale");
}

const DOCUMENTS = {
  roster: document(
    {
      deployment: str,
      parties: list(struct({ name: str, role: str, operator: str, address: str, identity_key: key32 })),
      populations: list(struct({ name: str, enrolment_key: key32 })),
      tls_authority: str,
    },
    { serial: [0, int], issued_at: [0, int], expires_at: [0, int], broker: absent(str), log: [null, logOf] },
    checkRoster,
  ),
  credential: document({ population: str, public_key: key32 }, { expires_at: absent(int) }),
  certificate: document(
    {
      deployment: str, round_id: str, stage: str, population: str, mechanism: (v) => mechanismOf(v),
      users: int, honest: int, route: list(str), adjacency: among("standard", "metric"),
      max_distance: int, delta: num,
      epsilon: struct(
        { certified: orNull(num), attained: orNull(num) },
        { published: absent(num) },
      ),
      corrupted: struct({ epsilon: orNull(num), delta: num }),
      standard_error: num, assumptions: list(str), basis: list(str), holds: bool,
      ledger: struct(
        { entry: int, spent: orNull(num), delta: num, limit: num },
        {
          composition: ["fixed", among("adaptive", "fixed")], if_fixed: absent(num),
          reconciled: [null, int],
        },
      ),
      issued_at: int, expires_at: int,
    },
    { dropped: [0, int], invalid: [0, int], mix: [null, among("verified")], wording: [null, wordingOf] },
    checkWording,
  ),
  "round-key": document(
    {
      deployment: str, round_id: str, node: str, position: int, suite: str, public_key: str,
      certificate_digest: str,
    },
    { corrupt: [false, bool], mixing: [null, mixingKey] },
  ),
  manifest: document({
    deployment: str, round_id: str, certificate: signedFrame, route: list(signedFrame),
    geometry: geometryOf, min_reports: int, max_reports: int, opens_at: int, closes_at: int,
  }),
  countersignature: document({ round_id: str, node: str, manifest_digest: str }),
  submission: document({ round_id: str, credential: str, envelope_digest: str }),
  receipt: document({ round_id: str, credential: str, submission_digest: str }),
  batch: document(
    { round_id: str, position: int, users: int, records: int, digest: str },
    { dropped: [0, int], history: [null, int] },
  ),
  discard: document({ round_id: str, node: str, forwarded: bool }),
  result: document(
    { deployment: str, round_id: str, outcome: str },
    {
      reason: absent(str), error: absent(str), accepted: [0, int], messages: [0, int],
      board_digest: absent(str), estimate: absent(estimateOf),
      plan_certificate: absent(signedFrame), final_certificate: absent(signedFrame),
      dropped: [0, int], outside_alphabet: [0, int], repeated_tags: [0, int],
      headers: [[], list(signedFrame)], history: [null, struct({ digest: str, length: int })],
      tiles_root: [null, key32], manifest_digest: [null, key32],
    },
  ),
};

// Signatures and signed documents

const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const FIELD = 2n ** 255n - 19n;
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const SMALL_ORDER = [0n, 1n, FIELD - 1n, EIGHTH, FIELD - EIGHTH];
const COFACTOR_KEY = "50584106c66171dbe6901bd187252a0d704a02a1080f80c486575d07e5e4b4fe";
const COFACTOR_SIGNATURE =
  "dfd3145e691e9b998cb20bd6e1790ccfbd79f23e01dc20a7349e3aec7193acf6" +
  "b6969d2f0f1c6db5cecbd44e2afeb103eecf1734b13110df7b2500ab3e4e050c";

const bigInt = (bytes) => BigInt(`0x${toHex(bytes) || "0"}`);
const littleEndian = (bytes) => bigInt(Uint8Array.from(bytes).reverse());
const yOf = (point) => littleEndian(point) % 2n ** 255n;

const missingFrom = (what) => `this browser has no ${what}: use a newer one`;

async function equationHolds(key, signature, message) {
  try {
    const imported = await subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
    return await subtle.verify("Ed25519", imported, signature, message);
  } catch (error) {
    if (error.name === "NotSupportedError") {
      unsupported(missingFrom("Ed25519"));
    }
    return false; // not a point
  }
}

let strictEquation = null;

/** Strict Ed25519, docs/protocol.md, "Signed documents", step 3. */
export async function checkSignature(key, signature, message) {
  // Of which rules a browser checks the equation by, nothing is assumed.
  strictEquation ??= equationHolds(fromHex(COFACTOR_KEY), fromHex(COFACTOR_SIGNATURE), utf8("0"));
  if (await strictEquation) unsupported("this browser checks signatures by other rules");
  const valid =
    key.length === 32 &&
    signature.length === 64 &&
    littleEndian(signature.subarray(32)) < ORDER &&
    yOf(key) < FIELD &&
    !SMALL_ORDER.includes(yOf(key)) &&
    yOf(signature.subarray(0, 32)) < FIELD &&
    !SMALL_ORDER.includes(yOf(signature.subarray(0, 32))) &&
    (await equationHolds(key, signature, message));
  if (!valid) fail("SignatureError", "a signature is not valid");
}

/** The frame of a signed document; nothing in it is believed. */
export function parseFrame(text) {
  if (text.length > MAX_DOCUMENT_BYTES) malformed("a document is too long");
  return signedFrame(parseJson(text));
}

/** A document as it travels. */
const textOfDocument = ({ label, signer, body, signature }) => stringify({ label, signer, body, signature });

/** Digest of a document as it travels. */
export async function documentDigest(frame) {
  return digest(utf8(textOfDocument(frame)));
}

const signedBytes = (label, body) => utf8(`${PROTOCOL}/${label}\0${body}`);

/** The content of a signed document, docs/protocol.md, "Signed documents", steps 1 to 4. */
export async function verify(frame, label, signer, keyHex) {
  if (frame.label !== label) foreign(`expected a ${label}, got a ${frame.label.slice(0, 40)}`);
  if (frame.signer !== signer) foreign(`expected a ${label} of ${signer}, got one of ${frame.signer.slice(0, 64)}`);
  const signature = /^[0-9a-f]{128}$/.test(frame.signature) ? fromHex(frame.signature) : new Uint8Array();
  try {
    await checkSignature(fromHex(keyHex) ?? new Uint8Array(), signature, signedBytes(label, frame.body));
  } catch (error) {
    if (error.code !== "SignatureError") throw error;
    fail("SignatureError", `the ${label} has no valid signature of ${signer}`);
  }
  const content = parseJson(frame.body);
  if (label === "certificate") await prepare(content);
  return DOCUMENTS[label](content);
}

const partyOf = (roster, name) =>
  roster.parties.find((party) => party.name === name) ?? foreign(`the roster has no party ${name.slice(0, 64)}`);

const enrolmentKeyOf = (roster, population) => (roster.populations.find(({ name }) => name === population) ??
  foreign(`the roster has no population ${population}`)).enrolment_key;

function onlyParty(roster, role) {
  const parties = roster.parties.filter((party) => party.role === role);
  return parties.length === 1 ? parties[0] : foreign(`the roster has ${parties.length} parties of role ${role}`);
}

const verifyFrom = (party, frame, label) => verify(frame, label, party.name, party.identity_key);
const verifyOf = (roster, role, frame, label) => verifyFrom(onlyParty(roster, role), frame, label);

/** The roster under the pinned root key; whether it is current is for `requireCurrent`. */
export const verifyRoster = (frame, rootKey) => verify(frame, "roster", "root", rootKey);

export function requireCurrent(roster, now) {
  if (roster.serial < 1) fail("StaleRosterError", "the roster has no serial number");
  if (now >= roster.expires_at) fail("StaleRosterError", "the roster has expired: get the present one");
}

// Randomness: the operating system's, read in blocks; exact samplers

const BLOCK = 4096;
const systemRandom = (size) => crypto.getRandomValues(new Uint8Array(size));

export class Integers {
  constructor(source = systemRandom) {
    this.source = source;
    this.block = new Uint8Array();
    this.used = 0;
  }
  /** A uniform BigInt in {0..bound-1}, by rejection, exactly. */
  below(bound) {
    const limit = BigInt(bound);
    const bits = limit > 1n ? (limit - 1n).toString(2).length : 0;
    if (bits === 0) return 0n;
    const width = ceil(bits / 8);
    for (;;) {
      if (this.used + width > this.block.length) {
        this.block = this.source(max(BLOCK, width));
        this.used = 0;
      }
      const drawn = this.block.subarray(this.used, this.used + width);
      this.used += width;
      const value = BigInt(`0x${toHex(drawn)}`) >> BigInt(8 * width - bits);
      if (value < limit) return value;
    }
  }
  index(bound) {
    return Number(this.below(bound));
  }
}

const bernoulli = (chance, integers) => integers.below(chance.d) < chance.n;

function binomial(trials, chance, integers) {
  let successes = 0;
  for (let trial = 0; trial < trials; trial += 1) successes += Number(bernoulli(chance, integers));
  return successes;
}

// Exact samplers of noise: Canonne, Kamath, Steinke 2020; a Pólya urn thins a geometric

/** Bernoulli(exp(-n/d)) for n/d from 0 to 1. */
function unitExp(n, d, integers) {
  let trial = 1n;
  while (integers.below(d * trial) < n) trial += 1n;
  return trial % 2n === 1n;
}

function geometric({ n, d }, integers) {
  let low;
  do low = integers.below(d);
  while (!unitExp(low, d, integers));
  let high = 0n;
  while (unitExp(1n, 1n, integers)) high += 1n;
  return (low + d * high) / n;
}

function discreteLaplace(rate, integers) {
  for (;;) {
    const magnitude = geometric(rate, integers);
    const negative = integers.below(2) === 1n;
    if (magnitude > 0n || !negative) return negative ? -magnitude : magnitude;
  }
}

function geometricShare(rate, shares, integers) {
  const parts = BigInt(shares);
  const all = geometric(rate, integers);
  let white = 0n;
  for (let draw = 0n; draw < all; draw += 1n) {
    if (integers.below(parts * (1n + draw)) < 1n + parts * white) white += 1n;
  }
  return white;
}

function sharedNoise(rate, shares, integers) {
  const added = geometricShare(rate, shares, integers);
  return added - geometricShare(rate, shares, integers);
}

const bitsOf = (chances, integers) =>
  chances.reduce((bits, chance, at) => bits + Number(bernoulli(chance, integers)) * 2 ** at, 0);

// What two neighbouring datasets attain, rounded down (shuffledp_core.bounds.lower)

const MOST_POINTS = 2 ** 18;
const MOST_BITS = 1024;
const ROUNDING = 1e-9;
const OUTSIDE = 1e-15;
const LARGEST_EPSILON = 700;
const UP = 1 + 2 ** -50;

const deviationOf = (trials, chance) => sqrt(trials * chance * (1 - chance));
const reachOf = (deviation) => ceil(9 * deviation) + 40;

/** Probabilities of `first` to `last` successes, of sum 1. */
function windowOf(trials, chance, first, last) {
  const logs = zeros(last - first + 1);
  const odds = ln(chance.over(complement(chance)));
  for (let at = 1; at < logs.length; at += 1) {
    const successes = first + at - 1;
    logs[at] = logs[at - 1] + ln((trials - successes) / (successes + 1)) + odds;
  }
  const most = logs.reduce((a, b) => max(a, b), -Infinity);
  const weights = logs.map((log) => exp(log - most));
  const sum = sumBy(weights);
  return weights.map((weight) => weight / sum);
}

function nearMean(trials, chance) {
  const reach = reachOf(deviationOf(trials, +chance));
  const mean = Ratio.of(trials).times(chance).floor();
  const first = max(0, mean - reach);
  return { first, law: windowOf(trials, chance, first, min(trials, mean + reach)) };
}

function convolve(a, b) {
  const joined = zeros(a.length + b.length - 1);
  b.forEach((weight, shift) => {
    if (weight === 0) return;
    for (let at = 0; at < a.length; at += 1) joined[at + shift] += a[at] * weight;
  });
  return joined;
}

function bitCounts(others, chance, bits, high, low) {
  return (epsilon) => {
    if (epsilon > LARGEST_EPSILON || 2 * reachOf(deviationOf(others, +chance)) >= MOST_POINTS) return 0;
    const base = nearMean(others, chance).law;
    const before = convolve(base, windowOf(bits, high, 0, bits));
    const after = convolve(base, windowOf(bits, low, 0, bits));
    return excess(before, after, epsilon, OUTSIDE);
  };
}

function dummyCounts(slots, rate) {
  return (epsilon) => {
    const trials = slots + 1;
    if (epsilon > LARGEST_EPSILON || deviationOf(trials, +rate) > 100) return 0;
    const growth = exp(epsilon) * (1 + ROUNDING);
    const others = rate.over(complement(rate));
    const outer = nearMean(trials, rate);
    let total = 0;
    outer.law.forEach((mass, at) => {
      const a = outer.first + at;
      const inner = others.n === others.d ? { first: trials - a, law: [1] } : nearMean(trials - a, others);
      let mean = 0;
      inner.law.forEach((share, step) => {
        mean += share * max(a - growth * (inner.first + step), 0);
      });
      total += mass * mean;
    });
    return max(0, min(1, (total * (1 - 4 * ROUNDING)) / (trials * rate)));
  };
}

const logOdds = (p) => log1p(+Ratio.of(2).times(complement(p)).over(p)) * UP;

function dilute(epsilon, share) {
  if (epsilon > LARGEST_EPSILON) return share > 0 ? ln(share + exp(-epsilon)) + epsilon * UP : 0;
  return log1p(share * expm1(epsilon)) * UP;
}

// Noise in sums (shuffledp_core.bounds.noise and local): differences of two negative binomials

/** The discrete Fourier transform in place, by a power of two. */
function transform(re, im) {
  const size = re.length;
  for (let at = 1, mirror = 0; at < size; at += 1) {
    let bit = size >> 1;
    for (; mirror & bit; bit >>= 1) mirror ^= bit;
    mirror ^= bit;
    if (at < mirror) {
      [re[at], re[mirror]] = [re[mirror], re[at]];
      [im[at], im[mirror]] = [im[mirror], im[at]];
    }
  }
  const cosines = floats(size / 2, (at) => cos((TURN * at) / size));
  const sines = floats(size / 2, (at) => -sin((TURN * at) / size));
  for (let half = 1; half < size; half *= 2) {
    const stride = size / (2 * half);
    for (let start = 0; start < size; start += 2 * half) {
      for (let at = 0; at < half; at += 1) {
        const [c, s] = [cosines[at * stride], sines[at * stride]];
        const [a, b] = [start + at, start + at + half];
        const [x, y] = [re[b] * c - im[b] * s, re[b] * s + im[b] * c];
        [re[b], im[b]] = [re[a] - x, im[a] - y];
        [re[a], im[a]] = [re[a] + x, im[a] + y];
      }
    }
  }
}

const MAX_WINDOW = 2 ** 22;
const TILTS = upTo(400, (at) => 1e-9 * 0.999e9 ** (at / 399));

/** h with P(|Y| > h) <= tail. */
function chernoff(shape, rate, tail) {
  const epsilon = min(rate, LARGEST_EPSILON);
  let least = Infinity;
  for (const tilt of TILTS) {
    const theta = epsilon * tilt;
    const root = exp(-epsilon / 2) * Math.sinh(theta / 2);
    const inner = 1 - (4 * root ** 2) / expm1(-epsilon) ** 2;
    if (inner > 0) least = min(least, (ln(2 / tail) - shape * ln(inner)) / theta);
  }
  return ceil(least);
}

const bitLength = (number) => number.toString(2).length;

/** P(Y = 0), P(Y = 1), ..; null where the window would be too large. */
function noiseTable(shape, rate) {
  const reach = chernoff(shape, rate, 1e-12);
  if (2 * reach + 2 > MAX_WINDOW) return null;
  const size = 2 ** bitLength(2 * reach + 1);
  const [re, im] = [zeros(size), zeros(size)];
  for (let at = 0; at < size; at += 1) {
    const swing = (4 * exp(-rate) * sin((Math.PI * at) / size) ** 2) / expm1(-rate) ** 2;
    re[at] = exp(-shape * log1p(swing)) / size;
  }
  transform(re, im); // real and symmetric, so that this is its own inverse
  return re.slice(0, size / 2).map((mass) => max(mass, 0));
}

/** Σ (P - e^ε Q)_+, rounded down, less `error` in the probability of an event. */
function excess(before, after, epsilon, error) {
  const growth = exp(epsilon);
  let total = 0;
  before.forEach((mass, at) => {
    total += max(mass * (1 - ROUNDING) - growth * (1 + ROUNDING) * after[at], 0);
  });
  return max(0, min(1, total - (1 + growth) * error));
}

function shiftedNoise(shape, rate, distance, altered, room = Infinity) {
  return (epsilon) => {
    if (epsilon > LARGEST_EPSILON || chernoff(shape, rate, 1e-12) > MOST_POINTS) return 0;
    const table = noiseTable(shape, rate);
    if (table === null || 2 * table.length + distance > room) return 0;
    const law = Float64Array.from([...table.slice(1).reverse(), ...table]);
    const moved = zeros(law.length);
    moved.set(law.subarray(min(distance, law.length)));
    return excess(law, moved, epsilon, altered + 1e-9);
  };
}

/** A sum of independent reports, one of which changes its law. */
function reportSum(honest, before, after) {
  return (epsilon) => {
    const mean = sumBy(before, (mass, at) => mass * at);
    const variance = sumBy(before, (mass, at) => mass * (at - mean) ** 2);
    const points = max(before.length, 24 * sqrt(honest * variance));
    if (epsilon > LARGEST_EPSILON || points > MOST_POINTS) return 0;
    const size = 2 ** bitLength(ceil(points));
    const spectrum = (law) => {
      const parts = [zeros(size), zeros(size)];
      parts[0].set(law);
      transform(...parts);
      return parts;
    };
    const [re, im] = spectrum(before);
    const [otherRe, otherIm] = [zeros(size), zeros(size)];
    let magnitude = 0;
    for (let at = 0; at < size; at += 1) {
      const length = Math.hypot(re[at], im[at]) ** (honest - 1);
      const angle = Math.atan2(im[at], re[at]) * (honest - 1);
      [otherRe[at], otherIm[at]] = [length * cos(angle), length * sin(angle)];
      if (at <= size / 2) magnitude += length;
    }
    const together = ([x, y]) => {
      const product = [zeros(size), zeros(size)];
      for (let at = 0; at < size; at += 1) {
        product[0][at] = (otherRe[at] * x[at] - otherIm[at] * y[at]) / size;
        product[1][at] = -(otherRe[at] * y[at] + otherIm[at] * x[at]) / size; // conjugate: the inverse
      }
      transform(...product);
      return product[0];
    };
    const error = 2 ** -49 * Math.log2(size) * honest * 2 * magnitude;
    return excess(together([re, im]), together(spectrum(after)), epsilon, error);
  };
}

/** ln Γ(x) for x > 0, by Stirling's series above 15. */
function lnGamma(x) {
  let [shifted, product] = [x, 1];
  while (shifted < 15) {
    product *= shifted;
    shifted += 1;
  }
  const square = 1 / shifted ** 2;
  const series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / shifted;
  return (shifted - 0.5) * ln(shifted) - shifted + 0.5 * ln(2 * Math.PI) + series - ln(product);
}

/** ln P(N=0)/P(N=d) of one share of a discrete Laplace noise, rounded up. */
function noisyReport(rate, shares, distance) {
  if (shares === 1) return rate * distance * UP;
  if (rate < 5e-5) return Infinity;
  const share = 1 / shares;
  const decay = exp(-2 * rate);
  const first = lnGamma(share + distance) - lnGamma(share) - lnGamma(distance + 1);
  let [atZero, atDistance, near, far, power] = [1, 1, 1, 1, 1];
  for (let i = 0; i <= ceil(40 / (2 * rate)); i += 1) {
    near *= (share + i) / (i + 1);
    far *= (share + distance + i) / (distance + i + 1);
    power *= decay;
    atZero += near * near * power;
    atDistance += near * far * power;
  }
  atZero += (near * near * power) / -expm1(-2 * rate);
  return (distance * rate + ln(atZero / atDistance) - first + 1e-10 + 1e-15 * lnGamma(distance + 2)) * UP;
}

const QUANTILE = 1.9601352; // of the normal law at 1 - 0.025 + 1e-5, rounded up

/** h with P(|Y| <= h) >= 0.95. */
function halfWidth(shape, rate) {
  const table = noiseTable(shape, rate);
  if (table !== null) {
    let inside = table[0];
    let h = 0;
    while (inside < 0.95 + 1e-9) inside += 2 * table[(h += 1)];
    return h;
  }
  const ratio = exp(-rate);
  if ((1 + 4 * ratio + ratio ** 2) / (2 * shape * ratio) >= 1e-3) return chernoff(shape, rate, 1 - 0.95);
  return ceil((QUANTILE * sqrt(2 * shape * ratio)) / -expm1(-rate) + 0.5);
}

// Intervals from exact laws (shuffledp_core.answering.intervals)

const TAIL = 0.025 - 1e-6;
const NODES = 32;

/** P(C <= ones) where C is a sum of bits, groups of [number, chance of 1, chance of 0]. */
function lowerTail(ones, groups) {
  let mean = 0;
  let variance = 0;
  for (const [count, one, zero] of groups) {
    mean += count * one;
    variance += count * one * zero;
  }
  if (ones >= mean) return 1;
  const deviation = max(sqrt(variance), 3.75);
  const points = ceil((2 * NODES * deviation) / 3.75);
  const real = -1.5 / deviation;
  let summed = 0;
  for (let node = 0; node <= NODES; node += 1) {
    const angle = (TURN * node) / points;
    let left = ones;
    let [re, im] = [0, 0];
    for (const [count, one, zero] of groups) {
      const swapped = one > 0.5;
      const [a, b] = swapped ? [-real, -angle] : [real, angle];
      const rare = swapped ? zero : one;
      const x = rare * (expm1(a) * cos(b) - 2 * sin(b / 2) ** 2);
      const y = rare * exp(a) * sin(b);
      if (swapped) left -= count;
      re += count * 0.5 * log1p(2 * x + x * x + y * y);
      im += count * Math.atan2(y, 1 + x);
    }
    const size = exp(re - real * left);
    const turn = im - angle * left;
    const c = -(expm1(real) * cos(angle) - 2 * sin(angle / 2) ** 2);
    const d = -exp(real) * sin(angle);
    const term = (size * (cos(turn) * c + sin(turn) * d)) / (c * c + d * d);
    summed += (node === 0 || (node === NODES && points === 2 * NODES) ? 1 : 2) * term;
  }
  return min(1, max(0, summed / points));
}

function largest(holds, top) {
  let [low, high] = [0, top];
  while (low < high) {
    const middle = low + floor((high - low + 1) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Ends of the intervals for x, where each count is Bin(x, p) + Bin(n - x, q), and noise: `slots` bits that are 1 with the
 * probability `rate`, and a value of pairs of a value and its probability; `backward` has that of the negative noise.
 */
function countIntervals(observed, n, p, q, { slots = 0, rate = p, forward = [[0, 1]], backward = forward } = {}) {
  const ends = (counts, high, low, one, values) => {
    const computed = new Map();
    const holds = (count) => (x) => sumBy(values, ([value, mass]) => mass * lowerTail(count - value, [
      [x, +high, +complement(high)], [n - x, +low, +complement(low)], [slots, +one, +complement(one)],
    ])) > TAIL;
    return counts.map((count) => {
      if (!computed.has(count)) computed.set(count, largest(holds(count), n));
      return computed.get(count);
    });
  };
  const spread = sqrt(n * min(p * complement(p), q * complement(q)));
  const step = observed.length > 1000 ? max(1, floor(0.01 * spread)) : 1;
  const down = observed.map((count) => n + slots - floor(count / step) * step);
  const up = observed.map((count) => ceil(count / step) * step);
  const lows = ends(down, complement(q), complement(p), complement(rate), backward).map((end) => n - end);
  return [lows, ends(up, p, q, rate, forward)];
}

function binomialInterval(trials, chance) {
  const fewest = (one, zero) => largest((x) => x === 0 || lowerTail(x - 1, [[trials, one, zero]]) <= TAIL, trials);
  return [fewest(+chance, +complement(chance)), trials - fewest(+complement(chance), +chance)];
}

const OFFSETS = [
  ...upTo(20, (at) => at * 0.002),
  ...upTo(14, (at) => 0.04 * 25 ** (at / 13)),
];

/** Laws of the ones of values that add up to `steps` bits, one of which has the largest tail. */
function compositionLaws(steps, bits, users, flip, slope) {
  const lowest = steps.floor();
  const rest = +steps.minus(lowest);
  const some = rest > 0 ? 1 : 0;
  const least = max(0, lowest - (bits - users));
  const most = min(lowest, users - some);
  const clip = (x) => clamp(x, least, most);
  const middle = clip(Math.round(users / 2 - rest));
  const offsets = OFFSETS.map((offset) => floor(offset * users));
  const marks = offsets.flatMap((offset) => [clip(middle - offset), clip(middle + offset)]);
  const edges = [...new Set([...marks, least, most])].sort((a, b) => a - b);
  return edges.map((low, at) => {
    const high = at + 1 < edges.length ? edges[at + 1] - 1 : most;
    const [more, less] = [users - high - some, low];
    const [chanceMore, chanceLess] = [(high + rest) / users, (low + rest) / users];
    const between = 2 * (high - low) + some;
    const left = high + rest - more * chanceMore - less * chanceLess;
    const share = between > 0 ? clamp(left / between, 0, 1) : 0;
    return [
      [lowest - high, 1], [more, chanceMore], [between, share], [less, chanceLess],
      [bits - users - lowest + low, 0],
    ].map(([count, chance]) => [count, flip + slope * chance, flip + slope * (1 - chance)]);
  });
}

/** Interval for a sum in unary code, each value rounded at random to a whole number of bits. */
function roundedSumInterval(ones, bits, users, unit, flip) {
  const slope = complement(flip).minus(flip);
  const whole = unit.times(bits);
  const top = whole.ceil();
  const end = (count) =>
    largest((total) => {
      const exact = Ratio.of(total).over(unit);
      const steps = exact.below(bits) ? exact : Ratio.of(bits);
      const expected = Ratio.of(bits).times(flip).plus(slope.times(steps));
      if (expected.below(count + 2)) return true;
      return compositionLaws(steps, bits, users, +flip, +slope).some((law) => lowerTail(count, law) > TAIL);
    }, top);
  return [max(top - end(bits - ones), 0), min(end(ones), whole.floor())];
}

// Estimates (shuffledp_core.answering.estimates)

const pureNoise = () => fail("UsageError", "every message is pure noise");

const histogramOf = (values, errors, lows, highs) =>
  ({ quantity: "histogram", values, standard_errors: errors, lows, highs, mean: null, mean_standard_error: null });

/** A histogram among dummies, between `least` and `most` of each symbol. */
function amongDummies(counts, reports, { mean, deviation, least, most }) {
  const clip = (end) => clamp(end, 0, +reports);
  const each = (of) => counts.map(of);
  return histogramOf(
    each((count) => count - mean), each(() => deviation), each((count) => clip(count - most)), each((count) => clip(count - least)),
  );
}

function histogram(counts, reports, p, q, added = {}) {
  const { mean = 0, deviation = 0 } = added;
  const n = reports.floor();
  const slope = +p.minus(q);
  if (slope <= 0) pureNoise();
  const values = counts.map((count) => (count - mean - n * q) / slope);
  const errors = values.map((value) => {
    const held = clamp(value, 0, n);
    return sqrt(held * p.times(complement(p)) + (n - held) * q.times(complement(q)) + deviation ** 2) / slope;
  });
  return histogramOf(values, errors, ...countIntervals(counts, n, p, q, added));
}

function sum(value, error, [low, high], reports, maxValue) {
  const n = +reports;
  const clip = (end) => clamp(end, 0, +reports.times(maxValue));
  return {
    quantity: "sum", values: [value], standard_errors: [error], lows: [clip(low)], highs: [clip(high)],
    mean: value / n, mean_standard_error: error / n,
  };
}

function sumOfBits(ones, reports, maxValue, flip) {
  const bits = reports.times(maxValue).floor();
  const slope = complement(flip).minus(flip);
  const value = Ratio.of(ones).minus(Ratio.of(bits).times(flip)).over(slope);
  const [lows, highs] = countIntervals([ones], bits, complement(flip), flip);
  const error = sqrt(bits * flip * (1 - flip)) / slope;
  return sum(+value, error, [lows[0], highs[0]], reports, maxValue);
}

function sumWithNoise(total, reports, maxValue, shape, rate, bias = 0) {
  const error = sqrt(2 * shape * exp(-rate)) / -expm1(-rate);
  const width = halfWidth(shape, rate) + bias;
  return sum(+total, Math.hypot(error, bias), [total - width, total + width], reports, maxValue);
}

/** Noise of each user, shifted, clamped and sent in unary code. */
function padded(k, padding, ratio, shares, draw) {
  const rate = +ratio;
  const messages = k + 2 * padding;
  const beyond = exp(-rate * (padding + 1)) * (1 + 1e-12);
  const bias = shares === 1
    ? (beyond * expm1(-rate * k)) / expm1(-2 * rate)
    : beyond / expm1(-rate) ** 2 / shares;
  return {
    domain: k + 1, alphabet: 2, messages, say: unary(messages),
    sample(value, integers) {
      const noisy = BigInt(value + padding) + draw(integers);
      return noisy < 0n ? 0 : noisy > BigInt(messages) ? messages : Number(noisy);
    },
    local: (distance) => noisyReport(rate, shares, distance),
    witness(honest, distance) {
      const clamped = 2 * ceil(honest / shares) * exp(-rate * (padding + 1));
      return shiftedNoise(honest / shares, rate, distance, min(1, clamped));
    },
    estimate([, ones], reports) {
      const total = Ratio.of(ones).minus(reports.times(padding));
      return sumWithNoise(total, reports, k, reports / shares, rate, reports * bias);
    },
  };
}

// Mechanisms: one entry for each that a page can play

const index = (most) => (answer) =>
  answer >= 0 && answer < most ? [answer] : fail("UsageError", "no such answer");
const unary = (m) => (answer) => upTo(m, (at) => (at < answer ? 1 : 0));
const tally = (size) => (symbols) => {
  const counts = new Array(size).fill(0);
  for (const symbol of symbols) counts[symbol] += 1;
  return counts;
};

/** Randomised response to one of k symbols. */
function kRandomised(symbols, blanket) {
  const low = blanket.over(symbols);
  return {
    low, high: complement(blanket).plus(low),
    sample: (value, integers) => (bernoulli(blanket, integers) ? integers.index(symbols) : value),
    local: () => log1p(+complement(blanket).times(symbols).over(blanket)) * UP,
  };
}

const MECHANISMS = {
  "krr-histogram": {
    fields: { symbols: whole(2), blanket: ratio(ONE) },
    make({ symbols, blanket }) {
      const { low, high, sample, local } = kRandomised(symbols, blanket);
      return {
        domain: symbols, alphabet: symbols, messages: 1, sample, local,
        say: index(symbols),
        witness: (honest) => bitCounts(honest - 1, low, 1, high, low),
        estimate: (counts, reports) => histogram(counts, reports, high, low),
      };
    },
  },
  "hadamard-histogram": {
    fields: { symbols: whole(2, 2 ** 20 - 1), blanket: ratio(ONE) },
    make({ symbols, blanket }) {
      const order = 2 ** symbols.toString(2).length;
      const quarter = blanket.over(4);
      return {
        domain: symbols, alphabet: order, messages: 1,
        sample(value, integers) {
          if (bernoulli(blanket, integers)) return integers.index(order);
          const row = value + 1;
          const bit = Math.log2(row & -row);
          const free = integers.index(order / 2);
          const found = ((free >> bit) << (bit + 1)) | (free & ((1 << bit) - 1));
          const common = (found & row).toString(2).replaceAll("0", "").length;
          return found | ((common & 1) << bit);
        },
        say: index(order),
        local: () => logOdds(blanket),
        witness: (honest) => bitCounts(honest - 1, quarter, 1, HALF.minus(quarter), quarter),
        estimate(counts, reports) {
          const signed = Float64Array.from(counts);
          for (let step = 1; step < order; step *= 2) {
            for (let at = 0; at < order; at += 1) {
              if (at & step) continue;
              [signed[at], signed[at + step]] = [signed[at] + signed[at + step], signed[at] - signed[at + step]];
            }
          }
          const all = sumBy(counts);
          const inside = Array.from(signed.subarray(1, symbols + 1), (value) => (value + all) / 2);
          return histogram(inside, reports, ONE.minus(blanket.times(HALF)), HALF);
        },
      };
    },
  },
  "dummy-histogram": {
    fields: { symbols: whole(2, 2 ** 31 - 2), slots: whole(1, 9999), fill: ratio(ONE) },
    make({ symbols, slots, fill }) {
      const rate = fill.over(symbols);
      return {
        domain: symbols, alphabet: symbols + 1, messages: 1 + slots,
        sample: (value) => value,
        say(answer, integers) {
          const sent = [answer, ...new Array(slots).fill(symbols)];
          for (let slot = 1; slot <= slots; slot += 1) {
            if (bernoulli(fill, integers)) sent[slot] = integers.index(symbols);
          }
          const place = integers.index(slots + 1);
          [sent[0], sent[place]] = [sent[place], sent[0]];
          return sent;
        },
        local: () => Infinity,
        witness: (honest) => dummyCounts(honest * slots, rate),
        estimate(counts, reports) {
          const trials = reports.times(slots).floor();
          const [least, most] = binomialInterval(trials, rate);
          const noise = { mean: trials * rate, deviation: sqrt(trials * rate * (1 - rate)), least, most };
          return amongDummies(counts.slice(0, symbols), reports, noise);
        },
      };
    },
  },
  "rappor-histogram": {
    fields: { symbols: whole(2, 31), fake: ratio(ONE), when_zero: ratio(ONE), when_one: ratio(ONE) },
    optional: { question: [0, whole(0)] },
    make({ symbols, fake, when_zero: zero, when_one: one, question }) {
      if (one.below(zero) || !one.below(ONE)) malformed("need when_zero <= when_one < 1");
      const half = fake.times(HALF);
      const step = one.minus(zero).times(half);
      const [p, q] = [zero.plus(step), one.minus(step)];
      const all = upTo(symbols, (at) => at);
      const remember = (value, integers) =>
        bitsOf(all.map((symbol) => (symbol === value ? complement(half) : half)), integers);
      const report = (kept, integers) =>
        bitsOf(all.map((symbol) => (floor(kept / 2 ** symbol) % 2 ? one : zero)), integers);
      return {
        domain: symbols, alphabet: 2 ** symbols, messages: 1, remember, report,
        remembered: `rappor-histogram question=${question} symbols=${symbols} fake=${fake}`,
        sample: (value, integers) => report(remember(value, integers), integers),
        say: index(2 ** symbols),
        local: () => 2 * logOdds(fake),
        witness: (honest) => {
          const low = p.times(complement(q));
          return bitCounts(honest - 1, low, 1, q.times(complement(p)), low);
        },
        count: (sent) => [
          sent.length, ...all.map((at) => sent.filter((report) => floor(report / 2 ** at) % 2).length),
        ],
        total: (counts) => counts[0],
        estimate: (counts, reports) => histogram(counts.slice(1), reports, q, p),
      };
    },
  },
  "one-bit-mean": {
    fields: { max_value: whole(1), randomise: ratio(ONE) },
    make({ max_value: k, randomise }) {
      const flip = randomise.times(HALF);
      const slope = complement(randomise).over(k);
      return {
        domain: k + 1, alphabet: 2, messages: 1,
        sample(value, integers) {
          if (bernoulli(randomise, integers)) return integers.index(2);
          return Number(integers.below(k) < BigInt(value));
        },
        say: unary(1),
        local: (distance) => log1p(+Ratio.of(2 * distance).times(slope).over(randomise)) * UP,
        witness: (honest, distance) =>
          bitCounts(honest - 1, flip, 1, flip.plus(slope.times(distance)), flip),
        estimate([, ones], reports) {
          if (slope.n === 0n) pureNoise();
          const n = reports.floor();
          const value = Ratio.of(ones).minus(Ratio.of(n).times(flip)).over(slope);
          const share = clamp(ones / n, +flip, 1 - flip);
          const ends = roundedSumInterval(ones, n, n, Ratio.of(k), flip);
          return sum(+value, sqrt(n * share * (1 - share)) / slope, ends, reports, k);
        },
      };
    },
  },
  "quantised-rr": {
    fields: { max_value: whole(1), bits: whole(1), randomise: ratio(ONE) },
    make({ max_value: k, bits, randomise }) {
      if (bits > k) malformed("more bits than units");
      const code = MECHANISMS["rr-shuffle"].make({ max_value: bits, randomise });
      const flip = randomise.times(HALF);
      const slope = complement(randomise);
      const split = (units) => [floor((units * bits) / k), (units * bits) % k];
      const parts = new Ratio(bits, k).d;
      const rounding = new Ratio((parts / 2n) * ((parts + 1n) / 2n), parts * parts);
      return {
        domain: k + 1, alphabet: 2, messages: bits,
        sample(value, integers) {
          const [steps, rest] = split(value);
          return code.sample(steps + Number(integers.below(k) < BigInt(rest)), integers);
        },
        say: unary(bits),
        local(distance) {
          const [steps, rest] = split(distance);
          const each = logOdds(randomise);
          return steps * each + dilute(each, rest / k);
        },
        witness(honest, distance) {
          const [steps, rest] = split(distance);
          if (rest === 0) return code.witness(honest, steps);
          if (steps > 0) return null;
          const high = flip.plus(slope.times(new Ratio(rest, k)));
          return bitCounts(honest * bits - 1, flip, 1, high, flip);
        },
        estimate([, ones], reports) {
          if (slope.n === 0n) pureNoise();
          if (rounding.n === 0n) return sumOfBits(ones, reports, k, flip);
          const total = reports.times(bits).floor();
          const step = new Ratio(k, bits);
          const value = Ratio.of(ones).minus(Ratio.of(total).times(flip)).over(slope).times(step);
          const deviation = sqrt(total * flip * (1 - flip) + reports * slope * slope * rounding);
          const ends = roundedSumInterval(ones, total, reports.ceil(), step, flip);
          return sum(+value, deviation * step.over(slope), ends, reports, k);
        },
      };
    },
  },
  "rr-shuffle": {
    fields: { max_value: whole(1), randomise: ratio(ONE) },
    make({ max_value: k, randomise }) {
      const flip = randomise.times(HALF);
      return {
        domain: k + 1, alphabet: 2, messages: k,
        sample: (value, integers) =>
          value - binomial(value, flip, integers) + binomial(k - value, flip, integers),
        say: unary(k),
        local: (distance) => distance * logOdds(randomise),
        witness(honest, distance) {
          const changed = min(distance, MOST_BITS);
          return bitCounts(honest * k - changed, flip, changed, complement(flip), flip);
        },
        estimate([, ones], reports) {
          if (randomise.n === randomise.d) pureNoise();
          return sumOfBits(ones, reports, k, flip);
        },
      };
    },
  },
};

assign(MECHANISMS, {
  "geo-shuffle": {
    fields: { max_value: whole(1), epsilon_geo: ratio(), padding: whole(0) },
    make({ max_value: k, epsilon_geo: ratio_, padding }) {
      const made = padded(k, padding, ratio_, 1, (integers) => discreteLaplace(ratio_, integers));
      const rate = +ratio_;
      const lawOf = (value) => floats(made.messages + 1, (ones) => {
        const mass = exp(-rate * abs(ones - value - padding)) / (1 + exp(-rate));
        return ones > 0 && ones < made.messages ? mass * -expm1(-rate) : mass;
      });
      const witness = (honest, distance) =>
        made.messages >= MOST_POINTS ? null : reportSum(honest, lawOf(0), lawOf(distance));
      return { ...made, witness };
    },
  },
  "sgdl-shuffle": {
    fields: { max_value: whole(1), noise_epsilon: ratio(), shares: whole(1), padding: whole(0) },
    make: ({ max_value: k, noise_epsilon: rate, shares, padding }) =>
      ({ ...padded(k, padding, rate, shares, (integers) => sharedNoise(rate, shares, integers)), steps: 2 / rate }),
  },
  "split-mix": {
    fields: {
      max_value: whole(1), noise_epsilon: ratio(), shares: whole(1), modulus: whole(1, 2 ** 31), pieces: whole(2, 100_000),
    },
    make({ max_value: k, noise_epsilon: ratio_, shares, modulus: q, pieces }) {
      if (q < k + 1) malformed("the modulus is below the largest value");
      const rate = +ratio_;
      const reduce = (number) => ((number % q) + q) % q;
      return {
        domain: k + 1, alphabet: q, messages: pieces, steps: 2 / rate, needsAll: true,
        sample(value, integers) {
          const noisy = (BigInt(value) + sharedNoise(ratio_, shares, integers)) % BigInt(q);
          return reduce(Number(noisy));
        },
        say(answer, integers) {
          const drawn = Array.from({ length: pieces - 1 }, () => integers.index(q));
          return [...drawn, reduce(answer - drawn.reduce((total, piece) => (total + piece) % q, 0))];
        },
        local: (distance) => noisyReport(rate, shares, distance),
        witness: (honest, distance) => shiftedNoise(honest / shares, rate, distance, 0, q),
        count: (symbols) => [symbols.length, symbols.reduce((total, piece) => (total + piece) % q, 0)],
        total: (counts) => counts[0],
        estimate([, residue], reports) {
          const n = reports.floor();
          if (n * k + 1 + 2 * chernoff(n / shares, rate, 2 ** -40) > q) fail("UsageError", "the modulus is too small");
          const below = floor((q - 1 - n * k) / 2);
          return sumWithNoise(Ratio.of(reduce(residue + below) - below), reports, k, reports / shares, rate);
        },
      };
    },
  },
});

/** A mechanism with its functions, from its form in documents. */
export function mechanismOf(value) {
  if (value === null || typeof value !== "object" || typeof value.mechanism !== "string") refuse("a mechanism");
  const { mechanism: kind, ...parameters } = value;
  if (kind === "bloom-rappor") unsupported("a page cannot decode Bloom filters");
  if (!hasOwn(MECHANISMS, kind)) malformed("an unknown mechanism");
  const { fields, optional = {}, make } = MECHANISMS[kind];
  const checked = struct(fields, optional)(parameters);
  const made = make(checked);
  const text = stringify({ kind, ...checked }, (_, v) => (v instanceof Ratio ? `${v}` : v));
  const count = tally(made.alphabet);
  const total = (counts) => sumBy(counts);
  return Object.freeze({ count, total, remembered: null, dummies: 0, crowd: true, ...made, kind, text, sums: "max_value" in checked });
}

// Suites: RFC 9180 base mode with WebCrypto; the hybrid KEM is X-Wing

const SUITES = {
  hpke: { overhead: 48, publicKey: 32, kem: 0x0020 },
  "hpke-mlkem768-x25519": { overhead: 1136, publicKey: 1216, kem: 0x647a },
};
const KDF = 1;
const AEAD = 3;
const XWING_LABEL = Uint8Array.of(0x5c, 0x2e, 0x2f, 0x2f, 0x5e, 0x5c);

function suiteNamed(name) {
  if (name === "sealed-box") {
    unsupported("browsers have no sealed boxes: use the suite hpke-mlkem768-x25519 or hpke");
  }
  return hasOwn(SUITES, name) ? SUITES[name] : fail("ConfigError", `unknown suite ${name.slice(0, 40)}`);
}

/** Runs a WebCrypto call whose algorithm a browser may lack. */
async function native(what, call) {
  try {
    return await call();
  } catch (error) {
    if (error.name !== "NotSupportedError" && !(error instanceof TypeError)) throw error;
    return unsupported(missingFrom(what));
  }
}

async function hmac(key, data) {
  const imported = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return bytesOf(subtle.sign("HMAC", imported, data));
}

const VERSION = utf8("HPKE-v1");
const ZEROS = new Uint8Array(32);
const extract = (id, salt, label, ikm) => hmac(salt, concat(VERSION, id, utf8(label), ikm));
const expand = async (id, key, label, info, size) =>
  (await hmac(key, concat(bigEndian(size, 2), VERSION, id, utf8(label), info, Uint8Array.of(1)))).subarray(0, size);

const ROTATIONS = [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44];
const PLACES = [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1];

/** SHA3-256 (FIPS 202) of less than one block, in halves of words: WebCrypto has none everywhere. */
export function sha3(data) {
  if (data.length > 135) throw new RangeError("at most one block");
  const block = new Uint8Array(200);
  block.set(data);
  block[data.length] ^= 6;
  block[135] ^= 128;
  const state = new Uint32Array(block.buffer); // little-endian machines: all that run browsers
  const rotate = (low, high, by) => {
    const [a, b] = by < 32 ? [low, high] : [high, low];
    const by32 = by % 32;
    return by32 === 0 ? [a, b] : [(a << by32) | (b >>> (32 - by32)), (b << by32) | (a >>> (32 - by32))];
  };
  let register = 1;
  for (let round = 0; round < 24; round += 1) {
    const parity = Array.from({ length: 10 }, (_, x) =>
      state[x] ^ state[x + 10] ^ state[x + 20] ^ state[x + 30] ^ state[x + 40]);
    for (let x = 0; x < 5; x += 1) {
      const [before, after] = [2 * ((x + 4) % 5), 2 * ((x + 1) % 5)];
      const [low, high] = rotate(parity[after], parity[after + 1], 1);
      for (let y = 0; y < 50; y += 10) {
        state[2 * x + y] ^= parity[before] ^ low;
        state[2 * x + y + 1] ^= parity[before + 1] ^ high;
      }
    }
    let moved = [state[2], state[3]];
    for (let step = 0; step < 24; step += 1) {
      const place = 2 * PLACES[step];
      const next = [state[place], state[place + 1]];
      [state[place], state[place + 1]] = rotate(moved[0], moved[1], ROTATIONS[step]);
      moved = next;
    }
    for (let y = 0; y < 50; y += 10) {
      const row = state.slice(y, y + 10);
      for (let x = 0; x < 10; x += 1) state[y + x] ^= ~row[(x + 2) % 10] & row[(x + 4) % 10];
    }
    for (let bit = 0; bit < 7; bit += 1) {
      if (register & 1) state[2 ** bit > 32 ? 1 : 0] ^= 2 ** bit > 32 ? 2 ** 31 : 2 ** (2 ** bit - 1);
      register = (register << 1) ^ ((register >> 7) * 0x171);
    }
  }
  return new Uint8Array(state.buffer.slice(0, 32));
}

/** A fresh X25519 key and, in the hybrid suite, what ML-KEM gave; tests give their own. */
async function encapsulate(suite, publicKey) {
  const pair = await native("X25519", () => subtle.generateKey("X25519", false, ["deriveBits"]));
  const shown = await bytesOf(subtle.exportKey("raw", pair.publicKey));
  if (suite.kem !== 0x647a) return { key: pair.privateKey, shown };
  const lattice = publicKey.subarray(0, -32);
  const { ciphertext, sharedKey } = await native("ML-KEM-768", async () => {
    const imported = await subtle.importKey("raw-public", lattice, "ML-KEM-768", false, ["encapsulateBits"]);
    return subtle.encapsulateBits("ML-KEM-768", imported);
  });
  return { key: pair.privateKey, shown, ciphertext: new Uint8Array(ciphertext), secret: new Uint8Array(sharedKey) };
}

/** A function that seals plaintexts to one round key under the binding of round and position. */
export async function sealerFor(suiteName, publicKey, roundId, position, source = encapsulate) {
  const suite = suiteNamed(suiteName);
  const id = concat(utf8("HPKE"), bigEndian(suite.kem, 2), bigEndian(KDF, 2), bigEndian(AEAD, 2));
  const info = utf8(`${PROTOCOL}/onion/${roundId}/${position}`);
  const none = new Uint8Array();
  const context = concat(
    Uint8Array.of(0),
    await extract(id, ZEROS, "psk_id_hash", none),
    await extract(id, ZEROS, "info_hash", info),
  );
  const recipient = publicKey.slice(-32);
  const imported = await native("X25519", () => subtle.importKey("raw", recipient, "X25519", false, []));
  return async (plaintext) => {
    const { key, shown, ciphertext, secret } = await source(suite, publicKey);
    const agreed = await bytesOf(subtle.deriveBits({ name: "X25519", public: imported }, key, 256));
    let shared;
    if (ciphertext === undefined) {
      const kem = concat(utf8("KEM"), bigEndian(suite.kem, 2));
      const extracted = await extract(kem, ZEROS, "eae_prk", agreed);
      shared = await expand(kem, extracted, "shared_secret", concat(shown, recipient), 32);
    } else {
      shared = sha3(concat(secret, agreed, shown, recipient, XWING_LABEL));
    }
    const schedule = await extract(id, shared, "secret", none);
    const sealing = await expand(id, schedule, "key", context, 32);
    const nonce = await expand(id, schedule, "base_nonce", context, 12);
    const box = await native("ChaCha20-Poly1305", async () => {
      const cipher = await subtle.importKey("raw-secret", sealing, "ChaCha20-Poly1305", false, ["encrypt"]);
      return subtle.encrypt({ name: "ChaCha20-Poly1305", iv: nonce }, cipher, plaintext);
    });
    return concat(ciphertext ?? none, shown, new Uint8Array(box));
  };
}

const MOST_STEPS = 2 ** 22; // of one answer on average: docs/protocol.md, "Work"
const MOST_TRIES = 2 ** 26; // of the dummies of a node

/** The geometry of a round, and all its lengths (docs/protocol.md, "Onions"). */
export function geometryFor(mechanism, suiteName, hops, mix = null) {
  if (mechanism.steps > MOST_STEPS || mechanism.tries > MOST_TRIES) malformed("too many steps to draw its noise: it needs a larger ε or larger units");
  const suite = suiteNamed(suiteName);
  const width = max(1, ceil((mechanism.alphabet - 1).toString(2).length / 8));
  const geometry = {
    suite: suiteName, hops, messages_per_user: mechanism.messages, symbol_bytes: width, mix,
    dummies_per_node: mechanism.dummies,
  };
  checkGeometry(geometry);
  const plain = widthOf(geometry);
  const record = (position) => plain + (mix ? (hops + 2 - position) * 16 : (hops + 1 - position) * suite.overhead);
  const claim = mix ? 296 + 32 * mechanism.messages : 0; // and the seed of its salts
  return { geometry, plain, record, envelope: claim + mechanism.messages * record(2) + suite.overhead };
}

/** Seals messages in layers for the last hop to the second, and all of them in one envelope. */
export async function sealEnvelope(geometry, roundId, publicKeys, messages, source) {
  let records = messages;
  for (let hop = geometry.hops; hop > 1; hop -= 1) {
    const seal = await sealerFor(geometry.suite, publicKeys[hop - 1], roundId, hop, source);
    records = await Promise.all(records.map(seal));
  }
  return (await sealerFor(geometry.suite, publicKeys[0], roundId, 1, source))(concat(...records));
}

// Checks of a round before the value is touched (docs/protocol.md, "Submit", the client's 1 to 8)

/** Checks that a document has these fields. */
function same(document, expected) {
  for (const [name, value] of fieldsOf(expected)) {
    if (document[name] !== value) foreign(`a document has the ${name} ${String(document[name]).slice(0, 80)}, not ${value}`);
  }
}
const isRoundId = (text) => /^[0-9a-f]{32}$/.test(text);
const badKey = (message) => fail("RoundKeyError", `${message}; do not take part`);

async function checkRoundKey(manifest, party, frame, position, certified) {
  const key = await verifyFrom(party, frame, "round-key");
  const { deployment, round_id } = manifest;
  same(key, { deployment, round_id });
  if (key.node !== party.name || key.position !== position || key.suite !== manifest.geometry.suite) {
    badKey(`the round key of ${party.name} is for another position`);
  }
  if (key.certificate_digest !== certified) badKey(`${party.name} made its round key for another certificate`);
  const bytes = fromHex(key.public_key) ?? badKey(`the round key of ${party.name} is not lower-case hex`);
  try {
    if (bytes.length !== suiteNamed(key.suite).publicKey) badKey(`the round key of ${party.name} has ${bytes.length} bytes`);
    await (await sealerFor(key.suite, bytes, key.round_id, position))(new Uint8Array());
  } catch (error) {
    if (["RoundKeyError", "UnsupportedError"].includes(error.code)) throw error;
    badKey(`nothing can be sealed to the round key of ${party.name}`);
  }
  return { ...key, bytes };
}

async function checkCountersignatures(announcement, manifest, route) {
  const missing = new Map(route.map((party) => [party.name, party]));
  const expected = await documentDigest(announcement.manifest);
  for (const frame of announcement.countersignatures) {
    const party = missing.get(frame.signer) ?? foreign("a party countersigned twice or is not on the route");
    missing.delete(frame.signer);
    const signed = await verifyFrom(party, frame, "countersignature");
    same(signed, { round_id: manifest.round_id, node: party.name, manifest_digest: expected });
  }
  if (missing.size) fail("SignatureError", `not countersigned by ${[...missing.keys()]}; do not take part`);
}

async function checkCertificate(manifest, roster, population) {
  const certificate = await verifyOf(roster, "accountant", manifest.certificate, "certificate");
  const { deployment, round_id } = manifest;
  same(certificate, { deployment, round_id, population, stage: "plan" });
  if (!certificate.holds) malformed("by the certificate its guarantee does not hold; do not take part");
  if (manifest.min_reports < certificate.users) malformed("the round is certified for more reports than it needs");
  return certificate;
}

const SLACK = 2e-6;

/** Refuses numbers that the certificate's own mechanism refutes (step 7). */
function checkClaims(certificate) {
  const { mechanism, honest, users, max_distance: most, epsilon, corrupted, delta } = certificate;
  if (!(honest >= 1 && honest <= users)) malformed("an impossible number of honest users");
  if (!(most >= 1 && most <= mechanism.domain - 1)) malformed("the certificate covers impossible changes");
  const lie = (what) =>
    fail("FalseCertificateError", `the certificate claims ${what} with ${mechanism.kind}: do not take part`);
  const metric = certificate.adjacency === "metric";
  if (corrupted.epsilon !== null && !(corrupted.delta > 0)) {
    const computed = mechanism.local(metric ? 1 : most);
    if (Number.isFinite(computed) && !(corrupted.epsilon >= computed * (1 - SLACK))) lie(`ε_L ${corrupted.epsilon}`);
  }
  if (epsilon.certified === null) return;
  const tried = metric ? [1, max(1, floor(most / 4)), max(1, floor(most / 2)), most] : [most];
  for (const distance of new Set(tried)) {
    const attained = mechanism.witness(honest, distance)?.(epsilon.certified * (1 + SLACK) * (metric ? distance : 1)) ?? 0;
    if (attained > delta * (1 + SLACK)) lie(`ε ${epsilon.certified} at δ ${delta}`);
  }
}

const POLICY = {
  distance: null, nodes: 2, operators: 2, suites: null, mixes: null, messages: 100_000, allow_corrupt: false,
  min_colluding: 0, min_colluding_share: 0, require_crowd_free: false, require_log: true, questions: null,
  refuse_questions: [], fields: null, refuse_fields: [],
};

/** A user's own limits; ε, δ and ε_L have no default. */
export function policyOf(limits) {
  const policy = { ...POLICY, ...limits };
  policy.epsilon_corrupted = policy.epsilon_corrupted === "inf" ? Infinity : policy.epsilon_corrupted;
  const unknown = Object.keys(limits).filter((name) => !(name in POLICY) && !/^(epsilon(_corrupted)?|delta)$/.test(name));
  const valid =
    unknown.length === 0 && policy.epsilon > 0 && policy.epsilon < Infinity && policy.delta >= 0 && policy.delta < 1 &&
    policy.epsilon_corrupted >= 0 && (policy.distance === null || policy.distance >= 1) && policy.min_colluding >= 0 &&
    policy.min_colluding_share >= 0 && policy.min_colluding_share < 1;
  return valid ? Object.freeze(policy) : fail("ConfigError", "the policy has an unknown or impossible limit");
}

function checkPolicy(policy, certificate, geometry, route, corrupt) {
  const no = (what) => fail("ClientPolicyRefusal", `your policy does not allow this round: ${what}`);
  const atMost = (what, value, limit) => {
    if (!(value >= 0 && value <= limit)) no(`${what} is ${value}, at most ${limit} is allowed`);
  };
  const { mechanism } = certificate;
  const distance = min(policy.distance ?? Infinity, mechanism.domain - 1);
  if (distance > certificate.max_distance) no(`it protects changes of up to ${certificate.max_distance} only`);
  const total = (epsilon) =>
    epsilon === null ? Infinity : epsilon * (certificate.adjacency === "metric" ? distance : 1);
  atMost("ε", total(certificate.epsilon.certified), policy.epsilon);
  atMost("δ", certificate.delta, policy.delta);
  if (policy.epsilon_corrupted !== Infinity) {
    atMost("ε with every node corrupt", total(certificate.corrupted.epsilon), policy.epsilon_corrupted);
    atMost("δ with every node corrupt", certificate.corrupted.delta, policy.delta);
    atMost("ε with every node corrupt, computed here,", mechanism.local(distance), policy.epsilon_corrupted);
  }
  if (route.length < policy.nodes) no(`it has ${route.length} nodes`);
  // toLowerCase of upper case: as near to Python's casefold as browsers come.
  const operators = new Set(route.map(({ operator }) =>
    operator.normalize("NFKC").toUpperCase().toLowerCase().split(/\s+/u).filter(Boolean).join(" ")));
  if (operators.size < policy.operators) no(`its nodes have ${operators.size} different operators`);
  if (policy.suites && !policy.suites.includes(geometry.suite)) no(`it seals with ${geometry.suite}`);
  if (policy.mixes && !policy.mixes.includes(certificate.mix ?? "plain")) no(`its mixing is ${certificate.mix ?? "plain"}`);
  atMost("the number of messages", geometry.messages_per_user, policy.messages);
  if (corrupt.length && !policy.allow_corrupt) no(`${corrupt} declared itself corrupt`);
  if (policy.require_crowd_free && mechanism.crowd) no("its guarantee rests on other people's reports");
  const margin = certificate.users - certificate.honest;
  if (margin < policy.min_colluding || margin / max(1, certificate.users) < policy.min_colluding_share) {
    no(`it allows for ${margin} colluding users of ${certificate.users}`);
  }
  const { questions, refuse_questions: refused, fields, refuse_fields: refusedFields } = policy;
  if (questions === null && fields === null && !refused.length && !refusedFields.length) return;
  const { wording } = certificate;
  if (wording === null) no("it has no question in words");
  const asked = [...wording.axes, ...wording.where].map(({ field }) => field);
  if (refused.includes(wording.id) || (questions && !questions.includes(wording.id))) no(`its question is ${wording.id}`);
  if (asked.some((name) => refusedFields.includes(name) || (fields && !fields.includes(name)))) no(`it asks for ${asked}`);
}

// Hashes and trees of the public log and of tiles (RFC 6962)

const sha256 = async (...parts) => bytesOf(subtle.digest("SHA-256", concat(...parts)));
const leafHash = (...parts) => sha256(Uint8Array.of(0), ...parts);
const nodeHash = (left, right) => sha256(Uint8Array.of(1), left, right);
const equal = (left, right) => toHex(left) === toHex(right);

/** True if the hashes lead from a leaf to the root of a tree (RFC 6962). */
async function isIncluded(leaf, index, { size, root }, hashes) {
  let [node, last, computed] = [index, size - 1n, leaf];
  for (const sibling of hashes) {
    if (last === 0n) return false;
    const right = node % 2n === 1n || node === last;
    computed = right ? await nodeHash(sibling, computed) : await nodeHash(computed, sibling);
    while (right && node && node % 2n === 0n) [node, last] = [node >> 1n, last >> 1n];
    [node, last] = [node >> 1n, last >> 1n];
  }
  return index < size && last === 0n && equal(computed, root);
}

// Parts of this module that few rounds need: loaded from beside it, with the digests that `make module` writes

const PARTS = {
  "shuffledp-log.min.js": "sha384-Q2j10JD9ytn8DQpu35icHvJYgAfoQa6dCQihsNqlk3tW/rK1mH5B0HOSMBmkfDBo",
  "shuffledp-mechanisms.min.js": "sha384-6hqYc0CnOHSid5SsmQ061PKIHEv5UvndTHblQfM3aDd1+SvTMbQPDDnuB627dgWe",
  "shuffledp-verified.min.js": "sha384-WbuIWmpWXwUXx8jGZ/lOCMc6e0W1tLp/rFqiTYPLpgQ5hF8I1J0K/HyCLplynjvk",
};
const started = {};

/** What a part offers, after its file was loaded under its digest. */
function part(name) {
  started[name] ??= load(`shuffledp-${name}.min.js`).catch((error) => {
    delete started[name];
    throw error;
  });
  return started[name];
}

async function load(file) {
  const { document: page } = globalThis;
  if (!page) unsupported(`a worker cannot load ${file}`);
  // A page may import by address only. What is preloaded under a digest is what the import then gives: a document
  // has one module for an address.
  const href = new URL(file, import.meta.url).href;
  const link = assign(page.createElement("link"), { rel: "modulepreload", href, integrity: PARTS[file], crossOrigin: "anonymous" });
  if (!link.relList.supports(link.rel)) unsupported(missingFrom("preloading of modules"));
  await new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => reject(new ShuffleError("ConfigError", `${file} is not beside the module, or of another version`));
    page.head.append(link);
  });
  return (await import(href)).start({
    MECHANISMS, Ratio, amongDummies, bigEndian, bigInt, bitCounts, checkSignature, chernoff, concat, convolve, decimal, decimalOf,
    discreteLaplace, documentDigest, equal, fail, fromHex, histogram, index, isIncluded, kRandomised, leafHash, list, lnGamma,
    malformed, nearMean, nodeHash, noiseTable, noisyReport, onlyParty, ratio, refuse, rowsOf, sha256, spellDecimal, str, struct,
    sum, systemRandom, textOfDocument, toHex, transform, unary, unsupported, upTo, utf8, verifyOf, whole,
  });
}

const LATER = ["local-laplace", "node-columns", "node-histogram", "node-sum", "node-tree", "hashes", "magnitudes"];

/** Loads the part that a certificate's mechanism and words need, if they need one; nothing is checked. */
export async function prepare(certificate) {
  const kind = certificate?.mechanism?.mechanism;
  const kinds = [kind, ...[certificate?.wording?.axes].flat().map((axis) => axis?.symbols?.kind)];
  const blanketed = kind === "dummy-histogram" && "blanket" in certificate.mechanism;
  if (!blanketed && !kinds.some((each) => LATER.includes(each))) return;
  const { mechanisms, meanings, names } = await part("mechanisms");
  assign(MECHANISMS, mechanisms);
  assign(MEANINGS, meanings);
  assign(NAMES, names);
}

/** What a kept proof shows of the present public log; null if that is another one, which has ended. */
export const readRemembered = async (text, roster) =>
  text === null || roster.log === null ? null : (await part("log")).readRemembered(text, roster);

const checkLog = async (...all) => (await part("log")).checkLog(...all);
const checkResultLogged = async (...all) => (await part("log")).checkResultLogged(...all);

/** Checks that a result, and by it the public log, names the manifest that was shown here. */
async function checkManifest({ manifest_digest: named }, manifest, { log }) {
  if (named === null) return log && malformed("the result does not name its manifest");
  if ((await documentDigest(manifest)) !== named) evidence("the result is of another manifest than the one shown here");
}

const announcementOf = struct(
  { manifest: signedFrame, countersignatures: list(signedFrame) },
  { log: [null, str] },
);

/** Checks a round in every way that a device can; gives what taking part in it needs. */
export async function verifyRound(text, roster, policy, population, now, roundId = null, remembered = null) {
  requireCurrent(roster, now); // 1
  if (utf8(text).length > MAX_DOCUMENT_BYTES) malformed("an announcement is too long");
  const announcement = announcementOf(parseJson(text));
  const manifest = await verifyOf(roster, "analyst", announcement.manifest, "manifest");
  same(manifest, { deployment: roster.deployment });
  if (!isRoundId(manifest.round_id)) malformed("not a round id");
  if (roundId !== null) same(manifest, { round_id: roundId });
  const certificate = await checkCertificate(manifest, roster, population); // 2
  const certificateDigest = await documentDigest(manifest.certificate);
  const route = manifest.route.map((frame) => partyOf(roster, frame.signer)); // 3
  if (route.some((party) => party.role !== "node")) badKey("a party on the route is not a node");
  const names = route.map((party) => party.name);
  if (lookAlike(names)) badKey("a node stands on the route twice");
  if (stringify(names) !== stringify(certificate.route)) badKey("the route is not the certified one");
  const keys = [];
  for (const [at, party] of route.entries()) {
    keys.push(await checkRoundKey(manifest, party, manifest.route[at], at + 1, certificateDigest));
  }
  await checkCountersignatures(announcement, manifest, route); // 4
  const lengths = geometryFor(certificate.mechanism, manifest.geometry.suite, route.length, certificate.mix); // 5
  if (fieldsOf(lengths.geometry).some(([name, value]) => manifest.geometry[name] !== value)) {
    malformed("the lengths are not those of the certified mechanism");
  }
  const { mix } = certificate;
  if (keys.some(({ mixing }) => !mixing !== !mix)) badKey("a round key is for another mixing"); // 3
  const mixing = mix && (await (await part("verified")).checkKeys(
    await documentDigest(announcement.manifest), certificateDigest, keys, enrolmentKeyOf(roster, population)));
  if (now >= certificate.expires_at) fail("ExpiredDocumentError", "the certificate has expired"); // 2
  if (!(manifest.opens_at <= now && now < manifest.closes_at)) fail("SubmissionClosedError", "the round is not open now"); // 6
  checkClaims(certificate); // 7
  checkPolicy(policy, certificate, manifest.geometry, route, keys.filter((key) => key.corrupt).map((key) => key.node)); // 8
  const required = roster.log !== null && policy.require_log;
  const log = required ? await checkLog(announcement, roster, manifest, population, remembered) : null; // 9
  return Object.freeze({
    roundId: manifest.round_id, deployment: manifest.deployment, population, text, manifest, certificate,
    certificateDigest, mechanism: certificate.mechanism, geometry: lengths.geometry, lengths, entry: route[0], route,
    publicKeys: keys.map((key) => key.bytes), closesAt: manifest.closes_at, log, mixing,
  });
}

/** The value, if the round's mechanism asks for such a one; the message does not name it. */
export function checkValue(mechanism, value) {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < mechanism.domain) return value;
  return fail("UsageError", `the value must be a whole number from 0 to ${mechanism.domain - 1}`);
}

// Claims and receipts

/** The signed claim that this envelope is its owner's submission; `sign` has the credential's key. */
export async function makeClaim(sign, credentialName, roundId, envelope) {
  const content = { version: 1, round_id: roundId, credential: credentialName, envelope_digest: await digest(envelope) };
  const body = stringify(content);
  return { label: "submission", signer: credentialName, body, signature: toHex(await sign(signedBytes("submission", body))) };
}

export async function checkReceipt(frame, entry, roundId, credentialName, envelopeDigest) {
  const receipt = await verifyFrom(entry, frame, "receipt");
  same(receipt, { round_id: roundId, credential: credentialName, submission_digest: envelopeDigest });
}

// Results and boards (docs/protocol.md, "Close" and "Board")

const FAILURES = [
  "RoundFailed", "UnansweredError", "TooFewReportsError", "CountMismatchError", "LostMessagesError",
];

const KEEP_RECEIPT = "keep the receipt: it is evidence";
const evidence = (what) => fail("FalseResultError", `${what}; keep the result: it is evidence`);

async function checkHeaders(result, plan, route) {
  if (result.headers.length !== route.length) malformed("the result lacks a node's batch header");
  const signers = result.headers.map((frame) => frame.signer);
  const absent = route.filter((party) => !signers.includes(party.name));
  if (absent.length) evidence(`no header of ${absent[0].name}`);
  // In a verified round nodes leave out users whose messages do not open, and drop nothing else.
  const verified = plan.mix !== null;
  let [dropped, users] = [0, verified ? Infinity : result.accepted];
  for (const [at, party] of route.entries()) {
    if (signers[at] !== party.name) foreign("batch headers in another order than the route");
  }
  let last = null;
  for (const [at, party] of route.entries()) {
    const header = await verifyFrom(party, result.headers[at], "batch");
    if (utf8(stringify(result.headers[at])).length > 4096) malformed("a batch header is too long");
    if (!/^[0-9a-f]{64}$/.test(header.digest)) malformed("a batch header holds no SHA-256");
    same(header, { round_id: result.round_id, position: at + 2 });
    const sent = header.users * plan.mechanism.messages + (verified ? route.length : at + 1) * plan.mechanism.dummies;
    if (header.records !== sent - header.dropped) evidence(`${party.name} relayed another number of records`);
    if (!(result.accepted <= header.users && header.users <= users)) evidence(`${party.name} relayed another number of reports`);
    if (verified && header.dropped) evidence(`${party.name} dropped messages of a verified round`);
    if (header.dropped < dropped) evidence(`${party.name} signed for fewer dropped onions than its predecessor`);
    ({ dropped, users } = header);
    last = header;
  }
  if (dropped !== result.dropped) evidence("the nodes signed for another number of dropped messages");
  if (!verified && last.digest !== result.board_digest) evidence("analyst and last node signed for different boards");
}

/** Verifies the signed result of a submission's round. */
export async function checkResult(stored, roster, frame) {
  const result = await verifyOf(roster, "analyst", frame, "result");
  const { deployment, roundId: round_id } = stored;
  same(result, { deployment, round_id });
  if (result.error !== null || result.board_digest === null) {
    const code = FAILURES.includes(result.error) ? result.error : "RoundFailed";
    fail(code, `the round ended without a result: ${(result.reason ?? result.outcome).slice(0, 2000)}`);
  }
  if (result.plan_certificate === null || result.final_certificate === null) malformed("the result lacks a certificate");
  if ((await documentDigest(result.plan_certificate)) !== stored.certificateDigest) {
    foreign("the result is of another certificate than your submission");
  }
  const plan = await verifyOf(roster, "accountant", result.plan_certificate, "certificate");
  const final = await verifyOf(roster, "accountant", result.final_certificate, "certificate");
  same(final, {
    deployment, round_id, stage: "final", users: result.accepted, dropped: result.dropped,
    invalid: result.outside_alphabet + result.repeated_tags,
  });
  if (final.mechanism.text !== plan.mechanism.text || stringify(final.wording) !== stringify(plan.wording)) {
    foreign("the final certificate is for another question than the plan");
  }
  const sent = result.accepted * stored.geometry.messages_per_user + plan.route.length * plan.mechanism.dummies;
  if (result.messages !== sent - result.dropped) {
    malformed(`the result counts another number of messages; ${KEEP_RECEIPT}`);
  }
  await checkHeaders(result, plan, plan.route.map((name) => partyOf(roster, name)));
  return { result, final };
}

function checkEstimate(published, computed) {
  const lie = (what) => evidence(`the published ${what} is not what the board gives`);
  if (published.quantity !== computed.quantity) lie("quantity");
  for (const name of ["values", "standard_errors", "mean", "mean_standard_error", "lows", "highs"]) {
    const numbers = (value) => (value === null ? [] : [value].flat());
    const [stated, expected] = [numbers(published[name]), numbers(computed[name])];
    const slack = name === "lows" || name === "highs" ? 1 : 0;
    const close = (value, at) => abs(value - expected[at]) <= slack + 1e-9 * max(1, abs(expected[at]));
    if (stated.length !== expected.length || !stated.every(close)) lie(name);
  }
}

const badBoard = (what) => fail("BadBatchError", `the board ${what}`);
// A message is symbol || tag, or in verified rounds, which are recognised by its length, key || symbol || proof.
const isVerified = (row) => row.length > 96;
const widthOf = ({ symbol_bytes: symbolBytes, mix }) => symbolBytes + (mix ? 96 : TAG_BYTES);
const symbolOf = (row) =>
  row.subarray(isVerified(row) ? 32 : 0, isVerified(row) ? -64 : -TAG_BYTES).reduce((symbol, byte) => symbol * 256 + byte, 0);
const tagBytes = (row) => (isVerified(row) ? row.subarray(0, 32) : row.subarray(-TAG_BYTES));
const tagOf = (row) => String.fromCharCode(...tagBytes(row));
const orderOf = (row) => tagOf(row) + String.fromCharCode(...row);

/** The symbols of all tags; null for a tag that occurs twice. Checks that the messages are there. */
function findMessages(rows, messages) {
  const byTag = new Map();
  for (const row of rows) byTag.set(tagOf(row), byTag.has(tagOf(row)) ? null : symbolOf(row));
  const changed = messages.filter((message) => byTag.get(tagOf(message)) !== symbolOf(message)).length;
  if (changed) {
    fail("ReceiptMissingError", `${changed} of ${messages.length} messages are not on the board unchanged; ${KEEP_RECEIPT}`);
  }
  return byTag;
}

// Tiles of a board (docs/tiles.md)

const MOST_TILES = 2 ** 24;
const MOST_TILE_BYTES = 50_000;

/** Number of tiles of a board, a power of two. */
function tilesOf(messages, width) {
  let tiles = 1;
  while (tiles < MOST_TILES && messages * width > 40_000 * tiles) tiles *= 2;
  return tiles;
}

const tileOf = (row, tiles) => floor((Number(bigInt(tagBytes(row).subarray(0, 4))) * tiles) / 2 ** 32);

/** The root of a tree over all tiles of a board. */
async function tilesRoot(rows, tiles) {
  const ordered = rows.map((row) => [orderOf(row), row]).sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  const packed = upTo(tiles, () => []);
  for (const row of ordered) packed[tileOf(row, tiles)].push(row);
  let level = await Promise.all(packed.map((tile) => leafHash(...tile)));
  for (; level.length > 1; ) level = await Promise.all(upTo(level.length / 2, (at) => nodeHash(level[2 * at], level[2 * at + 1])));
  return toHex(level[0]);
}

/** The number of these messages that belong into a tile; checks tile and messages. */
export async function checkTile({ messages: size, tiles_root: root }, geometry, index, tile, messages) {
  const width = widthOf(geometry);
  const tiles = tilesOf(size, width);
  const bits = Math.log2(tiles);
  const packed = tile.subarray(32 * bits);
  if (root === null) malformed("the result has no tiles");
  if (tile.length > MOST_TILE_BYTES || tile.length < 32 * bits || packed.length % width) badBoard("has no tile of this length");
  const tree = { size: BigInt(tiles), root: fromHex(root) };
  const hashes = rowsOf(tile.subarray(0, 32 * bits), 32);
  if (!(await isIncluded(await leafHash(packed), BigInt(index), tree, hashes))) badBoard("has another tile");
  const rows = rowsOf(packed, width);
  const order = rows.map(orderOf);
  if (order.some((text, at) => text < order[at - 1]) || rows.some((row) => tileOf(row, tiles) !== index)) badBoard("has its tiles in disorder");
  const mine = messages.filter((row) => tileOf(row, tiles) === index);
  findMessages(rows, mine);
  return mine.length;
}

/** Checks that the messages are on the board once and unchanged, and that it gives answer and tiles. */
export async function checkBoard({ result, final }, geometry, board, messages) {
  const width = widthOf(geometry);
  if (board.length !== result.messages * width) badBoard("has another length than was announced");
  if ((await digest(board)) !== result.board_digest) badBoard("is not the one that the analyst signed");
  const rows = rowsOf(board, width);
  const byTag = findMessages(rows, messages);
  const { mechanism } = final;
  if (result.estimate === null) evidence("the result gives no answer");
  const inside = rows.filter((row) => symbolOf(row) < mechanism.alphabet);
  const counting = inside.filter((row) => byTag.get(tagOf(row)) !== null).map(symbolOf);
  if (rows.length - inside.length !== result.outside_alphabet || inside.length - counting.length !== result.repeated_tags) {
    evidence("the result leaves out other messages than the board has");
  }
  const lost = result.dropped + result.outside_alphabet + result.repeated_tags;
  if (lost && mechanism.needsAll) fail("LostMessagesError", `${mechanism.kind} needs every message, and some are lost`);
  const remaining = result.accepted * mechanism.messages - lost;
  const counts = mechanism.count(counting);
  if (result.accepted < 1 || remaining < 1 || mechanism.total(counts) !== remaining + final.route.length * mechanism.dummies) {
    fail("CountMismatchError", "the board has another number of messages than were accepted");
  }
  checkEstimate(result.estimate, mechanism.estimate(counts, new Ratio(remaining, mechanism.messages), final.route.length, lost));
  const { tiles_root: root } = result;
  if (root !== null && (await tilesRoot(rows, tilesOf(rows.length, width))) !== root) evidence("the tiles are not those of the board");
}

// Calls to a gateway: bounded, repeated while it is away; what it says is believed nowhere

const REFUSALS = [
  "AccessDenied", "BadClaimError", "BusyError", "DifferentSubmissionError", "InvalidSubmissionError",
  "MalformedDocumentError", "MalformedRequestError", "NodeFault", "RoundStateError", "SubmissionClosedError",
  "UnknownCredentialError", "UnknownRoundError", "UnreachableError", "WithdrawnCredentialError",
];
const ATTEMPTS = 8;
const CALL_MILLISECONDS = 60_000;
const BOARD_MILLISECONDS = 1_800_000;

async function boundedBody(response, most) {
  const pieces = [];
  let size = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return concat(...pieces);
    size += value.length;
    if (size > most) {
      await reader.cancel();
      fail("NodeFault", `the gateway sends more than ${most} bytes`);
    }
    pieces.push(value);
  }
}

async function callOnce(url, kind, most, milliseconds, body) {
  let response;
  let bytes;
  try {
    response = await fetch(url, {
      method: body === undefined ? "GET" : "POST", body, mode: "cors", credentials: "omit", cache: "no-store",
      redirect: "error", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(milliseconds),
      headers: body === undefined ? {} : { "content-type": "application/json" },
    });
    bytes = await boundedBody(response, response.ok ? most : 2 ** 14);
  } catch (error) {
    if (error instanceof ShuffleError) throw error;
    fail("UnreachableError", "the gateway cannot be reached");
  }
  const type = (response.headers.get("content-type") ?? "").split(";")[0].trim();
  if (response.ok) return type === kind ? bytes : fail("NodeFault", "not a gateway: the answer has another type");
  let problem = {};
  try {
    problem = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // Not a gateway's answer; the status decides.
  }
  const busy = response.status === 429 || response.status === 503 ? "BusyError" : "UnreachableError";
  const code = REFUSALS.includes(problem?.code) ? problem.code : response.status === 429 || response.status >= 500 ? busy : "NodeFault";
  const error = new ShuffleError(code, String(problem?.detail ?? `status ${response.status}`).slice(0, 2000));
  const wait = response.headers.get("retry-after") ?? "";
  error.wait = /^[0-9]{1,5}$/.test(wait) ? min(60, Number(wait)) : 0;
  throw error;
}

/** An answer's bytes; only a gateway that is away or busy is asked again. */
async function call(url, kind, most, body, milliseconds = CALL_MILLISECONDS) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await callOnce(url, kind, most, milliseconds, body);
    } catch (error) {
      if (!["UnreachableError", "BusyError"].includes(error.code) || attempt + 1 === ATTEMPTS) throw error;
      const share = 0.5 + Number(new Integers().below(2 ** 16)) / 2 ** 17;
      const pause = min(250 * 2 ** attempt, 15_000) * share + 1000 * (error.wait ?? 0);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return malformed("an answer is not UTF-8");
  }
}

// Storage: what is sent is on disk before, and the first one written wins, in whichever tab

const STORES = ["settings", "rounds", "responses"];
const KEPT_BYTES = 64 * 2 ** 20;
const MOST_RESPONSES = 1000;
const EVIDENCE_MILLISECONDS = 30 * 86_400_000;
let opened = null;

const awaited = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new ShuffleError("ConfigError", "this browser lets the page keep nothing"));
  });

function database() {
  opened ??= (() => {
    const request = indexedDB.open("shuffledp", 1);
    request.onupgradeneeded = () => STORES.forEach((name) => request.result.createObjectStore(name));
    return awaited(request);
  })();
  return opened;
}

/** Replaces an entry in one transaction, on disk when it resolves; `change` gives undefined to leave it. */
async function update(store, key, change) {
  const transaction = (await database()).transaction(store, "readwrite", { durability: "strict" });
  const entries = transaction.objectStore(store);
  return new Promise((resolve, reject) => {
    let [outcome, thrown] = [undefined, null];
    transaction.oncomplete = () => resolve(outcome);
    transaction.onabort = () => reject(thrown ?? new ShuffleError("ConfigError", "the browser's storage is full or away"));
    const all = entries.getAll();
    const one = entries.get(key);
    one.onsuccess = () => {
      try {
        const next = change(one.result, all.result);
        outcome = next === undefined ? one.result : next;
        if (next !== undefined) entries.put(next, key);
      } catch (error) {
        thrown = error;
        transaction.abort();
      }
    };
  });
}

const settings = (key, change = () => undefined) => update("settings", key, change);

const sizeOf = ({ envelope, messages, announcement }) =>
  (envelope?.length ?? 0) + (announcement?.length ?? 0) + (messages ?? []).reduce((size, row) => size + row.length, 0);

// The device

const isOver = () => fail("RoundStateError", "this round is over for this browser");
const nothingSealed = () => fail("UnknownRoundError", "no sealed answer waits to be sent");
const JSON_TYPE = "application/json";
const BYTES = "application/octet-stream";

/** One user's device, in this browser profile, for one population of one deployment. */
export class Device {
  /**
   * Opens the device: fetches the roster and checks it under the root key that the page pins.
   *
   * `gateway`: its address, such as "https://answers.example.org". `rootKey`: 64 hex digits.
   * `policy`: the user's limits. `enrolment`: address of the desk that takes codes. `receipts`: what is
   * fetched after a round, the whole "board", or of all pages together a "sample" (docs/tiles.md).
   */
  static async open({ gateway, rootKey, population, policy, receipts = "board", enrolment = gateway, clock = Date.now }) {
    if (receipts !== "board" && receipts !== "sample") fail("ConfigError", "a page checks the whole board or a sample");
    const device = new Device();
    assign(device, { gateway, enrolment, rootKey, population, clock, receipts, policy: policyOf(policy) });
    const frame = parseFrame(textOf(await call(`${gateway}/v1/roster`, JSON_TYPE, MAX_DOCUMENT_BYTES)));
    device.roster = await verifyRoster(frame, rootKey);
    requireCurrent(device.roster, clock());
    device.enrolmentKey = enrolmentKeyOf(device.roster, population);
    const seen = { serial: device.roster.serial, digest: await documentDigest(frame) };
    await settings(`roster ${rootKey}`, (old) => {
      if (old?.serial === seen.serial && old.digest === seen.digest) return undefined;
      return old && seen.serial <= old.serial
        ? fail("StaleRosterError", "an older roster than one used here, or another of its number")
        : seen;
    });
    device.scope = `${rootKey} ${device.roster.deployment} ${population}`;
    await device.expire();
    return device;
  }

  /** The name of this device's credential; null before it is enrolled. */
  async credentialName() {
    const member = await this.member();
    return member?.credential ? member.name : null;
  }

  /** Exchanges a one-time code for a credential, whose private key cannot leave the browser. */
  async enrol(code) {
    const pair = await native("Ed25519", () => subtle.generateKey("Ed25519", false, ["sign", "verify"]));
    const name = toHex(await bytesOf(subtle.exportKey("raw", pair.publicKey)));
    const fresh = { name, privateKey: pair.privateKey, credential: null };
    // Kept before it is sent: a code whose answer was lost is exchanged again for the same key.
    const member = await settings(`member ${this.scope}`, (old) => (old ? undefined : fresh));
    if (member.credential) return member.name;
    const body = stringify({ code, population: this.population, public_key: member.name });
    const answer = await call(`${this.enrolment}/v1/enrolments`, JSON_TYPE, 2 ** 14, body);
    const credential = parseFrame(textOf(answer));
    const content = await verify(credential, "credential", this.population, this.enrolmentKey);
    same(content, { population: this.population, public_key: member.name });
    await settings(`member ${this.scope}`, (old) => ({ ...old, credential }));
    return member.name;
  }

  /** The newest open round, or one by its id, checked in every way; the value plays no part in it. */
  async question(roundId = null) {
    if (roundId !== null && !isRoundId(roundId)) fail("UnknownRoundError", "not a round id");
    const path = roundId === null ? "/v1/announcement" : `/v1/rounds/${roundId}/announcement`;
    const text = textOf(await call(this.gateway + path, JSON_TYPE, MAX_DOCUMENT_BYTES));
    return this.verified(text, roundId);
  }

  /** A verified round. */
  verified(text, roundId) {
    return this.withLog(text, (remembered) =>
      verifyRound(text, this.roster, this.policy, this.population, this.clock(), roundId, remembered));
  }

  /** What `check` gives; its public log agrees with what is kept of it, and is kept from now on. */
  async withLog(text, check) {
    const place = `log ${this.rootKey} ${this.roster.deployment}`;
    for (;;) {
      const kept = await settings(place);
      let checked;
      try {
        const remembered = this.policy.require_log ? await readRemembered(kept ?? null, this.roster) : null;
        checked = await check(remembered);
        if (checked.log === null || (remembered && remembered.size >= checked.log.size)) return checked;
      } catch (error) {
        // With what is kept it may convict the accountant of two histories.
        if (error.code === "LogProofError") await settings(`${place} conflict`, () => text ?? undefined);
        throw error;
      }
      // Another tab may have kept another one meanwhile.
      const { text: newest } = checked.log;
      if ((await settings(place, (old) => (old === kept ? newest : undefined))) === newest) return checked;
    }
  }

  /** What is kept of a round: undefined, or its state "sealed", "received", "over". */
  async stateOf(roundId) {
    const stored = await this.stored(roundId);
    return stored && (stored.over ? "over" : stored.receipt ? "received" : "sealed");
  }

  /** Answers a question, once: a submission that is kept is sent again, whatever the value is now. */
  async answer(question, value) {
    await this.seal(question, value);
    return this.send(question.roundId);
  }

  /** Randomises and seals an answer, or that of a promise, and keeps it, unless one is kept already; nothing is sent. */
  async seal(question, value) {
    const { roundId } = question;
    let stored = await this.stored(roundId);
    if (stored?.over) isOver();
    if (!stored) {
      // Checked again: a page may have been open since yesterday.
      const round = await this.verified(question.text, roundId);
      const prepared = await this.prepare(round, checkValue(round.mechanism, await value));
      stored = await update("rounds", this.keyOf(roundId), (old, all) => {
        if (old?.over) isOver();
        if (old) return undefined; // another tab was first
        const used = all.reduce((size, entry) => size + sizeOf(entry), 0);
        return used + sizeOf(prepared) > KEPT_BYTES
          ? fail("ClientPolicyRefusal", "too many unchecked rounds are kept here")
          : prepared;
      });
    }
    return stored;
  }

  /** Exactly what `send` sends, and the randomised symbols that are sealed in it. */
  async preview(roundId) {
    const stored = await this.stored(roundId);
    if (!stored || stored.over || stored.receipt) nothingSealed();
    return { body: Device.requestBody(stored), symbols: stored.messages.map(symbolOf) };
  }

  /** Rounds whose result this device has not checked yet, and to which its answer has arrived. */
  async waiting() {
    const entries = (await database()).transaction("rounds").objectStore("rounds");
    const all = await awaited(entries.getAll());
    return all.filter((stored) => stored.scope === this.scope && stored.receipt).map(({ roundId }) => roundId);
  }

  async prepare(round, value) {
    const member = await this.member();
    if (!member?.credential) fail("UnknownCredentialError", "not enrolled: exchange a code first");
    const { mechanism, geometry } = round;
    const integers = new Integers();
    const randomised = mechanism.remembered === null
      ? mechanism.sample(value, integers)
      : mechanism.report(await this.recall(mechanism, value, integers), integers);
    const symbols = mechanism.say(randomised, new Integers());
    const packed = symbols.map((symbol) => bigEndian(symbol, geometry.symbol_bytes));
    const sign = async (data) => bytesOf(subtle.sign("Ed25519", member.privateKey, data));
    const { envelope, messages } = await (round.mixing ? this.claimed(round, packed, member, sign) : this.sealed(round, packed));
    if (envelope.length !== round.lengths.envelope) throw new RangeError("an envelope of another length");
    return {
      scope: this.scope, deployment: round.deployment, roundId: round.roundId, entry: round.entry.name, geometry,
      certificateDigest: round.certificateDigest, closesAt: round.closesAt, announcement: round.text, envelope, messages,
      bytes: envelope.length, credential: member.credential,
      claim: await makeClaim(sign, member.name, round.roundId, envelope), envelopeDigest: await digest(envelope),
    };
  }

  async sealed({ geometry, roundId, publicKeys }, packed) {
    const messages = packed.map((symbol) => concat(symbol, systemRandom(TAG_BYTES)));
    return { messages, envelope: await sealEnvelope(geometry, roundId, publicKeys, messages) };
  }

  /** In a verified round: a claim, and behind it what only the entry node opens. */
  async claimed({ geometry, roundId, publicKeys, mixing }, packed, member, sign) {
    const credential = { frame: member.credential, content: DOCUMENTS.credential(parseJson(member.credential.body)) };
    const { claim, submission, messages } = await (await part("verified")).claimMessages(mixing, packed, credential, sign);
    const seal = await sealerFor(geometry.suite, publicKeys[0], roundId, 1);
    return { messages, envelope: concat(claim, await seal(submission)) };
  }

  /** The response of this name, drawn once for ever: a second one would tell more than was promised. */
  async recall(mechanism, value, integers) {
    const drawn = mechanism.remember(value, integers);
    return update("responses", `${this.scope} ${mechanism.remembered}`, (old, all) => {
      if (old !== undefined) return undefined;
      return all.length < MOST_RESPONSES ? drawn : fail("ClientPolicyRefusal", "too many responses are kept here");
    });
  }

  /** The body of a submission's request, byte for byte as it is sent. */
  static requestBody({ credential, claim, envelope }) {
    const binary = Array.from(envelope, (byte) => String.fromCharCode(byte)).join("");
    return stringify({ credential, claim, envelope: btoa(binary) });
  }

  /** Sends the kept answer of a round until the entry node has signed a receipt for it. */
  async send(roundId) {
    let stored = await this.stored(roundId);
    if (!stored || stored.over) nothingSealed();
    if (!stored.receipt) stored = await this.deliver(stored);
    return { roundId, entry: stored.entry, messages: stored.messages.length, bytes: stored.bytes };
  }

  async deliver(stored) {
    const url = `${this.gateway}/v1/rounds/${stored.roundId}/submissions`;
    const frame = parseFrame(textOf(await call(url, JSON_TYPE, MAX_DOCUMENT_BYTES, Device.requestBody(stored))));
    const entry = partyOf(this.roster, stored.entry);
    await checkReceipt(frame, entry, stored.roundId, stored.claim.signer, stored.envelopeDigest);
    return update("rounds", this.keyOf(stored.roundId), (old) =>
      old.over ? undefined : { ...old, receipt: frame, envelope: new Uint8Array() });
  }

  /** Checks a round's result, that one's own messages are on its board, and that it gives the answer. */
  async check(roundId) {
    const stored = await this.stored(roundId);
    if (!stored) fail("UnknownRoundError", "nothing was submitted to this round from here");
    if (stored.over) isOver();
    const bodyOf = struct({ result: signedFrame }, { discards: [[], list(signedFrame)], log: [null, str] });
    const url = `${this.gateway}/v1/rounds/${roundId}`;
    const { result: frame, discards, log } = bodyOf(parseJson(textOf(await call(`${url}/result`, JSON_TYPE, 2 * MAX_DOCUMENT_BYTES))));
    let checked;
    try {
      checked = await checkResult(stored, this.roster, frame);
    } catch (error) {
      if (FAILURES.includes(error.code)) await this.settleFailure(stored, frame, discards);
      throw error;
    }
    await this.keep(roundId, { result: frame });
    if (this.roster.log !== null && this.policy.require_log) {
      await this.withLog(log, async (remembered) =>
        ({ log: await checkResultLogged(log, this.roster, this.population, frame, remembered) }));
    }
    await checkManifest(checked.result, announcementOf(parseJson(stored.announcement)).manifest, this.roster);
    let found;
    try {
      found = await (this.receipts === "board" ? this.findOnBoard(url, checked, stored) : this.findInSample(url, checked, stored));
    } catch (error) {
      if (error.code !== "ReceiptMissingError" || stored.receipt) throw error;
      await this.finish(roundId); // nobody promised anything
      fail("SubmissionClosedError", "the submission came too late: it has no receipt, and is not in the round");
    }
    await this.finish(roundId);
    return { result: checked.result, certificate: checked.final, found };
  }

  async findOnBoard(url, checked, { geometry, messages }) {
    const length = checked.result.messages * widthOf(geometry);
    await checkBoard(checked, geometry, await call(`${url}/board`, BYTES, length, undefined, BOARD_MILLISECONDS), messages);
    return messages.length;
  }

  /** Of a tile that is drawn once, so that a server which refuses it does not get to choose another one. */
  async findInSample(url, { result }, { roundId, geometry, messages }) {
    const drawn = new Integers().index(MOST_TILES);
    const { draw } = await update("rounds", this.keyOf(roundId), (old) => ({ draw: drawn, ...old }));
    const index = draw % tilesOf(result.messages, widthOf(geometry));
    return checkTile(result, geometry, index, await call(`${url}/tiles/${index}`, BYTES, MOST_TILE_BYTES), messages);
  }

  /** A failed round is over once every node signed that nothing left it; until then it stays kept. */
  async settleFailure(stored, frame, discards) {
    const announcement = announcementOf(parseJson(stored.announcement));
    const manifest = await verifyOf(this.roster, "analyst", announcement.manifest, "manifest");
    const clean = new Set();
    for (const discard of discards) {
      try {
        const said = await verifyFrom(partyOf(this.roster, discard.signer), discard, "discard");
        if (said.round_id === stored.roundId && said.node === discard.signer && !said.forwarded) clean.add(said.node);
      } catch (error) {
        if (!(error instanceof ShuffleError)) throw error;
      }
    }
    if (!stored.receipt || manifest.route.every(({ signer }) => clean.has(signer))) await this.finish(stored.roundId);
    else await this.keep(stored.roundId, { result: frame });
  }

  member() {
    return settings(`member ${this.scope}`);
  }

  stored(roundId) {
    return update("rounds", this.keyOf(roundId), () => undefined);
  }

  keyOf(roundId) {
    return `${this.scope} ${roundId}`;
  }

  keep(roundId, fields) {
    return update("rounds", this.keyOf(roundId), (old) => (old.over ? undefined : { ...old, ...fields }));
  }

  /** Erases what is kept of a round; the mark that stays keeps it from being answered again. */
  finish(roundId) {
    return update("rounds", this.keyOf(roundId), () => ({ over: true }));
  }

  async expire() {
    const until = this.clock() - EVIDENCE_MILLISECONDS;
    const entries = (await database()).transaction("rounds").objectStore("rounds");
    for (const stored of await awaited(entries.getAll())) {
      if (!stored.over && stored.scope === this.scope && stored.closesAt < until) await this.finish(stored.roundId);
    }
  }
}
