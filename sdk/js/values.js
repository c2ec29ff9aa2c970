// Conversion between the tree of values that authors use and the flat form of the contract, where arrays lie beside the infos and
// values refer to them.

/** Constructors of values by type: value.uint32(7). `undef` takes no argument. */
export const value = Object.freeze({
  undef: () => ({ type: "undef", value: null }),
  infos: (infos) => ({ type: "infos", value: infos }),
  procs: (procs) => ({ type: "procs", value: procs }),
  values: (element, items) => ({ type: "values", element, value: items.map(typed) }),
  ...Object.fromEntries(
    [
      "boolean", "byte", "text", "size", "pid", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16",
      "uint32", "uint64", "float32", "float64", "timeval", "time", "status", "proc", "nspace", "rank", "range", "bytes",
      "other",
    ].map((type) => [type, (plain) => ({ type, value: plain })]),
  ),
});

/** PMIx type numbers of the elements of arrays. */
const NUMBERS = {
  undef: 0, boolean: 1, byte: 2, text: 3, size: 4, pid: 5, int: 6, int8: 7, int16: 8, int32: 9, int64: 10, uint: 11,
  uint8: 12, uint16: 13, uint32: 14, uint64: 15, float32: 16, float64: 17, timeval: 18, time: 19, status: 20, proc: 22,
  bytes: 27, range: 33, infos: 39, procs: 39, values: 39, rank: 40, nspace: 60,
};
const PROC = 22;
const INFO = 24;

const TYPES = new Set(Object.keys(NUMBERS).concat("other"));

const numberOf = (one) => (one.type === "other" ? one.value.dataType : NUMBERS[one.type]);

const isTyped = (plain) => TYPES.has(plain.type) && "value" in plain;

/** Gives an info or a value the type and the value of a plain JavaScript value. */
function assign(one, plain) {
  switch (typeof plain) {
    case "string":
      one.type = "text";
      one.value = plain;
      return one;
    case "number":
      one.type = Number.isInteger(plain) ? "int64" : "float64";
      one.value = plain;
      return one;
    case "boolean":
      one.type = "boolean";
      one.value = plain;
      return one;
    case "bigint":
      throw new TypeError(`${plain}n: a BigInt cannot leave a component; numbers are exact to 2^53`);
  }
  const given = plain == null ? value.undef() : isTyped(plain) ? plain : typedObject(plain);
  one.type = given.type;
  one.value = given.value;
  if (given.element !== undefined) one.element = given.element;
  return one;
}

function typedObject(plain) {
  if (plain instanceof Uint8Array) return value.bytes(plain);
  if (Array.isArray(plain)) return array(plain);
  if ("nspace" in plain && "rank" in plain) return value.proc(plain);
  throw new TypeError(`${JSON.stringify(plain)} is no value of PMIx; see value in peal.js`);
}

/** Converts a plain JavaScript value to one with a PMIx type. */
const typed = (plain) => assign({ type: undefined, value: undefined }, plain);

function array(items) {
  if (items.length > 0 && items.every((item) => item !== null && typeof item === "object" && "key" in item)) {
    return value.infos(items);
  }
  const all = items.map(typed);
  if (all.length > 0 && all.every((item) => item.type === "proc")) return value.procs(all.map((item) => item.value));
  const first = all.find((item) => item.type !== "undef");
  return value.values(first === undefined ? 0 : numberOf(first), all);
}

/** Flags of infos without any. */
const NO_FLAGS = Object.freeze({});

/** Creates an info. */
export const info = (key, plain, flags = {}) => assign({ key, flags, type: undefined, value: undefined }, plain);

/** Returns the value of the last info with this key. */
export const find = (infos, key) => infos.findLast((one) => one.key === key)?.value ?? undefined;

const NO_ARRAYS = Object.freeze([]);

const UNSIGNED = new Set(["size", "uint64", "time"]);

/**
 * Gives an info or a value the type and the value of what the engine made of one of the contract. The engine's objects belong to nobody
 * else, so infos are changed in place.
 */
function lift(one, flat, arrays) {
  const type = flat.tag;
  const val = flat.val;
  if (typeof val === "number") {
    if (type === "array") return Object.assign(one, arrays[val] ?? value.undef());
    one.type = type;
    // The largest integers arrive as negative ones.
    one.value = val < 0 && UNSIGNED.has(type) ? val + 2 ** 64 : val;
  } else {
    one.type = type;
    one.value = type === "timeval" ? { seconds: val[0], microseconds: val[1] } : (val ?? null);
  }
  return one;
}

