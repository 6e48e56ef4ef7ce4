import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SessionInfo, ShownSpec } from "../../../src/contract/index.ts";
import { CheckpointList, EventPage, SessionPage } from "../../../src/contract/responses.ts";
import { readAll, script, waitFor } from "../../support/engine.ts";
import { type AppBench, codeOf, openApp } from "../app-bench.ts";

let bench: AppBench;
beforeEach(async () => {
  bench = await openApp({}, { defaultSandbox: "local" });
});
afterEach(() => bench.close());

const create = (id: string, spec: object = {}) =>
  bench.call("POST", `/v1/sessions/${id}`, { json: { agent: "scripted", ...spec } });
const patch = (id: string, change: object) => bench.call("PATCH", `/v1/sessions/${id}`, { json: change });
const updates = async (id: string) =>
  (await readAll(bench.test.log, id))
    .filter(({ type }) => type === "session.updated")
    .map(({ data }) => data);

describe("PATCH of a session", () => {
  it("changes what it names, and says so with the changed fields alone", async () => {
    await create("a", { title: "T", model: "one", metadata: { team: "x" } });
    const changed = await patch("a", { title: "U", model: "one", permissionMode: "plan" });
    expect(changed.status).toBe(200);
    expect(SessionInfo.parse(await changed.json())).toMatchObject({ title: "U", permissionMode: "plan" });
    expect(await updates("a")).toEqual([{ title: "U", settings: { permissionMode: "plan" } }]);
    expect(SessionInfo.parse(await (await bench.call("GET", "/v1/sessions/a")).json())).toMatchObject({
      title: "U",
      model: "one",
      permissionMode: "plan",
    });
  });

  it("without a difference appends nothing", async () => {
    await create("a", { title: "T", model: "one" });
    expect((await patch("a", { title: "T", model: "one", metadata: {} })).status).toBe(200);
    expect((await patch("a", {})).status).toBe(200);
    expect(await updates("a")).toEqual([]);
  });

  it("removes a title, and replaces metadata", async () => {
    await create("a", { title: "T", metadata: { team: "x" } });
    const changed = await patch("a", { title: null, metadata: { owner: "y" } });
    expect(await changed.json()).toMatchObject({ title: null });
    const spec = ShownSpec.parse(await (await bench.call("GET", "/v1/sessions/a/spec")).json());
    expect(spec.metadata).toEqual({ owner: "y" });
    expect(spec.title).toBeUndefined();
  });

  it("takes a model that replaces the reported one", async () => {
    await create("a");
    await patch("a", { model: "other" });
    expect(await (await bench.call("GET", "/v1/sessions/a")).json()).toMatchObject({ model: "other" });
  });

  it("leaves the agent's settings alone while a turn runs", async () => {
    await create("a");
    await bench.call("POST", "/v1/sessions/a/messages", { json: { message: script({ sleep: 60_000 }) } });
    await waitFor(bench.test.log, "a", "turn.started");
    const busy = await patch("a", { model: "other" });
    expect([busy.status, await codeOf(busy)]).toEqual([409, "session_busy"]);
    expect((await patch("a", { title: "while it runs" })).status).toBe(200);
  });

  it.each([
    ["an unknown field", { nonsense: 1 }, 400],
    ["another agent", { agent: "claude" }, 400],
    ["another sandbox", { sandbox: "local" }, 400],
    ["a bad mode", { permissionMode: "yolo" }, 400],
  ])("refuses %s", async (_, change, status) => {
    await create("a");
    expect((await patch("a", change)).status).toBe(status);
    expect(await updates("a")).toEqual([]);
  });

  it("needs a session", async () => {
    const missing = await patch("nobody", { title: "x" });
    expect([missing.status, await codeOf(missing)]).toEqual([404, "session_not_found"]);
  });
});

it("the spec is readable, and its secrets are not", async () => {
  await create("a", {
    env: { PUBLIC_URL: "https://user:pass@host" },
    secrets: { KEY: "value:hunter2" },
    mcp: { m: { type: "http", url: "https://mcp.example/", headers: { authorization: "Bearer hunter2" } } },
    instructions: "be brief",
  });
  const response = await bench.call("GET", "/v1/sessions/a/spec");
  const text = await response.text();
  expect(ShownSpec.parse(JSON.parse(text))).toMatchObject({
    agent: "scripted",
    instructions: "be brief",
    env: { PUBLIC_URL: "(hidden)" },
    secrets: { KEY: "(hidden)" },
  });
  expect(text).not.toContain("hunter2");
  expect(text).not.toContain("pass@host");
});

