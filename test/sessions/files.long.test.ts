import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("files", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("reports every change of a file at once, also while the agent is silent", async () => {
    await say(
      test.engine,
      "s",
      script(
        {
          shell:
            "echo a > new.txt; sleep 0.2; echo b >> new.txt; sleep 0.2; rm new.txt; sleep 0.2; mkdir -p d/e; echo c > d/e/f",
        },
        { sleep: 60_000 },
      ),
    );
    await waitFor(test.log, "s", "file.changed", { where: ({ data }) => data.path.endsWith("d/e/f") });
    const changes = ofType(await readAll(test.log, "s"), "file.changed").map(({ data }) => [
      data.type,
      data.path.split("/workspace/")[1],
    ]);
    expect(changes).toContainEqual(["change", "new.txt"]);
    // One write may be reported twice, as a creation and a change.
    expect(changes.filter(([type]) => type !== "change")).toEqual([
      ["create", "new.txt"],
      ["delete", "new.txt"],
      ["create", "d/e/f"],
    ]);
    await test.engine.interrupt("s");
    expectLawful(await readAll(test.log, "s"));
  });

  it("reports all changes before the end of the turn", async () => {
    await runTurn(
      test,
      "s",
      script({ shell: "for i in $(seq 1 300); do mkdir -p n$i; echo $i > n$i/f; done" }),
    );
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const told = new Set(ofType(events, "file.changed").map(({ data }) => data.path));
    expect(told.size).toBe(300);
    expect(events.findLastIndex((event) => event.type === "file.changed")).toBeLessThan(
      events.findIndex((event) => event.type === "turn.ended"),
    );
  });

  it("reports a change without a server once, at the next start", async () => {
    await say(
      test.engine,
      "s",
      script(
        { write: { path: "before.txt", content: "x" } },
        { shell: "sleep 1; echo y > during.txt; sleep 1" },
      ),
    );
    await waitFor(test.log, "s", "file.changed");
    await test.engine.close();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await test.restart();
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const told = ofType(events, "file.changed").map(
      ({ data }) => `${data.type} ${data.path.split("/workspace/")[1]}`,
    );
    // One write may be reported twice, as a creation and a change; nothing else is.
    expect(told).toEqual([...new Set(told)]);
    const created = told.filter((line) => line.startsWith("create"));
    expect(created).toEqual(["create before.txt", "create during.txt"]);
  });

  it("calls the application's hooks, and ignores one that throws", async () => {
    const seen: string[] = [];
    const failures: string[] = [];
    await test.restart({
      logger: ({ level, message }) => level === "error" && failures.push(message),
      fileHooks: {
        onFile: ({ type, path }) => seen.push(`${type} ${path}`),
        onFileCreate: async (event) => seen.push(`after: ${await event.after()}`),
        onFileChange: () => {
          throw new Error("no");
        },
      },
    });
    await runTurn(
      test,
      "s",
      script(
        { write: { path: "a.txt", content: "one" } },
        { sleep: 100 },
        { write: { path: "a.txt", content: "two!" } },
        { sleep: 100 },
      ),
    );
    await vi.waitUntil(() => failures.length > 0, { timeout: 20_000 });
    expect(seen).toEqual(["create a.txt", "after: one", "change a.txt"]);
    expectLawful(await readAll(test.log, "s"));
  });

  it("are not reported with `watch: false`", async () => {
    await test.engine.create("quiet", { ...SCRIPTED, watch: false });
    await runTurn(test, "quiet", script({ write: { path: "a", content: "a" } }));
    expect(ofType(await readAll(test.log, "quiet"), "file.changed")).toEqual([]);
  });

  it("reports the whole diff of a repository before the turn's end, and changes nothing of it", async () => {
    const repository = await mkdtemp(join(tmpdir(), "sluice-repo-"));
    const git = (...args: string[]): string =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
        cwd: repository,
        encoding: "utf8",
      });
    git("init", "-q");
    await writeFile(join(repository, "kept.txt"), "one\ntwo\n");
    git("add", ".");
    git("commit", "-qm", "first");
    const index = await readFile(join(repository, ".git/index"));
    await test.engine.create("repo", { ...SCRIPTED, directory: repository });
    await runTurn(
      test,
      "repo",
      script(
        { edit: { path: "kept.txt", old: "two", new: "2" } },
        { write: { path: "new.txt", content: "fresh\n" } },
      ),
    );
    const events = await readAll(test.log, "repo");
    expectLawful(events);
    const [diffed, ...more] = ofType(events, "workspace.diffed");
    expect(more).toEqual([]);
    expect(diffed?.data.path).toBe(".");
    expect(diffed?.data.diff).toContain("-two\n+2");
    expect(diffed?.data.diff).toContain("+fresh");
    expect(await readFile(join(repository, ".git/index"))).toEqual(index);
    expect(git("status", "--porcelain")).toBe(" M kept.txt\n?? new.txt\n");
    await rm(repository, { recursive: true });
  });
});