const lifted = (flat, arrays) => lift({ type: undefined, value: undefined }, flat, arrays);

function liftAll(infos, arrays) {
  for (let at = 0; at < infos.length; at++) lift(infos[at], infos[at].value, arrays);
  return infos;
}

/** Converts arrays in order: an array refers only to earlier ones. */
function liftArrays(flat) {
  const arrays = [];
  for (const { element, items } of flat) {
    if (items.tag === "infos") arrays.push(value.infos(liftAll(items.val, arrays)));
    else if (items.tag === "procs") arrays.push(value.procs(items.val));
    else arrays.push({ type: "values", element, value: items.val.map((item) => lifted(item, arrays)) });
  }
  return arrays;
}

/** Most calls have no array. */
const arraysOf = (content) => (content.arrays.length > 0 ? liftArrays(content.arrays) : NO_ARRAYS);

export const liftInfos = (content) => liftAll(content.infos, arraysOf(content));

export const liftValue = (found) => (found == null ? undefined : lifted(found.value, arraysOf(found)));

/** The results, too, are changed in place. */
export const liftResults = (content) => {
  const { results } = content;
  const arrays = arraysOf(content);
  for (let at = 0; at < results.length; at++) liftAll(results[at].infos, arrays);
  return results;
};

/** Largest numbers by type: beyond 2^53 numbers are rounded, the largest integers up, beyond their type. */
const LARGEST = { size: 2 ** 64 - 2048, uint64: 2 ** 64 - 2048, time: 2 ** 64 - 2048, int64: 2 ** 63 - 1024 };

/** Types whose values have another form in the contract. */
const LOWER = {
  undef: () => ({ tag: "undef" }),
  timeval: ({ value: { seconds, microseconds } }) => ({ tag: "timeval", val: [seconds, microseconds] }),
  infos: ({ value }, arrays) => pushed(arrays, INFO, { tag: "infos", val: lowerInfos(value, arrays) }),
  procs: ({ value }, arrays) => pushed(arrays, PROC, { tag: "procs", val: value }),
  values: ({ value, element }, arrays) =>
    pushed(arrays, element, { tag: "values", val: value.map((item) => lower(item, arrays)) }),
};

/** Returns a value that the engine can pass as one of this type. */
const exact = (plain, type) =>
  typeof plain === "number" && plain > Number.MAX_SAFE_INTEGER ? Math.min(plain, LARGEST[type] ?? plain) : plain;

function lower(one, arrays) {
  const other = LOWER[one.type];
  if (other !== undefined) return other(one, arrays);
  return { tag: one.type, val: exact(one.value, one.type) };
}

function pushed(arrays, element, items) {
  arrays.push({ element, items });
  return { tag: "array", val: arrays.length - 1 };
}

const lowerInfo = (one, arrays) => ({ key: one.key, flags: one.flags ?? NO_FLAGS, value: lower(one, arrays) });

const lowerInfos = (infos, arrays) => infos.map((one) => lowerInfo(one, arrays));

/** The info that is passed to the host, and its value: the host reads them at once, and new objects for each info would take time. */
const PASSED = { key: "", flags: NO_FLAGS, value: undefined };
const PLAIN = { tag: "", val: undefined };

/** Passes each info to a function of the host, with the arrays that it refers to. */
export const passEach = (infos, host) => {
  for (let at = 0; at < infos.length; at++) {
    const one = infos[at];
    const other = LOWER[one.type];
    let arrays = NO_ARRAYS;
    PASSED.key = one.key;
    PASSED.flags = one.flags ?? NO_FLAGS;
    if (other === undefined) {
      PLAIN.tag = one.type;
      PLAIN.val = exact(one.value, one.type);
      PASSED.value = PLAIN;
    } else {
      PASSED.value = other(one, (arrays = []));
    }
    host(PASSED, arrays);
  }
};

/** Converts infos, or an object of plain values by key, to the flat form. */
export const lowerFlatInfos = (given) => {
  const infos = Array.isArray(given) ? given : Object.entries(given).map(([key, plain]) => info(key, plain));
  const arrays = [];
  return { infos: lowerInfos(infos, arrays), arrays };
};
