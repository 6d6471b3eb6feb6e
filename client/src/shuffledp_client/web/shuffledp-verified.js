// Verified mixing for pages (docs/mixing.md): keys of nodes are checked, messages sealed and claimed.
//
// A part of shuffledp.js, which loads it for verified rounds, and gives it what both share. The group is
// ristretto255 (RFC 9496) in whole numbers of any size, because browsers have no such group. That arithmetic takes
// times that depend on its numbers: docs/adr/0034-module-in-parts.md says what this can tell, and to whom.

let bigEndian, concat, fail, fromHex, malformed, systemRandom, toHex, upTo, utf8, generator, generatorPoint;

/** The functions of this part, on top of those of the module. */
export function start(shared) {
  ({ bigEndian, concat, fail, fromHex, malformed, systemRandom, toHex, upTo, utf8 } = shared);
  generator = fromHex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76");
  generatorPoint = decodeElement(generator);
  return { checkKeys, claimMessages, decodeElement, encodeMultiples };
}

// The field of 2^255 - 19

const { subtle } = crypto;
const FIELD = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
const ROOT_OF_MINUS_ONE = 19681161376707505956807079304988542015446066515923890162744021073123829784752n;
const INVERSE_ROOT_OF_MINUS_ONE_LESS_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578n;

const modulo = (number, modulus = FIELD) => {
  const rest = number % modulus;
  return rest < 0n ? rest + modulus : rest;
};
const isNegative = (number) => (modulo(number) & 1n) === 1n;
const absolute = (number) => modulo(isNegative(number) ? -number : number);

function power(base, exponent) {
  let [result, square] = [1n, base];
  for (let rest = exponent; rest; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % FIELD;
    square = (square * square) % FIELD;
  }
  return result;
}

/** The inverses of numbers that are not 0, by one inversion. */
function invertAll(numbers) {
  let product = 1n;
  const before = numbers.map((number) => {
    const earlier = product;
    product = (product * number) % FIELD;
    return earlier;
  });
  let inverse = power(modulo(product), FIELD - 2n);
  const inverses = [];
  for (let at = numbers.length - 1; at >= 0; at -= 1) {
    inverses[at] = (inverse * before[at]) % FIELD;
    inverse = (inverse * numbers[at]) % FIELD;
  }
  return inverses;
}

// Points in extended coordinates on -x^2 + y^2 = 1 + D x^2 y^2: [X, Y, Z, T]

const NEUTRAL = [0n, 1n, 1n, 0n];
const negated = ([x, y, z, t]) => [-x, y, z, -t];

/** Hisil, Wong, Carter and Dawson 2008: complete, so that it doubles, too. */
function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = ((y1 - x1) * (y2 - x2)) % FIELD;
  const b = ((y1 + x1) * (y2 + x2)) % FIELD;
  const c = (2n * D * ((t1 * t2) % FIELD)) % FIELD;
  const d = (2n * z1 * z2) % FIELD;
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [(e * f) % FIELD, (g * h) % FIELD, (f * g) % FIELD, (e * h) % FIELD];
}

/** As `add`, of a point whose Z is 1, kept as [y + x, y - x, 2 D x y]. */
function addPrepared([x1, y1, z1, t1], [sum, difference, product]) {
  const a = ((y1 - x1) * difference) % FIELD;
  const b = ((y1 + x1) * sum) % FIELD;
  const c = (t1 * product) % FIELD;
  const [e, f, g, h] = [b - a, 2n * z1 - c, 2n * z1 + c, b + a];
  return [(e * f) % FIELD, (g * h) % FIELD, (f * g) % FIELD, (e * h) % FIELD];
}

function multiply(scalar, point) {
  const multiples = [NEUTRAL];
  for (let at = 1; at < 16; at += 1) multiples.push(add(multiples[at - 1], point));
  return scalar.toString(16).split("").reduce((sum, digit) => {
    const twice = add(sum, sum);
    const fourTimes = add(twice, twice);
    const eightTimes = add(fourTimes, fourTimes);
    return add(add(eightTimes, eightTimes), multiples[parseInt(digit, 16)]);
  }, NEUTRAL);
}

