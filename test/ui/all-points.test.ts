import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const NAME = /["`](\d+(?:, \d+)*): \S/g;

it("each of the 30 points of the page's acceptance has a test that names it", () => {
  const files = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".test.ts"));
  const text = files.map((file) => readFileSync(join(import.meta.dirname, file), "utf8")).join("\n");
  const named = new Set(
    [...text.matchAll(NAME)].flatMap(([, numbers]) => (numbers ?? "").split(", ").map(Number)),
  );
  const points = Array.from({ length: 30 }, (_, index) => index + 1);
  expect(points.filter((point) => !named.has(point))).toEqual([]);
});
