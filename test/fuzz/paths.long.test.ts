import { lstatSync, mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { array, constantFrom, integer, oneof, record, string, tuple, type Arbitrary } from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SluiceError } from "../../src/contract/index.ts";
import { createBwrapProvider, createLocalProvider } from "../../src/sandbox/index.ts";
import type { HostSandbox, HostProvider } from "../../src/sandbox/port.ts";
import { describeTree } from "../fortress/swapper.ts";
import { fuzz } from "./fuzz.ts";

const SECRET = "the host's own secret";
let base = "";
let canary = "";
let untouched: string[] = [];
let mounted: Opened;
let plain: Opened;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sluice-paths-"));
  canary = join(base, "canary");
  mkdirSync(join(canary, "a/b"), { recursive: true });
  for (const path of ["a/b/c", "a/c", "c"]) writeFileSync(join(canary, path), SECRET);
  untouched = await describeTree(canary);
  mounted = await open(createBwrapProvider({ root: join(base, "bwrap") }));
  plain = await open(createLocalProvider({ root: join(base, "local") }));
});
afterAll(async () => {
  await mounted.sandbox.destroy();
  await plain.sandbox.destroy();
  await rm(base, { recursive: true, force: true });
});

/** Few names, so that paths meet. */
const NAME = oneof(
  { weight: 12, arbitrary: constantFrom("a", "b", "c", "d") },
  { weight: 1, arbitrary: constantFrom("ü", "日本", "a b", "'", "-rf", "\n", "…", "x".repeat(255)) },
);
const STEP = oneof(
  { weight: 8, arbitrary: NAME },
  { weight: 3, arbitrary: constantFrom("..", ".", "") },
  { weight: 1, arbitrary: oneof(string({ maxLength: 8 }), constantFrom("x".repeat(300), "\0", "a\0b")) },
);
const ROOT = constantFrom(
  "/home/user/workspace",
  "/home/user",
  "/workspace",
  "/tmp",
  "/mnt/session/outputs",
  "/mnt/session/uploads",
  "/var/tmp",
  "/",
  "/etc",
  "/proc/self/root",
  "/home",
  "CANARY",
  "CANARY/a",
);
const PATH: Arbitrary<string> = oneof(
  array(STEP, { minLength: 1, maxLength: 6 }).map((steps) => steps.join("/")),
  tuple(ROOT, array(STEP, { maxLength: 4 })).map(([root, steps]) => [root, ...steps].join("/")),
);

interface Made {
  readonly kind: "folder" | "file" | "link";
  readonly root: "workspace" | "home" | "tmp";
  readonly path: readonly string[];
  readonly target: string;
}
const MADE: Arbitrary<Made> = record({
  kind: constantFrom("folder", "file", "link", "link"),
  root: constantFrom("workspace", "workspace", "home", "tmp"),
  path: array(NAME, { minLength: 1, maxLength: 3 }),
  target: PATH.filter((path) => path !== "" && !path.includes("\0") && Buffer.byteLength(path) < 1_000),
});
const INPUT = record({
  made: array(MADE, { maxLength: 12 }),
  path: PATH,
  other: PATH,
  act: integer({ min: 0, max: 7 }),
});

describe("the files of a sandbox by any path", () => {
  fuzz("lead where a program inside would be led, and never outside", {
    inputs: INPUT,
    findings: [{ made: [], path: "a/a/..", other: "/home/user/workspace/\0", act: 5 }],
    tries: 400,
    check: async ({ made, path, other, act }) => {
      const { sandbox, host } = mounted;
      await build(host, made);
      const said = path.replaceAll("CANARY", canary);
      const wanted = readAsInside(host, said);
      const found = await settle(sandbox.files.read(said));
      if (typeof found === "string") expect(found).toBe(wanted);
      // The letters alone may be reason enough to refuse.
      else if (typeof wanted === "string") expect(isPlainlyOutside(said)).toBe(true);
      await settle(change(sandbox, said, other.replaceAll("CANARY", canary), act));
      expect(await describeTree(canary)).toEqual(untouched);
    },
  });

  fuzz("never lead outside where a path is the host's own", {
    inputs: INPUT,
    tries: 200,
    check: async ({ made, path, other, act }) => {
      const { sandbox, host } = plain;
      await build(host, made);
      const said = path.replaceAll("CANARY", canary);
      expect(await settle(sandbox.files.read(said))).not.toBe(SECRET);
      await settle(change(sandbox, said, other.replaceAll("CANARY", canary), act));
      expect(await describeTree(canary)).toEqual(untouched);
    },
  });
});

