import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("each of the 30 points of the page's acceptance has a test that names it", () => {
  const named = readdirSync(import.meta.dirname)
    .filter((file) => file.endsWith(".test.ts"))
    .flatMap((file) => [
      ...readFileSync(join(import.meta.dirname, file), "utf8").matchAll(
        /(?:it|describe)(?:\.each\([^"`]*\))?\(\s*["`](\d+(?:, \d+)*): /g,
      ),
    ])
    .flatMap(([, numbers]) => (numbers ?? "").split(", ").map(Number));
  const missing = Array.from({ length: 30 }, (_, index) => index + 1).filter(
    (point) => !named.includes(point),
  );
  expect(missing).toEqual([]);
});
