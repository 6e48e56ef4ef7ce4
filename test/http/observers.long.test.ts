import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readAll, say, script, waitFor } from "../support/engine.ts";
import { input } from "./ag-ui/ag-ui-bench.ts";
import { codeOf } from "./app-bench.ts";
import { type NdjsonBench, openNdjson } from "./ndjson/ndjson-bench.ts";
import { SseReader } from "./sse-reader.ts";

let bench: NdjsonBench;
beforeAll(async () => {
  bench = await openNdjson({ ndjson: { reconnectMs: 20 } });
});
afterAll(() => bench.close());

/** A turn that lasts longer than the grace for absent readers. */
const LONG = script({ shell: "sleep 1.5" }, { say: "by myself" });

/** Connects, reads a first frame and disconnects. */
async function watch(path: string): Promise<void> {
  const reader = await SseReader.open(bench.url + path);
  await reader.until((text) => /^data: /m.test(text));
  reader.cut();
}

async function statusOf(session: string): Promise<string> {
  return (await waitFor(bench.test.log, session, "turn.ended")).data.status;
}

const head = (path: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    request(bench.url + path, { method: "HEAD" }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    })
      .on("error", reject)
      .end();
  });

describe.concurrent("an observer that disconnects ends no run", () => {
  it("of a turn of another dialect", async () => {
    await bench.test.engine.create("universal", { agent: "scripted" });
    const { turnId } = await say(bench.test.engine, "universal", LONG);
    const place = `conversation=universal&turn=${turnId}`;
    await watch(`/ndjson/chat/stream?${place}`);
    await watch(`/ndjson/chat/stream?${place}&cancelOnDisconnect=true`);
    await watch(`/ag-ui/scripted?threadId=universal&runId=${turnId}&cancelOnDisconnect=1`);
    expect(await statusOf("universal")).toBe("completed");
  });

  it("of a run of NDJSON lines, whose own client could cancel it", async () => {
    const body = { conversation: "lines", prompt: LONG, cancelOnDisconnect: true };
    const run = await bench.post("/stream", body);
    const turn = run.headers.get("sluice-turn-id");
    await watch(`/ndjson/chat/stream?conversation=lines&turn=${turn}`);
    expect(await run.text()).toContain("by myself");
  });

  it("of a run that was dispatched without cancelOnDisconnect, on any route", async () => {
    const body = { conversation: "goes-on", prompt: LONG, cancelOnDisconnect: false };
    const { stream } = (await (await bench.post("/chat", body)).json()) as { stream: string };
    expect(stream).not.toContain("cancelOnDisconnect");
    await watch(`${stream}&cancelOnDisconnect=true`);
    expect(await statusOf("goes-on")).toBe("completed");
  });

  it("of an AG-UI run without cancelOnDisconnect", async () => {
    const body = input("observed", LONG);
    const run = await bench.call("POST", "/ag-ui/scripted", { json: body });
    await watch(`/ag-ui/scripted?threadId=observed&runId=${String(body["runId"])}&cancelOnDisconnect=1`);
    expect(await run.text()).toContain("RUN_FINISHED");
  });
});

describe("HEAD of a stream", () => {
  it("does not count as a reader: the run ends with its last reader", async () => {
    const chat = await bench.chat("head", { shell: "sleep 60" });
    expect(await head(chat.stream)).toBe(200);
    await watch(chat.stream);
    expect(await statusOf("head")).toBe("interrupted");
    const run = input("head-ag-ui", script({ say: "x" }));
    await (await bench.call("POST", "/ag-ui/scripted", { json: run })).text();
    for (const path of [
      "/v1/sessions/head/events/sse",
      "/ag-ui/scripted?threadId=head-ag-ui&offset=-1",
      `/ag-ui/scripted?threadId=head-ag-ui&runId=${String(run["runId"])}`,
    ])
      expect([path, await head(path)]).toEqual([path, 200]);
    expect(await (await bench.call("GET", "/metrics")).text()).toMatch(/^sluice_stream_readers 0$/m);
    expect(bench.app.streams.feeds).toBe(0);
  });
});