const little = (bytes) => BigInt(`0x${toHex(Uint8Array.from(bytes).reverse()) || "0"}`);
const bytesOf = (number) => fromHex(number.toString(16).padStart(64, "0")).reverse();

/** The point of a group element's one encoding; null for other bytes, and for the identity (RFC 9496, 4.3.1). */
function decodeElement(bytes) {
  if (bytes.length !== 32) return null;
  const s = little(bytes);
  if (s === 0n || s >= FIELD || isNegative(s)) return null;
  const square = (s * s) % FIELD;
  const [u1, u2] = [modulo(1n - square), 1n + square];
  const u2Square = (u2 * u2) % FIELD;
  const v = modulo(-(D * ((u1 * u1) % FIELD)) - u2Square);
  const ratio = (v * u2Square) % FIELD;
  // 1 over the square root of the ratio, if it has one (4.2).
  const cube = (ratio * ratio * ratio) % FIELD;
  let root = (cube * power((cube * cube * ratio) % FIELD, (FIELD - 5n) / 8n)) % FIELD;
  const check = (ratio * root * root) % FIELD;
  if (check === FIELD - 1n) root = (root * ROOT_OF_MINUS_ONE) % FIELD;
  else if (check !== 1n) return null;
  const denominator = (root * u2) % FIELD;
  const x = absolute(2n * s * denominator);
  const y = (((u1 * root) % FIELD) * ((denominator * v) % FIELD)) % FIELD;
  const t = (x * y) % FIELD;
  return isNegative(t) || y === 0n ? null : [x, y, 1n, t];
}

/** Encodings of twice each point, with one inversion for all (as curve25519-dalek); null for the identity. */
function encodeDoubled(points) {
  const states = points.map(([x, y, z, t]) => {
    const [zSquare, dT] = [(z * z) % FIELD, (D * ((t * t) % FIELD)) % FIELD];
    const [e, f, g, h] = [(2n * x * y) % FIELD, (zSquare + dT) % FIELD, (y * y + x * x) % FIELD, (zSquare - dT) % FIELD];
    return { e, f, g, h, eg: (e * g) % FIELD, fh: (f * h) % FIELD };
  });
  const products = states.map(({ eg, fh }) => (eg * fh) % FIELD);
  const inverses = invertAll(products.map((product) => product || 1n));
  return states.map(({ e, f, g, h, eg, fh }, at) => {
    if (products[at] === 0n) return null;
    const [zInverse, tInverse] = [(eg * inverses[at]) % FIELD, (fh * inverses[at]) % FIELD];
    let factor = INVERSE_ROOT_OF_MINUS_ONE_LESS_D;
    if (isNegative(eg * zInverse)) [e, g, h, factor] = [g, -e, (f * ROOT_OF_MINUS_ONE) % FIELD, ROOT_OF_MINUS_ONE];
    if (isNegative(((h * e) % FIELD) * zInverse)) g = -g;
    return bytesOf(absolute((((h - g) * factor) % FIELD) * ((g * tInverse) % FIELD)));
  });
}

const half = (scalar) => modulo(scalar * ((ORDER + 1n) / 2n), ORDER);

// Many multiples of one point, from a table: for each of 51 digits of 5 bits, 1 to 16 times its place

const DIGITS = 51;

function tableOf(point) {
  const points = [];
  let place = point;
  for (let digit = 0; digit < DIGITS; digit += 1) {
    let multiple = place;
    for (let times = 1; times < 16; times += 1) {
      points.push(multiple);
      multiple = add(multiple, place);
    }
    points.push(multiple);
    place = add(multiple, multiple);
  }
  const inverses = invertAll(points.map(([, , z]) => z));
  return points.map(([x, y], at) => {
    const [affineX, affineY] = [(x * inverses[at]) % FIELD, (y * inverses[at]) % FIELD];
    return [affineY + affineX, affineY - affineX, (2n * D * ((affineX * affineY) % FIELD)) % FIELD];
  });
}

