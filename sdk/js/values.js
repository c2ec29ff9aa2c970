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

const isTyped = (plain) => plain !== null && typeof plain === "object" && TYPES.has(plain.type) && "value" in plain;

/** Converts a plain JavaScript value to one with a PMIx type. */
function typed(plain) {
  if (isTyped(plain)) return plain;
  switch (typeof plain) {
    case "undefined":
      return value.undef();
    case "boolean":
      return value.boolean(plain);
    case "string":
      return value.text(plain);
    case "number":
      return Number.isInteger(plain) ? value.int64(plain) : value.float64(plain);
    case "bigint":
      throw new TypeError(`${plain}n: a BigInt cannot leave a component; numbers are exact to 2^53`);
  }
  if (plain === null) return value.undef();
  if (plain instanceof Uint8Array) return value.bytes(plain);
  if (Array.isArray(plain)) return array(plain);
  if ("nspace" in plain && "rank" in plain) return value.proc(plain);
  throw new TypeError(`${JSON.stringify(plain)} is no value of PMIx; see value in peal.js`);
}

function array(items) {
  if (items.length > 0 && items.every((item) => item !== null && typeof item === "object" && "key" in item)) {
    return value.infos(items);
  }
  const all = items.map(typed);
  if (all.length > 0 && all.every((item) => item.type === "proc")) return value.procs(all.map((item) => item.value));
  const first = all.find((item) => item.type !== "undef");
  return value.values(first === undefined ? 0 : numberOf(first), all);
}

/** Creates an info. */
export const info = (key, plain, flags = {}) => ({ key, flags, ...typed(plain) });

/** Returns the value of the last info with this key. */
export const find = (infos, key) => infos.findLast((one) => one.key === key)?.value ?? undefined;

const UNSIGNED = new Set(["size", "uint64", "time"]);

class Lift {
  /** Converts the arrays in order: an array refers only to earlier ones. */
  constructor(arrays) {
    this.arrays = [];
    for (const { element, items } of arrays) {
      if (items.tag === "infos") this.arrays.push(value.infos(this.infos(items.val)));
      else if (items.tag === "procs") this.arrays.push(value.procs(items.val));
      else this.arrays.push({ type: "values", element, value: items.val.map((item) => this.value(item)) });
    }
  }

  infos(infos) {
    return infos.map((one) => ({ key: one.key, flags: one.flags, ...this.value(one.value) }));
  }

  value({ tag, val }) {
    if (tag === "array") return this.arrays[val] ?? value.undef();
    if (tag === "timeval") return value.timeval({ seconds: val[0], microseconds: val[1] });
    // The largest integers arrive as negative ones.
    if (val < 0 && UNSIGNED.has(tag)) return { type: tag, value: val + 2 ** 64 };
    return { type: tag, value: val ?? null };
  }
}

export const liftInfos = (content) => new Lift(content.arrays).infos(content.infos);

export const liftValue = (found) => (found == null ? undefined : new Lift(found.arrays).value(found.value));

export const liftResults = (results) => {
  const lift = new Lift(results.arrays);
  return results.results.map(({ name, status, infos }) => ({ name, status, infos: lift.infos(infos) }));
};

/** Largest numbers by type: beyond 2^53 numbers are rounded, the largest integers up, beyond their type. */
const LARGEST = { size: 2 ** 64 - 2048, uint64: 2 ** 64 - 2048, time: 2 ** 64 - 2048, int64: 2 ** 63 - 1024 };

function lower({ type, value: plain, element }, arrays) {
  switch (type) {
    case "undef":
      return { tag: "undef" };
    case "timeval":
      return { tag: type, val: [plain.seconds, plain.microseconds] };
    case "infos":
      return pushed(arrays, INFO, { tag: "infos", val: lowerInfos(plain, arrays) });
    case "procs":
      return pushed(arrays, PROC, { tag: "procs", val: plain });
    case "values":
      return pushed(arrays, element, { tag: "values", val: plain.map((item) => lower(item, arrays)) });
    default:
      return { tag: type, val: type in LARGEST ? Math.min(plain, LARGEST[type]) : plain };
  }
}

function pushed(arrays, element, items) {
  arrays.push({ element, items });
  return { tag: "array", val: arrays.length - 1 };
}

export const lowerInfo = (one, arrays) => ({ key: one.key, flags: one.flags ?? {}, value: lower(one, arrays) });

const lowerInfos = (infos, arrays) => infos.map((one) => lowerInfo(one, arrays));

/** Converts infos, or an object of plain values by key, to the flat form. */
export const lowerFlatInfos = (given) => {
  const infos = Array.isArray(given) ? given : Object.entries(given).map(([key, plain]) => info(key, plain));
  const arrays = [];
  return { infos: lowerInfos(infos, arrays), arrays };
};
