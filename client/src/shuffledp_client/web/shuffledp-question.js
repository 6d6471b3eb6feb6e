// <shuffledp-question>: asks a round's question, says what is guaranteed, and shows what is sent.
//
//   <shuffledp-question gateway="https://answers.example.org" root-key="9f.." population="web"
//       policy='{"epsilon": 2, "delta": 1e-6, "epsilon_corrupted": 8}'>
//     <p slot="question">Did you sleep well?</p>
//     <option value="0">Yes</option>
//     <option value="1">No</option>
//   </shuffledp-question>
//
// A round whose certificate has the question in words is shown with these signed words instead.

import { Device, ShuffleError, symbolNames } from "./shuffledp.min.js";
import { symbolOfRecord } from "./shuffledp-record.js";

const STYLE = `
  :host { display: block; box-sizing: border-box; max-width: 38rem; padding: 1.25rem; border: 1px solid #b9c0c8;
    border-radius: .6rem; font: 1rem/1.5 system-ui, sans-serif; color: #1b2530; background: #fff;
    overflow-wrap: break-word; }
  * { box-sizing: border-box; }
  .question { font-size: 1.25rem; font-weight: 600; }
  fieldset { border: 0; margin: 0 0 1rem; padding: 0; min-width: 0; }
  legend { padding: 0; font-weight: 600; overflow-wrap: anywhere; }
  label { display: flex; gap: .6rem; align-items: center; padding: .55rem .7rem; margin: .3rem 0; border: 1px solid #b9c0c8;
    border-radius: .4rem; cursor: pointer; overflow-wrap: anywhere; }
  label:has(:checked) { border-color: #0b5cad; background: #eef5fc; }
  input[type=text], input[type=number] { font: inherit; padding: .5rem; border: 1px solid #6b7682; border-radius: .4rem; width: 100%; }
  button { font: inherit; font-weight: 600; padding: .6rem 1.1rem; border: 0; border-radius: .4rem; background: #0b5cad; color: #fff;
    cursor: pointer; }
  button:disabled { background: #5f6b77; cursor: default; }
  :focus-visible { outline: 3px solid #e08a00; outline-offset: 2px; }
  .guarantee { border-left: 4px solid #0b5cad; padding-left: .8rem; margin: 1rem 0; }
  details { margin: 1rem 0; }
  summary { cursor: pointer; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f2f4f6; padding: .7rem; border-radius: .4rem; max-height: 14rem;
    overflow: auto; font-size: .8rem; }
  table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
  th, td { text-align: left; padding: .35rem .5rem; border-bottom: 1px solid #d5dadf; }
  th:first-child, td:first-child { overflow-wrap: anywhere; }
  th + th, td + td { text-align: right; font-variant-numeric: tabular-nums; }
  .error { color: #9b1c1c; }
`;