const bwrap = await createBwrapProvider({ root: join(tmpdir(), "sluice-probe") }).detect();
if (!bwrap.available && process.env["CI"] === "true") throw new Error(`no bwrap: ${bwrap.reason}`);

describe.skipIf(!bwrap.available)(`a program inside (needs bwrap: ${bwrap.reason ?? "there"})`, () => {
  it("sees the same files by the same paths as a client", async () => {
    const { sandbox } = mounted;
    const script = `find . /tmp -mindepth 1 -delete; find ~ -mindepth 1 -maxdepth 1 ! -name workspace -exec rm -rf {} +; cd /home/user/workspace; mkdir -p a/b ~/x /tmp/t; echo 1 > a/b/f; echo 2 > ~/x/f; echo 3 > /tmp/t/f; mkdir -p output; echo 4 > output/f
ln -s /home/user/workspace/a abs; ln -s /workspace/a/b ws; ln -s /tmp/t tmp; ln -s /mnt/session/outputs outs; ln -s ../x up
ln -s a/../a/b/f dots; ln -s loop loop; ln -s chain2 chain1; ln -s chain3 chain2; ln -s /home/user/workspace/a/b chain3; ln -s /var/tmp/t var
ln -s a/b/../../../x/f through; ln -s /etc/hostname etc; ln -s /proc/self/environ proc; ln -s /usr usr; ln -s . self; ln -s /home/user/workspace/self/abs twice`;
    expect(await sandbox.exec(script)).toMatchObject({ exitCode: 0 });
    const inside = ["abs/b/f", "ws/f", "tmp/f", "outs/f", "up/f", "dots", "chain1/f", "var/f", "through"];
    const more = [
      "self/self/self/ws/f",
      "twice/b/f",
      "abs/../a/b/f",
      "ws/../f",
      "up/../workspace/a/b/f",
      "a//b/./f",
    ];
    const none = ["loop", "loop/x", "ws/none", "a/b/f/x"];
    for (const path of [...inside, ...more, ...none, "/workspace/abs/b/f", "/mnt/session/outputs/f"]) {
      const { stdout, exitCode } = await sandbox.exec(`cat -- '${path}'`);
      const found = await settle(sandbox.files.read(path));
      expect([path, typeof found === "string" ? found : "refused"]).toEqual([
        path,
        exitCode === 0 ? stdout : "refused",
      ]);
    }
    for (const path of ["etc", "proc", "usr/bin/env", "usr"]) {
      expect(await settle(sandbox.files.read(path))).toMatchObject({ code: "permission_denied" });
    }
  });
});

type Host = Readonly<Record<"workspace" | "home" | "uploads" | "tmp", string>>;

interface Opened {
  readonly sandbox: HostSandbox;
  readonly host: Host;
}

async function open(provider: HostProvider): Promise<Opened> {
  const sandbox = await provider.create({ id: "s" });
  const { workspace, home, uploads } = sandbox.folders!;
  return { sandbox, host: { workspace, home, uploads, tmp: join(dirname(home), "tmp") } };
}

/** The agent's entries, in folders that were empty. */
async function build(host: Host, made: readonly Made[]): Promise<void> {
  for (const folder of Object.values(host)) {
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
  }
  for (const { kind, root, path, target } of made) {
    const file = join(host[root], ...path);
    // Nothing of it is made through a link.
    if (readsThroughLink(host[root], path)) continue;
    try {
      mkdirSync(kind === "folder" ? file : dirname(file), { recursive: true });
      if (kind === "file") writeFileSync(file, file.slice(base.length), { flag: "wx" });
      if (kind === "link") symlinkSync(target.replaceAll("CANARY", canary), file);
    } catch {
      // Something else is there already.
    }
  }
}

