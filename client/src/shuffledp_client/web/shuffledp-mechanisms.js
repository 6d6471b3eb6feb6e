// Mechanisms and words that few rounds have: noise of nodes, several questions, bins, open lists, sums of unknown range.
//
// A part of shuffledp.js, which loads it for certificates that name one of them, and gives it what both share. Mechanisms
// have the form of those in the module. docs/accounting.md has the letters.

let Ratio, amongDummies, bigEndian, bitCounts, chernoff, convolve, decimal, decimalOf, discreteLaplace, histogram, index,
  kRandomised, list, lnGamma, malformed, nearMean, noiseTable, noisyReport, ratio, refuse, spellDecimal, str, struct, sum,
  transform, unary, unsupported, upTo, whole;

/** What this part adds to the module: mechanisms, meanings of symbols, and the names of these. */
export function start(shared) {
  ({
    Ratio, amongDummies, bigEndian, bitCounts, chernoff, convolve, decimal, decimalOf, discreteLaplace, histogram, index,
    kRandomised, list, lnGamma, malformed, nearMean, noiseTable, noisyReport, ratio, refuse, spellDecimal, str, struct, sum,
    transform, unary, unsupported, upTo, whole,
  } = shared);
  return { mechanisms: mechanisms(shared), meanings: meanings(), names: NAMES };
}

const { abs, ceil, cos, exp, expm1, floor, max, min, sin, sqrt } = Math;
const MARGIN = 1e-10;
const TAIL = 0.025 - 1e-6;
const clip = (number, low, high) => min(max(number, low), high);
const clipChance = (chance) => clip(chance, 0, 1);
const zeros = (size) => new Float64Array(size);
const floats = (length, of) => Float64Array.from({ length }, (_, at) => of(at));
const sumBy = (values, of = (value) => value) => values.reduce((total, value, at) => total + of(value, at), 0);
const bitLength = (number) => number.toString(2).length;

/** A probability as a rational; below 2^-900 that number, which changes no bound. */
function rational(chance) {
  let [number, power] = [max(chance, 2 ** -900), 0n];
  for (; !Number.isInteger(number); power += 1n) number *= 2;
  return new Ratio(BigInt(number), 2n ** power);
}

// Noise of nodes (shuffledp_core.bounds.bounded_noise, node_noise and losses)

/** Law of one noise on -reach..reach. */
function boundedLaplace(rate, reach) {
  const weights = floats(2 * reach + 1, (at) => exp(-rate * abs(at - reach)));
  const all = sumBy(weights);
  return weights.map((weight) => weight / all);
}

/** P(S <= s) of a sum of such noises, and the largest error of it. */
function sumOfNoises(rate, reach, terms) {
  if (terms === 0) return { atMost: (sum) => Number(sum >= 0), error: 0 };
  const law = boundedLaplace(rate, reach);
  const linear = 12.5 * reach;
  const variance = terms * sumBy(law, (mass, at) => mass * (at - reach) ** 2);
  const half = ceil(linear + sqrt(linear ** 2 + 75 * variance)) + reach;
  const points = 2 ** bitLength(min(2 * half, 2 * reach * terms));
  if (points > 2 ** 23) unsupported("a page cannot compute with as much noise");
  const [re, im] = [zeros(points), zeros(points)];
  law.forEach((mass, at) => (re[(at - reach + points) % points] += mass));
  transform(re, im); // symmetric, so that its transform is real, and its own inverse
  re.forEach((value, at) => (re[at] = value ** terms));
  im.fill(0);
  const error = 2 ** -49 * bitLength(points - 1) * (terms + 1) * sumBy(re, abs) + 1e-15 + 1e-14 * terms + points / 2 ** 53;
  transform(re, im);
  let below = 0;
  const up = re.map((_, at) => clipChance((below += re[(at + points / 2) % points] / points)));
  return { atMost: (sum) => up[min(sum + points / 2, points - 1)] ?? 0, error };
}

/** δ that losses attain, rounded down: pairs of a loss and its probability, and what is seen for certain. */
const attainedBy = (losses, infinite) => (epsilon) =>
  min(1, (1 - MARGIN) * sumBy(losses, ([loss, mass]) => mass * -expm1(min(epsilon - loss * (1 - 1e-14), 0))) + infinite);

