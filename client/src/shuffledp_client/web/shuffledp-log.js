// The public log (docs/log.md, "What devices check"), for deployments that have one; numbers of entries are BigInt.
//
// A part of shuffledp.js, which loads it when it needs it, and gives it what both share.

let bigInt, checkSignature, concat, documentDigest, equal, fail, fromHex, isIncluded, leafHash, malformed, nodeHash;
let onlyParty, rowsOf, sha256, textOfDocument, toHex, utf8, verifyOf;

/** The functions of this part, on top of those of the module. */
export function start(shared) {
  ({
    bigInt, checkSignature, concat, documentDigest, equal, fail, fromHex, isIncluded, leafHash, malformed, nodeHash,
    onlyParty, rowsOf, sha256, textOfDocument, toHex, utf8, verifyOf,
  } = shared);
  return { readRemembered, checkLog, checkResultLogged };
}

const { stringify } = JSON;
const unlogged = (what) => fail("LogProofError", `${what}; do not take part`);

function fromBase64(text) {
  try {
    const binary = atob(text);
    if (btoa(binary) === text) return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    // Refused below.
  }
  return malformed("not base64 in its one spelling");
}

const hashOf = (text) => {
  const bytes = fromBase64(text);
  return bytes.length === 32 ? bytes : malformed("a hash does not have 32 bytes");
};
const countOf = (text) =>
  /^(0|[1-9][0-9]{0,18})$/.test(text) ? BigInt(text) : malformed("not a number of entries of a log");

/** A signed note (C2SP signed-note); nothing in it is believed. */
function parseNote(text) {
  const end = text.lastIndexOf("\n\n");
  const lines = text.slice(end + 2, -1).split("\n");
  if (utf8(text).length > 2 ** 16 || end < 0 || !text.endsWith("\n") || /[\0-\x09\x0b-\x1f]/.test(text) || lines.length > 100) {
    malformed("not a signed note");
  }
  const signatures = lines.map((line) => {
    const [, name, encoded] = /^\u2014 ([^\p{White_Space}+]{1,255}) (.*)$/su.exec(line) ?? malformed("not a signature of a note");
    const blob = fromBase64(encoded);
    return blob.length > 4 ? { name, blob } : malformed("a note's signature is too short");
  });
  return { text: text.slice(0, end + 1), signatures };
}

/** A proof of inclusion (C2SP tlog-proof); nothing in it is believed. */
function parseProof(text) {
  const end = text.indexOf("\n\n");
  if (utf8(text).length > 2 ** 17 || end < 0) malformed("not a proof of the public log");
  const [header, ...lines] = text.slice(0, end).split("\n");
  const extra = lines[0]?.startsWith("extra ") ? fromBase64(lines.shift().slice(6)) : null;
  const [word, index] = (lines.shift() ?? "").split(/ (.*)/s);
  if (header !== "c2sp.org/tlog-proof@v1" || extra?.length === 0 || word !== "index" || lines.length > 63) {
    malformed("not a proof of the public log");
  }
  return {
    index: countOf(index), hashes: lines.map(hashOf), extra: extra ?? new Uint8Array(), note: parseNote(text.slice(end + 2)),
  };
}

/** Checks the signature of a key on a note; `messageOf` gives what it signs, from what precedes it. */
async function checkNote(note, name, key, algorithm, before, messageOf) {
  const id = (await sha256(utf8(`${name}\n`), Uint8Array.of(algorithm), key)).subarray(0, 4);
  const found = note.signatures.find((one) => one.name === name && equal(one.blob.subarray(0, 4), id));
  if (!found || found.blob.length !== 68 + before) fail("SignatureError", `the log's checkpoint is not signed by ${name}`);
  await checkSignature(key, found.blob.subarray(4 + before), utf8(messageOf(found.blob.subarray(4, 4 + before))));
}

async function readCheckpoint(note, name, key) {
  await checkNote(note, name, key, 1, 0, () => note.text);
  const [origin, size, root, ...more] = note.text.slice(0, -1).split("\n");
  if (root === undefined || more.length || !/^[^\p{White_Space}+]{1,255}$/u.test(origin)) malformed("not a checkpoint of a log");
  return { origin, size: countOf(size), root: hashOf(root) };
}

async function hasCosigned(note, { name, public_key: key }) {
  const messageOf = (time) =>
    time[0] > 127 ? fail("SignatureError", "a time out of range") : `cosignature/v1\ntime ${bigInt(time)}\n${note.text}`;
  try {
    await checkNote(note, name, fromHex(key), 4, 8, messageOf);
    return true;
  } catch (error) {
    if (error.code !== "SignatureError") throw error;
    return false;
  }
}

