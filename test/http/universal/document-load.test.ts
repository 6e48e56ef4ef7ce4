import { Hono } from "hono";
import { expect, it } from "vitest";
import { OPERATOR } from "../../../src/http/access/access.ts";
import { RouteTable } from "../../../src/http/access/route-table.ts";
import { BODY_LIMITS } from "../../../src/http/body/read.ts";
import type { AppEnv } from "../../../src/http/context.ts";
import { createMount } from "../../../src/http/operation.ts";
import type { Services } from "../../../src/http/services.ts";
import { mountServer } from "../../../src/http/universal/server.ts";

it("the OpenAPI document is loaded again after a failed load, such as for lack of file descriptors", async () => {
  const app = new Hono<AppEnv>();
  app.use((c, next) => {
    c.set("access", OPERATOR);
    return next();
  });
  const services = { routes: new RouteTable(), limits: BODY_LIMITS, version: "1" } as unknown as Services;
  let loads = 0;
  mountServer(createMount(app, services), services, async ({ version }) => {
    loads += 1;
    if (loads === 1) throw new Error("EMFILE");
    return { version };
  });
  expect((await app.request("/openapi.json")).status).toBe(500);
  for (const _ of [1, 2]) expect(await (await app.request("/openapi.json")).json()).toEqual({ version: "1" });
  expect(loads).toBe(2);
});