/** Losses of a change of one value behind the dummies of a node (N3), as those of `shiftLosses`. */
function histogramLosses(rate, mean, symbols, dummies) {
  const law = boundedLaplace(rate, mean);
  const others = sumOfNoises(rate, mean, symbols - 2);
  const masses = (sign) => {
    let [opposite, alike] = [0, 0];
    const room = floats(4 * mean + 1, (at) =>
      clipChance(others.atMost(dummies - symbols * mean + 2 * mean - at) + sign * others.error));
    room.forEach((likely, at) => {
      const size = abs(at - 2 * mean);
      const scale = likely * law[mean] ** 2 * exp(-rate * size);
      opposite += (scale * expm1(-2 * rate * max(mean - size, 0))) / expm1(-2 * rate);
      alike += scale * min(size, 2 * mean - size);
    });
    const infinite = law[0] * sumBy(law, (mass, at) => mass * (room[2 * mean + at] + (at < 2 * mean ? room[at] : 0)));
    return { opposite, alike, infinite, all: infinite + opposite * (1 + exp(-2 * rate)) + alike };
  };
  const { opposite, alike, infinite } = masses(-1);
  const share = (1 - MARGIN) / min(1, masses(1).all * (1 + MARGIN));
  const finite = [[2 * rate, opposite], [0, alike], [-2 * rate, opposite * exp(-2 * rate)]];
  return [finite.map(([loss, mass]) => [loss, mass * share]), infinite * share];
}

/** Law of one cell's noise under the condition that all of a node's dummies have room. */
function conditionalNoise(rate, mean, cells, dummies) {
  const others = sumOfNoises(rate, mean, cells - 1);
  const weights = boundedLaplace(rate, mean).map((mass, at) => mass * others.atMost(dummies - cells * mean + mean - at));
  const all = sumBy(weights);
  return weights.map((weight) => weight / all);
}

/** Losses of a count that a change moves by `distance`, the largest first; and what is seen for certain. */
function shiftLosses(rate, mean, distance) {
  const powers = (first, last) => (exp(-rate * first) * expm1(-rate * (last - first + 1))) / expm1(-rate);
  const middle = 1 / (1 + 2 * powers(1, mean));
  const losses = upTo(distance + 1, (at) => [rate * (distance - 2 * at), middle * exp(-rate * at)]);
  [losses[0][1], losses[distance][1]] = [middle * powers(0, mean - distance), middle * powers(distance, mean)];
  return [losses.map(([loss, mass]) => [loss, mass * (1 - MARGIN)]), middle * powers(mean - distance + 1, mean) * (1 - MARGIN)];
}

/** Losses of two independent outcomes; of more than 4,096, the smaller half in groups, each as its least. */
function addLosses([some, certain], [more, surely]) {
  const all = some.flatMap(([loss, mass]) => more.map(([other, share]) => [loss + other, mass * share]));
  all.sort(([a], [b]) => b - a);
  const kept = all.slice(0, all.length > 4096 ? 2048 : undefined);
  for (let group = 0; kept.length < min(all.length, 4096); group += 1) {
    const [first, last] = [group, group + 1].map((at) => floor(2048 + (at * (all.length - 2048)) / 2048));
    kept.push([all[last - 1][0], sumBy(all.slice(first, last), ([, mass]) => mass) * (1 - MARGIN)]);
  }
  return [kept, (certain + surely * (1 - certain)) * (1 - MARGIN)];
}

/** Smallest value and probabilities of the sum over nodes, and over pairs of a weight and a law, in steps, each rounded up. */
function lawOfNodes(laws, nodes, step = 1) {
  const parts = laws.map(([weight, law]) => {
    const reach = (law.length - 1) / 2;
    const rounded = Array.from(law, (_, at) => ceil((weight * (at - reach)) / step));
    const masses = zeros(rounded.at(-1) - rounded[0] + 1);
    rounded.forEach((value, at) => (masses[value - rounded[0]] += law[at]));
    return { first: rounded[0], masses };
  });
  const size = 1 + nodes * sumBy(parts, ({ masses }) => masses.length - 1);
  const points = 2 ** bitLength(size);
  const [re, im] = [zeros(points).fill(1), zeros(points)];
  for (const { masses } of parts) {
    const [partRe, partIm] = [zeros(points), zeros(points)];
    partRe.set(masses);
    transform(partRe, partIm);
    for (let power = 0; power < nodes; power += 1) {
      re.forEach((x, at) => {
        const y = im[at];
        [re[at], im[at]] = [x * partRe[at] - y * partIm[at], x * partIm[at] + y * partRe[at]];
      });
    }
  }
  im.forEach((y, at) => (im[at] = -y)); // conjugate: the inverse
  transform(re, im);
  return { first: nodes * sumBy(parts, ({ first }) => first), masses: re.subarray(0, size).map((mass) => mass / points) };
}

