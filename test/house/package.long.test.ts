import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";
import { type InstalledPackage, installPackage, lend } from "../support/installed-package.ts";
import { readSamples } from "../support/samples.ts";
import { freePort } from "../support/server.ts";

const run = promisify(execFile);
const README = readSamples("README.md");

let project: InstalledPackage;
beforeAll(async () => {
  project = await installPackage();
  await lend(project, "@types/node");
  await lend(project, "undici-types");
}, 180_000);
afterAll(() => project?.remove());

describe("the package, packed and installed into an empty project", () => {
  it("has its documentation, and no compiled code of one machine", () => {
    expect(project.files).toEqual(
      expect.arrayContaining(["docs/README.md", "dist/docs/index.html", "openapi.json", "bin/sluice"]),
    );
    expect(project.files.filter((file) => file.startsWith("dist/cli/code"))).toEqual([]);
  });

  it("has every entry that it exports", async () => {
    const { exports, peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      exports: Record<string, unknown>;
      peerDependencies: Record<string, string>;
    };
    const optional = Object.keys(peerDependencies);
    for (const entry of Object.keys(exports).filter((entry) => !entry.endsWith(".json"))) {
      const code = `await import(${JSON.stringify(`sluice${entry.slice(1)}`)});`;
      const failed = await run(process.execPath, ["--input-type=module", "-e", code], {
        cwd: project.folder,
      }).then(
        () => "",
        (error: { stderr: string }) => error.stderr,
      );
      // An entry for an optional package fails by the name of that package alone.
      if (failed !== "")
        expect(
          optional.some((name) => failed.includes(`'${name}'`)),
          `${entry}: ${failed}`,
        ).toBe(true);
    }
  }, 60_000);

  it.each(["nodenext", "bundler"] as const)(
    "compiles the samples of README.md under %s",
    { timeout: 180_000 },
    async (resolution) => {
      const samples = README.filter(({ language }) => language === "ts");
      expect(samples.length).toBeGreaterThan(0);
      expect(await project.check(samples, resolution)).toEqual([]);
    },
  );

  it("runs the samples of README.md against its own server", { timeout: 60_000 }, async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const data = join(project.folder, "data");
    const sluice = join(project.folder, "node_modules", ".bin", "sluice");
    const server = spawn(sluice, ["serve", "--port", String(port), "--data", data, "--sandbox", "local"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [line] = (await once(createInterface({ input: server.stdout }), "line")) as [string];
      expect(line).toBe(`sluice listening on ${url}`);
      const token = (await readFile(join(data, "token"), "utf8")).trim();
      const sample = README.find(({ language }) => language === "ts");
      const file = await project.write({
        code: (sample?.code ?? "").replaceAll("http://127.0.0.1:7411", url),
      });
      const program = spawn(process.execPath, [file], {
        cwd: project.folder,
        env: { ...process.env, SLUICE_TOKEN: token },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let said = "";
      for await (const chunk of program.stdout) {
        said += String(chunk);
        if (said.includes("I ran a shell command")) program.kill();
      }
      expect(said).toContain("I ran a shell command");
      const docs = await fetch(`${url}/docs/`);
      expect(docs.status).toBe(200);
    } finally {
      const exit = once(server, "exit");
      server.kill("SIGTERM");
      await exit;
    }
  });
});

describe("the root entry", () => {
  const HEAVY = /^(?:hono|@hono|libsql|@libsql|aws4fetch)\//;

  /** The rooms whose code a program has loaded. */
  async function roomsOf(code: string): Promise<{ rooms: Set<string>; packages: string[] }> {
    const loaded = await project.readLoaded(code);
    const own = loaded.filter((path) => path.startsWith("sluice/"));
    const texts = await Promise.all(
      own.map((path) => readFile(join(project.folder, "node_modules", path), "utf8")),
    );
    const regions = [...texts.join("\n").matchAll(/^\/\/#region src\/([\w-]+)\//gm)];
    return {
      rooms: new Set(regions.map(([, room = ""]) => room)),
      packages: loaded.filter((path) => HEAVY.test(path)),
    };
  }

  it("loads neither the HTTP server nor the engine", async () => {
    const { rooms, packages } = await roomsOf(
      'import { Sluice, createEngine, listen } from "sluice"; new Sluice();',
    );
    expect(packages).toEqual([]);
    expect(rooms).toContain("sdk");
    for (const heavy of ["http", "spool", "harness", "tools", "cli", "model"])
      expect(rooms).not.toContain(heavy);
  });

  it("loads both when they are used", async () => {
    const { rooms, packages } = await roomsOf(`
      import { createApp, createEngine, createMemoryLog, listen } from "sluice";
      const log = createMemoryLog();
      const engine = await createEngine({ log, dataDir: "./engine" });
      const app = createApp({ engine, token: "secret", version: "1" });
      const server = await listen({ app, host: "127.0.0.1", port: 0 });
      if ((await fetch(server.url + "/healthz")).status !== 200) throw new Error("no answer");
      await server.close();
      await engine.drain({ graceMs: 0 });
      await log.close();
    `);
    expect(packages.some((path) => path.startsWith("hono/"))).toBe(true);
    expect(rooms).toContain("http");
    expect(rooms).toContain("harness");
  });
});
