import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { createCatalog } from "../../../src/catalog/index.ts";
import type { LogLine } from "../../../src/http/index.ts";
import { createOtlpExporter } from "../../../src/http/index.ts";
import { createMemoryLog } from "../../../src/log/index.ts";

it("a catalog that fails is asked again after a pause, and not at once", async () => {
  const log = createMemoryLog();
  const folder = mkdtempSync(join(tmpdir(), "sluice-otlp-"));
  const catalog = createCatalog({ folder });
  await catalog.close();
  const lines: LogLine[] = [];
  const exporter = createOtlpExporter({
    log,
    catalog,
    url: "http://127.0.0.1:9/v1/traces",
    headers: {},
    attributes: {},
    version: "0",
    logger: (line) => void lines.push(line),
  });
  exporter.committed("s1", [{ type: "turn.started" }]);
  for (let turns = 0; turns < 1_000; turns += 1) await turn();
  // The events of the pause do not shorten it.
  exporter.committed("s2", [{ type: "turn.started" }]);
  for (let turns = 0; turns < 1_000; turns += 1) await turn();
  await exporter.close();
  await log.close();
  rmSync(folder, { recursive: true });
  expect(lines).toHaveLength(1);
});