/** The noise of all nodes: its mean, deviation, and what it is below and above with probability 2.5% each. */
function noiseOfNodes(laws, nodes) {
  let [mean, variance] = [0, 0];
  for (const [weight, law] of laws) {
    const reach = (law.length - 1) / 2;
    const center = sumBy(law, (mass, at) => mass * (at - reach));
    mean += weight * center;
    variance += weight ** 2 * sumBy(law, (mass, at) => mass * (at - reach - center) ** 2);
  }
  const deviation = sqrt(nodes * variance);
  const step = max(1, floor(deviation / 1000));
  const lastLikely = (signed) => {
    const { first, masses } = lawOfNodes(signed, nodes, step);
    let [beyond, at] = [1, -1];
    do beyond -= masses[(at += 1)];
    while (beyond > TAIL);
    return (first + at) * step;
  };
  return { mean: nodes * mean, deviation, least: -lastLikely(mirrored(laws)), most: lastLikely(laws) };
}

const mirrored = (laws) => laws.map(([weight, law]) => [weight, law.slice().reverse()]);

/** Mean number of draws of a noise until it is within its reach, rounded up (docs/protocol.md, "Work"). */
const triesOf = (rate, mean) => 2 * (1 + 1 / (rate * (mean + 1)));

// Weighted sums of noises (shuffledp_core.bounds.weighted_noise): half-widths of intervals

const PERIOD = 24;
const SMOOTHING = 0.0125;
const NEGLIGIBLE = 1e-11;

/** E cos(angle Z) of one noise of a node. */
function noiseTransform(rate, mean, angle) {
  const decay = exp(-rate);
  const last = decay ** (mean + 1);
  const waves = decay * cos(angle) - decay ** 2 + last * (decay * cos(mean * angle) - cos((mean + 1) * angle));
  const masses = (decay * expm1(-rate * mean)) / expm1(-rate);
  return (1 + (2 * waves) / (1 - 2 * decay * cos(angle) + decay ** 2)) / (1 + 2 * masses);
}

/**
 * w with P(|sum of weight times noise| > w) <= missed, in standard deviations of the sum. `kinds` are pairs of a weight, in
 * the same unit, and the number of noises that have it.
 */
function halfWidth(rate, mean, kinds, missed) {
  const ordered = kinds.toSorted(([a, some], [b, more]) => b * b * more - a * a * some);
  const terms = floats(2048, (at) => {
    const frequency = (2 * Math.PI * (at + 1)) / PERIOD;
    let term = exp(-((SMOOTHING * frequency) ** 2) / 2);
    for (const [weight, number] of ordered) {
      if (abs(term) > NEGLIGIBLE) term *= noiseTransform(rate, mean, weight * frequency) ** number;
    }
    return abs(term) > NEGLIGIBLE ? term : 0;
  });
  const within = (reach) => (2 * reach) / PERIOD +
    (2 / Math.PI) * sumBy(terms, (term, at) => (term ? (term * sin((2 * Math.PI * (at + 1) * reach) / PERIOD)) / (at + 1) : 0));
  let step = 0;
  while (step < 549 && within(0.5 + step * 0.01) < 1 - missed + 1e-4) step += 1;
  return 0.5 + step * 0.01 + 4 * SMOOTHING;
}

// Bins that agree with groups of bins (shuffledp_core.answering.trees)

/** Width 1 has no groups; then all bins are one group, which is not counted. */
function binTree(bins, width) {
  const grouped = width > 1;
  const step = grouped ? width : bins;
  const groupOf = (bin) => floor(bin / step);
  const widths = upTo(ceil(bins / step), (at) => min(step, bins - at * step));
  const variances = widths.map((each) => (grouped ? each / (each + 1) : each));
  const all = sumBy(variances);
  return {
    /** The estimate of all bins; `columns` has the counts of groups, if there are groups, then those of bins. */
    consistent(columns, total) {
      const counts = columns.at(-1);
      const sums = widths.map((each, at) => sumBy(counts.slice(at * step, at * step + each)));
      const groups = grouped ? sums.map((inside, at) => (columns[0][at] * widths[at] + inside) / (widths[at] + 1)) : sums;
      const rest = total - sumBy(groups);
      return counts.map((count, bin) => {
        const at = groupOf(bin);
        return count + (groups[at] + (rest * variances[at]) / all - sums[at]) / widths[at];
      });
    },
    /** Sizes of the weights of counts in the estimate of a bin, and how many counts have each. */
    weightsOf(bin) {
      const own = groupOf(bin);
      const common = variances[own] / all / widths[own];
      const moved = widths.map((each, at) => (at === own ? 1 / each : 0) - common);
      const ofBins = upTo(bins, (at) => {
        const group = groupOf(at);
        const within = Number(at === bin) - (group === own ? 1 / widths[own] : 0);
        return within + moved[group] / (grouped ? widths[group] + 1 : 1);
      });
      const kinds = new Map();
      for (const weight of grouped ? [...ofBins, ...moved.map((each, at) => each * variances[at])] : ofBins) {
        const size = Math.round(abs(weight) * 1e10) / 1e10;
        kinds.set(size, (kinds.get(size) ?? 0) + 1);
      }
      return [...kinds];
    },
    isNarrow: (bin) => widths[groupOf(bin)] < widths[0],
  };
}

