import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script as steps, processesWith } from "../support/engine.ts";
import { openBench, type SdkBench } from "./bench.ts";

const run = promisify(execFile);
const DIST = resolve(import.meta.dirname, "../../dist/index.js");

/** Built programs: nothing may keep them alive, and they leave nothing behind. */
describe("a program", () => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench({ backend: "embedded", sandbox: "local" });
  });
  afterEach(() => bench.close());

  const execute = async (body: string): Promise<string> => {
    const folder = await bench.temporary();
    const file = join(folder, "program.mjs");
    const data = JSON.stringify(join(bench.folder, "data"));
    await writeFile(
      file,
      `import { Sluice } from ${JSON.stringify(DIST)};\nconst data = ${data};\n${body}\n`,
    );
    const { stdout } = await run(process.execPath, [file], { timeout: 40_000 });
    return stdout;
  };
  const sluice = `const sluice = new Sluice().withSandbox("local").withData(data);`;
  const prompt = JSON.stringify(steps({ say: "hello" }));

  it.each([
    ["kill", "await sluice.kill();"],
    ["close", "await sluice.close();"],
    ["nothing", ""],
  ])("ends by itself after %s", async (_name, end) => {
    const out = await execute(
      `${sluice}\nconst r = await sluice.run({ prompt: ${prompt} });\nconsole.log(r.exitCode);\n${end}`,
    );
    expect(out).toBe("0\n");
    expect(await processesWith(join(bench.folder, "data"))).toEqual([]);
  });

  it("stays alive during a background run, and a later program joins its sandbox", async () => {
    const slow = JSON.stringify(steps({ sleep: 500 }, { say: "done" }));
    const out = await execute(
      `${sluice}\nsluice.on("lifecycle", (e) => console.log(e.reason));\nawait sluice.run({ prompt: ${slow}, background: true });\nconsole.log(sluice.getSession());`,
    );
    const lines = out.trimEnd().split("\n");
    expect(lines.at(-1)).toBe("run_background_complete");
    const id = lines.find((line) => line.startsWith("ses_")) ?? "";
    const joined = bench.make().withSession(id);
    expect((await joined.run({ prompt: steps({ say: "x" }) })).sandboxId).toBe(id);
  });

  it("may die during a run: the run continues, and the next program gets its end", async () => {
    const slow = JSON.stringify(steps({ shell: "until [ -e go ]; do sleep 0.02; done" }, { say: "done" }));
    const id = (
      await execute(
        `${sluice}\nawait sluice.run({ prompt: ${slow}, background: true });\nprocess.stdout.write(sluice.getSession());\nprocess.kill(process.pid, "SIGKILL");`,
      ).catch((error: { stdout: string }) => error.stdout)
    ).trim();
    const joined = bench.make().withSession(id);
    await expect(joined.run({ prompt: "x" })).rejects.toMatchObject({ code: "session_busy" });
    await joined.uploadFiles({ go: "" });
    const reasons: string[] = [];
    for await (const event of joined.events()) {
      if (event.type === "lifecycle") reasons.push(event.event.reason);
      if (reasons.at(-1) === "run_background_complete") break;
    }
    expect(reasons).toEqual(["sandbox_boot", "sandbox_ready", "run_start", "run_background_complete"]);
  });

  it("changes a folder of the host only through the agent", async () => {
    const folder = join(bench.folder, "project");
    await mkdir(folder);
    await writeFile(join(folder, "a.txt"), "1");
    const instance = bench.make().withWorkingDirectory(folder);
    await instance.run({ prompt: steps({ edit: { path: "a.txt", old: "1", new: "2" } }) });
    expect(await readFile(join(folder, "a.txt"), "utf8")).toBe("2");
    await instance.kill();
    expect(await readFile(join(folder, "a.txt"), "utf8")).toBe("2");
  });
});
