import { createSqliteLog } from "../../../src/log/index.ts";
import { createDockerProvider, type DockerProviderOptions } from "../../../src/sandbox/docker/provider.ts";
import { createEngine } from "../../../src/sessions/index.ts";

/** `node program.mjs DATA PROVIDER PROMPT`: an engine of its own that starts one turn, to be killed in it. */
const [dataDir = "", options = "", text = ""] = process.argv.slice(2);
const log = await createSqliteLog({ folder: dataDir });
const providers = [createDockerProvider(JSON.parse(options) as DockerProviderOptions)];
const engine = await createEngine({ log, dataDir, providers, defaultSandbox: "docker" });
await engine.create("killed", { agent: "scripted" });
const { after } = await engine.send("killed", { content: [{ type: "text", text }], via: "test" });
for (let seen = after; ;) {
  for (const { sequence, type } of await log.read("killed", { after: seen, limit: 100 })) {
    seen = sequence;
    process.stdout.write(`${type}\n`);
  }
  await log.moved("killed", seen, { signal: new AbortController().signal });
}
