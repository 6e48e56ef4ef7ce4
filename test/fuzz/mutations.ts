import * as fc from "fast-check";

/** Values that break programs: names of inherited properties, broken text, huge numbers, depth. */
export const NASTY: readonly unknown[] = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udc00\ud800",
  "\u2028",
  "../../../etc/passwd",
  "/",
  "x".repeat(70_000),
  "\n\r\n",
  0,
  -1,
  -0,
  1e308,
  Number.POSITIVE_INFINITY,
  2 ** 53,
  0.1,
  true,
  false,
  null,
  [],
  {},
  [[]],
  [null],
  { __proto__: null },
  JSON.parse('{"__proto__":{"polluted":true}}'),
  JSON.parse('{"constructor":{"prototype":{"polluted":true}}}'),
  { length: -1 },
  { type: "__proto__" },
  { type: {} },
  { id: {} },
  JSON.parse('{"then":"x"}'),
  { toJSON: "x" },
];

export type Mutation =
  | { readonly kind: "set" | "drop" | "rename" | "wrap"; readonly at: number; readonly nasty: number }
  | { readonly kind: "depth"; readonly at: number; readonly nasty: number };

export const mutation: fc.Arbitrary<Mutation> = fc.record({
  kind: fc.constantFrom("set", "set", "set", "drop", "rename", "wrap", "depth"),
  at: fc.nat({ max: 10_000 }),
  nasty: fc.nat({ max: 10_000 }),
});

/** A JSON value with one change at one path. */
export function mutate(value: unknown, { kind, at, nasty }: Mutation): unknown {
  const paths = pathsOf(value);
  const wanted = NASTY[nasty % NASTY.length];
  const chosen = paths[at % (paths.length + 1)];
  if (chosen === undefined) return kind === "set" ? wanted : value;
  const copy = structuredClone(value);
  const path = [...chosen];
  const key = path.pop() as string | number;
  const holder = path.reduce<unknown>((found, step) => (found as Record<string, unknown>)[step], copy);
  change(holder as Record<string, unknown>, key, { kind, wanted, nasty });
  return copy;
}

function change(
  holder: Record<string, unknown>,
  key: string | number,
  { kind, wanted, nasty }: { kind: Mutation["kind"]; wanted: unknown; nasty: number },
): void {
  const before = holder[key];
  if (kind === "drop" || kind === "rename") {
    if (Array.isArray(holder)) holder.splice(Number(key), 1);
    else delete holder[key];
  }
  if (kind === "rename") put(holder, Array.isArray(holder) ? holder.length : toName(wanted), before);
  if (kind === "set") put(holder, key, wanted);
  if (kind === "wrap") put(holder, key, nasty % 2 === 0 ? [before, before] : { [toName(wanted)]: before });
  if (kind === "depth") put(holder, key, toDeep(nasty % 3 === 0 ? 100 : 5_000));
}

function toName(nasty: unknown): string {
  return typeof nasty === "string" ? nasty : "constructor";
}

/** As JSON would: `__proto__` is a name like every other. */
function put(holder: Record<string, unknown>, key: string | number, value: unknown): void {
  Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Marks a deep value, which `JSON.stringify` could not write. */
const DEEP = "\u0001deep:";

function toDeep(levels: number): string {
  return `${DEEP}${levels}\u0001`;
}

/** JSON text with the marks replaced by deep values. */
export function toText(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.replaceAll(/"\\u0001deep:(\d+)\\u0001"/g, (_, levels: string) => deepText(Number(levels)));
}

export function deepText(levels: number, [open, close] = ['{"a":', "}"]): string {
  return `${open.repeat(levels)}1${close.repeat(levels)}`;
}

type Path = readonly (string | number)[];

function pathsOf(value: unknown, path: Path = [], found: Path[] = []): Path[] {
  if (typeof value !== "object" || value === null) return found;
  const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value);
  for (const key of keys) {
    const below = [...path, key];
    found.push(below);
    pathsOf((value as Record<string | number, unknown>)[key], below, found);
  }
  return found;
}
