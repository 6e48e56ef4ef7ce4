import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toBytes } from "../../../src/sdk/files/workspace.ts";
import {
  extractBrowserUseUrls,
  isBrowserUseTool,
  readLocalDir,
  saveLocalDir,
} from "../../../src/sdk/index.ts";
import { CORNERS, hear, named, next, openBench, type SdkBench } from "../../sdk/bench.ts";
import { script as steps } from "../../support/engine.ts";

const write = (path: string, content: string): unknown => ({ write: { path, content } });

/** Details that the page mentions briefly or leaves open. */
describe.each(named(CORNERS))("%s", (_name, place) => {
  let bench: SdkBench;
  beforeAll(async () => {
    bench = await openBench(place);
  });
  afterAll(() => bench.close());

  it("EV-43: writing over a file shows what it held, when it is called and when it is done", async () => {
    const old = Array.from({ length: 12 }, (_, line) => `line ${line}\n`).join("");
    const sluice = bench.make().withFiles({ "a.txt": old });
    const heard = hear(sluice);
    await sluice.run({
      prompt: steps(write("a.txt", old.replace("line 6", "six")), write("new.txt", "new\n"), {
        edit: { path: "a.txt", old: "six", new: "6" },
      }),
    });
    const shown = heard.content.flatMap(({ update }) => {
      if (update.sessionUpdate !== "tool_call" && update.sessionUpdate !== "tool_call_update") return [];
      const diffs = (update.content ?? []).filter((part) => part.type === "diff");
      return diffs.map(({ path, oldText, newText }) => [update.sessionUpdate, path, oldText, newText]);
    });
    const context = (line: string): string =>
      old.split("\n").slice(3, 10).join("\n").replace("line 6", line).concat("\n");
    expect(shown).toEqual([
      ["tool_call", "a.txt", old, old.replace("line 6", "six")],
      ["tool_call_update", "a.txt", old, old.replace("line 6", "six")],
      ["tool_call", "new.txt", null, "new\n"],
      ["tool_call_update", "new.txt", null, "new\n"],
      ["tool_call", "a.txt", "six", "6"],
      ["tool_call_update", "a.txt", context("six"), context("6")],
    ]);
  });

  it("EV-77: a browser-use server exists only if it is named", async () => {
    const call = steps(
      { mcp: { server: "browser-use", tool: "browser_task", input: { task: "look" } } },
      { mcp: { server: "browser-use", tool: "monitor_task", input: { task: "look again" } } },
    );
    const play = async (sluice: ReturnType<SdkBench["make"]>): Promise<(string | undefined)[][]> => {
      const titles = new Map<string, string>();
      const told: (string | undefined)[][] = [];
      sluice.on("content", ({ update }) => {
        if (update.sessionUpdate === "tool_call") titles.set(update.toolCallId, update.title);
        if (update.sessionUpdate !== "tool_call_update" || update.status === "in_progress") return;
        const title = titles.get(update.toolCallId) ?? "";
        expect(isBrowserUseTool(title)).toBe(true);
        const [first] = update.content ?? [];
        const text = first?.type === "content" && first.content.type === "text" ? first.content.text : "";
        const { liveUrl, screenshotUrl } = extractBrowserUseUrls(text);
        told.push([title, update.status, liveUrl && `${liveUrl} ${screenshotUrl}`]);
      });
      await sluice.run({ prompt: call });
      return told;
    };
    expect(await play(bench.make())).toEqual([
      ["browser-use: browser_task", "failed", undefined],
      ["browser-use: monitor_task", "failed", undefined],
    ]);
    const program = readFileSync(join(import.meta.dirname, "../../sdk/browser-use-mcp.mjs"), "utf8");
    const sluice = bench
      .make()
      .withFiles({ "mcp/server.mjs": program })
      .withMcpServers({ "browser-use": { command: process.execPath, args: ["mcp/server.mjs"] } });
    const urls = "https://live.example/1 https://shots.example/last.png";
    expect(await play(sluice)).toEqual([
      ["browser-use: browser_task", "completed", urls],
      ["browser-use: monitor_task", "completed", urls],
    ]);
  });

  it("EV-72: a failed checkpoint does not fail the run and emits a warning", async () => {
    const file = join(await bench.temporary(), "file");
    await writeFile(file, "in the way");
    // A server keeps them in its own storage, for any configuration of the program.
    const sluice = bench.make().withStorage(join(file, "checkpoints"));
    if (place.backend === "remote") await writeFile(join(bench.folder, "data/checkpoints"), "in the way");
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    const heard = hear(sluice);
    const result = await sluice.run({ prompt: steps({ say: "done" }), checkpointComment: "lost" });
    expect(result.exitCode).toBe(0);
    expect(result).not.toHaveProperty("checkpoint");
    expect(heard.reasons().at(-1)).toBe("run_complete");
    expect(await warned).toMatchObject({ code: "SLUICE_NO_CHECKPOINT" });
    await expect(sluice.checkpoint()).rejects.toThrow();
    expect((await sluice.run({ prompt: steps({ say: "on" }) })).exitCode).toBe(0);
  });

  it("EV-24: stderr up to the agent's last moment is in the response", async () => {
    const runs = Array.from({ length: 12 }, (_, run) => `warning ${run}\n`);
    const run = async (text: string): Promise<string> => {
      const { stderr } = await bench.make().run({ prompt: steps({ say: "hello" }, { stderr: text }) });
      return stderr;
    };
    const told = await Promise.all(runs.map(run));
    expect(told).toEqual(runs);
  });

  it("kill at the start of a command interrupts it, and no event follows its end", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const command = sluice.executeCommand("sleep 60");
    await next(sluice, "command_start");
    const id = sluice.getSession() ?? "";
    await sluice.kill();
    expect((await command).exitCode).toBe(130);
    expect(heard.reasons().slice(-3)).toEqual(["command_start", "command_interrupted", "sandbox_killed"]);
    expect((await bench.log(id)).at(-1)?.type).toBe("session.ended");
  });

  it("refuses an invalid timeout and an invalid port before it creates anything", async () => {
    const sluice = bench.make();
    const refused = { code: "invalid_request" };
    for (const timeoutMs of [0, -1, Number.NaN, Infinity]) {
      await expect(sluice.run({ prompt: "x", timeoutMs })).rejects.toMatchObject(refused);
      await expect(sluice.executeCommand("true", { timeoutMs })).rejects.toMatchObject(refused);
    }
    for (const port of [0, -1, 1.5, 65_536])
      await expect(sluice.getHost(port)).rejects.toMatchObject(refused);
    expect(sluice.getSession()).toBeNull();
  });

  it("refuses an invalid prompt, command and sandbox id before it creates anything", async () => {
    const sluice = bench.make();
    const refused = { code: "invalid_request" };
    for (const wrong of [undefined, null, 5, {}, ["x"]] as unknown as string[]) {
      await expect(sluice.run({ prompt: wrong })).rejects.toMatchObject(refused);
      await expect(sluice.executeCommand(wrong)).rejects.toMatchObject(refused);
      await expect(sluice.setSession(wrong)).rejects.toMatchObject(refused);
      expect(() => sluice.withSession(wrong)).toThrow(expect.objectContaining(refused));
    }
    await expect(sluice.executeCommand("")).rejects.toMatchObject(refused);
    await expect(sluice.setSession("")).rejects.toMatchObject(refused);
    await expect(sluice.run({ prompt: "x", timeoutMs: 2 ** 53 })).rejects.toMatchObject(refused);
    expect(sluice.getSession()).toBeNull();
    expect(sluice.status()).toMatchObject({ sandbox: "stopped", agent: "idle" });
  });

  it("an unknown checkpoint changes nothing: the sandbox and its conversation stay", async () => {
    const sluice = bench.make().withStorage(await bench.temporary());
    const { sandboxId } = await sluice.run({ prompt: steps({ say: "first" }) });
    const heard = hear(sluice);
    const lost = sluice.run({ prompt: steps({ say: "never" }), from: "ckpt_nope" });
    await expect(lost).rejects.toMatchObject({ code: "checkpoint_not_found" });
    expect(heard.reasons()).toEqual([]);
    expect(sluice.status()).toMatchObject({ sandboxId, sandbox: "ready", agent: "idle", hasRun: true });
    expect((await sluice.run({ prompt: steps({ say: "$history" }) })).sandboxId).toBe(sandboxId);
    expect(heard.text()).toBe(steps({ say: "first" }));
  });

  it("a paused sandbox has no address, which is an immediate error", async () => {
    const sluice = bench.make();
    await sluice.executeCommand("true");
    await sluice.pause();
    await expect(sluice.getHost(8000)).rejects.toMatchObject({ code: "session_busy" });
    expect(sluice.status().sandbox).toBe("paused");
    await sluice.resume();
    expect(await sluice.getHost(8000)).toMatch(/^http:/);
  });

  it("a file may have any name, also __proto__", async () => {
    const sluice = bench.make();
    await sluice.executeCommand("cd output && echo text > __proto__ && printf '\\377' > constructor");
    const { files } = await sluice.getOutputFiles();
    const bytes = Object.entries(files).map(([name, content]) => [name, [...toBytes(content)]]);
    expect(bytes).toEqual([
      ["__proto__", [...toBytes("text\n")]],
      ["constructor", [0xff]],
    ]);
    const folder = await bench.temporary();
    saveLocalDir(folder, files);
    expect(Object.keys(readLocalDir(folder))).toEqual(["__proto__", "constructor"]);
  });

  it("commands run in the working directory below the workspace", async () => {
    const sluice = bench.make().withWorkingDirectory("/home/user/workspace/sub");
    expect((await sluice.executeCommand("echo here > a.txt; basename $PWD")).stdout).toBe("sub\n");
    expect((await sluice.run({ prompt: steps({ shell: "cp sub/a.txt output/" }) })).exitCode).toBe(0);
    expect((await sluice.getOutputFiles()).files).toEqual({ "a.txt": "here\n" });
    const folder = join(await bench.temporary(), "mine");
    await mkdir(folder);
    const own = bench.make().withWorkingDirectory(folder);
    expect((await own.executeCommand("echo here > a.txt; cat a.txt")).stdout).toBe("here\n");
    expect(readFileSync(join(folder, "a.txt"), "utf8")).toBe("here\n");
  });
});