// One report of k-RR behind dummies (shuffledp_core.bounds.one_report, N8, and blanketed, K16)

const FINE = 1e-9;
const MOST_CELLS = 2 ** 21;
const LARGEST_EPSILON = 700;

/** Probabilities of numbers of successes, in a window around the mean. */
function binomialLaw(trials, chance) {
  if (chance.n === chance.d) return { first: trials, law: [1] };
  return chance.n === 0n ? { first: 0, law: [1] } : nearMean(trials, chance);
}

function oneReport(rate, mean, symbols, dummies, blanket) {
  const law = boundedLaplace(rate, mean);
  const [falls, others] = [exp(-rate), symbols - 2];
  const small = rate <= 300 && (2 * mean + 1) ** 2 <= MOST_CELLS &&
    min(others + 1, 18 * sqrt(others * law[0]) + 80) * min(others + 1, 9 * sqrt(others) + 80) <= MOST_CELLS;
  return (epsilon) => {
    if (!small || epsilon > LARGEST_EPSILON) return 0;
    const spare = dummies - symbols * mean;
    const inPair = sumOfNoises(rate, mean, others);
    const room = floats(4 * mean + 1, (at) => clipChance(inPair.atMost(spare + 1 + 2 * mean - at) - inPair.error));
    const [high, low, lowEnd] = [[mean + 1, 2 * mean, 1 / falls], [1, mean, falls], [0, 0, 0]];
    const least = ([first, last], [start, end]) => {
      let total = 0;
      for (let a = first; a <= last; a += 1) for (let b = start; b <= end; b += 1) total += law[a] * law[b] * room[a + b];
      return total;
    };
    // S of the other symbols, by how many are at the lower end and how many above the middle.
    const rising = sumBy(law.slice(mean + 1));
    const sums = [];
    const ends = binomialLaw(others, rational(law[0]));
    ends.law.forEach((likely, step) => {
      if (likely < 1e-18) return;
      const left = others - ends.first - step;
      const rises = binomialLaw(left, rational(rising / (1 - law[0])));
      rises.law.forEach((share, at) => {
        const up = rises.first + at;
        sums.push([up / falls + (left - up) * falls, likely * share]);
      });
    });
    const [share, other] = [1 - blanket, blanket / symbols];
    const excess = (old, fresh) => sumBy(sums, ([others_, mass]) =>
      mass * max(share * (old - exp(epsilon) * fresh) - expm1(epsilon) * other * (old + fresh + others_), 0));
    const rest = sumOfNoises(rate, mean, symbols - 1);
    let delta = max(0, share + other - exp(epsilon) * other) * law[0] * max(0, rest.atMost(spare - mean) - rest.error);
    for (const [a, b] of [[high, low], [high, lowEnd], [low, lowEnd]]) {
      delta += least(a, b) * max(0, excess(a[2], b[2]) - 1e-14 * a[2]);
    }
    const every = sumOfNoises(rate, mean, symbols);
    return min(1, (delta * (1 - 4 * FINE)) / min(1, every.atMost(spare) + every.error));
  };
}

/** `groups` are pairs of a number of other messages, and the probability that one is uniform. */
function blanketedCounts(symbols, blanket, groups) {
  const mean = sumBy(groups, ([number, fill]) => (2 * number * fill) / symbols);
  const rows = 18 * sqrt(mean) + 80 * groups.length;
  const small = rows * (18 * sqrt(mean + rows) + 80) <= MOST_CELLS;
  return (epsilon) => {
    if (!small || epsilon > LARGEST_EPSILON) return 0;
    const delta = symbols === 2 ? betweenTwo(blanket, groups, epsilon) : amongOthers(symbols, blanket, groups, epsilon);
    return max(0, delta - exp(epsilon) * 1e-14);
  };
}

