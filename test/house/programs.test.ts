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

  it.each([
    { page: "docs/start.md", words: "createClient", says: "I ran a shell command" },
    { page: "docs/universal.md", words: "replyPermission", says: "done" },
    { page: "docs/anthropic.md", words: "new Anthropic", says: "I ran a shell command" },
    { page: "docs/ndjson.md", words: "createNdjsonParser", says: "I ran a shell command" },
    { page: "docs/agents/scripted.md", words: "new Sluice", says: "0" },
    { page: "docs/sandboxes/bwrap.md", words: "limits", says: "" },
  ])("$page: $words", async ({ page, words, says }) => {
    const { folder, file } = await project.write(sampleOf(page, words));
    const env = { ...process.env, XDG_DATA_HOME: folder };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { cwd: folder, env });
    expect(stdout).toContain(says);
    expect(stderr).toBe("");
  });

  describe("docs/tanstack.md: a server of one's own", () => {
    let handlers: Record<"POST" | "GET", Handler>;
    beforeAll(async () => {
      vi.stubEnv("USERS", JSON.stringify({ "key-of-alice": "alice", "key-of-bob": "bob" }));
      const { file } = await project.write(sampleOf("docs/tanstack.md", "sluiceText"));
      handlers = (await import(pathToFileURL(file).href)) as typeof handlers;
    });

    const post = (key: string | undefined, prompt: string): Response | Promise<Response> => {
      const body = JSON.stringify({
        threadId: "sample",
        runId: "sample-run",
        messages: [{ id: "u", role: "user", content: prompt }],
        tools: [],
        context: [],
        state: {},
        forwardedProps: {},
      });
      const headers = { "content-type": "application/json", "x-run-id": "sample-run", ...bearer(key) };
      return handlers.POST(new Request("http://x/chat", { method: "POST", headers, body }));
    };
    const get = (key: string | undefined, runId: string): Response | Promise<Response> =>
      handlers.GET(new Request(`http://x/chat?offset=-1&runId=${runId}`, { headers: bearer(key) }));

    it("runs a turn with its tool, and reads the run once more from the log", async () => {
      const prompt = script(
        { custom: { name: "weather", input: { city: "Oslo" } } },
        { write: { path: "made.txt", content: "by the agent" } },
      );
      const told = await (await post("key-of-alice", prompt)).text();
      expect(told).toContain("sunny in Oslo");
      expect(told).toContain("RUN_FINISHED");
      expect(await readFile(join(directory, "made.txt"), "utf8")).toBe("by the agent");
      for (const runId of ["sample-run", "alice:sample-run"]) {
        const replayed = await (await get("key-of-alice", runId)).text();
        expect(replayed).toContain("sunny in Oslo");
        expect(replayed).toContain("RUN_FINISHED");
      }
    });

    it("gives no user the run or the thread of another", async () => {
      for (const runId of ["sample-run", "alice:sample-run", "alice%3Asample-run"]) {
        const answer = await get("key-of-bob", runId);
        expect(await answer.text().catch(String)).not.toContain("Oslo");
      }
      const told = await (
        await post("key-of-bob", script({ say: "$history" }, { say: "bob was here", chunks: 1 }))
      ).text();
      expect(told).toContain("bob was here");
      expect(told).not.toContain("Oslo");
      const { sessions } = await server.client.sessions.list();
      const threads = sessions.filter(({ directory: folder }) => folder === directory);
      expect(threads).toHaveLength(2);
      const events = await Promise.all(threads.map(({ sessionId }) => server.client.getEvents(sessionId)));
      const texts = events.map((log) => JSON.stringify(log));
      expect(texts.filter((text) => text.includes("bob was here"))).toHaveLength(1);
      expect(texts.some((text) => text.includes("bob was here") && text.includes("Oslo"))).toBe(false);
    });

    it.each([undefined, "key-of-nobody", "__proto__"])("refuses the key %s", async (key) => {
      expect((await post(key, "hello")).status).toBe(401);
      expect((await get(key, "sample-run")).status).toBe(401);
    });
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

function bearer(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Bearer ${key}` };
}

type Handler = (request: Request) => Response | Promise<Response>;
