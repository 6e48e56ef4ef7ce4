import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ROOT } from "./setup.mjs";

/**
 * Fills dist/cli/code with the compiled code of the command line (record 0059): a server and its dialects are
 * used once, then every command is loaded. Without it each start compiles, so a failure here is only reported.
 */
const sluice = join(ROOT, "bin", "sluice");
const env = { ...process.env, SLUICE_CODE_CACHE: join(ROOT, "dist/cli/code"), FORCE_COLOR: "0" };
const data = mkdtempSync(join(tmpdir(), "sluice-build-"));
try {
  await useServer();
  spawnSync(process.execPath, [sluice, "--help"], { env, stdio: "ignore" });
} catch (error) {
  process.stderr.write(`sluice: no compiled code was kept, so commands start slower: ${error.message}\n`);
} finally {
  rmSync(data, { recursive: true, force: true });
}

async function useServer() {
  // No untrusted code runs in it: the scripted agent says one word.
  const args = ["serve", "--port", "0", "--data", data, "--no-token", "--sandbox", "local"];
  const server = spawn(process.execPath, [sluice, ...args], { env, stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  try {
    await useDialects(await toUrl(server));
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
}

async function toUrl(server) {
  for await (const line of createInterface(server.stdout)) {
    const found = /http:\S+/.exec(line);
    if (found) return found[0];
  }
  throw new Error("the server did not start");
}

async function useDialects(url) {
  const send = (path, body) =>
    fetch(`${url}${path}`, {
      method: body ? "POST" : "GET",
      headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" },
      ...(body && { body: JSON.stringify(body) }),
    });
  await send("/v1/health");
  const made = await send("/v1/sessions", { agent: "scripted" });
  const { id } = await made.json();
  const stop = new AbortController();
  const stream = await fetch(`${url}/v1/sessions/${id}/events/sse`, { signal: stop.signal });
  await send(`/v1/sessions/${id}/messages`, { text: '#script [{"say":"hello"}]' });
  const decoder = new TextDecoder();
  let received = "";
  for await (const chunk of stream.body) {
    received += decoder.decode(chunk, { stream: true });
    if (received.includes("turn.ended")) break;
  }
  stop.abort();
  await send(`/v1/sessions/${id}/events`);
  for (const path of ["/v1/sessions", "/anthropic/v1/sessions", "/metrics"]) await send(path);
}
