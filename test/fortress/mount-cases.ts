import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import type { SluiceEvent } from "../../src/contract/index.ts";
import type { TestServer } from "../support/server.ts";
import { makeFolder, serveAs, type ServerUser } from "./fortress-bench.ts";

const CANARY = "canary-of-the-home";

/** Lists the visible files of the home and of the folder beside it, and ends. */
const SPY = `{ find "$SPIED" "$BESIDE" ! -type d; echo "said: $SAID"; } > /home/user/workspace/seen 2>/dev/null`;

/** The same in the language of a script whose interpreter matters. */
const NODE_SPY = `require("node:child_process").execFileSync("/bin/sh", ["-c", process.env.SPY], { env: { ...process.env, SAID: said } });`;

interface Fixture {
  readonly home: string;
  /** A folder elsewhere, with a secret in it. */
  readonly beside: string;
}

interface Case {
  readonly name: string;
  /** Puts the program there; answers the command, and all that may be seen of the two folders. */
  make(fixture: Fixture): { command: string; seen: readonly string[]; said?: string };
}

export const CASES: readonly Case[] = [
  {
    name: "a file in a home",
    make: ({ home }) => ({ command: program(home, "agent"), seen: ["agent"] }),
  },
  {
    name: "a file in ~/bin",
    make: ({ home }) => ({ command: program(home, "bin/agent"), seen: ["bin/agent"] }),
  },
  {
    name: "a link into a folder of versions",
    make({ home }) {
      const real = "share/agent/versions/1/agent";
      program(home, `.local/${real}`);
      secret(home, ".local/share/agent/versions/1/settings.json");
      secret(home, ".local/share/agent/login.json");
      return { command: link(home, ".local/bin/agent", `../${real}`), seen: [`.local/${real}`] };
    },
  },
  {
    name: "a name on PATH",
    make({ home }) {
      program(home, "bin/spy-on-path");
      return { command: "spy-on-path", seen: ["bin/spy-on-path"] };
    },
  },
  {
    name: "a link to a file elsewhere",
    make({ home, beside }) {
      const real = program(beside, "agent");
      return { command: link(home, "bin/agent", real), seen: ["BESIDE/agent"] };
    },
  },
  {
    name: "a package of the home's node_modules, with what it depends on",
    make({ home }) {
      npmPackage(home, "node_modules/spy", { dependencies: { "@of/words": "1", "../../.ssh": "1" } });
      npmPackage(home, "node_modules/@of/words", {}, 'module.exports = "hoisted";');
      npmPackage(home, "node_modules/other", {}, `// ${CANARY}`);
      secret(home, "node_modules/.cache/secret");
      secret(home, ".env");
      nodeProgram(home, "node_modules/spy/cli.js", 'const said = require("@of/words");');
      return {
        command: link(home, "node_modules/.bin/spy", "../spy/cli.js"),
        seen: [
          ...manifestAnd("node_modules/spy", "cli.js"),
          ...manifestAnd("node_modules/@of/words", "index.js"),
        ],
        said: "hoisted",
      };
    },
  },
  {
    name: "a package that npm installed globally into a home",
    make({ home }) {
      const root = ".npm-global/lib/node_modules";
      npmPackage(home, `${root}/spy`, { dependencies: { words: "1" } });
      npmPackage(home, `${root}/spy/node_modules/words`, {}, 'module.exports = "nested";');
      npmPackage(home, `${root}/other`, {}, `// ${CANARY}`);
      secret(home, ".npm-global/etc/npmrc");
      nodeProgram(home, `${root}/spy/cli.js`, 'const said = require("words");');
      return {
        command: link(home, ".npm-global/bin/spy", "../lib/node_modules/spy/cli.js"),
        seen: [
          ...manifestAnd(`${root}/spy`, "cli.js"),
          ...manifestAnd(`${root}/spy/node_modules/words`, "index.js"),
        ],
        said: "nested",
      };
    },
  },
  {
    name: "a package of pnpm's store, behind its shim",
    make({ home }) {
      const store = ".pnpm-home/global/5/node_modules";
      const spy = `${store}/.pnpm/spy@1.0.0/node_modules`;
      const words = `${store}/.pnpm/words@1.0.0/node_modules`;
      npmPackage(home, `${spy}/spy`, { dependencies: { words: "1" } });
      npmPackage(home, `${words}/words`, {}, 'module.exports = "linked";');
      npmPackage(home, `${store}/.pnpm/other@1.0.0/node_modules/other`, {}, `// ${CANARY}`);
      link(home, `${spy}/words`, "../../words@1.0.0/node_modules/words");
      link(home, `${store}/spy`, ".pnpm/spy@1.0.0/node_modules/spy");
      nodeProgram(home, `${spy}/spy/cli.js`, 'const said = require("words");');
      const shim = `basedir=$(dirname "$0")\nexec node  "$basedir/global/5/node_modules/spy/cli.js" "$@"`;
      return {
        command: program(home, ".pnpm-home/spy", shim),
        seen: [
          ...manifestAnd(`${spy}/spy`, "cli.js"),
          `${spy}/words`,
          ...manifestAnd(`${words}/words`, "index.js"),
        ],
        said: "linked",
      };
    },
  },
  {
    name: "a package that is linked from where it is worked on",
    make({ home }) {
      npmPackage(home, "src/spy", { bin: { spy: "dist/cli.js" }, files: ["dist", "../../.ssh", ".env"] });
      nodeProgram(home, "src/spy/dist/cli.js", 'const said = require("./words.js");');
      file(home, "src/spy/dist/words.js", 'module.exports = "built";');
      secret(home, "src/spy/.env");
      secret(home, "src/spy/.git/config");
      secret(home, "src/spy/notes.txt");
      return {
        command: link(home, "bin/spy", "../src/spy/dist/cli.js"),
        seen: ["src/spy/dist/cli.js", "src/spy/dist/words.js", "src/spy/package.json"],
        said: "built",
      };
    },
  },
  {
    name: "an installation with libraries of its own",
    make({ home }) {
      file(home, "tools/spy-1/lib/words.sh", "SAID=library");
      const body = `. "$(dirname "$0")/../lib/words.sh"\n${SPY}`;
      return {
        command: program(home, "tools/spy-1/bin/spy", body),
        seen: ["tools/spy-1/bin/spy", "tools/spy-1/lib/words.sh"],
        said: "library",
      };
    },
  },
  {
    name: "the same beside other things, without them and without its libraries",
    make({ home }) {
      secret(home, "tools/spy-2/lib/words.sh");
      secret(home, "tools/spy-2/notes.txt");
      return { command: program(home, "tools/spy-2/bin/spy"), seen: ["tools/spy-2/bin/spy"] };
    },
  },
  {
    name: "a script with an interpreter of a virtual environment",
    make({ home }) {
      execFileSync("/usr/bin/python3", ["-m", "venv", "--without-pip", join(home, "work/.venv")]);
      secret(home, "work/.venv/bin/deploy");
      secret(home, "work/settings.py");
      const body = `import os, subprocess, sys\nos.environ["SAID"] = sys.prefix\nsubprocess.run(["/bin/sh", "-c", os.environ["SPY"]])`;
      file(home, "work/agent.py", `#!${home}/work/.venv/bin/python\n${body}\n`, 0o755);
      return {
        command: join(home, "work/agent.py"),
        seen: [
          ...["python", "python3"].map((name) => `work/.venv/bin/${name}`),
          "work/.venv/pyvenv.cfg",
          "work/agent.py",
        ],
        said: join(home, "work/.venv"),
      };
    },
  },
];