function amongOthers(symbols, blanket, groups, epsilon) {
  let [first, law] = [0, [1]];
  for (const [number, fill] of groups) {
    const part = binomialLaw(number, Ratio.of(fill).times(new Ratio(2, symbols)));
    first += part.first;
    law = convolve(law, part.law);
  }
  const chance = blanket / symbols;
  const growth = exp(epsilon);
  const factorials = floats(first + law.length + 1, (number) => lnGamma(number + 1));
  const reach = ceil(4.5 * sqrt(first + law.length)) + 40;
  let delta = 0;
  law.forEach((likely, at) => {
    const total = first + 1 + at;
    const weight = (2 * likely) / total;
    const absent = weight > 0 ? (law[at + 1] ?? 0) / weight : 0;
    const beside = (chance * total + (blanket - 2 * chance) * absent * (1 + FINE)) * (1 + FINE);
    const lowest = max(0, floor(total / 2) - reach);
    for (let u = lowest; u <= min(total, lowest + 2 * reach + 1); u += 1) {
      const gain = (1 - blanket) * (u - growth * (total - u)) - expm1(epsilon) * beside;
      if (gain > 0) {
        delta += gain * weight * exp(factorials[total] - factorials[u] - factorials[total - u] - total * Math.LN2);
      }
    }
  });
  return delta * (1 - 4 * FINE);
}

function betweenTwo(blanket, [[slots, fill], ...groups], epsilon) {
  const half = new Ratio(1, 2);
  const law = groups.reduce((all, [number, chance]) => convolve(all, binomialLaw(number, chance.times(half)).law), [1]);
  const low = blanket / 2;
  const before = convolve(law, [low, 1 - low]);
  const after = convolve(law, [1 - low, low]);
  const difference = before.map((mass, at) => mass * (1 - FINE) - exp(epsilon) * after[at] * (1 + FINE));
  const uniform = binomialLaw(slots, fill);
  let mixed = convolve(binomialLaw(uniform.first, half).law, difference);
  let total = 0;
  for (const mass of uniform.law) {
    total += mass * sumBy(mixed, (each) => max(each, 0));
    mixed = floats(mixed.length + 1, (at) => ((mixed[at] ?? 0) + (mixed[at - 1] ?? 0)) / 2); // one more fair coin
  }
  return total * (1 - 2 * FINE);
}

/** Values of a noise, rounded down to few, and their probabilities. */
function blocksOf(laws, nodes, deviation) {
  const { first, masses } = lawOfNodes(laws, nodes);
  const step = max(1, floor(deviation / 8));
  const sums = new Map();
  masses.forEach((mass, at) => {
    const value = floor((first + at) / step) * step;
    sums.set(value, (sums.get(value) ?? 0) + mass);
  });
  const blocks = [...sums];
  const rare = (pairs) => {
    let below = 0;
    return pairs.findIndex(([, mass]) => (below += mass) > 1e-9);
  };
  const kept = blocks.slice(rare(blocks), blocks.length - rare(blocks.toReversed()));
  const [lowest] = kept;
  lowest[1] += max(0, 1 - sumBy(kept, ([, mass]) => mass));
  return kept;
}

// Mechanisms

/** The mean of the largest 2.5% of the noise of so many users (shuffledp_core.bounds.noise.mean_of_tail). */
function meanOfTail(shape, rate) {
  const table = noiseTable(shape, rate);
  if (table !== null) {
    // P(Y > c) from the far end on; what is left out is below 1e-9.
    const above = zeros(table.length);
    for (let at = table.length - 2; at >= 0; at -= 1) above[at] = above[at + 1] + table[at + 1];
    const cut = above.findIndex((chance) => chance + FINE <= 0.025);
    return cut + sumBy(above.subarray(cut), (chance) => chance + FINE) / 0.025;
  }
  const ratio_ = exp(-rate);
  if ((1 + 4 * ratio_ + ratio_ ** 2) / (2 * shape * ratio_) >= 1e-3) return chernoff(shape, rate, 0.05);
  return (2.3378028 + 1e-3) * (sqrt(2 * shape * ratio_) / -expm1(-rate));
}

