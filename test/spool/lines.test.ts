import { createHash } from "node:crypto";
import { appendFile, open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SpoolLine } from "../../src/contract/index.ts";
import { createSpool, type SpoolOptions } from "../../src/spool/index.ts";
import { collect, followAll, makeFolder, texts } from "./workbench.ts";

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** The simplest definition of the lines of some bytes. */
function expectedLines(bytes: Buffer, maxLineBytes: number, from = 0): SpoolLine[] {
  const lines: SpoolLine[] = [];
  for (let at = from; at < bytes.length;) {
    const newline = bytes.indexOf(10, at);
    const raw = bytes.subarray(at, newline === -1 ? bytes.length : newline);
    const text = raw.toString("utf8");
    const damage = Buffer.from(text).equals(raw)
      ? {}
      : { damage: { reason: "utf8", sha256: sha256(raw), bytes: raw.length } as const };
    const tooLong = { damage: { reason: "too_long", sha256: sha256(raw), bytes: raw.length } as const };
    if (raw.length > 0)
      lines.push({ dir: "out", text, at, ...(raw.length > maxLineBytes ? tooLong : damage) });
    at += raw.length + 1;
  }
  return lines;
}

const pieces = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      "\n",
      "\n\n",
      "\r\n",
      "a",
      "zwölf",
      "日本語",
      "🦆",
      "\uFEFF",
      '{"a":1}\n',
      "\0",
    ),
  },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 20 }) },
);
const content = fc.oneof(
  fc.array(pieces, { maxLength: 60 }).map((parts) => Buffer.from(parts.join(""))),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc
    .array(fc.constantFrom(10, 10, 97, 0xc3, 0xb6, 0xff), { maxLength: 100 })
    .map((bytes) => Buffer.from(bytes)),
);
const limits = fc.record({
  chunkBytes: fc.integer({ min: 1, max: 64 }),
  batchLines: fc.integer({ min: 1, max: 8 }),
  batchBytes: fc.integer({ min: 1, max: 64 }),
  maxLineBytes: fc.integer({ min: 1, max: 64 }),
});

async function withSpool(options: SpoolOptions): Promise<Awaited<ReturnType<typeof createSpool>>> {
  return createSpool(join(await makeFolder(), "s"), options);
}

