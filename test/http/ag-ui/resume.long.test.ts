import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { expectTellable, type Told, typesOf } from "../../dialects/ag-ui/oracle.ts";
import { script, waitFor } from "../../support/engine.ts";
import { toFrames } from "../sse-reader.ts";
import { type AgUiBench, input, openAgUi, toTold } from "./ag-ui-bench.ts";

let bench: AgUiBench;

beforeAll(async () => {
  bench = await openAgUi();
});

afterAll(async () => {
  await bench.close();
});

const PROMPT = script({ say: "a b c d", chunks: 4 }, { shell: "echo hi" }, { think: "hm" }, { say: "end" });

describe("a reader that reconnects", () => {
  it("resumes behind every frame and starts no second run (AG-30)", async () => {
    const body = input("back", PROMPT);
    const whole = await (await bench.post(body)).text();
    const frames = toFrames(whole);
    expect(frames.every(({ id }) => id !== undefined)).toBe(true);
    for (const [at, { id }] of frames.entries()) {
      const headers = { "last-event-id": id ?? "", "x-run-id": String(body["runId"]) };
      const rest = toFrames(await (await bench.post(body, { headers })).text());
      expect(rest).toEqual(frames.slice(at + 1));
    }
    const again = await bench.run(body);
    expect(again).toEqual(toTold(whole));
    const events = await bench.test.engine.info("back");
    expect(events).toMatchObject({ status: "idle", queued: 0 });
    const turns = await bench.test.log.read("back", {
      after: 0,
      limit: 1000,
      types: new Set(["turn.started"]),
    });
    expect(turns).toHaveLength(1);
  });

  it("is refused before the run if its run id does not fit into a header", async () => {
    const response = await bench.post({ ...input("unpaired", PROMPT), runId: "run-\ud800" });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("unpaired surrogates");
    await expect(bench.test.engine.info("unpaired")).rejects.toMatchObject({ code: "session_not_found" });
  });

  it("joins a finished and a live run from the start (TS-35)", async () => {
    const body = input(
      "join",
      script({ say: "a" }, { shell: "until [ -e go ]; do sleep 0.05; done" }, { say: "b" }),
    );
    const first = bench.run(body);
    await vi.waitUntil(() => bench.test.log.find("join"), { timeout: 30_000 });
    await waitFor(bench.test.log, "join", "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    const joined = bench.call("GET", `/ag-ui/scripted?offset=-1&runId=${String(body["runId"])}`);
    const late = await bench.call("GET", `/ag-ui/scripted?offset=now&runId=${String(body["runId"])}`);
    const files = await bench.test.engine.files("join");
    await files.write("/workspace/go", Buffer.from(""));
    const told = await first;
    expect(toTold(await (await joined).text())).toEqual(told);
    const heard = toTold(await late.text());
    await expectTellable(heard);
    expect(typesOf(heard).slice(0, 2)).toEqual(["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
    expect(heard.at(-1)).toEqual(told.at(-1));
    const replayed = await bench.call("GET", `/ag-ui/scripted?offset=-1&runId=${String(body["runId"])}`);
    expect(toTold(await replayed.text())).toEqual(told);
  });

  it("gets an error for unknown or lost positions (404, 400, 410)", async () => {
    const body = input("gone", "hello");
    await bench.run(body);
    const get = async (query: string) => (await bench.call("GET", `/ag-ui/scripted?${query}`)).status;
    expect(await get("offset=-1&runId=nobody")).toBe(404);
    expect(await get(`offset=abc&runId=${String(body["runId"])}`)).toBe(400);
    expect(await get(`offset=99999&runId=${String(body["runId"])}`)).toBe(410);
    expect(await get(`offset=1&runId=${String(body["runId"])}`)).toBe(200);
    const second = input("gone", "again");
    await bench.run(second);
    expect(await get(`offset=1&runId=${String(second["runId"])}`)).toBe(410);
    expect(await get("offset=-1")).toBe(400);
    const headers = { "last-event-id": "3" };
    expect((await bench.post(input("gone", "x"), { headers })).status).toBe(404);
    const other = await bench.call("POST", "/ag-ui/nobody", { json: input("other", "x") });
    expect(other.status).toBe(404);
    expect(other.headers.get("content-type")).toContain("application/json");
  });

  it("replays all runs of a thread in order (AG-22, AG-33)", async () => {
    await bench.run(input("many", PROMPT));
    await bench.test.engine.send("many", {
      content: [{ type: "text", text: "from elsewhere" }],
      via: "test",
    });
    await waitFor(bench.test.log, "many", "turn.ended", { after: 40, timeoutMs: 10_000 }).catch(() => {});
    await vi.waitUntil(async () => (await bench.test.engine.info("many")).status === "idle", {
      timeout: 30_000,
    });
    await bench.run(input("many", PROMPT));
    const told = toTold(await (await bench.call("GET", "/ag-ui/scripted?threadId=many&offset=-1")).text());
    await expectTellable(told);
    expect(told.filter(({ type }) => type === "RUN_STARTED")).toHaveLength(3);
    expect(told.filter(({ type, role }) => type === "TEXT_MESSAGE_START" && role === "user")).toHaveLength(3);
    const again = toTold(await (await bench.call("GET", "/ag-ui/scripted?threadId=many&offset=-1")).text());
    expect(again).toEqual(told);
  });

  it("gets lines if it accepts them (TS-37)", async () => {
    const body = input("lines", PROMPT);
    const response = await bench.post(body, { headers: { accept: "application/x-ndjson" } });
    expect(response.headers.get("content-type")).toContain("application/x-ndjson");
    const lines = (await response.text())
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { id: string; chunk: Told });
    expect(lines.every(({ id, chunk }) => typeof id === "string" && typeof chunk.type === "string")).toBe(
      true,
    );
    expect(lines.map(({ chunk }) => chunk)).toEqual(await bench.run(body));
  });

  it("frames with LF alone, one data line each, and pings as comments (AG-07)", async () => {
    const text = await (await bench.post(input("frames", script({ say: "a\r\nb\u2028" })))).text();
    expect(text).not.toContain("\r");
    for (const block of text.split("\n\n").filter((block) => block.includes("data:")))
      expect(block.split("\n").filter((line) => line.startsWith("data: "))).toHaveLength(1);
  });
});

interface PageOfMessages {
  readonly messages: unknown[];
  readonly page: { readonly truncated: boolean; readonly cursor?: string };
}

async function readPage(query: string): Promise<PageOfMessages> {
  return (await (await bench.call("GET", `/ag-ui/scripted?${query}`)).json()) as PageOfMessages;
}

describe("a client that disconnects", () => {
  it("ends its run only with cancelOnDisconnect (AG-30, TS-39)", async () => {
    for (const [threadId, query, status] of [
      ["stays", "", "running"],
      ["ends", "?cancelOnDisconnect=1", "idle"],
    ] as const) {
      const abort = new AbortController();
      const body = input(threadId, script({ shell: "sleep 60" }));
      const response = await fetch(`${bench.url}/ag-ui/scripted${query}`, {
        method: "POST",
        body: JSON.stringify(body),
        signal: abort.signal,
      });
      await waitFor(bench.test.log, threadId, "item.started", {
        where: ({ data }) => data.item.kind === "tool_result",
      });
      abort.abort();
      await response.text().catch(() => {});
      if (status === "idle") {
        const ended = await waitFor(bench.test.log, threadId, "turn.ended");
        expect(ended.data.status).toBe("interrupted");
      }
      expect((await bench.test.engine.info(threadId)).status).toBe(status);
    }
    await bench.call("DELETE", "/ag-ui/scripted?threadId=stays");
  });
});

describe("the agent's own session id", () => {
  it("continues the session with or without the thread, and an unknown one is an error (TS-13)", async () => {
    const first = await bench.run(input("native", "hello"));
    const named = first.find(({ name }) => name === "scripted.session-id") as unknown as {
      value: { sessionId: string };
    };
    const { sessionId } = named.value;
    const again = await bench.run(
      input("native", script({ say: "$history" }), { forwardedProps: { sessionId } }),
    );
    expect(again.find(({ name }) => name === "scripted.session-id")).toMatchObject({ value: { sessionId } });
    const alone = await bench.run(
      input("native-2", script({ say: "$history" }), { forwardedProps: { sessionId } }),
    );
    expect(alone[0]).toMatchObject({ threadId: "native-2" });
    const words = alone
      .filter(({ type }) => type === "TEXT_MESSAGE_CONTENT")
      .map(({ delta }) => delta)
      .join("");
    expect(words).toContain("hello");
    const page = await readPage("threadId=native-2");
    expect(page.messages.length).toBeGreaterThan(4);
    expect(page.messages).toEqual((await readPage("threadId=native")).messages);
    const later = await bench.run(input("native-2", script({ say: "$history" })));
    expect(JSON.stringify(later)).toContain("hello");
    const unknown = await bench.run(input("native-3", "x", { forwardedProps: { sessionId: "nobody" } }));
    await expectTellable(unknown);
    expect(unknown.at(-1)).toMatchObject({ type: "RUN_ERROR", code: "session_not_found" });
  });
});

describe("the client's own ids", () => {
  it("may be any text, as `useId()` makes them", async () => {
    for (const threadId of [":r1:", "an/odd thread?", "日本"]) {
      const body = input(threadId, script({ say: "x" }));
      const told = await bench.run(body);
      await expectTellable(told);
      expect(told[0]).toMatchObject({ threadId, runId: body["runId"] });
      const query = `threadId=${encodeURIComponent(threadId)}`;
      expect((await readPage(query)).messages).toHaveLength(2);
      const replay = await bench.call("GET", `/ag-ui/scripted?${query}&offset=-1`);
      expect(toTold(await replay.text()).at(-1)).toEqual(told.at(-1));
      expect((await bench.call("DELETE", `/ag-ui/scripted?${query}`)).status).toBe(204);
    }
  });

  it("of runs may be equal in two threads, and each thread resumes its own", async () => {
    const bodies = ["same-1", "same-2"].map((threadId) =>
      input(threadId, script({ say: threadId }), { runId: "run" }),
    );
    const [first = [], second = []] = [await bench.run(bodies[0] ?? {}), await bench.run(bodies[1] ?? {})];
    const path = "/ag-ui/scripted?offset=-1&runId=run&threadId=";
    const again = await (await bench.call("GET", `${path}same-1`)).text();
    expect(toTold(again)).toEqual(first);
    expect(toTold(await (await bench.call("GET", `${path}same-2`)).text())).toEqual(second);
    const { id } = toFrames(again)[2] ?? {};
    const rest = await bench.post(bodies[0] ?? {}, { headers: { "last-event-id": id ?? "" } });
    expect(toTold(await rest.text())).toEqual(first.slice(3));
  });
});
