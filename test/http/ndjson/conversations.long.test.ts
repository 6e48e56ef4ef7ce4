import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { fromReplay } from "../../../src/dialects/ndjson/index.ts";
import { ofType, readAll, runTurn, script, waitFor } from "../../support/engine.ts";
import { codeOf } from "../app-bench.ts";
import { messagesOf, type NdjsonBench, openNdjson, readRun, type Run } from "./ndjson-bench.ts";

let bench: NdjsonBench;
beforeAll(async () => {
  bench = await openNdjson({ token: "t0ken" });
});
afterAll(() => bench.close());

const headers = { authorization: "Bearer t0ken" };
const read = async <T>(path: string): Promise<T> =>
  (await (await bench.call("GET", `/ndjson${path}`, { headers })).json()) as T;
const messages = async (id: string): Promise<{ role: string; content: string }[]> =>
  (await read<{ messages: { role: string; content: string }[] }>(`/conversations/${id}?limit=1000`)).messages;
const resultOf = ({ lines }: Run): string => (lines.at(-1) as { message: string }).message;

describe("a conversation", () => {
  it("has the final message once, as the assistant's (ND-14)", async () => {
    const first = await bench.run("m-1", { say: "aside" }, { shell: "true" }, { say: "final" });
    await Promise.all([messages("m-1"), messages("m-1"), messages("m-1")]);
    const found = await messages("m-1");
    expect(found).toMatchObject([
      { role: "user" },
      { role: "assistant", content: "final", turn: first.turn },
    ]);
    await bench.run("m-1", { fail: { kind: "terminal" } });
    expect((await messages("m-1")).map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  });

  it("continues after turns were trimmed before they were read", async () => {
    await bench.run("m-t", { say: "one" });
    await messages("m-t");
    for (const say of ["two", "three"]) {
      await runTurn(bench.test, "m-t", script({ say }));
      if (say === "two") await bench.test.log.trim("m-t", (await bench.test.log.find("m-t"))?.head ?? 0);
    }
    const contents = (await messages("m-t")).map(({ content }) => content);
    expect(contents).toContain("one");
    expect(contents.at(-1)).toBe("three");
  });

  it("is paged", async () => {
    for (const word of ["one", "two"]) await bench.run("m-2", { say: word });
    const page = await read<{ messages: unknown[]; next: number }>("/conversations/m-2?limit=3");
    const rest = await read<{ messages: unknown[]; next?: number }>(
      `/conversations/m-2?limit=3&cursor=${page.next}`,
    );
    expect([page.messages.length, rest.messages.length, rest.next]).toEqual([3, 1, undefined]);
  });

  it("is continued by its id, and remembered by its agent", async () => {
    const { conversation } = await readRun(await bench.post("/stream", { prompt: script({ say: "hello" }) }));
    const next = await bench.run(conversation, { say: "$history" });
    expect(next.conversation).toBe(conversation);
    expect(resultOf(next)).toBe(script({ say: "hello" }));
  });

  it("gives the agent the newest turns without older ones (ND-31)", async () => {
    const say = async (word: string): Promise<Run> =>
      readRun(await bench.post("/stream", { conversation: "m-3", prompt: word, replayTurnLimit: 3 }));
    for (const word of ["one", "two", "three", "four", "five"]) await say(word);
    const told = resultOf(await say(script({ say: "$history" }))).split("\n");
    expect(told).toEqual(["three", "four", "five"]);
    const again = resultOf(await say(script({ say: "$history" }))).split("\n");
    expect(again).toEqual(["four", "five", script({ say: "$history" })]);
    const inputs = ofType(await readAll(bench.test.log, "m-3"), "input.accepted");
    const replays = inputs.map(({ data }) =>
      fromReplay(data.content)?.earlier_conversation.map(({ user }) => user),
    );
    expect(replays).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      ["two", "three", "four"],
      ["three", "four", "five"],
      ["four", "five", script({ say: "$history" })],
    ]);
    expect(await messages("m-3")).toHaveLength(14);
  });

  it("takes at most 20 turns of a client's history (ND-31)", async () => {
    const history = Array.from({ length: 25 }, (_, index) => [
      { role: "user", content: `question ${index + 1}` },
      { role: "assistant", content: [{ type: "text", text: `answer ${index + 1}` }] },
    ]).flat();
    const system = { role: "system", content: "Be brief." };
    const body = { messages: [system, ...history, { role: "user", content: script({ say: "$history" }) }] };
    const run = await readRun(await bench.post("/stream", body));
    const told = resultOf(run).split("\n");
    expect(told).toEqual(Array.from({ length: 20 }, (_, index) => `question ${index + 6}`));
    const [input] = ofType(await readAll(bench.test.log, run.conversation), "input.accepted");
    expect(fromReplay(input?.data.content ?? [])).toMatchObject({ omitted_turns: 5 });
    expect(JSON.stringify(input)).not.toContain("answer 5");
    expect((await bench.test.log.find(run.conversation))?.spec.instructions).toBe("Be brief.");
    // A client's history belongs to the conversation and is not taken twice.
    expect(await messages(run.conversation)).toHaveLength(42);
    const next = resultOf(await bench.run(run.conversation, { say: "$history" })).split("\n");
    expect(next.slice(0, 2)).toEqual(["question 7", "question 8"]);
    expect(next).toHaveLength(20);
  });

  it("has the turns of other dialects too", async () => {
    await bench.test.engine.create("m-4", { agent: "scripted" });
    const content = [{ type: "text" as const, text: script({ say: "from elsewhere" }) }];
    const { turnId } = await bench.test.engine.send("m-4", { content, via: "universal" });
    await bench.ended("m-4", turnId);
    expect((await messages("m-4")).at(-1)).toMatchObject({ role: "assistant", content: "from elsewhere" });
  });

  it("is gone after its deletion, and a new one with its id starts empty", async () => {
    await bench.run("m-5", { say: "old" });
    expect(await messages("m-5")).toHaveLength(2);
    const gone = await bench.call("DELETE", "/ndjson/conversations/m-5", { headers });
    expect(gone.status).toBe(204);
    const missing = await bench.call("GET", "/ndjson/conversations/m-5", { headers });
    expect(await codeOf(missing)).toBe("session_not_found");
    await bench.run("m-5", { say: "new" });
    expect((await messages("m-5")).map(({ content }) => content)).toEqual([script({ say: "new" }), "new"]);
  });
});

