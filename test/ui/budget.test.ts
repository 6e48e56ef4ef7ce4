import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";

const FOLDER = join(ROOT, "dist", "ui");
const size = (file: string): number => gzipSync(readFileSync(join(FOLDER, file)), { level: 9 }).length;

describe.skipIf(!existsSync(FOLDER))("30: the page's budget", () => {
  const files = readdirSync(FOLDER, { recursive: true })
    .map(String)
    .filter((file) => /\.(?:html|js|css|svg)$/.test(file));
  const index = readFileSync(join(FOLDER, "index.html"), "utf8");

  it("first load: at most 70 KB", () => {
    const first = files.filter((file) => file === "index.html" || index.includes(`/ui/${file}"`));
    expect(first.length).toBeGreaterThan(2);
    expect(first.reduce((sum, file) => sum + size(file), 0)).toBeLessThanOrEqual(70_000);
  });

  it("everything, with the worker and all dialects: at most 190 KB", () => {
    expect(files.reduce((sum, file) => sum + size(file), 0)).toBeLessThanOrEqual(190_000);
  });
});
