import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, it } from "vitest";
import { openBrowser, requireBrowser, type TestBrowser } from "../../support/browser.ts";
import { script } from "../../support/engine.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../../examples");
let example: ChildProcess | undefined;
let browser: TestBrowser | undefined;

afterEach(async () => {
  await browser?.close();
  if (!example || example.exitCode !== null) return;
  const exit = once(example, "exit");
  example.kill("SIGTERM");
  await exit;
});

describe.each(["tanstack-chat", "ag-ui-client"])("the example %s, in a real browser", (name) => {
  it("shows what the agent says and does, live, and asks", { timeout: 90_000 }, async ({ skip }) => {
    const { path, reason } = requireBrowser();
    if (path === undefined) return skip(reason);
    example = spawn(process.execPath, [`${EXAMPLES}/${name}/start.mjs`], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    if (!example.stdout) throw new Error("no stdout");
    const [line] = (await once(createInterface({ input: example.stdout }), "line")) as [string];
    browser = await openBrowser(path);
    const page = await browser.page();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(line.replace("open ", ""));
    const prompt = page.getByLabel("Prompt");
    await prompt.fill(
      script(
        { think: "let me see" },
        { say: "working on it" },
        { write: { path: "made.txt", content: "x" } },
        { ask: { shell: "echo allowed-$((6 * 7))" } },
        { say: "all done" },
      ),
    );
    await prompt.press("Enter");
    await page.getByText("working on it", { exact: true }).waitFor();
    await page.getByText("let me see", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Allow" }).click();
    await page.getByText("all done", { exact: true }).waitFor();
    await page.getByText("allowed-42").waitFor();
    await page.locator("#files", { hasText: "create /home/user/workspace/made.txt" }).waitFor();
    await page.locator("#status", { hasText: "ready" }).waitFor();
    if (name === "tanstack-chat") {
      await page.reload();
      await page.getByText("all done", { exact: true }).waitFor();
    }
    expect(errors).toEqual([]);
  });
});
