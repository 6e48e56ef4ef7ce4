import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toOpenApi } from "../../../src/http/index.ts";
import { openAnthropic } from "../anthropic/anthropic-bench.ts";
import type { AppBench } from "../app-bench.ts";

interface Body {
  content?: Record<string, { schema?: unknown }>;
}

interface Documented {
  operationId: string;
  requestBody?: Body;
  responses: Record<string, Body>;
}

interface Document {
  paths: Record<string, Record<string, Documented>>;
  components: { schemas: Record<string, unknown> };
}

let bench: AppBench;
let document: Document;
beforeAll(async () => {
  bench = await openAnthropic({ token: false });
  document = (await (await bench.call("GET", "/openapi.json")).json()) as Document;
});
afterAll(() => bench.close());

describe("the OpenAPI document", () => {
  it("is valid", async () => {
    const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)));
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  it("has exactly the routes of all dialects", async () => {
    // The first request for a dialect loads its routes.
    for (const path of ["/ag-ui/x", "/anthropic/v1/x", "/ndjson/x"]) await bench.call("GET", path);
    const routes = bench.app.scopes.rows
      // Sandboxes' own ports and unsupported resources take any method.
      .filter(({ method }) => method !== "ALL")
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.toSorted()).toEqual(routes.toSorted());
    expect(new Set(routes).size).toBe(routes.length);
    for (const prefix of ["/v1/", "/anthropic/v1/", "/ag-ui/", "/ndjson/"])
      expect(routes.some((route) => route.includes(` ${prefix}`))).toBe(true);
  });

  it("has a schema for every JSON body, and for every frame of a stream", () => {
    for (const [path, methods] of Object.entries(document.paths))
      for (const [method, { requestBody, responses }] of Object.entries(methods))
        for (const { content = {} } of [requestBody ?? {}, ...Object.values(responses)])
          for (const [mime, { schema }] of Object.entries(content)) {
            const needsSchema = /json|event-stream|form-data/.test(mime);
            expect(!needsSchema || isTyped(schema), `${method} ${path} ${mime}`).toBe(true);
          }
  });

  it("leaves a field with a default optional for generated clients, and names the default", () => {
    expect(JSON.stringify(document.components.schemas)).not.toMatch(/"default":(?!\{)/);
    expect(JSON.stringify(document.components.schemas["CreateWebhook"])).toContain(
      '(default: \\"universal\\")',
    );
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

function isTyped(schema: unknown): boolean {
  return JSON.stringify(schema ?? {}) !== '{"type":"string"}';
}
