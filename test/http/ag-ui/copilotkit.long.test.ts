import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { createResumingFetch } from "../../../src/client/index.ts";
import { expectTellable } from "../../dialects/ag-ui/oracle.ts";
import { requireClient } from "../../support/clients.ts";
import { script, waitFor } from "../../support/engine.ts";
import { type AgUiBench, input, openAgUi, toTold } from "./ag-ui-bench.ts";
import { type CopilotKit, type CopilotPage, openCopilotKit } from "./copilot-kit.ts";
import { cuttingFetch } from "./cut.ts";

let bench: AgUiBench;
let kit: CopilotKit;
const { client, reason } = requireClient("copilotkit-1.75");

beforeAll(async () => {
  bench = await openAgUi();
  if (client) kit = await openCopilotKit(client, { url: `${bench.url}/ag-ui/scripted?cancelOnDisconnect=1` });
});
afterAll(async () => {
  if (client) await kit.close();
  await bench.close();
});

const PATIENT = { timeout: 20_000 };
const rolesOf = ({ agent }: CopilotPage): string[] => agent.messages.map(({ role }) => role);
const wordsOf = ({ agent }: CopilotPage): unknown[] =>
  agent.messages.filter(({ role }) => role !== "user").map(({ content }) => content);

describe("CopilotKit's runtime 1.75 in front of ours (AG-04)", () => {
  const errors: unknown[] = [];
  beforeEach(({ skip }) => {
    if (!client) skip(reason);
    vi.spyOn(console, "error").mockImplementation((...words) => void errors.push(words));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    expect(errors.splice(0)).toEqual([]);
  });

  it("forwards our events unchanged and replays them to new pages", async () => {
    const info = await fetch(`${kit.url}/info`);
    expect(info.status).toBe(200);
    expect(await info.json()).toMatchObject({ agents: { default: { name: "default" } } });
    const body = input("ck-raw", script({ think: "hm" }, { say: "a b" }, { shell: "echo hi" }, { say: "c" }));
    const run = await post("run", body);
    const passed = toTold(run.replaceAll("\r", ""));
    const ours = await bench.call("GET", `/ag-ui/scripted?offset=-1&runId=${String(body["runId"])}`);
    const told = toTold(await ours.text());
    await expectTellable(told);
    // The runtime adds the run's input to the first event.
    expect(passed[0]).toMatchObject(told[0] ?? {});
    expect(passed.slice(1)).toEqual(told.slice(1));
    const replayed = toTold(await post("connect", body));
    // The runtime joins the chunks of a message before a replay.
    expect([...new Set(replayed.map(({ type }) => type))]).toEqual([
      ...new Set(told.map(({ type }) => type)),
    ]);
  });

  it("chats with thoughts, text and tools, and remembers the first turn in the second", async () => {
    const page = kit.openPage("ck-chat");
    const first = script({ think: "hm" }, { say: "a b c" }, { shell: "echo hi" }, { say: "end" });
    await page.send(first);
    expect(rolesOf(page)).toEqual(["user", "reasoning", "assistant", "tool", "assistant"]);
    expect(wordsOf(page)).toEqual(["hm", "a b c", "hi\n", "end"]);
    await page.send(script({ say: "$history" }));
    expect(wordsOf(page).at(-1)).toContain(first);
    expect(page.errors).toEqual([]);
    const other = kit.openPage("ck-chat");
    await other.connect();
    expect(other.agent.messages).toEqual(page.agent.messages);
  });

  it("shows requests to every page, and any of them can answer (AG-16, AG-18, AG-21)", async () => {
    const page = kit.openPage("ck-ask");
    await page.send(script({ ask: { shell: "echo allowed" } }, { say: "after" }));
    const [interrupt] = page.agent.pendingInterrupts;
    expect(interrupt).toMatchObject({ reason: "tool_call", toolCallId: expect.any(String) as string });
    expect(page.agent.state).toMatchObject({
      sluice: { status: "waiting", pending: [{ id: interrupt?.id }] },
    });
    const other = kit.openPage("ck-ask");
    await other.connect();
    expect(other.agent.pendingInterrupts).toEqual(page.agent.pendingInterrupts);
    await other.resume(interrupt?.id ?? "", { approved: true });
    expect(wordsOf(other)).toEqual([undefined, "allowed\n", "after"]);
    expect(other.agent.pendingInterrupts).toEqual([]);
    expect(other.agent.state).toMatchObject({ sluice: { status: "idle", pending: [] } });
    expect([...page.errors, ...other.errors]).toEqual([]);
  });

  it("runs the page's own tools (AG-34)", async () => {
    const page = kit.openPage("ck-tool", [
      {
        name: "weather",
        parameters: z.object({ at: z.string() }),
        handler: async ({ at }: { at: string }) => ({ sky: `sunny in ${at}` }),
      },
    ]);
    await page.send(script({ custom: { name: "weather", input: { at: "Oslo" } } }, { say: "done" }));
    const answer = '{"sky":"sunny in Oslo"}';
    expect(rolesOf(page)).toEqual(["user", "assistant", "tool", "assistant", "assistant"]);
    expect(wordsOf(page)).toEqual([undefined, answer, answer, "done"]);
    expect(page.errors).toEqual([]);
  });

  it("shows a reopened page the live run", async () => {
    const page = kit.openPage("ck-live");
    const sent = page.send(
      script({ say: "a" }, { shell: "until [ -e go ]; do sleep 0.05; done; echo went" }, { say: "z" }),
    );
    await vi.waitUntil(() => wordsOf(page)[0] === "a", PATIENT);
    const other = kit.openPage("ck-live");
    const connected = other.connect();
    await vi.waitUntil(() => wordsOf(other)[0] === "a", PATIENT);
    const files = await bench.test.engine.files("ck-live");
    await files.write("/workspace/go", Buffer.from(""));
    await Promise.all([sent, connected]);
    expect(wordsOf(page)).toEqual(["a", "went\n", "z"]);
    expect(wordsOf(other)).toEqual(wordsOf(page));
  });

  it("stops the agent with the page and continues with the next message (TS-39)", async () => {
    const page = kit.openPage("ck-stop");
    const sent = page.send(script({ shell: "sleep 63" }));
    await vi.waitUntil(() => bench.test.log.find("ck-stop"), PATIENT);
    await waitFor(bench.test.log, "ck-stop", "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    page.stop();
    await sent;
    const ended = await waitFor(bench.test.log, "ck-stop", "turn.ended");
    expect(ended.data.status).toBe("interrupted");
    await page.send(script({ say: "next" }));
    expect(wordsOf(page).at(-1)).toBe("next");
  });

  it("survives a cut connection with the resuming fetch (AG-30)", async () => {
    if (!client) return;
    const { fetch: cut, seen } = cuttingFetch(3, 700);
    const url = `${bench.url}/ag-ui/scripted`;
    const own = await openCopilotKit(client, { url, fetch: createResumingFetch({ fetch: cut }) });
    try {
      const page = own.openPage("ck-cut");
      await page.send(script({ say: "one two three four five six" }, { shell: "echo hi" }, { say: "end" }));
      expect(wordsOf(page)).toEqual(["one two three four five six", "hi\n", "end"]);
      expect(page.errors).toEqual([]);
      expect(seen).toHaveLength(4);
    } finally {
      await own.close();
    }
  });
});

async function post(what: "run" | "connect", body: object): Promise<string> {
  const response = await fetch(`${kit.url}/agent/default/${what}`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return response.text();
}
