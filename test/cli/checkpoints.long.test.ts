import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { startS3 } from "../sandbox/checkpoint/s3.ts";
import { startServer } from "../support/server.ts";
import { ended, lines, printed, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const SCRIPT = "/usr/bin/script";
let bench: Workbench;

beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

const file = (): string => join(bench.work, "a.txt");

async function makeTwo(): Promise<[string, string]> {
  await bench.run(["run", "--session", "s", script({ say: "quince" })]);
  writeFileSync(file(), "first");
  const one = await bench.run(["checkpoints", "s", "--create", "--comment", "the first", "--json"]);
  expect(one.code, one.err).toBe(0);
  writeFileSync(file(), "second");
  const two = await bench.run(["checkpoints", "s", "--create", "--json"]);
  return [String(lines(one.out)[0]?.["id"]), String(lines(two.out)[0]?.["id"])];
}

describe("sluice checkpoints", () => {
  it("creates and lists them, newest first", async () => {
    const [first, second] = await makeTwo();
    const { code, out, err } = await bench.run(["checkpoints", "s"]);
    expect([code, err]).toEqual([0, ""]);
    const [heading, ...rows] = out.trimEnd().split("\n");
    expect(heading).toMatch(/^CHECKPOINT +WHEN +SIZE +PARENT +COMMENT$/);
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatch(
      new RegExp(`^${second} +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d +[\\d.]+ k?B +${first}$`),
    );
    expect(rows[1]).toMatch(new RegExp(`^${first} .* - +the first$`));
    const listed = lines((await bench.run(["checkpoints", "s", "--json", "--limit", "1"])).out);
    expect(listed.map(({ id }) => id)).toEqual([second]);
    expect(listed[0]).toMatchObject({ parentId: first, sessionId: "s", agentType: "scripted" });
  });

  it("reports an empty list", async () => {
    await bench.run(["run", "--session", "s", script({ say: "hi" })]);
    const { code, out, err } = await bench.run(["checkpoints", "s"]);
    expect([code, out]).toEqual([0, ""]);
    expect(err).toContain("No checkpoints of s");
  });

  it.each([
    [["checkpoints", "s", "--comment", "x"], 2, "--comment belongs to --create"],
    [["checkpoints", "s", "--limit", "0"], 2, "from 1 to 500"],
    [["checkpoints"], 2, "missing required argument"],
    [["checkpoints", "nobody"], 1, `"nobody" is not in`],
    [["checkpoints", "nobody", "--create"], 1, `"nobody" is not in`],
    [["restore", "s"], 2, "missing required argument"],
    [["restore", "nobody", "latest"], 1, `"nobody" is not in`],
    [["restore", "s", "latest"], 1, "make one first"],
    [["restore", "s", "ckpt_none"], 1, "there is no checkpoint ckpt_none"],
  ])("explains %j", async (args, code, words) => {
    await bench.run(["run", "--session", "s", script({ say: "hi" })]);
    const result = await bench.run(args);
    expect([result.code, result.out]).toEqual([code, ""]);
    expect(result.err).toContain(words);
    expect(result.err).not.toContain("    at ");
  });

  it.each(["checkpoints", "restore"])("%s has examples in its help", async (command) => {
    const { code, out } = await bench.run([command, "--help"]);
    expect(code).toBe(0);
    expect(out).toContain("sluice restore my-session latest");
    expect(out).toContain("Exit codes:");
  });
});

describe("sluice restore", () => {
  it("restores the files, without a confirmation in a pipe", async () => {
    const [first, second] = await makeTwo();
    writeFileSync(file(), "third");
    const latest = await bench.run(["restore", "s", "latest"]);
    expect([latest.code, latest.err]).toEqual([0, ""]);
    expect(latest.out).toMatch(new RegExp(`^Restored ${second} of `));
    expect(readFileSync(file(), "utf8")).toBe("second");
    const json = await bench.run(["restore", "s", first, "--yes", "--json"]);
    expect(lines(json.out)[0]).toMatchObject({ id: first, comment: "the first" });
    expect(readFileSync(file(), "utf8")).toBe("first");
    const { out } = await bench.run(["run", "--session", "s", script({ say: "$history" })]);
    expect(out).toContain("quince");
  });

  it("works through a server, and explains a running turn", async () => {
    const server = await startServer();
    try {
      const env = { SLUICE_URL: server.url, SLUICE_TOKEN: server.token };
      const client = createClient({ url: server.url, token: server.token });
      await client.sessions.create("there", { agent: "scripted" });
      await client.fs.write("there", "a.txt", "kept");
      const made = await bench.run(["checkpoints", "there", "--create"], { env });
      expect([made.code, made.err]).toEqual([0, ""]);
      expect(made.out).toContain("CHECKPOINT");
      await client.fs.remove("there", "a.txt");
      expect((await bench.run(["restore", "there", "latest"], { env })).code).toBe(0);
      expect(new TextDecoder().decode(await client.fs.read("there", "a.txt"))).toBe("kept");
      const gone = await bench.run(["restore", "nobody", "latest"], { env });
      expect(gone.err).toContain(`"nobody" is not in ${server.url}`);

      await client.sendMessage("there", script({ say: "go" }, { sleep: 60_000 }));
      for await (const event of client.subscribe("there")) if (event.type === "item.delta") break;
      for (const args of [
        ["checkpoints", "there", "--create"],
        ["restore", "there", "latest"],
      ]) {
        const { code, err } = await bench.run(args, { env });
        expect(code).toBe(1);
        expect(err).toContain("The session is busy");
        expect(err).toContain("wait for its end, or interrupt it");
      }
      await client.interrupt("there");
    } finally {
      await server.close();
    }
  });

  describe.skipIf(!existsSync(SCRIPT))("at a terminal", () => {
    const restoreHere = (...more: string[]) => {
      const words = [BIN, "restore", "s", "latest", ...more].map((word) => `'${word}'`).join(" ");
      const argv = [SCRIPT, "-qefc", words, "/dev/null"];
      return bench.start([], { argv, env: { TERM: "xterm", SHELL: "/bin/sh" } });
    };

    it.each([
      ["y\r", 0, "second"],
      ["\r", 1, "third"],
      ["n\r", 1, "third"],
      ["\u0003", 1, "third"],
      ["\u0004", 1, "third"],
    ])("asks first, and takes %j for an answer", async (keys, code, content) => {
      const [, second] = await makeTwo();
      writeFileSync(file(), "third");
      const child = restoreHere();
      const end = ended(child);
      await printed(child, /Overwrite the files of s with .*\? \[y\/N\]/);
      child.stdin?.write(keys);
      const result = await end;
      expect(result.code).toBe(code);
      expect(result.out).toContain(second);
      expect(result.out).toContain(code === 0 ? "Restored" : "Nothing was changed.");
      expect(readFileSync(file(), "utf8")).toBe(content);
    });

    it("does not ask with --yes", async () => {
      await makeTwo();
      writeFileSync(file(), "third");
      const child = restoreHere("--yes");
      child.stdin?.end();
      const { code, out } = await ended(child);
      expect(code).toBe(0);
      expect(out).not.toContain("[y/N]");
      expect(readFileSync(file(), "utf8")).toBe("second");
    });
  });
});

describe("checkpoints in S3", () => {
  it("are created, listed and restored there, without files in the data folder", async () => {
    const s3 = await startS3();
    try {
      const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.options;
      const env = {
        SLUICE_CHECKPOINTS: `s3://${bucket}/team/one`,
        AWS_ENDPOINT_URL: endpoint,
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
      };
      await bench.run(["run", "--session", "s", script({ say: "quince" })], { env });
      writeFileSync(file(), "kept");
      const made = await bench.run(["checkpoints", "s", "--create", "--json"], { env });
      expect(made.code, made.err).toBe(0);
      writeFileSync(file(), "changed");
      const restored = await bench.run(["restore", "s", "latest", "--yes"], { env });
      expect(restored.code, restored.err).toBe(0);
      expect(readFileSync(file(), "utf8")).toBe("kept");
      expect(existsSync(join(bench.data, "checkpoints"))).toBe(false);
    } finally {
      await s3.stop();
    }
  });

  it("need their keys, and the error names the missing one", async () => {
    const env = { SLUICE_CHECKPOINTS: "s3://bucket", AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" };
    await bench.run(["run", "--session", "s", script({ say: "quince" })]);
    const { code, err } = await bench.run(["checkpoints", "s", "--create"], { env });
    expect(code).toBe(2);
    expect(err).toContain("AWS_ACCESS_KEY_ID is not set");
  });
});