describe("the list of sessions", () => {
  async function list(query: string): Promise<{ ids: string[]; pages: number }> {
    const ids: string[] = [];
    let cursor = "";
    for (let pages = 1; ; pages += 1) {
      const response = await bench.call("GET", `/v1/sessions?${query}${cursor}`);
      const page = SessionPage.parse(await response.json());
      ids.push(...page.sessions.map(({ sessionId }) => sessionId));
      if (page.next === undefined) return { ids, pages };
      cursor = `&cursor=${page.next}`;
    }
  }

  it("is narrowed by status, agent and text, on any page size", async () => {
    for (const n of [1, 2, 3, 4, 5, 6]) await create(`s${n}`, { title: n % 2 ? `Odd ${n}` : `even ${n}` });
    await bench.call("POST", "/v1/sessions/s2/terminate");
    await bench.call("POST", "/v1/sessions/s5/terminate");
    for (const limit of [1, 2, 3, 10]) {
      expect((await list(`limit=${limit}&text=odd`)).ids).toEqual(["s5", "s3", "s1"]);
      expect((await list(`limit=${limit}&status=ended`)).ids).toEqual(["s5", "s2"]);
      expect((await list(`limit=${limit}&status=idle,ended&text=ODD`)).ids).toEqual(["s5", "s3", "s1"]);
      expect((await list(`limit=${limit}&agent=scripted`)).ids).toHaveLength(6);
      expect((await list(`limit=${limit}&agent=claude`)).ids).toEqual([]);
    }
    expect((await bench.call("GET", "/v1/sessions?status=odd")).status).toBe(400);
  });

  it("examines a bounded number of sessions for a page", async () => {
    for (let n = 0; n < 1100; n += 1)
      await bench.test.log.create({ id: `n${n}`, spec: { agent: "scripted" }, owner: "x", time: n + 1 });
    const { ids, pages } = await list("limit=5&text=n7");
    expect(ids.filter((id) => !id.startsWith("n7"))).toEqual([]);
    expect(ids).toHaveLength(111);
    expect(pages).toBeGreaterThan(2);
  });
});

describe("one way of paging", () => {
  it("leads through events", async () => {
    await create("a");
    for (const title of ["1", "2", "3", "4"]) await patch("a", { title });
    const sequences: number[] = [];
    let cursor = "";
    for (;;) {
      const response = await bench.call("GET", `/v1/sessions/a/events?extensions=true&limit=2${cursor}`);
      const page = EventPage.parse(await response.json());
      sequences.push(...page.events.map(({ sequence }) => sequence));
      expect(page.next === undefined).toBe(!page.hasMore);
      if (page.next === undefined) break;
      cursor = `&cursor=${page.next}`;
    }
    expect(sequences).toEqual([1, 2, 3, 4, 5]);
    for (const name of ["cursor", "offset", "after"]) {
      const response = await bench.call("GET", `/v1/sessions/a/events?extensions=true&${name}=3`);
      expect(EventPage.parse(await response.json()).events.map(({ sequence }) => sequence)).toEqual([4, 5]);
    }
    const both = await bench.call("GET", "/v1/sessions/a/events?cursor=1&after=2");
    expect([both.status, await codeOf(both)]).toEqual([400, "invalid_cursor"]);
    const bad = await bench.call("GET", "/v1/sessions/a/events?cursor=x");
    expect([bad.status, await codeOf(bad)]).toEqual([400, "invalid_cursor"]);
  });

  it("leads through checkpoints", async () => {
    await create("a");
    const made: string[] = [];
    for (const comment of ["1", "2", "3"]) {
      const response = await bench.call("POST", "/v1/sessions/a/checkpoints", { json: { comment } });
      made.unshift(((await response.json()) as { id: string }).id);
    }
    for (const path of ["/v1/sessions/a/checkpoints", "/v1/checkpoints"]) {
      const seen: string[] = [];
      let cursor = "";
      for (;;) {
        const page = CheckpointList.parse(await (await bench.call("GET", `${path}?limit=2${cursor}`)).json());
        seen.push(...page.checkpoints.map(({ id }) => id));
        if (page.next === undefined) break;
        cursor = `&cursor=${page.next}`;
      }
      expect(seen).toEqual(made);
      expect((await bench.call("GET", `${path}?cursor=../x`)).status).toBe(400);
    }
  });
});
