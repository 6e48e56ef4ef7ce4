import { writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script as steps } from "../../support/engine.ts";
import { named, openBench, PLACES, type SdkBench } from "../../sdk/bench.ts";
import {
  controlSnippets,
  createHandler,
  downloadSnippets,
  runSnippets,
  type Ui,
  uploadSnippets,
} from "./snippets.ts";

/** The page's code, compiled with this project in strict mode, and run. */
describe.each(named(PLACES))("the page's own code, %s", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  it("3.1 to 3.3: runs, commands, events", async () => {
    const sluice = bench.make().withStorage(await bench.temporary());
    const [result, restored, command] = await runSnippets(sluice);
    expect(result).toMatchObject({ exitCode: 0, checkpoint: { comment: "after analysis" } });
    expect(restored?.exitCode).toBe(0);
    expect(command?.stdout).toBe("pytest\n");
  });

  it("3.4: uploads", async () => {
    const sluice = bench.make();
    const input = await bench.temporary();
    await writeFile(join(input, "local.txt"), "local");
    await uploadSnippets(sluice, { a: 1 }, Buffer.from("a,b\n"), input);
    const { stdout } = await sluice.executeCommand("cat context/spec.json context/local.txt data/input.csv");
    expect(stdout).toBe('{"a":1}locala,b\n');
  });

  it("3.5: downloads", async () => {
    const target = join(await bench.temporary(), "output");
    const output = await downloadSnippets(bench.make(), target);
    expect(output.data).toEqual({ summary: "s", score: 85 });
    expect(JSON.parse(readFileSync(join(target, "result.json"), "utf8"))).toEqual(output.data);
  });

  it("3.6 and 3.7: controls", async () => {
    const sluice = bench.make().withStorage(await bench.temporary());
    const { status, list, url } = await controlSnippets(sluice);
    expect(status).toMatchObject({ sandbox: "ready", agent: "idle", hasRun: true });
    expect(list[0]?.comment).toBe("before refactor");
    expect(new URL(url).protocol).toBe("http:");
    expect(sluice.getSession()).toBeNull();
  });

  it("EV-45 EV-76: the UI example, on a transcript of everything", async () => {
    const calls: [string, ...unknown[]][] = [];
    const ui = new Proxy(
      {},
      {
        get:
          (_, name) =>
          (...args: unknown[]) =>
            calls.push([String(name), ...args]),
      },
    ) as Ui;
    const sluice = bench.make();
    sluice.on("content", createHandler(ui));
    const result = await sluice.run({
      prompt: steps(
        { plan: [{ content: "look", status: "in_progress", priority: "high" }] },
        { think: "hm" },
        { say: "hello you" },
        { image: { data: "aGk=", mimeType: "image/png" } },
        { shell: "echo hi" },
        { write: { path: "a.txt", content: "x" } },
        { edit: { path: "a.txt", old: "x", new: "y" } },
        { mcp: { server: "browser-use", tool: "browser_task", input: {} } },
      ),
    });
    expect(result.exitCode).toBe(0);
    const named = (name: string): unknown[][] =>
      calls.filter(([called]) => called === name).map(([, ...args]) => args);
    expect(named("appendMessage").flat().join("")).toBe("hello you");
    expect(named("appendImage")).toEqual([["aGk=", "image/png"]]);
    expect(named("appendThought")).toEqual([[{ type: "text", text: "hm" }]]);
    expect(named("renderPlan")).toEqual([[[{ content: "look", status: "in_progress", priority: "high" }]]]);
    expect(named("addTool").map(([tool]) => tool)).toMatchObject([
      { kind: "execute", title: "`echo hi`" },
      { kind: "edit", title: "Write a.txt", locations: [{ path: "a.txt" }] },
      { kind: "edit", title: "Edit `a.txt`" },
      { kind: "browser", title: "browser-use: browser_task" },
    ]);
    const ends = named("updateTool").map(([, change]) => (change as { status?: string }).status);
    expect(ends.filter((status) => status === "completed" || status === "failed")).toHaveLength(4);
  });
});
