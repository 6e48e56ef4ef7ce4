import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { script } from "../support/engine.ts";
import { createSampleProject, readSamples, type Sample, type SampleProject } from "../support/samples.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
let project: SampleProject;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-directory-"));
  project = await createSampleProject();
  server = await startServer();
  vi.stubEnv("SLUICE_TOKEN", server.token);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await server.close();
  await project.remove();
  await rm(directory, { recursive: true, force: true });
});

/** The sample that has these words, at our address, with the agent that needs no model. */
function sampleOf(page: string, words: string): Sample {
  const sample = readSamples(page).find(({ language, code }) => language === "ts" && code.includes(words));
  if (!sample) throw new Error(`${page} has no sample with ${words}`);
  const code = sample.code
    .replaceAll("http://127.0.0.1:7411", server.url)
    .replaceAll("/srv/project", directory)
    .replaceAll(/(\/ag-ui\/|agent: ")claude\b/g, "$1scripted");
  return { ...sample, code };
}

describe("the programs of the documents, with a real server", () => {
  it.each(["new HttpAgent", "new ChatClient"])("docs/ag-ui.md: %s", async (words) => {
    const { folder, file } = await project.write(sampleOf("docs/ag-ui.md", words));
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { cwd: folder });
    expect(stdout).toContain("I ran a shell command");
    expect(stderr).toBe("");
  });

  it("docs/tanstack.md: a server of one's own, with its tool, and the run once more from the log", async () => {
    const { file } = await project.write(sampleOf("docs/tanstack.md", "sluiceText"));
    const { POST, GET } = (await import(pathToFileURL(file).href)) as Record<"POST" | "GET", Handler>;
    const prompt = script(
      { custom: { name: "weather", input: { city: "Oslo" } } },
      { write: { path: "made.txt", content: "by the agent" } },
    );
    const body = JSON.stringify({
      threadId: "sample",
      runId: "sample-run",
      messages: [{ id: "u", role: "user", content: prompt }],
      tools: [],
      context: [],
      state: {},
      forwardedProps: {},
    });
    const headers = { "content-type": "application/json", "x-run-id": "sample-run" };
    const first = await POST(new Request("http://x/chat", { method: "POST", headers, body }));
    const told = await first.text();
    expect(told).toContain("sunny in Oslo");
    expect(told).toContain("RUN_FINISHED");
    expect(await readFile(join(directory, "made.txt"), "utf8")).toBe("by the agent");
    const again = await GET(new Request("http://x/chat?offset=-1&runId=sample-run"));
    const replayed = await again.text();
    expect(replayed).toContain("sunny in Oslo");
    expect(replayed).toContain("RUN_FINISHED");
  });

  it("docs/tanstack.md: the watcher, until it is interrupted", async () => {
    const touch = (): void => writeFileSync(join(directory, "seen.txt"), "x");
    const touching = setInterval(touch, 50);
    const sample = sampleOf("docs/tanstack.md", "watchFolder");
    const exit = await runUntil(sample, "seen.txt", "SIGINT").finally(() => clearInterval(touching));
    expect(exit).toEqual([0, null]);
  });

  it("README.md: the client, which waits for more", async () => {
    const exit = await runUntil(sampleOf("README.md", "createClient"), "I ran a shell command", "SIGKILL");
    expect(exit).toEqual([null, "SIGKILL"]);
  });
});

/** Runs it until it has said these words, and ends it so; answers how it ended. */
async function runUntil(sample: Sample, words: string, signal: NodeJS.Signals): Promise<unknown[]> {
  const { folder, file } = await project.write(sample);
  const child = spawn(process.execPath, [file], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  const exit = once(child, "exit");
  let said = "";
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.includes(words)) child.kill(signal);
  }
  expect(said).toContain(words);
  return exit;
}

type Handler = (request: Request) => Response | Promise<Response>;
