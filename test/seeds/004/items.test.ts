import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContentPart, Item, SluiceEvent } from "../../../src/contract/index.ts";
import { expectItemsClose } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { PARTS } from "./page.ts";
import { awaitTurn, create, EVERYTHING, ofType, post, readEvents, runTurn, send } from "./transcript.ts";

describe("seed 004, items and content parts", () => {
  let server: TestServer;
  let events: SluiceEvent[];
  let items: Item[];
  beforeAll(async () => {
    server = await startServer();
    await create(server, "s");
    await runTurn(server, "s", ...EVERYTHING);
    events = await readEvents(server, "s");
    items = ofType(events, "item.completed").map((event) => event.data.item);
  });
  afterAll(() => server.close());

  const parts = <T extends ContentPart["type"]>(type: T): Extract<ContentPart, { type: T }>[] =>
    items.flatMap((item) => item.content).filter((part) => part.type === type) as never;
  const itemWith = (text: string, kinds: Item["kind"][] = ["message"]): Item => {
    const found = items.find(
      (item) => kinds.includes(item.kind) && item.role !== "user" && JSON.stringify(item).includes(text),
    );
    if (!found) throw new Error(`no item has ${text}`);
    return found;
  };

  it("items follow item.started → item.delta (0 or more) → item.completed", () => {
    expectItemsClose(events);
    for (const { data } of ofType(events, "item.started")) expect(data.item.status).toBe("in_progress");
    for (const { data } of ofType(events, "item.completed")) expect(data.item.status).not.toBe("in_progress");
  });

  it("an item is the same one from its start to its end", () => {
    for (const { data } of ofType(events, "item.started")) {
      const end = items.find((item) => item.item_id === data.item.item_id);
      const { status: _, content: __, ...started } = data.item;
      expect(end).toMatchObject(started);
    }
  });

  it("item.delta: streaming content, which adds up to the item's own", () => {
    const streamed = new Map<string, string>();
    for (const { data } of ofType(events, "item.delta")) {
      streamed.set(data.item_id, (streamed.get(data.item_id) ?? "") + data.delta);
    }
    expect(streamed.size).toBeGreaterThan(6);
    for (const [id, text] of streamed) {
      const [part] = items.find((item) => item.item_id === id)?.content ?? [];
      const whole =
        part?.type === "tool_result" ? part.output : part && "text" in part ? part.text : undefined;
      expect(whole).toBe(text);
    }
  });

  it("one native delta is one item.delta", async () => {
    await create(server, "deltas");
    await runTurn(server, "deltas", { say: "abcdefghij", chunks: 5 });
    const deltas = ofType(await readEvents(server, "deltas"), "item.delta").map(({ data }) => data.delta);
    expect(deltas).toEqual(["ab", "cd", "ef", "gh", "ij"]);
  });

  it("item_id is the daemon's and unique, native_item_id the provider's", () => {
    expect(new Set(items.map((item) => item.item_id)).size).toBe(items.length);
    for (const item of items) {
      expect(item.item_id).toMatch(/^itm_/);
      if (item.role !== "user") expect(item.native_item_id).toMatch(/^[a-z]+_/);
    }
  });

  it("parent_id: a result is parented to its call, a sub-agent's items to the sub-agent's call", () => {
    const calls = new Map(
      items.filter(({ kind }) => kind === "tool_call").map((item) => [item.item_id, item]),
    );
    for (const result of items.filter(({ kind }) => kind === "tool_result")) {
      const call = calls.get(result.parent_id ?? "");
      const [called, came] = [call?.content[0], result.content[0]];
      expect(called?.type === "tool_call" && came?.type === "tool_result" && called.call_id).toBe(
        came?.type === "tool_result" && came.call_id,
      );
    }
    const nested = itemWith("nested");
    expect(calls.get(nested.parent_id ?? "")?.content[0]).toMatchObject({ name: "subagent" });
    const event = ofType(events, "item.completed").find(({ data }) => data.item.item_id === nested.item_id);
    expect(event?.parent_id).toBe(nested.parent_id);
  });

  it("ItemKind, ItemRole and ItemStatus: all that the agent can show", () => {
    const seen = new Set(items.map(({ kind, role, status }) => `${kind} ${role} ${status}`));
    expect([...seen].toSorted()).toEqual([
      "message assistant completed",
      "message user completed",
      "status assistant completed",
      "tool_call assistant completed",
      "tool_result tool completed",
      "tool_result tool failed",
    ]);
  });

  it("failed: the execution failed, by its exit code, by a missing file, by a denied permission", () => {
    expect(itemWith("broken", ["tool_result"]).status).toBe("failed");
    expect(itemWith("ENOENT", ["tool_result"]).status).toBe("failed");
    expect(itemWith("not today", ["tool_result"]).status).toBe("failed");
  });

  it("failed: a message that was cut off keeps what it had", async () => {
    await create(server, "cut");
    const turn = await send(
      server,
      "cut",
      { raw: '{"type":"text.started","id":"t1"}' },
      { raw: '{"type":"text.delta","id":"t1","text":"half"}' },
      { exit: 1 },
    );
    await awaitTurn(server, "cut", turn);
    const completed = ofType(await readEvents(server, "cut"), "item.completed").at(-1)?.data.item;
    expect(completed).toMatchObject({ status: "failed", content: [{ type: "text", text: "half" }] });
  });

  it("every content part of the page shows itself", () => {
    const seen = new Set(items.flatMap((item) => item.content.map((part) => part.type)));
    expect([...seen].toSorted()).toEqual(Object.keys(PARTS).toSorted());
  });

  it("text: plain text content", () => {
    expect(parts("text")).toContainEqual({ type: "text", text: "Hello, world!" });
  });

  it("json: structured JSON content, with a failed command's exit code", () => {
    expect(parts("json")).toContainEqual({ type: "json", json: { exit_code: 3 } });
  });

  it("tool_call: name, JSON-encoded arguments, unique call_id", () => {
    const calls = parts("tool_call");
    for (const call of calls) expect(JSON.parse(call.arguments)).toBeTypeOf("object");
    expect(new Set(calls.map((call) => call.call_id)).size).toBe(calls.length);
    expect(calls.map((call) => call.name)).toEqual(
      expect.arrayContaining(["shell", "write", "edit", "read", "delete", "weather", "mcp__nowhere__search"]),
    );
    const [shell] = calls;
    expect(JSON.parse(shell?.arguments ?? "")).toEqual({ command: "echo out; echo err >&2" });
  });

  it("tool_result: the matching call_id, and the output as it was, not encoded twice", () => {
    const calls = parts("tool_call").map((call) => call.call_id);
    const results = parts("tool_result");
    expect(results.map((result) => result.call_id).toSorted()).toEqual(calls.toSorted());
    expect(results[0]?.output).toBe("out\nerr\n");
    expect(results).toContainEqual(expect.objectContaining({ output: "one\nthree\n" }));
  });

  it("file_ref: read, write and patch, the patch with a unified diff", () => {
    const files = parts("file_ref");
    expect(files.find((file) => file.action === "read")).toEqual({
      type: "file_ref",
      path: "src/main.ts",
      action: "read",
    });
    expect(files.find((file) => file.action === "write")).toMatchObject({ path: "src/main.ts" });
    const patch = files.find((file) => file.action === "patch");
    expect(patch?.path).toBe("src/main.ts");
    expect(patch?.diff).toMatch(/^@@ -1,2 \+1,2 @@$/m);
    expect(patch?.diff).toContain("\n-two\n+three\n");
  });

  it("image: a MIME type, and the path of a file with the agent's bytes in it", async () => {
    const [image] = parts("image");
    expect(image).toEqual({ type: "image", path: expect.stringMatching(/^\/.*\.png$/), mime: "image/png" });
    const query = new URLSearchParams({ session: "s", path: image?.path ?? "" });
    const file = await server.fetch(`/v1/fs/file?${query}`);
    expect(Buffer.from(await file.arrayBuffer()).toString("base64")).toBe("iVBORw0KGgo=");
  });

  it("image: bytes that a user attached are such a file too", async () => {
    await create(server, "seen");
    const attachments = [{ path: "data:image/jpeg;base64,/9j/4A==", mime: "image/jpeg" }];
    const sent = await post(server, "seen/messages", { message: '#script [{"say":"seen"}]', attachments });
    await awaitTurn(server, "seen", sent.headers.get("sluice-turn-id") ?? "");
    const plain = JSON.stringify(await readEvents(server, "seen"));
    expect(plain).not.toContain("data:image");
    const [path = ""] = /\/mnt\/[^"]*\.jpg/.exec(plain) ?? [];
    const file = await server.fetch(`/v1/fs/file?${new URLSearchParams({ session: "seen", path })}`);
    expect(Buffer.from(await file.arrayBuffer()).toString("base64")).toBe("/9j/4A==");
  });

  it("reasoning: text and visibility", () => {
    expect(parts("reasoning")).toEqual([
      { type: "reasoning", text: "Let me think about this.", visibility: "public" },
    ]);
  });

  it("status: label and detail, for a plan and for a compaction", () => {
    expect(parts("status")).toEqual([
      { type: "status", label: "plan", detail: "1 of 2 done: answer" },
      { type: "status", label: "context compacted", detail: expect.any(String) },
    ]);
  });

  it("status: a plan's steps can be read beside it", () => {
    const plan = items.find(({ content: [part] }) => part?.type === "status" && part.label === "plan");
    expect(plan?.content[1]).toEqual({
      type: "json",
      json: {
        entries: [
          { content: expect.any(String), status: "completed", priority: expect.any(String) },
          { content: "answer", status: "in_progress", priority: expect.any(String) },
        ],
      },
    });
  });

  it("Images and File Attachments: a message's attachments are in the user's item, and reach the agent", async () => {
    await create(server, "attached");
    const attachments = [{ path: "notes.txt" }, { path: "shot.png", mime: "image/png", filename: "Shot" }];
    const sent = await post(server, "attached/messages", { message: "look at these", attachments });
    await awaitTurn(server, "attached", sent.headers.get("sluice-turn-id") ?? "");
    await runTurn(server, "attached", { say: "$history" });
    const completed = ofType(await readEvents(server, "attached"), "item.completed");
    const user = completed.find(({ data }) => data.item.role === "user");
    expect(user?.data.item.content).toEqual([
      { type: "text", text: "look at these" },
      { type: "file_ref", path: "notes.txt", action: "read" },
      { type: "image", path: "shot.png", mime: "image/png" },
    ]);
    const history = JSON.stringify(completed.at(-1)?.data.item.content);
    expect(history).toContain("notes.txt");
    expect(history).toContain("shot.png");
  });
});