/** The files that the spy saw, relative to the home or after BESIDE, and its message. */
export async function spy(
  server: TestServer,
  { home, beside }: Fixture,
  spec: { agent: string; command?: string[] },
  directory: string,
): Promise<{ found: string[]; spoken: string }> {
  const env = { SPIED: home, BESIDE: beside, SPY };
  const sessionId = "spy";
  await server.client.sessions.create(sessionId, { ...spec, directory, env });
  const { turnId } = await server.client.sendMessage(sessionId, "go");
  const events = await untilTurnEnds(server, sessionId, turnId);
  const text = await readFile(join(directory, "seen"), "utf8").catch(() => {
    throw new Error(`the spy did not run: ${JSON.stringify(events.slice(-3))}`);
  });
  const lines = text.trimEnd().split("\n");
  const paths = lines.filter((line) => line.startsWith("/"));
  const found = paths.map((path) =>
    path.startsWith(home) ? path.slice(home.length + 1) : path.replace(beside, "BESIDE"),
  );
  return { found, spoken: (lines.find((line) => line.startsWith("said: ")) ?? "").slice("said: ".length) };
}

async function untilTurnEnds(server: TestServer, session: string, turnId: string): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { extensions: true })) {
    events.push(event);
    if (event.type === "turn.ended" && event.data.turn_id === turnId) return events;
  }
  throw new Error("the stream ended before the turn");
}

export const folders: string[] = [];

/** A typical home, and a folder beside it. */
export async function makeFixture(user: ServerUser): Promise<Fixture> {
  const home = await makeFolder(user);
  const beside = await mkdtemp(join(tmpdir(), "sluice-beside-"));
  folders.push(beside);
  chmodSync(beside, 0o755);
  secret(beside, "secret");
  for (const name of [".ssh/id_ed25519", ".aws/credentials", ".bash_history", "notes.txt", "bin/deploy"]) {
    secret(home, name);
  }
  return { home, beside };
}

export function serveFrom(
  user: ServerUser,
  { home }: Fixture,
  env: Record<string, string> = {},
): Promise<TestServer> {
  const PATH = [join(home, "bin"), process.env["PATH"]].join(delimiter);
  return serveAs(user, { env: { HOME: home, PATH, ...env } });
}

export function program(root: string, path: string, body = SPY): string {
  return file(root, path, `#!/bin/sh\n${body}\n`, 0o755);
}

export function nodeProgram(root: string, path: string, body: string): string {
  return file(root, path, `#!/usr/bin/env node\n${body}\n${NODE_SPY}\n`, 0o755);
}

export function npmPackage(root: string, path: string, manifest: object, index?: string): void {
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
  file(root, `${path}/package.json`, JSON.stringify({ name, version: "1.0.0", ...manifest }));
  if (index !== undefined) file(root, `${path}/index.js`, index);
}

function manifestAnd(path: string, name: string): string[] {
  return [`${path}/package.json`, `${path}/${name}`];
}

export function secret(root: string, path: string): string {
  return file(root, path, `${CANARY}\n`, 0o644);
}

export function file(root: string, path: string, content: string, mode = 0o644): string {
  const target = join(root, path);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, content, { mode });
  return target;
}

function link(root: string, path: string, target: string): string {
  const at = join(root, path);
  mkdirSync(dirname(at), { recursive: true });
  symlinkSync(target, at);
  return at;
}