/** The window beside a checkpoint: roots of the subtrees before it, and the hashes of later entries. */
function readWindow(extra, size) {
  const base = bigInt(extra.subarray(0, 8));
  const levels = [...base.toString(2)].flatMap((bit, at, { length }) => (bit === "1" ? [length - 1 - at] : []));
  const most = size - base;
  const count = levels.length + Number(most);
  const packed = extra.subarray(8);
  if (most < 0n || most > 1024n || packed.length !== 32 * count) malformed("not the window of a log of this size");
  const hashes = rowsOf(packed, 32);
  return { base, levels, hashes };
}

/** The root of the log's first `size` entries (RFC 6962). */
async function rootOf({ base, levels, hashes }, size) {
  const peaks = levels.map((level, at) => [level, hashes[at]]);
  for (const leaf of hashes.slice(levels.length, levels.length + Number(size - base))) {
    let [level, above] = [0, leaf];
    for (; peaks.at(-1)?.[0] === level; level += 1) above = await nodeHash(peaks.pop()[1], above);
    peaks.push([level, above]);
  }
  let root = peaks.pop()?.[1] ?? (await sha256());
  while (peaks.length) root = await nodeHash(peaks.pop()[1], root);
  return root;
}

/** Number of the ended log that a note is of; that of the present log for any other note. */
const numberOfLog = (note, roster) => {
  const at = roster.log.ended.findIndex((_, number) => note.text.startsWith(`${logName(roster, number)}\n`));
  return at < 0 ? roster.log.ended.length : at;
};
const logName = ({ deployment }, ended) => `shuffledp-ledger/${deployment}${ended ? `/${ended + 1}` : ""}`;
const logKey = (roster, number) =>
  fromHex(roster.log.ended[number]?.public_key ?? onlyParty(roster, "accountant").identity_key);

/** What a kept proof shows of the present log; null if that is another one, which has ended. */
async function readRemembered(text, roster) {
  const { note, extra } = parseProof(text);
  const number = numberOfLog(note, roster);
  const checkpoint = await readCheckpoint(note, logName(roster, number), logKey(roster, number));
  const ended = roster.log.ended[number];
  return ended ? checkEnded(checkpoint, ended) : { ...checkpoint, window: readWindow(extra, checkpoint.size) };
}

function checkEnded(checkpoint, { size, root }) {
  if (checkpoint.size > size || (!(checkpoint.size < size) && toHex(checkpoint.root) !== root)) {
    unlogged("by the roster an earlier log ended otherwise than it was shown here");
  }
  return null;
}

/** Checks that an entry is in a log that enough witnesses signed, and that was not another one before. */
async function checkLogged(text, roster, number, entry, remembered) {
  const { witnesses, threshold } = roster.log;
  const { index, hashes, extra, note } = parseProof(text);
  const name = logName(roster, number);
  const checkpoint = await readCheckpoint(note, name, logKey(roster, number));
  if (checkpoint.origin !== name) unlogged("the checkpoint is of another log");
  const signed = [];
  for (const witness of witnesses) if (await hasCosigned(note, witness)) signed.push(witness.name);
  if (signed.length < threshold) {
    unlogged(`${signed.length} of ${witnesses.length} witnesses signed the log (${signed}), ${threshold} must`);
  }
  const log = { ...checkpoint, window: readWindow(extra, checkpoint.size), witnesses: signed, text };
  if (!equal(await rootOf(log.window, log.size), log.root)) unlogged("the window is not of the log");
  const data = utf8(stringify(entry));
  if (data.length > 65_535) unlogged("no log holds an entry of this length");
  if (!(await isIncluded(await leafHash(data), index, log, hashes))) unlogged("the proof does not show it in the public log");
  if (remembered && remembered.origin === log.origin) {
    const [newer, older] = log.size < remembered.size ? [remembered, log] : [log, remembered];
    if (older.size >= newer.window.base && !equal(await rootOf(newer.window, older.size), older.root)) {
      unlogged("the public log and the one shown here before are two histories");
    }
  }
  return log;
}

async function checkLog({ log: text }, roster, manifest, population, remembered) {
  if (text === null) unlogged("the round comes without a proof that it is in the public log");
  const documents = [textOfDocument(manifest.certificate)];
  const entry = { event: "reserved", population, round_id: manifest.round_id, documents };
  return checkLogged(text, roster, roster.log.ended.length, entry, remembered);
}

/** Checks that a signed result is in a public log of the deployment; gives the present one, else null. */
async function checkResultLogged(text, roster, population, frame, remembered = null) {
  if (text === null) {
    unlogged("the result has no proof of the public log yet: ask again later");
  }
  const result = await verifyOf(roster, "analyst", frame, "result");
  const number = numberOfLog(parseProof(text).note, roster);
  const entry = { event: "published", population, round_id: result.round_id, documents: [], digest: await documentDigest(frame) };
  const log = await checkLogged(text, roster, number, entry, remembered);
  const ended = roster.log.ended[number];
  return ended ? checkEnded(log, ended) : log;
}
