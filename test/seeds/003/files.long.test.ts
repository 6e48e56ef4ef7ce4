import { mkdir, symlink, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { readLocalDir, saveLocalDir } from "../../../src/sdk/index.ts";
import { script as steps } from "../../support/engine.ts";
import { named, openBench, PLACES, type SdkBench } from "../../sdk/bench.ts";

const write = (content: string): string => steps({ write: { path: "output/result.json", content } });

/** Sections 3.4 and 3.5 of the page: files in, files out. */
describe.each(named(PLACES))("%s", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  const HOSTILE = [
    "a b.txt",
    `it's "quoted".txt`,
    "a|b.txt",
    "line\nbreak.txt",
    "$HOME `x` \\ *.txt",
    "ünïcode.txt",
  ];

  it("EV-49 EV-50: uploads are written at once, byte for byte, with any names", async () => {
    const sluice = bench.make();
    const bytes = Buffer.from([0, 1, 2, 255, 10, 13]);
    await sluice.uploadContext({ "spec.json": JSON.stringify({ a: 1 }), "deep/er/x.txt": "x" });
    await sluice.uploadFiles({
      "scripts/setup.sh": "#!/bin/bash\necho hello",
      "data/input.csv": bytes,
      ...Object.fromEntries(HOSTILE.map((name) => [`odd/${name}`, `content of ${name}`])),
    });
    const { stdout } = await sluice.executeCommand(
      "cat context/spec.json context/deep/er/x.txt; sh scripts/setup.sh; od -An -tx1 data/input.csv; ls odd | wc -l",
    );
    expect(stdout).toBe('{"a":1}xhello\n 00 01 02 ff 0a 0d\n7\n');
    for (const name of HOSTILE) {
      const quoted = name.replaceAll("'", `'\\''`);
      expect((await sluice.executeCommand(`cat 'odd/${quoted}'`)).stdout).toBe(`content of ${name}`);
    }
  });

  it("refuses paths out of the folder before it writes anything", async () => {
    const sluice = bench.make();
    for (const path of ["../x", "/etc/x", "a/../../x", "", ".", "a\0b", "a/"]) {
      await expect(sluice.uploadFiles({ ok: "x", [path]: "x" })).rejects.toMatchObject({
        code: "permission_denied",
      });
      await expect(sluice.uploadContext({ [path]: "x" })).rejects.toMatchObject({
        code: "permission_denied",
      });
      expect(() => bench.make().withFiles({ [path]: "x" })).toThrow(/path of a file/);
    }
    expect(sluice.getSession()).toBeNull();
    await sluice.executeCommand("ln -s /etc out");
    await expect(sluice.uploadFiles({ "out/escape.txt": "x" })).rejects.toMatchObject({
      code: "permission_denied",
    });
  });

  it("EV-52: readLocalDir returns the top level or all files, and follows no link out of the folder", async () => {
    const dir = await bench.temporary();
    await mkdir(join(dir, "sub/deep"), { recursive: true });
    await writeFile(join(dir, "a.txt"), "a");
    await writeFile(join(dir, "sub/deep/b.bin"), Buffer.from([0, 255]));
    await writeFile(join(bench.folder, "outside.txt"), "secret");
    await symlink(join(bench.folder, "outside.txt"), join(dir, "leak.txt"));
    await symlink("..", join(dir, "sub/up"));
    expect(Object.keys(readLocalDir(dir))).toEqual(["a.txt"]);
    const all = readLocalDir(dir, true);
    expect(Object.keys(all).toSorted()).toEqual(["a.txt", "sub/deep/b.bin"]);
    const sluice = bench.make();
    await sluice.uploadContext(all);
    expect((await sluice.executeCommand("od -An -tx1 context/sub/deep/b.bin")).stdout).toBe(" 00 ff\n");
  });

  it("EV-53: the builders' files are uploaded with the first run, and again after a kill", async () => {
    const sluice = bench.make().withContext({ "a.txt": "one" }).withFiles({ "b/c.txt": "two" });
    expect(sluice.getSession()).toBeNull();
    const cat = steps({ shell: "cat context/a.txt b/c.txt > output/seen.txt" });
    await sluice.run({ prompt: cat });
    expect((await sluice.getOutputFiles()).files).toEqual({ "seen.txt": "onetwo" });
    await sluice.kill();
    await sluice.run({ prompt: cat });
    expect((await sluice.getOutputFiles()).files).toEqual({ "seen.txt": "onetwo" });
  });

  it("EV-54: files since the last run or command are returned and can be saved to a local folder", async () => {
    const sluice = bench.make();
    const made = HOSTILE.map((name) => ({ write: { path: `output/${name}`, content: name } }));
    await sluice.run({ prompt: steps(...made, { write: { path: "output/deep/er/x.txt", content: "x" } }) });
    const top = await sluice.getOutputFiles();
    expect(Object.keys(top.files).toSorted()).toEqual([...HOSTILE].toSorted());
    expect(top).toMatchObject({ data: null });
    expect(top).not.toHaveProperty("error");
    const all = await sluice.getOutputFiles(true);
    expect(Object.keys(all.files).toSorted()).toEqual([...HOSTILE, "deep/er/x.txt"].toSorted());
    const dir = await bench.temporary();
    saveLocalDir(join(dir, "out"), all.files);
    for (const name of HOSTILE) expect(readFileSync(join(dir, "out", name), "utf8")).toBe(name);
    // Files and uploads from before the last run are filtered out; bytes stay bytes.
    await sluice.uploadFiles({ "output/mine.txt": "x" });
    await sluice.executeCommand("printf '\\000\\377' > output/new.bin; touch -d 2001-01-01 output/new.bin");
    const later = await sluice.getOutputFiles(true);
    expect(later.files).toEqual({ "new.bin": expect.any(Uint8Array) as unknown });
    await sluice.executeCommand(`printf changed > 'output/a b.txt'`);
    expect((await sluice.getOutputFiles(true)).files).toEqual({ "a b.txt": "changed" });
    // Another content of the same size and time is a change too.
    for (const words of ["one", "two"])
      await sluice.executeCommand(`printf ${words} > output/same.txt; touch -d 2001-01-01 output/same.txt`);
    expect((await sluice.getOutputFiles(true)).files).toEqual({ "same.txt": "two" });
    await sluice.executeCommand("true");
    expect((await sluice.getOutputFiles(true)).files).toEqual({});
  });

  it("EV-55 EV-56: a schema gives data or an error", async () => {
    const sluice = bench.make().withSchema(z.object({ summary: z.string(), score: z.number() }));
    await sluice.run({ prompt: write('{"summary":"fine","score":85}') });
    const good = await sluice.getOutputFiles();
    expect(good.data?.score).toBe(85);
    expect(good.error).toBeUndefined();
    await sluice.run({ prompt: write('{"summary":"fine","score":"many"}') });
    expect(await sluice.getOutputFiles()).toMatchObject({
      data: null,
      error: expect.stringMatching(/^Schema validation failed: score: /) as unknown,
      rawData: '{"summary":"fine","score":"many"}',
    });
    await sluice.run({ prompt: write("{broken") });
    expect(await sluice.getOutputFiles()).toMatchObject({
      data: null,
      error: expect.stringMatching(/^Failed to parse result.json: /) as unknown,
      rawData: "{broken",
    });
    await sluice.run({ prompt: steps({ say: "nothing" }) });
    const none = await sluice.getOutputFiles();
    expect(none).toMatchObject({
      data: null,
      error: "Schema provided but agent did not create output/result.json",
    });
    expect(none).not.toHaveProperty("rawData");
  });

  it("takes JSON Schema as well", async () => {
    const schema = {
      type: "object",
      properties: { score: { type: "number", minimum: 0 } },
      required: ["score"],
      additionalProperties: false,
    };
    const sluice = bench.make().withSchema(schema);
    await sluice.run({ prompt: write('{"score":1}') });
    expect((await sluice.getOutputFiles()).data).toEqual({ score: 1 });
    await sluice.run({ prompt: write('{"score":-1}') });
    expect((await sluice.getOutputFiles()).error).toMatch(/^Schema validation failed: score/);
  });
});

describe("saveLocalDir", () => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench({ backend: "embedded", sandbox: "local" });
  });
  afterEach(() => bench.close());

  it("writes nothing if one path leads outside (weakness 9)", async () => {
    const dir = await bench.temporary();
    for (const path of ["../x", "/tmp/sluice-x", "a/../../x", "a\0b"])
      expect(() => saveLocalDir(join(dir, "in"), { "ok.txt": "x", [path]: "x" })).toThrow(/path of a file/);
    expect(readLocalDir(dir, true)).toEqual({});
  });

  it("follows no link in the folder", async () => {
    const dir = await bench.temporary();
    await mkdir(join(dir, "target"));
    await mkdir(join(dir, "in"));
    await symlink(join(dir, "target"), join(dir, "in/link"));
    await symlink(join(dir, "target/file"), join(dir, "in/file"));
    expect(() => saveLocalDir(join(dir, "in"), { "link/x.txt": "x" })).toThrow(/is a link/);
    expect(() => saveLocalDir(join(dir, "in"), { file: "x" })).toThrow(/is a link/);
    expect(readLocalDir(join(dir, "target"), true)).toEqual({});
  });
});
