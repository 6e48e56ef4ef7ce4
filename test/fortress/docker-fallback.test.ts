import Docker from "dockerode";
import { readdirSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { start, whyNot, type DockerEngine } from "../../scripts/docker-engine.mjs";
import { script } from "../cli/workbench.ts";
import { SERVER_USERS } from "./fortress-bench.ts";
import { Elsewhere } from "./machines.ts";

const reason = whyNot();
if (reason !== undefined && process.env["CI"] === "true") throw new Error(`no container engine: ${reason}`);

describe.skipIf(reason !== undefined)(`without bwrap, with Docker (skipped: ${reason ?? "no"})`, () => {
  let engine: DockerEngine;
  let bench: Elsewhere;
  beforeAll(async () => {
    engine = await start();
  }, 120_000);
  afterAll(() => engine?.stop(), 60_000);
  beforeEach(() => {
    bench = new Elsewhere("no bwrap", SERVER_USERS[0]!);
  });
  afterEach(() => bench.close());

  it(
    "asks for the image where it is not there, and then runs in a container",
    { timeout: 120_000 },
    async () => {
      const env = { DOCKER_HOST: `unix://${engine.socketPath}` };
      const turn = ["run", script({ shell: "touch made && echo in $HOME" })];
      const refused = await bench.sluice(turn, env);
      expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("node:22-bookworm") });
      const doctor = await bench.sluice(["doctor", "--json"], env);
      expect(JSON.parse(doctor.out).sandboxes[1]).toMatchObject({
        id: "docker",
        ok: false,
        command: "docker pull node:22-bookworm",
      });
      const docker = new Docker({ socketPath: engine.socketPath });
      await docker.getImage(engine.image).tag({ repo: "node", tag: "22-bookworm" });
      const ran = await bench.sluice(turn, env);
      expect(ran, ran.err).toMatchObject({ code: 0, out: expect.stringContaining("docker sandbox") });
      expect(readdirSync(bench.work)).toContain("made");
      for (const { Id } of await docker.listContainers({ all: true }))
        await docker.getContainer(Id).remove({ force: true });
    },
  );
});