function multiplyByTable(scalar, table) {
  let [sum, rest] = [NEUTRAL, scalar];
  for (let digit = 0; digit < DIGITS; digit += 1) {
    let value = Number(rest & 31n);
    rest >>= 5n;
    if (value > 16) {
      value -= 32;
      rest += 1n;
    }
    if (value > 0) sum = addPrepared(sum, table[16 * digit + value - 1]);
    else if (value < 0) {
      const [plus, minus, product] = table[16 * digit - value - 1];
      sum = addPrepared(sum, [minus, plus, -product]);
    }
  }
  return sum;
}

/** Encodings of a point times each scalar; a product that is the identity is refused. */
function encodeMultiples(point, scalars) {
  const table = tableOf(point);
  const encoded = encodeDoubled(scalars.map((scalar) => multiplyByTable(half(scalar), table)));
  return encoded.map((bytes) => bytes ?? fail("ProofError", "a product of group elements is the identity"));
}

const encodeOne = (point) => encodeDoubled([point])[0];

// Hashes (docs/mixing.md, "Notation")

const count = (number) => bigEndian(number, 4);

/** H: SHA-512 of the label and the parts, each behind its length. */
async function hashParts(label, ...parts) {
  const pieces = parts.flatMap((part) => [bigEndian(part.length, 8), part]);
  return new Uint8Array(await subtle.digest("SHA-512", concat(utf8(`shuffledp/v2/mix/${label}\0`), ...pieces)));
}

/** D: its first 32 bytes. */
const digestParts = async (...all) => (await hashParts(...all)).subarray(0, 32);
/** C: all of them, modulo the order. */
const challenge = async (...all) => little(await hashParts(...all)) % ORDER;
const each = (items, of) => Promise.all(items.map(of));

async function rootOf(leaves) {
  let level = await each(leaves, (leaf) => digestParts("leaf", leaf));
  while (level.length > 1) {
    const pairs = upTo(Math.ceil(level.length / 2), (at) => level.slice(2 * at, 2 * at + 2));
    level = await each(pairs, (pair) => (pair.length === 1 ? pair[0] : digestParts("node", ...pair)));
  }
  return level[0];
}

// Keys of the nodes: K1 to K3

const badKey = (message) => fail("RoundKeyError", `${message}; do not take part`);

/** Checks knowledge of the logarithm of a key to a base; both are encoded, with their points. */
async function checkKnowledge(purpose, context, [base, basePoint], [key, keyPoint], proof) {
  const [c, z] = [little(proof.subarray(0, 32)), little(proof.subarray(32))];
  if (proof.length !== 64 || c === 0n || z === 0n || c >= ORDER || z >= ORDER) return false;
  const commitment = encodeOne(add(multiply(half(z), basePoint), negated(multiply(half(c), keyPoint))));
  return commitment !== null && c === (await challenge(`knows/${purpose}`, ...context, base, key, commitment));
}

/** Checks the mixing keys of a verified round; gives its terms, for `claimMessages`. */
async function checkKeys(manifestDigest, certificateDigest, keys, enrolmentKey) {
  if (keys[0].mixing.enrolment_key !== enrolmentKey) {
    fail("ForeignDocumentError", "the round goes by another enrolment key than this roster has");
  }
  const [{ deployment, round_id: roundId }] = keys;
  const route = await digestParts("route", utf8(deployment), utf8(roundId), utf8(certificateDigest));
  const bases = [[generator, generatorPoint]];
  const openers = [];
  for (const [at, { node, mixing }] of keys.entries()) {
    const fields = ["blinding", "blinding_proof", "opening", "opening_proof"].map((name) => fromHex(mixing[name]));
    if (fields.includes(null)) badKey(`the mixing keys of ${node} are not lower-case hex`);
    const [blinding, blindingProof, opening, openingProof] = fields;
    const context = [route, utf8(node), count(at + 1)];
    const checked = async (purpose, key, proof) => {
      const point = decodeElement(key) ?? badKey(`a mixing key of ${node} is no group element`); // K1
      const holds = await checkKnowledge(purpose, context, bases[at], [key, point], proof); // K2, K3
      return holds ? [key, point] : badKey(`the proof of a mixing key of ${node} does not hold`);
    };
    const next = await checked("blinding", blinding, blindingProof);
    if (at > 0) openers.push((await checked("opening", opening, openingProof))[1]);
    else if (opening.length || openingProof.length) badKey(`${node} has a key to open, and opens nothing`);
    bases.push(next);
  }
  return { manifest: fromHex(manifestDigest), last: bases.at(-1), openers };
}