function localLaplace({ max_value: k, epsilon_geo }) {
  const rate = +epsilon_geo;
  const chance = (distance) => rational(exp(-rate * distance) / (1 + exp(-rate)));
  return {
    domain: k + 1, alphabet: k + 1, messages: 1,
    sample(value, integers) {
      const noisy = BigInt(value) + discreteLaplace(epsilon_geo, integers);
      return noisy < 0n ? 0 : noisy > BigInt(k) ? k : Number(noisy);
    },
    say: index(k + 1),
    local: (distance) => noisyReport(rate, 1, distance),
    witness: (honest, distance) => (exp(-rate * k) / (1 + exp(-rate)) === 0 ? null
      : bitCounts(honest - 1, chance(k), 1, new Ratio(1).minus(chance(1)), chance(distance))),
    count: (sent) => [sent.length, sumBy(sent), ...[0, k].map((end) => sent.filter((report) => report === end).length)],
    total: ([reports]) => reports,
    estimate([, total, lowest, highest], reports) {
      const beyond = exp(-rate) / -expm1(-rate);
      const value = total + (highest - lowest) * beyond;
      const error = sqrt(((2 * reports - lowest - highest) * beyond) / -expm1(-rate));
      const width = meanOfTail(+reports, rate);
      return sum(value, error, [value - width, value + width], reports, k);
    },
  };
}

/** What histograms behind the dummies of nodes have in common; `sizes` are the cells of their columns. */
function columnsOf(sizes, { noise_epsilon, mean, spare }) {
  const rate = +noise_epsilon;
  if (spare > max(...sizes) * mean) malformed("more dummies than can be of any use");
  const dummies = sizes.map((size) => size * mean + min(spare, size * mean));
  const starts = sizes.map((_, at) => sumBy(sizes.slice(0, at), (size) => size + 1));
  if (sumBy(dummies) > 2 ** 31 - 1) malformed("an impossible number of dummies");
  return {
    alphabet: sumBy(sizes, (size) => size + 1), messages: sizes.length, dummies: sumBy(dummies), crowd: false,
    tries: sumBy(sizes) * triesOf(rate, mean),
    sample: (value) => value,
    local: () => Infinity,
    witness: () => attainedBy(...sizes.map((size, at) => histogramLosses(rate, mean, size, dummies[at])).reduce(addLosses)),
    starts,
    /** The counts of each column's cells, less the dummies that are expected in them. */
    less: (counts, nodes) => sizes.map((size, at) => counts.slice(starts[at], starts[at] + size).map((count) => count - nodes * mean)),
    noise: (column, nodes) => noiseOfNodes([[1, conditionalNoise(rate, mean, sizes[column], dummies[column])]], nodes),
    /** Lower bound of the probability that a node's first draw has room in every column. */
    room: () => sizes.reduce((likely, size, at) => {
      const law = sumOfNoises(rate, mean, size);
      return likely * max(0, law.atMost(dummies[at] - size * mean) - law.error);
    }, 1),
    deviation: sqrt(sumBy(boundedLaplace(rate, mean), (mass, at) => mass * (at - mean) ** 2)),
  };
}

const joined = (estimates) => ({
  ...estimates[0],
  ...Object.fromEntries(["values", "standard_errors", "lows", "highs"].map((name) => [name, estimates.flatMap((each) => each[name])])),
});

function nodeColumns({ symbols, columns: sizes, ...noise }) {
  if (sizes.length > 16 || sizes.reduce((all, size) => all * size, 1) !== symbols) {
    malformed("columns of another number of combinations");
  }
  const columns = columnsOf(sizes, noise);
  return {
    ...columns, domain: symbols,
    say(answer) {
      let rest = answer;
      return sizes.map((size, at) => [size, columns.starts[at]]).reverse().map(([size, start]) => {
        const cell = rest % size;
        rest = (rest - cell) / size;
        return start + cell;
      }).reverse();
    },
    estimate: (counts, reports, nodes, lost) => joined(columns.less(counts, nodes).map((observed, column) => {
      // A lost message may have been of any column: every count may lack it.
      const { mean, deviation, least, most } = columns.noise(column, nodes);
      return amongDummies(observed, reports.plus(lost), { mean, deviation, least: least - lost, most });
    })),
  };
}

