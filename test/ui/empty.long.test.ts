import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPage, type PageBench } from "./page-bench.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TABS = ["transcript", "timeline", "files", "terminal", "frames", "usage"];

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
}, 120_000);
afterAll(() => bench?.close());

/** What axe finds wrong, and whether the page is wider than the screen, in both themes and at two widths. */
async function faultsOf(hash: string, words: string): Promise<string[]> {
  const { page } = bench;
  await bench.open(hash);
  await page.waitForSelector(`text=${words}`);
  const faults: string[] = [];
  for (const width of [1280, 320])
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 720 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.evaluate(AXE);
      const found = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as {
          axe: { run(options: object): Promise<{ passes: unknown[]; violations: Violation[] }> };
        };
        const { passes, violations } = await axe.run({
          runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"],
        });
        const { scrollWidth, clientWidth } = document.documentElement;
        return [
          ...(passes.length < 5 ? ["axe has looked at nothing"] : []),
          ...(scrollWidth > clientWidth ? [`${scrollWidth - clientWidth} px too wide`] : []),
          ...violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`),
        ];
      });
      faults.push(...found.map((one) => `${hash} ${width} ${colorScheme}: ${one.slice(0, 400)}`));
    }
  return faults;
}

interface Violation {
  readonly id: string;
  readonly nodes: { readonly html: string }[];
}

describe("the page with nothing to show", () => {
  it("28: no violation where nobody is logged in, where no session is, and in every tab of one without events", async () => {
    const login = await faultsOf("#/", "sluice open");
    await bench.login();
    const list = await faultsOf("#/", "No session");
    await bench.server.client.sessions.create("blank", { agent: "scripted" });
    const tabs: string[] = [];
    for (const tab of TABS) tabs.push(...(await faultsOf(`#/s/blank?tab=${tab}`, "blank")));
    expect([...login, ...list, ...tabs]).toEqual([]);
    expect(bench.faults).toEqual([]);
  }, 240_000);
});