// Messages and their claim

const EXPIRY_BYTES = 8;
const NEVER = 2n ** 64n - 1n;

/** Expiry and enrolment of a credential, from which others rebuild its document. */
function packCredential({ body, signature }, { population, public_key, expires_at }) {
  const canonical = `{"version":1,"population":"${population}","public_key":"${public_key}","expires_at":${expires_at}}`;
  const expiry = expires_at === null ? NEVER : BigInt(expires_at);
  if (canonical !== body || expiry < 0n || (expires_at !== null && expiry >= NEVER)) {
    malformed("the credential is not in the one encoding that verified rounds need: enrol again");
  }
  return concat(fromHex(expiry.toString(16).padStart(2 * EXPIRY_BYTES, "0")), fromHex(signature));
}

/** The box of one layer: every key seals once, so that the nonce is constant. */
async function seal({ manifest }, position, share, content) {
  const key = await digestParts("layer", manifest, count(position), share);
  const cipher = await subtle.importKey("raw-secret", key, "ChaCha20-Poly1305", false, ["encrypt"]);
  const box = await subtle.encrypt({ name: "ChaCha20-Poly1305", iv: new Uint8Array(12) }, cipher, content);
  return new Uint8Array(box);
}

/**
 * Claims these symbols, each of some bytes: gives the packed claim, what node 1's envelope seals, and the messages
 * as they will be on the board. `sign` has the credential's key. Call it once for a round.
 */
async function claimMessages(terms, symbols, credential, sign, random = systemRandom) {
  const { manifest, last: [base, basePoint], openers } = terms;
  const name = fromHex(credential.content.public_key);
  const own = random(32);
  const secrets = await each(symbols, (_, at) => challenge("secret", manifest, own, name, count(at), concat(...symbols)));
  own.fill(0);
  const keys = encodeMultiples(basePoint, secrets);
  const statements = symbols.map((symbol, at) => [manifest, symbol, base, keys[at]]);
  const knows = "knows/message";
  const nonces = await each(statements, (statement, at) =>
    challenge("nonce", bytesOf(secrets[at]), new Uint8Array(32), utf8(knows), ...statement));
  const commitments = encodeMultiples(basePoint, nonces);
  const contents = await each(statements, async (statement, at) => {
    const c = await challenge(knows, ...statement, commitments[at]);
    return concat(symbols[at], bytesOf(c), bytesOf((c * secrets[at] + nonces[at]) % ORDER));
  });
  const hops = openers.length + 1;
  let boxes = await each(contents, (content, at) => seal(terms, hops + 1, keys[at], content));
  for (let position = hops; position > 1; position -= 1) {
    const shares = encodeMultiples(openers[position - 2], secrets);
    const inner = boxes;
    boxes = await each(shares, (share, at) => seal(terms, position, share, inner[at]));
  }
  const claimed = encodeMultiples(generatorPoint, secrets);
  const seed = random(32);
  const root = await rootOf(await each(claimed, async (key, at) => {
    const salt = await digestParts("salt", manifest, seed, count(at));
    return digestParts("commitment", manifest, salt, count(at), key, boxes[at]);
  }));
  const statement = [manifest, name, root, concat(...claimed)];
  const r = await challenge("nonce", concat(...secrets.map(bytesOf)), random(32), utf8("claim"), ...statement);
  const c = await challenge("claim", ...statement, ...encodeMultiples(generatorPoint, [r]));
  // Powers, because a plain sum would let two keys hide a stranger's in their sum.
  let [z, factor] = [r, c];
  for (const secret of secrets) {
    z = (z + factor * secret) % ORDER;
    factor = (factor * c) % ORDER;
  }
  const fields = concat(name, root, bytesOf(c), bytesOf(z), ...claimed);
  const signature = await sign(concat(utf8("shuffledp/v2/claim\0"), manifest, fields));
  return {
    claim: concat(packCredential(credential.frame, credential.content), fields, signature),
    submission: concat(seed, ...claimed.flatMap((key, at) => [key, boxes[at]])),
    messages: keys.map((key, at) => concat(key, contents[at])),
  };
}