/** An element with properties and children; text is never read as markup. */
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A number of a guarantee, rounded up: what is shown is never better than what is certified. */
function shown(number) {
  if (number >= 1e-3 || number === 0) return String(Math.ceil(number * 100 - 1e-9) / 100);
  const power = Math.floor(Math.log10(number) + 1e-9);
  const digits = [...String(-power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
  const first = Math.ceil(number / 10 ** power - 1e-9);
  return `${first === 1 ? "" : `${first} · `}10⁻${digits}`;
}

/** What is guaranteed, in two sentences. */
export function guaranteeOf(round) {
  const { certificate, route } = round;
  const names = route.map(({ name }) => name).join(", ");
  const unit = certificate.adjacency === "metric" ? " per unit" : "";
  const { epsilon, honest, users, corrupted, delta } = certificate;
  const crowd = round.mechanism.crowd ? `, and ${honest} of ${users} answers are honest people's` : "";
  const first = `As long as one of the servers ${names} is honest${crowd}, ` +
    `no one can learn more about your answer than ε = ${shown(epsilon.certified)}${unit} allows (δ = ${shown(delta)}).`;
  const second = corrupted.epsilon === null
    ? "If all these servers work together, nothing hides your answer."
    : `Even if all these servers work together, your device's own noise limits it to ε = ${shown(corrupted.epsilon)}${unit}.`;
  return [first, second];
}

/** A condition on a field in words. */
function conditionWords({ field, unit, holds: { names, low, high } }) {
  const range = low === "-inf" ? `below ${high}` : high === "inf" ? `${low} or more` : `from ${low} to below ${high}`;
  const words = names ? names.map((name) => `${name} ${unit}`.trimEnd()).join(", ") : `${range} ${unit}`.trimEnd();
  return `${field}: ${words}`;
}

const MOST_CHOICES = 50;
const MOST_ROWS = 200;

/** The words of the cells of one field; null where there are too many to choose from, or too few words. */
function choicesOf(axis) {
  const { kind } = axis.symbols;
  return kind === "hashes" || kind === "magnitudes" ? null : symbolNames({ axes: [axis], others: "" }, MOST_CHOICES);
}

/** What may be typed for a field without choices. */
function hintOf({ unit, symbols: { kind, columns, bits } }) {
  if (kind === "hashes") {
    return `Your text is not sent, only its place in ${columns} ${columns === 1 ? "list" : "lists"} of ${2 ** bits} cells.`;
  }
  const rounded = kind === "magnitudes" ? ", 0 or more. It is rounded up or down at random" : "";
  return `A number${unit ? ` in ${unit}` : ""}${rounded}.`;
}

/** The inputs of one field, and a function that gives the cell that a form's data has of it. */
function inputsOf(axis, at) {
  const { field, unit, symbols } = axis;
  const name = `field-${at}`;
  const legend = element("legend", {}, unit ? `${field} (${unit})` : field);
  const choices = choicesOf(axis);
  if (choices) {
    const options = choices.map((textContent, value) => element("label", {},
      element("input", { type: "radio", name, value: String(value), required: true }), textContent));
    return { inputs: element("fieldset", {}, legend, ...options), cellIn: (data) => Number(data.get(name)) };
  }
  const text = symbols.kind === "hashes";
  const input = element("input", { type: "text", name, required: !text, autocomplete: "off", inputMode: text ? "text" : "decimal" });
  input.setAttribute("aria-label", legend.textContent);
  const alone = { axes: [axis], where: [], others: "" };
  return {
    inputs: element("fieldset", {}, legend, input, element("small", {}, hintOf(axis))),
    cellIn: (data) => symbolOfRecord(alone, { [field]: data.get(name) }),
  };
}

class ShuffledpQuestion extends HTMLElement {
  constructor() {
    super();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    this.body = element("div");
    this.status = element("p", { className: "status" });
    this.status.setAttribute("role", "status");
    this.question = element("div", { className: "question" }, element("slot", { name: "question" }));
    root.append(this.question, this.body, this.status);
  }

  connectedCallback() {
    this.begin();
  }

  /** Looks for the question; where there is none, or the gateway is away, it can be looked for again. */
  begin() {
    return this.run("Checking the round…", async () => {
      try {
        await this.start();
      } catch (error) {
        const again = element("button", { type: "button" }, "Look again");
        again.addEventListener("click", () => this.begin());
        this.show(again);
        throw error.code === "UnknownRoundError" ? new ShuffleError(error.code, "There is no question at the moment") : error;
      }
    });
  }

  /** Runs a step, with its progress or its error in the status line. */
  async run(progress, step) {
    this.status.className = "status";
    this.status.textContent = progress;
    for (const button of this.body.querySelectorAll("button")) button.disabled = true;
    try {
      await step();
      if (this.status.textContent === progress) this.status.textContent = "";
    } catch (error) {
      this.status.className = "status error";
      this.status.textContent = error.code ? `${error.message} (${error.code})` : "Something went wrong in this page.";
      if (!error.code) throw error;
    } finally {
      for (const button of this.body.querySelectorAll("button")) button.disabled = false;
    }
  }

  async start() {
    this.device ??= await Device.open({
      gateway: this.getAttribute("gateway") || location.origin,
      enrolment: this.getAttribute("enrolment") || this.getAttribute("gateway") || location.origin,
      rootKey: this.getAttribute("root-key"),
      population: this.getAttribute("population"),
      policy: JSON.parse(this.getAttribute("policy")),
      receipts: this.getAttribute("receipts") || "board",
    });
    if ((await this.device.credentialName()) === null) return this.showEnrolment();
    const waiting = await this.device.waiting();
    if (waiting.length) return this.showSent(waiting[0]);
    this.round = await this.device.question(this.getAttribute("round"));
    this.showWording();
    const state = await this.device.stateOf(this.round.roundId);
    if (state === "over") return this.showText("You have answered this question. Thank you.");
    return state === "sealed" ? this.showPreview() : this.showQuestion();
  }

  show(...children) {
    this.body.replaceChildren(...children);
  }

  showText(text) {
    this.show(element("p", { textContent: text }));
  }

  showEnrolment() {
    const input = element("input", { type: "text", id: "code", autocomplete: "one-time-code", required: true });
    const form = element("form", {}, element("p", {}, "To take part you need a code. It works once, in one browser."),
      element("p", {}, element("span", { id: "code-label" }, "Your code"), input), element("button", {}, "Use this code"));
    input.setAttribute("aria-labelledby", "code-label");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run("Making your key…", async () => {
        await this.device.enrol(input.value);
        await this.begin();
      });
    });
    this.show(form);
  }

  get options() {
    const { wording } = this.round?.certificate ?? {};
    if (!wording) return [...this.querySelectorAll("option")];
    return (symbolNames(wording, MOST_CHOICES) ?? []).map((textContent, value) => ({ value: String(value), textContent }));
  }

  /** Shows the signed words in place of the page's own. */
  showWording() {
    const { wording } = this.round.certificate;
    if (!wording) return;
    const fields = wording.axes.map(({ field, unit }) => (unit ? `${field} (${unit})` : field)).join(", ");
    const conditions = wording.where.length
      ? [element("p", {}, `Only people with ${wording.where.map(conditionWords).join("; ")}. Otherwise answer “${wording.others}”.`)] : [];
    this.question.replaceChildren(
      element("p", {}, wording.text), ...conditions, element("small", {}, `Question ${wording.id}: ${fields}`));
  }

  /** True if each field is asked by itself: it is counted by itself, has no list of words, or all together have too many. */
  get asksFields() {
    const { mechanism, certificate: { wording } } = this.round;
    const wordless = wording?.axes.some(({ symbols: { kind } }) => kind === "hashes" || kind === "magnitudes");
    const many = wording && !this.options.length && (wording.others || wording.axes.some(({ symbols }) => symbols.kind !== "scale"));
    return Boolean(wording && (wordless || many || (mechanism.kind === "node-columns" && wording.axes.length > 1)));
  }

  /** The words of every number of a result. */
  namesOf(certificate) {
    const { wording, mechanism } = certificate;
    if (!wording) return null;
    if (mechanism.kind !== "node-columns") return symbolNames(wording, MOST_ROWS);
    return wording.axes.flatMap((axis) => (symbolNames({ axes: [axis], others: "" }, MOST_ROWS) ?? []).map((name) => `${axis.field}: ${name}`));
  }

  labelOf(value) {
    return this.options.find((option) => Number(option.value) === value)?.textContent ?? String(value);
  }

  /** Start and step of the numbers that may be answered: whole ones, or those of the signed words. */
  get scale() {
    const { wording } = this.round?.certificate ?? {};
    const { kind, start, step } = wording?.axes.length === 1 ? wording.axes[0].symbols : {};
    return kind === "scale" ? { start: Number(start), step: Number(step), unit: wording.axes[0].unit } : { start: 0, step: 1, unit: "" };
  }

  showQuestion() {
    const { mechanism, certificate } = this.round;
    const { start, step, unit } = this.scale;
    const most = start + step * (mechanism.domain - 1);
    if (this.asksFields) return this.showFields();
    const choices = this.options.map((option) => element("label", {},
      element("input", { type: "radio", name: "value", value: option.value, required: true }), option.textContent));
    const number = element("input", { type: "number", name: "value", min: start, max: most, step, required: true });
    const kind = start === 0 && step === 1 ? "a whole number" : "a number";
    number.setAttribute("aria-label", `${kind} from ${start} to ${most} ${unit}`.trimEnd());
    const answers = element("fieldset", {}, ...(choices.length ? choices : [number]));
    answers.setAttribute("aria-label", "Your answer");
    this.showForm([answers], (data) => {
      const typed = Number(data.get("value"));
      return choices.length ? typed : Math.round((typed - start) / step);
    });
  }

  /** Asks each field of the signed words by itself. */
  showFields() {
    const { wording } = this.round.certificate;
    const fields = wording.axes.map(inputsOf);
    const shown = fields.map(({ inputs }) => inputs);
    if (wording.others) {
      const box = element("input", { type: "checkbox", name: "others" });
      box.addEventListener("change", () => fields.forEach(({ inputs }) => (inputs.disabled = box.checked)));
      shown.push(element("label", {}, box, wording.others));
    }
    this.showForm(shown, async (data) => {
      if (data.get("others")) return this.round.mechanism.domain - 1;
      const cells = await Promise.all(fields.map(({ cellIn }) => cellIn(data)));
      return cells.reduce((symbol, cell, at) => {
        const { names, edges, size } = wording.axes[at].symbols;
        return symbol * (size ?? names?.length ?? edges.length - 1) + cell;
      }, 0);
    });
  }

  /** A form whose data `valueIn` makes a value, or a promise of it. */
  showForm(inputs, valueIn) {
    const guarantee = element("div", { className: "guarantee" }, ...guaranteeOf(this.round).map((text) => element("p", {}, text)));
    const form = element("form", {}, ...inputs, guarantee, element("button", {}, "Prepare my answer"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const data = new FormData(form);
      this.run("Preparing and sealing…", async () => {
        await this.device.seal(this.round, await valueIn(data));
        await this.showPreview();
      });
    });
    this.show(form);
  }

  async showPreview() {
    const { body, symbols } = await this.device.preview(this.round.roundId);
    const { mechanism } = this.round;
    const open = mechanism.dummies && mechanism.local(1) === Infinity;
    const drawn = open
      ? `The sealed answer is: ${symbols.join(" ")}. Each server adds noise to the result; that is what protects you.`
      : mechanism.domain === mechanism.alphabet && symbols.length === 1 && this.options.length
      ? `After your device added noise, the sealed answer says: ${this.labelOf(symbols[0])}. It may differ from what you chose; that is what protects you.`
      : `After your device added noise, the sealed answer is: ${symbols.join(" ")}.`;
    const details = element("details", { open: true },
      element("summary", {}, `Exactly what is sent: ${body.length} bytes`), element("pre", { tabIndex: 0 }, body));
    const send = element("button", { type: "button" }, "Send");
    send.addEventListener("click", () => this.run("Sending…", async () => {
      await this.device.send(this.round.roundId);
      this.showSent(this.round.roundId);
    }));
    this.show(element("p", {}, drawn), details, send);
  }

  showSent(roundId) {
    const check = element("button", { type: "button" }, "Look for the result");
    check.addEventListener("click", () => this.run("Checking the result…", async () => {
      this.showResult(await this.device.check(roundId));
    }));
    this.show(element("p", {}, "Your answer has arrived: the first server signed a receipt for it."), check);
  }

  showResult({ result, certificate, found }) {
    const { estimate } = result;
    const row = (name, value, low, high) => element("tr", {}, element("td", {}, name), element("td", {}, String(Math.round(value * 10) / 10)),
      element("td", {}, `${Math.round(low)} to ${Math.round(high)}`));
    const head = element("tr", {}, ...["Answer", "Estimate", "95% interval"].map((text) => element("th", { scope: "col" }, text)));
    const names = this.namesOf(certificate);
    const nameOf = (at) => (estimate.quantity === "sum" ? "Sum" : names?.[at] ?? this.labelOf(at));
    const hashed = certificate.wording?.axes.some(({ symbols }) => symbols.kind === "hashes");
    const rows = estimate.values.slice(0, hashed ? 0 : MOST_ROWS).map((value, at) =>
      row(nameOf(at), value, estimate.lows[at], estimate.highs[at]));
    if (estimate.quantity === "sum" && certificate.wording) {
      const { start, step, unit } = this.scale;
      const mean = (sum) => start + (step * sum) / Math.max(1, result.accepted);
      const [middle, low, high] = [estimate.values, estimate.lows, estimate.highs].map(([sum]) => mean(sum).toPrecision(4));
      rows.splice(0, 1, element("tr", {}, ...[`Mean ${unit}`.trimEnd(), middle, `${low} to ${high}`].map((text) => element("td", {}, text))));
    }
    const left = estimate.values.length - rows.length;
    const rest = hashed ? "The result counts places of texts, in which anyone who has a list of texts can look them up."
      : `The result has ${left} more numbers.`;
    const mine = this.device.receipts === "sample"
      ? `A part of the published messages, drawn at random, was checked: ${found} of yours ${found === 1 ? "belongs" : "belong"} into it, ` +
        "and nothing of them is missing or changed. The numbers below were not computed again."
      : `Your ${found === 1 ? "message is" : `${found} messages are all`} among the published ones, unchanged.`;
    this.show(
      element("p", {}, `${result.accepted} ${result.accepted === 1 ? "person" : "people"} took part. ${mine}`),
      ...(rows.length ? [element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))] : []),
      ...(estimate.quantity === "sum" || !left ? [] : [element("p", {}, rest)]),
      element("p", {}, `The final certificate states ε = ${shown(certificate.epsilon.certified)} at δ = ${shown(certificate.delta)}.`),
    );
    this.dispatchEvent(new CustomEvent("result", { detail: { result, certificate, found } }));
  }
}

customElements.define("shuffledp-question", ShuffledpQuestion);