describe("the lines of a spool", () => {
  it("are the same for any split into writes, chunks and batches, and from any line on", async () => {
    const root = await makeFolder();
    let run = 0;
    const property = fc.asyncProperty(
      content,
      limits,
      fc.array(fc.nat(200), { maxLength: 6 }),
      async (bytes, limits, cuts) => {
        const spool = await createSpool(join(root, String(run++)), limits);
        const out = join(spool.folder, "out");
        const seen: SpoolLine[] = [];
        const offsets: number[] = [];
        const following = (async () => {
          for await (const batch of spool.follow({ from: 0, signal: new AbortController().signal })) {
            seen.push(...batch.lines);
            offsets.push(batch.offset);
            expect(batch.lines.length).toBeLessThanOrEqual(limits.batchLines);
          }
        })();
        const ends = [...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length].sort((a, b) => a - b);
        let written = 0;
        for (const end of ends) {
          await appendFile(out, bytes.subarray(written, end));
          written = end;
          await new Promise((resolve) => setImmediate(resolve));
        }
        await writeFile(join(spool.folder, "exit"), "0\n");
        await following;

        const expected = expectedLines(bytes, limits.maxLineBytes);
        expect(seen).toEqual(expected);
        expect(offsets.at(-1)).toBe(bytes.length);
        expect((await collect(spool.replay(0, bytes.length))).lines).toEqual(expected);
        for (const offset of new Set(offsets)) {
          const before = (await collect(spool.replay(0, offset))).lines;
          const after = (await followAll(spool, offset)).lines;
          expect([...before, ...after]).toEqual(expected);
        }
        await spool.remove();
      },
    );
    await fc.assert(property, { numRuns: 150 });
  });

  it("have exact offsets with multi-byte characters over many big chunks", async () => {
    const spool = await withSpool({});
    const all = Array.from({ length: 20_000 }, (_, n) => `${n} ${"äé🦆x".repeat(n % 17)}`);
    const bytes = Buffer.from(`${all.join("\n")}\n`);
    await writeFile(join(spool.folder, "out"), bytes);
    await writeFile(join(spool.folder, "exit"), "0\n");
    const { lines } = await followAll(spool);
    expect(texts(lines)).toEqual(all);
    for (const { at, text } of lines.filter((_, n) => n % 997 === 0)) {
      expect(bytes.subarray(at, at + Buffer.byteLength(text)).toString()).toBe(text);
    }
  });

  it("are whole up to 100 MB", async () => {
    const spool = await withSpool({});
    const out = await open(join(spool.folder, "out"), "a");
    const part = Buffer.alloc(1024 * 1024, "0123456789abcdef");
    const hash = createHash("sha256");
    await out.write("before\n");
    for (let written = 0; written < 100; written++) {
      await out.write(part);
      hash.update(part);
    }
    await out.write("\nafter\n");
    await out.close();
    await writeFile(join(spool.folder, "exit"), "0\n");
    const { lines } = await followAll(spool);
    expect(lines.map((line) => line.at)).toEqual([0, 7, 7 + 100 * part.length + 1]);
    expect(lines[1]?.damage).toBeUndefined();
    expect(
      createHash("sha256")
        .update(lines[1]?.text ?? "")
        .digest("hex"),
    ).toBe(hash.digest("hex"));
  });

  it("are cut when they are longer than the limit, with bounded memory", async () => {
    const spool = await withSpool({ maxLineBytes: 1024 * 1024 });
    // One byte before the characters, so that the cut would fall into the middle of one.
    const long = Buffer.from(`x${"ä".repeat(16 * 1024 * 1024)}`);
    await writeFile(
      join(spool.folder, "out"),
      Buffer.concat([Buffer.from("a\n"), long, Buffer.from("\nb\n"), long]),
    );
    await writeFile(join(spool.folder, "exit"), "0\n");
    const { lines, last } = await followAll(spool);
    const damage = { reason: "too_long", sha256: sha256(long), bytes: long.length };
    expect(lines.map((line) => [line.at, line.damage])).toEqual([
      [0, undefined],
      [2, damage],
      [long.length + 3, undefined],
      [long.length + 5, damage],
    ]);
    expect(lines[1]?.text).toBe(`x${"ä".repeat(32 * 1024 - 1)}`);
    expect(last.offset).toBe(2 * long.length + 5);
  });

  it("keep their length and hash where they are not UTF-8", async () => {
    const spool = await withSpool({});
    const bad = Buffer.from([0x61, 0xff, 0xfe, 0x62]);
    await writeFile(
      join(spool.folder, "out"),
      Buffer.concat([Buffer.from("ä\n"), bad, Buffer.from("\nfine\n")]),
    );
    await writeFile(join(spool.folder, "exit"), "0\n");
    expect((await followAll(spool)).lines).toEqual([
      { dir: "out", text: "ä", at: 0 },
      {
        dir: "out",
        text: "a\uFFFD\uFFFDb",
        at: 3,
        damage: { reason: "utf8", sha256: sha256(bad), bytes: 4 },
      },
      { dir: "out", text: "fine", at: 8 },
    ]);
  });

  it("are read on demand only", async () => {
    const spool = await withSpool({});
    await writeFile(join(spool.folder, "out"), "first\n");
    const abort = new AbortController();
    const follow = spool.follow({ from: 0, signal: abort.signal })[Symbol.asyncIterator]();
    expect(texts((await follow.next()).value?.lines ?? [])).toEqual(["first"]);
    for (let n = 0; n < 5_000; n++) await appendFile(join(spool.folder, "out"), `${n}\n`);
    const batch = (await follow.next()).value;
    expect(batch?.lines).toHaveLength(2_048);
    abort.abort();
    expect((await follow.next()).done).toBe(true);
  });
});
