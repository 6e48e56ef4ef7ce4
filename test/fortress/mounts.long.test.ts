import { copyFileSync, mkdirSync, realpathSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { partsOf } from "../../src/harness/launch/program-paths.ts";
import { describeFortress, give, makeFolder } from "./fortress-bench.ts";
import {
  CASES,
  file,
  folders,
  makeFixture,
  nodeProgram,
  npmPackage,
  program,
  secret,
  serveFrom,
  spy,
} from "./mount-cases.ts";

describeFortress("what a program brings into the sandbox", (user) => {
  it.each(CASES)("$name brings itself and nothing else of that home", async ({ make }) => {
    const fixture = await makeFixture(user);
    const { command, seen, said = "" } = make(fixture);
    give(fixture.home, user);
    const server = await serveFrom(user, fixture);
    const { found, spoken } = await spy(
      server,
      fixture,
      { agent: "acp", command: [command] },
      await makeFolder(user),
    );
    expect(found.sort()).toEqual([...seen].sort());
    expect(spoken).toBe(said);
  });

  it("a harness's own CLI in a home brings itself alone", async () => {
    const fixture = await makeFixture(user);
    program(fixture.home, "bin/amp");
    give(fixture.home, user);
    const server = await serveFrom(user, fixture, { AMP_API_KEY: "none-of-value" });
    const { found } = await spy(server, fixture, { agent: "amp" }, await makeFolder(user));
    expect(found).toEqual(["bin/amp"]);
  });

  it("Node itself, in a home, brings its file alone", async () => {
    const fixture = await makeFixture(user);
    const node = ".nvm/versions/node/v1.0.0/bin/node";
    mkdirSync(dirname(join(fixture.home, node)), { recursive: true });
    copyFileSync(process.execPath, join(fixture.home, node));
    secret(fixture.home, ".nvm/versions/node/v1.0.0/lib/node_modules/other/index.js");
    nodeProgram(fixture.home, "bin/spy-in-node", "const said = process.execPath;");
    give(fixture.home, user);
    const server = await serveFrom(user, fixture, {
      PATH: [dirname(join(fixture.home, node)), join(fixture.home, "bin"), process.env["PATH"]].join(
        delimiter,
      ),
    });
    const spec = { agent: "acp", command: ["spy-in-node"] };
    const { found, spoken } = await spy(server, fixture, spec, await makeFolder(user));
    expect(found.sort()).toEqual([node, "bin/spy-in-node"].sort());
    expect(spoken).toBe(join(fixture.home, node));
  });

  it("a relative command and one with a missing interpreter are refused with a remedy", async () => {
    const fixture = await makeFixture(user);
    program(fixture.home, "bin/agent");
    file(fixture.home, "bin/lost", "#!/usr/bin/env no-such-interpreter\n", 0o755);
    give(fixture.home, user);
    const server = await serveFrom(user, fixture);
    const create = (command: string): Promise<unknown> =>
      server.client.sessions.create("spy", { agent: "acp", command: [command] });
    await expect(create("../bin/agent")).rejects.toThrow(/absolute path/);
    await expect(create("./agent")).rejects.toThrow(/absolute path/);
    await expect(create("lost")).rejects.toThrow(/no-such-interpreter.*Install it/);
    await expect(create(join(fixture.home, ".ssh/id_ed25519"))).rejects.toThrow(/no program/);
    await expect(create(fixture.home)).rejects.toThrow(/no program/);
  });
});

describe("a package with more dependencies than can be mounted one by one", () => {
  it("brings the folder that they are installed in, but never one that holds more than packages", async () => {
    const home = await mkdtemp(join(tmpdir(), "sluice-many-"));
    folders.push(home);
    const names = Array.from({ length: 80 }, (_, index) => `words-${index}`);
    npmPackage(home, "node_modules/spy", {
      dependencies: Object.fromEntries(names.map((name) => [name, "1"])),
    });
    for (const name of names) npmPackage(home, `node_modules/${name}`, {}, "");
    const agent = program(home, "node_modules/spy/cli.js");
    const modules = join(realpathSync(home), "node_modules");
    expect(partsOf(agent)).toEqual([modules]);
    secret(home, "node_modules/.cache/secret");
    const parts = partsOf(agent);
    expect(parts.sort()).toEqual([join(modules, "spy"), ...names.map((name) => join(modules, name))].sort());
  });
});

afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});
