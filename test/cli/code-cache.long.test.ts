import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const BIN = join(ROOT, "bin/sluice");
const VERSION = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version;

/** Acts as another Node: its flags change the tag of the compiled code. */
const OTHER_NODE = "--no-flush-bytecode";

describe("the compiled code of the command line", () => {
  let cache: string;
  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), "sluice-code-"));
  });
  afterEach(() => rmSync(cache, { recursive: true, force: true }));

  const version = (
    env: Record<string, string>,
    ...flags: string[]
  ): { text: string; code: number | null } => {
    const ran = spawnSync(process.execPath, [...flags, BIN, "--version"], {
      env: { ...process.env, ...env },
      encoding: "utf8",
    });
    return { text: `${ran.stdout}${ran.stderr}`.trim(), code: ran.status };
  };
  const kept = (): string[] =>
    readdirSync(cache, { recursive: true, encoding: "utf8" })
      .map((name) => join(cache, name))
      .filter((path) => path.endsWith(".cjs"));

  it("is written by the first command and read by the next", () => {
    expect(version({ SLUICE_CODE_CACHE: cache })).toEqual({ text: VERSION, code: 0 });
    const files = kept();
    expect(files.length).toBeGreaterThan(0);
    const before = files.map((path) => statSync(path).ino);
    expect(version({ SLUICE_CODE_CACHE: cache })).toEqual({ text: VERSION, code: 0 });
    expect(files.map((path) => statSync(path).ino)).toEqual(before);
  });

  it("is replaced if damaged", () => {
    version({ SLUICE_CODE_CACHE: cache });
    const [first = ""] = kept();
    writeFileSync(first, "not code");
    expect(version({ SLUICE_CODE_CACHE: cache })).toEqual({ text: VERSION, code: 0 });
    expect(readFileSync(first).length).toBeGreaterThan(100);
  });

  it("is the user's own if another Node made the build's", () => {
    expect(version({ XDG_CACHE_HOME: cache }, OTHER_NODE)).toEqual({ text: VERSION, code: 0 });
    expect(kept().length).toBeGreaterThan(0);
  });

  it("is not read from a folder that other users can write to", () => {
    version({ XDG_CACHE_HOME: cache }, OTHER_NODE);
    const [first = ""] = kept();
    const before = statSync(first).ino;
    writeFileSync(first, "not code");
    chmodSync(resolve(first, ".."), 0o777);
    expect(version({ XDG_CACHE_HOME: cache }, OTHER_NODE)).toEqual({ text: VERSION, code: 0 });
    // Neither read nor written.
    expect(statSync(first).ino).toBe(before);
    expect(readFileSync(first, "utf8")).toBe("not code");
  });

  it.skipIf(process.getuid?.() !== 0)(
    "of a build by root serves other users, readable or not (needs root)",
    () => {
      // Copied, as the tree itself may lie in a folder that only root may enter.
      const copy = join(cache, "sluice");
      for (const part of ["bin", "dist", "package.json"])
        cpSync(join(ROOT, part), join(copy, part), { recursive: true });
      symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
      chmodSync(cache, 0o755);
      const versionAs = (uid: number): { text: string; code: number | null } => {
        const bin = join(copy, "bin/sluice");
        const env = { PATH: process.env["PATH"] ?? "" };
        const ran = spawnSync(process.execPath, [bin, "--version"], {
          env,
          encoding: "utf8",
          cwd: "/",
          uid,
          gid: uid,
        });
        return { text: `${ran.stdout}${ran.stderr}`.trim(), code: ran.status };
      };
      expect(versionAs(54_323)).toEqual({ text: VERSION, code: 0 });
      chmodSync(join(copy, "dist/cli/code"), 0o700);
      expect(versionAs(54_323)).toEqual({ text: VERSION, code: 0 });
    },
  );

  it("loads optional packages as source does", () => {
    const doctor = (): string =>
      spawnSync(process.execPath, [BIN, "doctor"], {
        env: { ...process.env, SLUICE_CODE_CACHE: cache },
        encoding: "utf8",
      }).stdout;
    for (const state of ["compiled", "cached"]) {
      expect(doctor(), state).toContain("docker");
      expect(doctor(), state).not.toContain("needs the package dockerode");
    }
  });

  it("can be turned off, and is skipped without a folder", () => {
    expect(version({ SLUICE_CODE_CACHE: "off" })).toEqual({ text: VERSION, code: 0 });
    const file = join(cache, "file");
    writeFileSync(file, "");
    expect(version({ SLUICE_CODE_CACHE: file })).toEqual({ text: VERSION, code: 0 });
    expect(kept()).toEqual([]);
  });
});
