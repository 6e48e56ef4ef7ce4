import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import { openEngine, readAll, runTurn, script, type TestEngine } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";
import { END, factAgent, GREETED, sayVariable, tell } from "./fact-agent.ts";

let test: TestEngine;
afterEach(() => test.close());

const open = async (program: string, secrets: NonNullable<SessionSpec["secrets"]>): Promise<void> => {
  test = await openEngine({ harnesses: [factAgent(program)], limits: { gentleMs: 100 } });
  await test.engine.create("s", { agent: "facts", sandbox: "local", secrets });
};

describe("the credentials of the host", () => {
  it("include no other agent's key, and a key that the agent finds is in no event", async () => {
    const value = `key-${randomUUID()}`;
    process.env["FACTS_KEY"] = value;
    try {
      test = await openEngine({ harnesses: [scripted, factAgent("")] });
      await test.engine.create("s", { agent: "scripted", sandbox: "local" });
      // An agent without a sandbox finds it in the server's environment.
      await writeFile(join(test.folder, "environ"), `FACTS_KEY=${value}\n`);
      await runTurn(test, "s", script({ shell: `printenv FACTS_KEY; cat '${test.folder}/environ'` }));
      const events = await readAll(test.log, "s", true);
      expect(JSON.stringify(events)).not.toContain(value);
      expect(JSON.stringify(events)).toContain("FACTS_KEY=[redacted:FACTS_KEY]");
    } finally {
      delete process.env["FACTS_KEY"];
    }
  });

  it("include secrets by reference, which are in no event", async () => {
    const value = `s3cret-${randomUUID()}`;
    process.env["FACTS_TEST_SECRET"] = value;
    process.env["FACTS_KEY"] = `key-${value}`;
    try {
      const program = [
        GREETED,
        "read -r prompt",
        'all="$MY_TOKEN $FACTS_KEY"',
        sayVariable("all", "a"),
        tell(END),
        "read -r more",
      ].join("\n");
      await open(program, { MY_TOKEN: "env:FACTS_TEST_SECRET" });
      await runTurn(test, "s", "go");
      const events = await readAll(test.log, "s", true);
      expect(JSON.stringify(events)).not.toContain(value);
      expect(assistantTexts(events)[0]).toBe("[redacted:MY_TOKEN] [redacted:FACTS_KEY]");
    } finally {
      delete process.env["FACTS_TEST_SECRET"];
      delete process.env["FACTS_KEY"];
    }
  });

  it("fail with advice where a secret is missing", async () => {
    await open(GREETED, { MY_TOKEN: "env:FACTS_NOT_SET" });
    const end = await runTurn(test, "s", "go");
    expect(end.data.error?.message).toMatch(/MY_TOKEN.*FACTS_NOT_SET; set it/);
  });
});
