// A test of an agent that costs nothing: run it once with a key, commit the cassette, and CI replays it.
//
//   ANTHROPIC_API_KEY=… npx vitest run      records what is missing
//   CI=true npx vitest run                  replays; no key, no network
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestServer } from "sluice/testing";

let sluice;
beforeAll(async () => {
  sluice = await startTestServer({ cassette: process.env.CASSETTE ?? "agent.cassette.jsonl" });
});
afterAll(() => sluice?.close());

test("the agent writes the file", { timeout: 120_000 }, async () => {
  const prompt = process.env.PROMPT ?? "Write the word hello into hello.txt, and say done.";
  const events = await sluice.run("claude", prompt, { permissionMode: "bypass" });
  const [{ session_id: session }] = events;
  expect(Buffer.from(await sluice.client.fs.read(session, "hello.txt")).toString()).toContain("hello");
});
