import { afterEach, expect, it } from "vitest";
import { openEngine, readAll, runTurn, script, SCRIPTED, type TestEngine } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";

let test: TestEngine;
afterEach(() => test.close());

const text = async (session: string, path: string): Promise<string> =>
  Buffer.from(await (await test.engine.files(session)).read(path)).toString();

it("a fork begins with the files and the memory of another session, and goes its own way", async () => {
  test = await openEngine();
  await test.engine.create("one", SCRIPTED);
  await runTurn(test, "one", script({ write: { path: "a.txt", content: "first" } }));
  await test.engine.create("two", { ...SCRIPTED, fork: { session: "one" } });
  expect(await text("two", "a.txt")).toBe("first");

  await runTurn(test, "two", script({ write: { path: "a.txt", content: "second" } }, { say: "$history" }));
  expect(assistantTexts(await readAll(test.log, "two")).at(-1)).toContain('"content":"first"');
  expect(await text("one", "a.txt")).toBe("first");
  await runTurn(test, "one", script({ say: "$history" }));
  expect(assistantTexts(await readAll(test.log, "one")).at(-1)).not.toContain("second");
});

it("a fork of the latest checkpoint begins with that of the other session", async () => {
  test = await openEngine({ defaultSandbox: "local" });
  await test.engine.create("one", SCRIPTED);
  const forked = (id: string) =>
    test.engine.create(id, { ...SCRIPTED, fork: { session: "one", checkpoint: "latest" } });
  await expect(forked("early")).rejects.toThrow("the session one has no checkpoint");
  expect(await test.log.find("early")).toBeUndefined();
  await runTurn(test, "one", script({ write: { path: "a", content: "first" } }));
  await test.engine.checkpoint("one");
  await runTurn(test, "one", script({ write: { path: "a", content: "later" } }));
  // The newest of all is that of another session.
  await test.engine.create("other", SCRIPTED);
  await runTurn(test, "other", script({ say: "hi" }));
  await test.engine.checkpoint("other");
  await forked("two");
  expect(Buffer.from(await (await test.engine.files("two")).read("a")).toString()).toBe("first");
});

it("a fork of what is not there is refused, and leaves no session", async () => {
  test = await openEngine();
  const forked = (fork: { session: string; checkpoint?: string }): Promise<unknown> =>
    test.engine.create("two", { ...SCRIPTED, fork });
  await expect(forked({ session: "none" })).rejects.toMatchObject({ code: "session_not_found" });
  await test.engine.create("one", SCRIPTED);
  await expect(forked({ session: "one", checkpoint: "ckpt_none" })).rejects.toMatchObject({
    code: "checkpoint_not_found",
  });
  await expect(test.engine.info("two")).rejects.toMatchObject({ code: "session_not_found" });
});
