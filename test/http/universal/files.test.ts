import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FileEntry } from "../../../src/contract/responses.ts";
import { parseTar } from "../../../src/http/universal/tar.ts";
import { type AppBench, codeOf, openApp, problemOf } from "../app-bench.ts";

let bench: AppBench;
let folder: string;
beforeAll(async () => {
  bench = await openApp();
  await bench.test.engine.create("s", { agent: "scripted" });
  folder = mkdtempSync(join(tmpdir(), "sluice-tar-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await bench.close();
});

const fs = (method: string, call: string, query: Record<string, string>, options: object = {}) =>
  bench.call(method, `/v1/fs/${call}?${new URLSearchParams({ session: "s", ...query })}`, options);
const entries = async (path: string): Promise<string[]> => {
  const list = FileEntry.array().parse(await (await fs("GET", "entries", { path })).json());
  return list.map((entry) => `${entry.name}:${entry.entryType}`).sort();
};
const read = async (path: string): Promise<string> => (await fs("GET", "file", { path })).text();

describe("the files of a session", () => {
  it("are written, read, listed, moved and removed", async () => {
    const bytes = Uint8Array.from({ length: 1000 }, (_, index) => index % 256);
    const written = await fs("PUT", "file", { path: "deep/er/b.bin" }, { body: bytes });
    expect(await written.json()).toEqual({ path: "deep/er/b.bin", bytesWritten: 1000 });
    const file = await fs("GET", "file", { path: "deep/er/b.bin" });
    expect(new Uint8Array(await file.arrayBuffer())).toEqual(bytes);
    expect(file.headers.get("x-content-type-options")).toBe("nosniff");

    const stat = FileEntry.parse(await (await fs("GET", "stat", { path: "deep/er/b.bin" })).json());
    expect(stat).toMatchObject({ name: "b.bin", entryType: "file", size: 1000 });
    expect((await fs("POST", "mkdir", { path: "deep/c" })).status).toBe(200);
    expect(await entries("deep")).toEqual(["c:directory", "er:directory"]);

    const move = { json: { from: "deep/er/b.bin", to: "deep/c/d.bin" } };
    expect((await fs("POST", "move", {}, move)).status).toBe(200);
    expect(await entries("deep/c")).toEqual(["d.bin:file"]);
    expect((await fs("DELETE", "entry", { path: "deep", recursive: "true" })).status).toBe(200);
    const gone = await fs("GET", "stat", { path: "deep" });
    expect([gone.status, await codeOf(gone)]).toEqual([404, "file_not_found"]);
  });

  it.each(["../../etc/passwd", "/etc/passwd", "a/../../../x"])(
    "cannot be outside of the sandbox: %s",
    async (path) => {
      for (const response of [
        await fs("GET", "file", { path }),
        await fs("PUT", "file", { path }, { body: "x" }),
      ]) {
        expect(response.status).toBeGreaterThanOrEqual(400);
        expect(response.status).toBeLessThan(500);
      }
    },
  );

  it("need a session and a path", async () => {
    expect((await bench.call("GET", "/v1/fs/entries")).status).toBe(400);
    expect((await bench.call("GET", "/v1/fs/file?session=s")).status).toBe(400);
    expect((await bench.call("GET", "/v1/fs/stat?session=none&path=a")).status).toBe(404);
  });
});

const parse = (bytes: Uint8Array): ReturnType<typeof parseTar> =>
  parseTar({ length: bytes.length, read: async (start, size) => bytes.subarray(start, start + size) });

describe("an archive", () => {
  const long = `${"a-long-folder-name/".repeat(12)}file.txt`;

  it.each(["ustar", "pax", "gnu"])("in %s format is unpacked, including long names", async (format) => {
    const names =
      format === "ustar" ? ["one.txt", "sub", "empty"] : ["one.txt", "sub", "empty", long, "ünï.txt"];
    mkdirSync(join(folder, "sub"), { recursive: true });
    mkdirSync(join(folder, "empty"), { recursive: true });
    mkdirSync(join(folder, long, ".."), { recursive: true });
    writeFileSync(join(folder, "one.txt"), "1".repeat(513));
    writeFileSync(join(folder, "sub/two.txt"), "");
    writeFileSync(join(folder, long), "long");
    writeFileSync(join(folder, "ünï.txt"), "ü");
    const response = await fs(
      "POST",
      "upload-batch",
      { path: `in-${format}` },
      { body: archive(format, names) },
    );
    expect(response.status).toBe(200);
    expect(await read(`in-${format}/one.txt`)).toBe("1".repeat(513));
    expect(await read(`in-${format}/sub/two.txt`)).toBe("");
    expect(await entries(`in-${format}`)).toContain("empty:directory");
    if (format !== "ustar") expect(await read(`in-${format}/${long}`)).toBe("long");
    if (format !== "ustar") expect(await read(`in-${format}/ünï.txt`)).toBe("ü");
  });

  it.each([
    ["a symbolic link", () => (symlinkSync("/etc/passwd", join(folder, "link")), ["one.txt", "link"]), []],
    ["a way out", () => ["one.txt"], ["--transform=s,one,../one,"]],
    ["an absolute path", () => ["one.txt"], ["-P", "--transform=s,^one,/tmp/one,"]],
  ])("with %s is refused as a whole", async (_, names, flags) => {
    writeFileSync(join(folder, "one.txt"), "1");
    const body = execFileSync("tar", ["-C", folder, ...flags, "-cf", "-", ...names()]);
    const response = await fs("POST", "upload-batch", { path: "bad" }, { body });
    const problem = await problemOf(response);
    expect(problem.status).toBe(400);
    expect(problem.detail).toContain("nothing of it was written");
    expect((await fs("GET", "stat", { path: "bad" })).status).toBe(404);
  });

  it("that is truncated or invalid is refused", async () => {
    writeFileSync(join(folder, "one.txt"), "1".repeat(2000));
    const whole = archive("ustar", ["one.txt"]);
    for (const length of [100, 512, 700, 2000])
      await expect(parse(whole.subarray(0, length))).rejects.toThrow("ends within");
    await expect(parse(Buffer.alloc(512, 1))).rejects.toThrow("no header at byte 0");
    const gzipped = execFileSync("tar", ["-C", folder, "-czf", "-", "one.txt"]);
    await expect(parse(Buffer.concat([gzipped, Buffer.alloc(512)]))).rejects.toThrow("uncompressed");
  });

  // JavaScript takes "1e-300" for a number, and with that length the reader never ended.
  it.each(["1e-300", "0.5", "0x1e", "-30", "0", ""])(
    "whose pax record is %j bytes long is refused",
    async (length) => {
      writeFileSync(join(folder, "one.txt"), "1");
      const damaged = archive("pax", ["one.txt"]);
      damaged.write(`${length} path=x`, 512);
      await expect(parse(damaged)).rejects.toThrow("a pax record is damaged");
    },
  );

  it("of many small files and a large one is read whole", async () => {
    const names = Array.from({ length: 300 }, (_, index) => `small-${index}.txt`);
    for (const name of names) writeFileSync(join(folder, name), name);
    writeFileSync(join(folder, "large.txt"), "l".repeat(300_000));
    const body = archive("pax", [...names.slice(0, 150), "large.txt", ...names.slice(150)]);
    expect((await fs("POST", "upload-batch", { path: "many" }, { body })).status).toBe(200);
    expect(await entries("many")).toHaveLength(301);
    for (const name of [names[0], names[149], names[150], names[299]])
      expect(await read(`many/${name}`)).toBe(name);
    expect(await read("many/large.txt")).toBe("l".repeat(300_000));
  });
});

function archive(format: string, names: string[]): Buffer {
  return execFileSync("tar", ["-C", folder, `--format=${format}`, "-cf", "-", ...names], {
    maxBuffer: 1 << 24,
  });
}
