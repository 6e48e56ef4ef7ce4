import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toOpenApi } from "../../src/http/index.ts";
import { type AppBench, openApp } from "./appBench.ts";

interface Document {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>;
  components: { schemas: Record<string, unknown> };
}

let bench: AppBench;
let document: Document;
beforeAll(async () => {
  bench = await openApp();
  document = (await (await bench.call("GET", "/openapi.json")).json()) as Document;
});
afterAll(() => bench.close());

describe("the OpenAPI document", () => {
  it("has every route of the app, and the app every one of its own", () => {
    const routes = bench.app.routes
      .filter((route) => route.method !== "ALL")
      // The other dialects speak languages that are documented by those who made them.
      .filter(({ path }) => !/^\/(ag-ui|anthropic|ndjson)\//.test(path))
      .map((route) => `${route.method} ${route.path.replaceAll(/:(\w+)/g, "{$1}")}`);
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.sort()).toEqual(routes.sort());
    expect(new Set(routes).size).toBe(routes.length);
  });

  it("refers only to what it has", () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)];
    expect(references.length).toBeGreaterThan(20);
    for (const [, name] of references) expect(Object.keys(document.components.schemas)).toContain(name);
    expect(JSON.stringify(document).match(/"\$ref":"(?!#\/components)/)).toBeNull();
  });

  it("names every operation once and every error that it can answer", () => {
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const names = operations.map((operation) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    expect(document.paths["/v1/sessions/{id}/events/sse"]?.get?.responses).toHaveProperty("410");
    expect(document.paths["/healthz"]?.get?.responses).not.toHaveProperty("401");
  });

  it("is the one that is checked in", () => {
    const root = new URL("../../", import.meta.url);
    const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
      version: string;
    };
    const checkedIn = JSON.parse(readFileSync(new URL("openapi.json", root), "utf8"));
    expect(checkedIn, "run `npm run build`").toEqual(JSON.parse(JSON.stringify(toOpenApi({ version }))));
  });
});
