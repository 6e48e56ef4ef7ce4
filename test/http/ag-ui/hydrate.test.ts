import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { script, waitFor } from "../../support/engine.ts";
import { type AgUiBench, input, openAgUi, toTold } from "./ag-ui-bench.ts";

let bench: AgUiBench;

beforeAll(async () => {
  bench = await openAgUi();
});

afterAll(async () => {
  await bench.close();
});

interface PageOfMessages {
  readonly messages: unknown[];
  readonly page: { readonly truncated: boolean; readonly cursor?: string };
}

async function readPage(query: string): Promise<PageOfMessages> {
  return (await (await bench.call("GET", `/ag-ui/scripted?${query}`)).json()) as PageOfMessages;
}

it("the stream of a thread refuses a place that the log does not have", async () => {
  await bench.run(input("cursors", script({ say: "hi" })));
  for (const offset of ["99999", "99999.0"]) {
    const answer = await bench.call("GET", `/ag-ui/scripted?threadId=cursors&offset=${offset}`);
    expect([offset, answer.status]).toEqual([offset, 410]);
  }
});

describe("the state of a reopened page (TS-38)", () => {
  it("has the messages, the live run and the open requests", async () => {
    const body = input(
      "page",
      script(
        { think: "hm" },
        { say: "first" },
        { shell: "echo hi" },
        { ask: { shell: "echo x" } },
        { say: "after" },
      ),
    );
    const told = await bench.run(body);
    const page = (await (await bench.call("GET", "/ag-ui/scripted?threadId=page")).json()) as {
      messages: { role: string; parts: { type: string }[] }[];
    };
    expect(page).toMatchObject({
      activeRun: null,
      interrupts: { runId: body["runId"], pending: [{ reason: "tool_call" }] },
    });
    const { outcome } = told.at(-1) as unknown as { outcome: { interrupts: unknown } };
    expect((page as unknown as { interrupts: { pending: unknown } }).interrupts.pending).toEqual(
      outcome.interrupts,
    );
    expect(
      page.messages.map(({ role, parts }) => [role as string].concat(parts.map(({ type }) => type))),
    ).toEqual([
      ["user", "text"],
      ["assistant", "thinking", "text", "tool-call", "tool-result", "tool-call"],
    ]);
    expect(await (await bench.call("GET", "/ag-ui/scripted?threadId=never")).json()).toEqual({
      messages: [],
      activeRun: null,
      interrupts: null,
      page: { truncated: false },
    });
  });

  it("comes in pages from the end, each of the requested length, without repeats", async () => {
    for (const words of ["one", "two", "three"])
      await bench.run(input("pages", script({ say: words }, { shell: "true" }, { say: `${words} done` })));
    const whole = await readPage("threadId=pages");
    expect(whole).toMatchObject({ page: { truncated: false } });
    expect(whole.messages).toHaveLength(9);
    for (const limit of [1, 2, 3, 4, 9, 10]) {
      const pages: unknown[][] = [];
      for (let before = ""; ;) {
        const { messages, page } = await readPage(`threadId=pages&limit=${limit}${before}`);
        pages.unshift(messages);
        if (!page.truncated) break;
        expect(messages).toHaveLength(limit);
        before = `&before=${page.cursor}`;
      }
      expect(pages.flat()).toEqual(whole.messages);
    }
    const { page } = await readPage("threadId=pages&limit=2");
    await bench.run(input("pages", script({ say: "four" })));
    const older = await readPage(`threadId=pages&limit=2&before=${String(page.cursor)}`);
    expect(older.messages).toEqual(whole.messages.slice(5, 7));
    const get = async (query: string) =>
      (await bench.call("GET", `/ag-ui/scripted?threadId=pages&${query}`)).status;
    expect(await get("limit=0")).toBe(400);
    expect(await get("before=x")).toBe(400);
    expect(await get("before=99999.1")).toBe(410);
  });

  it("reads only its own turns of a long thread", async () => {
    await bench.run(input("long", script({ flood: { events: 3000, bytes: 10 } })));
    await bench.run(input("long", script({ say: "a" }, { say: "b" })));
    const read = vi.spyOn(bench.test.log, "read");
    const { messages } = await readPage("threadId=long&limit=2");
    expect(messages).toHaveLength(2);
    const pages = await Promise.all(read.mock.results.map(({ value }) => value as Promise<unknown[]>));
    read.mockRestore();
    expect(pages.flat().length).toBeLessThan(3000);
  });

  it("names a live run and leaves its output to the joined stream", async () => {
    const body = input("live", script({ say: "a" }, { shell: "sleep 60" }));
    const response = await bench.post(body);
    await waitFor(bench.test.log, "live", "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    const page = await (await bench.call("GET", "/ag-ui/scripted?threadId=live")).json();
    expect(page).toMatchObject({
      activeRun: { runId: body["runId"] },
      interrupts: null,
      messages: [{ role: "user" }],
    });
    expect((page as { messages: unknown[] }).messages).toHaveLength(1);
    expect((await bench.post(input("live", "more"))).status).toBe(409);
    await bench.call("DELETE", "/ag-ui/scripted?threadId=live");
    expect(toTold(await response.text()).at(-1)).toMatchObject({ type: "RUN_ERROR", code: "cancelled" });
  });
});
