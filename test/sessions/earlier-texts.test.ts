import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ContentPart, Item } from "../../src/contract/index.ts";
import { createLocalProvider, type Sandbox } from "../../src/sandbox/index.ts";
import { EarlierTexts } from "../../src/sessions/sandbox/earlier-texts.ts";

const call = (id: string, path: string, content: string): Item => ({
  item_id: id,
  kind: "tool_call",
  role: "assistant",
  status: "completed",
  content: [{ type: "tool_call", name: "write", arguments: JSON.stringify({ path, content }), call_id: id }],
});

const result = (id: string, path: string, diff?: string): Item => ({
  item_id: `${id}r`,
  parent_id: id,
  kind: "tool_result",
  role: "tool",
  status: "completed",
  content: [
    { type: "tool_result", call_id: id, output: "ok" },
    { type: "file_ref", path, action: "write", ...(diff === undefined ? {} : { diff }) },
  ],
});

const DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";
const ref = (path: string, diff: string): ContentPart => ({
  type: "file_ref",
  path,
  action: "write",
  diff,
});

/** Earlier writes are older by every clock. */
async function beginTurn(): Promise<number> {
  await sleep(50);
  return Date.now();
}

describe("the text before a write", () => {
  let folder: string;
  let sandbox: Sandbox;
  let earlier: EarlierTexts;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-earlier-"));
    sandbox = await createLocalProvider({ root: join(folder, "sandboxes") }).create({ id: "sbx_1" });
    earlier = new EarlierTexts(sandbox, (text) => text.replaceAll("sesame", "[redacted]"));
  });
  afterEach(async () => {
    await sandbox.destroy();
    await rm(folder, { recursive: true, force: true });
  });

  const put = (path: string, text: string): Promise<void> => sandbox.files.write(path, text);
  let turn: number;
  const shown = async (item: Item): Promise<ContentPart[]> => {
    const [fact] = await earlier.withDiffs([{ type: "item.completed", data: { item } }], turn);
    if (fact?.type !== "item.completed") throw new Error("no item");
    return fact.data.item.content;
  };
  const changed = (path: string, inTurn: boolean): Promise<void> => {
    const data = { type: "change", path: `${sandbox.paths.workspace}/${path}`, timestamp: 1 } as const;
    return earlier.changed([{ type: "file.changed", source: "daemon", data }], { inTurn });
  };

  it("is the text at the time of the call, or the one before a faster tool", async () => {
    await put("a.txt", "old\n");
    turn = await beginTurn();
    expect((await shown(call("1", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
    expect((await shown(result("1", "a.txt")))[1]).toEqual(ref("a.txt", DIFF));

    await put("a.txt", "old\n");
    await earlier.readAhead(await beginTurn());
    turn = await beginTurn();
    await put("a.txt", "new\n");
    // The watcher may be ahead of the call.
    await changed("a.txt", true);
    expect((await shown(call("2", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
    // The claim of a new file is corrected; a diff of the agent's own is kept.
    const asNew = await shown(result("2", "a.txt", "--- /dev/null\n+++ b/a.txt\n"));
    expect(asNew[1]).toEqual(ref("a.txt", DIFF));
    expect((await shown(call("3", "a.txt", "newer\n")))[1]).toMatchObject({
      diff: expect.stringContaining("-new\n+newer\n"),
    });
    expect((await shown(result("3", "a.txt", "its own")))[1]).toEqual(ref("a.txt", "its own"));
  });

  it("is a text that was written between two turns", async () => {
    turn = await beginTurn();
    await shown(call("1", "a.txt", "first\n"));
    await shown(result("1", "a.txt"));
    await earlier.endTurn();
    await put("a.txt", "old\n");
    await changed("a.txt", false);
    turn = await beginTurn();
    await put("a.txt", "new\n");
    expect((await shown(call("2", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
  });

  it("is the text after the turn before", async () => {
    turn = await beginTurn();
    await put("a.txt", "old\n");
    await changed("a.txt", true);
    await earlier.endTurn();
    turn = await beginTurn();
    await put("a.txt", "new\n");
    expect((await shown(call("1", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
  });

  it("is undefined for a new file, for an equal text, and for a failed call", async () => {
    turn = await beginTurn();
    expect(await shown(call("1", "a.txt", "new\n"))).toHaveLength(1);
    await put("a.txt", "new\n");
    expect((await shown(result("1", "a.txt")))[1]).not.toHaveProperty("diff");
    expect(await shown(call("2", "a.txt", "new\n"))).toHaveLength(1);
    await shown(call("3", "a.txt", "newer\n"));
    const failed: Item = { ...result("3", "a.txt"), status: "failed" };
    expect((await shown(failed))[1]).not.toHaveProperty("diff");
  });

  it("is never the text in the middle of a write, or after a later step of the agent", async () => {
    turn = await beginTurn();
    for (const later of ["", "much later\n"]) {
      await put("new.txt", later);
      await changed("new.txt", true);
      expect(await shown(call(`at ${later}`, "new.txt", "new\n"))).toHaveLength(1);
    }
  });

  it("is not read from a large, binary or outside file, and shows no secret", async () => {
    await put("key.txt", "sesame\n");
    await put("large.txt", "x".repeat(200_000));
    await put("binary", "a\0b");
    await writeFile(join(folder, "outside.txt"), "mine");
    turn = await beginTurn();
    for (const path of ["large.txt", "binary", join(folder, "outside.txt"), "../outside.txt"])
      expect(await shown(call(path, path, "new\n")), path).toHaveLength(1);
    expect(JSON.stringify(await shown(call("k", "key.txt", "new\n")))).not.toContain("sesame");
  });

  it("includes the whole files of Codex, and not its patches", async () => {
    await put("a.txt", "old\n");
    await put("b.txt", "old\n");
    turn = await beginTurn();
    const changes = [
      { path: "a.txt", kind: { type: "add" }, diff: "new\n" },
      { path: "b.txt", kind: { type: "update" }, diff: "@@ -1 +1 @@\n-old\n+new\n" },
    ];
    const part = {
      ...call("1", "", "").content[0],
      name: "apply_patch",
      arguments: JSON.stringify({ changes }),
    };
    const content = await shown({ ...call("1", "", ""), content: [part as ContentPart] });
    expect(content.slice(1)).toEqual([ref("a.txt", DIFF)]);
  });
});