function readsThroughLink(root: string, path: readonly string[]): boolean {
  return path.some((_, at) => readLink(join(root, ...path.slice(0, at))) !== undefined);
}

/** A second resolver of paths inside, by strings alone and on a tree without changes. */
function readAsInside(host: Host, said: string): string | undefined {
  if (said.includes("\0")) return undefined;
  const folders: Record<string, string> = {
    "/home/user": host.home,
    "/home/user/workspace": host.workspace,
    "/mnt/session/uploads": host.uploads,
    "/tmp": host.tmp,
  };
  const links: Record<string, string> = {
    "/workspace": "/home/user/workspace",
    "/mnt/session/outputs": "/home/user/workspace/output",
    "/var/tmp": "/tmp",
  };
  const toHost = (path: string): string | undefined => {
    for (let up = path; ; up = dirname(up)) {
      const root = folders[up];
      if (root !== undefined) return root + path.slice(up.length);
      if (up === "/") return undefined;
    }
  };
  const walk = (at: string, steps: string[], budget: { left: number }): string | undefined => {
    const [step, ...rest] = steps;
    if (step === undefined) return at;
    if (step === "" || step === ".") return walk(at, rest, budget);
    if (step === "..") return walk(dirname(at), rest, budget);
    const next = join(at, step);
    const virtual = [...Object.keys(folders), ...Object.keys(links)].some((path) =>
      path.startsWith(`${next}/`),
    );
    const target = links[next] ?? readLink(toHost(next));
    if (target !== undefined && folders[next] === undefined) {
      budget.left -= 1;
      if (budget.left < 0) return undefined;
      return walk(target.startsWith("/") ? "/" : at, [...target.split("/"), ...rest], budget);
    }
    const real = toHost(next);
    if (real === undefined ? !virtual : rest.length > 0 && !isFolder(real)) return undefined;
    return walk(next, rest, budget);
  };
  const start = said.startsWith("/") ? said : `/home/user/workspace/${said}`;
  const end = walk("/", start.split("/"), { left: 40 });
  const file = end === undefined ? undefined : toHost(end);
  try {
    return file !== undefined && lstatSync(file).isFile() ? readFileSync(file, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

function readLink(path: string | undefined): string | undefined {
  try {
    return path === undefined ? undefined : readlinkSync(path);
  } catch {
    return undefined;
  }
}

function isFolder(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Paths that a client may not name, with any target. */
function isPlainlyOutside(said: string): boolean {
  const base = "/home/user/workspace";
  const plain = said.startsWith("/") ? normalize(said) : join(base, said);
  const roots = said.startsWith("/")
    ? [base, "/home/user", "/workspace", "/mnt/session/outputs", "/mnt/session/uploads"]
    : [base];
  return !roots.some((root) => plain === root || plain.startsWith(`${root}/`) || plain === `${root}/`);
}

async function change(sandbox: HostSandbox, path: string, other: string, act: number): Promise<unknown> {
  const { files } = sandbox;
  if (act === 0) return files.write(path, "a client's");
  if (act === 1) return files.mkdir(path);
  if (act === 2) return files.remove(path, { recursive: true });
  if (act === 3) return files.move(path, other, { overwrite: true });
  if (act === 4) return files.list(path);
  if (act === 5) return files.symlink?.(path, other);
  if (act === 6) return files.write(path, "a client's", { mode: 0o755 });
  return files.stat(path);
}

/** A text, or why there is none; anything but our own words is a crash. */
async function settle(work: Promise<unknown>): Promise<unknown> {
  try {
    const result = await work;
    return result instanceof Uint8Array ? Buffer.from(result).toString() : result;
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
}