function nodeTree({ symbols: bins, width, ...noise }) {
  if (width >= bins) malformed("groups as wide as all bins");
  const columns = columnsOf(width > 1 ? [ceil(bins / width), bins] : [bins], noise);
  const [tree, rate] = [binTree(bins, width), +noise.noise_epsilon];
  return {
    ...columns, domain: bins,
    say: (bin) => (width > 1 ? [floor(bin / width), columns.starts[1] + bin] : [bin]),
    estimate(counts, reports, nodes, lost) {
      const values = tree.consistent(columns.less(counts, nodes), +reports);
      // A first draw without room is no draw: this makes no event more likely than by this factor.
      const missed = 0.05 * columns.room() ** nodes;
      const errors = [0, bins - 1].map((bin) => {
        const kinds = tree.weightsOf(bin);
        const spread = sqrt(sumBy(kinds, ([weight, number]) => weight ** 2 * number));
        const deviation = spread * sqrt(nodes) * columns.deviation;
        const scaled = kinds.map(([weight, number]) => [weight / deviation, number * nodes]);
        return [deviation, halfWidth(rate, noise.mean, scaled, missed) * deviation + lost];
      });
      const errorOf = (bin) => errors[Number(tree.isNarrow(bin))];
      const ends = (sign) => values.map((value, bin) => clip(value + sign * errorOf(bin)[1], 0, +reports));
      return {
        quantity: "histogram", values, standard_errors: values.map((_, bin) => errorOf(bin)[0]), lows: ends(-1), highs: ends(1),
        mean: null, mean_standard_error: null,
      };
    },
  };
}

function nodeHistogram({ symbols, noise_epsilon, mean, dummies, blanket }) {
  if (dummies < symbols * mean || dummies > 2 * symbols * mean) malformed("an impossible number of dummies");
  const rate = +noise_epsilon;
  const open = {
    domain: symbols, alphabet: symbols + 1, messages: 1, dummies, crowd: false, tries: symbols * triesOf(rate, mean),
    sample: (value) => value,
    say: index(symbols + 1),
    local: () => Infinity,
    witness: () => attainedBy(...histogramLosses(rate, mean, symbols, dummies)),
    estimate(counts, reports, nodes) {
      const noise = noiseOfNodes([[1, conditionalNoise(rate, mean, symbols, dummies)]], nodes);
      return amongDummies(counts.slice(0, symbols).map((count) => count - nodes * mean), reports, noise);
    },
  };
  if (blanket === null) return open;
  const { low, high, sample, local } = kRandomised(symbols, blanket);
  return {
    ...open, sample, local,
    witness: () => oneReport(rate, mean, symbols, dummies, +blanket),
    estimate(counts, reports, nodes) {
      const laws = [[1, conditionalNoise(rate, mean, symbols, dummies)]];
      const noise = noiseOfNodes(laws, nodes);
      const [forward, backward] = [laws, mirrored(laws)].map((signed) => blocksOf(signed, nodes, noise.deviation));
      const observed = counts.slice(0, symbols).map((count) => count - nodes * mean);
      return histogram(observed, reports, high, low, { ...noise, forward, backward });
    },
  };
}

const dummyHistogram = (base) => ({ blanket, ...parameters }) => {
  const open = base.make(parameters);
  if (blanket === null) return open;
  const { symbols, slots, fill } = parameters;
  const { low, high, sample, local } = kRandomised(symbols, blanket);
  return {
    ...open, sample, local,
    witness: (honest) => blanketedCounts(symbols, +blanket, [[honest * slots, fill], [honest - 1, blanket]]),
    estimate(counts, reports) {
      const trials = reports.times(slots).floor();
      const rate = fill.over(symbols);
      const added = { slots: trials, rate, mean: trials * rate, deviation: sqrt(trials * rate * (1 - rate)) };
      return histogram(counts.slice(0, symbols), reports, high, low, added);
    },
  };
};

const cubeRoot = (number) => {
  let root = BigInt(Math.round(Math.cbrt(Number(number)))) + 1n;
  while (root ** 3n > number) root -= 1n;
  return root > 1n ? root : 1n;
};

