import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ended, Workbench } from "./workbench.ts";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

describe.runIf(process.platform === "linux")(
  "serve, while it is not known yet whether a sandbox works",
  () => {
    let bench: Workbench;
    beforeEach(() => {
      bench = new Workbench();
    });
    afterEach(() => bench.close());

    it(
      "answers, starts nothing, and refuses as ever once the probe has failed",
      { timeout: 60_000 },
      async () => {
        const verdict = join(bench.folder, "verdict");
        const programs = join(bench.folder, "programs");
        mkdirSync(programs);
        // The first bwrap on the PATH: it is slow and does not work.
        writeFileSync(
          join(programs, "bwrap"),
          `#!/bin/sh\nwhile [ ! -e '${verdict}' ]; do sleep 0.05; done\necho 'no namespaces here' >&2\nexit 1\n`,
        );
        chmodSync(join(programs, "bwrap"), 0o755);
        chmodSync(bench.folder, 0o755);
        const port = await freePort();
        const env = {
          PATH: `${programs}:${process.env["PATH"] ?? ""}`,
          DOCKER_HOST: "unix:///nonexistent.sock",
        };
        const child = bench.start(["serve", "--port", String(port), "--no-token"], { env });
        const end = ended(child);
        const url = `http://127.0.0.1:${port}/v1`;
        const isHealthy = (): Promise<boolean> =>
          fetch(`${url}/health`).then(
            ({ ok }) => ok,
            () => false,
          );
        await expect.poll(isHealthy, { timeout: 20_000 }).toBe(true);

        const made = fetch(`${url}/sessions/early`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ agent: "scripted" }),
        }).then(
          ({ status }) => status,
          () => "cut off",
        );
        const { sessions } = (await (await fetch(`${url}/sessions`)).json()) as { sessions: unknown[] };
        expect(sessions).toEqual([]);
        expect(existsSync(join(bench.data, "sandboxes", "early"))).toBe(false);

        writeFileSync(verdict, "");
        expect([400, "cut off"]).toContain(await made);
        const { code, out, err } = await end;
        expect({ code, out }).toEqual({ code: 1, out: "" });
        expect(err).toContain("No isolated sandbox works here");
      },
    );
  },
);
