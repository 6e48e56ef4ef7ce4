import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ContentPart, Item } from "../../src/contract/index.ts";
import { createLocalProvider, type Sandbox } from "../../src/sandbox/index.ts";
import { EarlierTexts } from "../../src/sessions/earlierTexts.ts";

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

describe("what a write takes away", () => {
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
  const shown = async (item: Item): Promise<ContentPart[]> => {
    const [fact] = await earlier.shownIn([{ type: "item.completed", data: { item } }]);
    if (fact?.type !== "item.completed") throw new Error("no item");
    return fact.data.item.content;
  };
  const changed = (path: string): Promise<void> => {
    const data = { type: "change", path: `${sandbox.paths.workspace}/${path}`, timestamp: 1 } as const;
    return earlier.changed([{ type: "file.changed", source: "daemon", data }]);
  };

  it("is what the file holds when the call is heard, or what it held before a tool that was faster", async () => {
    await put("a.txt", "old\n");
    expect((await shown(call("1", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
    expect((await shown(result("1", "a.txt")))[1]).toEqual(ref("a.txt", DIFF));
    await earlier.readAhead();
    await put("a.txt", "new\n");
    // The watcher may have seen it before the call was heard.
    await changed("a.txt");
    expect((await shown(call("2", "a.txt", "new\n")))[1]).toEqual(ref("a.txt", DIFF));
    // One that calls it a new file did not look; one that knows better is believed.
    expect((await shown(result("2", "a.txt", "--- /dev/null\n+++ b/a.txt\n")))[1]).toEqual(
      ref("a.txt", DIFF),
    );
    await put("a.txt", "old\n");
    await shown(call("3", "a.txt", "new\n"));
    expect((await shown(result("3", "a.txt", "its own")))[1]).toEqual(ref("a.txt", "its own"));
  });

  it("is nothing for a new file, for the same text again, and for a call that failed", async () => {
    expect(await shown(call("1", "a.txt", "new\n"))).toHaveLength(1);
    await put("a.txt", "new\n");
    expect((await shown(result("1", "a.txt")))[1]).not.toHaveProperty("diff");
    expect(await shown(call("2", "a.txt", "new\n"))).toHaveLength(1);
    await shown(call("3", "a.txt", "newer\n"));
    const failed: Item = { ...result("3", "a.txt"), status: "failed" };
    expect((await shown(failed))[1]).not.toHaveProperty("diff");
  });

  it("looks at nothing that is large, binary or outside, and tells no secret", async () => {
    await put("large.txt", "x".repeat(200_000));
    await put("binary", "a\0b");
    await writeFile(join(folder, "outside.txt"), "mine");
    for (const path of ["large.txt", "binary", join(folder, "outside.txt"), "../outside.txt"])
      expect(await shown(call(path, path, "new\n")), path).toHaveLength(1);
    await put("key.txt", "sesame\n");
    expect(JSON.stringify(await shown(call("k", "key.txt", "new\n")))).not.toContain("sesame");
  });

  it("knows what Codex writes whole, and leaves its patches alone", async () => {
    await put("a.txt", "old\n");
    await put("b.txt", "old\n");
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
