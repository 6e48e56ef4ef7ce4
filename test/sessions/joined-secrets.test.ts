import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openEngine, readAll, runTurn, say, script, type TestEngine, waitFor } from "../support/engine.ts";

const SECRET = "s3cret-value-123";
const IN_PIECES = "for piece in s3cret -value -123; do printf %s $piece; sleep 0.1; done";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine({ defaultSandbox: "local" });
  await test.engine.create("s", { agent: "scripted", env: { MY_API_KEY: SECRET } });
});
afterEach(() => test.close());

async function readLog(): Promise<string> {
  return JSON.stringify(await readAll(test.log, "s", true));
}

describe("a secret that is printed in pieces", () => {
  it("is not put together when the agent dies", async () => {
    await runTurn(test, "s", script({ shell: `${IN_PIECES}; kill -9 $PPID` }));
    expect(await readLog()).not.toContain(SECRET);
    expect(await readLog()).toContain("[redacted:MY_API_KEY]");
  });

  it("is not put together when the session is terminated", async () => {
    await say(test.engine, "s", script({ shell: `${IN_PIECES}; sleep 60` }));
    await waitFor(test.log, "s", "item.delta", { where: ({ data }) => data.delta.includes("-123") });
    await test.engine.terminate("s");
    expect(await readLog()).not.toContain(SECRET);
    expect(await readLog()).toContain("[redacted:MY_API_KEY]");
  });
});

it("a secret in the name of a file is in no event", async () => {
  await runTurn(test, "s", script({ shell: 'echo 1 > "x-$MY_API_KEY.txt"' }, { sleep: 500 }));
  expect(await readLog()).not.toContain(SECRET);
  expect(await readLog()).toContain("x-[redacted:MY_API_KEY].txt");
});