describe("checkpoints", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("keep and restore the files and the agent's memory, with their lineage", async () => {
    await runTurn(test, "s", script({ write: { path: "a.txt", content: "first" } }, { say: "remember one" }));
    const first = await test.engine.checkpoint("s", { comment: "after one" });
    await runTurn(
      test,
      "s",
      script({ write: { path: "a.txt", content: "second" } }, { write: { path: "b.txt", content: "b" } }),
    );
    const second = await test.engine.checkpoint("s");
    expect(second.parentId).toBe(first.id);
    expect((await test.engine.checkpoints("s")).map(({ id }) => id)).toEqual([second.id, first.id]);
    await test.engine.restore("s", first.id);
    const files = await test.engine.files("s");
    expect(Buffer.from(await files.read("a.txt")).toString()).toBe("first");
    await expect(files.read("b.txt")).rejects.toMatchObject({ code: "file_not_found" });
    await runTurn(test, "s", script({ say: "$history" }));
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events).at(-1)).toContain("remember one");
    expect(ofType(events, "checkpoint.restored")).toHaveLength(1);
  });

  it("can be restored into another session, whose agent then remembers", async () => {
    await runTurn(test, "s", "the password is swordfish");
    const { id } = await test.engine.checkpoint("s");
    await test.engine.create("other", SCRIPTED);
    await test.engine.restore("other", id);
    await runTurn(test, "other", script({ say: "$history" }));
    const said = ofType(await readAll(test.log, "other"), "item.completed").map((event) =>
      JSON.stringify(event.data.item),
    );
    expect(said.join("\n")).toContain("swordfish");
  });

  it("are made after each turn with `autoCheckpoint`", async () => {
    await test.engine.create("auto", { ...SCRIPTED, autoCheckpoint: true });
    await runTurn(test, "auto", script({ write: { path: "a", content: "a" } }));
    const events = await readAll(test.log, "auto");
    expectLawful(events);
    const types = events.map((event) => event.type);
    expect(types.indexOf("checkpoint.created")).toBeGreaterThan(0);
    expect(types.indexOf("checkpoint.created")).toBeLessThan(types.indexOf("turn.ended"));
  });

  it("that fail are told, without a path of the server, and end no turn", async () => {
    await test.engine.create("deep", { ...SCRIPTED, autoCheckpoint: true });
    const names = "d".repeat(200);
    const shell = `n=0; while [ $n -lt 30 ]; do mkdir ${names} && cd ${names} || exit 1; n=$((n + 1)); done`;
    await runTurn(test, "deep", script({ shell }));
    const events = await readAll(test.log, "deep");
    expectLawful(events);
    const failed = events.filter((event) => event.type === "error");
    expect(failed).toMatchObject([{ data: { code: "checkpoint_failed" } }]);
    expect(failed[0]?.data).toMatchObject({
      message: expect.stringMatching(/^no checkpoint was made: workspace\/d.* is too long for a path\.$/),
    });
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
    const asked = await test.engine.checkpoint("deep").catch((error: unknown) => error);
    expect(asked).toMatchObject({ code: "invalid_request", message: expect.stringMatching(/^workspace\/d/) });
  });

  it("are refused while a turn runs, and a missing one is refused", async () => {
    await expect(test.engine.restore("s", "latest")).rejects.toMatchObject({ code: "checkpoint_not_found" });
    await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    await expect(test.engine.checkpoint("s")).rejects.toMatchObject({ code: "session_busy" });
    await expect(test.engine.restore("s", "latest")).rejects.toMatchObject({ code: "session_busy" });
  });
});
