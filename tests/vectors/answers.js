// Answers of the page's module to the test vectors; browser_pages.py runs it in Chromium.

import {
  Integers, ShuffleError, checkBoard, checkReceipt, checkResult, checkSignature, checkTile, checkValue, documentDigest,
  geometryFor, makeClaim, mechanismOf, parseFrame, parseJson, policyOf, prepare, readRemembered, sealEnvelope, sealerFor,
  symbolNames, verify, verifyRoster, verifyRound, wordingOf,
} from "./shuffledp.min.js";
import { symbolOfRecord } from "./shuffledp-record.js";

const hex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** The coin stream of the vectors, made in advance: WebCrypto hashes asynchronously. */
async function coins(seedHex, most) {
  const blocks = [];
  for (let counter = 0; counter < most; counter += 1) {
    const block = new Uint8Array(40);
    block.set(hex(seedHex));
    new DataView(block.buffer).setUint32(36, counter);
    blocks.push(...(await sha256(block)));
  }
  let used = 0;
  return (size) => {
    used += size;
    if (used > blocks.length) throw new RangeError("the stream of coins is too short");
    return Uint8Array.from(blocks.slice(used - size, used));
  };
}

/** A key of given bytes, which WebCrypto takes in PKCS 8 only. */
const privateKey = (algorithm, oid, bytes, uses) =>
  crypto.subtle.importKey("pkcs8", Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, oid, 4, 0x22, 4, 0x20, ...bytes), algorithm, false, uses);

async function ephemeralOf(bytes, encapsulation) {
  const key = await privateKey("X25519", 0x6e, bytes, ["deriveBits"]);
  const base = await crypto.subtle.importKey("raw", Uint8Array.of(9, ...new Uint8Array(31)), "X25519", false, []);
  const shown = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: base }, key, 256));
  return encapsulation === undefined
    ? { key, shown }
    : { key, shown, ciphertext: hex(encapsulation.ciphertext), secret: hex(encapsulation.secret) };
}

const parsed = (value) => parseJson(JSON.stringify(value));

/** A mechanism from its form in documents, after the part that has it was loaded. */
async function mechanismFrom(value) {
  const mechanism = parsed(value);
  await prepare({ mechanism });
  return mechanismOf(mechanism);
}

/** The symbols of records; null for one that has none. */
async function symbolsOf(words, records, integers) {
  const symbols = [];
  for (const record of records) {
    try {
      symbols.push(await symbolOfRecord(words, record, integers));
    } catch (error) {
      if (error.code !== "UsageError") throw error;
      symbols.push(null);
    }
  }
  return symbols;
}

/** A geometry as documents write it: what has its default is left out. */
function writtenGeometry({ mix, dummies_per_node: dummies, ...rest }) {
  return { ...rest, ...(mix === null ? {} : { mix }), ...(dummies === 0 ? {} : { dummies_per_node: dummies }) };
}

/** What the module gives its part, for asking the part alone. */
const SHARED = {
  toHex, fromHex: hex, upTo: (length, of) => Array.from({ length }, (_, at) => of(at)), utf8: (text) => new TextEncoder().encode(text),
  bigEndian: (number, size) => Uint8Array.from({ length: size }, (_, at) => Math.floor(number / 256 ** (size - 1 - at)) % 256),
  concat: (...parts) => Uint8Array.from(parts.flatMap((part) => [...part])),
  fail: (code, message) => { throw new ShuffleError(code, message); },
  malformed: (message) => { throw new ShuffleError("MalformedDocumentError", message); },
};
const verifiedPart = async () => (await import("./shuffledp-verified.min.js")).start(SHARED);
const little = (text) => BigInt(`0x${text.match(/../g).reverse().join("")}`);

