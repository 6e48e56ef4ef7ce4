import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import { runTurn, script } from "../../support/engine.ts";
import { codeOf, openApp, type AppBench } from "../app-bench.ts";

const BIG = 5 * 1024 * 1024 + 17;

describe("the files of a checkpoint", () => {
  const workspaces = { "key-of-ann-1234": "ann", "key-of-bob-1234": "bob" };
  let bench: AppBench;
  let client: ReturnType<typeof createClient>;
  let [a, b] = ["", ""];

  beforeAll(async () => {
    bench = await openApp({ token: "operator-token", workspaces });
    client = createClient({ url: bench.url, token: "operator-token" });
    const { engine } = bench.test;
    await engine.create("s", { agent: "scripted", sandbox: "local" }, { tenant: "ann" });
    const shell = (line: string): Promise<unknown> => runTurn(bench.test, "s", script({ shell: line }));
    await shell(
      [
        "mkdir -p src/deep && printf 'one\\ntwo\\nthree\\n' > src/a.txt && printf x > src/deep/b.txt",
        "ln -s /etc/passwd link && ln -s / root && printf '\\0\\1\\2' > bin.dat && printf '\\377\\376' > latin",
        `head -c ${BIG} /dev/urandom > big.dat && yes line | head -c 700000 > long.txt`,
        "printf '<script>' > 'odd \"name\".html' && : > empty && printf gone > gone.txt && printf '#!' > run.sh",
      ].join(" && "),
    );
    a = (await engine.checkpoint("s")).id;
    await shell(
      [
        "printf 'one\\n2\\nthree\\n' > src/a.txt && rm gone.txt && printf new > new.txt && chmod +x run.sh",
        "printf '\\0\\1\\3' > bin.dat && yes other | head -c 700000 > long.txt && ln -sfn /etc/shadow link",
      ].join(" && "),
    );
    b = (await engine.checkpoint("s")).id;
  });
  afterAll(() => bench.close());

  const as = (token: string, path: string): Promise<Response> =>
    bench.call("GET", path, { headers: { authorization: `Bearer ${token}` } });
  const get = (rest: string): Promise<Response> => as("operator-token", `/v1/sessions/s/checkpoints/${rest}`);

  it("are listed by folder, and links are shown as links", async () => {
    const { entries } = await client.checkpoints.tree("s", a);
    const kinds = Object.fromEntries(entries.map(({ name, entryType }) => [name, entryType]));
    expect(kinds).toMatchObject({
      src: "directory",
      link: "symlink",
      root: "symlink",
      "big.dat": "file",
      empty: "file",
    });
    expect(entries.find(({ name }) => name === "link")).toMatchObject({ target: "/etc/passwd" });
    const inner = await client.checkpoints.tree("s", a, "/home/user/workspace/src");
    expect(inner.entries.map(({ name }) => name)).toEqual(["a.txt", "deep"]);
  });

  it("are listed as a whole, page by page", async () => {
    const whole = (await client.checkpoints.tree("s", a, ".", { recursive: true })).entries;
    const paged: typeof whole = [];
    for (let cursor: string | undefined; ;) {
      const page = await client.checkpoints.tree("s", a, ".", {
        recursive: true,
        limit: 3,
        ...(cursor && { cursor }),
      });
      paged.push(...page.entries);
      if (page.next === undefined) break;
      cursor = page.next;
    }
    expect(paged).toEqual(whole);
    expect(whole.map(({ path }) => path)).toContain("/home/user/workspace/src/deep/b.txt");
  });

  it("are read to the byte, a large one too, as downloads", async () => {
    expect(await (await get(`${a}/files?path=src/a.txt`)).text()).toBe("one\ntwo\nthree\n");
    expect(await (await get(`${b}/files?path=src/a.txt`)).text()).toBe("one\n2\nthree\n");
    const { entries } = await client.checkpoints.tree("s", a);
    const listed = entries.find(({ name }) => name === "big.dat");
    const response = await get(`${a}/files?path=big.dat`);
    expect(response.headers.get("content-length")).toBe(String(BIG));
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(bytes.length).toBe(BIG);
    expect(createHash("sha256").update(bytes).digest("hex")).toBe(listed?.sha256);
    expect((await get(`${a}/files?path=empty`)).headers.get("content-length")).toBe("0");
    const html = await get(`${a}/files?path=${encodeURIComponent('odd "name".html')}`);
    expect(html.headers.get("content-type")).toBe("application/octet-stream");
    expect(html.headers.get("x-content-type-options")).toBe("nosniff");
  });

  it.each([
    ["link", "invalid_request"],
    ["root/etc/passwd", "file_not_found"],
    ["link/../../../../etc/passwd", "permission_denied"],
    ["../../../../etc/passwd", "permission_denied"],
    ["/etc/passwd", "invalid_request"],
    ["/home/user/.bashrc", "invalid_request"],
    ["src", "invalid_request"],
    ["none", "file_not_found"],
    ["__proto__", "file_not_found"],
  ])("refuse %s with %s", async (path, code) => {
    expect(await codeOf(await get(`${a}/files?path=${encodeURIComponent(path)}`))).toBe(code);
  });

  it("differ as a unified diff: text by line, all else in one line", async () => {
    const diff = await (await get(`${a}/diff/${b}`)).text();
    expect(diff).toContain("--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    expect(diff).toContain("deleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n");
    expect(diff).toContain("new file mode 100644\n--- /dev/null\n+++ b/new.txt\n");
    expect(diff).toContain("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n");
    expect(diff).toContain("Binary files a/bin.dat and b/bin.dat differ\n");
    expect(diff).toContain("Binary files a/long.txt and b/long.txt differ\n");
    expect(diff).toContain("-/etc/passwd\n");
    expect(diff).not.toContain("big.dat");
    expect(await (await get(`${a}/diff/${a}`)).text()).toBe("");
    expect(await (await get(`${a}/diff/${b}?path=src`)).text()).not.toContain("new.txt");
  });

  it("differ by name", async () => {
    const { changes } = await client.checkpoints.changes("s", { from: a, to: b });
    expect(Object.fromEntries(changes.map(({ path, change }) => [path.split("/").at(-1), change]))).toEqual({
      "a.txt": "changed",
      "bin.dat": "changed",
      "gone.txt": "removed",
      link: "changed",
      "long.txt": "changed",
      "new.txt": "added",
      "run.sh": "changed",
    });
  });

  it("are read while the session rests, and start nothing", async () => {
    // Ends the resting agent, which a restart alone would find again.
    await bench.test.engine.drain({ graceMs: 5_000 });
    await bench.test.restart();
    const head = (await bench.test.log.find("s"))?.head;
    const contents = await bench.test.engine.checkpointContents("s", a);
    expect(contents.list(".", { limit: 10, recursive: false }).entries.length).toBeGreaterThan(5);
    expect((await bench.test.log.find("s"))?.head).toBe(head);
    expect(bench.test.engine.stats()).toMatchObject({ sessionsLive: 0, processesRunning: 0 });
  });
});

describe("the files of a checkpoint of another tenant", () => {
  it("do not exist", async () => {
    const workspaces = { "key-of-ann-1234": "ann", "key-of-bob-1234": "bob" };
    const bench = await openApp({ token: "operator-token", workspaces });
    const { engine } = bench.test;
    for (const tenant of ["ann", "bob"]) {
      await engine.create(`of-${tenant}`, { agent: "scripted", sandbox: "local" }, { tenant });
      await runTurn(bench.test, `of-${tenant}`, script({ write: { path: "secret", content: tenant } }));
    }
    const { id } = await engine.checkpoint("of-ann");
    const own = await engine.checkpoint("of-bob");
    const call = (token: string, path: string): Promise<Response> =>
      bench.call("GET", `/v1/sessions/${path}`, { headers: { authorization: `Bearer ${token}` } });
    const ann = "key-of-ann-1234";
    const bob = "key-of-bob-1234";
    expect(await (await call(ann, `of-ann/checkpoints/${id}/files?path=secret`)).text()).toBe("ann");
    expect(await codeOf(await call(bob, `of-ann/checkpoints/${id}/files?path=secret`))).toBe(
      "session_not_found",
    );
    expect(await codeOf(await call(bob, `of-bob/checkpoints/${id}/files?path=secret`))).toBe(
      "checkpoint_not_found",
    );
    expect(await codeOf(await call(bob, `of-bob/checkpoints/${own.id}/diff/${id}`))).toBe(
      "checkpoint_not_found",
    );
    for (const rest of ["outline", "inputs", "events?as=ag-ui", "events/sse?as=ag-ui", "?at=1"])
      expect(await codeOf(await call(bob, rest.startsWith("?") ? `of-ann${rest}` : `of-ann/${rest}`))).toBe(
        "session_not_found",
      );
    await bench.close();
  });
});
