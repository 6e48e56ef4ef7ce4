import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sluice } from "../../src/sdk/index.ts";
import { createSampleProject, readSamples, type SampleProject } from "../support/samples.ts";

const SAMPLES = readSamples("docs/sdk.md");
const run = promisify(execFile);

/** Members that only the classes themselves use. */
const INTERNAL = new Set([
  "constructor",
  "reconnect",
  "observe",
  "lose",
  "stopWork",
  "adopt",
  "use",
  "connect",
  "disconnect",
  "enter",
  "whenOpened",
  "demandStore",
  "releaseListeners",
  "endIterations",
]);

let project: SampleProject;
beforeAll(async () => {
  project = await createSampleProject();
});
afterAll(() => project.remove());

describe("docs/sdk.md", () => {
  it("has an example for every public method", () => {
    for (const method of methodsOf(Sluice.prototype))
      expect(
        SAMPLES.some(({ code }) => code.includes(`.${method}(`)),
        method,
      ).toBe(true);
  });

  it.each(SAMPLES.map((sample) => [sample.name, sample] as const))("runs %s", async (_name, sample) => {
    const { folder, file } = await project.write(sample);
    await mkdir(join(folder, "data"));
    const env = { ...process.env, XDG_DATA_HOME: join(folder, "data") };
    const { stderr } = await run(process.execPath, [file], { cwd: folder, env, timeout: 45_000 });
    // An ordinary user without control groups gets a warning about missing limits.
    expect(stderr.replaceAll(/^\(node:\d+\) SluiceWarning: the limit .*\n(?:\(Use .*\n)?/gm, "")).toBe("");
  });
});

/** Its own methods and those of its base classes, up to the emitter. */
function methodsOf(prototype: object): string[] {
  if (Object.hasOwn(prototype, "report")) return [];
  const own = Object.getOwnPropertyNames(prototype).filter((name) => !INTERNAL.has(name));
  return [...own, ...methodsOf(Object.getPrototypeOf(prototype) as object)];
}
