import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toOpenApi } from "../../../src/http/index.ts";
import { type AppBench, openApp } from "../app-bench.ts";

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
  it("has exactly the routes of the app", () => {
    const routes = bench.app.routes
      .filter((route) => route.method !== "ALL")
      // The other dialects are documented by their own projects.
      .filter(({ path }) => !/^\/(ag-ui|anthropic|ndjson)\//.test(path))
      .map((route) => `${route.method} ${route.path.replaceAll(/:(\w+)/g, "{$1}")}`);
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.sort()).toEqual(routes.sort());
    expect(new Set(routes).size).toBe(routes.length);
  });

  it("has no dangling reference", () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)];
    expect(references.length).toBeGreaterThan(20);
    for (const [, name] of references) expect(Object.keys(document.components.schemas)).toContain(name);
    expect(JSON.stringify(document).match(/"\$ref":"(?!#\/components)/)).toBeNull();
  });

  it("names every operation once with all of its errors", () => {
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const names = operations.map((operation) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    expect(document.paths["/v1/sessions/{id}/events/sse"]?.get?.responses).toHaveProperty("410");
    expect(document.paths["/healthz"]?.get?.responses).not.toHaveProperty("401");
  });

  it("equals the committed file", () => {
    const root = new URL("../../../", import.meta.url);
    const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
      version: string;
    };
    const checkedIn = JSON.parse(readFileSync(new URL("openapi.json", root), "utf8"));
    expect(checkedIn, "run `npm run build`").toEqual(JSON.parse(JSON.stringify(toOpenApi({ version }))));
  });
});
