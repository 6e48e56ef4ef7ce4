import * as fc from "fast-check";
import { mutate, type Mutation, mutation, NASTY, toText } from "./mutations.ts";
import { BODIES, FORMS, HEADERS, HUGE, IDS, QUERIES } from "./request-samples.ts";

/** A request of the fuzz test. */
export interface Thrown {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

type Content =
  | { readonly kind: "mutated"; readonly seed: number; readonly mutations: readonly Mutation[] }
  | { readonly kind: "huge" | "form" | "nasty"; readonly seed: number }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "none" };

export interface Plan {
  readonly route: number;
  readonly ids: readonly number[];
  readonly query: number;
  readonly headers: readonly number[];
  readonly content: Content;
}

const seed = fc.nat({ max: 10_000 });
const content = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("mutated"),
      seed,
      mutations: fc.array(mutation, { maxLength: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("huge", "form", "nasty"), seed }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("bytes"), bytes: fc.uint8Array({ maxLength: 200 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "none" }) },
) as fc.Arbitrary<Content>;

export const plan: fc.Arbitrary<Plan> = fc.record({
  route: seed,
  ids: fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, seed), { minLength: 4, maxLength: 4 }),
  query: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, seed),
  headers: fc.array(seed, { maxLength: 3 }),
  content,
});

/** `known`: existing ids, by the path segment before them. */
export function toThrown(
  plan: Plan,
  routes: readonly { readonly method: string; readonly path: string }[],
  known: Readonly<Record<string, string>>,
): Thrown {
  const route = routes[plan.route % routes.length] ?? { method: "GET", path: "/" };
  let count = 0;
  const path = route.path.replaceAll(/([^/]*)\/:(\w+)/g, (_, before: string) => {
    const id = IDS[(plan.ids[count++ % plan.ids.length] ?? 0) % IDS.length] ?? "";
    return `${before}/${id === "known" ? (known[before] ?? "known") : id}`;
  });
  const headers = Object.assign({}, ...plan.headers.map((at) => HEADERS[at % HEADERS.length])) as Record<
    string,
    string
  >;
  const takesBody = route.method !== "GET" && route.method !== "HEAD";
  return {
    method: route.method,
    path: path.replace("*", "") + (QUERIES[plan.query % QUERIES.length] ?? ""),
    headers,
    body: takesBody ? toBytes(plan.content) : undefined,
  };
}

function toBytes(content: Content): Uint8Array | undefined {
  switch (content.kind) {
    case "none":
      return undefined;
    case "bytes":
      return content.bytes;
    case "huge":
      return Buffer.from(HUGE[content.seed % HUGE.length] ?? "");
    case "form":
      return Buffer.from(FORMS[content.seed % FORMS.length] ?? "");
    case "nasty":
      return Buffer.from(JSON.stringify(NASTY[content.seed % NASTY.length]) ?? "");
    case "mutated": {
      const first = BODIES[content.seed % BODIES.length];
      return Buffer.from(
        toText(content.mutations.reduce<unknown>((value, one) => mutate(value, one), first)),
      );
    }
  }
}