describe("DELETE of an AG-UI run", () => {
  const remove = (query: string, agent = "scripted"): Promise<Response> =>
    bench.call("DELETE", `/ag-ui/${agent}?${query}`);

  it("ends the named run and no other", async () => {
    const ask = { ask: { shell: "make deploy" } };
    const first = input("stops", script({ say: "over" }));
    await (await bench.call("POST", "/ag-ui/scripted", { json: first })).text();
    const second = input("stops", script(ask, { say: "after" }));
    await (await bench.call("POST", "/ag-ui/scripted", { json: second })).text();
    const { turnId } = await bench.test.engine.info("stops");
    expect(turnId).toBeDefined();
    expect((await remove(`threadId=stops&runId=${String(first["runId"])}`)).status).toBe(204);
    expect((await remove(`threadId=stops&runId=${String(second["runId"])}`, "claude")).status).toBe(404);
    expect((await remove("threadId=stops", "claude")).status).toBe(404);
    expect((await remove("threadId=stops&runId=nobody")).status).toBe(404);
    expect((await remove("")).status).toBe(400);
    expect(await bench.test.engine.info("stops")).toMatchObject({ turnId, status: "waiting" });
    expect((await remove(`runId=${String(second["runId"])}`)).status).toBe(204);
    const ended = await waitFor(bench.test.log, "stops", "turn.ended", {
      where: ({ data }) => data.turn_id === turnId,
    });
    expect(ended.data.status).toBe("interrupted");
  });

  it("ends a queued run when it starts", async () => {
    const abort = new AbortController();
    await bench.test.engine.create("early", { agent: "scripted" });
    const body = input("early", script({ shell: "sleep 60" }));
    const run = fetch(`${bench.url}/ag-ui/scripted`, {
      method: "POST",
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    await waitFor(bench.test.log, "early", "input.accepted");
    expect((await remove("threadId=early")).status).toBe(204);
    expect(await statusOf("early")).toBe("interrupted");
    abort.abort();
    await run.then((response) => response.text()).catch(() => {});
  });

  it("finds a run by its turn without reading whole logs", async () => {
    const { engine, log } = bench.test;
    await engine.create("long", { agent: "scripted" });
    await say(engine, "long", script({ flood: { events: 6000, bytes: 10 } }));
    await waitFor(log, "long", "turn.ended");
    await engine.create("found", { agent: "scripted" });
    const { turnId } = await say(engine, "found", script({ say: "here" }));
    await waitFor(log, "found", "turn.ended");
    const read = log.read.bind(log);
    let events = 0;
    Object.assign(log, {
      read: async (...args: Parameters<typeof read>) => {
        const page = await read(...args);
        events += page.length;
        return page;
      },
    });
    expect((await remove(`runId=${turnId}`)).status).toBe(204);
    Object.assign(log, { read });
    expect(events).toBeLessThan(500);
    const told = await (await bench.call("GET", `/ag-ui/scripted?runId=${turnId}`)).text();
    expect(told).toContain("here");
    expect((await bench.call("GET", "/ag-ui/scripted?runId=turn_0000000000AAAAAAAAAA")).status).toBe(404);
  });
});

describe("a dispatch that has started", () => {
  it("is answered even if another server removes old passwords meanwhile", async () => {
    const { catalog } = bench;
    const list = catalog.list.bind(catalog);
    await bench.chat("swept", { say: "old" });
    await waitFor(bench.test.log, "swept", "turn.ended");
    // Another server removes the same passwords between our read and our write.
    Object.assign(catalog, {
      list: async (...[owner, query]: Parameters<typeof list>) => {
        const { created: _, ...all } = query;
        if (query.kind !== "ndjson_password") return list(owner, query);
        const found = await list(owner, all);
        await catalog.write(
          owner,
          found.map(({ kind, id }) => ({ op: "remove", kind, id })),
        );
        return found;
      },
    });
    const { turn, stream } = await bench.chat("swept", { say: "new" });
    Object.assign(catalog, { list });
    expect(await (await fetch(bench.url + stream)).text()).toContain("new");
    const events = await readAll(bench.test.log, "swept");
    expect(events.filter(({ type }) => type === "turn.started")).toHaveLength(2);
    expect(events.at(-1)?.turn_id ?? turn).toBe(turn);
  });

  it("is answered without a password if its record cannot be written", async () => {
    const { catalog } = bench;
    const write = catalog.write.bind(catalog);
    Object.assign(catalog, {
      write: (...[owner, changes]: Parameters<typeof write>) =>
        changes.some(({ kind }) => kind === "ndjson_turn")
          ? Promise.reject(new Error("the disk is full"))
          : write(owner, changes),
    });
    const response = await bench.post("/chat", { conversation: "unrecorded", prompt: script({ say: "x" }) });
    Object.assign(catalog, { write });
    expect(response.status).toBe(200);
    const { upload, stream } = (await response.json()) as { upload?: object; stream: string };
    expect(upload).toBeUndefined();
    expect(await (await fetch(bench.url + stream)).text()).toContain('"message":"x"');
    expect(bench.lines.map(({ message }) => message).join()).toMatch(/goes on without a record/);
  });
});

it("a body that is nested too deep is a 400 in every dialect", async () => {
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  for (const path of ["/v1/sessions/deep", "/ndjson/stream", "/anthropic/v1/agents", "/ag-ui/scripted"]) {
    const headers = { "content-type": "application/json", "anthropic-beta": "managed-agents-2026-04-01" };
    const response = await bench.call("POST", path, { body: deep, headers });
    expect([path, response.status]).toEqual([path, 400]);
    if (path.startsWith("/v1")) expect(await codeOf(response)).toBe("invalid_request");
    else expect(await response.text()).toContain("nested");
  }
});