function nodeSum({ max_value: k, noise_epsilon, base, mean }) {
  const weights = [1];
  while (weights.at(-1) * base <= k) weights.push(weights.at(-1) * base);
  const highest = floor(k / weights.at(-1));
  const caps = weights.map((_, at) => (at + 1 < weights.length ? base - 1 : highest));
  const shares = weights.map((weight, at) => cubeRoot(BigInt(weight * caps[at]) ** 2n));
  const all = shares.reduce((a, b) => a + b);
  const exact = shares.map((share, at) => noise_epsilon.times(new Ratio(share, all * BigInt(caps[at]))));
  const nats = Ratio.of(mean).times(exact.at(-1));
  const means = exact.map((rate) => nats.over(rate).ceil());
  if (base > k + 1 || means.some((each, at) => each < caps[at] || each > 2 ** 22)) malformed("impossible digits");
  const rates = exact.map(Number);
  const digitsOf = (value) => weights.map((_, at) => at).reverse().map((at) => {
    const digit = min(floor(value / weights[at]), caps[at]);
    value -= digit * weights[at];
    return [at, digit];
  });
  return {
    domain: k + 1, alphabet: 2 * weights.length, messages: sumBy(caps), crowd: false,
    dummies: 2 * sumBy(means), tries: sumBy(rates, (rate, at) => triesOf(rate, means[at])),
    sample: (value) => value,
    say: (answer) => digitsOf(answer).flatMap(([at, digit]) => unary(caps[at])(digit).map((bit) => 2 * at + bit)),
    local: () => Infinity,
    witness(_, distance) {
      const steps = weights.length === 1 ? [[0, distance]] : distance === k ? [...caps.entries()] : digitsOf(distance).reverse();
      const parts = steps.filter(([, step]) => step).map(([at, step]) => shiftLosses(rates[at], means[at], step));
      return attainedBy(...parts.reduce(addLosses));
    },
    estimate(counts, reports, nodes) {
      const total = sumBy(weights, (weight, at) => weight * (counts[2 * at + 1] - nodes * means[at]));
      const noise = noiseOfNodes(weights.map((weight, at) => [weight, boundedLaplace(rates[at], means[at])]), nodes);
      return sum(total, noise.deviation, [total - noise.most, total - noise.least], reports, k);
    },
  };
}

/** A blanket of 0 is none, and one of 1 would leave nothing of the value. */
const blanketOf = () => [null, (text) => {
  if (text === "0/1") return null;
  const blanket = ratio(new Ratio(1))(text);
  return blanket.n === blanket.d ? refuse("a blanket below 1") : blanket;
}];

function mechanisms({ MECHANISMS }) {
  const dummies = MECHANISMS["dummy-histogram"];
  const noise = { noise_epsilon: ratio(), mean: whole(1, 2 ** 14) };
  const columns = { ...noise, spare: whole(0, Number.MAX_SAFE_INTEGER) };
  return {
    "local-laplace": { fields: { max_value: whole(1), epsilon_geo: ratio() }, make: localLaplace },
    "dummy-histogram": { ...dummies, optional: { blanket: blanketOf() }, make: dummyHistogram(dummies) },
    "node-histogram": {
      fields: { symbols: whole(2), ...noise, dummies: whole(1) }, optional: { blanket: blanketOf() }, make: nodeHistogram,
    },
    "node-sum": {
      fields: { max_value: whole(1), noise_epsilon: ratio(), base: whole(2), mean: whole(1, 2 ** 22) }, make: nodeSum,
    },
    "node-columns": {
      fields: { symbols: whole(2, Number.MAX_SAFE_INTEGER), columns: list(whole(2)), ...columns }, make: nodeColumns,
    },
    "node-tree": { fields: { symbols: whole(2, 2 ** 12), width: whole(1), ...columns }, make: nodeTree },
  };
}

// Words: open lists and magnitudes (docs/protocol.md)

/** The number that a symbol of magnitudes stands for, in steps. */
function multipleOf(symbol, parts) {
  const [doublings, part] = [floor(symbol / parts), symbol % parts];
  return BigInt(doublings ? parts + part : part) << BigInt(max(0, doublings - 1));
}

const magnitudeOf = ({ step, parts }, symbol) => spellDecimal(multipleOf(symbol, parts) * decimalOf(step));

const NAMES = {
  hashes: ({ columns, bits }, at) => `text with hash ${at.toString(16).padStart(ceil((columns * bits) / 4), "0")}`,
  magnitudes: (symbols, at) => `about ${magnitudeOf(symbols, at)}`,
};

const meanings = () => ({
  hashes: struct({ kind: str, salt: str, columns: whole(1, 4), bits: whole(4, 15) }, {}, (fields) => {
    const { salt, columns, bits } = fields;
    if (!/^[0-9a-f]{32}$/.test(salt)) refuse("a salt of 32 lower-case hex digits");
    if (columns * 2 ** bits > 2 ** 15) refuse("fewer cells");
    fields.size = 2 ** (columns * bits);
  }),
  magnitudes: struct({ kind: str, step: decimal, parts: whole(1, 64), size: whole(3) }, {}, (fields) => {
    const { step, parts, size } = fields;
    if (decimalOf(step) <= 0n) refuse("a step above 0");
    if (size <= 2 * parts || size > 40 * parts + 1) refuse("magnitudes with 2 to 40 doublings");
    decimalOf(magnitudeOf(fields, size - 1));
  }),
});
