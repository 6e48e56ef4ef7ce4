import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { Tmux } from "../cli/tmux.ts";
import { openPage, type PageBench } from "./page-bench.ts";
import { script } from "./script.ts";

let bench: PageBench;
let folder: string;
let terminal: Tmux;
beforeAll(async () => {
  bench = await openPage();
  await bench.login();
  folder = mkdtempSync(join(tmpdir(), "sluice-conversation-"));
  const { client, url } = bench.server;
  const { token } = await client.tokens.create({ scope: "control", name: "chat" });
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, XDG_DATA_HOME: folder, SLUICE_URL: url, SLUICE_TOKEN: token };
  terminal = new Tmux([join(ROOT, "bin", "sluice"), "chat", "--agent", "scripted"], { env, cwd: folder });
}, 120_000);
afterAll(async () => {
  terminal?.close();
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Follows a session by the unmodified SDK: what was said, what it asked, who was idle. */
function listen(beta: Anthropic["beta"], session: string) {
  const seen: { type: string; id?: string; text: string }[] = [];
  const stop = new AbortController();
  const done = (async () => {
    const stream = await beta.sessions.events.stream(session, {}, { signal: stop.signal });
    for await (const event of stream) {
      const id = "id" in event ? { id: event.id } : {};
      seen.push({ type: event.type, ...id, text: JSON.stringify(event) });
    }
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  const until = (type: string, text: string) =>
    expect
      .poll(() => seen.find((event) => event.type === type && event.text.includes(text)), { timeout: 20_000 })
      .toBeDefined()
      .then(() => seen.find((event) => event.type === type && event.text.includes(text))?.id ?? "");
  return { seen, until, stop: () => (stop.abort(), done) };
}

const byOf = (fields: unknown): unknown => (fields as { by?: unknown } | undefined)?.by;

/** The token of an input or an answer. */
function authorOf({ type, data }: SluiceEvent): unknown[] {
  if (type === "input.accepted") return [data.by];
  if (type === "permission.resolved") return [byOf(data.metadata)];
  if (type === "custom" && data.name === "sluice.author") return [byOf(data.value)];
  return [];
}

it("a chat, the page and the Anthropic SDK talk in one session", { timeout: 120_000 }, async () => {
  const { page, server } = bench;
  const { token } = await server.client.tokens.create({ scope: "control", name: "sdk" });
  const { beta } = new Anthropic({ apiKey: token, baseURL: `${server.url}/anthropic` });
  const send = (event: Anthropic.Beta.Sessions.EventSendParams["events"][number]) =>
    beta.sessions.events.send(session, { events: [event] });

  // The chat begins the session.
  await terminal.until(/^›\s*$/m);
  await terminal.type(script([{ say: "words for the chat" }]));
  await terminal.keys("Enter");
  await terminal.until(/words for the chat\s+✓ done/);
  const [info] = (await server.client.sessions.list()).sessions;
  const session = info?.sessionId ?? "";
  const sdk = listen(beta, session);

  // The page shows it, and asks next.
  await bench.open(`#/s/${session}`);
  await page.waitForSelector(".markdown >> text=words for the chat");
  await page.fill(".composer textarea", script([{ say: "words for the page" }]));
  await page.keyboard.press("Enter");
  await page.waitForSelector(".markdown >> text=words for the page");
  await terminal.until(/words for the page\s+✓ done/);
  await sdk.until("agent.message", "words for the page");

  // The SDK asks for something that needs a permission and an answer: the page gives one, the chat the other.
  const steps = [
    { ask: { shell: "echo allowed" } },
    { question: { prompt: "Which?", options: ["red", "blue"] } },
    { ask: { shell: "echo again" } },
    { say: "words for the SDK" },
  ];
  await send({ type: "user.message", content: [{ type: "text", text: script(steps) }] });
  await terminal.until(/allow\? \[y\]es/);
  await page.click(".ask-open [data-answer=once]");
  await terminal.until(/✓ approved[\s\S]*a number from 1 to 2/);
  await page.waitForSelector(".ask-open >> text=blue");
  await terminal.type("2");
  await terminal.keys("Enter");
  await page.waitForSelector(".ask-open [data-answer=once]");
  const asked = await sdk.until("agent.tool_use", "echo again");
  await send({ type: "user.tool_confirmation", tool_use_id: asked, result: "allow" });
  await terminal.until(/✓ blue[\s\S]*✓ approved[\s\S]*words for the SDK\s+✓ done/);
  await page.waitForSelector(".markdown >> text=words for the SDK");
  await page.waitForSelector(".ask-open", { state: "detached" });
  await sdk.until("agent.message", "words for the SDK");

  // The log has each turn once, and who sent and answered.
  const events = await server.client.getEvents(session, { extensions: true });
  expect(events.filter(({ type }) => type === "turn.ended")).toHaveLength(3);
  const names = new Map<unknown, string | undefined>();
  for await (const made of server.client.tokens.list()) names.set(made.id, made.name);
  const authors = events.flatMap(authorOf).map((id) => names.get(id));
  // The page is logged in by a link of the operator, which has no name.
  const unnamed = undefined;
  expect(authors).toEqual(["chat", unnamed, "sdk", unnamed, "chat", "sdk"]);
  await sdk.stop();
  await terminal.keys("C-d");
  expect(await terminal.exitCode()).toBe(0);
  expect(bench.faults).toEqual([]);
});
