import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Item } from "../../src/contract/index.ts";
import { lines, script, Workbench } from "./workbench.ts";

const EVERYTHING = [
  { think: "Hm." },
  { shell: "echo hello; echo trouble >&2" },
  { write: { path: "a.txt", content: "x\n" } },
  { edit: { path: "a.txt", old: "x", new: "y" } },
  { plan: [{ content: "Look", status: "completed", priority: "medium" }] },
  { subagent: { name: "r", steps: [{ say: "Nested." }] } },
  { stderr: "a line on stderr" },
  { say: "All of it is done." },
];

describe("sluice record", () => {
  let bench: Workbench;
  beforeEach(() => {
    bench = new Workbench();
  });
  afterEach(() => bench.close());

  it("records both directions of a process in the pinned format, in a private file", async () => {
    const ran = await bench.run(["record", "--sandbox", "local", "--out", "r.jsonl", script(...EVERYTHING)]);
    expect(ran).toMatchObject({ code: 0, out: expect.stringContaining("All of it is done.") });
    expect(ran.err).toMatch(/Recorded r\.jsonl: \d+ events/);

    const file = join(bench.work, "r.jsonl");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const entries = lines(readFileSync(file, "utf8"));
    for (const entry of entries) {
      expect(Object.keys(entry).toSorted()).toEqual(["dir", "raw", "t"]);
      expect(entry["t"]).toBeGreaterThanOrEqual(0);
    }
    const times = entries.map(({ t }) => Number(t));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const dirs = entries.map(({ dir }) => dir);
    expect(new Set(dirs)).toEqual(new Set(["meta", "in", "out", "err", "exit"]));
    expect([dirs.indexOf("meta"), dirs.indexOf("exit")]).toEqual([0, dirs.length - 1]);
    expect(entries.find(({ dir }) => dir === "err")).toMatchObject({ raw: "a line on stderr" });
    expect(JSON.parse(String(entries.at(-1)?.["raw"]))).toEqual({ code: 0, signal: null });
    expect(JSON.parse(String(entries[0]?.["raw"]))).toMatchObject({
      argv: expect.any(Array),
      cwd: "/home/user/workspace",
      env: { HOME: "/home/user" },
      harness: "scripted",
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
  });

  it("decodes to the items of the log", async () => {
    const ran = await bench.run(["record", "--sandbox", "local", "--out", "r.jsonl", script(...EVERYTHING)]);
    expect(ran.code).toBe(0);
    const decoded = await bench.run(["decode", "--agent", "scripted", "r.jsonl"]);
    const [session] = lines((await bench.run(["sessions", "--json"])).out);
    const logged = await bench.run(["export", String(session?.["sessionId"])]);
    expect(itemsOf(decoded.out).length).toBeGreaterThan(10);
    expect(itemsOf(decoded.out)).toEqual(itemsOf(logged.out));
    expect(lines(decoded.out).filter(({ type }) => type === "agent.unparsed")).toEqual([]);
    expect(lines(decoded.out).filter(({ type }) => type === "turn.ended")).toHaveLength(1);
  });

  it("has neither secrets nor home paths nor names", async () => {
    writeFileSync(join(bench.folder, ".gitconfig"), "[user]\n\tname = Ada Quux\n\temail = ada@quux.test\n");
    const key = "sk-0123456789-verysecret";
    const show = `echo $MY_KEY $MY_TOKEN; pwd; echo $HOME; echo "${bench.folder}/notes"; hostname; echo Ada Quux ada@quux.test`;
    const ran = await bench.run(
      [
        "record",
        "--sandbox",
        "local",
        "--out",
        "r.jsonl",
        "--env",
        `MY_KEY=${key}`,
        "--secret",
        "MY_TOKEN",
        script({ shell: show }),
      ],
      { env: { MY_TOKEN: "tok-9876543210" } },
    );
    expect(ran.code).toBe(0);
    const recording = readFileSync(join(bench.work, "r.jsonl"), "utf8");
    for (const told of [key, "tok-9876543210", bench.folder, "Ada Quux", "ada@quux.test"])
      expect(recording).not.toContain(told);
    if (!/^(localhost|host|.{0,2})$/.test(hostname())) expect(recording).not.toContain(hostname());
    expect(recording).toContain("[redacted:MY_KEY]");
    expect(recording).toContain("/home/user/workspace");
    expect(recording).toContain("/home/user/notes");
    expect(JSON.parse(String(lines(recording)[0]?.["raw"]))).toMatchObject({
      env: { MY_KEY: "<secret>", MY_TOKEN: "<secret>" },
    });
  });

  it("keeps bytes that are no text as they are", async () => {
    const bytes = Buffer.from([0x61, 0xff, 0xfe, 0x62]);
    const ran = await bench.run([
      "record",
      "--sandbox",
      "local",
      "--out",
      "r.jsonl",
      script({ rawBytes: Buffer.concat([bytes, Buffer.from("\n")]).toString("base64") }, { say: "x" }),
    ]);
    expect(ran.code).toBe(0);
    const damaged = lines(readFileSync(join(bench.work, "r.jsonl"), "utf8")).filter(
      (entry) => "b64" in entry,
    );
    expect(damaged).toMatchObject([{ dir: "out", b64: bytes.toString("base64") }]);
    const decoded = await bench.run(["decode", "--agent", "scripted", "r.jsonl"]);
    expect(lines(decoded.out).filter(({ type }) => type === "agent.unparsed")).toHaveLength(1);
  });

  it("warns of a name that is split over several lines", async () => {
    const step = { say: `${bench.folder}/x`, chunks: 4 };
    const ran = await bench.run(["record", "--sandbox", "local", "--out", "r.jsonl", script(step)]);
    expect(ran).toMatchObject({
      code: 0,
      err: expect.stringContaining("1 of its texts still name something of this machine"),
    });
  });

  it("records a failed turn with the exit of its process", async () => {
    const ran = await bench.run([
      "record",
      "--sandbox",
      "local",
      "--out",
      "r.jsonl",
      script({ say: "Before." }, { exit: 3 }),
    ]);
    expect(ran.code).toBe(1);
    const decoded = lines((await bench.run(["decode", "--agent", "scripted", "r.jsonl"])).out);
    expect(decoded.find(({ type }) => type === "session.ended")).toMatchObject({
      data: { reason: "error", exit_code: 3 },
    });
  });

  it("has a default file name and overwrites no file", async () => {
    const ran = await bench.run(["record", "--sandbox", "local", script({ say: "x" })]);
    const file = /Recorded (scripted-\S+\.jsonl):/.exec(ran.err)?.[1];
    expect(existsSync(join(bench.work, String(file)))).toBe(true);
    const again = await bench.run([
      "record",
      "--sandbox",
      "local",
      "--out",
      String(file),
      script({ say: "x" }),
    ]);
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining("EEXIST") });
  });

  it("leaves no empty file for an unknown agent", async () => {
    mkdirSync(join(bench.work, "out"));
    const ran = await bench.run(["record", "--agent", "nobody", "--out", "out/r.jsonl", "hi"]);
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('There is no agent "nobody"') });
    expect(existsSync(join(bench.work, "out/r.jsonl"))).toBe(false);
  });
});

/** The completed items without ids that differ between logs. */
function itemsOf(events: string): unknown[] {
  return lines(events).flatMap(({ type, data }) => {
    if (type !== "item.completed") return [];
    const { item_id: _, parent_id: __, ...item } = (data as { item: Item }).item;
    return item.role === "user" ? [] : [item];
  });
}