const ANSWERS = {
  async signature({ key, signature, message }) {
    await checkSignature(hex(key), hex(signature), hex(message));
    return {};
  },
  async document({ document, label, signer, key }) {
    const frame = parseFrame(document);
    await verify(frame, label, signer, key);
    return { digest: await documentDigest(frame) };
  },
  async round({ roster, root_key: rootKey, announcement, policy, population, now, round_id: roundId, remembered = null }) {
    const verified = await verifyRoster(parseFrame(roster), rootKey);
    const kept = await readRemembered(remembered, verified);
    const checked = await verifyRound(announcement, verified, policyOf(policy), population, now, roundId, kept);
    const { log } = checked;
    return {
      ...(log && { log: { size: Number(log.size), witnesses: log.witnesses } }),
      round_id: checked.roundId, mechanism: checked.mechanism.kind, entry: checked.entry.name,
      certificate_digest: checked.certificateDigest, geometry: writtenGeometry(checked.geometry),
    };
  },
  async wording({ wording, records }) {
    const written = parseJson(wording);
    await prepare({ wording: written });
    const words = wordingOf(written);
    const names = { names: symbolNames(words, 2000) };
    if (records === undefined) return names;
    return { ...names, symbols: await symbolsOf(words, parseJson(records)) };
  },
  async rounding({ symbols, answers, coins: seed }) {
    const written = { id: "rounding", text: "?", axes: [{ field: "a", unit: "", symbols }] };
    await prepare({ wording: written });
    const integers = new Integers(await coins(seed, 256));
    const drawn = await symbolsOf(wordingOf(parsed(written)), answers.map((a) => ({ a })), integers);
    return { symbols: drawn, next: Number(integers.below(2 ** 32)) };
  },
  async seal({ suite, round_id: roundId, position, public_key: publicKey, plaintext, ephemeral, encapsulation }) {
    const source = () => ephemeralOf(hex(ephemeral), encapsulation);
    const seal = await sealerFor(suite, hex(publicKey), roundId, position, source);
    return { sealed: toHex(await seal(hex(plaintext))) };
  },
  async envelope({ geometry, round_id: roundId, public_keys: publicKeys, ephemerals, envelope }, expected) {
    if (expected.ok === undefined) return { unsupported: "devices open no envelopes" };
    let used = 0;
    const source = () => ephemeralOf(hex(ephemerals[used++]));
    const sealed = await sealEnvelope(geometry, roundId, publicKeys.map(hex), expected.ok.messages.map(hex), source);
    if (toHex(sealed) !== envelope) throw new Error("another envelope");
    return { messages: expected.ok.messages };
  },
  async element({ element, scalars }) {
    const part = await verifiedPart();
    const point = part.decodeElement(hex(element)) ?? SHARED.fail("ProofError", "not an element");
    return { multiples: part.encodeMultiples(point, scalars.map(little)).map(toHex) };
  },
  async "verified-claim"({ manifest_digest: manifest, blinding, opening, credential, private_key: bytes, symbol_bytes: width, symbols, random }) {
    const part = await verifiedPart();
    const pointOf = (text) => part.decodeElement(hex(text)) ?? SHARED.fail("ProofError", "not an element");
    const terms = { manifest: hex(manifest), last: [hex(blinding.at(-1)), pointOf(blinding.at(-1))], openers: opening.map(pointOf) };
    const key = await privateKey("Ed25519", 0x70, hex(bytes), ["sign"]);
    const sign = async (data) => new Uint8Array(await crypto.subtle.sign("Ed25519", key, data));
    const frame = JSON.parse(credential);
    let used = 0;
    const source = (size) => hex(random).slice(used, (used += size));
    const packed = symbols.map((symbol) => SHARED.bigEndian(symbol, width));
    const made = await part.claimMessages(terms, packed, { frame, content: JSON.parse(frame.body) }, sign, source);
    return { claim: toHex(made.claim), submission: toHex(made.submission), messages: made.messages.map(toHex) };
  },
  async geometry({ mechanism, suite, hops, mix = null }) {
    const made = await mechanismFrom(mechanism);
    const { geometry, plain, record, envelope } = geometryFor(made, suite, hops, mix);
    return {
      geometry: writtenGeometry(geometry), domain: made.domain, alphabet: made.alphabet, plain_bytes: plain,
      record_bytes: Array.from({ length: hops }, (_, at) => record(at + 2)), envelope_bytes: envelope,
    };
  },
  async integers({ coins: seed, bounds }) {
    const integers = new Integers(await coins(seed, 1024));
    return { draws: bounds.map((bound) => String(integers.below(BigInt(bound)))) };
  },
  async sample({ mechanism, value, coins: seed }) {
    const made = await mechanismFrom(mechanism);
    const integers = new Integers(await coins(seed, 256));
    const answer = made.sample(checkValue(made, value), integers);
    return { answer, symbols: made.say(answer, integers), next: Number(integers.below(2 ** 32)) };
  },
  async numbers({ mechanism, honest, distance, epsilon }) {
    const made = await mechanismFrom(mechanism);
    const local = made.local(distance);
    const attained = made.witness(honest, distance);
    return {
      local_epsilon: Number.isFinite(local) ? local : null,
      attained_delta: attained === null ? null : attained(epsilon),
    };
  },
  async claim({ private_key: bytes, credential, round_id: roundId, envelope }) {
    const key = await privateKey("Ed25519", 0x70, hex(bytes), ["sign"]);
    const sign = async (data) => new Uint8Array(await crypto.subtle.sign("Ed25519", key, data));
    const name = JSON.parse(JSON.parse(credential).body).public_key;
    return { claim: JSON.stringify(await makeClaim(sign, name, roundId, hex(envelope))) };
  },
  async receipt({ entry, key, round_id: roundId, credential, envelope, receipt }) {
    const party = { name: entry, identity_key: key };
    await checkReceipt(parseFrame(receipt), party, roundId, credential, toHex(await sha256(hex(envelope))));
    return {};
  },
  async result({ roster, root_key: rootKey, submission, result, board }) {
    const stored = {
      deployment: submission.deployment, roundId: submission.round_id, geometry: submission.geometry,
      certificateDigest: submission.certificate_digest,
    };
    const checked = await checkResult(stored, await verifyRoster(parseFrame(roster), rootKey), parseFrame(result));
    await checkBoard(checked, submission.geometry, hex(board), submission.messages.map(hex));
    return { accepted: checked.result.accepted, epsilon: checked.final.epsilon.certified };
  },
  async tile({ geometry, count, tiles_root, index, tile, messages }) {
    const result = { messages: count, tiles_root };
    return { found: await checkTile(result, geometry, index, hex(tile), messages.map(hex)) };
  },
};

/** The answer to one case. */
export async function answer({ kind, input, expect }) {
  if (!Object.hasOwn(ANSWERS, kind)) return { unsupported: "no part of a page's device" };
  try {
    const ok = await ANSWERS[kind](input, expect);
    return "unsupported" in ok ? ok : { ok };
  } catch (error) {
    if (!(error instanceof ShuffleError)) return { error: `${error.name}: ${error.message} ${error.stack}` };
    return error.code === "UnsupportedError" ? { unsupported: error.message } : { error: error.code };
  }
}