function form(files: readonly [string, string | Uint8Array][]): FormData {
  const data = new FormData();
  data.append("note", "a field is no file");
  for (const [name, content] of files) data.append("files", new Blob([content as BlobPart]), name);
  return data;
}

describe("the assets of a run", () => {
  const upload = (
    otp: string,
    files: readonly [string, string | Uint8Array][],
    query = "",
  ): Promise<Response> =>
    bench.call("POST", `/ndjson/results${query}`, {
      body: form(files),
      headers: { authorization: `Bearer ${otp}` },
    });
  const assets = async (id: string): Promise<{ id: string; name: string }[]> =>
    (await read<{ assets: { id: string; name: string }[] }>(`/conversations/${id}/assets`)).assets;

  it("are accepted once, with the password of its dispatch (ND-29)", async () => {
    const { otp, turn } = await bench.run("a-1", { say: "x" });
    const files: [string, string][] = [
      ["report.txt", "first"],
      ["dir/../Bericht für Ä.md", "second"],
      ["report.txt", "third"],
      [".hidden.csv", "fourth"],
    ];
    const taken = await upload(otp, files);
    expect(taken.status).toBe(200);
    expect(await taken.json()).toMatchObject({ conversation: "a-1", turn, assets: { length: 4 } });
    const found = await assets("a-1");
    expect(found.map(({ name }) => name)).toEqual([
      "report.txt",
      "Bericht_f_r_.md",
      "report-2.txt",
      "hidden.csv",
    ]);
    const path = `/ndjson/conversations/a-1/assets/${found[2]?.id}`;
    const content = await bench.call("GET", path, { headers });
    expect(await content.text()).toBe("third");
    expect(content.headers.get("content-disposition")).toMatch(/^attachment/);
    const again = await upload(otp, files);
    expect([again.status, await codeOf(again)]).toEqual([401, "token_invalid"]);
    expect(await assets("a-1")).toHaveLength(4);
  });

  it("need the password of their own run (ND-29)", async () => {
    const { otp } = await bench.run("a-2", { say: "x" });
    const other = await bench.run("a-3", { say: "x" });
    const statusOf = async (given: string, query = ""): Promise<number> =>
      (await upload(given, [["a.txt", "x"]], query)).status;
    expect(await statusOf("otp_wrong")).toBe(401);
    expect(await statusOf("t0ken")).toBe(401);
    expect(await statusOf(otp, "?conversation=a-3")).toBe(401);
    expect(await statusOf(otp, `?turn=${other.turn}`)).toBe(401);
    // The password opens nothing else.
    const elsewhere = await bench.call("GET", "/v1/sessions", {
      headers: { authorization: `Bearer ${otp}` },
    });
    expect(elsewhere.status).toBe(401);
    expect((await bench.call("POST", "/ndjson/results", { body: form([["a.txt", "x"]]) })).status).toBe(401);
    expect(await statusOf(otp, "?conversation=a-2")).toBe(200);
  });

  it("leave no file open after a HEAD request", async () => {
    const { otp } = await bench.run("a-head", { say: "x" });
    expect((await upload(otp, [["large.zip", new Uint8Array(4 * 1024 * 1024)]])).status).toBe(200);
    const [found] = await assets("a-head");
    const before = await descriptors();
    for (let times = 0; times < 20; times += 1) {
      const path = `/ndjson/conversations/a-head/assets/${found?.id}`;
      const head = await bench.call("HEAD", path, { headers });
      expect([head.status, head.headers.get("content-length")]).toEqual([200, String(4 * 1024 * 1024)]);
    }
    await vi.waitUntil(async () => (await descriptors()) < before + 10, { timeout: 10_000 });
  });

  it("are accepted from one of two concurrent requests, as a whole", async () => {
    const { otp } = await bench.run("a-4", { say: "x" });
    const answers = await Promise.all([1, 2, 3].map((n) => upload(otp, [[`${n}.txt`, "x"]])));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 401, 401]);
    expect(await assets("a-4")).toHaveLength(1);
  });

  it("have limits of count, size and name, and a refused request does not use the password", async () => {
    const { otp } = await bench.run("a-5", { say: "x" });
    const many = Array.from({ length: 21 }, (_, index): [string, string] => [`${index}.txt`, "x"]);
    const big = new Uint8Array(25 * 1024 * 1024 + 1);
    const half = new Uint8Array(17 * 1024 * 1024);
    const statusOf = async (files: readonly [string, string | Uint8Array][]): Promise<number> =>
      (await upload(otp, files)).status;
    expect(await statusOf(many)).toBe(413);
    expect(await statusOf([["big.zip", big]])).toBe(413);
    expect(await statusOf(["a", "b", "c"].map((name) => [`${name}.zip`, half] as [string, Uint8Array]))).toBe(
      413,
    );
    expect(await statusOf([["run.exe", "x"]])).toBe(400);
    expect(await statusOf([["noname", "x"]])).toBe(400);
    expect(await statusOf([])).toBe(400);
    expect(await assets("a-5")).toEqual([]);
    expect(await statusOf([["fine.txt", "x"]])).toBe(200);
  });

  it("of a successful run appear at its end", async () => {
    const { upload: given, turn } = await bench.chat("a-6", { sleep: 1500 }, { say: "x" });
    expect((await upload(given.password, [["early.txt", "x"]])).status).toBe(200);
    expect(await assets("a-6")).toEqual([]);
    await bench.ended("a-6", turn);
    expect((await assets("a-6")).map(({ name }) => name)).toEqual(["early.txt"]);
  });

  it("of a cancelled run are dropped, and its password expires unused (ND-28)", async () => {
    const early = await bench.chat("a-7", { sleep: 60_000 });
    await waitFor(bench.test.log, "a-7", "turn.started");
    expect((await upload(early.upload.password, [["early.txt", "x"]])).status).toBe(200);
    await bench.test.engine.interrupt("a-7");
    expect(await assets("a-7")).toEqual([]);

    const late = await bench.chat("a-8", { sleep: 60_000 });
    await waitFor(bench.test.log, "a-8", "turn.started");
    await bench.test.engine.interrupt("a-8");
    const refused = await upload(late.upload.password, [["late.txt", "x"]]);
    expect([refused.status, await codeOf(refused)]).toEqual([412, "precondition_failed"]);
    expect(await assets("a-8")).toEqual([]);
    const passwords = await bench.catalog.list("default", { kind: "ndjson_password", limit: 100 });
    const ofRun = passwords.filter(({ body }) => (body as { turn: string }).turn === late.turn);
    expect(ofRun).toMatchObject([{ body: { conversation: "a-8" } }]);
    expect(ofRun[0]?.body).not.toHaveProperty("usedAt");
  });

  it("have passwords that are stored as hashes only", async () => {
    const { otp } = await bench.run("a-9", { say: "x" });
    for (const name of await readdir(bench.folder, { recursive: true })) {
      const bytes = await readFile(join(bench.folder, name)).catch(() => Buffer.alloc(0));
      expect(bytes.includes(otp), name).toBe(false);
    }
    const events = JSON.stringify(await readAll(bench.test.log, "a-9", true));
    expect(events).not.toContain(otp);
  });

  it("are refused after the password has expired (ND-28)", async () => {
    const brief = await openNdjson({ ndjson: { uploadTtlMs: 1 } });
    try {
      const { otp } = await brief.run("a-10", { say: "x" });
      const late = await brief.call("POST", "/ndjson/results", {
        body: form([["a.txt", "x"]]),
        headers: { authorization: `Bearer ${otp}` },
      });
      expect([late.status, await codeOf(late)]).toEqual([401, "token_invalid"]);
      expect(await messagesOf(brief, "a-10")).toHaveLength(2);
    } finally {
      await brief.close();
    }
  });
});

async function descriptors(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}
