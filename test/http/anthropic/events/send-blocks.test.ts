import { Buffer } from "node:buffer";
import { toFile } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, failureOf, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  expectListed,
  history,
  makeSession,
  message,
  ofType,
  text,
  turn,
  typesOf,
  watch,
} from "../session-bench.ts";

let bench: AnthropicBench;

beforeAll(async () => {
  bench = await openAnthropic();
});

afterAll(() => bench.close());

const system = (words: string) => ({ type: "system.message", content: [{ type: "text", text: words }] });

const said = (events: readonly Event[]): string =>
  ofType(events, "agent.message")
    .flatMap(({ content }) => content.map((block) => (block.type === "text" ? block.text : "")))
    .join("\n");

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

describe("blocks", () => {
  it("D2, D3: of every kind are accepted, echoed unchanged, and reach the agent", async () => {
    const { id } = await makeSession(bench);
    const image = await bench.client.beta.files.upload({
      file: await toFile(Buffer.from(PNG, "base64"), "dot.png", { type: "image/png" }),
    });
    const document = await bench.client.beta.files.upload({
      file: await toFile(Buffer.from("the words of the file"), "words.txt", { type: "text/plain" }),
    });
    const path = `/mnt/session/uploads/${document.id}/words.txt`;
    const content = [
      { type: "text", text: text({ shell: "cat /mnt/session/uploads/*/words.txt" }) },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
      { type: "image", source: { type: "file", file_id: image.id } },
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" }, title: "t" },
      { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
      {
        type: "document",
        source: { type: "file", file_id: document.id },
        title: "input",
        citations: { enabled: true },
      },
    ];
    const events = await watch(bench, id, () => bench.send(id, { type: "user.message", content }));
    expect(events[0]).toMatchObject({ type: "user.message", content });
    expect(ofType(events, "agent.tool_result")[0]).toMatchObject({ is_error: false });
    expect(JSON.stringify(ofType(events, "agent.tool_result")[0]?.content)).toContain(
      "the words of the file",
    );
    const files = await bench.test.engine.files(id);
    expect(Buffer.from(await files.read(path)).toString()).toBe("the words of the file");
    await expectListed(bench, id, events);
  });

  it("D5: a search_result is refused in a message", async () => {
    const { id } = await makeSession(bench);
    const block = { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "x" }] };
    const { error } = await failureOf(bench, () =>
      bench.send(id, { type: "user.message", content: [block] }),
    );
    expect(error.status).toBe(400);
    expect(error.message).toContain("search_result");
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });

  it("that name a missing file are refused with the whole batch", async () => {
    const { id } = await makeSession(bench);
    const content = [{ type: "document", source: { type: "file", file_id: "file_nope" } }];
    const { error } = await failureOf(bench, () =>
      bench.send(id, message("hi"), { type: "user.message", content }),
    );
    expect(error.status).toBe(404);
    expect(await history(bench, id)).toEqual([]);
  });

  it("D6: tool results accept text, image, document and search_result", async () => {
    const custom = { type: "custom", name: "look", description: "", input_schema: { type: "object" } };
    const content = [
      { type: "text", text: "some text" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "document words" } },
      {
        type: "search_result",
        source: "https://example.com/found",
        title: "Found",
        content: [{ type: "text", text: "found words" }],
        citations: { enabled: true },
      },
    ];
    const own = await makeSession(bench, { tools: [custom] });
    const first = await turn(bench, own.id, { custom: { name: "look", input: {} } });
    const custom_tool_use_id = ofType(first, "agent.custom_tool_use")[0]?.id;
    const second = await watch(bench, own.id, () =>
      bench.send(own.id, { type: "user.custom_tool_result", custom_tool_use_id, content }),
    );
    expect(second[0]).toMatchObject({ content });
    for (const words of ["some text", "image/png", "document words", "found words"])
      expect(said(second)).toContain(words);

    const away = await makeSession(bench, { selfHosted: true });
    const third = await turn(bench, away.id, { shell: "look" }, { say: "seen" });
    const tool_use_id = ofType(third, "agent.tool_use")[0]?.id;
    const fourth = await watch(bench, away.id, () =>
      bench.send(away.id, { type: "user.tool_result", tool_use_id, content }),
    );
    expect(fourth[0]).toMatchObject({ content });
    expect(said(fourth)).toBe("seen");
  });
});

describe("a system message", () => {
  it("D7: follows its message and applies to this turn and the next", async () => {
    const { id } = await makeSession(bench);
    const events = await watch(bench, id, () =>
      bench.send(id, message(text({ say: "one" })), system("speak Latin")),
    );
    expect(typesOf(events).slice(0, 3)).toEqual(["user.message", "system.message", "session.status_running"]);
    expect(events[1]).toMatchObject(system("speak Latin"));
    const next = await turn(bench, id, { say: "$history" });
    expect(said(next)).toContain("speak Latin");
    await expectListed(bench, id, [...events, ...next]);
  });

  it("D8, D10: anywhere else is refused with its whole batch", async () => {
    const { id } = await makeSession(bench);
    const hi = message("hi");
    const batches = [
      [system("x")],
      [system("x"), hi],
      [hi, system("x"), hi],
      [hi, system("x"), system("y")],
      [{ type: "user.interrupt" }, system("x")],
      [{ type: "user.tool_confirmation", tool_use_id: "sevt_x", result: "allow" }, system("x")],
      [hi, { type: "system.message", content: [] }],
      [
        hi,
        { type: "system.message", content: [{ type: "image", source: { type: "url", url: "https://a.b" } }] },
      ],
    ];
    for (const batch of batches) {
      const { error } = await failureOf(bench, () => bench.send(id, ...batch));
      expect(error.status, JSON.stringify(batch)).toBe(400);
    }
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });

  it("D9: may follow a tool's result", async () => {
    const custom = { type: "custom", name: "look", description: "", input_schema: { type: "object" } };
    const own = await makeSession(bench, { tools: [custom] });
    const first = await turn(bench, own.id, { custom: { name: "look", input: {} } });
    const custom_tool_use_id = ofType(first, "agent.custom_tool_use")[0]?.id;
    const content = [{ type: "text", text: "seen" }];
    const second = await watch(bench, own.id, () =>
      bench.send(
        own.id,
        { type: "user.custom_tool_result", custom_tool_use_id, content },
        system("be brief"),
      ),
    );
    expect(typesOf(second).slice(0, 2)).toEqual(["user.custom_tool_result", "system.message"]);
    expect(said(second)).toContain("be brief");

    const away = await makeSession(bench, { selfHosted: true });
    const third = await turn(bench, away.id, { shell: "look" });
    const tool_use_id = ofType(third, "agent.tool_use")[0]?.id;
    const fourth = await watch(bench, away.id, () =>
      bench.send(away.id, { type: "user.tool_result", tool_use_id, content }, system("be brief")),
    );
    expect(typesOf(fourth).slice(0, 2)).toEqual(["user.tool_result", "system.message"]);
    await expectListed(bench, away.id, [...third, ...fourth]);
  });
});
