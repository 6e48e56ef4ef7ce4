import { EventEmitter, once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { type Catalog, createMemoryCatalog } from "../../../src/catalog/index.ts";
import { guardEngine } from "../../../src/http/access/guarded-engine.ts";
import { script } from "../../support/engine.ts";
import { input } from "../ag-ui/ag-ui-bench.ts";
import { type AccessBench, openAccess } from "./access-bench.ts";

let bench: AccessBench;
afterEach(() => bench.close());

/** A catalog that keeps the finds of one kind and tenant waiting. */
function holdFinds(
  tenant: string,
  kind: string,
): { catalog: Catalog; held: Promise<unknown>; release(): void } {
  const inner = createMemoryCatalog();
  const bell = new EventEmitter();
  const held = once(bell, "held");
  const released = once(bell, "released");
  const find: Catalog["find"] = async (...wanted) => {
    if (wanted[0] === tenant && wanted[1] === kind) {
      bell.emit("held");
      await released;
    }
    return inner.find(...wanted);
  };
  const catalog = new Proxy(inner, {
    get: (target, name: keyof Catalog) =>
      name === "find" ? find : (target[name] as () => unknown).bind(target),
  });
  return { catalog, held, release: () => bell.emit("released") };
}

describe("two workspaces", () => {
  it("do not wait for each other in threads of the same id", async () => {
    const { catalog, held, release } = holdFinds("a", "ag-ui.run");
    bench = await openAccess(catalog);
    const body = input("shared", script({ say: "hi" }));
    const first = bench.as("key-of-a", "POST", "/ag-ui/scripted", { json: body });
    await held;
    // The id is taken, as in every dialect. The answer does not wait for the other one's request.
    const other = await bench.as("key-of-b", "POST", "/ag-ui/scripted", { json: input("shared", "hello") });
    expect(other.status).toBe(409);
    release();
    expect(await (await first).text()).toContain("RUN_FINISHED");
  });

  it("do not find each other's checkpoints on one shelf", async () => {
    const catalog = createMemoryCatalog();
    bench = await openAccess(catalog);
    const { engine } = bench.test;
    for (const tenant of ["a", "b"]) await engine.create(`of-${tenant}`, { agent: "scripted" }, { tenant });
    const { id } = await engine.checkpoint("of-a");
    const of = (tenant: string) => guardEngine(engine, catalog, { tenant, scope: "admin" });
    expect(await of("a").findCheckpoint("of-a", id)).toMatchObject({ id });
    expect(await of("b").findCheckpoint("of-b", id)).toBeUndefined();
  });
});
